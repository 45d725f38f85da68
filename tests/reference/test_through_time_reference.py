"""Backpropagation through time by hand, against autograd."""

import math

import pytest
import torch

from leadline.layers import Elman
from leadline.reference.through_time import by_products, from_the_end, of_weights, sums


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_both_ways_give_the_gradients_of_autograd(steps):
    torch.manual_seed(0)
    layer = Elman(2, 3, bias=False).double()
    x, g = torch.randn(1, steps, 2, dtype=torch.float64), torch.randn(1, steps, 3, dtype=torch.float64)
    U, V = layer.kernel.weight_hh_l0, layer.kernel.weight_ih_l0
    y, _ = layer(x)
    by_U, by_V = torch.autograd.grad((y * g).sum(), (U, V))
    s, z = sums(U.tolist(), V.tolist(), x[0].tolist(), math.tanh)
    torch.testing.assert_close(torch.tensor(z, dtype=torch.float64), y[0].detach())
    slope = lambda one: 1 - math.tanh(one) ** 2  # noqa: E731
    ways = [way(U.tolist(), s, g[0].tolist(), slope) for way in (by_products, from_the_end)]
    for by_state in ways:
        found = of_weights(s, z, x[0].tolist(), by_state, slope)
        torch.testing.assert_close(torch.tensor(found[0], dtype=torch.float64), by_U)
        torch.testing.assert_close(torch.tensor(found[1], dtype=torch.float64), by_V)
    torch.testing.assert_close(torch.tensor(ways[0]), torch.tensor(ways[1]))
