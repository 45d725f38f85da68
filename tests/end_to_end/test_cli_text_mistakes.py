"""What a newcomer with text does wrong, from the shell: one message each, and no word of what was not asked; and texts
of one's own that a run is measured on.
"""

import csv
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import leadline as ll
from leadline.cli import main, recipe, train, usual
from leadline.cli.line import parse
from leadline.interop import hugging_face

SMALL = ["--dim", "16", "--num-layers", "1", "--num-heads", "2", "--epochs", "1", "--threads", "1", "--no-report"]
GOOD, BAD = ("bright", "warm", "sharp"), ("dull", "cold", "flat")


def write_all(place):
    """Texts, reviews, pairs, questions and tagged words below a folder."""
    (place / "texts").mkdir()
    for k in range(20):
        words = f"the cat sat on mat {k}. a dog ran to door {k}. the cat ran to the dog. "
        (place / "texts" / f"{k:02}.txt").write_text(words * 3)
    reviews = [f"the film was {a} and {b},{s}" for s, w in (("up", GOOD), ("down", BAD)) for a in w for b in w]
    (place / "reviews.csv").write_text("review,stars\n" + "\n".join(reviews * 3) + "\n")
    (place / "pairs.tsv").write_text("".join(f"the cat has {k} mats.\tle chat a {k} tapis.\n" for k in range(40)))
    asked = [f"where is {k}?,the cat {k} sat in {town}.,{town}" for k in range(20) for town in ("Rome", "Oslo")]
    (place / "spans.csv").write_text("question,context,answer\n" + "\n".join(asked))
    (place / "tags.txt").write_text("\n".join(f"the DET\n{w} NOUN\nran VERB\n" for w in ("cat", "dog", "bird") * 8))
    sources = {
        "next": ("texts", "--length", "16"),
        "masked": ("texts", "--length", "16", "--task", "masked"),
        "classes": ("reviews.csv", "--text", "review", "--target", "stars"),
        "pairs": ("pairs.tsv", "--task", "pairs"),
        "spans": ("spans.csv", "--text", "question,context", "--target", "answer", "--task", "spans"),
        "tags": ("tags.txt", "--task", "tags"),
    }
    for task, (source, *options) in sources.items():
        folder = ["--folder", str(place / "runs" / task)]
        assert main(["train", str(place / source), *options, "--num-tokens", "290", *SMALL, *folder]) == 0


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    place = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LEADLINE_CACHE", str(place / "cache"))
        write_all(place)
        yield place


@pytest.fixture
def told(walk, capsys, monkeypatch):
    """The message of a command that is refused, in the folder of the walk."""
    monkeypatch.chdir(walk)

    def refused(*words):
        capsys.readouterr()
        assert main(list(map(str, words))) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        return line

    return refused


def measured(capsys, *words):
    capsys.readouterr()
    assert main(["evaluate", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize(
    "task, own", [("classes", "reviews.csv"), ("pairs", "pairs.tsv"), ("spans", "spans.csv"), ("tags", "tags.txt")]
)
def test_a_run_on_text_is_measured_on_a_file_as_on_its_splits(walk, capsys, task, own):
    run = ll.load(walk / "runs" / task)
    found = measured(capsys, run.folder, "--data", walk / own)
    splits = [run.evaluate(name) for name in ("train", "val", "test")]
    rows = [split.count for split in splits]
    assert found["rows"] == sum(rows) and found["data"] == str(walk / own)
    if task in ("classes", "spans"):  # of the others a row weighs as its tokens do
        nll = sum(split["nll"] * count for split, count in zip(splits, rows)) / sum(rows)
        assert found["metrics"]["nll"] == pytest.approx(nll, rel=1e-5)


@pytest.mark.parametrize("task", ["next", "masked"])
def test_a_run_that_reads_is_measured_on_texts_packed_as_in_training(walk, tmp_path, capsys, task):
    run = ll.load(walk / "runs" / task)
    text = run.inputs.decode(run.data.test.x)
    joined = "".join(text).replace("<end>", "")
    assert run.data.test.x.shape[1] == 16 and "cat" in joined
    held = [file for file in sorted((walk / "texts").iterdir()) if file.read_text() in joined]
    assert len(held) == 1  # whole documents are held out, and one of twenty is the test split
    found = measured(capsys, run.folder, "--data", held[0])
    assert found["rows"] == len(run.data.test)
    assert found["metrics"]["nll"] == pytest.approx(run.evaluate("test")["nll"], rel=1e-4)
    (tmp_path / "short.txt").write_text("the cat")
    assert measured(capsys, run.folder, "--data", tmp_path / "short.txt")["rows"] == 1


def test_what_cannot_be_measured_says_what_it_wants(told, walk):
    assert "must be evaluated on a table. Got the folder texts" in told("evaluate", "runs/classes", "--data", "texts")
    assert "no nowhere.txt" in told("evaluate", "runs/next", "--data", "nowhere.txt")
    (walk / "unknown.csv").write_text("review,stars\nfine,sideways\n")
    assert "sideways" in told("evaluate", "runs/classes", "--data", "unknown.csv")
    (walk / "tags2.txt").write_text("the DET\ncat BEAST\n\n" * 3)
    assert "BEAST" in told("evaluate", "runs/tags", "--data", "tags2.txt")


def test_texts_of_two_columns_are_not_answered_from_one(told, walk):
    rows = [f"{a} and {b},the play was {a},{a == b}" for a in GOOD for b in (*GOOD, *BAD)]
    (walk / "same.csv").write_text("one,other,same\n" + "\n".join(rows * 3) + "\n")
    options = ["--text", "one,other", "--target", "same", "--num-tokens", "290", *SMALL]
    assert main(["train", str(walk / "same.csv"), *options, "--folder", str(walk / "runs" / "same")]) == 0
    (walk / "lines.txt").write_text("bright and warm\n")
    for run, columns in (("same", "one and other"), ("spans", "question and context")):
        line = told("predict", f"runs/{run}", "lines.txt")
        assert "texts of 2 columns must come as a table. Got lines.txt, lines of text" in line
        assert f"Write a .csv with the columns {columns}" in line


def test_what_cannot_be_read_is_told_before_flags_of_a_model(told, walk):
    (walk / "a.bin").write_bytes(bytes(range(256)))
    assert "a table's file must end in .csv" in told("train", "a.bin", *SMALL)
    (walk / "a.tsv").touch()
    assert "a.tsv must hold a table. Got an empty file" in told("train", "a.tsv", *SMALL)
    assert main(["train", "a.bin", "--help"]) == 0


def test_a_long_text_is_scored_to_its_end(walk, tmp_path, capsys):
    (tmp_path / "long.txt").write_text("the cat sat on a mat. " * 30 + "\n")
    assert (
        main(["predict", str(walk / "runs" / "next"), str(tmp_path / "long.txt"), "--output", str(tmp_path / "o.csv")])
        == 0
    )
    tokens, nll, _ = (tmp_path / "o.csv").read_text().splitlines()[1].split(",")[1:]
    own = ll.load(walk / "runs" / "next").inputs.tokenizer
    assert int(tokens) == len(own.encode("the cat sat on a mat. " * 30)) > 16 and 0 < float(nll) < 10


@pytest.mark.parametrize("task", ["next", "masked", "classes", "pairs", "spans", "tags"])
def test_a_cell_that_holds_no_text_has_a_row_of_its_own(walk, tmp_path, capsys, task):
    names = ll.load(walk / "runs" / task).inputs.names or ("text",)
    rows = [{**dict.fromkeys(names, ""), "id": 1}, {**dict.fromkeys(names, "the cat"), "id": 2}]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, [*names, "id"])
        out.writeheader()
        out.writerows(rows)
    assert main(["predict", str(walk / "runs" / task), str(tmp_path / "rows.csv")]) == 0
    said = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["id"] for row in said] == ["1", "2"]
    if task == "next":
        assert [said[0][name] for name in ("tokens", "nll", "bits_per_byte")] == ["0", "", ""] and said[1]["nll"]


@pytest.mark.parametrize("task", ["classes", "pairs"])
def test_what_is_cut_is_told(walk, tmp_path, capsys, task):
    (tmp_path / "lines.txt").write_text("the cat\n" + "the cat sat on a mat. " * 30 + "\n")
    assert main(["predict", str(walk / "runs" / task), str(tmp_path / "lines.txt")]) == 0
    assert "note: 1 text cut" in capsys.readouterr().err


@pytest.mark.parametrize("task, word", [("tags", "cat"), ("masked", "<mask>")])
def test_a_line_that_is_too_long_is_read_in_parts_and_told(walk, tmp_path, capsys, task, word):
    run = ll.load(walk / "runs" / task)
    (tmp_path / "lines.txt").write_text("the cat ran\n\n" + f"the {word} sat on a mat. " * 30 + "\nthe dog ran\n")
    assert main(["predict", str(run.folder), str(tmp_path / "lines.txt")]) == 0
    said = capsys.readouterr()
    at_once = f"longer than the {run.inputs.length} tokens that the model reads at once, and read in parts"
    assert f"note: 1 text {at_once}: line 3\n" in said.err
    assert "note: 1 empty line left out (line 2)\n" in said.err
    _, short, (text, answer), last = csv.reader(said.out.splitlines())
    if task == "tags":  # one for each word; and of the first words those that they have alone
        assert [len(row[1].split()) for row in (short, (text, answer), last)] == [3, 180, 3]
        assert set(answer.split()) <= set(run.target.classes)
    else:  # what was not hidden stands as it was
        assert "note: 2 texts without <mask>, where nothing is to be filled in\n" in said.err
        assert short == ["the cat ran"] * 2 and "<mask>" not in answer
        assert len(run.inputs.tokenizer.encode(answer)) > 4 * run.inputs.length and answer.count("mat.") >= 30


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("told.txt", "the DET\ncat NOUN\n\nthe DET\ndog NOUN\nran VERB\n"),
        (
            "two.conllu",
            "".join(
                f"{k}\t{w}\t_\tX" + "\t_" * 6 + "\n" * n
                for k, w, n in [(1, "the", 1), (2, "cat", 2), (1, "the", 1), (2, "dog", 1), (3, "ran", 1)]
            ),
        ),
        ("words.txt", "the\ncat\n\nthe\ndog\nran\n"),
        ("words.conll", "the\ncat\n\nthe\ndog\nran\n"),
    ],
)
def test_tags_are_predicted_of_the_words_of_a_file_that_holds_a_word_a_line(walk, tmp_path, capsys, name, lines):
    (tmp_path / name).write_text(lines)
    assert main(["predict", str(walk / "runs" / "tags"), str(tmp_path / name)]) == 0
    said = capsys.readouterr()
    (_, *rows) = csv.reader(said.out.splitlines())
    assert [row[0] for row in rows] == ["the cat", "the dog ran"] and [len(row[1].split()) for row in rows] == [2, 3]
    assert ("holds tags, which are left aside" in said.err) is not name.startswith("words")


def test_words_with_spaces_have_one_tag_and_texts_stay_texts(walk, tmp_path, capsys):
    (tmp_path / "cities.txt").write_text("New York\tNOUN\nran\tVERB\n")
    (tmp_path / "plain.txt").write_text("the cat ran\nthe dog\nbird\n")
    for name, counts in (("cities.txt", [2]), ("plain.txt", [3, 2, 1])):
        assert main(["predict", str(walk / "runs" / "tags"), str(tmp_path / name)]) == 0
        (_, *rows) = csv.reader(capsys.readouterr().out.splitlines())
        assert [len(row[1].split()) for row in rows] == counts


def test_a_file_of_conllu_is_trained_on_as_tags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{k}\t{w}\t_\t{tag}" + "\t_" * 6 for k, (w, tag) in enumerate((("the", "DET"), ("cat", "NOUN")), 1)]
    (tmp_path / "x.conllu").write_text("\n".join([*lines, ""] * 12))
    assert main(["train", "x.conllu", "--num-tokens", "290", *SMALL, "--folder", "run"]) == 0
    run = ll.load("run")
    assert type(run.model).__name__ == "BERT" and run.target.classes == ("DET", "NOUN")


def test_lists_of_tagged_words_are_trained_on_predicted_and_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [{"words": ["the", "New York", f"mat{k}"], "tags": ["DET", "NAME", "NOUN"]} for k in range(30)]
    Path("x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["train", "x.jsonl", "--num-tokens", "290", *SMALL, "--folder", "run"]) == 0
    run = ll.load("run")
    assert type(run.model).__name__ == "BERT" and run.target.classes == ("DET", "NAME", "NOUN")
    assert usual.default_model("x.jsonl") == "BERT"  # whose flags are offered
    capsys.readouterr()
    assert main(["predict", "run", "x.jsonl"]) == 0
    (_, first, *rest) = csv.reader(capsys.readouterr().out.splitlines())
    assert first[0] == "the New York mat0" and len(first[1].split()) == 3 and len(rest) == 29
    assert measured(capsys, "run", "--data", "x.jsonl")["rows"] == 30


def test_a_sentence_that_is_too_long_to_translate_is_refused(told):
    assert "Translate its parts" in told("generate", "runs/pairs", "--prompt", "the cat has mats " * 50)


def test_the_mask_takes_the_space_before_it_where_words_do(walk):
    inputs = ll.load(walk / "runs" / "masked").inputs
    mask, own = inputs.tokenizer.mask, inputs.tokenizer
    assert inputs.encode(inputs.read(["the <mask> sat"]))[0].tolist() == [*own.encode("the"), mask, *own.encode(" sat")]
    letters = ll.text.Tokenizer.train(["the cat sat"], kind="bytes")
    plain = ll.data.Tokens("masked", 32, letters)
    assert plain.encode(plain.read(["a <mask>"]))[0].tolist() == [*letters.encode("a "), letters.mask]


def test_folders_that_hold_too_little_say_so_whatever_flags_come_with_them(told, walk):
    for name in ("empty", "nothing", "mixed"):
        (walk / name).mkdir(exist_ok=True)
    (walk / "nothing" / "a.txt").write_text("")
    (walk / "nothing" / "b.txt").write_text("")
    assert "2 are empty: a.txt, b.txt" in told("train", "nothing")
    assert "must hold pictures or text. Got no files" in told("train", "empty", "--dim", "16")
    assert "Got no nowhere/" in told("train", "nowhere/", "--dim", "16")
    assert "Beside it lie reviews.csv" in told("evaluate", "runs/next", "--data", "review.csv").replace("./", "")
    shutil.copy(walk / "texts" / "01.txt", walk / "mixed" / "a.txt")
    from PIL import Image

    Image.new("RGB", (8, 8)).save(walk / "mixed" / "b.png")
    assert "--task next" in told("train", "mixed")
    assert (
        main(["train", "mixed", "--task", "next", "--length", "8", *SMALL, "--folder", str(walk / "runs/mixed")]) == 0
    )


def test_tables_of_text_that_are_not_read_as_text(told, walk):
    assert "--task pairs" in told("train", "reviews.csv")
    assert "this flag needs a table that is read as text. Got --num-tokens" in told(
        "train", "reviews.csv", "--num-tokens", "400"
    )
    assert "one column of text. Got 2" in told("train", "reviews.csv", "--text", "review,stars")
    both = ("--text", "review", "--source", "review", "--target", "stars")
    assert "for texts or for pairs" in told("train", "reviews.csv", *both)
    (walk / "head.csv").write_text("review,stars\n")
    assert "Got 0 of 0" in told("train", "head.csv", "--text", "review", "--target", "stars")
    (walk / "ragged.csv").write_text("review,stars\na,b\na,b,c,d\n")
    said = told("train", "ragged.csv", "--text", "review", "--target", "stars")
    assert "4 on line 3" in said and "bad" not in said
    assert "--bad-rows refuse" in told("train", "ragged.csv", "--target", "stars")


@pytest.mark.parametrize(
    "words, fitting",
    [
        (("texts", "--model", "BERT"), "Use GPT"),  # which would see the word that it is asked for
        (("texts", "--task", "masked", "--model", "GPT"), "Use BERT"),
        (("reviews.csv", "--text", "review", "--target", "stars", "--model", "GPT"), "Use BERT"),
        (("reviews.csv", "--text", "review", "--target", "stars", "--from", "runs/next"), "Use BERT"),
        (("pairs.tsv", "--task", "pairs", "--model", "BERT"), "Use Transformer or T5"),
    ],
)
def test_a_model_of_text_is_refused_for_what_it_cannot_learn(told, words, fitting):
    assert fitting in told("train", *words)


def test_a_rule_is_not_blamed_on_settings_that_nobody_named(told):
    said = told("train", "texts", "--length", "16", "--rule", "Newton", *SMALL[:6])
    assert "clip" not in said and "Newton" in said


def test_beams_have_a_range(told):
    for count in (0, -1, 100_000):
        assert "beams must be a whole number from 1 to" in told("generate", "runs/next", "--beams", count)


def test_ranks_of_updates_have_a_range(told):
    tune = ("train", "reviews.csv", "--text", "review", "--target", "stars", "--from", "runs/masked", "--lora")
    assert "lora must be" in told(*tune, 0) and "at most 16" in told(*tune, 10_000)


def test_weights_come_with_their_tokenizer(told, walk):
    tune = ("train", "reviews.csv", "--text", "review", "--target", "stars", "--from")
    shutil.copytree(walk / "runs" / "masked", walk / "lost", dirs_exist_ok=True)
    (walk / "lost" / "tokenizer.json").unlink()
    assert "no tokenizer.json in lost" in told(*tune, "lost")
    assert "--kind is for a tokenizer that is trained here" in told(*tune, "runs/masked", "--kind", "bytes")
    shutil.copytree(walk / "runs" / "next", walk / "damaged", dirs_exist_ok=True)
    (walk / "damaged" / "tokenizer.json").write_text('{"a": ')
    assert "damaged/tokenizer.json as it was written" in told("generate", "damaged", "--prompt", "a")


@pytest.fixture
def gpt2(walk):
    """A folder of Hugging Face's, whose vocabulary was rounded up."""
    own = ll.load(walk / "runs" / "next").inputs.tokenizer
    torch.manual_seed(0)
    model = ll.models.GPT(num_tokens=own.num_tokens + 6, length=16, dim=16, num_layers=1, num_heads=2)
    shutil.rmtree(walk / "gpt2", ignore_errors=True)
    hugging_face.save(model, walk / "gpt2", own)
    return walk / "gpt2"


def test_rows_that_a_vocabulary_was_rounded_up_by_are_left_out(gpt2, walk, capsys, monkeypatch):
    monkeypatch.chdir(walk)
    shutil.rmtree(walk / "runs" / "rounded", ignore_errors=True)
    words = ["train", "texts", "--length", "16", "--from", "gpt2", "--epochs", "1", "--threads", "1", "--no-report"]
    assert main([*words, "--folder", "runs/rounded"]) == 0
    out = capsys.readouterr().out
    assert "16 tensors loaded" in out and "new:" not in out


def test_a_folder_of_hugging_face_that_is_not_whole_is_refused(told, gpt2):
    def edited(change):
        tensors = load_file(gpt2 / "model.safetensors")
        change(tensors)
        save_file(tensors, gpt2 / "model.safetensors", metadata={"format": "pt"})

    words = ("train", "texts", "--length", "16", "--from", "gpt2")
    edited(lambda tensors: tensors.update({"transformer.h.7.ln_1.weight": torch.ones(16)}))
    assert "transformer.h.7.ln_1.weight, which it has not" in told(*words)
    edited(lambda tensors: tensors.pop("transformer.h.7.ln_1.weight"))
    edited(lambda tensors: tensors.update({"transformer.wpe.weight": torch.ones(16, 15)}))
    assert "(16, 15) in gpt2" in told(*words)
    edited(lambda tensors: tensors.pop("transformer.wpe.weight"))
    assert "no transformer.wpe.weight" in told(*words)
    (gpt2 / "config.json").unlink()
    assert "gpt2, which has no config.json" in told(*words)


def test_a_tokenizer_of_more_words_than_the_weights_know_is_refused(told, gpt2):
    more = ll.text.Tokenizer.train([f"word{k} other{k} " * 3 for k in range(300)], "bpe", 600)
    more.save(gpt2 / "tokenizer.json")
    assert "no more tokens than the weights know. Got one of" in told(
        "train", "texts", "--length", "16", "--from", "gpt2"
    )


def test_show_data_counts_tokens_and_not_their_numbers(walk, capsys):
    assert main(["show", "data", str(walk / "texts"), "--length", "16"]) == 0
    out = capsys.readouterr().out
    assert "tokens  a row" in out and "deviation" not in out


def test_one_row_has_no_interval(capsys):
    from leadline.cli.screen import Screen
    from leadline.engine.evaluation import Evaluation

    Screen(False).metrics({"test": Evaluation({"nll": 0.5}, {"nll": (float("nan"),) * 2}, 1)})
    assert "nan" not in capsys.readouterr().out


def test_one_rate_is_told_where_weights_have_learned(walk, capsys, monkeypatch):
    monkeypatch.chdir(walk)
    line = ["train", "reviews.csv", "--text", "review", "--target", "stars", "--from", "runs/masked"]
    assert main([*line, "--epochs", "1", "--threads", "1", "--no-report", "--folder", "runs/rate"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("--lr 0.0001") == 1 and "--lr 0.001 " not in told and "--clip 1.0" in told


def test_the_command_that_goes_on_is_quoted(walk, capsys):
    moved = walk / "runs of mine"
    shutil.copytree(walk / "runs" / "next", moved)
    config = json.loads((moved / "run.json").read_text())
    (moved / "run.json").write_text(json.dumps({**config, "ended": None}))
    capsys.readouterr()
    assert main(["show", "run", str(moved)]) == 0
    assert f"leadline resume '{moved}'" in capsys.readouterr().out


def test_a_text_of_one_letter_is_not_sent_round_in_circles(told, walk):
    (walk / "letter.txt").write_text("x")
    for length in (16, 2):
        line = told("train", "letter.txt", "--length", length)
        assert f"length={length} for 2 tokens" in line and "Pass" not in line and "more text" in line


@pytest.mark.parametrize(
    "flags",
    [
        {"text": "review"},
        {"text": "review", "target": "stars"},
        {"source": "review", "target": "stars"},
        {"task": "masked", "text": "review"},
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_flags_are_those_of_the_model_that_is_trained(tmp_path, ending, flags):
    reviews = [
        {"review": f"a {GOOD[k % 3]} or {BAD[k % 2]} film {k}, again and again", "stars": k % 2} for k in range(60)
    ]
    rows = [json.dumps(row) for row in reviews] if ending == "jsonl" else ["review,stars"]
    rows += [] if ending == "jsonl" else [f'"{row["review"]}",{row["stars"]}' for row in reviews]
    place = str(tmp_path / f"reviews.{ending}")
    (tmp_path / f"reviews.{ending}").write_text("\n".join(rows))
    data = recipe.make_data(place, {**flags, "kind": "bytes", "length": 16})
    line = [place, *(word for name, value in flags.items() for word in (f"--{name}", value))]
    assert usual.default_model(place, flags.get("task"), line) == usual.default_for(data)


def test_a_tsv_of_two_columns_of_words_is_pairs_by_itself(tmp_path, capsys):
    place = tmp_path / "pairs.tsv"
    place.write_text("".join(f"the {GOOD[k % 3]} day {k}\tle jour {BAD[k % 2]} {k}\n" for k in range(60)))
    line = ["train", str(place), "--dim", "16", "--num-layers", "1", "--epochs", "1", "--kind", "bytes", "--no-report"]
    assert main([*line, "--folder", str(tmp_path / "run")]) == 0
    run = ll.load(tmp_path / "run")
    assert (type(run.model).__name__, run.inputs.task) == ("Transformer", "pairs")
    capsys.readouterr()
    assert main(["show", "data", str(place), "--text", "column_1"]) == 0
    assert "in 60 documents" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("device", "flags", "sizes"),
    [
        ("cpu", [], (128, 4, 4)),
        ("cuda", [], (384, 6, 6)),
        ("cpu", ["--p-drop", "0.2"], (128, 4, 4)),
        ("cpu", ["--dim", "32"], (32, 6, 4)),
        ("cpu", ["--num-layers", "2"], (384, 2, 6)),
        ("cpu", ["--model", "gpt"], (128, 4, 4)),
    ],
)
def test_a_gpt_whose_size_nobody_names_suits_the_machine(walk, monkeypatch, device, flags, sizes):
    monkeypatch.setattr(recipe, "pick_device", lambda name: torch.device(device))
    monkeypatch.chdir(walk)
    argv = ["texts", "--length", "16", "--num-tokens", "290", *flags]
    made = recipe.make("texts", parse("train", argv, train.flags(argv)))
    assert (made.model.dim, made.model.num_layers, made.model.num_heads) == sizes
    assert ("--dim 128 --num-layers 4" in made.note) == (sizes == (128, 4, 4))


def test_a_table_of_translations_with_names_says_which_flags_it_needs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("en,fr\n" + "".join(f"the cat {k},le chat {k}\n" for k in range(30)))
    assert main(["train", "pairs.csv"]) == 2
    assert "for translations, --source and --target, or --task pairs where two" in " ".join(
        capsys.readouterr().err.split()
    )
    assert main(["train", "pairs.csv", "--task", "pairs"]) == 2
    assert "source must name a column of pairs.csv. Got no source. Known: en, fr." in capsys.readouterr().err
    assert main(["train", "pairs.csv", "--source", "en"]) == 2
    assert "target must name a column of pairs.csv. Got no target. Known: en, fr." in capsys.readouterr().err


def test_a_run_whose_text_has_moved_is_resumed_from_its_new_place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    for k in range(8):
        (tmp_path / "texts" / f"{k}.txt").write_text(f"the cat sat on mat {k}. " * 20)
    sizes = "--dim 16 --num-layers 1 --num-heads 2 --length 16 --num-tokens 300 --epochs 1 --no-report"
    assert main(["train", "texts", *sizes.split(), "--folder", "run"]) == 0
    (tmp_path / "texts").rename(tmp_path / "moved")
    capsys.readouterr()
    assert main(["resume", "run"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "the data of the run must be where they were. Got no " in told and "leadline resume run --data PLACE" in told
    assert main(["resume", "run", "--data", "moved"]) == 0


def test_a_table_of_which_no_column_is_named_is_told_the_flags_with_its_own_columns(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"x": [k, 1], "y": "ab"[k % 2]}) + "\n" for k in range(9)))
    assert main(["train", str(tmp_path / "a.jsonl")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "Got none named, of x, y. Name them, such as --text x and --target y for classes" in told
    assert told.endswith("--text x alone for the next token, or --field x and --target y for sequences of numbers.")
