"""Curvature against closed forms, exact eigenvalues, and moments."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.lens import hessian as function
from leadline.lens.lanczos import lanczos


def half_square(output, y):
    return (output[:, 0] - y) ** 2 / 2


def rows(n=40, dims=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dims, generator=g, dtype=torch.float64)
    return x, torch.randn(n, generator=g, dtype=torch.float64)


def small(dims=3, units=6, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(dims, units), nn.Tanh(), nn.Linear(units, 1)).double()


def full(model, data, loss):
    """The Hessian by torch's own, over all parameters in one row."""
    x, y = data
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]

    def at(w):
        parts = w.split([s.numel() for s in shapes])
        state = {n: part.view(s) for n, part, s in zip(names, parts, shapes, strict=True)}
        return loss(torch.func.functional_call(model, state, (x,)), y).mean()

    return torch.func.hessian(at)(ll.lens.flat(model))


def test_of_least_squares_it_is_the_second_moment_of_the_inputs():
    x, y = rows()
    view = ll.lens.hessian(nn.Linear(3, 1).double(), (x, y), likelihood=half_square)
    a = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], 1)
    expected = torch.linalg.eigvalsh(a.T @ a / len(x)).numpy()
    assert view.exact and np.allclose(view.values, expected, atol=1e-12)
    assert np.allclose(view.largest, expected[::-1]) and np.allclose(view.smallest, expected)
    assert view.edge == pytest.approx(2 / expected[-1]) and view.trace == pytest.approx(expected.sum())


def test_of_logistic_regression_it_is_that_of_the_book():
    x, y = rows()
    y = (y > 0).long()
    model = nn.Linear(3, 1).double()
    view = ll.lens.hessian(model, (x, y), likelihood=ll.likelihoods.Bernoulli())
    a = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], 1)
    p = torch.sigmoid(model(x)[:, 0]).detach()
    assert np.allclose(view.values, torch.linalg.eigvalsh((a * (p * (1 - p))[:, None]).T @ a / len(x)), atol=1e-12)


def test_rows_weigh_as_they_are_said_to():
    from leadline.data.data import Split

    x, y = rows(6)
    weight = torch.tensor([1.0, 1, 2, 1, 3, 1])
    twice = torch.repeat_interleave(torch.arange(6), weight.long())
    model = small()
    one = ll.lens.hessian(model, Split(x, y, weight=weight), likelihood=half_square)
    other = ll.lens.hessian(model, (x[twice], y[twice]), likelihood=half_square)
    assert np.allclose(one.values, other.values, atol=1e-12)


def test_lanczos_finds_the_ends_of_a_network_s_spectrum(monkeypatch):
    model, data = small(), rows()
    expected = torch.linalg.eigvalsh(full(model, data, half_square)).numpy()
    exact = ll.lens.hessian(model, data, likelihood=half_square)
    assert exact.exact and np.allclose(exact.values, expected, atol=1e-10)
    monkeypatch.setitem(function.__globals__, "EXACT", 0)
    view = ll.lens.hessian(model, data, likelihood=half_square, steps=31, probes=60, extremes=3)
    assert not view.exact and view.parameters == 31
    assert np.allclose(view.largest, expected[::-1][:3], atol=1e-6) and np.allclose(
        view.smallest, expected[:3], atol=1e-6
    )
    assert view.residuals.shape == (2, 3) and view.residuals.max() < 1e-6
    # the density's moments: Gauss' quadrature is exact, so only the probes' chance is left
    assert abs(view.trace - expected.sum()) < 4 * view.trace_error
    assert view.moment(1) * 31 == pytest.approx(view.trace, rel=1e-9)
    spread = np.sqrt(2 * (expected**4).sum() / 60) / 31  # at most: variance of vᵀH²v is below 2 |H²|²
    assert abs(view.moment(2) - (expected**2).mean()) < 4 * spread
    assert view.weights.sum() == pytest.approx(1)


def test_few_steps_say_how_wrong_they_are(monkeypatch):
    model, data = small(), rows()
    expected = torch.linalg.eigvalsh(full(model, data, half_square)).numpy()
    monkeypatch.setitem(function.__globals__, "EXACT", 0)
    view = ll.lens.hessian(model, data, likelihood=half_square, steps=4, extremes=2)
    for found, wrong in ((view.largest, view.residuals[0]), (view.smallest, view.residuals[1])):
        away = np.abs(found[:, None] - expected).min(1)
        assert (away <= wrong + 1e-12).all() and wrong.max() > 1e-6


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=12))
def test_lanczos_on_a_diagonal_finds_each_value_once(values):
    diagonal = torch.tensor(values, dtype=torch.float64)
    found = lanczos(lambda v: diagonal * v, torch.ones(len(values), dtype=torch.float64), 50)
    distinct, count = np.unique(values, return_counts=True)
    assert np.allclose(found.values, distinct, atol=1e-7)
    assert np.allclose(found.weights, count / len(values), atol=1e-6)


def test_frozen_weights_are_left_out(monkeypatch):
    model, data = small(), rows()
    model[0].requires_grad_(False)
    view = ll.lens.hessian(model, data, likelihood=half_square)
    h = torch.cat([model[1](model[0](data[0])), torch.ones(40, 1, dtype=torch.float64)], 1)
    assert view.parameters == 7 and np.allclose(view.values, torch.linalg.eigvalsh(h.T @ h / 40), atol=1e-12)
    monkeypatch.setitem(function.__globals__, "EXACT", 0)
    sounded = ll.lens.hessian(model, data, likelihood=half_square, extremes=7)
    assert sounded.parameters == 7 and np.allclose(sounded.smallest, view.values, atol=1e-9)
    with pytest.raises(UserError, match="some weights must learn"):
        ll.lens.hessian(model.requires_grad_(False), data, likelihood=half_square)


def test_the_density_holds_everything():
    view = ll.lens.hessian(small(), rows(), likelihood=half_square)
    at, density = view.density(4001)
    assert np.trapezoid(density, at) == pytest.approx(1, abs=1e-3)
    assert np.trapezoid(density * at, at) == pytest.approx(view.moment(1), abs=1e-3)
    assert 0 < view.negative < 1


def test_a_loss_without_curvature_has_none():
    view = ll.lens.hessian(nn.Linear(3, 1).double(), rows(), likelihood=lambda output, y: output[:, 0] * y)
    assert not view.values.any() and view.edge == float("inf")
    assert view.plot().axes
