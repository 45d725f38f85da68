"""What a module calls while it computes: its affine maps and activations, in order, however it is written.

Listening to torch's own functions sees `nn.ReLU`, `F.relu`, `x.relu()` and `x.clamp(min=0)` alike, modules used twice,
skip connections and loops, and needs nothing of the module but that it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a torch function: its name, what went in (as it was before an in-place call) and what came out."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any

    def option(self, place: int, name: str, usual: Any = None) -> Any:
        """The argument at `place`, or of that name."""
        return self.args[place] if len(self.args) > place else self.kwargs.get(name, usual)


class Listening(TorchFunctionMode):
    """While on, `calls` fills with the calls whose names are `wanted` (all that return a tensor, if None).

    >>> import torch
    >>> with Listening() as heard:
    ...     _ = torch.relu(torch.ones(2)) + 1
    >>> [call.name for call in heard.calls]
    ['ones', 'relu', 'add']
    """

    def __init__(self, wanted: Callable[[str], bool] | None = None):
        super().__init__()
        self.wanted, self.calls = wanted, list[Call]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = getattr(func, "__name__", "")
        name = written.strip("_")
        keep = bool(name) and name != "get" and (self.wanted is None or self.wanted(name))
        if keep and (written.endswith("_") or kwargs.get("inplace") or any(a is True for a in args[1:])):
            heard = (args[0].clone(), *args[1:])
        else:
            heard = args
        out = func(*args, **kwargs)
        if keep and isinstance(out, Tensor):
            self.calls.append(Call(name, heard, kwargs, out))
        return out


#: function -> where it bends, given its call; every one is continuous and straight between these places
_BENDS: dict[str, Callable[[Call], tuple[Any, ...]]] = {
    **dict.fromkeys(("relu", "leaky_relu", "prelu", "rrelu", "abs", "absolute"), lambda call: (0.0,)),
    "relu6": lambda call: (0.0, 6.0),
    "hardsigmoid": lambda call: (-3.0, 3.0),
    "hardtanh": lambda call: (call.option(1, "min_val", -1.0), call.option(2, "max_val", 1.0)),
    "softshrink": lambda call: (-call.option(1, "lambd", 0.5), call.option(1, "lambd", 0.5)),
    **dict.fromkeys(("clamp", "clip"), lambda call: (call.option(1, "min"), call.option(2, "max"))),
    "clamp_min": lambda call: (call.option(1, "min"),),
    "clamp_max": lambda call: (call.option(1, "max"),),
}
_BETWEEN_TWO = ("maximum", "minimum")


def bends(name: str) -> bool:
    """Whether a function of that name is an activation made of straight pieces."""
    return name in _BENDS or name in _BETWEEN_TWO


def levels(call: Call) -> tuple[Tensor, tuple[float, ...]]:
    """What a bending call compares, flat (B, units), and the levels at which it bends."""
    first = call.args[0]
    if call.name in _BETWEEN_TWO:
        return (first - call.option(1, "other")).flatten(1), (0.0,)
    where = (float(level) for level in _BENDS[call.name](call) if level is not None)
    return first.flatten(1), tuple(sorted(set(where)))
