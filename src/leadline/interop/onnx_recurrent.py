"""Recurrent kernels as ONNX's operators, for rows of any number and length.

    torch   LSTM  i f g o      GRU  r u n        blocks of the weights, one above the other                     (1)
    ONNX    LSTM  i o f g      GRU  u r n

torch's exporter follows a recurrent kernel step by step, and fixes rows and steps on the way. While a model is
exported, `whole_kernels` puts one operation of our own in the place of each kernel, whose shapes stay open, and
`translations` says what it is in ONNX.

Notation   names of the blocks as in leadline.layers.lstm and leadline.layers.gru
Shapes     x (B, T, D);  h, z (1, B, D');  weights W (n D', D), U (n D', D'), and offsets (n D',) where there are any
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

_KERNELS: dict[str, Callable[..., Any]] = {
    name: getattr(torch, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
}
_FLOATS = (1, 10, 11, 16)  # types of ONNX: float32, float16, float64, bfloat16
_WHOLE = 7  # int64
_BLOCKS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}  # eq. 1


@torch.library.custom_op("leadline::recurrent", mutates_args=())
def _recurrent(x: Tensor, h: Tensor, z: Tensor, weights: list[Tensor], kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Every step, and the state after the last; z is that of an LSTM."""
    first = (h, z) if kind == "lstm" else h
    y, *last = _KERNELS[kind](x, first, weights, len(weights) > 2, 1, 0.0, False, False, True)
    return y, last[0], last[1] if kind == "lstm" else z.clone()


@_recurrent.register_fake
def _(x: Tensor, h: Tensor, z: Tensor, weights: list[Tensor], kind: str) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape[0], x.shape[1], h.shape[2]), torch.empty_like(h), torch.empty_like(z)


@contextmanager
def whole_kernels() -> Iterator[None]:
    """While it lasts, recurrent kernels are one operation each."""

    def of_lstm(x: Tensor, first: Sequence[Tensor], weights: Sequence[Tensor], *_: Any) -> tuple[Tensor, ...]:
        return _recurrent(x, *first, list(weights), "lstm")

    def other(kind: str) -> Callable[..., tuple[Tensor, ...]]:
        return lambda x, first, weights, *_: _recurrent(x, first, first, list(weights), kind)[:2]

    try:
        for kind in _KERNELS:
            setattr(torch, kind, of_lstm if kind == "lstm" else other(kind))
        yield
    finally:
        for kind, kernel in _KERNELS.items():
            setattr(torch, kind, kernel)


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """What operations are in ONNX that its exporter does not know."""
    return {torch.ops.leadline.recurrent.default: _translated, torch.ops.aten.sort.stable: _sorted}


def _translated(x: Any, h: Any, z: Any, weights: Sequence[Any], kind: str) -> Any:
    op, order = _operators(), _BLOCKS[kind]

    def blocks(value: Any) -> Any:
        parts = op.Split(value, axis=0, num_outputs=len(order)) if len(order) > 1 else [value]
        return op.Concat(*(parts[k] for k in order), axis=0)

    read, kept, *offsets = (op.Unsqueeze(blocks(value), [0]) for value in weights)
    x = op.Transpose(x, perm=[1, 0, 2])
    b = op.Concat(*offsets, axis=1) if offsets else None
    size = {"hidden_size": int(weights[1].shape[1])}
    if kind == "lstm":
        y, h, z = op.LSTM(x, read, kept, b, None, h, z, **size)
    elif kind == "gru":
        y, h = op.GRU(x, read, kept, b, None, h, linear_before_reset=1, **size)
    else:
        y, h = op.RNN(x, read, kept, b, None, h, activations=["Tanh" if kind == "rnn_tanh" else "Relu"], **size)
    return op.Transpose(op.Squeeze(y, [1]), perm=[1, 0, 2]), h, op.Identity(z)


def _sorted(x: Any, stable: bool = True, dim: int = -1, descending: bool = False) -> Any:
    """Equal values keep their order in TopK, which runtimes have of int64 and floats alone."""
    op, axis = _operators(), dim % len(x.shape)
    size = op.Slice(op.Shape(x), [axis], [axis + 1])
    wide = x if x.dtype in _FLOATS else op.Cast(x, to=_WHOLE)
    values, order = op.TopK(wide, size, axis=axis, largest=int(descending), sorted=1)
    return op.CastLike(values, x), order


def _operators() -> Any:
    """Those of ONNX, by name."""
    from onnxscript import opset18

    return opset18
