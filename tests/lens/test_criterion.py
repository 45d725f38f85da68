"""Losses over outputs, fits by two criteria, and the triangle of three classes."""

import json
import math

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError

L = ll.likelihoods
Y = [-1.2, -0.4, 0.1, 0.3, 0.35, 0.9, 1.6, 2.2]


# ── criterion ──


def test_the_least_divergence_is_the_greatest_likelihood():
    view = ll.lens.criterion(L.Normal("input"), Y)
    assert view.names == ("μ", "σ")
    assert view.at == pytest.approx([np.mean(Y), np.std(Y)], rel=1e-6)  # what maximum likelihood gives in closed form
    assert view.least == pytest.approx(0.5 * math.log(2 * math.pi) + math.log(np.std(Y)) + 0.5, rel=1e-9)
    assert view.loss.min() >= view.least - 1e-12
    # differences over the map are those of the divergence: (μ - m)² / 2σ² along a row, plus what σ changes
    mu, sigma = view.axes
    exact = np.log(sigma) + (np.var(Y) + (mu - np.mean(Y)) ** 2) / (2 * sigma**2)
    assert np.allclose(view.loss - view.least, exact - exact.min(), atol=1e-3)
    assert view.fitted is not None and view.fitted.cross_entropy[0] == pytest.approx(view.least, rel=1e-6)
    assert len(view.plot().axes) == 3
    json.dumps(view.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("family", "y", "best"),
    [
        (L.Bernoulli(), [0, 1, 1], 2 / 3),
        (L.Poisson(), [0, 2, 3, 5], 2.5),
        (L.Normal("fixed"), Y, float(np.mean(Y))),
        (L.Exponential(), [0.5, 1.0, 4.5], 2.0),
    ],
    ids=lambda f: type(f).__name__,
)
def test_a_function_and_its_logarithm_have_one_maximum(family, y, best):
    view = ll.lens.criterion(family, y)
    x = view.axes[0]
    product = np.exp(view.log_likelihood)
    assert view.at[0] == pytest.approx(best, rel=1e-5)
    assert abs(x[product.argmax()] - best) <= np.diff(x).max() and product.argmax() == view.log_likelihood.argmax()
    rising = np.sign(np.diff(view.log_likelihood))
    assert (np.sign(np.diff(product)) * rising >= 0).all()  # slopes of one sign
    assert view.plot().axes[-1].get_xlabel() == view.names[0]


def test_loss_against_the_predicted_probability():
    view = ll.lens.criterion(L.Bernoulli(), [0, 1])
    p = view.axes[0]
    assert view.values.tolist() == [0, 1] and p[0] < 0.01 and p[-1] > 0.99
    assert np.allclose(view.each, [-np.log(1 - p), -np.log(p)], rtol=1e-6)
    labels = view.plot().axes[0].get_legend_handles_labels()[1]
    assert labels == ["y = 0", "y = 1"]


def test_losses_that_are_no_likelihood_are_drawn_over_the_output():
    view = ll.lens.criterion(L.Margin("hinge"), [0, 1])
    assert not view.likelihood and view.names == ("output",) and len(view.plot().axes) == 1
    assert np.allclose(view.each[1], np.maximum(0, 1 - view.outputs))
    assert ll.lens.criterion(L.VonMises("input"), [0.3, 1.0, -0.5]).names == ("output 1", "output 2")
    assert ll.lens.criterion(L.NegativeBinomial("input"), [0, 1, 7], num=21).names == ("mean", "deviation")


def test_the_likelihood_is_left_as_it_was():
    family = L.Normal("learned").train()
    state = {name: value.clone() for name, value in family.state_dict().items()}
    ll.lens.criterion(family, Y)
    assert family.training and family.rho.dtype == torch.float32
    assert all(torch.equal(value, family.state_dict()[name]) for name, value in state.items())


@pytest.mark.parametrize(
    ("family", "y", "words"),
    [
        (L.Categorical(3), [0], "one output or two"),
        ("Normal", [0.0], "likelihood must be"),
        (L.Normal("fixed"), [], "one or more"),
        (L.Normal("fixed"), "text", "one or more"),
        (L.Poisson(), [0.5], "whole numbers"),
        (L.Bernoulli(), [2], "0"),
    ],
)
def test_mistakes_are_answered(family, y, words):
    with pytest.raises(UserError, match=words):
        ll.lens.criterion(family, y)


# ── criteria ──

X = torch.linspace(0, 2, 30)[:, None]
VALUES = 0.3 + 0.6 * X[:, 0] + 0.1 * torch.randn(30, generator=torch.Generator().manual_seed(0))


def line(slope, offset):
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(slope), model.bias.fill_(offset)
    return model


def test_both_criteria_prefer_the_good_line():
    normal = L.Normal("fixed", sigma=0.2)
    models = {"good": line(0.6, 0.3), "bad": line(-0.3, 1.2)}
    view = ll.lens.criteria(models, (X, VALUES), likelihood=normal, num=51)
    for k, (a, b) in enumerate(((0.6, 0.3), (-0.3, 1.2))):
        miss = (VALUES - b - a * X[:, 0]).double().numpy()
        assert view.squares[k] == pytest.approx((miss**2).sum(), rel=1e-4)
        # eq. 2 of a bell of one width is eq. 1 up to constants
        constant = 30 * math.log(0.2 * math.sqrt(2 * math.pi))
        assert view.nll[k] == pytest.approx((miss**2).sum() / (2 * 0.04) + constant, rel=1e-4)
        assert np.allclose(
            view.heights[k], np.exp(-0.5 * (miss / 0.2) ** 2) / (0.2 * math.sqrt(2 * math.pi)), rtol=1e-3
        )
    assert view.squares[0] < view.squares[1] and view.nll[0] < view.nll[1]
    assert np.allclose(np.trapezoid(view.density[0], view.y, axis=0)[25], 1, atol=0.02)
    json.dumps(view.to_dict(), allow_nan=False)
    assert [ax.get_title(loc="left")[:4] for ax in view.plot().axes[:4]] == ["good", "bad:", "good", "bad:"]


def test_a_width_that_varies_is_seen_by_the_likelihood_alone():
    family = L.Normal("input")
    narrow, wide = nn.Linear(1, 2), nn.Linear(1, 2)
    with torch.no_grad():
        for model, raw in ((narrow, -2.0), (wide, 2.0)):
            model.weight.copy_(torch.tensor([[0.6], [0.0]])), model.bias.copy_(torch.tensor([0.3, raw]))
    view = ll.lens.criteria([narrow, wide], (X, VALUES), likelihood=family, num=11)
    assert view.squares[0] == pytest.approx(view.squares[1]) and view.nll[0] < view.nll[1] - 20
    assert view.names == ("fit 1", "fit 2")


def test_criteria_need_densities_of_numbers():
    with pytest.raises(UserError, match="densities of numbers"):
        ll.lens.criteria([nn.Linear(1, 1)], (X, (X[:, 0] > 1).long()), likelihood=L.Bernoulli())
    for models in ([], 3, [nn.Linear(1, 1)] * 5):
        with pytest.raises(UserError, match="1 to 4"):
            ll.lens.criteria(models, (X, VALUES), likelihood=L.Normal("fixed"))


# ── simplex ──


def test_rows_lie_in_the_triangle_where_their_probabilities_say():
    data = ll.data.iris()
    model = ll.models.build("Linear", data.dim_input, 3)
    view = ll.lens.simplex(model, data, split="val")
    p = model(data.inputs.encode(data.val.x).float()).softmax(1).detach().double().numpy()
    assert np.allclose(view.probabilities, p, atol=1e-6) and np.allclose(view.probabilities.sum(1), 1)
    x = view.points
    # barycentric coordinates give the probabilities back
    third = x[:, 1] / math.sqrt(0.75)
    second = x[:, 0] - third / 2
    assert np.allclose(np.stack([1 - second - third, second, third], 1), p, atol=1e-6)
    assert (view.wrong == (p.argmax(1) != data.val.y.numpy())).all() and view.classes == data.target.classes
    json.dumps(view.to_dict(), allow_nan=False)
    assert view.plot().axes


def test_a_triangle_needs_three_classes():
    with pytest.raises(UserError, match="three classes"):
        ll.lens.simplex(ll.models.Linear(2, 1), ll.data.moons(num=60))
    with pytest.raises(UserError, match="three classes"):
        ll.lens.simplex(nn.Linear(1, 1), (X, VALUES), likelihood=L.Normal("fixed"))
