"""Weights in one piece of memory, without which cuDNN copies them at every call, and warns."""

from itertools import accumulate

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from leadline.layers import LSTM
from leadline.layers.kernel_weights import weights_for, weights_of

D, UNITS = 3, 5


def one_behind_the_other(weights, gates):
    assert [tuple(part.shape) for part in weights] == [
        (gates * UNITS, weights[0].shape[1]),
        (gates * UNITS, UNITS),
        *[(gates * UNITS,)] * 2,
    ]
    sizes = [0, *accumulate(part.numel() for part in weights)]
    assert [part.storage_offset() for part in weights] == sizes[:-1]
    assert {part.untyped_storage().nbytes() for part in weights} == {sizes[-1] * weights[0].element_size()}
    return True


@pytest.mark.parametrize(("stack", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
@pytest.mark.parametrize("bias", [False, True])
def test_weights_put_in_place_of_others_are_joined_on_a_gpu(stack, gates, bias):
    kernel = stack(D, UNITS, bias=bias)
    assert all(one is other for one, other in zip(weights_for(kernel), kernel.parameters(), strict=True))
    with FakeTensorMode():  # a GPU that need not be there
        for name, p in list(kernel.named_parameters()):
            kernel._parameters[name] = torch.empty(p.shape, device="cuda")  # as functional_call puts them
        assert one_behind_the_other(weights_for(kernel), gates)


@pytest.mark.parametrize("bias", [False, True])
def test_a_held_cell_hands_its_kernel_one_piece(monkeypatch, bias):
    torch.manual_seed(0)
    layer, x, seen, own = LSTM(D, UNITS, bias=bias), torch.randn(2, 4, D), [], torch.lstm
    monkeypatch.setattr(torch, "lstm", lambda *given: seen.append(given) or own(*given))
    there = torch.tensor([[True] * 4, [True, True, False, False]])
    _, (h, z) = layer(x, None, there)
    [(_, _, weights, has_bias, *_)] = seen
    assert has_bias and one_behind_the_other(weights, 4)
    _, (h_, z_) = layer(x[1:, :2])
    torch.testing.assert_close((h[1:], z[1:]), (h_, z_))
    assert len(weights_of(layer.kernel)) == (4 if bias else 2)
