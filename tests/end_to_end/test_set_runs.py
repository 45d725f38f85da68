"""Sets and clouds of points from the shell: trained, predicted, and what is wrong with them said."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from leadline.cli import main


def _answer(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.fixture
def baskets(tmp_path, monkeypatch):
    """Baskets with a kind each, and scans in which every point has a part."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["basket,price,weight,note,kind"]
    for k in range(60):
        kind = ("single", "party")[k % 2]
        lines += [f"b{k},{rng.normal(5 + 5 * (k % 2)):.2f},{rng.random():.2f},n,{kind}" for _ in range(2 + k % 5)]
    Path("baskets.csv").write_text("\n".join(lines) + "\n")
    rows = []
    for k in range(30):
        for point in rng.uniform(-1, 1, (6 + k % 3, 3)):
            rows.append(f"{k},{point[0]:.4f},{point[1]:.4f},{point[2]:.4f},{'high' if point[2] > 0 else 'low'}")
    np.random.default_rng(1).shuffle(rows)  # members of a set need not stand together
    Path("scans.csv").write_text("scan,x,y,z,part\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_sets_are_trained_and_predicted_and_larger_ones_are_told(baskets, capsys):
    line = ["train", "baskets.csv", "--set", "basket", "--target", "kind", "--epochs", "20", "--folder", "run"]
    assert main([*line, "--no-report", "--json"]) == 0
    assert _answer(capsys)["metrics"]["test"]["accuracy"] > 0.7
    assert json.loads(Path("run/run.json").read_text())["model"]["name"] == "DeepSets"
    assert main(["predict", "run", "baskets.csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 60 and rows[0]["basket"] == "b0" and {row["predicted"] for row in rows} <= {"single", "party"}
    Path("new.csv").write_text("basket,price,weight\n" + "".join(f"q,{k},0.5\n" for k in range(30)))
    assert main(["predict", "run", "new.csv"]) == 0
    told = capsys.readouterr()
    assert "1 set with more than the 6 members of the largest in training" in told.err and "q," in told.out
    assert main(["evaluate", "run"]) == 0
    assert main(["evaluate", "run", "--data", "new.csv"]) == 2
    assert "evaluated on its own splits" in capsys.readouterr().err


def test_every_point_of_a_scan_has_a_part_in_the_order_of_the_file(baskets, capsys):
    line = ["train", "scans.csv", "--set", "scan", "--target", "part", "--coordinates", "3", "--width", "0.25"]
    assert main([*line, "--epochs", "30", "--folder", "run", "--json"]) == 0
    metrics = _answer(capsys)["metrics"]["test"]
    assert metrics["mean_iou"] > 0.6 and metrics["accuracy"] > 0.75
    assert Path("run/report.html").exists()
    assert main(["predict", "run", "scans.csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    known = list(csv.DictReader(io.StringIO(Path("scans.csv").read_text())))
    assert [row["scan"] for row in rows] == [row["scan"] for row in known]
    right = [row["predicted"] == own["part"] for row, own in zip(rows, known)]
    assert sum(right) > 0.75 * len(right)
    assert all(abs(float(row["p(high)"]) + float(row["p(low)"]) - 1) < 1e-4 for row in rows)


def test_clouds_in_folders_and_solids_go_to_a_point_net(baskets, capsys):
    rng = np.random.default_rng(0)
    for k in range(16):
        place = Path("clouds", "flat" if k % 2 else "round")
        place.mkdir(parents=True, exist_ok=True)
        points = rng.normal(size=(12, 3)) * ([1, 1, 0.05] if k % 2 else [1, 1, 1])
        Path(place, f"{k}.xyz").write_text("\n".join(" ".join(f"{v:.4f}" for v in row) for row in points) + "\n")
    few = ["--width", "0.1", "--epochs", "2", "--no-report"]
    assert main(["train", "clouds", "--coordinates", "3", *few, "--folder", "run"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", "clouds/flat"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 8 and rows[0]["cloud"] == "1.xyz" and rows[0]["predicted"] in ("flat", "round")
    assert main(["train", "solids", "--num", "20", "--points", "16", *few, "--folder", "solid"]) == 0
    assert json.loads(Path("solid/run.json").read_text())["model"]["name"] == "PointNet"
    assert main(["show", "model", "PointNet", "--width", "0.1"]) == 0


def test_sets_are_cross_validated(baskets, capsys):
    line = ["train", "baskets.csv", "--set", "basket", "--target", "kind", "--folds", "3", "--epochs", "5"]
    assert main([*line, "--no-report", "--folder", "run", "--json"]) == 0
    assert _answer(capsys)


def _mended(path, row, cells):
    lines = Path("scans.csv").read_text().splitlines()
    own = lines[row].split(",")
    lines[row] = ",".join(cells(own))
    Path(path).write_text("\n".join(lines) + "\n")


def test_what_is_wrong_is_said_in_a_sentence(baskets, capsys):
    _mended("hole.csv", 5, lambda own: [own[0], "", *own[2:]])
    _mended("word.csv", 5, lambda own: [own[0], "far", *own[2:]])
    _mended("nobody.csv", 5, lambda own: ["", *own[1:]])
    Path("one.csv").write_text("scan,x,y,z,part\n" + "".join(f"7,{k},1,{k % 2},{'ab'[k % 2]}\n" for k in range(9)))
    np.savez("empty.npz", x=np.random.rand(9, 3), lengths=[3, 0, 3, 3], y=np.array(["a", "b", "a", "b"]))
    ends = ["--set", "scan", "--target", "part", "--epochs", "1", "--width", "0.1", "--no-report"]
    for line, said in (
        (["hole.csv", *ends, "--coordinates", "3"], "column x must hold a number for every member. Got none in line 6"),
        (["word.csv", *ends, "--coordinates", "3"], "column x must hold finite numbers. Got 'far' in line 6"),
        (["nobody.csv", *ends, "--coordinates", "3"], "nothing in line 6"),
        (["one.csv", *ends, "--coordinates", "3"], "at least three sets"),
        (["scans.csv", *ends, "--coordinates", "4"], "4 coordinates. Got 3 columns of numbers: x, y, z"),
        (["empty.npz", "--coordinates", "3", "--epochs", "1", "--width", "0.1"], "no member at all in set 1"),
        (["scans.csv", "--set", "scan", "--model", "DeepSets"], "--set basket, --target customer"),
        (["baskets.csv", "--set", "basket", "--target", "price"], "price of every member must be a class"),
        (["scans.csv", "--set", "nr", "--target", "part"], "set must name a column"),
    ):
        assert main(["train", *line]) == 2, line
        told = " ".join(capsys.readouterr().err.split())
        assert said in told, told
    assert main(["train", "scans.csv", *ends, "--coordinates", "3", "--folder", "run"]) == 0
    Path("flat.csv").write_text("scan,x,y\n1,2,3\n")
    assert main(["predict", "run", "flat.csv"]) == 2
    assert "Got no z" in " ".join(capsys.readouterr().err.split())
