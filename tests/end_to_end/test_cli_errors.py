"""Whatever a user gets wrong: exit code 2 and one message that says what must hold, what came and what to do."""

import json
import os
import shutil

import pytest

from leadline.cli import main

QUICK = ("--epochs", "2", "--threads", "1", "--no-report")
ROWS = [(i, i % 7, ("red", "blue")[i % 2], i * 0.5 + i % 3) for i in range(60)]


def write(path, rows=ROWS, header="id,size,colour,price"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with one good table and many bad ones."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "good.csv")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,b\n")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n4,5,6\n")
    (tmp_path / "broken.csv").write_bytes("name,price\nMüller Köhler,3\nM".encode() + b"\xfcller,4\n")
    (tmp_path / "notes.txt").write_text("no table")
    write(tmp_path / "one-row.csv", ROWS[:1])
    write(tmp_path / "one-value.csv", [(*row[:3], 5) for row in ROWS])
    write(tmp_path / "levels.csv", [(f"word {i}", i * 0.5) for i in range(10_000)], "text,price")
    write(tmp_path / "gaps.csv", [("", i * 0.5) for i in range(60)], "nothing,price")
    write(tmp_path / "half.csv", [(row[0], row[1]) for row in ROWS], "id,size")
    write(tmp_path / "words.csv", [(1, "huge", "red")], "id,size,colour")
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run on good.csv, made once; tests that damage it take a copy."""
    place = tmp_path_factory.mktemp("finished")
    table = write(place / "good.csv")
    words = ["train", str(table), "--target", "price", "--hidden", "4", "--folder", str(place / "run"), *QUICK]
    assert main(words) == 0
    return place / "run"


def error(capsys, *words):
    """The message; that it is the only one, without a traceback, and that --json repeats it."""
    capsys.readouterr()
    assert main(list(words)) == 2
    told = capsys.readouterr()
    lines = [line for line in told.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in told.err
    message = lines[0].removeprefix("error: ")
    assert ". Got " in message
    assert message.rstrip().endswith((".", "?")) and "?." not in message
    return message


TABLES = [
    ("goood.csv", "--target price", "must exist", "Did you mean good.csv"),
    ("nowhere/missing.csv", "--target price", "must exist", "nowhere"),
    ("empty.csv", "--target price", "must hold a table", "empty file"),
    ("header.csv", "--target a", "must have rows", "header"),
    ("ragged.csv", "--target a", "must have 2 fields", "--bad-rows refuse"),
    ("broken.csv", "--target price", "UTF-8", "line 3"),
    ("notes.txt", "--target price", "columns need a table", "notes.txt"),
    ("good.csv", "", "--target", "id, size, colour, price"),
    ("good.csv", "--target prise", "must name a column", "Did you mean price"),
    ("good.csv", "--target price --drop sise", "must name a column", "Did you mean size"),
    ("one-row.csv", "--target price", "at least 3 rows", "Got 1"),
    ("one-value.csv", "--target price", "at least two values", "5 in all 60 rows"),
    ("levels.csv", "--target price", "must have few different texts", "--drop text"),
    ("gaps.csv", "--target price", "must have a value in some row", "--drop nothing"),
    ("good.csv", "--target price --val 0.9 --test 0.9", "fractions", "0.9"),
    ("good.csv", "--target price --kind colour", "kind", "colour"),
]


@pytest.mark.parametrize(("file", "flags", "must", "hint"), TABLES, ids=[f"{t[0]} {t[1]}" for t in TABLES])
@pytest.mark.parametrize("verb", ["train", "doctor"])
def test_a_table_that_cannot_be_trained_on(verb, file, flags, must, hint, folder, capsys):
    message = error(capsys, verb, file, *flags.split())
    assert must in message and hint in message, message
    assert not (folder / "runs").exists()


LINES = [
    ("trian xor", "must be a verb", "Did you mean train"),
    ("zebra", "must be a verb", "Known: claims"),
    ("--verbose", "must be a verb", "--verbose"),
    ("train", "needs data", "list data"),
    ("train xorr", "must be a known name", "Did you mean xor"),
    ("train xor extra", "takes 1 word", "'extra'"),
    ("train xor --model MPL", "must be a known name", "Did you mean MLP"),
    ("train xor --model LSTM", "must be a known name", "Take Recurrent with cell lstm"),
    ("train xor --model min-GRU", "must be a known name", "Take Recurrent with cell min_gru"),
    ("train xor --model CNN", "must be a known name", "Take ConvNet"),
    ("train xor --hiden 3", "does not have this flag", "Did you mean --hidden"),
    ("train xor --target y", "does not have this flag", "--target"),
    (
        "train xor --model Linear --hidden 3",
        "model Linear does not have this flag",
        "--hidden is for --model MLP",
    ),
    ("doctor xor --model Linear --no-residual", "Linear does not have this flag", "Linear has no options of its own"),
    ("train xor --likelihood Bernoulli --variance input", "Bernoulli has --label-smoothing", "--likelihood Normal"),
    ("train xor --variance input", "Bernoulli does not have this option", "variance, an option of Normal"),
    ("train sine --variance inputs --epochs 1", "variance must be fixed, learned or input", "inputs"),
    (
        "train xor --label-smoothing 1",
        "label_smoothing must be a number of at least 0 and below 1",
        "--label-smoothing",
    ),
    ("train xor --epochs 3 --epochs 1", "--epochs must be given once", "--epochs twice"),
    ("train xor --model MLP --model Linear", "--model must be given once", "--model twice"),
    ("train xor --report --no-report", "must be given once", "both --report and --no-report"),
    ("train xor --lr=1 --lr 2", "--lr must be given once", "Keep the one"),
    ("train xor --zzzzz", "does not have this flag", "leadline train --help"),
    ("train --epoch 3 xor", "does not have this flag", "Did you mean --epochs"),
    ("train xor -e 3", "does not have this flag", "-e"),
    ("train xor --epochs", "must be followed by a whole number", "--epochs 100"),
    ("train xor --epochs ten", "must be a whole number", "'ten'"),
    ("train xor --epochs 2.5", "must be a whole number", "'2.5'"),
    ("train xor --epochs 0", "at least 1", "epochs=0"),
    ("train xor --batch -1", "at least 1", "batch=-1"),
    ("train xor --lr nan", "above 0", "lr=nan"),
    ("train xor --lr -1", "above 0", "lr=-1"),
    ("train xor --lr -1e5", "above 0", "lr=-1"),
    ("train xor --lr=-inf", "above 0", "lr=-inf"),
    ("train xor --hidden 0", "at least 1", "hidden[0]=0"),
    ("train xor --hidden -4 3", "at least 1", "hidden[0]=-4"),
    ("train xor --hidden 4 x", "must be a list, each a whole number", "'x'"),
    ("train xor --hidden", "must be followed by a list", "--hidden 100 100"),
    ("train xor --p-drop 1", "p_drop", "0.2"),
    ("train xor --activation rellu", "activation", "Did you mean relu"),
    ("train xor --norm bach", "norm", "batch"),
    ("train xor --optimizer adamm", "optimizer", "Did you mean adam"),
    ("train xor --schedule cosin", "schedule", "cosine"),
    ("train xor --likelihood Norml", "likelihood", "Did you mean Normal"),
    ("train sine --likelihood Categorical --epochs 1", "must fit the target", "Leave the likelihood out"),
    ("train xor --likelihood Normal --hidden 2 --epochs 1", "must fit the target", "Bernoulli"),
    ("train .", "must be a file", ".csv"),
    ("train . --target price", "must be a file", ".csv"),
    ("train xor --num 2", "num must be", "num=2"),
    ("train xor --num none", "must be a whole number", "'none'"),
    ("train xor --residual=1", "takes no value", "--residual"),
    ("train xor --json=1", "takes no value", "--json"),
    ("train xor --epochs 1 --folder notes.txt", "the folder of a run must be new", "notes.txt"),
    ("train xor --epochs 1 --folder notes.txt/run", "must be writable", "notes.txt"),
    ("train xor --epochs 1 --folder .", "the folder of a run must be new", "exists"),
    ("train xor --lr 1e20 --epochs 1 --hidden 4 --threads 1", "finite", "ower the learning rate"),
    ("resume", "needs the folder of a run", "list runs"),
    ("resume nowhere", "run.json", "does not exist"),
    ("resume .", "run.json", "list runs"),
    ("evaluate nowhere", "run.json", "does not exist"),
    ("predict nowhere good.csv", "run.json", "does not exist"),
    ("replay nowhere --step 1", "run.json", "does not exist"),
    ("replay nowhere", "needs a step", "--step 0"),
    ("doctor", "needs data", "list data"),
    ("doctor .", "run.json", "list runs"),
    ("show", "needs to know what to show", "model, data, loop, run"),
    ("show modle", "must be a known name", "Did you mean model"),
    ("show model MPL", "must be a known name", "Did you mean MLP"),
    ("show model GPT", "its sizes depend on data", "show model GPT --data FILE"),
    ("show model MLP --hidden 0", "at least 1", "hidden[0]=0"),
    ("show model MLP --dim-input 0", "at least 1", "dim_input=0"),
    ("show data", "needs data", "list data"),
    ("show run", "needs the folder of a run", "list runs"),
    ("show run nowhere", "run.json", "does not exist"),
    ("show loop extra", "takes 1 word", "'extra'"),
    ("list modells", "must be a known name", "Did you mean models"),
]


@pytest.mark.parametrize(("line", "must", "hint"), LINES, ids=[entry[0] for entry in LINES])
def test_a_line_that_cannot_be_run(line, must, hint, folder, capsys):
    message = error(capsys, *line.split())
    assert must in message and hint in message, message


@pytest.mark.parametrize("line", ["trian", "train xor --epochs 0", "train nothing.csv", "show run nowhere"])
def test_with_json_the_message_is_the_last_line_too(line, folder, capsys):
    message = error(capsys, *line.split())
    assert main([*line.split(), "--json"]) == 2
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"error": message}


RUNS = [
    ("train xor --epochs 1 --folder {run}", "the folder of a run must be new", "leadline resume"),
    ("evaluate {run} --split tests", "split", "Did you mean test"),
    ("evaluate {run} --split test --data good.csv", "not from both", "Keep one"),
    ("evaluate {run} --data half.csv", "columns that the model was trained on", "colour"),
    ("evaluate {run} --data missing.csv", "must exist", "missing.csv"),
    ("predict {run}", "needs rows", "rows.csv"),
    ("predict {run} missing.csv", "must exist", "missing.csv"),
    ("predict {run} empty.csv", "must hold a table", "empty"),
    ("predict {run} header.csv", "must have rows", "header"),
    ("predict {run} half.csv", "columns that the model was trained on", "colour"),
    ("predict {run} words.csv", "column size must hold numbers", "'huge' in line 2"),
    ("predict {run} good.csv --interval 90", "between 0 and 1", "--interval 0.9"),
    ("predict {run} good.csv --interval nan", "between 0 and 1", "--interval 0.9"),
    ("predict {run} good.csv --output notes.txt/out.csv", "can be written", "notes.txt"),
    ("predict {run} good.csv more.csv", "takes 2 words", "more.csv"),
    ("replay {run} --step -1", "step must lie", "step -1"),
    ("replay {run} --step 999999", "step must lie", "999999"),
    ("replay {run} --step one", "must be a whole number", "'one'"),
    ("doctor {run} --hidden 3", "does not have this flag", "--hidden"),
]


@pytest.mark.parametrize(("line", "must", "hint"), RUNS, ids=[entry[0] for entry in RUNS])
def test_a_run_that_is_asked_for_too_much(line, must, hint, folder, finished, capsys):
    message = error(capsys, *(word.format(run=finished) for word in line.split()))
    assert must in message and hint in message, message


def newest(run):
    return sorted((run / "checkpoints").glob("step-*"))[-1]


def cut(run):
    path = newest(run) / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def other_schema(run):
    path = newest(run) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))


def other_model(run):
    config = json.loads((run / "run.json").read_text())
    config["model"]["config"]["hidden"] = [5]
    (run / "run.json").write_text(json.dumps(config))


def other_run_schema(run):
    (run / "run.json").write_text(json.dumps({**json.loads((run / "run.json").read_text()), "schema": 99}))


def no_checkpoint(run):
    shutil.rmtree(run / "checkpoints")


def no_json(run):
    (run / "run.json").write_text("{")


def other_rows(run):
    config = json.loads((run / "run.json").read_text())
    config["data"]["fingerprint"] = "0" * 64
    (run / "run.json").write_text(json.dumps(config))


DAMAGE = [
    (cut, "must be whole", "weights.safetensors"),
    (other_schema, "of schema 1", "99"),
    (other_model, "must be of its folder's run", "own checkpoints"),
    (other_run_schema, "of schema 1", "99"),
    (no_checkpoint, "must have a checkpoint", "train anew"),
    (no_json, "must be JSON", "run.json"),
]


@pytest.mark.parametrize(("damage", "must", "hint"), DAMAGE, ids=[entry[0].__name__ for entry in DAMAGE])
@pytest.mark.parametrize("verb", ["resume", "evaluate"])
def test_a_run_that_was_damaged(verb, damage, must, hint, folder, finished, capsys):
    run = shutil.copytree(finished, folder / "run")
    damage(run)
    message = error(capsys, verb, str(run))
    assert must in message and hint in message, message


def test_a_run_whose_data_changed(folder, finished, capsys):
    run = shutil.copytree(finished, folder / "run")
    other_rows(run)
    assert "must be those that the run began with" in error(capsys, "resume", str(run))


def test_a_run_whose_data_moved_goes_on_with_the_same_alone(folder, capsys):
    words = ["train", "good.csv", "--target", "price", "--epochs", "1", "--threads", "1", "--no-report"]
    assert main([*words, "--folder", "run"]) == 0
    (folder / "elsewhere").mkdir()
    shutil.move(folder / "good.csv", folder / "elsewhere" / "cars.csv")
    assert "leadline resume run --data PLACE" in error(capsys, "resume", "run")
    assert main(["resume", "run", "--data", "elsewhere/cars.csv", "--no-report"]) == 0
    with open("elsewhere/cars.csv", "a") as file:
        file.write((folder / "elsewhere" / "cars.csv").read_text().splitlines()[1] + "\n")
    assert "must be those that the run began with" in error(capsys, "resume", "run", "--data", "elsewhere/cars.csv")
    assert main(["train", "xor", "--epochs", "1", "--threads", "1", "--no-report", "--folder", "made"]) == 0
    assert "a file or a folder. Got a run on xor" in error(capsys, "resume", "made", "--data", "elsewhere/cars.csv")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--regularize", "l7(1)"], "Known: adversarial"),
        (["--regularize", "l1(a)"], "finite numbers in brackets"),
        (["--init", "hee"], "Did you mean he"),
        (["--schedule", "step(0)"], "at least 1"),
        (["--average", "ema(2)"], "at most 0.999999"),
        (["--folds", "1"], "at least 2"),
    ],
)
def test_slips_in_how_to_train_are_told_before_anything_is_made(flags, words, capsys):
    assert main(["train", "moons", *flags]) == 2
    told = capsys.readouterr()
    assert words in told.err and "run folder" not in told.out + told.err


def test_the_doctor_judges_the_first_weights_that_a_run_begins_from(capsys, tmp_path):
    words = ["train", "moons", "--hidden", *["30"] * 12, "--epochs", "1", "--folder", str(tmp_path / "r")]
    assert main([*words, "--init", "normal(1e-6)"]) == 0
    assert "hardly any gradient reaches the first" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("name", ["63", "a.csv", "a.txt", "a.jsonl", "a.npz"])
@pytest.mark.parametrize(
    "words", [["--target", "price"], ["--text", "a"], ["--task", "next"], ["--target", "a", "--horizon", "2"], []]
)
def test_a_pipe_is_told_from_a_folder_and_never_opened(name, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(name)  # nothing writes to it: whoever opens it waits for ever
    told = error(capsys, "train", f"./{name}", *words)
    assert told.startswith("what is read must be a file or a folder, for it is read more than once")
    assert f"Got {name}, a pipe. Write what comes out of it to a file" in told


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_rows_to_predict_or_to_measure_are_no_pipe(finished, tmp_path, capsys):
    os.mkfifo(tmp_path / "a.csv")
    assert "a.csv, a pipe" in error(capsys, "predict", str(finished), str(tmp_path / "a.csv"))
    assert "a.csv, a pipe" in error(capsys, "evaluate", str(finished), "--data", str(tmp_path / "a.csv"))
