"""`leadline generate`, on runs of seconds: a model that has learned two sentences, and one that knows words alone."""

import gzip
import io
import json
import re
from pathlib import Path

import pytest
import torch

import leadline as ll
from leadline import generation
from leadline.cli import main
from leadline.errors import UserError
from leadline.models import GPT

SENTENCES = ("the cat sat on the mat.", "a dog ran to the door.")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small GPT that has learned two sentences well."""
    place = tmp_path_factory.mktemp("generate")
    texts = place / "texts"
    texts.mkdir()
    for number in range(24):
        order = [SENTENCES[(number >> k) % 2] for k in range(5)] * 4
        (texts / f"{number:02}.txt").write_text(" ".join(order))
    options = "--model GPT --dim 48 --num-layers 2 --num-heads 2 --p-drop 0 --length 24 --num-tokens 320"
    settings = "--epochs 15 --batch 16 --lr 0.01 --threads 1 --no-report --seed 0"
    folder = str(place / "run")
    assert main(["train", str(texts), *options.split(), *settings.split(), "--folder", folder]) == 0
    return folder


def answer(capsys, *words, code=0):
    capsys.readouterr()
    assert main(["generate", *map(str, words), "--json"]) == code
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def printed(capsys, *words):
    capsys.readouterr()
    assert main(["generate", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_it_goes_on_with_what_it_has_learned(run, capsys):
    assert (
        printed(capsys, run, "--prompt", "the cat sat", "--temperature", 0, "--stop", ".") == "the cat sat on the mat\n"
    )


def test_what_is_shown_piece_by_piece_is_what_json_says(run, capsys):
    line = (run, "--prompt", "a dog", "--most", 40, "--seed", 3, "--top-k", 5)
    told = answer(capsys, *line)
    (text,) = told["texts"]
    assert printed(capsys, *line) == f"a dog{text['text']}\n"
    assert told["tokens"] == text["tokens"] <= 40 and text["why"] in ("most", "token")
    assert answer(capsys, *line)["texts"] == told["texts"]
    assert answer(capsys, run, "--prompt", "a dog", "--most", 40, "--seed", 4)["texts"] != told["texts"]


def test_several_texts_have_the_next_seeds(run, capsys):
    many = answer(capsys, run, "--count", 3, "--most", 12, "--seed", 5)["texts"]
    assert len(many) == 3 and len({text["text"] for text in many}) > 1
    alone = [answer(capsys, run, "--most", 12, "--seed", seed)["texts"][0] for seed in (5, 6, 7)]
    assert [text["text"] for text in alone] == [text["text"] for text in many]
    assert printed(capsys, run, "--count", 3, "--most", 12, "--seed", 5) == "".join(f"{t['text']}\n\n" for t in many)


def test_beams_find_likelier_texts_than_drawing(run, capsys):
    line = (run, "--prompt", "the", "--most", 10)
    found = answer(capsys, *line, "--beams", 4, "--count", 3)["texts"]
    scores = [text["score"] for text in found]
    assert scores == sorted(scores, reverse=True) and len({text["text"] for text in found}) == 3
    groups = answer(capsys, *line, "--beams", 4, "--groups", 4, "--diversity", 3, "--count", 4)["texts"]
    assert len({text["text"] for text in groups}) > 1


def test_a_text_goes_on_behind_the_context_unless_told_not_to(run, capsys):
    line = (run, "--prompt", "the cat", "--most", 60, "--top-k", 1)
    (long,) = answer(capsys, *line)["texts"]
    assert long["tokens"] == 60 or long["why"] == "token"
    (short,) = answer(capsys, *line, "--no-slide")["texts"]
    assert short["why"] in ("context", "token") and short["tokens"] < 24
    assert long["text"].startswith(short["text"])
    beams = (run, "--prompt", "the cat", "--most", 60, "--beams", 2)
    (long,) = answer(capsys, *beams)["texts"]
    assert 24 < long["tokens"] <= 60
    (short,) = answer(capsys, *beams, "--no-slide")["texts"]
    assert short["why"] in ("context", "token") and short["tokens"] < 24


def test_a_prompt_comes_from_a_file(run, capsys, tmp_path):
    (tmp_path / "prompt.txt").write_text("a dog ran\n")
    out = printed(capsys, run, "--prompt-file", tmp_path / "prompt.txt", "--temperature", 0, "--most", 3)
    assert out == printed(capsys, run, "--prompt", "a dog ran", "--temperature", 0, "--most", 3)


@pytest.mark.parametrize(
    "words, message",
    [
        (("--prompt", "a", "--prompt-file", "b"), "the prompt must come from one place"),
        (("--prompt-file", "nowhere.txt"), "--prompt-file must be a file of text. Got no file nowhere.txt"),
        (("--prompt", "a dog ran " * 20, "--no-slide"), "a prompt must leave room in the context of 24 tokens"),
        (("--lines",), "--lines needs a file of prompts"),
        (("--stop", ""), "a stop text must not be empty"),
        (("--allowed", "\u4e2d"), "there must be a token of the characters that are allowed"),
        (("--most", "0"), "most must be a whole number of at least 1"),
        (("--temperature", "-1"), "temperature must be a number of at least 0"),
        (("--diversity", "1"), "--groups and --diversity need beams"),
        (("--beams", "2", "--count", "3"), "count must be a whole number from 1 to 2"),
        (("--seed", "-1"), "seed must be a whole number from 0 to 2^62 - 1. Got seed=-1"),
        (("--seed", "-1", "--beams", "2"), "seed must be a whole number from 0"),
        (("--prompt", "caf\udce9"), "which comes from bytes that are not UTF-8. Save it as UTF-8."),
    ],
)
def test_what_does_not_fit_is_told(run, capsys, words, message):
    assert message in answer(capsys, run, *words, code=2)["error"]


def test_a_run_on_something_else_cannot_write(capsys, tmp_path):
    folder = tmp_path / "moons"
    assert (
        main(
            ["train", "moons", "--num", "60", "--epochs", "1", "--threads", "1", "--no-report", "--folder", str(folder)]
        )
        == 0
    )
    assert "must be trained on the next token" in answer(capsys, folder, "--prompt", "a", code=2)["error"]


def test_special_words_are_not_written_and_a_constraint_is_kept(run):
    trained = ll.load(run)
    own = trained.inputs.tokenizer
    with torch.no_grad():
        for p in trained.model.parameters():
            p.zero_()  # every word is as likely as any other
    (text,) = trained.generate("the", 300)
    assert not {*text.tokens} & {*own.special.nonzero()[0].tolist()} - {own.end}
    only = torch.zeros(own.num_tokens, dtype=torch.bool)
    only[own.encode(" cat")] = True
    assert set(trained.generate("the", 20, allowed=only)[0].tokens) <= {*own.encode(" cat")}
    (text,) = trained.generate("the", 5, allowed=lambda seen: only.expand(len(seen), -1))
    assert set(text.tokens) <= {*own.encode(" cat")}
    (text,) = trained.generate("the", 5, beams=2, allowed=lambda seen: only)
    assert set(text.tokens) <= {*own.encode(" cat")}


def test_one_of_some_texts_is_written(run):
    trained = ll.load(run)
    answers = [" cat sat on the mat", " dog ran to the door", " dog"]
    for options in ({}, {"temperature": 0}, {"beams": 4, "count": 2}):
        found = trained.generate(["the", "a", "a dog ran."], 40, allowed=answers, **options)
        assert {text.text for text in found} <= {*answers} and all(text.why == "token" for text in found)
    assert trained.generate("the", 40, allowed=answers, temperature=0)[0].text == answers[0]
    scores = {text.text: text.score for text in trained.generate("a", 40, allowed=answers, beams=6, count=3, penalty=0)}
    assert scores.keys() == {*answers} and max(scores, key=scores.get) != answers[0]
    with pytest.raises(UserError, match="most must leave room for each of the texts"):
        trained.generate("the", 2, allowed=answers)
    with pytest.raises(UserError, match="a text that may be written must have a token"):
        trained.generate("the", 20, allowed=["yes", ""])
    with pytest.raises(UserError, match="allowed must be text"):
        trained.generate("the", 20, allowed=["yes", 3])


def test_each_text_stays_with_its_prompt_where_a_search_finds_few(run):
    trained = ll.load(run)
    found = trained.generate(["the", "a"], 40, allowed=[" cat", " dog"], beams=5, count=5)
    assert [text.prompt for text in found] == ["the", "the", "a", "a"]


def test_a_model_without_a_cache_writes_the_same(run):
    trained = ll.load(run)

    class Whole(torch.nn.Module):
        def __init__(self, inner: GPT):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x)

    options = {"most": 30, "top_k": 5, "slide": True}
    plain = generation.generate(Whole(trained.model), trained.inputs, ["the cat", "a"], **options)
    assert [text.text for text in plain] == [text.text for text in trained.generate(["the cat", "a"], **options)]


@pytest.mark.parametrize("word", ["--temperature 0.5", "--top-k 3", "--top-p 0.9", "--repetition 2"])
def test_words_are_drawn_or_searched_for_and_not_both(run, word, capsys):
    assert main(["generate", run, "--prompt", "a dog", "--beams", "3", *word.split()]) == 2
    assert "beams search" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "options, message",
    [
        ({"groups": 2}, "groups is for a search with beams. Got groups=2 beside beams=1. Pass beams=6"),
        ({"diversity": 0.5}, "diversity is for a search with beams"),
        ({"penalty": 2.0}, "penalty is for a search with beams"),
        ({"early": True}, "early is for a search with beams"),
        ({"count": "2"}, "count must be a whole number of at least 1. Got count='2' (text). Write count=2"),
        ({"beams": "2"}, "beams must be a whole number from 1 to 1024. Got beams='2' (text). Write beams=2"),
    ],
)
def test_an_option_that_would_do_nothing_or_is_no_number_is_refused(run, options, message):
    with pytest.raises(UserError, match=re.escape(message)):
        ll.load(run).generate("a dog", 5, **options)


def test_a_folder_is_no_file_of_texts(run, tmp_path, capsys):
    assert main(["predict", run, str(tmp_path)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "must be a file of text" in told and "the folder" in told


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_texts_are_read_however_they_are_written(run, tmp_path, capsys, encoding):
    text = "the cät\r\n\r\na dog\fran\r\n"
    (tmp_path / "plain.txt").write_bytes(text.replace("\r\n", "\n").encode())
    (tmp_path / "other.txt").write_bytes(text.encode(encoding))
    with gzip.open(tmp_path / "packed.txt.gz", "wb") as file:
        file.write(text.encode(encoding))
    found = []
    for name in ("plain.txt", "other.txt", "packed.txt.gz"):
        assert main(["predict", run, str(tmp_path / name)]) == 0
        line = (run, "--prompt-file", tmp_path / name, "--most", 3)
        found.append((capsys.readouterr().out, answer(capsys, *line)["texts"]))
    assert found[0] == found[1] == found[2] and found[0][0].count("\n") == 3


def test_texts_are_piped_in(run, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("\ufeffthe cat sat\r\n"))
    assert main(["predict", run, "-"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("the cat sat,")
    for more in ((), ("--lines",)):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
        told = answer(capsys, run, "--prompt-file", "-", *more, "--most", 2, code=2 if more else 0)
        assert not more or "--prompt-file must hold texts, one a line. Got nothing on standard input" in told["error"]
    for closed in (None, _Closed(), io.StringIO(""), io.StringIO("\ufeff")):
        monkeypatch.setattr("sys.stdin", closed)
        assert "standard input, which must hold text" in answer(capsys, run, "--prompt-file", "-", code=2)["error"]
        assert main(["predict", run, "-"]) == 2


def test_several_prompts_are_answered_as_each_alone(run, tmp_path, capsys, monkeypatch):
    (tmp_path / "beginnings.txt").write_text("the cat\n\na dog ran\nthe\n")
    line = (run, "--temperature", 0, "--most", 6)
    alone = [answer(capsys, *line, "--prompt", text)["texts"][0] for text in ("the cat", "a dog ran", "the")]
    for together in (64, 2):
        monkeypatch.setattr("leadline.cli.generate._TOGETHER", together)
        found = answer(capsys, *line, "--prompt-file", tmp_path / "beginnings.txt", "--lines")["texts"]
        assert [text["text"] for text in found] == [text["text"] for text in alone]
    main(["generate", *map(str, line), "--prompt-file", str(tmp_path / "beginnings.txt"), "--lines"])
    assert "note: 1 empty line left out (line 2)" in capsys.readouterr().err
    asked = answer(capsys, *line, "--prompt", "the cat", "--prompt", "a dog ran", "--prompt", "the")["texts"]
    assert asked == found and "a dog ran to the door" in printed(capsys, *line, "--prompt", "the", "--prompt", "a dog")
    drawn = (run, "--prompt", "the", "--prompt", "a", "--prompt", "", "--count", 2, "--seed", 5)
    monkeypatch.setattr("leadline.cli.generate._TOGETHER", 64)
    whole = [text["text"] for text in answer(capsys, *drawn)["texts"]]
    monkeypatch.setattr("leadline.cli.generate._TOGETHER", 2)
    assert [text["text"] for text in answer(capsys, *drawn)["texts"]] == whole  # seeds count on


def test_a_text_ends_at_the_first_of_several_stops(run, capsys):
    line = (run, "--prompt", "the cat", "--temperature", 0, "--most", 8)
    assert printed(capsys, *line, "--stop", ",", "--stop", " on") == "the cat sat\n"


def test_only_characters_that_are_allowed_are_written(run, capsys):
    for words in ((), ("--beams", "2")):
        (text,) = answer(capsys, run, "--prompt", "the cat", "--allowed", "aot ", "--most", 9, *words)["texts"]
        assert text["text"] and set(text["text"]) <= set("aot ")


@pytest.mark.parametrize("words", [(), ("--beams", "2")])
def test_of_a_long_prompt_the_end_is_read_and_told(run, capsys, words):
    long, settings = "a dog ran to the door. " * 20, ("--most", 5, *(words or ("--temperature", 0)))
    capsys.readouterr()
    assert main(["generate", run, "--prompt", long, *map(str, settings), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "the last 12 are read" in err
    own = ll.load(run).inputs.tokenizer
    end = own.decode(own.encode(long)[-12:])
    (text,) = json.loads(out)["texts"]
    assert text["text"] == answer(capsys, run, "--prompt", end, *settings)["texts"][0]["text"]


class _Closed(io.StringIO):
    def read(self, size=-1):
        raise OSError(9, "Bad file descriptor")


def test_each_line_of_a_file_is_scored(run, tmp_path, capsys):
    (tmp_path / "lines.txt").write_text("the cat sat on the mat.\nmat the on tas tac eht.\n")
    assert main(["predict", run, str(tmp_path / "lines.txt")]) == 0
    known, strange = (line.split(",") for line in capsys.readouterr().out.splitlines()[1:3])
    assert float(known[-1]) < 1 < float(strange[-1])  # bits a byte


def test_the_text_of_the_run_is_not_read_again(run, capsys, monkeypatch):
    """A large one takes minutes, and neither writing nor predicting needs it."""
    monkeypatch.setattr("leadline.verbs.load_data", lambda recipe: pytest.fail("read"))
    assert answer(capsys, run, "--prompt", "the cat", "--most", 2)["tokens"] == 2
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat sat\n"))
    assert main(["predict", run, "-"]) == 0


def test_a_file_of_the_folder_that_was_trained_on_is_not_written_over(run, capsys, monkeypatch):
    file = Path(run).parent / "texts" / "03.txt"
    before = file.read_text()
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat sat\n"))
    assert main(["predict", run, "-", "--output", str(file)]) == 2
    assert "--output must not be a file that is read. Got" in capsys.readouterr().err
    assert file.read_text() == before
