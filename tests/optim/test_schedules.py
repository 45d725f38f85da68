"""Learning rates over a run: they rise during warm-up, then follow their name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.errors import UnknownName
from leadline.optim.schedules import SCHEDULES, schedule


@given(st.sampled_from(sorted(SCHEDULES)), st.floats(0, 0.9), st.integers(1, 2000))
def test_factors_lie_between_0_and_1(name, warmup, total):
    factor = schedule(name, warmup, total)
    assert all(0 <= factor(step) <= 1 + 1e-12 for step in range(total))
    assert factor(0) > 0  # the first step already moves


@pytest.mark.parametrize("name", SCHEDULES)
def test_warm_up_rises_to_the_highest_rate(name):
    factor = schedule(name, 0.2, 100)
    rising = [factor(step) for step in range(21)]
    assert rising == sorted(rising) and len(set(rising)) == 21
    assert rising[20] == pytest.approx(1.0)
    assert rising[0] == pytest.approx(1 / 21)


@pytest.mark.parametrize("name", ["cosine", "linear", "step"])
def test_falls_after_warm_up(name):
    factor = schedule(name, 0.1, 1000)
    falling = [factor(step) for step in range(100, 1000)]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] <= 0.011


def test_constant_stays():
    assert {schedule("constant", 0.0, 50)(step) for step in range(50)} == {1.0}


def test_known_values():
    assert schedule("cosine", 0.0, 100)(50) == pytest.approx(0.5)
    assert schedule("linear", 0.5, 100)(75) == pytest.approx(0.5)
    assert [round(schedule("step", 0.0, 9)(k), 6) for k in range(9)] == [1, 1, 1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01]


def test_unknown_name_answers_with_the_closest():
    with pytest.raises(UnknownName, match="cosine"):
        schedule("cosin", 0.0, 10)
