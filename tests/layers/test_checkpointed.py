"""Recomputed layers: the same bits, the same noise, the same statistics, in less memory and one more pass."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

import leadline as ll
from leadline.errors import UserError
from leadline.layers import Checkpointed, Dropout, noise

X = torch.randn(32, 16, generator=torch.Generator().manual_seed(1))


def layers():
    torch.manual_seed(0)
    blocks = [(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Tanh(), Dropout(0.3, k), nn.Dropout(0.1)) for k in range(4)]
    return [layer for block in blocks for layer in block]


def step(model, keys=True):
    """Gradients and buffers after a step whose backward pass runs outside of the keys."""
    model.train()
    torch.manual_seed(5)
    with noise.keyed(noise.example_keys(0, 0, torch.arange(32)) if keys else None):
        loss = model(X).square().sum()
    loss.backward()
    return [p.grad for p in model.parameters()], list(model.buffers())


@pytest.mark.parametrize("every", [1, 3, 7, 20, 100])
@pytest.mark.parametrize("keys", [True, False])
def test_gradients_and_statistics_are_those_of_the_bare_chain(every, keys):
    wanted, found = step(nn.Sequential(*layers()), keys), step(Checkpointed(layers(), every), keys)
    for a, b in zip(wanted, found, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


def test_weights_put_in_place_for_a_call_are_those_of_the_way_back():
    chain = Checkpointed([nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)], 2)
    other = {name: torch.randn_like(p).requires_grad_() for name, p in chain.named_parameters()}
    bare = nn.Sequential(*chain.layers)
    plain = {name.removeprefix("layers."): p for name, p in other.items()}
    found = torch.autograd.grad(functional_call(chain, other, (X,)).sum(), list(other.values()))
    wanted = torch.autograd.grad(functional_call(bare, plain, (X,)).sum(), list(plain.values()))
    assert all(torch.equal(p, q) for p, q in zip(found, wanted, strict=True))


def test_a_step_takes_one_more_forward_pass():
    passes = 0

    class Counting(nn.Module):
        def forward(self, h):
            nonlocal passes
            passes += 1
            return h.tanh()

    chain = Checkpointed([Counting() for _ in range(12)], 4)
    out = chain(X.clone().requires_grad_())
    assert passes == 12
    out.sum().backward()
    assert passes == 24
    with torch.no_grad():
        chain(X)
    assert passes == 36


def test_fit_does_not_notice():
    data, runs = ll.data.moons(num=80), []
    for wrap in (lambda parts: nn.Sequential(*parts), lambda parts: Checkpointed(parts, 2)):
        torch.manual_seed(0)
        parts = [
            nn.Linear(2, 8),
            nn.Tanh(),
            Dropout(0.2, 1),
            nn.Linear(8, 8),
            nn.Tanh(),
            Dropout(0.2, 2),
            nn.Linear(8, 1),
        ]
        runs.append(ll.fit(wrap(parts), data, epochs=2, progress=False, compile="off", threads=1))
    first, second = (list(run.model.state_dict().values()) for run in runs)
    assert all(torch.equal(p, q) for p, q in zip(first, second, strict=True))


def test_what_is_no_chain_is_refused():
    with pytest.raises(UserError, match="layers that run one after the other"):
        Checkpointed([])
    with pytest.raises(UserError, match="every must be a whole number of at least 1"):
        Checkpointed([nn.Tanh()], 0)
