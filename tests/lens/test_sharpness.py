"""Sharpness where it is known: on quadratics, and under a change that leaves the function as it is."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.models import rescale


def half_square(output, y):
    return (output[:, 0] - y) ** 2 / 2


def bowl(curves, at, bottom=(0.0, 0.0, 0.0, 0.0)):
    """L(φ) = ½ Σ λ_j (φ_j - b_j)² at the weights `at`, as least squares over the axes."""
    curves = torch.tensor(curves, dtype=torch.float64)
    x = (len(curves) * curves).sqrt().diag()
    model = nn.Linear(len(curves), 1, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([at], dtype=torch.float64))
    return model, (x, x @ torch.tensor(bottom, dtype=torch.float64)[: len(curves)])


def test_at_the_bottom_of_a_bowl_it_is_half_the_curvature_times_the_radius_squared():
    model, data = bowl([4.0, 1.0, 0.25], [1.0, 2.0, -1.0], [1.0, 2.0, -1.0])
    view = ll.lens.sharpness(model, data, likelihood=half_square, radii=[0.5, 0.1], noise=[0.1], lr=0.6)
    assert view.largest == pytest.approx(4) and view.edge == pytest.approx(0.5) and view.share == pytest.approx(1.2)
    assert np.allclose(view.radii, [0.1, 0.5]) and np.allclose(view.worst, 4 / 2 * view.radii**2, rtol=1e-9)
    # a corner of the box: ε (|φ| + 1) in every axis
    assert view.keskar == pytest.approx(1e-6 / 2 * (4 * 2**2 + 1 * 3**2 + 0.25 * 2**2))


def test_on_a_slope_it_is_the_best_point_of_the_ball():
    curves, at, radius = [4.0, 1.0, 0.25], [0.1, -0.7, 2.0], 0.4
    model, data = bowl(curves, at)
    view = ll.lens.sharpness(model, data, likelihood=half_square, radii=[radius], noise=[0.1])
    # Lagrange: (m - λ_j) δ_j = λ_j φ_j with |δ| = ρ, m above the largest curvature
    low, high = 4.0 + 1e-9, 1e4
    for _ in range(200):
        m = (low + high) / 2
        delta = [c * p / (m - c) for c, p in zip(curves, at, strict=True)]
        low, high = (m, high) if math.hypot(*delta) > radius else (low, m)
    worst = sum(c * ((p + d) ** 2 - p**2) / 2 for c, p, d in zip(curves, at, delta, strict=True))
    assert view.worst[0] == pytest.approx(worst, rel=1e-6)


def test_noise_of_the_weights_lifts_a_bowl_by_its_mean_curvature():
    curves = [4.0, 1.0, 0.25, 2.0]
    at = [1.0, -1.0, 0.5, 0.3]
    model, data = bowl(curves, at, at)
    view = ll.lens.sharpness(model, data, likelihood=half_square, noise=[0.3], draws=2000)
    length = float(model.weight.detach().norm())  # one filter: a point on a sphere of its length
    expected = 0.3**2 * length**2 * np.mean(curves) / 2
    assert view.rise[0] == pytest.approx(expected, abs=4 * view.rise_error[0]) and view.rise_error[0] < 0.1 * expected


def test_rescaled_layers_are_sharper_but_no_less_steady_under_noise():
    torch.manual_seed(0)
    model = ll.models.MLP(2, (12,), 1, activation="relu", p_drop=0.0).double()
    data = ll.data.moons(num=80)
    other = rescale(model, 0, 6.0)
    one, two = (ll.lens.sharpness(m, data, draws=5) for m in (model, other))
    assert two.loss == pytest.approx(one.loss) and two.largest > 3 * one.largest
    assert np.allclose(one.rise, two.rise, rtol=1e-6)
