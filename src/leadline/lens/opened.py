"""A network with every path through it open: its wiring as it is, without what could hide a path.

    activations, norms, rounding                     left out
    largest value, maximum, median, sort             the mean or the sum of what they choose among           (1)
    where(c, a, b)                                   a + b + c',   c' -> what the condition c was made of    (2)
    r += (K - 1) d j,   j *= s                       at each convolution and pool, from r = j = 1            (3)

With positive weights no path cancels another then, and a derivative is 0 only where there is no path. Comparisons have
no derivative, so what they compared is carried beside the truth values, through and, or, not and changes of shape,
until they choose (2), multiply, or become numbers. All runs in double precision, whatever the network asks for.

Notation   K kernel size, d spacing of its taps, s stride, r size and j jump of a receptive field
Notes      not seen: what a network computes without gradients, and what it reads through places found as whole numbers,
           such as an argmax that becomes an index
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_POINTWISE = frozenset(
    (
        *("relu", "relu6", "leaky_relu", "prelu", "rrelu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus"),
        *("sigmoid", "tanh", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink"),
        *("softsign", "logsigmoid", "threshold", "clamp", "clip", "clamp_min", "clamp_max", "abs", "absolute", "sign"),
        *("heaviside", "exp", "sqrt", "square", "dropout", "alpha_dropout", "feature_alpha_dropout"),
        *("floor", "ceil", "round", "trunc", "fix", "detach"),
        *("batch_norm", "instance_norm", "group_norm", "layer_norm", "rms_norm", "local_response_norm"),
    )
)
_ALL_AT_ONCE = frozenset(("linear", "flatten", "mean", "sum", "reshape", "view", "amax", "interpolate", "einsum"))
_SHAPES = frozenset(
    ("unsqueeze", "squeeze", "reshape", "view", "expand", "expand_as", "permute", "transpose", "flatten", "getitem")
)
#: functions that choose by order, and where their argument `dim` stands
_CHOOSING = {"max": 1, "min": 1, "median": 1, "nanmedian": 1, "mode": 1, "sort": 1, "topk": 2, "kthvalue": 2}
_LAST_AXIS = ("mode", "sort", "topk", "kthvalue")
#: convolutions and pools
SLIDING = frozenset(f"{kind}{d}d" for kind in ("conv", "max_pool", "avg_pool", "lp_pool") for d in (1, 2, 3))

Told = tuple[tuple[int, ...], tuple[int, ...]]


class Opened(TorchFunctionMode):
    """While on, functions are open as said above, and convolutions and pools are noted.

    Args:
        x: what the network reads, in double precision.
        inside: paths of the modules that are computing, the innermost last.

    >>> x = torch.ones(1, 1, 5, dtype=torch.float64, requires_grad=True)
    >>> with Opened(x, [""]):
    ...     out = F.max_pool1d(torch.where(x > 2, x, 0.0).float(), 3)
    >>> torch.autograd.grad(out.sum(), x)[0].ne(0).tolist()
    [[[True, True, True, False, False]]]
    """

    def __init__(self, x: Tensor, inside: list[str]):
        super().__init__()
        axes = positions(x)
        self.axes, self.inside = axes, inside
        self.kept: list[Any] = [x]  # alive, so that no id comes twice
        self.told: dict[int, Told | None] = {id(x): ((1,) * axes, (1,) * axes)}
        self.compared: dict[int, Tensor] = {}  # truth values -> what they were made of
        self.links: list[tuple[str, str, Told | None, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        if name in ("get", "set") or not name:
            return func(*args, **kwargs)
        base = name.removesuffix("_with_indices")
        if not func.__name__.endswith("_") or func.__name__.endswith("__"):  # else it changes its argument in place
            args, kwargs = tuple(map(_double, args)), {word: _double(value) for word, value in kwargs.items()}
        out = self._chosen(base, func, args, kwargs)
        out = _double(_opened(base, func, args, kwargs) if out is None else out)
        main = out[0] if isinstance(out, tuple) and out else out
        if isinstance(main, Tensor):
            told = self._told(base, args, kwargs, main)
            self.kept.append(out)
            self.told[id(main)] = told
            if base in SLIDING:
                self.links.append((self.inside[-1] if self.inside else "", base, told, main))
            if main.dtype == torch.bool:
                self._compare(base, func, args, kwargs, main)
        return out

    def _chosen(self, name: str, func: Any, args: Any, kwargs: Any) -> Tensor | None:
        """What a function of truth values puts out, with what these were made of in their place; else None."""
        given = (*args, *kwargs.values())
        made_of = [self.compared[id(a)] for a in given if isinstance(a, Tensor) and id(a) in self.compared]
        if name == "where" and len(given) == 3:
            out = func(*args, **kwargs)
            parts = [torch.nan_to_num(a) for a in given if isinstance(a, Tensor) and a.is_floating_point()]
            return sum((*parts, *made_of), torch.zeros(out.shape, dtype=torch.float64, device=out.device))  # eq. 2
        if not made_of:
            return None
        if name == "masked_fill":
            return args[0] + made_of[0]
        if name in ("mul", "rmul", "add", "radd", "sub", "rsub", "div"):
            return func(*(self.compared.get(id(a), a) for a in args), **kwargs)
        if name in ("float", "double", "half", "bfloat16", "to", "type", "type_as"):
            out = func(*args, **kwargs)
            return made_of[0] if out.is_floating_point() else out
        return None

    def _compare(self, name: str, func: Any, args: Any, kwargs: Any, out: Tensor) -> None:
        """Note what truth values were made of: numbers that were compared, or other truth values."""
        tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        made_of = [self.compared.get(id(a), a) for a in tensors if id(a) in self.compared or a.is_floating_point()]
        if name in _SHAPES:
            if id(args[0]) in self.compared:
                self.compared[id(out)] = func(made_of[0], *args[1:], **kwargs)
        elif made_of and torch.broadcast_shapes(*(a.shape for a in made_of)) == out.shape:
            self.compared[id(out)] = sum(made_of, torch.zeros(out.shape, dtype=torch.float64, device=out.device))

    def _told(self, name: str, args: Any, kwargs: Any, out: Tensor) -> Told | None:
        """Eq. 3 along this call."""
        flat = [a for group in (args, kwargs.values()) for a in group]
        flat += [b for a in flat if isinstance(a, (tuple, list)) for b in a]
        known = [self.told[id(a)] for a in flat if isinstance(a, Tensor) and id(a) in self.told]
        if not known or any(k is None for k in known) or name.startswith(("conv_transpose", "adaptive", "pixel")):
            return None
        if name in _ALL_AT_ONCE or name in _CHOOSING or out.dim() != self.axes + 2:
            return None
        sizes = tuple(max(k[0][axis] for k in known) for axis in range(self.axes))  # type: ignore[index]
        jumps = known[0][1]  # type: ignore[index]
        if any(k[1] != jumps for k in known):  # type: ignore[index]
            return None
        if name not in SLIDING:
            return sizes, jumps
        kernel, stride, spacing = _window(name, args, kwargs, self.axes)
        return (
            tuple(r + (k - 1) * d * j for r, k, d, j in zip(sizes, kernel, spacing, jumps, strict=True)),  # eq. 3
            tuple(j * s for j, s in zip(jumps, stride, strict=True)),
        )


def positions(x: Tensor) -> int:
    """Axes of positions: all but row and channel; a row without channels has one.

    >>> positions(torch.zeros(2, 3, 8, 8)), positions(torch.zeros(2, 40))
    (2, 1)
    """
    return max(1, x.dim() - 2)


def _double(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() and value.dtype != torch.float64 else value
    if type(value) in (tuple, list):
        return type(value)(_double(each) for each in value)
    return value


def _opened(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """The function with nothing in it that could hide a path."""
    if name in _POINTWISE:
        return args[0] if args else kwargs["input"]
    if name.startswith("max_pool"):
        return _sums(name, func, args, kwargs)
    if name.startswith("adaptive_max_pool"):
        real = func(*args, **kwargs)
        means = getattr(F, name.replace("max", "avg"))(args[0], args[1] if len(args) > 1 else kwargs["output_size"])
        return (means, real[1]) if isinstance(real, tuple) else means
    if name in ("maximum", "minimum", "fmax", "fmin"):
        return args[0] + args[1]
    if name in ("amax", "amin"):
        return torch.mean(*args, **kwargs)
    if name in ("cummax", "cummin"):
        real = func(*args, **kwargs)
        return type(real)((torch.cumsum(*args, **kwargs), real[1]))
    if name in _CHOOSING:
        return _means(name, func, args, kwargs)
    if name in ("softmax", "log_softmax"):
        dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
        return args[0] / args[0].sum(dim, keepdim=True)
    return func(*args, **kwargs)


def _means(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """Eq. 1: what chooses by order, with the mean of what it chooses among for its values; of two tensors their sum."""
    if len(args) > 1 and isinstance(args[1], Tensor):
        return args[0] + args[1]
    real = func(*args, **kwargs)
    place = _CHOOSING[name]
    dim = kwargs.get("dim", args[place] if len(args) > place else -1 if name in _LAST_AXIS else None)
    if isinstance(real, Tensor) or dim is None:
        return args[0].mean()
    mean = args[0].mean(dim, keepdim=True)
    mean = mean if real[0].dim() == mean.dim() else mean.squeeze(dim)
    return type(real)((mean.expand(real[0].shape), real[1]))


def _sums(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    """A pool of largest values with sums in their place, of the same windows."""
    x = args[0]
    axes = int(name[-2])
    real = func(*args, **kwargs)
    best = real[0] if isinstance(real, tuple) else real
    kernel, stride, spacing = _window(name, args, kwargs, axes)
    padding = _each(args[3] if len(args) > 3 else kwargs.get("padding", 0), axes)
    edges = []
    for n, have, k, s, d, p in zip(best.shape[-axes:], x.shape[-axes:], kernel, stride, spacing, padding, strict=True):
        reach = (n - 1) * s + (k - 1) * d + 1
        edges.append((p, max(0, reach - have - p)))  # more at the end, where sizes are rounded up
    wide = F.pad(x, [side for pair in reversed(edges) for side in pair])
    ones = torch.ones(1, 1, *kernel, dtype=x.dtype, device=x.device)
    convolve = getattr(F, f"conv{axes}d")
    each = convolve(wide.reshape(-1, 1, *wide.shape[-axes:]), ones, stride=stride, dilation=spacing)
    inner: tuple[Any, ...] = (..., *(slice(0, n) for n in best.shape[-axes:]))
    each = each[inner].reshape(best.shape) / math.prod(kernel)
    return (each, *real[1:]) if isinstance(real, tuple) else each


def _window(name: str, args: Any, kwargs: Any, axes: int) -> tuple[tuple[int, ...], ...]:
    """Kernel, stride and spacing of a convolution or a pool, by axis."""
    option = lambda place, word, usual: args[place] if len(args) > place else kwargs.get(word, usual)  # noqa: E731
    if name.startswith("conv"):
        weight = option(1, "weight", None)
        return tuple(weight.shape[2:]), _each(option(3, "stride", 1), axes), _each(option(5, "dilation", 1), axes)
    place = 2 if name.startswith("lp") else 1
    kernel = _each(option(place, "kernel_size", None), axes)
    stride = option(place + 1, "stride", None)
    spacing = option(4, "dilation", 1) if name.startswith("max") else 1
    return kernel, kernel if stride in (None, (), []) else _each(stride, axes), _each(spacing, axes)


def _each(value: Any, axes: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return values * axes if len(values) == 1 else values
