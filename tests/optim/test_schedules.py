"""Learning rates over a run: they rise during warm-up, then follow their name."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leadline.errors import UnknownName, UserError
from leadline.optim.schedules import OWN_WARMUP, SCHEDULES, schedule
from leadline.settings import Settings


@given(st.sampled_from(sorted(SCHEDULES)), st.floats(0, 0.9), st.integers(1, 2000))
def test_factors_lie_between_0_and_1(name, warmup, total):
    factor = schedule(name, warmup, total)
    assert all(0 <= factor(step) <= 1 + 1e-12 for step in range(total))
    assert factor(0) > 0  # the first step already moves


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name not in OWN_WARMUP])
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


# ── beside torch's ──


def torchs(make, steps):
    """What a scheduler of torch's makes of a rate of 1."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler, found = make(optimizer), []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("step(2, 0.5)", lambda o: torch.optim.lr_scheduler.StepLR(o, 20, 0.5)),
        ("restarts(4)", lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 25)),
        ("restarts(2, 3)", lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 25, 3)),
        ("one_cycle", lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, 101, cycle_momentum=False)),
        (
            "one_cycle(0.5)",
            lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, 101, None, None, 0.5, cycle_momentum=False),
        ),
        ("inverse(10, 1)", lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda k: 1 / (1 + k / 10))),
    ],
)
def test_torchs_schedulers_say_the_same(name, make):
    total = 101 if name.startswith("one_cycle") else 100
    factor = schedule(name, 0.0, total, per_epoch=10)
    assert [factor(step) for step in range(100)] == pytest.approx(torchs(make, 100), abs=1e-12)


def test_a_cycle_falls_and_rises_and_the_last_ends_in_its_valley():
    factor = schedule("cyclic(3, 0.2)", 0.0, 1000)
    ways = [factor(step) for step in range(1000)]
    valleys = [k for k in range(1, 999) if ways[k - 1] > ways[k] <= ways[k + 1]]
    assert [round(k / 1000, 2) for k in valleys] == [0.2, 0.6] and ways[-1] == pytest.approx(0.2, abs=0.005)
    assert max(ways) == 1.0 and min(ways) == pytest.approx(0.2, abs=0.005)


@pytest.mark.parametrize("power", [0.6, 1.0])
def test_inverse_time_meets_robbins_and_monro(power):
    """Partial sums of the rates go on growing as their integral does; those of the squares are bounded."""
    factor = schedule(f"inverse(10, {power})", 0.0, 10)
    rates = [factor(step) for step in range(200_000)]
    halves = sum(rates[:100_000]), sum(rates[100_000:])
    assert halves[1] > 6.9  # power 1: 10 log 2, however late; less power: more
    assert sum(r * r for r in rates) < 1 + 10 / (2 * power - 1)


def test_warm_up_precedes_what_counts_steps_and_epochs():
    assert schedule("inverse(10)", 0.2, 100)(20) == 1.0
    factor = schedule("step(1, 0.5)", 0.2, 100, per_epoch=10)
    assert [factor(step) for step in (20, 29, 30, 40)] == [1.0, 1.0, 0.5, 0.25]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("step(0)", "epochs of schedule step must be a whole number of at least 1. Got step(0). Write step(10, 0.5)"),
        ("cosine(2)", "schedule cosine takes no number"),
        ("restarts(1, 2, 3)", "takes at most 2 numbers"),
        ("inverse(10, 0.2)", "power of schedule inverse must be a number of at least 0.5 and at most 1"),
        ("one_cycle(x)", "a name with finite numbers in brackets"),
        ("stp(2)", "schedule must be a known word"),
    ],
)
def test_numbers_that_make_no_schedule_are_refused(written, said):
    with pytest.raises(UserError) as error:
        Settings(schedule=written)
    assert said in str(error.value)


def test_epochs_must_be_known_where_they_are_counted():
    with pytest.raises(UserError, match="counts epochs"):
        schedule("step(2, 0.5)", 0.0, 100)
