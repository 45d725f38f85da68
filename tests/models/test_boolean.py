"""Boolean functions learned from rows: every function, in any coding, by majority against noise, and back from disk."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline.errors import ShapeError, UserError
from leadline.models.circuit import rows


def table(answers, repeat=4):
    n = len(answers).bit_length() - 1
    x = rows(n).repeat(repeat, 1)
    return x, torch.tensor(answers).repeat(repeat)


def fit(x, y, **options):
    data = ll.data.arrays(x, y, val=0.0, test=0.0)
    return ll.fit(ll.models.Boolean(x.shape[1]), data, progress=False, **options)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 254))
def test_every_function_of_three_inputs_is_learned_and_its_circuit_agrees(number):
    answers = [number >> k & 1 for k in range(8)]
    run = fit(*table(answers))
    assert run.evaluate("train")["accuracy"] == 1
    assert run.model.circuit().truth_table().flatten().tolist() == answers


@pytest.mark.parametrize("code", [lambda x: x, lambda x: 2 * x - 1, lambda x: x * 1000 + 7])
def test_bits_may_be_written_in_any_two_numbers(code):
    x, y = table([0, 1, 1, 0])
    assert fit(code(x), y).evaluate("train")["accuracy"] == 1


def test_rows_that_contradict_are_outvoted_and_weights_count():
    x, y = table([0, 1, 1, 1], repeat=10)
    y[:8] = 1 - y[:8]  # two of ten are wrong
    assert fit(x, y).model.circuit().truth_table().flatten().tolist() == [0, 1, 1, 1]
    weight = torch.ones(40)
    weight[:8] = 10
    data = ll.data.arrays(x, y, val=0.0, test=0.0, weight=weight)
    run = ll.fit(ll.models.Boolean(2), data, progress=False)
    assert run.model.circuit().truth_table().flatten().tolist() == [1, 0, 0, 0]


def test_more_epochs_and_small_batches_count_every_row_once():
    x, y = table([0, 1, 1, 0], repeat=5)
    run = fit(x, y, epochs=7, batch=3)
    assert run.model.votes.flatten().tolist() == [-5, 5, 5, -5] and len(run.history) == 1


def test_it_comes_back_from_disk(tmp_path):
    x, y = table([1, 0, 0, 0, 0, 0, 0, 1])
    run = fit(x, y, folder=tmp_path / "run", with_report=False)
    again = ll.load(tmp_path / "run")
    assert torch.equal(again.model.votes, run.model.votes)
    assert again.predict(rows(3)).mode.tolist() == [1, 0, 0, 0, 0, 0, 0, 1]


def test_gradient_descent_learns_it_too():
    x, y = table([0, 1, 1, 0], repeat=20)
    assert fit(x, y, optimizer="adamw", lr=0.1, epochs=30).evaluate("train")["accuracy"] == 1


def test_mistakes_are_answered():
    with pytest.raises(UserError, match="at most 12 inputs. Got dim_input=13"):
        ll.models.Boolean(13)
    with pytest.raises(ShapeError, match="rows must hold 2 bits"):
        ll.models.Boolean(2)(torch.zeros(3, 4))
    with pytest.raises(UserError, match="Votes needs a Boolean model.*Got a MLP and Bernoulli"):
        ll.fit(ll.models.MLP(2, (4,), 1), ll.data.moons(num=40), rule="Votes", progress=False)
