"""Capacity where it is known, and Lipschitz constants between their bounds."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.models import cover
from leadline.models.dichotomies import parted


def plane(x, y):
    """A plane with a bias that parts the rows, where there is one."""
    return y if parted(x, y, bias=True) else 1 - y


def test_planes_have_the_dimension_plus_one():
    points = torch.randn(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    view = ll.lens.vc_dimension(plane, points)
    assert view.largest == 3 and view.rows.tolist() == [1, 2, 3, 4]
    assert view.share.tolist() == [1, 1, 1, cover(4, 3) / 16] and view.plot().axes
    with pytest.raises(UserError, match="10 points"):
        ll.lens.vc_dimension(plane, torch.zeros(11, 2))


def test_random_labels_and_the_best_constant():
    n, draws = 9, 400
    majority = lambda x, y: torch.full_like(y, int(2 * y.sum() > len(y)))  # noqa: E731
    view = ll.lens.rademacher(majority, torch.zeros(n, 1), draws=draws)
    exact = sum(math.comb(n, k) * abs(n - 2 * k) for k in range(n + 1)) / 2**n / n
    assert view.value == pytest.approx(exact, abs=4 * view.error) and view.error < 0.02 and view.plot().axes
    assert ll.lens.rademacher(lambda x, y: 1 - y, torch.zeros(n, 1)).value == -1


@pytest.mark.parametrize("held", [0, 1, 6, 29, 30, 31])
def test_effective_capacity_is_found(held):
    remembers = lambda x, y: y if len(y) <= held else y + 1  # noqa: E731
    view = ll.lens.effective_capacity(remembers, torch.zeros(30, 1), classes=5)
    assert view.largest == min(held, 30) and ("or more" in view.title) == (held >= 30)
    assert (np.diff(view.rows) > 0).all() and view.plot().axes


def test_its_labels_may_be_the_true_ones():
    x = torch.linspace(-1, 1, 40)[:, None]
    sign = lambda x, y: (x[:, 0] > 0).long()  # noqa: E731
    assert ll.lens.effective_capacity(sign, x, (x[:, 0] > 0).long()).largest == 40
    assert ll.lens.effective_capacity(sign, x).largest < 6
    with pytest.raises(UserError, match="one label for each row"):
        ll.lens.effective_capacity(lambda x, y: y[:, None], x)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "silu", "sigmoid", "leaky_relu", "elu", "selu", "sin"])
def test_no_slope_is_above_the_bound(activation):
    torch.manual_seed(0)
    model = ll.models.MLP(3, (8, 8), 2, activation=activation, p_drop=0.0).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    x = 3 * torch.randn(60, 3, dtype=torch.float64)
    view = ll.lens.lipschitz(model, x)
    assert 0 < view.jacobians.max() <= view.seen <= view.bound < math.inf
    assert len(view.norms) == 3 and len(view.slopes) == 2 and view.plot().axes
    row = torch.autograd.functional.jacobian(lambda r: model(r[None])[0], x[7])
    assert view.jacobians[7] == pytest.approx(torch.linalg.svdvals(row)[0].item())


@pytest.mark.parametrize("activation", ["tanh", "gelu", "silu", "sigmoid", "selu", "softplus", "hard_swish", "elu"])
def test_slopes_of_activations_are_the_largest(activation):
    model = ll.models.MLP(1, (1,), 1, activation=activation)
    (c,) = ll.lens.lipschitz(model, torch.randn(4, 1)).slopes
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(model.layers[0].activation.double()(z).sum(), z)
    assert slope.abs().max().item() <= c + 1e-9 and c <= 1.002 * slope.abs().max().item()


def test_a_network_that_is_no_chain_is_seen_from_below():
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    view = ll.lens.lipschitz(model, ll.data.moons(num=60))
    assert view.bound == math.inf and view.seen > 0 and view.to_dict()["bound"] is None and view.plot().axes
