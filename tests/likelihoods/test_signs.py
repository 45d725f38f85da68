"""Patterns of -1 and +1, bit by bit."""

import math

import pytest
import torch

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import Signs, likelihood_for
from leadline.testing import check_likelihood


def signs(*shape):
    return torch.randint(2, shape).float() * 2 - 1


@pytest.mark.parametrize(("dim", "beta"), [(1, 1.0), (5, 0.3), (3, 4.0)])
def test_the_contract_holds(dim, beta):
    torch.manual_seed(0)
    check_likelihood(Signs(dim, beta), torch.randn(6, dim), signs(6, dim))


def test_the_probability_is_that_of_a_warm_unit():
    torch.manual_seed(0)
    likelihood, output, y = Signs(4, coldness=0.8).double(), torch.randn(7, 4).double(), signs(7, 4).double()
    wanted = []
    for h, bits in zip(output.tolist(), y.tolist(), strict=True):
        wanted.append(-sum(math.log(1 / (1 + math.exp(-2 * 0.8 * b * f))) for f, b in zip(h, bits, strict=True)))
    assert likelihood.loss(output, y).tolist() == pytest.approx(wanted)
    plus = likelihood.prediction(output).probabilities[..., 1]
    torch.testing.assert_close(likelihood.prediction(output).mean, 2 * plus - 1)


def test_measures_count_bits_and_whole_patterns():
    likelihood = Signs(4)
    y = torch.ones(3, 4)
    output = torch.tensor([[1.0, 2.0, 0.0, 3.0], [1.0, 1.0, -1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    found = likelihood.measures(output, y)
    assert found["bits"].tolist() == [1.0, 0.75, 0.0]  # a tie goes to +1
    assert found["overlap"].tolist() == [1.0, 0.5, -1.0]
    assert found["recalled"].tolist() == [1.0, 0.0, 0.0]


def test_far_fields_stay_finite():
    output = torch.full((2, 3), 1e4, requires_grad=True)
    loss = Signs(3).loss(output, -torch.ones(2, 3))
    loss.sum().backward()
    assert bool(loss.isfinite().all()) and bool(output.grad.isfinite().all())


def test_samples_and_quantiles():
    torch.manual_seed(0)
    output = torch.randn(3, 5)
    prediction = Signs(5).prediction(output)
    draws = prediction.sample(4000, seed=1)
    assert set(draws.unique().tolist()) == {-1.0, 1.0}
    assert float((draws.mean(0) - prediction.mean).abs().max()) < 5 / math.sqrt(4000)
    minus = prediction.probabilities[..., 0]
    for q in (0.1, 0.5, 0.9):
        assert torch.equal(prediction.quantile(q), torch.where(minus < q, 1.0, -1.0))
    nll = -prediction.log_prob(draws[0]).sum(-1)
    torch.testing.assert_close(nll, Signs(5).measures(output, draws[0])["nll"])
    entropy = prediction.distribution.entropy()
    p = prediction.probabilities
    torch.testing.assert_close(entropy, -(p * p.log()).sum(-1))


def test_the_target_picks_it():
    likelihood = likelihood_for(Target("signs", dim=6))
    assert isinstance(likelihood, Signs) and likelihood.dim_output == 6
    assert likelihood.config == {"dim": 6, "coldness": 1.0}


@pytest.mark.parametrize(
    ("y", "kind", "words"),
    [
        (torch.zeros(2, 3), DataError, "Got 0 and 1. Pass 2 \\* patterns - 1"),
        (torch.tensor([[1.0, -1.0, 0.5]]), DataError, "0.5 in row 0"),
        (torch.ones(2, 4), ShapeError, "shape \\(n, 3\\)"),
        (torch.ones(3), ShapeError, "one pattern a row"),
        (torch.ones(2, 3, dtype=torch.int64), DataError, "floating-point"),
    ],
)
def test_other_targets_are_refused(y, kind, words):
    with pytest.raises(kind, match=words):
        Signs(3).check(y)


def test_beta_is_above_zero():
    with pytest.raises(UserError, match="coldness must be a number above 0"):
        Signs(3, coldness=0)
