"""Recurrent layers by name, and torch's stacks of them taken apart.

    y, state = layer(x, state, there)                                                            (1)

x (B, T, D) gives y (B, T, D') at each step, and the state after the last step that is there, each part (B, …). `state`
None begins with the layer's own first state, `there` (B, T) None has every step. A step that is not there leaves the
state as it is. Called again and again with T = 1 and the state of before, a layer streams: what it gives is that of one
call, and what it keeps does not grow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from leadline.errors import UserError
from leadline.layers.bidirectional import Bidirectional
from leadline.layers.deep_transition import DeepTransition
from leadline.layers.elman import Elman
from leadline.layers.gru import GRU
from leadline.layers.lecture_gru import LectureGRU
from leadline.layers.lecture_lstm import LectureLSTM
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.lstm import LSTM
from leadline.layers.min_gru import MinGRU
from leadline.layers.min_lstm import MinLSTM

#: each is built with (dim, dim_output)
RECURRENT: dict[str, type[nn.Module]] = {
    "elman": Elman,
    "lstm": LSTM,
    "gru": GRU,
    "lecture_lstm": LectureLSTM,
    "lecture_gru": LectureGRU,
    "deep_transition": DeepTransition,
    "min_gru": MinGRU,
    "min_lstm": MinLSTM,
    "lru": LRU,
}


def from_torch(stack: nn.RNNBase) -> list[nn.Module]:
    """The layers of an nn.RNN, nn.LSTM or nn.GRU, one after the other, with its weights.

    Args:
        stack: of any number of layers, in one direction or two; its dropout, if any, stands between the layers.

    >>> layers = from_torch(nn.GRU(3, 5, num_layers=2, bidirectional=True))
    >>> [type(layer).__name__ for layer in layers], layers[1].dim
    (['Bidirectional', 'Bidirectional'], 10)
    """
    if not isinstance(stack, (nn.RNN, nn.LSTM, nn.GRU)):
        raise UserError(
            "a stack must be an nn.RNN, nn.LSTM or nn.GRU", got=type(stack).__name__, do="Pass one of the three"
        )
    if isinstance(stack, nn.LSTM) and stack.proj_size:
        raise UserError(
            "an LSTM must show its cells as they are", got=f"proj_size={stack.proj_size}", do="Build it without"
        )
    made: list[nn.Module] = []
    for number in range(stack.num_layers):
        ahead = _one(stack, f"l{number}")
        made.append(Bidirectional(ahead, _one(stack, f"l{number}_reverse")) if stack.bidirectional else ahead)
    return made


def _one(stack: nn.RNNBase, name: str) -> nn.Module:
    """The layer whose weights end in `name`."""
    read: Any = getattr(stack, f"weight_ih_{name}")
    dim, units, bias = read.shape[1], stack.hidden_size, bool(stack.bias)
    layer: Elman | LSTM | GRU
    if isinstance(stack, nn.LSTM):
        layer = LSTM(dim, units, bias)
    elif isinstance(stack, nn.GRU):
        layer = GRU(dim, units, bias)
    else:
        layer = Elman(dim, units, str(stack.nonlinearity), bias)
    layer.to(read)
    with torch.no_grad():
        for own, p in layer.kernel.named_parameters():
            p.copy_(getattr(stack, own.removesuffix("l0") + name))
    return layer
