"""Drawn distributions: they hold all of their mass, and what was seen is measured against them."""

import json
import math

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.errors import UserError

L = ll.likelihoods
OUT = 0.5 * torch.randn(3, 9, generator=torch.Generator().manual_seed(0))
FAMILIES = [
    L.Normal("input"), L.Laplace(), L.StudentT(), L.Huber(), L.Robust(), L.Quantile(), L.Gamma(), L.LogNormal(),
    L.Exponential(), L.Beta(), L.VonMises(), L.Mixture(3), L.Mixture(2, "VonMises"), L.Poisson(), L.NegativeBinomial(),
    L.Bernoulli(), L.Categorical(4), L.Ordinal(3), L.Focal(3), L.PlackettLuce(3), L.Signs(2),
    L.Normal("fixed", dim=2), L.MultivariateNormal(dim=2), L.Joint(("Poisson", "VonMises")),
]  # fmt: skip


def test_no_family_is_left_out():
    known = {family for family in L.LIKELIHOODS.values() if family.has_density}
    assert {type(f) for f in FAMILIES} == known - {L.Pixels, L.Tokens, L.Span}  # many distributions a row


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: type(f).__name__)
def test_a_drawing_holds_the_mass(family):
    prediction = family.prediction(OUT[:, : family.dim_output])
    view = ll.lens.density(prediction, [0, 2], num=2001)
    mass = np.trapezoid(view.p, view.y, axis=0) if view.kind in ("numbers", "angles") else view.p.sum(0)
    assert view.p.shape == (len(view.y), 2) and view.rows == (0, 2)
    assert (mass > 0.97).all() and (mass < 1.002).all(), mass
    json.dumps(view.to_dict(), allow_nan=False)
    assert len(view.plot().axes) == 1 and ll.lens.density(prediction, 1).plot().axes


def test_the_numbers_are_those_of_the_prediction():
    prediction = L.Gamma().prediction(OUT[:, : L.Gamma().dim_output])
    view = ll.lens.density(prediction, 1, level=0.5)
    low, high = prediction.interval(0.5)
    assert np.allclose(view.band[0, 0], [low[1].detach(), high[1].detach()]) and view.level == 0.5
    assert np.allclose(view.mean, prediction.mean[1].detach()) and np.allclose(
        view.modes[0], prediction.mode[1].detach()
    )
    log_p = prediction.log_prob(torch.full((3,), float(view.y[400])))[1].item()
    assert math.log(view.p[400, 0]) == pytest.approx(log_p, rel=1e-4)


def test_components_add_up_to_the_mixture():
    for family in (L.Mixture(3), L.Mixture(2, "VonMises")):
        view = ll.lens.density(family.prediction(OUT[:, : family.dim_output]), [1, 2])
        assert len(view.parts) == family.num_components and np.allclose(view.parts.sum(0), view.p, rtol=1e-4)


def test_an_arc_that_passes_the_seam_is_drawn_on_both_sides():
    view = ll.lens.density(L.VonMises("fixed", kappa=20.0).prediction(torch.tensor([[-1.0, 1e-3]])))
    (a, b), (c, d) = sorted(view._arcs(0))
    assert a == pytest.approx(-math.pi) and d == pytest.approx(math.pi) and b < -2 and c > 2
    assert (b - a) + (d - c) == pytest.approx(float(np.diff(view.band[0, 0])[0]), rel=1e-5)


def test_one_of_several_columns_is_named():
    joint = L.Joint(("Poisson", "VonMises"), names=("calls", "direction"))
    prediction = joint.prediction(OUT[:, : joint.dim_output])
    by_name, by_number = (ll.lens.density(prediction, output=output) for output in ("direction", 1))
    assert by_name.kind == "angles" and by_name.target == by_number.target == "direction"
    assert np.allclose(by_name.p, by_number.p)
    ax = by_name.plot().axes[0]
    assert ax.get_title(loc="left") == "Predicted distribution of direction" and "direction" in ax.get_xlabel()
    assert ll.lens.density(prediction).plot().axes[0].get_xlabel() == "calls: count"
    for family in (L.Normal("fixed", dim=2, names=("m", "kg")), L.MultivariateNormal(dim=2, names=("m", "kg"))):
        view = ll.lens.density(family.prediction(OUT[:, :2]), output="kg")
        assert view.mean[0] == pytest.approx(float(OUT[0, 1])) and view.plot().axes[0].get_xlabel() == "kg"
    assert ll.lens.density(L.StudentT(dim=2).prediction(OUT[:, :2]), output=1).target == "y_2"
    with pytest.raises(UserError, match="direction"):
        ll.lens.density(prediction, output="directon")


def test_a_ranking_shows_the_chance_of_the_first_place():
    target = ll.data.target.Target("ranking", "taste", ("apple", "banana", "cherry"), dim=3)
    view = ll.lens.density(L.likelihood_for(target).prediction(OUT[:, :3]), 1)
    assert view.ranked and view.names == ("apple", "banana", "cherry")
    assert np.allclose(view.p[:, 0], OUT[1, :3].softmax(0), atol=1e-6)
    ax = view.plot().axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("item", "chance of the first place")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["apple", "banana", "cherry"]
    assert ll.lens.density(L.PlackettLuce(3).prediction(OUT[:, :3])).names == ("0", "1", "2")


# ── what was seen ──


def test_values_that_can_be_counted_have_a_divergence():
    seen = [0, 1, 1, 3]
    poisson = L.Poisson(scale=1.5).prediction(torch.zeros(1, 1))
    view = ll.lens.density(poisson, y=seen)
    q = np.array([1, 2, 1]) / 4
    log_p = np.array([poisson.log_prob(torch.tensor([float(k)])).item() for k in (0, 1, 3)])
    assert view.divergence[0] == pytest.approx((q * (np.log(q) - log_p)).sum(), rel=1e-5)
    assert view.cross_entropy[0] == pytest.approx(-(q * log_p).sum(), rel=1e-5)
    exact = ll.lens.density(L.Bernoulli().prediction(torch.tensor([[math.log(3.0)]])), y=[1, 1, 1, 0])
    assert exact.divergence[0] == pytest.approx(0, abs=1e-6)  # q and p are one
    assert "KL" in exact.plot().axes[0].get_title(loc="left")


def test_values_on_a_line_have_a_cross_entropy_alone():
    normal = L.Normal("fixed").prediction(torch.tensor([[0.0], [1.0]]))
    view = ll.lens.density(normal, [0, 1], y=torch.tensor([-1.0, 4.0]))
    assert np.isnan(view.divergence).all() and view.y[-1] > 4  # what was seen is in the drawing
    assert view.cross_entropy[0] == pytest.approx(0.5 * math.log(2 * math.pi) + (1 + 16) / 4, rel=1e-5)
    assert view.plot().axes[0].get_title(loc="left").count("−mean log p") == 1


@pytest.mark.parametrize(
    ("family", "options", "words"),
    [
        (L.Normal("fixed"), {"rows": 7}, "rows must be"),
        (L.Normal("fixed"), {"rows": range(11)}, "1 to 10"),
        (L.Normal("fixed"), {"y": "abc"}, "finite numbers"),
        (L.Normal("fixed"), {"y": [math.nan]}, "finite numbers"),
        (L.Normal("fixed"), {"level": 1.5}, "level must be"),
        (L.Poisson(), {"y": [0.5]}, "whole numbers"),
        (L.Categorical(3), {"y": [3]}, "codes 0 … 2"),
        (L.Categorical(3), {"names": ("a", "b")}, "every class"),
        (L.Distance(), {}, "has a density"),
    ],
)
def test_mistakes_are_answered(family, options, words):
    with pytest.raises(UserError, match=words):
        ll.lens.density(family.prediction(torch.zeros(3, family.dim_output)), **options)


def test_a_prediction_is_wanted():
    with pytest.raises(UserError, match="run.predict"):
        ll.lens.density(torch.zeros(3))


def test_tokens_are_no_answer_of_a_row():
    prediction = ll.likelihoods.Tokens(5).prediction(torch.randn(3, 4, 5))
    with pytest.raises(UserError, match="one answer a row, .* Got tokens at each place of a row. .*next_token"):
        ll.lens.density(prediction)
