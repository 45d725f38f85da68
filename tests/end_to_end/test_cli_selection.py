"""Folds and search from a shell: what is printed, kept and refused."""

import json
import shlex
from pathlib import Path

import pytest

from leadline.cli import main

TABLE = "make,age,owner,price\n" + "\n".join(
    f"{'abc'[k % 3]},{k % 9},p{k // 3},{100 - 5 * (k % 9) + 10 * (k % 3)}.5" for k in range(60)
)


@pytest.fixture
def cars(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cars.csv").write_text(TABLE)
    return tmp_path


def asked(capsys, line):
    code = main(shlex.split(line))
    out, err = capsys.readouterr()
    return code, out, err


def test_train_with_folds(cars, capsys):
    line = "train cars.csv --target price --group owner --folds 4 --epochs 2 --threads 1 --folder f --json"
    code, out, err = asked(capsys, line)
    told = json.loads(out.splitlines()[-1])
    assert code == 0 and told["folds"] == 4 and len(told["each"]) == 4 and "95 % of the mean" in err
    assert sorted(path.name for path in (cars / "f").iterdir()) == [
        "cross-validation.json",
        "cross-validation.png",
        "out-of-fold.csv",
    ]
    rows = (cars / "f" / "out-of-fold.csv").read_text().splitlines()
    assert rows[0] == "row,fold,y,predicted" and len(rows) == 1 + sum(part["test"] for part in told["each"])
    assert json.loads((cars / "f" / "cross-validation.json").read_text())["mean"] == told["mean"]
    code, _, err = asked(capsys, line)
    assert code == 2 and "the folder must be new or empty" in err


def test_classes_are_named_in_what_is_kept(cars, capsys):
    assert asked(capsys, "train wine --folds 3 --epochs 1 --threads 1 --folder w")[0] == 0
    assert {row.split(",")[2] for row in (cars / "w/out-of-fold.csv").read_text().splitlines()[1:]} == {
        "class_0",
        "class_1",
        "class_2",
    }


@pytest.mark.parametrize(
    "line", ["train words --folds 3", "train cars.csv --text make --target price --folds 3",
             "search words --space lr=log:1e-3:1 --folds 3"],
)  # fmt: skip
def test_folds_of_text_are_refused_before_any_is_read(cars, capsys, monkeypatch, line):
    Path("words").mkdir()
    for k in range(5):
        Path("words", f"{k}.txt").write_text("the cat sat on the mat " * 20)
    monkeypatch.setattr("leadline.cli.recipe.load", lambda *args, **options: pytest.fail("the text was read"))
    code, _, err = asked(capsys, line)
    assert code == 2 and "folds need a table or pictures. Got --folds 3 on" in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train cars.csv --target price --folds 1", "folds must be a whole number of at least 2"),
        ("train cars.csv --target price --folds 900", "Pass --folds 48 or fewer"),
        ("train cars.csv --target price --folds 3 --model Linear --rule Newton", "by gradient descent"),
        ("train cars.csv --target price --folds 3 --report", "--report beside --folds"),
        ("train xor --model Perceptron --folds 3", "Add --optimizer adamw"),
        ("resume f --folds 3", "--folds"),
        ("search cars.csv --target price", "no --space"),
        ("search cars.csv --target price --space lr", "name=value"),
        ("search cars.csv --target price --space lr=lgo:1:2", "Did you mean log"),
        ("search cars.csv --target price --space lrr=log:1:2", "Did you mean lr"),
        ("search cars.csv --target price --space lr=log:1e-3:1 --method tpa", "Did you mean tpe"),
        ("search --space lr=log:1e-3:1", "needs data"),
        ("search cars.csv --target price --space hidden=choice:a:b", "--hidden must be"),
    ],
)
def test_mistakes_are_one_message(cars, capsys, line, said):
    code, out, err = asked(capsys, line)
    assert code == 2 and said in err and "Traceback" not in err + out


def test_search_finds_keeps_and_says_how_to_train_it(cars, capsys):
    line = (
        "search cars.csv --target price --space lr=log:1e-3:1e-1 hidden=choice:4:8,8 optimizer=choice:sgd:adamw "
        "momentum=uniform:0.5:0.9@optimizer=sgd --trials 6 --together 3 --epochs 2 --threads 1 --folder s --json"
    )
    code, out, err = asked(capsys, line)
    told = json.loads(out.splitlines()[-1])
    assert code == 0 and len(told["trials"]) == 6 and "the best trials" in err
    assert sorted(path.name for path in (cars / "s").iterdir()) == ["search.json", "search.png", "trials.jsonl"]
    assert all(trial["values"]["hidden"] in ([4], [8, 8]) for trial in told["trials"])
    assert told["command"].startswith("leadline train cars.csv --target price --epochs 2 --threads 1 --lr ")
    code, out, _ = asked(capsys, told["command"].removeprefix("leadline ") + " --json --no-report --folder t")
    again = json.loads(out.splitlines()[-1])
    assert code == 0 and again["metrics"]["val"]["rmse"] == pytest.approx(told["score"], rel=1e-3)
    code, out, _ = asked(capsys, line.replace("--folder s", "--folder s2 --storage s/trials.jsonl"))
    assert code == 0 and json.loads(out.splitlines()[-1])["trials"] == told["trials"]
