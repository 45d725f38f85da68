"""A network of straight pieces, seen along a line, on a plane or in a box of its input space.

    x(t) = origin + t_1 · axes_1 + … + t_d · axes_d                        (1)
    z_k(t)  what the k-th activation compares, in the order of the computation
    z_k is affine in t wherever z_1 … z_{k-1} keep their sides              (2)
    z_k is continuous in t                                                  (3)

By (2) and (3) the sides of z_k over a convex cell follow from its corners, so cells can be cut one activation after
another with nothing but evaluations of the module itself: whatever stands between activations (affine maps, batch
norm in evaluation, convolution, mean pooling, flattening, skip connections) needs no code here.

Supported   ReLU, LeakyReLU, PReLU, RReLU, ReLU6, Hardtanh, Hardsigmoid, Softshrink, abs, clamp, maximum and minimum of
            two tensors, as modules, functions or methods
Not         smooth activations (GELU, tanh, sigmoid …), layer norm, softmax, products of activations, the largest of
            many (max pooling, maxout), jumps (Heaviside, sign). Every result is compared with the module at the corners
            of every cell, so that such a network is refused, not miscounted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from leadline.errors import ShapeError, UserError
from leadline.lens.at_rest import exactly
from leadline.lens.calls import Listening, bends, levels

_ROWS = 16384  # points a forward pass
_OWN, _LAYER = 1e-11, 1e-14  # a value is on a level when it is this part of the unit's, the layer's largest from it
_STRAIGHT = 1e-7  # a module may miss its affine piece by this part of its largest value
_SMOOTH = (
    *(nn.GELU, nn.SiLU, nn.Mish, nn.ELU, nn.CELU, nn.SELU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Softsign),
    *(nn.LogSigmoid, nn.Tanhshrink, nn.Hardswish, nn.Hardshrink, nn.Threshold, nn.Softmax, nn.LogSoftmax),
    *(nn.Softmin, nn.GLU, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.MultiheadAttention, nn.RNNBase),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d),
)  # fmt: skip


class Piecewise:
    """A module over coordinates t (n, d) of a flat piece of its input space (1)."""

    def __init__(self, model: nn.Module, f: Callable[[Tensor], Tensor], origin: Tensor, axes: Tensor):
        self.model, self.f, self.origin, self.axes = model, f, origin, axes
        heard = self._listen(np.zeros((1, len(axes))))
        self.num_stages = len(heard)
        #: units of each activation
        self.widths = tuple(z.shape[1] for z, _ in heard)

    def point(self, t: np.ndarray) -> Tensor:
        """The inputs at coordinates t."""
        return self._point(torch.from_numpy(np.ascontiguousarray(t)))

    def _point(self, t: Tensor) -> Tensor:
        return self.origin + torch.tensordot(t, self.axes, 1)

    def output(self, t: np.ndarray) -> np.ndarray:
        """The module's outputs, flat (n, K)."""
        return np.concatenate([self.f(self.point(part)).flatten(1).numpy() for part in _parts(t)])

    def slopes(self, t: np.ndarray) -> np.ndarray:
        """Derivatives of the outputs by the coordinates, (n, d, K)."""
        return self._slopes(lambda x: self.f(x).flatten(1), t)

    def _slopes(self, function: Callable[[Tensor], Tensor], t: np.ndarray) -> np.ndarray:
        found = []
        for part in _parts(t):
            x = torch.from_numpy(np.ascontiguousarray(part))
            unit = torch.eye(x.shape[1], dtype=x.dtype)
            found.append(torch.stack([self._slope(function, x, e.expand_as(x)) for e in unit], 1).numpy())
        return np.concatenate(found)

    def _slope(self, function: Callable[[Tensor], Tensor], t: Tensor, along: Tensor) -> Tensor:
        with forward_ad.dual_level():
            value, rise = forward_ad.unpack_dual(function(self._point(forward_ad.make_dual(t, along))))
        return torch.zeros_like(value) if rise is None else rise

    def sides(self, t: np.ndarray, stage: int, columns: slice = slice(None)) -> np.ndarray:
        """Signed distances from each level of each unit of one activation, (n, units · levels); on a level, 0.

        `columns` picks some of them.
        """
        rows = []
        for part in _parts(t):
            z, at = self._listen(part)[stage]
            rows.append(np.concatenate([z[:, :0], *(z - level for level in at)], 1)[:, columns])
        z = np.concatenate(rows)
        return snap(z, z)

    def rise(self, t: np.ndarray, stage: int) -> np.ndarray:
        """Derivatives by the coordinates of what `sides` gives, (n, d, units · levels)."""
        heard = self._listen(t[:1])[stage][1]

        def compared(x: Tensor) -> Tensor:
            with Listening(bends) as listening:
                self.f(x)
            return levels(listening.calls[stage])[0]

        return np.tile(self._slopes(compared, t), (1, 1, len(heard)))

    def patterns(self, t: np.ndarray) -> np.ndarray:
        """How many levels of each unit lie below, (n, all units): 0 or 1 for ReLU, 0 to 2 for Hardtanh."""
        rows = []
        for part in _parts(t):
            states = [np.zeros((len(part), 0), np.int8)]
            for z, at in self._listen(part):
                above = [snap(z - level, z - level) > 0 for level in at]
                states.append(np.sum(above, 0, dtype=np.int8) if above else np.zeros(z.shape, np.int8))
            rows.append(np.concatenate(states, 1))
        return np.concatenate(rows)

    def _listen(self, t: np.ndarray) -> list[tuple[np.ndarray, tuple[float, ...]]]:
        with Listening(bends) as listening:
            self.f(self.point(t))
        heard = [levels(call) for call in listening.calls]
        return [(z.numpy(), at) for z, at in heard if len(z) == len(t)]

    def check(self, corners: np.ndarray, slopes: np.ndarray, centres: np.ndarray, heights: np.ndarray) -> None:
        """Refuse a module that leaves its affine piece: cell i has corner i, and centre, height and slope i."""
        real = self.output(corners)
        straight = heights + ((corners - centres)[:, :, None] * slopes).sum(1)
        scale = max(float(np.abs(real).max(initial=0)), float(np.abs(heights).max(initial=0)), 1e-300)
        miss = np.abs(real - straight).max(initial=0) / scale
        if not miss < _STRAIGHT:
            raise not_straight(self.model, f"an output that leaves its affine piece by {miss:.1e} of its size")


@contextmanager
def piecewise(model: nn.Module, origin: Any, axes: Any) -> Iterator[Piecewise]:
    """`model` over the flat piece of input space through `origin` along `axes`; left as it was."""
    origin = torch.as_tensor(np.asarray(origin, dtype=np.float64))
    axes = torch.as_tensor(np.asarray(axes, dtype=np.float64))
    for name, module in model.named_modules() if isinstance(model, nn.Module) else ():
        if isinstance(module, _SMOOTH):
            raise not_straight(model, f"{type(module).__name__} at {name or 'the top'}")
    with exactly(model) as f:
        try:
            seen = Piecewise(model, f, origin, axes)
        except (RuntimeError, IndexError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise ShapeError(
                "the model must take points of the given shape",
                got=f"points of shape {tuple(origin.shape)}, and from the model: {str(error).splitlines()[0]}",
                do="Give corners, or a plane, in the model's own input space",
            ) from None
        yield seen


def not_straight(model: nn.Module, got: str) -> UserError:
    """What is said of a network that is not made of straight pieces."""
    return UserError(
        f"{type(model).__name__} must be continuous and piecewise linear to have linear regions",
        got=got,
        do="Use ReLU, LeakyReLU, PReLU, ReLU6, Hardtanh, Hardsigmoid or Softshrink, without layer norm or max pooling",
    )


def snap(z: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Values so near to 0 that rounding decides their sign become 0; `like` holds values of the usual size."""
    size = np.abs(like).max(0, initial=0)
    return np.where(np.abs(z) <= _OWN * size + _LAYER * size.max(initial=0), 0.0, z)


def _parts(t: np.ndarray) -> list[np.ndarray]:
    return [t[k : k + _ROWS] for k in range(0, max(len(t), 1), _ROWS)]


def merge(labels: int, first: np.ndarray, second: np.ndarray) -> int:
    """How many groups remain of `labels` things when each first is joined to its second."""
    group = np.arange(labels)
    while True:
        low = np.minimum(group[first], group[second])
        after = group.copy()
        np.minimum.at(after, group[first], low)
        np.minimum.at(after, group[second], low)
        after = after[after]
        if (after == group).all():
            return len(np.unique(group))
        group = after
