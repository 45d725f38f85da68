"""Divergences: closed forms where there are some, estimates that know their error where there are none."""

import math

import pytest
import torch

import leadline as ll
from leadline.errors import ShapeError, UserError
from leadline.likelihoods import kl
from leadline.likelihoods.divergence import _log_prob

L = ll.likelihoods
OUT = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))


def estimate(p, q, draws=20000):
    y = p.sample(draws, seed=1)
    terms = (_log_prob(p.distribution, y) - _log_prob(q.distribution, y)).double()
    terms = terms.flatten(2).sum(2) if terms.dim() > 2 else terms
    return terms.mean(0), terms.std(0) / math.sqrt(draws)


@pytest.mark.parametrize(
    "family",
    [
        L.Normal("input"),
        L.Laplace("input"),
        L.VonMises("input"),
        L.Signs(2),
        L.Categorical(2),
        L.Normal("fixed", dim=2),
    ],
    ids=lambda f: type(f).__name__,
)
def test_closed_forms_agree_with_draws(family):
    p, q = family.prediction(OUT), family.prediction(OUT.flip(0) + 0.5)
    found = kl(p, q)
    mean, error = estimate(p, q)
    assert found.exact and (found.error == 0).all() and found.value.shape == (4,)
    assert ((found.value - mean).abs() < 5 * error + 1e-6).all()
    assert (found.value > 0).all() and torch.allclose(kl(p, p).value, torch.zeros(4).double(), atol=1e-6)


def test_of_two_bells():
    p, q = (L.Normal("fixed", sigma=s).prediction(torch.tensor([[m]])) for s, m in ((1.0, 0.0), (2.0, 1.0)))
    assert kl(p, q).value.item() == pytest.approx(math.log(2) + (1 + 1) / 8 - 0.5, rel=1e-5)


@pytest.mark.parametrize(
    ("family", "other"),
    [
        (L.StudentT("fixed"), L.Normal("fixed")),
        (L.Poisson(), L.NegativeBinomial()),
        (L.Huber("fixed"), L.Huber("fixed")),
    ],
    ids=lambda f: type(f).__name__,
)
def test_an_estimate_knows_its_error(family, other):
    at = lambda f: torch.zeros(1, f.dim_output)  # noqa: E731
    p, q = family.prediction(at(family)), other.prediction(at(other) + 0.3)
    many, few = kl(p, q, draws=60000, seed=1), kl(p, q, draws=2000)
    assert not few.exact and few.error.item() > 3 * many.error.item() > 0
    assert abs(few.value.item() - many.value.item()) < 5 * few.error.item()
    assert kl(p, q, draws=2000).value.item() == few.value.item()  # the same seed


def test_mixtures_and_rankings():
    mixture, ranking = L.Mixture(2), L.PlackettLuce(3)
    out = torch.tensor([[0.0, 1.0, -1.0, 0.5, 0.2, 0.1]])
    assert kl(mixture.prediction(out), mixture.prediction(out)).value.item() == 0
    assert kl(mixture.prediction(out), mixture.prediction(out + 1)).value.item() > 0
    scores = torch.tensor([[2.0, 0.0, -1.0]])
    found = kl(ranking.prediction(scores), ranking.prediction(-scores))
    assert found.value.item() > 10 * found.error.item() > 0


def test_what_the_other_rules_out_is_infinitely_far():
    p, q = L.Normal("fixed").prediction(torch.zeros(1, 1)), L.Gamma().prediction(torch.zeros(1, L.Gamma().dim_output))
    assert kl(p, q).value.item() == math.inf
    heavy, positive = (
        L.StudentT("fixed").prediction(torch.zeros(1, 1)),
        L.LogNormal("fixed").prediction(torch.zeros(1, 1)),
    )
    far = kl(heavy, positive)
    assert not far.exact and far.value.item() == math.inf
    assert 0 < kl(q, p).value.item() < math.inf


def test_columns_add_up():
    joint = L.Joint(("Normal", "Poisson"))
    a, b = joint.prediction(torch.tensor([[0.0, 0.5]])), joint.prediction(torch.tensor([[1.0, 0.0]]))
    parts = [kl(x, y).value for x, y in zip(a.columns, b.columns, strict=True)]
    assert torch.allclose(kl(a, b).value, sum(parts)) and kl(a, b).exact


def test_mistakes_are_answered():
    normal = L.Normal("fixed")
    with pytest.raises(ShapeError, match="same rows"):
        kl(normal.prediction(torch.zeros(2, 1)), normal.prediction(torch.zeros(3, 1)))
    with pytest.raises(UserError, match="has a density"):
        kl(L.Distance().prediction(torch.zeros(2, 1)), normal.prediction(torch.zeros(2, 1)))
    with pytest.raises(UserError, match="draws must be"):
        kl(normal.prediction(torch.zeros(2, 1)), normal.prediction(torch.zeros(2, 1)), draws=1)
