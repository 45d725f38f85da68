import math

import pytest
import torch

from leadline.errors import UserError
from leadline.likelihoods.links import before_positive, check_variance, full, gentle, positive


@pytest.mark.parametrize("width", [0.01, 0.5, 1.0, 30.0, 1e4])
def test_the_width_comes_back(width):
    assert float(positive(torch.tensor(before_positive(width)).double())) == pytest.approx(width, rel=1e-6)
    assert float(positive(torch.tensor(before_positive(width, 1e-3)), 1e-3)) == pytest.approx(width, rel=1e-5)


def test_near_nothing_gentle_changes_nothing():
    a = torch.linspace(-30, 30, 101)
    assert torch.equal(gentle(a), a)


def test_far_away_it_rises_slowly_and_never_stands_still():
    a = torch.tensor([-1e6, -1e4, -31.0, 31.0, 1e4, 1e6], requires_grad=True)
    value = gentle(a)
    assert bool((value.diff() > 0).all())
    assert bool(value.exp().isfinite().all()) and bool((value.exp() > 0).all())
    value.sum().backward()
    assert bool((a.grad > 0).all())
    assert float(gentle(torch.tensor(-40.0))) == pytest.approx(-30 - math.log(11))


def test_its_slope_has_no_jump():
    assert torch.autograd.gradcheck(gentle, torch.tensor([-45.0, -29.9, 0.3, 30.1, 99.0]).double().requires_grad_())


def test_halves_become_single_and_doubles_stay():
    assert full(torch.zeros(1, dtype=torch.bfloat16)).dtype == torch.float32
    assert full(torch.zeros(1, dtype=torch.float64)).dtype == torch.float64


def test_an_unknown_variance_is_refused():
    with pytest.raises(UserError, match="variance must be fixed, learned or input. Got 'none'"):
        check_variance("none")
