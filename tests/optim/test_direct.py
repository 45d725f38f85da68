"""Stepping without torch's bookkeeping moves the same parameters by the same bits."""

import copy

import pytest
import torch
from torch import nn

from leadline.optim.direct import Direct

KINDS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, fused=True),
    "dampened": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5, fused=True),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1, fused=True),
    "amsgrad": lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True, fused=True),
    "ascent": lambda p: torch.optim.AdamW(p, 0.01, maximize=True, fused=True),
}


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def descend(model, step, optimizer, steps=7, skip=()):
    generator = torch.Generator().manual_seed(1)
    for k in range(steps):
        x = torch.randn(8, 3, generator=generator)
        for p in model.parameters():
            p.grad = None
        model(x).square().sum().backward()
        for index in skip:
            list(model.parameters())[index].grad = None
        optimizer.param_groups[0]["lr"] = 0.01 * (k + 1)
        step()


@pytest.mark.parametrize("kind", KINDS)
def test_same_bits_as_the_optimizer(kind):
    ours, theirs = network(), network()
    mine, reference = KINDS[kind](ours.parameters()), KINDS[kind](theirs.parameters())
    assert Direct.fits(mine)
    direct = Direct(mine)
    descend(ours, direct.step, mine)
    descend(theirs, reference.step, reference)
    assert direct.ready
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(mine.state.values(), reference.state.values(), strict=True):
        for name in b:
            assert a[name] is b[name] or torch.equal(a[name], b[name]), name


@pytest.mark.parametrize("kind", ["momentum", "adamw"])
def test_parameters_without_gradient_go_the_ordinary_way(kind):
    ours, theirs = network(), network()
    mine, reference = KINDS[kind](ours.parameters()), KINDS[kind](theirs.parameters())
    descend(ours, Direct(mine).step, mine, skip=(1,))
    descend(theirs, reference.step, reference, skip=(1,))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


def test_state_taken_up_in_the_middle():
    """A Direct made on an optimizer that has already moved continues as the optimizer would."""
    ours = network()
    mine = KINDS["adamw"](ours.parameters())
    descend(ours, mine.step, mine, steps=3)
    theirs = copy.deepcopy(ours)
    reference = KINDS["adamw"](theirs.parameters())
    reference.load_state_dict(copy.deepcopy(mine.state_dict()))
    descend(ours, Direct(mine).step, mine)
    descend(theirs, reference.step, reference)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


def test_what_does_not_fit():
    parameters = list(network().parameters())
    assert not Direct.fits(torch.optim.SGD(parameters, 0.1))  # not fused
    assert not Direct.fits(torch.optim.Adagrad(parameters, 0.1))
    assert not Direct.fits(torch.optim.LBFGS(parameters))
    groups = [{"params": parameters[:2]}, {"params": parameters[2:]}]
    assert not Direct.fits(torch.optim.SGD(groups, 0.1, fused=True))
    hooked = torch.optim.SGD(parameters, 0.1, fused=True)
    hooked.register_step_post_hook(lambda *_: None)
    assert not Direct.fits(hooked)
