"""Every verb, on runs of a second: what it prints, what it writes, what --json says."""

import csv
import io
import json
import re
from datetime import datetime

import pytest

from leadline.cli import main
from leadline.cli.train import fresh_folder

QUICK = ("--epochs", "3", "--hidden", "8", "--threads", "1", "--no-report")
CLASSES = ("red", "green", "blue")


def write(path, rows=90):
    """A table with a number, a word, a gap, and two things to predict: a price and a colour."""
    lines = ["size,make,price,colour"]
    for i in range(rows):
        size = i % 11
        make = ("Opel", "Fiat")[i % 2]
        lines.append(f"{size if i % 9 else ''},{make},{3 * size + 10 * (i % 2) + i % 3 + 0.5},{CLASSES[size % 3]}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Three runs: a price, a colour, and a source that is an array."""
    place = tmp_path_factory.mktemp("verbs")
    table = write(place / "cars.csv")
    assert main(["train", str(table), "--target", "price", "--folder", str(place / "price"), *QUICK]) == 0
    assert main(["train", str(table), "--target", "colour", "--folder", str(place / "colour"), *QUICK]) == 0
    assert main(["train", "moons", "--num", "60", "--folder", str(place / "moons"), *QUICK]) == 0
    return place


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def answer(capsys, *words, code=0):
    """The object that --json prints, and that nothing but it is on stdout."""
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == code
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def text(capsys, *words, code=0):
    capsys.readouterr()
    assert main([*map(str, words)]) == code
    told = capsys.readouterr()
    assert all(len(line) <= 80 or line.startswith("  leadline") for line in told.out.splitlines()), told.out
    return told.out


# ── train ──


def test_train_tells_the_account_the_metrics_and_what_to_do_next(place, capsys):
    told = text(capsys, "train", place / "cars.csv", "--target", "price", "--folder", "first", *QUICK)
    order = ["90 rows read", "make: category", "run folder: first", "95 % interval", "the weights are those of epoch"]
    places = [told.index(words) for words in [*order, "leadline predict first rows.csv"]]
    assert places == sorted(places)
    assert re.search(r"test +\d+  nll", told) and "rmse" in told


def test_train_as_json(place, capsys):
    told = answer(capsys, "train", "moons", "--num", 60, "--folder", "r", *QUICK)
    assert set(told) == {"run", "reason", "best_epoch", "seconds", "metrics", "intervals", "findings", "report"}
    assert told["run"] == "r" and told["reason"] == "finished" and told["report"] is None
    assert set(told["metrics"]) == {"train", "val", "test"}
    low, high = told["intervals"]["test"]["accuracy"]
    assert low <= told["metrics"]["test"]["accuracy"] <= high


def test_flags_reach_data_model_and_settings(capsys):
    words = "--num 80 --data-seed 5 --noise 0.3 --hidden 3,4 --residual --seed 9 --weight_decay=0 --clip none --val 0.3"
    answer(capsys, "train", "moons", "--folder", "r", "--epochs", 1, "--threads", 1, "--no-report", *words.split())
    config = answer(capsys, "show", "run", "r")["config"]
    options = config["data"]["recipe"]["options"]
    assert {key: options[key] for key in ("num", "seed", "noise", "val")} == {
        "num": 80, "seed": 5, "noise": 0.3, "val": 0.3,
    }  # fmt: skip
    assert config["model"]["config"]["hidden"] == [3, 4] and config["model"]["config"]["residual"] is True
    assert config["settings"]["seed"] == 9 and config["settings"]["weight_decay"] == 0


def test_the_source_may_stand_behind_its_flags(capsys):
    told = answer(
        capsys, "train", "--model", "Linear", "--num", 60, "--no-report", "--epochs", 1, "moons", "--threads", 1
    )
    assert re.fullmatch(r"runs/\d{4}-\d\d-\d\d-\d{6}-moons-Linear", told["run"])


def test_a_hidden_list_of_none_is_a_linear_map(capsys):
    assert [layer["name"] for layer in answer(capsys, "show", "model", "MLP", "--hidden", "none")["layers"]] == ["head"]


def test_a_likelihood_can_be_named(capsys):
    words = ["train", "xor", "--likelihood", "categorical", "--folder", "r", *QUICK]
    answer(capsys, *words)
    assert answer(capsys, "show", "run", "r")["config"]["likelihood"]["name"] == "Categorical"


def test_the_report_is_written_and_named(capsys):
    told = answer(capsys, "train", "moons", "--num", 60, "--folder", "r", *QUICK[:-1])
    assert told["report"] == "r/report.html"


def test_a_folder_that_is_taken_gets_a_number(tmp_path):
    now = datetime(2026, 1, 31, 12, 0, 0)
    first = fresh_folder("my cars/2", "MLP", now)
    assert str(first) == "runs/2026-01-31-120000-my_cars_2-MLP"
    first.mkdir(parents=True)
    assert fresh_folder("my cars/2", "MLP", now).name == f"{first.name}-2"


# ── resume, evaluate, predict ──


def test_resume_of_a_finished_run_says_what_it_came_to(place, capsys):
    again = answer(capsys, "resume", place / "moons", "--no-report")
    assert again["reason"] == "finished"
    assert again["metrics"]["test"] == answer(capsys, "evaluate", place / "moons")["metrics"]


def test_evaluate_on_a_split_and_on_a_file(place, capsys):
    assert answer(capsys, "evaluate", place / "price", "--split", "val")["split"] == "val"
    whole = answer(capsys, "evaluate", place / "price", "--data", place / "cars.csv")
    assert whole["rows"] == 90 and whole["split"] is None
    parts = [answer(capsys, "evaluate", place / "price", "--split", name) for name in ("train", "val", "test")]
    assert sum(part["rows"] for part in parts) == 90
    mean = sum(part["rows"] * part["metrics"]["mae"] for part in parts) / 90
    assert whole["metrics"]["mae"] == pytest.approx(mean, rel=1e-5)
    assert "95 % interval" in text(capsys, "evaluate", place / "price")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_predict_numbers(place, capsys):
    path = write(place / "more.csv", rows=5)
    rows = rows_of(text(capsys, "predict", place / "price", path))
    assert list(rows[0]) == ["size", "make", "price", "colour", "predicted", "low", "high"]
    assert [row["make"] for row in rows] == ["Opel", "Fiat", "Opel", "Fiat", "Opel"] and rows[0]["size"] == ""
    assert all(float(row["low"]) < float(row["predicted"]) < float(row["high"]) for row in rows)
    narrow = rows_of(text(capsys, "predict", place / "price", path, "--interval", "0.5"))
    assert float(narrow[0]["low"]) > float(rows[0]["low"])


def test_predict_classes_and_levels_never_seen(place, capsys):
    path = place / "unseen.csv"
    path.write_text("price,make,size\n3.5,Lada,3\n7,Fiat,\n")
    rows = rows_of(text(capsys, "predict", place / "colour", path))
    chances = [{name: float(row[f"p({name})"]) for name in CLASSES} for row in rows]
    assert all(sum(chance.values()) == pytest.approx(1, abs=1e-4) for chance in chances)
    assert [row["predicted"] for row in rows] == [max(chance, key=chance.get) for chance in chances]


@pytest.mark.parametrize("header", ["", "a,b\n", "x2,x1\n"])
def test_predict_rows_of_plain_numbers(header, place, capsys):
    path = place / "points.csv"
    path.write_text(f"{header}0.5,0.2\n-1,0.1\n")
    named = rows_of(text(capsys, "predict", place / "moons", path))
    path.write_text("x1,x2\n" + ("0.2,0.5\n0.1,-1\n" if header.startswith("x2") else "0.5,0.2\n-1,0.1\n"))
    plain = rows_of(text(capsys, "predict", place / "moons", path))
    assert [row["p(upper)"] for row in named] == [row["p(upper)"] for row in plain]


def test_predict_into_a_file(place, capsys, tmp_path):
    out = tmp_path / "out.csv"
    told = answer(capsys, "predict", place / "price", place / "cars.csv", "--output", out)
    assert told == {"rows": 90, "output": str(out), "columns": ["predicted", "low", "high"]}
    again = tmp_path / "again.csv"
    answer(capsys, "predict", place / "price", out, "--output", again)
    assert list(rows_of(again.read_text())[0])[-3:] == ["predicted_", "low_", "high_"]


def test_predicting_numbers_of_another_width_is_refused(place, capsys):
    path = place / "wide.csv"
    path.write_text("1,2,3\n")
    assert main(["predict", str(place / "moons"), str(path)]) == 2
    assert "must have the 2 columns that the model reads" in capsys.readouterr().err


# ── doctor, show, list, replay ──


def test_doctor_before_a_run(place, capsys):
    leaky = place / "leaky.csv"
    leaky.write_text("a,b,y\n" + "".join(f"{i % 13},{i * 0.5},{i * 0.5}\n" for i in range(100)))
    told = answer(capsys, "doctor", leaky, "--target", "y")
    assert "target-leak" in [finding["code"] for finding in told["findings"]]
    assert "nothing wrong found" in text(capsys, "doctor", "moons", "--num", 900)


def test_doctor_says_what_a_run_recorded_and_errors_exit_with_1(place, capsys, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"schema": 1}')
    finding = {"code": "dead-units", "severity": "warning", "what": "w", "where": "h", "evidence": "e", "remedy": "r"}
    (run / "findings.json").write_text(json.dumps([finding]))
    assert answer(capsys, "doctor", run)["findings"] == [finding]
    (run / "findings.json").write_text(json.dumps([{**finding, "severity": "error"}]))
    assert "error: w (h): e. r." in text(capsys, "doctor", run, code=1)


def test_show_model(place, capsys):
    told = answer(capsys, "show", "model", "mlp", "--hidden", 100, 100, "--data", "mnist1d")
    assert told["parameters"] == 40 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10
    assert told["layers"][0] == {
        "name": "layers.0.map", "type": "Linear", "weights": {"weight": [100, 40], "bias": [100]}, "parameters": 4100,
    }  # fmt: skip
    shown = text(capsys, "show", "model", "Linear", "--data", place / "cars.csv", "--target", "price")
    assert re.search(r"map +Linear +1×\d 1", shown) and "parameters in all" in shown
    assert answer(capsys, "show", "model", "Linear", "--dim-input", 3, "--dim-output", 2)["parameters"] == 8


def test_show_data(place, capsys):
    told = answer(capsys, "show", "data", place / "cars.csv", "--target", "colour")
    counts = {name: sum(split[name] for split in told["splits"].values()) for name in CLASSES}
    assert sum(counts.values()) == 90 == told["rows"]["used"]
    assert "price: number" in text(capsys, "show", "data", place / "cars.csv", "--target", "colour")
    assert re.search(r"rows +\d+ +\d+ +1000\n", text(capsys, "show", "data", "mnist1d"))
    assert "deviation" in text(capsys, "show", "data", "sine")


def test_show_loop_names_what_listens_in_order(capsys):
    told = answer(capsys, "show", "loop")
    assert list(told["loop"]) == ["fit", "epoch", "step", "validate"]
    assert list(told["events"]) == ["RunStarted", "StepsDone", "EpochDone", "RunEnded"]
    names = list(told["listeners"])
    assert [name for name in names if name in ("Watch", "Keeper", "Log")] == ["Watch", "Keeper", "Log"]
    assert "Everything else listens" in text(capsys, "show", "loop")


def test_show_run(place, capsys):
    told = answer(capsys, "show", "run", place / "price")
    assert told["epochs"] == 3 and told["last"]["epoch"] == 3 and told["config"]["model"]["name"] == "MLP"
    assert told["checkpoints"][-1] == "step-0000000003"
    assert "checkpoints: " in text(capsys, "show", "run", place / "price")


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("models", "MLP"),
        ("data", "mnist1d"),
        ("likelihoods", "Normal"),
        ("optimizers", "adamw"),
        ("schedules", "cosine"),
    ],
)
def test_list_says_something_of_everything(kind, some, capsys):
    told = answer(capsys, "list", kind)
    assert list(told) == [kind] and some in told[kind]
    assert all(len(line) > 0 for line in told[kind].values())
    assert some in text(capsys, "list", kind)


def test_list_runs(place, capsys):
    found = answer(capsys, "list", "runs", "--folder", place)["runs"]
    assert found[str(place / "price")] == "MLP on cars, finished, 3 epochs"
    assert "runs: none in runs" in text(capsys, "list")
    (place / "broken").mkdir(exist_ok=True)
    (place / "broken" / "run.json").write_text("{")
    assert "cannot be read" in answer(capsys, "list", "runs", "--folder", place)["runs"][str(place / "broken")]


def test_replay(place, capsys):
    rows = answer(capsys, "show", "data", "moons", "--num", 60)
    told = answer(capsys, "replay", place / "moons", "--step", 1)
    assert told["step"] == 1 and len(told["rows"]) == len(set(told["rows"])) == rows["splits"]["train"]["rows"]
    assert all(of["norm"] > 0 for of in told["gradients"].values())
    shown = text(capsys, "replay", place / "moons", "--step", 1)
    assert "norm of gradient" in shown and "head.bias" in shown
