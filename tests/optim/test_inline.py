"""The written-out updates equal torch's optimizers, and share their state."""

import pytest
import torch

from leadline.optim.inline import Inline

KINDS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "sgd, decay": lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.05),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.05),
    "nesterov": lambda p: torch.optim.SGD(p, 0.1, momentum=0.8, nesterov=True),
    "nesterov, decay": lambda p: torch.optim.SGD(p, 0.1, momentum=0.8, nesterov=True, weight_decay=0.05),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adam, decay": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
    "adamw, betas": lambda p: torch.optim.AdamW(p, 0.01, betas=(0.7, 0.9), eps=1e-3),
    "adamw, fused": lambda p: torch.optim.AdamW(p, 0.01, fused=True),
}


def parameters():
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 3), (4,)]
    return [torch.nn.Parameter(torch.randn(s, dtype=torch.float64, generator=generator)) for s in shapes]


def steps(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for k in range(count):
        g = [torch.randn(s, dtype=torch.float64, generator=generator) for s in [(4, 3), (4,)]]
        yield 0.1 / (k + 1), g


def by_torch(optimizer, params, count, seed=1):
    for rate, gradients in steps(count, seed):
        optimizer.param_groups[0]["lr"] = rate
        for p, g in zip(params, gradients, strict=True):
            p.grad = g.clone()
        optimizer.step()


@torch.no_grad()
def by_hand(inline, count, seed=1):
    update = inline.update()
    for rate, gradients in steps(count, seed):
        [scalars] = inline.scalars([rate])
        scalars = torch.tensor(scalars, dtype=torch.float64)
        update([p.data for p in inline.parameters], inline.slots, [g.clone() for g in gradients], scalars)
        inline.counted(1)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_torch(kind):
    ours, theirs = parameters(), parameters()
    mine, reference = KINDS[kind](ours), KINDS[kind](theirs)
    assert Inline.obstacle(mine) is None
    by_hand(Inline(mine), 9)
    by_torch(reference, theirs, 9)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)
    for p, q in zip(ours, theirs, strict=True):
        for name, value in reference.state[q].items():
            if value is not None:
                torch.testing.assert_close(mine.state[p][name].double(), value.double(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_alternates_with_torch(kind):
    """torch steps, then written-out ones, then torch again: one optimizer throughout."""
    ours, theirs = parameters(), parameters()
    mine, reference = KINDS[kind](ours), KINDS[kind](theirs)
    by_torch(mine, ours, 3, seed=1)
    by_hand(Inline(mine), 4, seed=2)
    by_torch(mine, ours, 3, seed=3)
    for seed, count in ((1, 3), (2, 4), (3, 3)):
        by_torch(reference, theirs, count, seed)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_scalars_of_several_steps_are_those_of_each():
    inline = Inline(KINDS["adam"](parameters()))
    together = inline.scalars([0.1, 0.2, 0.3])
    singly = []
    for rate in (0.1, 0.2, 0.3):
        singly += inline.scalars([rate]).tolist()
        inline.counted(1)
    assert together.tolist() == singly


def test_obstacles_are_named():
    p = parameters()
    assert "RMSprop" in Inline.obstacle(torch.optim.RMSprop(p))
    assert "amsgrad" in Inline.obstacle(torch.optim.AdamW(p, amsgrad=True))
    assert "maximize" in Inline.obstacle(torch.optim.SGD(p, 0.1, maximize=True))
    assert "dampening" in Inline.obstacle(torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.1))
    assert "groups" in Inline.obstacle(torch.optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 1.0}], 0.1))
