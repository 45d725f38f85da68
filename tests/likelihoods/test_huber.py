import math

import pytest
import torch
from scipy.integrate import quad

from leadline.errors import UserError
from leadline.likelihoods import Huber, Normal
from leadline.likelihoods.huber import HuberDistribution, normaliser
from leadline.reference.densities import huber_penalty


def integral(f, delta):
    return sum(quad(f, *ends)[0] for ends in ((-math.inf, -delta), (-delta, delta), (delta, math.inf)))


@pytest.mark.parametrize("delta", [0.1, 0.5, 1.345, 3.0, 8.0])
def test_the_density_adds_up_to_one(delta):
    total = integral(lambda z: math.exp(-huber_penalty(z, delta)), delta)
    assert normaliser(delta) == pytest.approx(total, rel=1e-7)


@pytest.mark.parametrize("delta", [0.3, 1.345, 3.0])
def test_variance_and_probabilities_are_integrals_of_the_density(delta):
    law = HuberDistribution(torch.zeros(1).double(), torch.ones(1).double(), delta)
    density = lambda z: math.exp(-huber_penalty(z, delta)) / normaliser(delta)  # noqa: E731
    assert float(law.variance) == pytest.approx(integral(lambda z: z * z * density(z), delta), rel=1e-6)
    for z in (-4.0, -0.2, 0.0, 0.25, 2.0, 5.0):
        points = [p for p in (-delta, delta) if -40 < p < z]
        below = quad(density, -400 / delta, z, points=points, limit=200)[0]
        assert float(law.cdf(torch.tensor([z]).double())) == pytest.approx(below, abs=1e-7)


def test_far_misses_pull_with_a_bounded_force():
    output = torch.tensor([[0.0], [0.0], [0.0]], requires_grad=True)
    Huber("fixed", sigma=2.0, delta=1.5).loss(output, torch.tensor([1.0, 50.0, -1e6])).sum().backward()
    assert output.grad.flatten().tolist() == pytest.approx([-0.25, -0.75, 0.75])


def test_with_a_large_delta_it_is_normal():
    output, y = torch.randn(30, 1), torch.randn(30)
    torch.testing.assert_close(Huber("fixed", delta=20.0).loss(output, y), Normal("fixed").loss(output, y))


def test_a_delta_of_nothing_is_refused():
    with pytest.raises(UserError, match="delta must be a number above 0. Got delta=0"):
        Huber(delta=0)
