"""Lenses of pictures leave a module bit for bit as it was: one that counts, draws, normalises and drops."""

import json

import pytest
import torch
from torch import nn

import leadline as ll


class Awkward(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Dropout(0.5)
        self.block = Added()
        self.last = nn.Linear(3, 2)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        torch.rand(3)
        h = torch.relu_(self.norm(self.first(x)))
        return self.last(self.drop(self.block(self.block(h))).mean((2, 3)))


class Added(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return x + torch.relu(self.branch(x))


def state(model):
    tensors = [
        t.detach().clone() for t in (*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters()))
    ]
    ids = [id(t) for t in (*model.parameters(), *model.buffers())]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    modes = [m.training for m in model.modules()]
    return tensors, (ids, hooks, modes, [p.requires_grad for p in model.parameters()]), torch.get_rng_state()


PAIR = (torch.randn(6, 1, 8, 8), torch.arange(6) % 2)
X = PAIR[0]
LENSES = {
    "receptive_field": lambda m: ll.lens.receptive_field(m, X, "block", perturb=0.1),
    "filters": ll.lens.filters,
    "feature_maps": lambda m: ll.lens.feature_maps(m, X),
    "saliency": lambda m: ll.lens.saliency(m, X, kind="smooth", draws=2),
    "occlusion": lambda m: ll.lens.occlusion(m, X),
    "class_activation": lambda m: ll.lens.class_activation(m, X),
    "activation_maximum": lambda m: ll.lens.activation_maximum(m, (1, 8, 8), "block", [0, 2], steps=3, jitter=1),
    "inversion": lambda m: ll.lens.inversion(m, X, "first", steps=3, num=2),
    "equivariance": lambda m: ll.lens.equivariance(m, X, module="first"),
    "shift_consistency": lambda m: ll.lens.shift_consistency(m, X, 1),
    "artefacts": lambda m: ll.lens.artefacts(m, X, 2, "block", margin=1),
    "path_gradients": lambda m: ll.lens.path_gradients(m, X),
    "deletion": lambda m: ll.lens.deletion(m, PAIR, ll.likelihoods.Categorical(2)),
    "dissection": lambda m: ll.lens.dissection(m, X, (X[:, 0] > 0).long(), "block"),
}


@pytest.mark.parametrize("name", LENSES)
def test_a_lens_leaves_the_model_as_it_was(name):
    torch.manual_seed(0)
    model = Awkward().train()
    model.norm.eval()  # a mode of its own
    model(X).sum().backward()
    tensors, rest, random = state(model)
    view = LENSES[name](model)
    after, others, now = state(model)
    assert all(torch.equal(a, b) for a, b in zip(tensors, after, strict=True))
    assert rest == others and torch.equal(random, now)
    json.dumps(view.to_dict(), allow_nan=False)
    assert view.plot().axes


@pytest.mark.parametrize("name", LENSES)
def test_and_wants_a_module(name):
    with pytest.raises(ll.errors.UserError, match="torch module|parameters|callable"):
        LENSES[name]("a net")


def test_hooks_go_after_an_error_too():
    model = Awkward()
    for broken in (
        lambda: ll.lens.saliency(model, torch.zeros(1, 7, 8, 8)),
        lambda: ll.lens.receptive_field(model, torch.zeros(1, 7, 8, 8)),
        lambda: ll.lens.class_activation(model, torch.zeros(1, 7, 8, 8)),
        lambda: ll.lens.path_gradients(model, torch.zeros(1, 7, 8, 8)),
    ):
        with pytest.raises(RuntimeError):
            broken()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules()) and model.calls == 0
