"""A layer that the first batch sets, and a skip with a scalar."""

import copy

import pytest
import torch
from torch import nn

from leadline.errors import UserError
from leadline.layers import ActNorm, Skip


@pytest.mark.parametrize("shape", [(50, 3), (20, 3, 7), (10, 3, 4, 5)])
def test_the_first_batch_gives_mean_0_and_deviation_1(shape):
    torch.manual_seed(0)
    layer, x = ActNorm(3), 5 + 3 * torch.randn(shape)
    quiet = layer.eval()(x)
    assert not layer.started and (layer.scale == 1).all()  # evaluation leaves no trace
    out = layer.train()(x)
    torch.testing.assert_close(out, quiet)
    units = out.detach().transpose(0, 1).flatten(1)
    torch.testing.assert_close(units.mean(1), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(units.std(1, correction=0), torch.ones(3), atol=1e-4, rtol=0)
    # later batches change nothing, one row is enough, and the state travels
    torch.testing.assert_close(layer(x[:1] + 1), out[:1] + layer.scale.view(1, 3, *[1] * (x.dim() - 2)))
    other = ActNorm(3)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(2 * x), layer(2 * x))


def test_it_learns_like_any_weight():
    layer = ActNorm(2)
    layer(torch.randn(9, 2)).square().sum().backward()
    assert layer.scale.grad is not None and layer.offset.grad is not None
    copy.deepcopy(layer)


def test_a_constant_unit_does_not_blow_up():
    assert ActNorm(1)(torch.ones(4, 1)).isfinite().all()


def test_a_skip_adds_its_scaled_body():
    body, x = nn.Linear(3, 3), torch.randn(4, 3)
    torch.testing.assert_close(Skip(body, 0.5)(x), x + 0.5 * body(x))
    with pytest.raises(UserError, match="scale must be a finite number"):
        Skip(body, float("nan"))
