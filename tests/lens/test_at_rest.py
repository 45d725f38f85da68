"""Every lens leaves a module bit for bit as it was, and speaks the report's visual language."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.engine.events import RunStarted
from leadline.errors import UserError
from leadline.lens import style
from leadline.lens.at_rest import at_rest, exactly
from leadline.report.style import LIGHT
from leadline.report.style import MATPLOTLIB as REPORT


class Awkward(nn.Module):
    """Counts its calls in a buffer, draws random numbers, normalises by batch, drops units."""

    def __init__(self, dim_input=2, dim_output=1):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(dim_input, 4), nn.BatchNorm1d(4), nn.Linear(4, dim_output)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        torch.rand(3)
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def state(model):
    modes = [module.training for module in model.modules()]
    tensors = [t.detach().clone() for t in (*model.parameters(), *model.buffers())]
    ids = [id(t) for t in (*model.parameters(), *model.buffers())]
    grads = [p.grad.clone() for p in model.parameters()]
    return modes, tensors, ids, grads, torch.get_rng_state(), [p.requires_grad for p in model.parameters()]


def same(a, b):
    return all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y
        for one, other in zip(a, b, strict=True)
        for x, y in (zip(one, other, strict=True) if isinstance(one, list) else [(one, other)])
    )


def kept(model):
    path = ll.lens.Path(model)
    path(RunStarted(1, 1))
    return path


MOONS, OTHER = ll.data.moons(num=60), nn.Linear(2, 1)
LENSES = {
    "joints": lambda m, _: ll.lens.joints(m, torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 0.5])),
    "regions": lambda m, _: ll.lens.regions(m),
    "cells": lambda m, _: ll.lens.cells(m, [-1, -1], [1, 1]),
    "loss_surface": lambda m, d: ll.lens.loss_surface(m, d, num=3),
    "loss_slice": lambda m, d: ll.lens.loss_slice(m, d, num=3),
    "boundary": lambda m, d: ll.lens.boundary(m, d, num=9),
    "panels": lambda m, _: ll.lens.panels(m, ((-1, 1), (-1, 1)), num=40),
    "distance": lambda m, _: ll.lens.distance(m, OTHER, ((-1, 1), (-1, 1)), num=5),
    "flow": lambda m, _: ll.lens.flow(m),
    "curve": lambda m, d: ll.lens.curve(m, d, num=9),
    "criteria": lambda m, d: ll.lens.criteria(
        [m], (d.train.x, d.train.x[:, 0]), likelihood=ll.likelihoods.Normal("fixed"), num=9
    ),
    "family": lambda m, _: ll.lens.family(m, {"first.bias[0]": [0.0, 1.0]}, [0, 0], [1, 1], num=5),
    "superposition": lambda m, _: ll.lens.superposition(m, 2),
    "hessian": lambda m, d: ll.lens.hessian(m, d),
    "sharpness": lambda m, d: ll.lens.sharpness(m, d, draws=2, radii=[0.1], noise=[0.1]),
    "connect": lambda m, d: ll.lens.connect(m, copy.deepcopy(m), d, steps=2, num=3),
    "averaging": lambda m, d: ll.lens.averaging([m, copy.deepcopy(m)], d),
    "gradient_noise": lambda m, d: ll.lens.gradient_noise(m, d, batch=4),
    "confidence": lambda m, d: ll.lens.confidence(m, d, kept(m)),
    "lipschitz": lambda m, d: ll.lens.lipschitz(m, d, most=5),
}
FOLDED = {
    "simplex": (lambda: Awkward(2, 3), 2, lambda m, x: ll.lens.simplex(m, (x, CODES), likelihood=THREE)),
    "folding": (lambda: nn.Sequential(Awkward(1), Awkward(1)), 1, lambda m, _: ll.lens.folding(m)),
}
THREE, CODES = ll.likelihoods.Categorical(3), torch.arange(20) % 3


@pytest.mark.parametrize("name", LENSES)
@pytest.mark.parametrize("training", [True, False])
def test_a_lens_leaves_the_model_as_it_was(name, training):
    torch.manual_seed(0)
    model = Awkward().train(training)
    model.drop.train()  # a mode of its own
    model(torch.randn(20, 2)).sum().backward()
    before, weights = state(model), OTHER.weight.clone()
    view = LENSES[name](model, MOONS)
    assert same(before, state(model))
    assert torch.equal(weights, OTHER.weight)
    # and what it returns is numbers, as JSON
    json.dumps(view.to_dict(), allow_nan=False)
    assert view.plot().axes


@pytest.mark.parametrize("name", FOLDED)
def test_so_do_lenses_of_other_shapes(name):
    make, inputs, lens = FOLDED[name]
    model, x = make().train(), torch.randn(20, inputs)
    model(x).sum().backward()
    before = state(model)
    view = lens(model, x)
    assert same(before, state(model)) and view.plot().axes
    json.dumps(view.to_dict(), allow_nan=False)


def test_the_patterns_too():
    model = Awkward().train()
    model(torch.randn(20, 2)).sum().backward()
    x = torch.randn(5, 2)
    before = state(model)
    assert ll.lens.patterns(model, x).shape == (5, 4)
    assert same(before, state(model))


def test_state_comes_back_after_an_error():
    model = Awkward().train()
    with pytest.raises(RuntimeError), at_rest(model):
        model(torch.zeros(1, 7))
    assert model.training and model.calls == 0
    with pytest.raises(RuntimeError), exactly(model) as f:
        f(torch.zeros(1, 7, dtype=torch.float64))
    assert model.first.weight.dtype == torch.float32


def test_a_lens_wants_a_module():
    for lens in (ll.lens.flow, ll.lens.panels, lambda m: ll.lens.loss_surface(m, MOONS), ll.lens.joints):
        with pytest.raises(UserError, match="torch module"):
            lens("a net")


def test_the_style_is_that_of_the_report():
    assert tuple(LIGHT[n] for n in ("card", "ink", "soft", "line")) == (style.CARD, style.INK, style.SOFT, style.LINE)
    own = {key: value for key, value in style.MATPLOTLIB.items() if key != "savefig.dpi"}
    assert own == {key: REPORT[key] for key in own}
    assert not set(style.HUES) & {LIGHT[name] for name in ("train", "val", "test", "miss", "error")}


def test_drawing_leaves_the_session_style_alone():
    import matplotlib

    with matplotlib.rc_context({"font.size": 31}):
        figure = ll.lens.flow(nn.Linear(1, 1)).plot()
        assert matplotlib.rcParams["font.size"] == 31
    assert figure.axes[0].title.get_fontsize() == style.MATPLOTLIB["axes.titlesize"]


def test_what_is_not_finite_is_none_in_json():
    view = ll.lens.loss_slice(
        nn.Linear(1, 1), (torch.zeros(2, 1), torch.zeros(2)), likelihood=lambda o, y: o[:, 0] * np.nan
    )
    assert set(view.to_dict()["loss"]) == {None}
