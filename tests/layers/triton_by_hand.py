"""A few words of Triton in numpy, one program after another: enough to run the text of a kernel where there is none.

It knows nothing of layouts, types of registers or what compiles: it shows that addresses, masks and sums are right.
"""

import contextlib
import sys
import types

import numpy as np
import torch


class Pointer:
    def __init__(self, tensor, at=0):
        self.tensor, self.at = tensor, at
        self.dtype = types.SimpleNamespace(element_ty="element")

    def __add__(self, offset):
        return Pointer(self.tensor, self.at + (offset.value if isinstance(offset, Value) else offset))


class Value(np.lib.mixins.NDArrayOperatorsMixin):
    """An array, or a number, that has `.to`."""

    def __init__(self, value):
        self.value = np.asarray(value)

    @property
    def shape(self):
        return self.value.shape

    def to(self, kind):
        return Value(self.value if kind == "element" else self.value.astype(kind))

    def __getitem__(self, key):
        return Value(self.value[key])

    def __index__(self):
        return int(self.value)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [x.value if isinstance(x, Value) else x for x in inputs]
        with np.errstate(all="ignore"):
            return Value(getattr(ufunc, method)(*plain))


def plain(x):
    return x.value if isinstance(x, Value) else np.asarray(x)


class Language(types.ModuleType):
    constexpr, int64, int32, float32 = int, np.int64, np.int32, np.float32
    place = (0, 0)

    def program_id(self, axis):
        return Value(np.int64(self.place[axis]))

    def arange(self, begin, end):
        return Value(np.arange(begin, end))

    def zeros(self, shape, kind):
        return Value(np.zeros(shape, kind))

    def full(self, shape, fill, kind):
        return Value(np.full(shape, fill, kind))

    def where(self, a, b, c):
        return Value(np.where(plain(a), plain(b), plain(c)))

    def sum(self, x, axis):
        return Value(plain(x).sum(axis))

    def max(self, x, axis):
        return Value(plain(x).max(axis))

    def maximum(self, a, b):
        return Value(np.maximum(plain(a), plain(b)))

    def exp(self, x):
        with np.errstate(all="ignore"):
            return Value(np.exp(plain(x)))

    def load(self, pointer, mask=None, other=0):
        memory = pointer.tensor.detach().flatten().float().numpy()
        if not pointer.tensor.is_floating_point():
            memory = pointer.tensor.detach().flatten().numpy()
        at = np.asarray(pointer.at)
        there = np.broadcast_to(np.ones((), bool) if mask is None else plain(mask), at.shape)
        if there.any():
            assert at[there].min() >= 0 and at[there].max() < len(memory), "outside of the tensor"
        return Value(np.where(there, memory[np.where(there, at, 0)], other))

    def store(self, pointer, value, mask=None):
        at = np.asarray(pointer.at)
        there = np.broadcast_to(np.ones((), bool) if mask is None else plain(mask), at.shape)
        memory, value = pointer.tensor.view(-1), np.broadcast_to(plain(value), at.shape)
        assert not there.any() or (at[there].min() >= 0 and at[there].max() < len(memory)), "outside of the tensor"
        memory[torch.from_numpy(at[there])] = torch.from_numpy(value[there].copy()).to(memory.dtype)


class Kernel:
    def __init__(self, function, language):
        self.function, self.language = function, language

    def __getitem__(self, grid):
        def launch(*args, num_warps=None, **named):
            args = [Pointer(a) if isinstance(a, torch.Tensor) else a for a in args]
            for i in range(grid[0]):
                for j in range(grid[1] if len(grid) > 1 else 1):
                    self.language.place = (i, j)
                    self.function(*args, **named)

        return launch


def counted(*bounds):
    begin, end, step = (*bounds, 1) if len(bounds) == 2 else bounds
    return (Value(np.int64(i)) for i in range(int(begin), int(end), step))


@contextlib.contextmanager
def by_hand(text):
    """The kernels of a text, run in numpy."""
    language = Language("triton.language")
    triton = types.ModuleType("triton")
    triton.language, triton.jit = language, lambda function: Kernel(function, language)
    before = {name: sys.modules.get(name) for name in ("triton", "triton.language")}
    sys.modules |= {"triton": triton, "triton.language": language}
    try:
        made = {"range": counted}
        exec(text, made)
        yield types.SimpleNamespace(**{name: kernel for name, kernel in made.items() if isinstance(kernel, Kernel)})
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
