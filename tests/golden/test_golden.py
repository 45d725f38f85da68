"""Refactors may not move the numbers: the first ten losses of fixed runs are stored."""

import json

import pytest
from first_steps import RUNS, STORE, losses


def test_each_run_is_stored():
    assert json.loads(STORE.read_text()).keys() == RUNS.keys()


@pytest.mark.parametrize("name", RUNS)
def test_first_losses(name):
    assert losses(name) == pytest.approx(json.loads(STORE.read_text())[name], rel=1e-5)
