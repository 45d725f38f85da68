"""Words of letters to sounds, from the shell: a tokenizer on each side, errors, and texts that training had none of."""

import json
import random

import pytest
import torch

import leadline as ll
from leadline.cli import main
from leadline.errors import UserError
from leadline.models import EncoderDecoder
from leadline.translation import scores, translate

SOUNDS = {"sh": "SH", "ch": "CH", "a": "AE", "e": "EH", "o": "AA", "t": "T", "k": "K", "c": "K", "s": "S", "n": "N"}


def sounds(word):
    """Letters by themselves, but two pairs of them."""
    found = []
    while word:
        letters = word[:2] if word[:2] in SOUNDS else word[:1]
        found.append(SOUNDS[letters])
        word = word[len(letters) :]
    return " ".join(found)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("sounds"), random.Random(0)
    words = sorted({"".join(draw.choices(list(SOUNDS), k=draw.randint(1, 3))) for _ in range(420)})
    lines = [f"{word}\t{sounds(word)}" for word in words]
    (folder / "words.tsv").write_text("\n".join([*lines, "kat\t", "\tK AE"]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(place):
    line = ["--task", "pairs", "--kind", "characters", "--target-kind", "words", "--model", "EncoderDecoder"]
    line += [
        "--cell",
        "gru",
        "--attention",
        "additive",
        "--dim",
        "48",
        "--num-layers",
        "1",
        "--p-drop",
        "0",
        "--epochs",
        "5",
        "--batch",
        "8",
    ]
    line += ["--lr", "0.01", "--threads", "1", "--no-report", "--folder", str(place / "run")]
    assert main(["train", str(place / "words.tsv"), *line]) == 0
    return ll.load(place / "run")


def test_each_side_has_its_own_tokens(run, place):
    inputs = run.inputs
    assert (inputs.reads.kind, inputs.tokenizer.kind) == ("characters", "words")
    assert [inputs.tokenizer.token(t) for t in inputs.tokenizer.encode("SH AE")] == ["ĠSH", "ĠAE"]
    part = run.data.test
    words, said = inputs.decode_sources(part.x), inputs.decode(part.x[:, inputs.len_source :])
    assert said == [sounds(word) for word in words]
    assert (place / "run" / "source_tokenizer.json").is_file() and inputs.config["source_tokenizer"]
    account = str(run.data.account)
    assert "refused 2" in account and "is empty" in account and "of kind characters" in account


def test_it_learns_and_its_errors_are_told(run, capsys):
    assert isinstance(run.model, EncoderDecoder)
    found = scores(run, "test")
    wrong = [a.split() != b.split() for a, b in zip(found.translations, found.references, strict=True)]
    assert found.model_errors.inexact == sum(wrong) / len(wrong) < 0.4
    assert found.model_errors.symbols < 0.5 * found.memory_errors.symbols
    assert main(["evaluate", str(run.folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["translation"]
    assert told["model"]["inexact"] == found.model_errors.inexact and "symbol_errors" in told["memory"]
    assert main(["evaluate", str(run.folder)]) == 0
    shown = capsys.readouterr().out
    assert "not exact" in shown and "wrong symbols" in shown


def test_the_end_of_a_training_says_the_same(place, capsys):
    line = ["--task", "pairs", "--kind", "characters", "--target-kind", "words", "--model", "Transformer", "--dim", "8"]
    line += ["--num-layers", "1", "--num-heads", "1", "--epochs", "1", "--threads", "1", "--no-report", "--json"]
    assert main(["train", str(place / "words.tsv"), *line, "--folder", str(place / "other")]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["translation"]
    assert 0 <= told["model"]["inexact"] <= 1 and told["sentences"] == min(500, told["rows"])


def test_words_come_one_by_one_and_by_beams(run, capsys):
    word = run.inputs.decode_sources(run.data.test.x[:1])[0]
    assert main(["generate", str(run.folder), "--prompt", word, "--beams", "3"]) == 0
    assert capsys.readouterr().out.strip() == translate(run, word, beams=3)[0]
    for likeliest in ([], ["--temperature", "0"]):  # which is what a translation takes where nothing is said
        assert main(["generate", str(run.folder), "--prompt", word, *likeliest]) == 0
        assert capsys.readouterr().out.strip() == translate(run, word, beams=1)[0]
    drawn = {text.text for text in run.generate(word, count=8, temperature=3.0)}
    assert len(drawn) > 1 and len({text.text for text in run.generate(word, count=8)}) > 1


def test_texts_that_training_had_none_of_are_told(run, place, capsys):
    (place / "new.tsv").write_text("column_1\tcolumn_2\nkat\tK AE T\ncafé\tK AE\n\tK\nkatkatkatkatkat\tK\n")
    assert main(["predict", str(run.folder), str(place / "new.tsv")]) == 0
    told = capsys.readouterr()
    assert "1 text holds what the vocabulary lacks, and is read byte by byte there: f, é" in told.err
    assert "1 text cut" in told.err and "1 text empty" in told.err
    assert told.out.splitlines()[3].endswith(",K,")  # an empty source has no sounds
    assert main(["generate", str(run.folder), "--prompt", "ñat"]) == 0
    assert "lacks, and is read byte by byte there: ñ" in capsys.readouterr().err
    assert main(["generate", str(run.folder), "--prompt", "kat" * 9]) == 2
    assert "must have at most" in capsys.readouterr().err
    assert main(["generate", str(run.folder), "--prompt", ""]) == 2
    assert main(["evaluate", str(run.folder), "--data", str(place / "new.tsv")]) == 0
    told = capsys.readouterr()
    assert "1 row without a source or a target left out" in told.err and "not exact" in told.out


def test_the_file_of_training_is_read_as_it_was(run, place, capsys):
    lines = (place / "words.tsv").read_text().splitlines()[:3]
    (place / "few.tsv").write_text("\n".join(lines) + "\n")  # two columns without names
    assert main(["predict", str(run.folder), str(place / "few.tsv")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "column_1,column_2,translation"
    assert [line.split(",")[0] for line in said[1:]] == [line.split("\t")[0] for line in lines]


def test_weights_go_on_with_both_tokenizers(run, place, capsys):
    line = ["--task", "pairs", "--from", str(run.folder), "--epochs", "1", "--threads", "1", "--no-report", "--json"]
    assert main(["train", str(place / "words.tsv"), *line, "--folder", str(place / "again")]) == 0
    again = ll.load(place / "again")
    assert again.inputs.reads == run.inputs.reads and again.inputs.tokenizer == run.inputs.tokenizer
    assert main(["train", str(place / "words.tsv"), *line, "--target-kind", "bytes"]) == 2
    assert "--target-kind is for a tokenizer that is trained" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "next", "kind": "words"}, "kind words needs the task"),
        ({"task": "next", "target_kind": "words"}, "need pairs"),
        ({"task": "pairs", "target_kind": "wrods"}, "Did you mean words"),
    ],
)
def test_kinds_that_make_no_sense_are_refused(place, options, message):
    with pytest.raises(UserError, match=message):
        ll.data.text(place / "words.tsv", **options)


def test_a_model_of_one_vocabulary_is_refused(run):
    with pytest.raises(UserError, match="T5 must be given pairs of one vocabulary.*Transformer or EncoderDecoder"):
        ll.models.build("T5", run.data, run.data.target.dim)


def test_several_right_answers_count_each():
    from leadline.text.translation import errors

    found = errors(["K AE T", "D AO G", "S IY"], [["K AE T"], ["D AA G", "D AO G"], ["S EY D"]])
    assert found.inexact == pytest.approx(1 / 3) and found.symbols == pytest.approx(2 / 9)
    with pytest.raises(UserError, match="a reference for each"):
        errors(["K"], [[]])


def test_the_lens_shows_the_letters_that_a_sound_came_from(run):
    word = max(run.inputs.decode_sources(run.data.test.x), key=len)
    view = ll.lens.alignment(run, word)
    assert view.sources == (tuple(word),)
    assert view.targets == ((*translate(run, word)[0].split(), "■"),)
    x = run.inputs.encode(run.inputs.read([(word, translate(run, word)[0])]))
    wanted = run.model.eval().alignment(x)[0, : len(view.targets[0]), : len(word)]
    torch.testing.assert_close(torch.from_numpy(view.weights[0].copy()), wanted.detach().double())
    given = ll.lens.alignment(run, [(word, "K AE")])
    assert given.targets == (("K", "AE", "■"),) and given.weights[0].shape == (3, len(word))
    assert view.plot().axes[0].get_yticklabels()[0].get_text() == view.targets[0][0]
