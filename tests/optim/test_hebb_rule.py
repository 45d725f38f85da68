"""Hebb's rule stores in one pass, and a second one changes nothing."""

import pytest
import torch

import leadline as ll
from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods import Signs
from leadline.models import DenseMemory, Hopfield, ModernHopfield
from leadline.optim import Hebb
from leadline.reference.first_machines import hebb_couplings


def patterns(count, dim, seed=0):
    return torch.randint(2, (count, dim), generator=torch.Generator().manual_seed(seed)).float() * 2 - 1


def stepped(model, y, size=3, passes=1):
    rule = Hebb()
    rule.steps_per_epoch = -(-len(y) // size)
    rule.bind(model, Signs(y.shape[1]), 1)
    step = 0
    for _ in range(passes):
        for rows in torch.randperm(len(y)).split(size):
            rule.step(Batch(y[rows], y[rows], example=rows), step)
            step += 1
    return rule


def test_the_weights_equal_their_twin_whatever_the_batches():
    y = patterns(7, 9)
    wanted = hebb_couplings(y.int().tolist())
    for size in (1, 3, 7):
        net = Hopfield(9)
        rule = stepped(net, y, size)
        assert net.weight.tolist() == wanted and rule.stored == 7 and rule.finished


@pytest.mark.parametrize("make", [lambda: Hopfield(9), lambda: DenseMemory(9, num_patterns=7)])
def test_a_second_pass_changes_nothing(make):
    y = patterns(7, 9)
    once, thrice = make(), make()
    stepped(once, y)
    stepped(thrice, y, passes=3)
    x = patterns(5, 9, seed=1)
    assert torch.equal(once.eval()(x).sign(), thrice.eval()(x).sign())
    torch.testing.assert_close(once.train()(x), thrice.train()(x))


def test_a_pass_is_over_when_all_batches_were_seen():
    rule = Hebb()
    rule.steps_per_epoch = 2
    rule.bind(Hopfield(4), Signs(4), 2)
    y = patterns(4, 4)
    rule.step(Batch(y[:2], y[:2], example=torch.tensor([0, 1])), 0)
    assert not rule.finished
    rule.step(Batch(y[2:], y[2:], example=torch.tensor([2, 3])), 1)
    assert rule.finished


def test_its_state_is_what_it_stored():
    y, net = patterns(6, 8), Hopfield(8)
    first = Hebb()
    first.bind(net, Signs(8), 2)
    first.step(Batch(y[:4], y[:4], example=torch.arange(4)), 0)
    second = Hebb()
    second.bind(net, Signs(8), 2)
    second.load_state(first.state())
    second.step(Batch(y, y, example=torch.arange(6)), 1)  # the first four again: left out
    assert net.weight.tolist() == hebb_couplings(y.int().tolist()) and second.stored == 6


def test_the_loss_is_that_before_the_move():
    y, net = patterns(3, 8), Hopfield(8)
    rule = Hebb()
    rule.bind(net, Signs(8), 1)
    empty = rule.step(Batch(y, y), 0)
    assert empty.item() == pytest.approx(8 * 0.693147, rel=1e-5)
    assert rule.step(Batch(y, y), 1) < empty


@pytest.mark.parametrize(
    "make",
    [
        lambda: Hopfield(120),
        lambda: Hopfield(120, mode="synchronous"),
        lambda: DenseMemory(120, num_patterns=8),
        lambda: ModernHopfield(120, 120, num_patterns=8),
    ],
)
def test_a_memory_goes_through_fit_evaluate_predict_and_load(make, tmp_path):
    data = ll.data.patterns(8, 120, corrupted=0.15)
    run = ll.fit(make(), data, rule=Hebb(), folder=tmp_path / "run", epochs=2, progress=False)
    found = run.evaluate("test")
    assert (found["overlap"], found["bits"], found["recalled"]) == (1.0, 1.0, 1.0)
    assert torch.equal(run.predict(data.test.x).mode, data.test.y)
    again = ll.load(tmp_path / "run")
    assert again.evaluate("test")["recalled"] == 1.0
    assert torch.equal(again.predict(data.test.x).mode, data.test.y)


def test_resume_stores_the_rest_only(tmp_path):
    data = ll.data.patterns(8, 60)
    whole = ll.fit(Hopfield(60), data, rule=Hebb(), folder=tmp_path / "whole", epochs=2, batch=2, progress=False)
    run = ll.fit(Hopfield(60), data, rule=Hebb(), folder=tmp_path / "run", epochs=2, batch=2, progress=False)
    assert torch.equal(whole.model.weight, run.model.weight)
    assert run.model.weight.tolist() == hebb_couplings(data.train.y.int().tolist())


def test_hebb_needs_a_memory():
    with pytest.raises(UserError, match="needs a model of memory. Got a model of type Linear"):
        ll.fit(ll.models.Linear(20, 20), ll.data.patterns(3, 20), rule=Hebb(), epochs=1, progress=False)
