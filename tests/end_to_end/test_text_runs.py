"""Text through the engine: a run that reads it, keeps its tokenizer, and answers again when it is opened."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.repeat import python

WORDS = ("the", "a", "cat", "dog", "sat", "on", "under", "mat", "tree", "river", "ran", "and", "then", "slept")


@pytest.fixture
def books(tmp_path, monkeypatch):
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "books"
    place.mkdir()
    for k in range(12):
        (place / f"{k}.txt").write_text(" ".join(np.random.default_rng(k).choice(WORDS, 150)))
    return place


@pytest.mark.parametrize("task", ["next", "masked"])
def test_a_run_on_text_is_opened_with_its_tokenizer(books, tmp_path, task):
    data = ll.data.load(books, length=16, task=task, num_tokens=290)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(290, 16), nn.Linear(16, 290))
    run = ll.fit(model, data, epochs=2, progress=False, folder=tmp_path / "run", with_report=False)
    again = ll.load(tmp_path / "run", model=model)
    assert again.inputs.config == data.inputs.config and again.data.fingerprint == data.fingerprint
    scored = again.evaluate("test")
    assert {"nll", "perplexity", "bits_per_byte"} <= set(scored) and scored["nll"] < 6
    assert torch.equal(again.predict("the cat sat").mode, run.predict("the cat sat").mode)


def test_the_account_counts_files_of_a_folder_and_rows_of_a_table(books, tmp_path):
    (books / "nothing.txt").write_text("")
    told = str(ll.data.text(books, length=16, kind="bytes").account)
    assert told.startswith("books: 13 files read, 12 used, 1 refused") and "rows" not in told
    (tmp_path / "a.csv").write_text("review\n" + "a cat sat on a mat\nthe dog ran\n" * 20)
    told = str(ll.data.text(tmp_path / "a.csv", text="review", length=8, kind="bytes", cache=False).account)
    assert told.startswith("a.csv: 40 rows read, 40 used, 0 refused")


def test_a_path_is_read_by_what_it_is(books, tmp_path):
    assert ll.data.reader_of(books) == "text" and ll.data.reader_of(books / "1.txt") == "text"
    (tmp_path / "a.csv").write_text("review,mood\n" + "a cat,good\nthe dog,bad\n" * 10)
    assert ll.data.reader_of(tmp_path / "a.csv") == "table"
    data = ll.data.load(tmp_path / "a.csv", text="review", target="mood", kind="bytes")
    assert type(data.inputs).__name__ == "Tokens" and data.recipe["source"] == "text"
    assert ll.data.load(data.recipe).fingerprint == data.fingerprint


@pytest.mark.parametrize("task", ["next", "masked"])
def test_a_record_that_names_a_target_beside_a_stream_is_read(tmp_path, task):
    (tmp_path / "a.csv").write_text("review,mood\n" + "a cat sat on a mat,good\nthe dog ran,bad\n" * 10)
    data = ll.data.text(tmp_path / "a.csv", task=task, text="review", kind="bytes", length=16, cache=False)
    older = data.with_(recipe={"source": "text", "options": {**data.recipe["options"], "target": "mood"}})
    model = nn.Sequential(nn.Embedding(262, 8), nn.Linear(8, 262))
    ll.fit(model, older, epochs=1, progress=False, folder=tmp_path / "run", with_report=False)
    again = ll.load(tmp_path / "run", model=model)
    assert again.data is not None and again.data.fingerprint == data.fingerprint
    assert "mood" not in python(json.loads((tmp_path / "run" / "run.json").read_text()))
    with pytest.raises(UserError, match="reads text alone"):
        ll.data.load(older.recipe, target="mood")
