"""Weights put into a model where names and shapes agree; what is new in it, and what was left over, is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_FEW = 4  # names of tensors that a line tells


@dataclass(frozen=True)
class Filled:
    """Args:
    loaded: tensors of the model that were filled, by name.
    new: those that were not, and keep their first weights.
    left: tensors that the model has no place for.
    unlike: (name, shape there, shape here) of those in `new` that were there in another shape.

    >>> print(Filled(("layers.0.weight",), ("head.weight", "head.bias"), (), ()))
    1 tensor loaded; new: head.weight, head.bias
    """

    loaded: tuple[str, ...]
    new: tuple[str, ...]
    left: tuple[str, ...]
    unlike: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]

    @property
    def fits(self) -> bool:
        """Whether something was loaded, and most of what both have, or all of it but one part, such as a head.

        >>> Filled(("norm.bias",), ("a.v", "b.w"), (), (("a.v", (3,), (4,)), ("b.w", (3,), (4,)))).fits
        False
        """
        parts = {name.rpartition(".")[0] for name, _, _ in self.unlike}
        return bool(self.loaded) and (len(parts) < 2 or len(self.unlike) <= len(self.loaded))

    def __str__(self) -> str:
        shapes = {name: f" ({list(there)} there, {list(here)} here)" for name, there, here in self.unlike}
        parts = [f"{len(self.loaded)} tensor{'' if len(self.loaded) == 1 else 's'} loaded"]
        parts += [f"new: {listed(name + shapes.get(name, '') for name in self.new)}"] if self.new else []
        parts += [f"left over: {listed(self.left)}"] if self.left else []
        return "; ".join(parts)


def fill(model: nn.Module, tensors: Iterable[tuple[str, Tensor]]) -> Filled:
    """Copy tensors into the model, in place, where it has one of that name and shape.

    >>> model = nn.Linear(2, 3)
    >>> fill(model, [("weight", torch.ones(3, 2)), ("bias", torch.ones(5)), ("scale", torch.ones(1))]).new
    ('bias',)
    """
    own, loaded, left, unlike = model.state_dict(), [], [], []
    with torch.no_grad():
        for name, tensor in tensors:
            if name not in own:
                left.append(name)
            elif own[name].shape != tensor.shape:
                unlike.append((name, tuple(tensor.shape), tuple(own[name].shape)))
            else:
                own[name].copy_(tensor)
                loaded.append(name)
    new = tuple(name for name in own if name not in set(loaded))
    return Filled(tuple(loaded), new, tuple(left), tuple(unlike))


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are.

    >>> listed("abcdef")
    'a, b, c, d and 2 more'
    """
    every = list(names)
    return ", ".join(every[:_FEW]) + (f" and {len(every) - _FEW} more" if len(every) > _FEW else "")
