import math

import pytest
import torch

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import Normal


def test_the_unit_of_the_target_is_undone():
    y = torch.tensor([1000.0, 3000.0, 2000.0])
    likelihood = Normal.for_target(Target.real(y), variance="fixed")
    prediction = likelihood.prediction(torch.zeros(3, 1))
    torch.testing.assert_close(prediction.mean, torch.full((3,), 2000.0))
    torch.testing.assert_close(prediction.std, torch.full((3,), y.std(unbiased=False).item()))


def test_a_shift_of_the_unit_adds_its_logarithm_to_the_loss():
    output, y = torch.randn(5, 1), torch.randn(5)
    one, thousand = Normal("fixed"), Normal("fixed", scale=(1000.0,))
    torch.testing.assert_close(thousand.loss(output, 1000 * y), one.loss(output, y) + math.log(1000))


def test_fixed_variance_is_least_squares():
    likelihood = Normal("fixed", sigma=2.0)
    y, output = torch.randn(6), torch.randn(6, 1, requires_grad=True)
    likelihood.loss(output, y).sum().backward()
    torch.testing.assert_close(output.grad.squeeze(1), (output.detach().squeeze(1) - y) / 4)


def test_learned_deviation_begins_at_sigma_and_can_be_learned():
    likelihood = Normal("learned", sigma=0.5)
    assert likelihood.prediction(torch.zeros(1, 1)).std.item() == pytest.approx(0.5, abs=2e-4)
    torch.manual_seed(0)
    y, output = 3 * torch.randn(2000), torch.zeros(2000, 1)
    optimizer = torch.optim.Adam(likelihood.parameters(), lr=0.3)
    for _ in range(200):
        optimizer.zero_grad()
        likelihood.loss(output, y).mean().backward()
        optimizer.step()
    assert likelihood.prediction(torch.zeros(1, 1)).std.item() == pytest.approx(y.std().item(), rel=0.01)


def test_metrics_are_those_of_the_definitions():
    torch.manual_seed(0)
    likelihood = Normal("fixed", shift=(5.0,), scale=(2.0,))
    y, output = 5 + 2 * torch.randn(50), torch.randn(50, 1)
    means = {name: float(value.mean()) for name, value in likelihood.measures(output, y).items()}
    summary = likelihood.summary(means)
    predicted = 5 + 2 * output.squeeze(1)
    assert summary["rmse"] == pytest.approx((y - predicted).square().mean().sqrt().item(), rel=1e-5)
    assert summary["mae"] == pytest.approx((y - predicted).abs().mean().item(), rel=1e-5)
    r2 = 1 - (y - predicted).square().sum() / (y - y.mean()).square().sum()
    assert summary["r2"] == pytest.approx(r2.item(), rel=1e-4)
    constant = likelihood.measures(output, torch.full((50,), 5.0))
    assert math.isnan(likelihood.summary({name: float(value.mean()) for name, value in constant.items()})["r2"])


@pytest.mark.parametrize(
    ("dim", "y", "error", "message"),
    [
        (1, torch.zeros(3, 1), ShapeError, r"y must have shape \(n,\). Got y of shape \(3, 1\). Pass y.squeeze\(1\)"),
        (1, torch.zeros(3, 2), ShapeError, r"use dim=2"),
        (2, torch.zeros(3), ShapeError, r"y must have shape \(n, 2\). Got y of shape \(3,\)"),
        (1, torch.zeros(3, dtype=torch.int64), DataError, r"Got y of type torch.int64. Pass y.float\(\)"),
    ],
)
def test_a_wrong_y_is_refused_in_words(dim, y, error, message):
    with pytest.raises(error, match=message):
        Normal(dim=dim).check(y)


def test_a_right_y_is_accepted():
    Normal().check(torch.zeros(3))
    Normal(dim=2).check(torch.zeros(3, 2))


def test_a_model_of_another_width_is_refused():
    with pytest.raises(ShapeError, match="Normal needs 2 outputs for each example.*dim_output=2"):
        Normal("input").check_output(torch.zeros(3, 1), torch.zeros(3))


@pytest.mark.parametrize(("options", "message"), [({"variance": "known"}, "'known'"), ({"sigma": 0.0}, "sigma=0.0")])
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        Normal(**options)
