import math

import pytest
import torch

from leadline.data.target import Target
from leadline.errors import DataError
from leadline.likelihoods import Ordinal, likelihood_for
from leadline.reference import orders as twin
from leadline.reference.likelihoods import discrete_quantile
from leadline.testing import check_likelihood


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_it_keeps_the_contract(classes):
    torch.manual_seed(0)
    check_likelihood(Ordinal(classes), 2 * torch.randn(12, 1), torch.arange(12) % classes)


def test_an_ordered_target_picks_it():
    likelihood = likelihood_for(Target("ordered", classes=("poor", "fair", "good")))
    assert isinstance(likelihood, Ordinal)
    assert likelihood.num_classes == 3


@torch.no_grad()
def test_probabilities_and_losses_equal_the_twin():
    torch.manual_seed(1)
    likelihood = Ordinal(5).double()
    likelihood.gaps += torch.randn(3)
    output = 2 * torch.randn(40, 1).double()
    prediction, cuts = likelihood.prediction(output), likelihood.cut_points.tolist()
    assert cuts == sorted(cuts)
    for k in range(40):
        wanted = twin.ordinal_probabilities(float(output[k]), cuts)
        assert prediction.probabilities[k].tolist() == pytest.approx(wanted, abs=1e-9)
        loss = likelihood.loss(output[k : k + 1], torch.tensor([k % 5]))
        assert float(loss) == pytest.approx(-math.log(wanted[k % 5]), abs=1e-9)
        assert int(prediction.quantile(0.7)[k]) == discrete_quantile(wanted, 0.7)


@torch.no_grad()
def test_a_larger_output_is_a_higher_class():
    modes = Ordinal(4).prediction(torch.linspace(-9, 9, 50)[:, None]).mode
    assert bool((modes.diff() >= 0).all())
    assert (int(modes[0]), int(modes[-1])) == (0, 3)


@torch.no_grad()
def test_intervals_hold_y_at_least_as_often_and_as_often_when_their_ends_are_drawn():
    torch.manual_seed(2)
    likelihood, output = Ordinal(9), 2 * torch.randn(12_000, 1)
    prediction = likelihood.prediction(output)
    latent = output[:, 0] + torch.logit(torch.rand(12_000).clamp(1e-6, 1 - 1e-6))  # the model behind eq. 1
    y = (latent[:, None] > likelihood.cut_points).sum(1)
    low, high = prediction.interval(0.9)
    assert float(((low <= y) & (y <= high)).float().mean()) >= 0.9
    p = prediction.probabilities
    below = p.cumsum(1).gather(1, y[:, None])[:, 0]
    spot = below - torch.rand(12_000) * p.gather(1, y[:, None])[:, 0]
    drawn = (low <= y) & (y <= high) & (spot > 0.05) & (spot < 0.95)
    assert 0.88 <= float(drawn.float().mean()) <= 0.92


def test_it_learns_a_threshold_that_moves():
    torch.manual_seed(3)
    x = torch.randn(3000, 1)
    y = ((2 * x[:, 0] + torch.logit(torch.rand(3000).clamp(1e-6, 1 - 1e-6)))[:, None] > torch.tensor([-2.0, 1.0])).sum(
        1
    )
    likelihood, slope = Ordinal(3), torch.zeros(1, 1, requires_grad=True)
    optimizer = torch.optim.Adam([slope, *likelihood.parameters()], lr=0.05)
    for _ in range(250):
        optimizer.zero_grad()
        likelihood.loss(x @ slope, y).mean().backward()
        optimizer.step()
    assert float(slope.detach()) == pytest.approx(2.0, abs=0.2)
    assert likelihood.cut_points.tolist() == pytest.approx([-2.0, 1.0], abs=0.2)


@pytest.mark.parametrize("far", [-1e4, 1e4])
def test_far_outputs_stay_finite(far):
    output = torch.full((5, 1), far, requires_grad=True)
    loss = Ordinal(5).loss(output, torch.arange(5))
    (gradient,) = torch.autograd.grad(loss.sum(), output)
    assert bool(loss.isfinite().all() & gradient.isfinite().all())


def test_being_far_off_is_told():
    found = Ordinal(5).measures(torch.tensor([[20.0], [20.0]]), torch.tensor([4, 0]))
    assert found["steps_off"].tolist() == [0.0, 4.0]


def test_a_class_that_is_not_there_is_refused():
    with pytest.raises(DataError, match="0 … 2"):
        Ordinal(3).check(torch.tensor([0, 3]))
