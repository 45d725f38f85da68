"""A run's folder: its own, never overwritten, readable after a kill."""

import errno
import json
import math

import pytest
import torch
from engine_runs import StopAt, mlp, moons

import leadline as ll
from leadline.engine import files, keeper
from leadline.engine.events import EpochDone
from leadline.engine.record import Record
from leadline.errors import RunError


def fit(folder, *listeners):
    return ll.fit(
        mlp(), moons(), folder=folder, epochs=3, batch=16, progress=False, with_report=False, listeners=listeners
    )


def test_an_existing_run_is_never_touched(tmp_path):
    fit(tmp_path / "run")
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    with pytest.raises(RunError, match="leadline resume .*run`, or name another"):
        fit(tmp_path / "run")
    assert before == {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"meow")
    with pytest.raises(RunError, match="Move it away"):
        fit(tmp_path / "photos")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError, match="the folder of a run must be new"):
        fit(tmp_path / "file")


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "run").mkdir()
    assert fit(tmp_path / "run").reason == "finished"


def test_run_json_holds_what_is_needed_to_go_on(tmp_path):
    run = fit(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert config["schema"] == 1 and config["ended"] == "finished"
    assert config["versions"]["torch"] == torch.__version__
    assert config["data"]["fingerprint"] == run.data.fingerprint
    assert config["model"]["config"] == run.model.config
    assert config["settings"] == run.settings.config
    assert config["settings"]["threads"] is not None and config["settings"]["precision"] != "auto"


def test_metrics_are_the_history(tmp_path):
    run = fit(tmp_path / "run")
    assert Record.open(tmp_path / "run").lines("metrics.jsonl") == run.history
    assert ll.load(tmp_path / "run").history == run.history


def test_a_killed_run_shows_what_was_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(keeper, "_LEAST_SECONDS", math.inf)  # no checkpoint but the first

    def power_cut(event):
        if isinstance(event, EpochDone) and event.epoch == 2:
            raise SystemError("power cut")

    with pytest.raises(SystemError, match="power cut"):
        fit(tmp_path / "run", power_cut)
    loaded = ll.load(tmp_path / "run")
    assert loaded.history == Record.open(tmp_path / "run").lines("metrics.jsonl")
    assert [line["epoch"] for line in loaded.history] == [1, 2]
    assert loaded.reason == "interrupted"
    ended = ll.resume(tmp_path / "run", progress=False)
    assert ended.history == fit(tmp_path / "whole").history


@pytest.mark.parametrize("torn", ['{"epoch": 3, "st', "{", '{"epoch": 3}{'])
def test_a_torn_last_line_is_left_out(tmp_path, torn):
    run = fit(tmp_path / "run", StopAt(7))
    with open(tmp_path / "run" / "metrics.jsonl", "a") as file:
        file.write(torn)
    assert ll.load(tmp_path / "run").history == run.history
    ended = ll.resume(tmp_path / "run", progress=False, with_report=False)
    assert [line["epoch"] for line in ended.history] == [1, 2, 3]
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert [json.loads(line)["epoch"] for line in text.splitlines()] == [1, 2, 3]


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(RunError, match="does not exist"):
        ll.load(tmp_path / "nothing")
    with pytest.raises(RunError, match="must hold run.json"):
        ll.load(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match="must be JSON"):
        ll.load(tmp_path)
    (tmp_path / "run.json").write_text('{"schema": 77}')
    with pytest.raises(RunError, match="schema 77"):
        ll.load(tmp_path)


def test_lines_hold_no_nan(tmp_path):
    record = Record.create(tmp_path / "run", {})
    record.append("metrics.jsonl", {"step": 1, "train": {"loss": float("nan"), "r2": float("inf"), "x": 1.5}})
    assert record.lines("metrics.jsonl") == [{"step": 1, "train": {"loss": None, "r2": None, "x": 1.5}}]


def test_replacing_a_file_keeps_the_old_one_until_the_new_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    files.replace_json(path, {"a": 1})
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, name, lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
            with pytest.raises(OSError):
                files.replace_json(path, {"a": 2})
        assert json.loads(path.read_text()) == {"a": 1}
        assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
    files.replace_json(path, {"a": "ü"})
    assert json.loads(path.read_text()) == {"a": "ü"}


def test_a_read_only_place_answers_with_a_remedy(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError, match="--folder"):
        fit(tmp_path / "file" / "run")
