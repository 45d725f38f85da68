"""Sources by name, by path and by recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from leadline.data import INPUTS, SOURCES, inputs_from, is_path, load, mnist1d, reader_by, source, table
from leadline.errors import DataError, UnknownName, UserError


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "mnist1d"])
def test_every_source_loads_by_name_and_again_by_its_recipe(name):
    data = load(name)
    assert data.recipe["source"] == name and len(data.train)
    assert load(data.recipe).fingerprint == data.fingerprint


def test_names_are_found_whatever_their_case():
    assert source("MNIST1D") is mnist1d and source("table") is table
    assert load("Moons", num=40).name == "moons"


def test_names_and_paths_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("moons").touch()
    Path("mine").touch()
    assert not is_path("moons") and is_path("mine") and is_path("a/b") and is_path(Path("moons")) and is_path("a.xls")
    assert not is_path("mnist2d")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "table"),
        ({"target": "b", "horizon": 2, "level": "moving"}, "series"),
        ({"edges": "edges.csv", "level": "edge"}, "graph"),
        ({"task": "pairs"}, "text"),
        ({"sequence": "a", "horizon": None}, "sequences"),
        ({"set": "a"}, "sets"),
    ],
)
def test_a_table_is_read_as_its_options_say(options, expected):
    assert reader_by("rows.csv", options) == expected


def test_pairs_are_loaded_by_their_task(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"{k} cats\t{k} chats\n" for k in range(40)))
    assert load(tmp_path / "pairs.tsv", task="pairs", kind="bytes").inputs.task == "pairs"


def test_slips_answer_with_what_was_meant(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean moons"):
        load("moon")
    with pytest.raises(UnknownName, match="an option of moons .*Did you mean noise"):
        load("moons", nose=0.1)
    with pytest.raises(UnknownName, match="an option of table .*Did you mean target"):
        load("cars.csv", targt="price")
    with pytest.raises(UserError, match="table needs target"):
        load("cars.csv")
    with pytest.raises(DataError, match="a table's file must exist"):
        load(tmp_path / "cars.csv", target="price")
    with pytest.raises(UnknownName, match="Did you mean Standardize"):
        inputs_from("Standardise", {})


def test_inputs_are_rebuilt_by_name():
    data = load("iris")
    again = inputs_from(type(data.inputs).__name__, data.inputs.config)
    assert again.config == data.inputs.config and set(INPUTS) >= {"Identity", "Standardize", "Rescale", "TableInputs"}
