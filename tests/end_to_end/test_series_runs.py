"""Series and sequences from the shell: trained, told beside the season ago, forecast, measured."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from leadline.cli.program import main


@pytest.fixture
def sales(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    values = 100 + np.arange(120) + np.tile([0, 20, 5, -10, 3, 1, 0, -8, 4, 9, 30, 40], 10) + rng.normal(size=120)
    days = [f"{2000 + k // 12}-{k % 12 + 1:02d}-01" for k in range(120)]
    Path("sales.csv").write_text("date,sales\n" + "".join(f"{day},{v:.3f}\n" for day, v in zip(days, values)))
    return tmp_path


REAL = Path(__file__).parents[1] / "fixtures" / "series"  # gas used in Britain by quarters; the Nile by years


def _answer(capsys) -> dict:
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


@pytest.mark.parametrize(("name", "horizon"), [("ukgas", 8), ("nile", 5)])
def test_short_real_series_are_better_than_the_season_ago_by_default(name, horizon, tmp_path, capsys):
    line = ["train", str(REAL / f"{name}.csv"), "--target", "value", "--time", "date", "--horizon", str(horizon)]
    assert main([*line, "--no-report", "--folder", str(tmp_path / "run"), "--json"]) == 0
    told = _answer(capsys)["forecast"]
    assert told["model"]["crps"] < 0.95 * told["naive"]["crps"] and 0 <= told["share"] < 0.7


def test_a_series_is_trained_told_and_forecast(sales, capsys):
    line = ["train", "sales.csv", "--horizon", "6", "--time", "date", "--target", "sales", "--epochs", "60"]
    line += ["--lr", "0.05", "--model", "Linear", "--folder", "run", "--no-report"]
    assert main([*line, "--json"]) == 0
    answer = _answer(capsys)
    told = answer["forecast"]
    assert told["season"] == 12 and told["model"]["mase"] < told["naive"]["mase"]
    assert set(answer["metrics"]) == {"train", "val", "test"}
    assert main(["predict", "run", "sales.csv", "--interval", "0.8"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["date"] for row in rows] == [f"2010-0{m}-01" for m in range(1, 7)]
    assert all(float(row["low"]) < float(row["predicted"]) < float(row["high"]) for row in rows)
    assert main(["evaluate", "run"]) == 0
    shown = capsys.readouterr().out.replace("\n    ", " ")
    assert shown.startswith("of the network alone; the scores of the forecasts that predict gives are below\nsplit")
    assert "of the way from the value 12 steps before to a linear forecast" in shown
    assert "rmse_3" not in shown
    assert main(["evaluate", "run", "--data", "sales.csv"]) == 0


@pytest.mark.parametrize(
    ("form", "coming"), [("%m/%d/%Y %I:%M %p", "04/01/2010 12:00 PM"), ("%-d.%-m.%Y 12:00", "1.4.2010 12:00")]
)
def test_forecasts_are_written_as_the_table_writes_its_times(sales, capsys, form, coming):
    from datetime import datetime, timedelta

    lines = Path("sales.csv").read_text().splitlines()[1:]
    days = [datetime(2010, 4, 1, 12) - timedelta(days=len(lines) - k) for k in range(len(lines))]
    rows = "".join(f"{day.strftime(form)},{line.split(',')[1]}\n" for day, line in zip(days, lines))
    Path("days.csv").write_text("date,sales\n" + rows)
    line = ["train", "days.csv", "--horizon", "2", "--time", "date", "--target", "sales", "--model", "Linear"]
    assert main([*line, "--epochs", "1", "--folder", "run", "--no-report"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", "days.csv"]) == 0
    assert next(csv.DictReader(io.StringIO(capsys.readouterr().out)))["date"] == coming


def test_the_default_model_reads_the_series(sales, capsys):
    line = ["train", "sales.csv", "--horizon", "3", "--time", "date", "--target", "sales", "--epochs", "1"]
    assert main([*line, "--dim", "8", "--folder", "run", "--no-report", "--json"]) == 0
    model = json.loads(Path("run/run.json").read_text())["model"]
    assert model["name"] == "Recurrent" and model["config"]["pool"] == "last"
    assert main(["train", "sales.csv", "--horizon", "0", "--time", "date", "--target", "sales"]) == 2
    assert "horizon must be a whole number of at least 1" in capsys.readouterr().err
    assert main(["train", "sales.csv", "--horizon", "3", "--time", "day", "--target", "sales"]) == 2
    assert "time must name a column of sales.csv. Got time 'day'. Known: date, sales." in capsys.readouterr().err


def test_series_have_a_level_as_graphs_have(sales, capsys):
    line = ["show", "data", "sales.csv", "--target", "sales", "--time", "date", "--horizon", "6"]
    for level, moves in (("moving", True), ("fixed", False)):
        assert main([*line, "--level", level]) == 0
        assert ("the level drifts" in capsys.readouterr().out) is moves


def test_the_report_draws_forecasts_beside_what_came(sales, capsys):
    line = ["train", "sales.csv", "--horizon", "6", "--time", "date", "--target", "sales", "--epochs", "2"]
    assert main([*line, "--model", "Linear", "--folder", "run"]) == 0
    assert Path("run/figures/forecasts.png").stat().st_size > 5000
    page = Path("run/report.html").read_text()
    assert "value 12 steps before" in page and "what came" in page
    assert "intervals of the network alone" in page and "All steps ahead together" in page
    assert "which do not overlap" in capsys.readouterr().out


def test_what_must_be_known_ahead_and_is_not_is_told(sales, capsys):
    lines = Path("sales.csv").read_text().splitlines()
    Path("known.csv").write_text(
        "\n".join(["date,sales,price", *(f"{line},{k % 3}" for k, line in enumerate(lines[1:]))])
    )
    line = ["train", "known.csv", "--horizon", "3", "--time", "date", "--target", "sales", "--known", "price"]
    assert main([*line, "--epochs", "1", "--model", "Linear", "--folder", "run", "--no-report"]) == 0
    for cells, said in ((("", "2", ""), "price is empty at 2 steps ahead"), (("1", "2", "0"), "")):
        later = "".join(f"\n2010-0{k}-01,,{cell}" for k, cell in enumerate(cells, 1))
        Path("new.csv").write_text(Path("known.csv").read_text() + later)
        capsys.readouterr()
        assert main(["predict", "run", "new.csv"]) == 0
        told = capsys.readouterr().err
        assert said in told if said else told == ""


def _shops() -> list[str]:
    rows = [line.split(",") for line in Path("sales.csv").read_text().splitlines()[1:]]
    lines = [f"{shop},{day},{float(v) * by:.3f}" for shop, by in (("east", 1), ("west", 3)) for day, v in rows]
    Path("shops.csv").write_text("\n".join(["shop,date,sales", *lines]))
    line = ["train", "shops.csv", "--horizon", "1", "--time", "date", "--group", "shop", "--target", "sales"]
    return [*line, "--epochs", "1", "--model", "Linear", "--folder", "run"]


def test_the_doctor_judges_forecasts_and_says_what_is_of_the_network_alone(sales, capsys):
    assert main([*_shops(), "--no-report", "--json"]) == 0
    answer = _answer(capsys)
    assert answer["forecast"]["model"]["coverage"] > 0.9
    where = {finding["code"]: finding["where"] for finding in answer["findings"]}
    assert "interval-coverage" not in where  # those of the network hold 54 %
    assert where["overfitting"] == "train and val, the network alone"


def test_of_several_series_the_report_says_which_is_drawn(sales):
    assert main(_shops()) == 0
    assert "Forecasts of shop east of 1 step, one after the other" in Path("run/report.html").read_text()


def test_sequences_are_trained_and_predicted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = ["id,t,a,kind"]
    for k in range(40):
        rise = 1 if k % 2 else -1
        lines += [f"s{k},{t},{rise * t + rng.normal():.3f},{'up' if k % 2 else 'down'}" for t in range(3 + k % 4)]
    Path("s.csv").write_text("\n".join(lines) + "\n")
    line = ["train", "s.csv", "--sequence", "id", "--order", "t", "--target", "kind", "--epochs", "10", "--dim", "16"]
    assert main([*line, "--folder", "run", "--no-report", "--json"]) == 0
    assert _answer(capsys)["metrics"]["test"]["accuracy"] > 0.6
    assert main(["predict", "run", "s.csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 40 and rows[0]["id"] == "s0" and {row["predicted"] for row in rows} <= {"up", "down"}


@pytest.mark.parametrize(("cell", "said"), [("lru", "not finite (layers.0"), ("elman", "the loss must not diverge")])
def test_a_recurrence_that_explodes_is_stopped_in_words(tmp_path, monkeypatch, capsys, cell, said):
    monkeypatch.chdir(tmp_path)
    v = np.random.default_rng(0).normal(size=(40, 40))
    rows = [f"{k},{t},{v[k, t]:.3f},{'up' if k % 2 else 'down'}\n" for k in range(40) for t in range(40)]
    Path("s.csv").write_text("id,t,a,kind\n" + "".join(rows))
    line = ["train", "s.csv", "--sequence", "id", "--order", "t", "--target", "kind", "--cell", cell, "--dim", "16"]
    assert main([*line, "--pool", "last", "--lr", "10000", "--epochs", "4", "--no-report", "--folder", "run"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert said in told and "lower the learning rate" in told.lower()


@pytest.mark.parametrize("ending", ["jsonl", "npz"])
def test_sequences_that_are_no_table_are_predicted_too(tmp_path, monkeypatch, capsys, ending):
    monkeypatch.chdir(tmp_path)
    steps = [[float(k % 2) + 0.1 * t for t in range(2 + k % 3)] for k in range(24)]
    if ending == "jsonl":
        lines = [json.dumps({"pen": own, "kind": "up" if own[0] else "down"}) for own in steps]
        Path("s.jsonl").write_text("\n".join(lines) + "\n")
        Path("new.jsonl").write_text('{"pen": [1, 2]}\n\n{"pen": [1, 2, 3, 4, 5, 6]}\n')
    else:
        kinds = np.array([int(own[0]) for own in steps])
        np.savez("s.npz", pen=np.concatenate(steps), kind=kinds, lengths=[len(own) for own in steps])
        np.savez("new.npz", pen=np.arange(8.0), lengths=[2, 6])
    line = ["train", f"s.{ending}", "--field", "pen", "--target", "kind", "--epochs", "1", "--dim", "8"]
    assert main([*line, "--folder", "run", "--no-report"]) == 0
    assert f"leadline predict run rows.{ending}" in capsys.readouterr().out
    Path("other.csv").write_text("a,b\n1,2\n")
    assert main(["predict", "run", "other.csv"]) == 2
    assert "must hold pen. Got a, b. Write it anew, and call it pen" in capsys.readouterr().err
    assert main(["predict", "run", f"new.{ending}"]) == 0
    told = capsys.readouterr()
    rows = list(csv.reader(io.StringIO(told.out)))
    assert [row[0] for row in rows] == (["line", "1", "3"] if ending == "jsonl" else ["sequence", "0", "1"])
    assert "1 sequence cut to the 4 steps" in told.err
    assert main(["evaluate", "run", "--data", f"new.{ending}"]) == 2
    assert "is evaluated on its own splits" in capsys.readouterr().err


def test_a_parquet_of_lists_is_trained_on_and_predicted(tmp_path, monkeypatch, capsys):
    pl = pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    steps = [[float(k % 2) + 0.1 * t for t in range(2 + k % 3)] for k in range(24)]
    pl.DataFrame({"pen": steps, "kind": ["up" if own[0] else "down" for own in steps]}).write_parquet("s.parquet")
    pl.DataFrame({"pen": [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0]]}).write_parquet("new.parquet")
    line = ["train", "s.parquet", "--field", "pen", "--target", "kind", "--epochs", "1", "--dim", "8"]
    assert main([*line, "--folder", "run", "--no-report"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", "new.parquet"]) == 0
    told = capsys.readouterr()
    assert [row[0] for row in csv.reader(io.StringIO(told.out))] == ["row", "0", "1"]
    assert "1 sequence cut to the 4 steps" in told.err
    assert main(["evaluate", "run"]) == 0


def test_flags_of_series_ask_for_a_horizon(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n" + "".join(f"{k},{k}.5\n" for k in range(20)))
    assert main(["train", "t.csv", "--target", "b", "--unit", "moving"]) == 2
    assert "--unit without --horizon" in capsys.readouterr().err
    assert main(["train", "t.csv", "--target", "b", "--each"]) == 2
    assert "Add --sequence COLUMN" in capsys.readouterr().err
    assert main(["train", "t.csv", "--target", "b", "--horizn", "3"]) == 2
    assert "Got --horizn. Did you mean --horizon?" in capsys.readouterr().err
    assert main(["train", "t.csv", "--target", "b", "--horizon", "3", "--sequence", "a"]) == 2
    assert "Got --sequence where it is read as series. Leave --sequence out" in capsys.readouterr().err


def test_a_series_without_a_target_is_told_its_columns_and_one_to_forecast_with_holes_what_can_be_done(sales, capsys):
    assert main(["train", "sales.csv", "--horizon", "3"]) == 2
    told = capsys.readouterr().err
    assert "no --target" in told and "date, sales" in told and "translations" not in told
    line = ["train", "sales.csv", "--target", "sales", "--time", "date", "--horizon", "3", "--model", "Linear"]
    assert main([*line, "--epochs", "1", "--folder", "run", "--no-report"]) == 0
    lines = Path("sales.csv").read_text().splitlines(keepends=True)
    Path("few.csv").write_text("".join(lines[:1] + lines[-2:]))
    assert main(["predict", "run", "few.csv"]) == 0
    told = capsys.readouterr().err
    assert "2 steps where the model reads 24" in told and "give it the last 24 or more" in told
    Path("holes.csv").write_text("".join(lines[:60] + lines[62:]))
    assert main(["predict", "run", "holes.csv"]) == 2
    told = capsys.readouterr().err
    assert "Add the rows, or pass only those after the last gap." in told and "--gaps" not in told
    Path("empty.csv").write_text("".join([*lines[:60], "2004-12-01,\n", *lines[61:]]))
    assert main(["evaluate", "run", "--data", "empty.csv"]) == 2
    told = capsys.readouterr().err
    assert "Fill it in, or pass only the rows after the last such row." in told and "--gaps" not in told
    Path("word.csv").write_text("".join([*lines[:60], "2004-12-01,lots\n", *lines[61:]]))
    assert main(["predict", "run", "word.csv"]) == 2
    told = capsys.readouterr().err
    assert "Got 'lots' in line 61. Correct the cell." in told and "another column" not in told
    Path("twice.csv").write_text("".join([*lines, lines[-1]]))
    assert main(["predict", "run", "twice.csv"]) == 2
    told = capsys.readouterr().err
    assert "Pass the rows of one series, or join such rows into one." in told and "--group" not in told
    Path("between.csv").write_text("".join([*lines, "2009-12-17,3\n"]))
    assert main(["predict", "run", "between.csv"]) == 2
    told = capsys.readouterr().err
    assert "or leave out those between two steps." in told and "--gaps" not in told


def test_a_table_to_forecast_must_have_every_column_of_training(sales, capsys):
    rows = [f"{'ab'[k % 2]},{2000 + k // 2},{k % 7 + k % 2},{k % 5},{k % 3},{'xy'[k % 2]}" for k in range(80)]
    Path("all.csv").write_text("\n".join(["shop,year,v,cost,promo,size", *rows]) + "\n")
    line = ["train", "all.csv", "--target", "v", "--time", "year", "--group", "shop", "--horizon", "2", "--no-report"]
    line += ["--known", "promo", "--static", "size", "--model", "Linear", "--epochs", "1", "--folder", "run"]
    assert main(line) == 0
    cells = [row.split(",") for row in Path("all.csv").read_text().split()]
    for place, name in enumerate(cells[0]):
        Path("few.csv").write_text("\n".join(",".join(row[:place] + row[place + 1 :]) for row in cells) + "\n")
        capsys.readouterr()
        assert main(["predict", "run", "few.csv"]) == 2
        told = capsys.readouterr().err
        assert f"few.csv must have the columns that the model was trained on. Got no column {name}, but " in told


def test_a_search_for_the_rate_is_not_stopped_by_the_one_that_suits(sales, capsys):
    line = ["search", "sales.csv", "--target", "sales", "--time", "date", "--horizon", "3", "--model", "Linear"]
    line += ["--epochs", "1", "--trials", "2", "--space", "lr=log:1e-4:1e-1", "--folder", "found", "--json"]
    assert main(line) == 0
    assert 1e-4 <= _answer(capsys)["best"]["lr"] <= 1e-1
    assert main([*line, "--lr", "0.1"]) == 2  # what is asked for twice still is
    assert "lr must be searched or given" in capsys.readouterr().err


def test_an_answer_that_is_no_number_is_told(sales, capsys):
    line = ["train", "sales.csv", "--target", "sales", "--time", "date", "--horizon", "3", "--dim", "4"]
    assert main([*line, "--epochs", "1", "--folder", "run", "--no-report"]) == 0
    lines = Path("sales.csv").read_text().splitlines(keepends=True)
    Path("huge.csv").write_text("".join([*lines[:-3], "2009-10-01,9.96921e36\n", *lines[-2:]]))  # NetCDF's for missing
    capsys.readouterr()
    assert main(["predict", "run", "huge.csv"]) == 0
    assert "note: 3 steps ahead without a forecast, the first of them 2010-01-01; look for" in capsys.readouterr().err
    for name, first in (("steps", 1.0), ("huge-steps", 3e38)):
        rows = [{"x": [first if k == 1 else 0.5, 0.1 * k], "y": "ab"[k % 2]} for k in range(40)]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = ["train", "steps.jsonl", "--field", "x", "--target", "y", "--dim", "4", "--epochs", "1", "--no-report"]
    assert main([*line, "--folder", "classes"]) == 0
    capsys.readouterr()
    assert main(["predict", "classes", "steps.jsonl"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["predict", "classes", "huge-steps.jsonl"]) == 0
    told = capsys.readouterr()
    assert "note: 1 row without an answer that is a number, the first of them row 2; look for" in told.err
    assert told.out.splitlines()[2].endswith("nan,nan")
