import pytest
import torch

from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.doctor.calibration import check_calibration
from leadline.likelihoods import Categorical, Exponential, Normal, Poisson


def classes(n, temperature=1.0, seed=0):
    """Labels drawn from a softmax; what the model says is that softmax, sharpened by 1 / temperature."""
    g = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, 4, generator=g)
    y = torch.multinomial(logits.softmax(1), 1, generator=g)[:, 0]
    split = Split(torch.zeros(n, 1), y)
    target = Target("classes", classes=tuple("abcd"))
    return check_calibration(Data(split, split, split, target), Categorical(4), {"test": logits / temperature})


@pytest.mark.parametrize("n", [20, 50, 200, 5000])
def test_true_probabilities_pass_at_any_size(n):
    assert [finding for seed in range(20) for finding in classes(n, seed=seed)] == []


def test_bold_ones_are_shown_and_timid_ones_recorded():
    (bold,), (timid,) = classes(2000, temperature=0.3), classes(2000, temperature=4.0)
    assert (bold.code, bold.severity) == ("miscalibrated", "warning") and "overconfident" in bold.what
    assert (timid.code, timid.severity) == ("miscalibrated", "note") and "underconfident" in timid.what


def coverage(n, sigma, variance="learned", seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randn(n, generator=g)
    split = Split(torch.zeros(n, 1), y)
    likelihood = Normal(variance, sigma=sigma)
    return check_calibration(Data(split, split, split, Target("real")), likelihood, {"test": torch.zeros(n, 1)})


@pytest.mark.parametrize("n", [10, 100, 3000])
def test_true_intervals_pass_at_any_size(n):
    assert [finding for seed in range(20) for finding in coverage(n, 1.0, seed=seed)] == []


@pytest.mark.parametrize(
    ("family", "kind", "other"), [(Poisson, "count", "NegativeBinomial"), (Exponential, "positive", "Gamma")]
)
def test_a_family_without_a_width_is_told_of_one_that_has(family, kind, other):
    g = torch.Generator().manual_seed(0)
    y = torch.where(torch.rand(900, generator=g) < 0.7, 0.0, 33.0) + (kind == "positive") * 0.01
    split, target = Split(torch.zeros(900, 1), y), Target(kind, shift=(10.0,), scale=(15.0,))
    data = Data(split, split, split, target)
    (finding,) = check_calibration(data, family.for_target(target), {"test": torch.zeros(900, 1)})
    assert "narrow" in finding.what and other in finding.remedy and "learned on rows" not in finding.remedy


def test_narrow_intervals_are_shown_and_wide_ones_recorded():
    (narrow,), (wide,), (fixed,) = coverage(500, 0.5), coverage(500, 2.0), coverage(500, 0.5, "fixed")
    assert (narrow.code, narrow.severity) == ("interval-coverage", "warning")
    assert (wide.severity, fixed.severity) == ("note", "note")
