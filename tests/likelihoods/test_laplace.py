import pytest
import torch

from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import Laplace, Normal


def fit_constant(likelihood, y, steps=400):
    """The output that a network without inputs would learn, and what it predicts."""
    output = torch.zeros(1, likelihood.dim_output, requires_grad=True)
    optimizer = torch.optim.Adam([output, *likelihood.parameters()], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        likelihood.loss(output.expand(len(y), -1), y).mean().backward()
        optimizer.step()
    with torch.no_grad():
        return likelihood.prediction(output)


def test_it_finds_the_median_where_normal_finds_the_mean():
    torch.manual_seed(0)
    y = torch.exp(torch.randn(2000))  # skewed: median 1, mean 1.65
    assert float(fit_constant(Laplace(), y).mode) == pytest.approx(float(y.median()), abs=0.05)
    assert float(fit_constant(Normal(), y).mode) == pytest.approx(float(y.mean()), abs=0.05)


def test_the_width_that_it_learns_is_the_mean_absolute_error():
    torch.manual_seed(0)
    y = 3 + 2 * torch.randn(2000)
    prediction = fit_constant(Laplace(), y)
    wanted = (y - y.median()).abs().mean()
    assert float(prediction.distribution.scale) == pytest.approx(float(wanted), rel=0.02)


def test_a_fixed_width_gives_the_gradient_of_absolute_error():
    output = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    Laplace("fixed", sigma=0.5).loss(output, torch.zeros(2)).sum().backward()
    assert output.grad.flatten().tolist() == [2.0, -2.0]


def test_it_has_the_metrics_of_a_real_target():
    likelihood = Laplace("fixed", shift=(5.0,), scale=(2.0,))
    torch.manual_seed(0)
    y, output = 5 + 2 * torch.randn(50), torch.randn(50, 1)
    means = {name: float(value.mean()) for name, value in likelihood.measures(output, y).items()}
    summary = likelihood.summary(means)
    off = y - (5 + 2 * output.squeeze(1))
    assert summary["mae"] == pytest.approx(float(off.abs().mean()), rel=1e-5)
    assert summary["rmse"] == pytest.approx(float(off.square().mean().sqrt()), rel=1e-5)
    r2 = 1 - off.square().sum() / (y - y.mean()).square().sum()
    assert summary["r2"] == pytest.approx(float(r2), rel=1e-4)


def test_several_outputs_have_widths_of_their_own():
    likelihood = Laplace("input", dim=2)
    loss = likelihood.loss(torch.zeros(3, 4), torch.zeros(3, 2))
    assert loss.shape == (3,)
    one = Laplace("input").loss(torch.zeros(3, 2), torch.zeros(3))
    torch.testing.assert_close(loss, 2 * one)


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (torch.zeros(3, 1), ShapeError, r"y must have shape \(n,\). Got y of shape \(3, 1\). Pass y.squeeze\(1\)"),
        (torch.zeros(3, dtype=torch.int64), DataError, r"Got y of type torch.int64. Pass y.float\(\)"),
    ],
)
def test_a_wrong_y_is_refused_in_words(y, error, message):
    with pytest.raises(error, match=message):
        Laplace().check(y)


@pytest.mark.parametrize(("options", "message"), [({"variance": "known"}, "'known'"), ({"sigma": 0.0}, "sigma=0.0")])
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        Laplace(**options)
