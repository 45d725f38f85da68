"""A report is written whole or not at all."""

import os

import pytest
from trained_runs import class_data, train

from leadline.report import file, write


@pytest.fixture(scope="module")
def facts():
    return train(class_data())


def test_writes_the_page_and_its_figures(facts, tmp_path):
    path = write(facts, tmp_path / "new" / "report.html")
    assert path == tmp_path / "new" / "report.html"
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    figures = sorted((path.parent / "figures").iterdir())
    assert [figure.name for figure in figures] == ["confusion.png", "learning.png", "reliability.png"]
    assert all(figure.read_bytes().startswith(b"\x89PNG\r\n") for figure in figures)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["figures", "report.html"]


@pytest.mark.parametrize("step", ["page", "fsync", "replace"])
def test_a_failure_leaves_the_old_report(facts, tmp_path, monkeypatch, step):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(file if step == "page" else os, step, fail)
    with pytest.raises(OSError, match="no space left"):
        write(facts, path)
    assert path.read_text() == "old"
    left = [entry for entry in tmp_path.rglob("*") if entry.is_file()]
    assert left == [path]


def test_a_new_report_replaces_the_old(facts, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write(facts, str(path))
    assert "MLP on shapes" in path.read_text(encoding="utf-8")
