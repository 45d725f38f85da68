"""A convolution as the fully connected layer that it is: a matrix with few different weights and many zeros.

    f(x) = W x + b,   W[i][j] = ∂f_i/∂x_j,   b = f(0)              every affine module                      (1)
    max(u, v) = relu(u - v) + relu(v) - relu(-v)                   and of more values by pairs of pairs     (2)

A network is cut at its activations and its maximum pooling: what lies between two of them must be affine, and (1) makes
one map of it: convolutions of any kind, transposed ones, mean pooling, upsampling, normalisation in evaluation mode.
Activations act on each value alone and stay as they are; maximum pooling is (2), a map and a ReLU for each halving of
the window. So a dense network of the same widths can do whatever a convolutional one can, and has a weight of its own
where that one repeats one.

Notation   x and f(x) as rows of numbers, channels first; n, n' -> how many
Shapes     W (n', n),  b (n',),  a dense network (B, n) -> (B, n'); further axes of its input are flattened
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.activation import ACTIVATIONS
from leadline.layers.polynomial import Affine

_ROWS = 512  # of a matrix at a time
_MOST = 2**28  # entries of a matrix: 2 GiB in float64
_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_POINTWISE = (
    *ACTIVATIONS.values(),
    nn.ReLU6,
    nn.Hardsigmoid,
    nn.Hardtanh,
    nn.Mish,
    nn.CELU,
    nn.Softsign,
    nn.Tanhshrink,
)


def dense_matrix(module: nn.Module, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """W and b of eq. 1, in evaluation mode.

    Args:
        shape: of one row of the input, without the batch.

    >>> conv = nn.Conv1d(1, 1, 3, padding=1)
    >>> W, b = dense_matrix(conv, (1, 6))
    >>> x = torch.randn(1, 1, 6)
    >>> torch.allclose(W @ x.flatten() + b, conv(x).flatten(), atol=1e-6), int((W != 0).sum())
    (True, 16)
    """
    W, b = _matrix(copy.deepcopy(module).double().eval(), tuple(shape))
    return W.to(_dtype(module)), b.to(_dtype(module))


def tied(module: nn.Module, shape: Sequence[int]) -> Tensor:
    """Which entries of the matrix are the same weight, as whole numbers (n', n); 0 where there is none.

    An entry that is the k-th number of the module's parameters, counted from 1, has the number k; what is another
    combination of them (at mirrored edges a sum of two taps) or a constant has numbers after those.

    >>> tied(nn.Conv1d(1, 1, 3, padding=1), (1, 4)).tolist()
    [[2, 3, 0, 0], [1, 2, 3, 0], [0, 1, 2, 3], [0, 0, 1, 2]]
    """
    marked = copy.deepcopy(module).double().eval()
    g = torch.Generator().manual_seed(0)
    entries, weights = [], []
    for _ in range(4):  # whole numbers, so that equal combinations are equal to the last bit
        drawn = [torch.randint(1, 2**12, p.shape, generator=g).to(p) for p in marked.parameters()]
        with torch.no_grad():
            for p, values in zip(marked.parameters(), drawn, strict=True):
                p.copy_(values)
        entries.append(_matrix(marked, tuple(shape))[0].cpu())
        weights += [torch.cat([values.flatten().cpu() for values in drawn]) if drawn else torch.zeros(0).double()]
    marks, index = torch.stack(entries, -1).flatten(0, 1).unique(dim=0, return_inverse=True)
    known = {tuple(mark): k + 1 for k, mark in enumerate(torch.stack(weights, -1).tolist())}
    others = itertools.count(len(weights[0]) + 1)
    numbers = [known.get(mark) or next(others) if any(mark) else 0 for mark in map(tuple, marks.tolist())]
    return torch.tensor(numbers)[index].view(entries[0].shape)


def as_dense(model: nn.Module, shape: Sequence[int]) -> nn.Sequential:
    """An equal fully connected network, of one that is affine between its activations and maximum pooling.

    Args:
        model: any chain of layers, in evaluation mode; activations and pooling must be modules of it, not functions,
            and nothing may lead around them.
        shape: of one row of the input, without the batch.

    >>> net = nn.Sequential(nn.Conv1d(1, 15, 3, 2), nn.ReLU(), nn.Conv1d(15, 15, 3, 2), nn.ReLU(), nn.Flatten(),
    ...                     nn.Linear(135, 10))
    >>> [layer.out_features for layer in as_dense(net, (1, 40)) if isinstance(layer, nn.Linear)]
    [285, 135, 10]
    """
    precise = copy.deepcopy(model).double().eval()
    x = torch.randn(4, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(_device(precise))
    layers: list[nn.Module] = [nn.Flatten()]
    between = _Between(precise, tuple(shape))
    with torch.no_grad():
        read = tuple(shape)
        for cut in between.cuts(x):
            layers += [*_map(between, read), *cut.layers()]
            between.next()
            read = cut.made
        made = nn.Sequential(*_merged([*layers, *_map(between, read)])).to(x)
        _agree(type(model).__name__, made(x), precise(x).flatten(1))
    return made.to(_dtype(model)).train(model.training)


@dataclass(frozen=True)
class _Cut:
    """A call of an activation or of maximum pooling, with the shapes of a row before and after it."""

    module: nn.Module
    read: tuple[int, ...]
    made: tuple[int, ...]

    def layers(self) -> list[nn.Module]:
        return _maximum(self) if isinstance(self.module, _POOLS) else [_spread(self)]


class _Between(nn.Module):
    """What a network does from one cut to the next, as a module: at first from its input to the first cut.

    The network runs as a whole, on rows of zeros; the one cut answers what is given, and the next tells what it reads.
    """

    def __init__(self, network: nn.Module, shape: tuple[int, ...]):
        super().__init__()
        self.network, self.shape, self.number = network, shape, 0
        self.modules_cut = [
            module
            for module in network.modules()
            if isinstance(module, (*_POINTWISE, *_POOLS)) and not isinstance(module, (nn.Identity, Affine))
        ]

    def next(self) -> None:
        self.number += 1

    def cuts(self, x: Tensor) -> list[_Cut]:
        found: list[_Cut] = []

        def note(module: nn.Module, arguments: tuple[Tensor, ...], out: Tensor) -> None:
            found.append(_Cut(module, tuple(arguments[0].shape[1:]), tuple(out.shape[1:])))

        self._run(x, None, note)
        return found

    def forward(self, v: Tensor) -> Tensor:
        calls, read = itertools.count(), []

        def before(module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            read.append(arguments[0])
            return (arguments[0].clone(), *arguments[1:])  # some act in place

        def after(module: nn.Module, arguments: tuple[Tensor, ...], out: Tensor) -> Tensor:
            return v.clone() if next(calls) == self.number - 1 else out

        x = v.clone() if self.number == 0 else v.new_zeros(len(v), *self.shape)
        out = self._run(x, before, after)
        return read[self.number] if self.number < len(read) else out

    def _run(self, x: Tensor, before: Callable[..., Any] | None, after: Callable[..., Any]) -> Tensor:
        hooks = [module.register_forward_hook(after) for module in self.modules_cut]
        hooks += [module.register_forward_pre_hook(before) for module in self.modules_cut if before is not None]
        try:
            return self.network(x)
        finally:
            for hook in hooks:
                hook.remove()

    def __str__(self) -> str:
        after = f"after activation or pooling number {self.number}" if self.number else "before its first activation"
        return f"{type(self.network).__name__} {after}"


def _matrix(precise: nn.Module, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Eq. 1, and whether it holds, on rows of two sizes."""
    W, b = _affine(precise, shape)
    x = torch.randn(4, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(W)
    x[:2] *= 100
    with torch.no_grad():
        what = str(precise) if isinstance(precise, _Between) else type(precise).__name__
        _agree(what, precise(x).flatten(1), x.flatten(1) @ W.T + b)
    return W, b


def _agree(what: str, found: Tensor, expected: Tensor) -> None:
    if not torch.allclose(found, expected, rtol=1e-9, atol=1e-9 * (1 + float(expected.abs().max()))):
        raise UserError(
            "only an affine layer has a matrix, and only a chain of affine layers, activations and maximum pooling has "
            "a dense network",
            got=f"{what}, which is neither",
            do="Pass a convolution, mean pooling, upsampling or the like, or an nn.Sequential of such and activations",
        )


def _check_room(rows: int, columns: int) -> None:
    if rows * columns > _MOST:
        raise UserError(
            f"a dense matrix can have at most {_MOST:,} entries",
            got=f"{rows:,} × {columns:,}",
            do="Pass a smaller shape: the same convolution, on fewer places",
        )


def _affine(precise: nn.Module, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Eq. 1 by derivatives at 0: row i of W is the gradient of f_i, of a batch in which each row has its own i."""
    device = _device(precise)
    with torch.no_grad():
        b = precise(torch.zeros(1, *shape, dtype=torch.float64, device=device)).flatten()
    _check_room(len(b), math.prod(shape))
    rows = []
    for first in range(0, len(b), _ROWS):
        count = min(_ROWS, len(b) - first)
        x = torch.zeros(count, *shape, dtype=torch.float64, device=device, requires_grad=True)
        with torch.enable_grad():
            f = precise(x).flatten(1)[:, first : first + count].diagonal().sum()
            [slope] = torch.autograd.grad(f, x) if f.requires_grad else [torch.zeros_like(x)]
        rows.append(slope.flatten(1))
    return torch.cat(rows), b


def _map(between: _Between, read: tuple[int, ...]) -> list[nn.Module]:
    """What lies between two cuts as one map; none where it only reshapes."""
    W, b = _matrix(between, read)
    return [] if not b.any() and torch.equal(W, torch.eye(len(W)).to(W)) else [_linear(W, b)]


def _merged(layers: list[nn.Module]) -> list[nn.Module]:
    """The same layers, in which no map follows another."""
    out: list[nn.Module] = []
    for layer in layers:
        last = out[-1] if out else None
        if isinstance(layer, nn.Linear) and isinstance(last, nn.Linear):
            W, b = layer.weight, layer.bias
            out[-1] = _linear(W @ last.weight.to(W), W @ last.bias.to(W) + b)
        else:
            out.append(layer)
    return out


def _linear(W: Tensor, b: Tensor | None = None) -> nn.Linear:
    made = nn.utils.skip_init(nn.Linear, W.shape[1], W.shape[0], dtype=W.dtype)
    made.weight.copy_(W)
    made.bias.zero_() if b is None else made.bias.copy_(b)
    return made


def _spread(cut: _Cut) -> nn.Module:
    """The activation for a row of numbers: the slope of its channel for each of them."""
    made = copy.deepcopy(cut.module)
    if isinstance(made, nn.PReLU) and made.num_parameters > 1:
        made.num_parameters = math.prod(cut.read)
        made.weight = nn.Parameter(made.weight.repeat_interleave(math.prod(cut.read[1:])))
    if "inplace" in vars(made):
        made.inplace = False  # type: ignore[assignment]
    return made


def _maximum(cut: _Cut) -> list[nn.Module]:
    """Eq. 2 until one value of each window is left; an odd one goes on as relu(v) - relu(-v)."""
    windows = _windows(cut.module, cut.read, cut.made)  # (n', K)
    layers: list[nn.Module] = []
    _check_room(2 * windows.numel(), math.prod(cut.read))
    pick = torch.eye(math.prod(cut.read), dtype=torch.float64)[windows]  # (n', K, n)
    while pick.shape[1] > 1:
        half = pick.shape[1] // 2
        u, v, rest = pick[:, :half], pick[:, half : 2 * half], pick[:, 2 * half :]
        parts = torch.cat([u - v, v, -v, rest, -rest], 1)
        layers += [_linear(parts.flatten(0, 1)), nn.ReLU()]
        pick = _joined(len(windows), half, rest.shape[1])
    return [*layers, _linear(pick.flatten(0, 1))]


def _joined(windows: int, half: int, rest: int) -> Tensor:
    """What adds up the three parts of each pair, and the two of an odd one, in every window."""
    pair, one = torch.eye(half, dtype=torch.float64), torch.eye(rest, dtype=torch.float64)
    own = torch.block_diag(torch.cat([pair, pair, -pair], 1), torch.cat([one, -one], 1))
    return torch.kron(torch.eye(windows, dtype=torch.float64), own).unflatten(0, (windows, half + rest))


def _windows(pool: Any, read: tuple[int, ...], made: tuple[int, ...]) -> Tensor:
    """Numbers of the values that each window holds, (n', K); what is padding repeats a value of its window."""
    sizes = read[1:]
    K, s, p, d = (_each(v, len(sizes)) for v in (pool.kernel_size, pool.stride, pool.padding, pool.dilation))
    number = torch.arange(math.prod(read)).view(read)
    for axis, n in enumerate(made[1:]):
        j = s[axis] * torch.arange(n)[:, None] + d[axis] * torch.arange(K[axis]) - p[axis]  # (n', K) of this axis
        inside = (j >= 0) & (j < sizes[axis])
        first = j.gather(1, inside.int().argmax(1, keepdim=True))
        number = number.index_select(axis + 1, torch.where(inside, j, first).flatten())
        number = number.unflatten(axis + 1, (n, K[axis])).movedim(axis + 2, -1)
    return number.flatten(len(sizes) + 1).flatten(0, len(sizes))


def _each(value: int | tuple[int, ...], axes: int) -> tuple[int, ...]:
    return (value,) * axes if isinstance(value, int) else tuple(value)


def _device(module: nn.Module) -> torch.device:
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def _dtype(module: nn.Module) -> torch.dtype:
    return next((p.dtype for p in module.parameters()), torch.get_default_dtype())
