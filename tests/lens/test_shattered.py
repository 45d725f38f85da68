"""Shattered gradients: the definition by hand, and the ranking of shallow, deep and residual networks."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from leadline.errors import UserError
from leadline.init import initialise
from leadline.lens import shattered
from leadline.models import MLP


def build(layers, residual=False, width=100):
    net = MLP(1, (width,) * layers, 1, activation="relu", p_drop=0, residual=residual)
    initialise(net, "he")
    for name, p in net.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(p, std=1.0)  # without biases a line of one input bends at 0 only
    return net


def test_the_correlation_is_that_of_the_definition():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2))
    start, end = torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 2.0])
    view = shattered(net, start, end, num=9, lags=3)
    t = np.linspace(0, 1, 9)
    step = 1e-6
    line = lambda s: (start.double() + s * (end - start).double())[None]  # noqa: E731
    f = lambda s: float(net.double()(line(s)).sum().detach())  # noqa: E731
    slopes = np.array([(f(s + step) - f(s - step)) / (2 * step) for s in t])
    [gradients] = view.gradients.values()
    np.testing.assert_allclose(gradients, slopes, rtol=1e-6)
    centred = slopes - slopes.mean()
    by_hand = [np.mean(centred[: 9 - lag] * centred[lag:]) / np.mean(centred**2) for lag in range(4)]
    np.testing.assert_allclose(next(iter(view.correlation.values())), by_hand, rtol=1e-5)


def test_every_draw_counts_alike_however_steep_it_is():
    def scaled():
        torch.manual_seed(next(seeds))
        net = nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1))
        net[2].weight.data *= next(sizes)
        return net

    options = {"num": 40, "lags": 6, "draws": 3}
    seeds, sizes = iter((0, 1, 2)), iter((1.0, 1.0, 1.0))
    alike = shattered({"a": scaled}, **options).correlation["a"]
    seeds, sizes = iter((0, 1, 2)), iter((1.0, 1000.0, 0.0))  # the last is flat: it has no correlation
    other = shattered({"a": scaled}, **options).correlation["a"]
    seeds, sizes = iter((0, 1)), iter((1.0, 1.0))
    two = shattered({"a": scaled}, **{**options, "draws": 2}).correlation["a"]
    np.testing.assert_allclose(other, two, rtol=1e-6)
    assert np.abs(alike - two).max() > 1e-3 and other[0] == pytest.approx(1)
    assert (shattered(nn.Linear(1, 1), num=40, lags=3).correlation["Linear"] == 1).all()  # never forgets


def test_depth_shatters_and_skips_mend():
    nets = {"shallow": lambda: build(1), "deep": lambda: build(24), "skips": lambda: build(24, residual=True)}
    view = shattered(nets, draws=8, num=128, lags=20)
    at = {name: values[10] for name, values in view.correlation.items()}  # a twelfth of the line
    assert at["shallow"] > 0.6 and at["deep"] < 0.4 and at["skips"] > at["deep"] + 0.3
    json.dumps(view.to_dict(), allow_nan=False)
    assert len(view.plot().axes) == 4


def test_a_module_is_left_as_it_was_and_messages_help():
    net = build(2).train()
    before = [p.clone() for p in net.parameters()]
    shattered(net, num=8, lags=2)
    assert net.training and all(p.dtype == torch.float32 for p in net.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
    with pytest.raises(UserError, match="functions that build one"):
        shattered("net")
    with pytest.raises(UserError, match="must build a module"):
        shattered({"a": lambda: 3})
