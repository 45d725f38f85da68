"""Spaces: what is drawn is legal, what depends on others exists only then, and words say the same."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import UserError
from leadline.selection.proposals import Arms, Dice, by_forest, drawn, expected_improvement
from leadline.selection.rungs import brackets, planned
from leadline.selection.space import Space, choice, integer, log, parse, uniform

SPACE = {
    "lr": log(1e-4, 1e-1),
    "batch": integer(8, 64, log=True),
    "momentum": uniform(0.5, 0.9).when(optimizer="sgd"),
    "optimizer": ["sgd", "adamw"],
    "hidden": choice((50,), (100, 100)),
}


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_draws_are_legal_and_conditions_hold(seed):
    values = Space(SPACE).draw(Dice(np.random.default_rng(seed)))
    assert 1e-4 <= values["lr"] <= 1e-1 and 8 <= values["batch"] <= 64 and isinstance(values["batch"], int)
    assert values["hidden"] in ((50,), (100, 100))
    assert ("momentum" in values) == (values["optimizer"] == "sgd")


def test_what_is_stored_comes_back():
    space = Space(SPACE)
    stored = drawn(space, Dice(np.random.default_rng(1)))
    again = space.draw(Dice(np.random.default_rng(1)))
    assert stored["hidden"] in ("50", "100,100") and space.values_of(stored) == again


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        ("log:1e-4:1e-1", log(1e-4, 1e-1)),
        ("uniform:-1:1", uniform(-1, 1)),
        ("int:1:8", integer(1, 8)),
        ("logint:1:8", integer(1, 8, log=True)),
        ("choice:50:100,100", choice(50, (100, 100))),
        ("uniform:0:1@optimizer=sgd:nesterov", uniform(0, 1).when(optimizer=["sgd", "nesterov"])),
    ],
)
def test_words_say_the_same(words, spec):
    assert parse(words) == spec


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: log(0, 1), "low must be a number above 0"),
        (lambda: uniform(1, 1), "from low to high"),
        (lambda: integer(1.5, 3), "low must be a whole number"),
        (lambda: choice(1), "two different values"),
        (lambda: parse("lgo:1:2"), "Did you mean log"),
        (lambda: parse("log:1"), "two ends"),
        (lambda: parse("int:1:a"), "whole numbers"),
        (lambda: parse("log:1:2@sgd"), "after an @"),
        (lambda: Space({}), "a space must hold"),
        (lambda: Space({"lr": 3}), "lr must be a range or a choice"),
        (lambda: Space({"a": uniform(0, 1).when(b=1)}), "b, which is not in it"),
        (lambda: Space({"a": [1, 2], "b": uniform(0, 1).when(a=3)}), "a is one of 1, 2"),
        (lambda: Space({"a": uniform(0, 1).when(b=1), "b": uniform(0, 1).when(a=1)}), "circle"),
    ],
)
def test_mistakes_in_a_space(make, said):
    with pytest.raises(UserError, match=said):
        make()


def test_rungs_are_those_of_the_paper():
    table = [[(rung.settings, rung.epochs) for rung in rungs] for rungs in brackets(81, 3)]
    assert table[0] == [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)]
    assert table[1] == [(34, 3), (11, 9), (3, 27), (1, 81)] and table[-1] == [(5, 81)]


@given(st.integers(1, 100), st.integers(1, 40))
def test_planned_brackets_use_all_trials(trials, epochs):
    plan = list(planned(trials, epochs))
    assert sum(rungs[0].settings for rungs in plan) == trials
    for rungs in plan:
        assert all(a.settings >= b.settings and a.epochs <= b.epochs for a, b in itertools.pairwise(rungs))


def test_arms_that_win_are_drawn_more_often():
    tried = [({"act": "good"}, 1.0)] * 12 + [({"act": "bad"}, 0.0)] * 12
    arms = Arms(np.random.default_rng(0), tried)
    found = [arms.suggest_categorical("act", ["good", "bad", "new"]) for _ in range(200)]
    assert found.count("good") > 120 > 10 > found.count("bad")
    assert found.count("new") > 10  # what was never tried still has a chance


def test_a_forest_goes_where_scores_are_high():
    space = Space({"x": uniform(0, 1), "kind": ["a", "b"]})
    score = lambda values: (values["kind"] == "b") - (values["x"] - 0.7) ** 2  # noqa: E731
    rng = np.random.default_rng(0)
    tried = [(values, score(values)) for values in (drawn(space, Dice(rng)) for _ in range(12))]
    start = np.mean([value for _, value in tried])
    for seed in range(16):
        values = by_forest(space, tried, [], seed)
        assert values == by_forest(space, tried, [], seed)
        tried.append((values, score(values)))
    assert all(values["kind"] == "b" for values, _ in tried[-8:])
    assert np.mean([value for _, value in tried[-8:]]) > 0.9 > start


def test_expected_improvement_is_the_integral():
    z = np.random.default_rng(0).normal(size=400_000)
    drawn_ones = np.maximum(0, 0.3 + 0.5 * z - 0.6).mean()
    assert expected_improvement(np.array([0.3]), np.array([0.5]), 0.6)[0] == pytest.approx(drawn_ones, rel=0.02)
