"""Files of counts, angles and values that come in several, from `leadline train` to the columns of `predict`; and files
that do not hold what they are said to."""

import csv
import importlib.util
import io
import json
import math
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

import leadline as ll
from leadline import repeat
from leadline.cli import main
from leadline.errors import DataError, UserError

QUICK = ("--epochs", "3", "--hidden", "8", "--threads", "1", "--no-report")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("benchmark_likelihoods", ROOT / "benchmarks" / "likelihoods.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def place(tmp_path_factory, bench):
    place = tmp_path_factory.mktemp("files")
    for name, (generator, *_) in bench.SETS.items():
        bench.write(getattr(ll.data, generator)(num=900), place / f"{name}.csv")
    return place


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def predicted(capsys, folder, path):
    capsys.readouterr()
    assert main(["predict", str(folder), str(path)]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def refused(capsys, *words):
    capsys.readouterr()
    assert main([*map(str, words)]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith("error: ")
    return told


@pytest.mark.parametrize("name", ["counts", "angles", "several"])
def test_the_family_that_fits_scores_better_than_normal(name, place, bench, capsys):
    _, table, family, options = bench.SETS[name]
    found = {}
    for label, words in ((family, options), ("Normal", ())):
        folder = place / f"{name}-{label}"
        line = ["train", str(place / f"{name}.csv"), "--folder", str(folder), *table, "--likelihood", label, *words]
        fast = ("--epochs", "40", "--lr", "0.01", "--hidden", "32", "--threads", "1", "--no-report", "--compile", "off")
        assert main([*line, *fast]) == 0
        run = ll.load(folder)
        found[label] = bench.nll(run), bench.crps(run)
    assert found[family][0] < found["Normal"][0] - 0.05
    assert found[family][1] < found["Normal"][1]
    check_columns(name, predicted(capsys, place / f"{name}-{family}", place / f"{name}.csv"))


def check_columns(name, rows):
    inside = []
    for row in rows:
        low, mean, high = float(row["low"]), float(row["predicted"]), float(row["high"])
        slack = 1.0 if name == "counts" else 0.0  # a mean of 0.02 has the interval 0 … 0
        assert low - slack <= mean <= high + slack or name == "several"
        y = float(row[{"counts": "count", "angles": "direction", "several": "y"}[name]])
        if name == "counts":
            assert row["low"].isdigit()
            assert row["high"].isdigit()
        if name == "angles":
            assert -math.pi <= mean <= math.pi
            y = mean + math.remainder(y - mean, 2 * math.pi)
        if name == "several":
            modes = [float(mode) for mode in row["modes"].split("; ")]
            assert modes[0] == mean
        inside.append(low <= y <= high)
    assert 0.8 <= np.mean(inside) <= 1.0
    if name == "several":
        assert max(len(row["modes"].split("; ")) for row in rows) > 1


def test_a_kind_picks_its_likelihood_and_is_kept(place, capsys):
    capsys.readouterr()
    assert (
        main(["train", str(place / "counts.csv"), "--target", "count", "--kind", "count", "--folder", "r", *QUICK]) == 0
    )
    config = json.loads(Path("r/run.json").read_text())
    assert config["likelihood"]["name"] == "Poisson"
    assert config["data"]["target"]["kind"] == "count"
    assert (
        main(["train", str(place / "angles.csv"), "--target", "direction", "--kind", "angle", "--folder", "a", *QUICK])
        == 0
    )
    assert json.loads(Path("a/run.json").read_text())["likelihood"]["name"] == "VonMises"


def test_whole_numbers_stay_what_they_were_unless_the_kind_is_named():
    y = np.arange(60) % 5
    x = np.random.default_rng(0).normal(size=(60, 2))
    assert ll.data.arrays(x, y).target.kind == "classes"
    assert ll.data.arrays(x, y, kind="count").target.kind == "count"
    assert ll.data.table({"x": x[:, 0], "y": y}, target="y").target.kind == "classes"
    assert ll.data.table({"x": x[:, 0], "y": y}, target="y", kind="count").target.shift == pytest.approx(
        (y.mean(),), abs=0.6
    )
    ordered = ll.data.table({"x": x[:, 0], "y": y}, target="y", kind="ordered")
    assert str(ordered.target) == "y: 0 < 1 < 2 < 3 < 4"
    assert type(ll.likelihoods.likelihood_for(ordered.target)).__name__ == "Ordinal"


def test_ordered_classes_are_predicted_with_an_interval(capsys):
    rows = [f"{i % 17},{min(i % 17 // 5 + i % 2, 3)}" for i in range(120)]
    Path("stars.csv").write_text("\n".join(["x,stars", *rows]) + "\n")
    assert main(["train", "stars.csv", "--target", "stars", "--kind", "ordered", "--folder", "r", *QUICK]) == 0
    row = predicted(capsys, "r", "stars.csv")[0]
    assert int(row["low"]) <= int(row["predicted"]) <= int(row["high"])
    assert "p(3)" in row


def wind(count=90):
    rng = np.random.default_rng(0)
    hour = np.arange(count) % 24
    rows = zip(hour, rng.uniform(-3, 3, count), rng.gamma(2, size=count), np.where(hour > 12, "yes", "no"), strict=True)
    Path("wind.csv").write_text("hour,direction,speed,rain\n" + "".join(f"{h},{d},{s},{r}\n" for h, d, s, r in rows))


def test_several_targets_from_the_shell_to_the_report(capsys):
    wind()
    line = ["train", "--target", "direction", "speed", "rain", "--kind", "angle,positive,binary", "wind.csv"]
    assert main([*line, "--folder", "r", *QUICK[:-1]]) == 0  # the source behind a list of words is still the source
    said = capsys.readouterr().out
    assert all(metric in said for metric in ("nll_direction", "mae_speed", "accuracy_rain"))
    row = predicted(capsys, "r", "wind.csv")[0]
    names = "predicted_direction predicted_speed predicted_rain low_direction low_speed high_direction high_speed"
    assert list(row)[4:] == [*names.split(), "p(no)_rain", "p(yes)_rain"]
    assert row["predicted_rain"] in ("yes", "no") and 0 < float(row["low_speed"]) < float(row["high_speed"])
    assert main(["evaluate", "r", "--data", "wind.csv", "--json"]) == 0
    assert "accuracy_rain" in json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]
    page = Path("r/report.html").read_text()
    assert page.count("Worst mistakes") == 3 and "speed: positive" in page
    drawn = {path.stem for path in Path("r/figures").iterdir()}
    assert {"predicted-1", "coverage-2", "confusion-3", "reliability-3"} <= drawn


def test_the_repeated_command_of_several_targets_trains_the_same(capsys):
    wind()
    line = ["train", "wind.csv", "--target", "direction", "speed", "--kind", "angle", "positive", "--folder", "r"]
    assert main([*line, *QUICK]) == 0
    words = shlex.split(repeat.command(json.loads(Path("r/run.json").read_text())))
    assert words[:2] == ["leadline", "train"]
    assert main([*words[1:], "--folder", "again", "--no-report"]) == 0
    first, second = (ll.load(folder) for folder in ("r", "again"))
    assert all(torch.equal(a, b) for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True))


def test_quantiles_are_predicted_at_their_levels(capsys):
    wind()
    line = ["train", "wind.csv", "--target", "speed", "--likelihood", "Quantile", "--levels", "0.25", "0.5", "0.75"]
    assert main([*line, "--folder", "r", *QUICK]) == 0
    row = predicted(capsys, "r", "wind.csv")[0]
    assert list(row)[4:] == ["predicted", "q(0.25)", "q(0.5)", "q(0.75)"]
    assert float(row["q(0.25)"]) < float(row["q(0.5)"]) < float(row["q(0.75)"])
    assert main(["predict", "r", "wind.csv", "--interval", "0.5"]) == 0
    row = next(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert row["low"] == row["q(0.25)"] and row["high"] == row["q(0.75)"]
    assert main(["predict", "r", "wind.csv", "--interval", "0.8"]) == 2  # asked for, and out of reach
    assert "Train with levels that reach 0.1" in capsys.readouterr().err


def test_a_ranking_from_the_shell(capsys):
    lines = [f"{i},{'fig,pear,plum' if i % 2 else 'plum,fig,pear'}" for i in range(60)]
    Path("taste.csv").write_text("\n".join(["price,first,second,third", *lines]) + "\n")
    line = ["train", "taste.csv", "--target", "first", "second", "third", "--kind", "ranking", "--folder", "r"]
    assert main([*line, *QUICK]) == 0
    row = predicted(capsys, "r", "taste.csv")[0]
    assert sorted(row[f"predicted_{place}"] for place in ("first", "second", "third")) == ["fig", "pear", "plum"]
    assert main(["evaluate", "r", "--data", "taste.csv"]) == 0


def test_two_families_for_two_numbers_are_predicted_column_by_column(capsys):
    line = ["train", "height_weight", "--num", "80", "--likelihood", "Joint", "--families", "Normal", "Mixture"]
    assert main([*line, "--folder", "r", *QUICK]) == 0
    Path("age.csv").write_text("age\n5\n")
    row = predicted(capsys, "r", "age.csv")[0]
    names = "predicted_height predicted_weight modes_weight low_height low_weight high_height high_weight"
    assert list(row)[1:] == names.split()


# ── what does not fit ──


def test_degrees_are_refused_from_python_and_the_shell(capsys):
    degrees = np.linspace(0, 350, 40)
    x = np.random.default_rng(0).normal(size=(40, 1))
    with pytest.raises(DataError, match=r"radians.*If these are degrees.*y \* π / 180"):
        ll.data.arrays(x, degrees, kind="angle")
    Path("wind.csv").write_text(
        "x,wind\n" + "".join(f"{a:.3f},{d:.1f}\n" for a, d in zip(x[:, 0], degrees, strict=True))
    )
    told = refused(capsys, "train", "wind.csv", "--target", "wind", "--kind", "angle", *QUICK)
    assert "in line 3" in told
    assert "wind * π / 180" in told


@pytest.mark.parametrize(("bad", "shown"), [("-1", "-1"), ("2.5", "2.5")])
def test_what_is_no_count_is_refused_from_python_and_the_shell(bad, shown, capsys):
    y = [1, 2, 3, 4, 5, 6, 7, 8, 9, float(bad)]
    with pytest.raises(DataError, match=f"whole and at least 0.*Got {shown} in row 9"):
        ll.data.arrays(np.arange(10.0)[:, None] % 7, np.array(y), kind="count")
    Path("c.csv").write_text("x,y\n" + "".join(f"{k % 7}.5,{v:g}\n" for k, v in enumerate(y)))
    told = refused(capsys, "train", "c.csv", "--target", "y", "--kind", "count", *QUICK)
    assert f"Got {shown} in line 11" in told
    assert "--kind real" in told


@pytest.mark.parametrize(
    ("kind", "bad", "words"), [("proportion", "1.5", "between 0 and 1"), ("positive", "0", "more than 0")]
)
def test_what_lies_outside_its_kind_is_refused_from_python_and_the_shell(kind, bad, words, capsys):
    y = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, float(bad)]
    with pytest.raises(DataError, match=words):
        ll.data.arrays(np.arange(10.0)[:, None] % 7, np.array(y), kind=kind)
    Path("p.csv").write_text("x,y\n" + "".join(f"{k % 7}.5,{v:g}\n" for k, v in enumerate(y)))
    assert words in refused(capsys, "train", "p.csv", "--target", "y", "--kind", kind, *QUICK)


@pytest.mark.parametrize(
    ("family", "bad"), [("Beta", "1.5"), ("Gamma", "-3"), ("Poisson", "0.5"), ("VonMises", "40.5")]
)
def test_a_family_that_is_named_refuses_values_that_are_not_its_own(family, bad, capsys):
    y = [0.11, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.25, float(bad)] * 4
    Path("p.csv").write_text("x,y\n" + "".join(f"{k % 7}.5,{v:g}\n" for k, v in enumerate(y)))
    told = refused(capsys, "train", "p.csv", "--target", "y", "--likelihood", family, *QUICK)
    assert any(word in told for word in ("must be", "must fit"))


def test_a_class_that_never_was_is_refused_with_its_line(capsys):
    Path("t.csv").write_text("x,colour\n" + "".join(f"{k % 7}.5,{('red', 'blue')[k % 2]}\n" for k in range(40)))
    assert main(["train", "t.csv", "--target", "colour", "--folder", "r", *QUICK]) == 0
    Path("new.csv").write_text("x,colour\n1.5,red\n2.5,green\n3.5,pink\n")
    told = refused(capsys, "evaluate", "r", "--data", "new.csv")
    assert "Got 'green', 'pink', first in line 3" in told
    assert "Use blue, red" in told
    assert len(predicted(capsys, "r", "new.csv")) == 3  # what came true is not looked at
    with pytest.raises(DataError, match="classes that the model was trained on"):
        ll.load("r").target.encode(["green"])


def test_degrees_in_rows_to_evaluate_are_refused(place, capsys):
    assert (
        main(["train", str(place / "angles.csv"), "--target", "direction", "--kind", "angle", "--folder", "r", *QUICK])
        == 0
    )
    Path("new.csv").write_text("pressure,direction\n1000,1.5\n1001,270\n")
    assert "radians" in refused(capsys, "evaluate", "r", "--data", "new.csv")


@pytest.mark.parametrize("kind", ["i", "f"])
def test_signs_are_two_classes(kind):
    y = np.array([-1, 1] * 30, dtype=kind)
    x = np.random.default_rng(0).normal(size=(60, 2))
    data = ll.data.arrays(x, y)
    assert (data.target.kind, data.target.classes) == ("binary", ("-1", "1"))
    run = ll.fit(ll.models.Linear(2, 1), data, epochs=1, progress=False)
    assert run.target.decode(run.predict(x[:2]).mode)[0] in ("-1", "1")


def test_signs_that_reach_a_likelihood_are_told_to_become_codes():
    with pytest.raises(UserError, match=r"signs.*\(y \+ 1\) / 2"):
        ll.likelihoods.Bernoulli().check(torch.tensor([-1.0, 1.0]))


def test_a_likelihood_of_another_kind_says_how_to_name_the_kind(place, capsys):
    rows = "".join(f"{k % 7}.5,{k % 4}\n" for k in range(60))
    Path("few.csv").write_text("x,y\n" + rows)
    told = refused(capsys, "train", "few.csv", "--target", "y", "--likelihood", "Poisson", *QUICK)
    assert "--kind count" in told
