"""Recurrent layers against their twins of explicit loops."""

import math

import pytest
import torch

from leadline.layers import GRU, LSTM, Bidirectional, DeepTransition, Elman, LectureGRU, LectureLSTM
from leadline.reference import recurrence

T, D, UNITS = 6, 3, 4


@pytest.fixture
def x():
    return torch.randn(1, T, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def first(number, seed=1):
    stream = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(1, UNITS, dtype=torch.float64, generator=stream) for _ in range(number))


def same(found, steps):
    torch.testing.assert_close(found[0], torch.tensor(steps, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def lists(*tensors):
    return [t.tolist() for t in tensors]


@pytest.mark.parametrize(("activation", "a"), [("tanh", math.tanh), ("relu", lambda z: max(z, 0.0))])
@pytest.mark.parametrize("bias", [True, False])
def test_elman(x, activation, a, bias):
    layer, (z,) = Elman(D, UNITS, activation, bias).double(), first(1)
    b = layer.kernel.bias_ih_l0 + layer.kernel.bias_hh_l0 if bias else torch.zeros(UNITS)
    V, U = layer.kernel.weight_ih_l0, layer.kernel.weight_hh_l0
    y, (last,) = layer(x, (z,))
    expected = recurrence.elman(*lists(V, U, b, x[0], z[0]), a)
    same(y, expected)
    assert torch.equal(last, y[:, -1])


def test_lstm(x):
    layer, (h, z) = LSTM(D, UNITS).double(), first(2)
    kernel = layer.kernel
    b = kernel.bias_ih_l0 + kernel.bias_hh_l0
    hidden, cells = recurrence.lstm(*lists(kernel.weight_ih_l0, kernel.weight_hh_l0, b, x[0], h[0], z[0]))
    y, (h, z) = layer(x, (h, z))
    same(y, hidden)
    same(h[:, None], hidden[-1:])
    same(z[:, None], cells[-1:])


def test_gru(x):
    layer, (h,) = GRU(D, UNITS).double(), first(1)
    kernel = layer.kernel
    weights = (kernel.weight_ih_l0, kernel.weight_hh_l0, kernel.bias_ih_l0, kernel.bias_hh_l0)
    same(layer(x, (h,))[0], recurrence.gru(*lists(*weights, x[0], h[0])))


def test_lstm_of_five_matrices(x):
    layer, (h, z) = LectureLSTM(D, UNITS).double(), first(2)
    maps = (layer.forget, layer.write, layer.candidate, layer.show, layer.mix)
    hidden, cells = recurrence.lecture_lstm(*lists(*(map_.weight for map_ in maps), x[0], h[0], z[0]))
    y, (_, z) = layer(x, (h, z))
    same(y, hidden)
    same(z[:, None], cells[-1:])


def test_gru_of_three_matrices(x):
    layer, (z,) = LectureGRU(D, UNITS).double(), first(1)
    maps = (layer.keep, layer.reset, layer.candidate)
    same(layer(x, (z,))[0], recurrence.lecture_gru(*lists(*(map_.weight for map_ in maps), x[0], z[0])))


@pytest.mark.parametrize("num_maps", [1, 3])
@pytest.mark.parametrize("shortcut", [True, False])
def test_deep_transition(x, num_maps, shortcut):
    layer, (h,) = DeepTransition(D, UNITS, num_maps, "tanh", shortcut).double(), first(1)
    maps = [(map_.bias.tolist(), map_.weight.tolist()) for map_ in layer.deeper]
    past = layer.shortcut.weight.tolist() if shortcut else None
    V, steps, begin = lists(layer.read.weight, x[0], h[0])
    same(layer(x, (h,))[0], recurrence.deep_transition(V, maps, steps, begin, shortcut=past))


def test_both_directions(x):
    layer = Bidirectional(LectureGRU(D, UNITS), LectureGRU(D, UNITS)).double()
    begin = [0.0] * UNITS
    expected = []
    for part, steps in ((layer.ahead, x[0].tolist()), (layer.back, x[0].flip(0).tolist())):
        matrices = lists(part.keep.weight, part.reset.weight, part.candidate.weight)
        expected.append(recurrence.lecture_gru(*matrices, steps, begin))
    same(layer(x)[0], [a + b for a, b in zip(expected[0], expected[1][::-1])])
