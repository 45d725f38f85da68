"""Every verb, on runs of a second: what it prints, what it writes, what --json says."""

import csv
import io
import json
import re
import shlex
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

import leadline as ll
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


def test_the_first_page_tells_that_text_and_pictures_can_be_trained_on(capsys):
    first = text(capsys, "--help")
    (line,) = [line for line in first.splitlines() if line.split()[:1] == ["train"]]
    assert all(word in line for word in ("table", "pictures", "text"))
    assert "leadline train my-texts/" in first and "--text review" in first


def test_a_folder_that_is_taken_gets_a_number(tmp_path):
    now = datetime(2026, 1, 31, 12, 0, 0)
    first = fresh_folder("my cars/2", "MLP", now)
    assert str(first) == "runs/2026-01-31-120000-my_cars_2-MLP"
    first.mkdir(parents=True)
    assert fresh_folder("my cars/2", "MLP", now).name == f"{first.name}-2"


def test_the_end_is_told_once_and_in_the_right_number(capsys):
    capsys.readouterr()
    words = ["train", "moons", "--num", "60", "--epochs", "1", "--threads", "1", "--no-report", "--folder", "r"]
    assert main(words) == 0
    told = capsys.readouterr()
    assert (told.out + told.err).count("finished after 1 epoch,") == 1
    assert "1 epochs" not in told.out + told.err
    assert "finished after 1 epoch\n" in text(capsys, "show", "run", "r")
    assert main(["resume", "r"]) == 0
    told = capsys.readouterr()
    assert (told.out + told.err).count("finished after") == 1


def test_options_of_a_likelihood_are_flags(capsys):
    answer(capsys, "train", "sine", "--variance", "input", "--sigma", 0.5, "--folder", "r", *QUICK)
    config = answer(capsys, "show", "run", "r")["config"]
    assert config["likelihood"]["config"]["variance"] == "input" and config["likelihood"]["config"]["sigma"] == 0.5
    assert config["model"]["config"]["dim_output"] == 2
    assert answer(capsys, "resume", "r", "--no-report")["reason"] == "finished"
    answer(capsys, "train", "xor", "--label-smoothing", 0, "--folder", "plain", *QUICK)
    assert answer(capsys, "show", "run", "plain")["config"]["likelihood"]["config"] == {"label_smoothing": 0}
    answer(capsys, "train", "xor", "--folder", "usual", *QUICK)
    assert answer(capsys, "show", "run", "usual")["config"]["likelihood"]["config"] == {"label_smoothing": 0.1}


def test_of_a_wide_table_the_first_columns_are_told_and_a_command_lists_all(place, capsys, tmp_path):
    rows = [",".join(str((i * j) % 17 + 0.5 * j) for j in range(1, 41)) for i in range(30)]
    header = ",".join(["row id", *(f"c{j}" for j in range(2, 40)), "y"])
    (tmp_path / "a wide.csv").write_text("\n".join([header, *rows]))
    for verb in (("doctor",), ("train", "--folder", "wide", *QUICK)):
        told = text(capsys, verb[0], "a wide.csv", "--target", "y", "--drop", "c9", *verb[1:])
        assert "\n  c12: number\n  and 28 more, 1 of them left out\n" in told and "c14: number" not in told
        command = next(line for line in told.splitlines() if line.startswith("  leadline show data"))
        assert command == "  leadline show data 'a wide.csv' --target y --drop c9"
        everything = text(capsys, *shlex.split(command)[1:])
        assert all(f"\n  c{j}: " in everything for j in range(2, 40))
    assert "to list all" not in text(capsys, "doctor", place / "cars.csv", "--target", "price")


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


BIG = 2**53 + 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_long_numbers_come_back_digit_for_digit(ending, capsys, tmp_path):
    count = 40
    frame = pl.DataFrame(
        {
            "account": [BIG + 2 * i for i in range(count)],
            "huge": pl.Series([2**64 - 1 - i for i in range(count)], dtype=pl.UInt64),
            "gappy": [None if i % 5 == 0 else -BIG - 2 * i for i in range(count)],
            "size": [i % 7 for i in range(count)],
            "price": [i % 7 + 0.5 * (i % 2) for i in range(count)],
        }
    )
    getattr(frame, f"write_{ending}")(tmp_path / f"long.{ending}")
    answer(capsys, "train", f"long.{ending}", "--target", "price", "--folder", "r", *QUICK)
    answer(capsys, "predict", "r", f"long.{ending}", "--output", "out.csv")
    rows = rows_of(Path("out.csv").read_text())
    for name in ("account", "huge", "gappy", "size"):
        assert [row[name] for row in rows] == ["" if v is None else str(v) for v in frame[name]]


def decimal(value):
    return f"{value}".replace(".", ",")


@pytest.fixture(scope="module")
def commas(tmp_path_factory):
    """A run on a table with decimal commas, one of whose columns happens to hold whole numbers alone."""
    place = tmp_path_factory.mktemp("commas")
    lines = [f"{i % 7};{decimal(i % 11 + 0.25)};{decimal(i % 7 + i % 11 + 0.5)}" for i in range(60)]
    (place / "train.csv").write_text("\n".join(["whole;part;y", *lines]))
    words = ["--target", "y", "--folder", str(place / "run"), *QUICK]
    assert main(["train", str(place / "train.csv"), *words]) == 0
    return place


@pytest.mark.parametrize(
    "rows",
    [
        "whole;part\n4,5;3,25\n1;0,5\n",
        "part;whole\n3,25;4,5\n0,5;1\n",
        'whole,part\n"4,5","3,25"\n1,"0,5"\n',
        "whole,part\n4.5,3.25\n1,0.5\n",
        "whole;part\n4.5;3,25\n1;0,5\n",
    ],
)
def test_rows_are_read_by_the_conventions_of_training(rows, commas, capsys, tmp_path):
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "point.csv").write_text("whole,part\n4.5,3.25\n1,0.5\n")
    given = rows_of(text(capsys, "predict", commas / "run", "rows.csv"))
    data = ll.load(commas / "run")
    wanted = data.predict([{"whole": 4.5, "part": 3.25}, {"whole": 1, "part": 0.5}]).mean.tolist()
    assert [float(row["predicted"]) for row in given] == pytest.approx(wanted, rel=1e-5)


def test_an_ambiguous_comma_is_decimal_where_the_table_says_so(commas, capsys, tmp_path):
    (tmp_path / "rows.csv").write_text("whole;part\n1,234;0,5\n")
    (row,) = rows_of(text(capsys, "predict", commas / "run", "rows.csv"))
    wanted = ll.load(commas / "run").predict([{"whole": 1.234, "part": 0.5}]).mean.item()
    assert float(row["predicted"]) == pytest.approx(wanted, rel=1e-5)
    (tmp_path / "known.csv").write_text("whole;part;y\n1;0,5;1,234\n2;0,5;2,345\n")
    assert answer(capsys, "evaluate", commas / "run", "--data", "known.csv")["metrics"]["mae"] < 100


@pytest.mark.parametrize("rows", ["x1;x2\n0,5;0,25\n", "0,5;0,25\n0,5;0,25\n"])
def test_plain_numbers_may_have_decimal_commas(rows, place, capsys, tmp_path):
    (tmp_path / "rows.csv").write_text(rows)
    (tmp_path / "point.csv").write_text("x1,x2\n0.5,0.25\n")
    given = rows_of(text(capsys, "predict", place / "moons", "rows.csv"))
    wanted = rows_of(text(capsys, "predict", place / "moons", "point.csv"))
    assert given[0]["p(upper)"] == wanted[0]["p(upper)"]


def test_one_column_with_decimal_commas(capsys, tmp_path):
    lines = [f"{decimal(i % 11 + 0.25)};{decimal(i % 11 + 0.5 * (i % 2))}" for i in range(60)]
    (tmp_path / "train.csv").write_text("\n".join(["x;y", *lines]))
    answer(capsys, "train", "train.csv", "--target", "y", "--folder", "r", *QUICK)
    (tmp_path / "rows.csv").write_text("x\n4,5\n3,25\n")
    assert [row["x"] for row in rows_of(text(capsys, "predict", "r", "rows.csv"))] == ["4,5", "3,25"]


def test_the_columns_that_predict_adds_are_those_it_tells_of(place, capsys):
    assert main(["predict", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    page = " ".join((Path(__file__).parents[2] / "docs" / "cli.md").read_text().split())
    answer(capsys, "train", "height_weight", "--num", 60, "--folder", "two", *QUICK)
    Path("age.csv").write_text("age\n5\n")
    added = answer(capsys, "predict", "two", "age.csv", "--output", "out.csv")["columns"]
    assert added == ["predicted_height", "predicted_weight", "low_height", "low_weight", "high_height", "high_weight"]
    for words in (told, page):
        assert all(f"`{name}`" in words for name in ("predicted", "p(<class>)", "low", "high"))


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


def test_show_data_tells_of_several_targets_one_by_one(place, capsys):
    Path("people.csv").write_text("age,m,kg\n" + "".join(f"{i},{1 + i / 99},{70 + i / 2}\n" for i in range(90)))
    several = ("show", "data", "people.csv", "--target", "m", "kg")
    train = answer(capsys, *several)["splits"]["train"]
    assert train["m"]["most"] < 2 and train["kg"]["least"] >= 70
    told = text(capsys, *several)
    assert told.count("deviation") == 2 and re.search(r"^kg:\n", told, re.M)
    mixed = answer(capsys, "show", "data", place / "cars.csv", "--target", "price", "colour")["splits"]["train"]
    assert sum(mixed["colour"].values()) == mixed["rows"] and mixed["price"]["least"] > 0


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
