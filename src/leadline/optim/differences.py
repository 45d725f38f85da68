"""Derivatives by finite differences, beside those of autograd.

    ∂L/∂φ_j ≈ (L(φ + h e_j) - L(φ - h e_j)) / 2h,    h = step · max(1, |φ_j|)        (1)   error O(h²)
    error    = |autograd - (1)| / max(1, largest |autograd| of the tensor)           (2)

In float64 a step of 1e-6 leaves about nine digits where the loss is smooth. Across a kink (ReLU at 0) the two differ
for a reason; move the point, or make the step smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Difference:
    """The entry of one tensor whose two derivatives differ most: its place, both of them, and the error (2)."""

    name: str
    place: tuple[int, ...]
    autograd: float
    finite: float
    error: float

    def __str__(self) -> str:
        where = f"{self.name}[{', '.join(map(str, self.place))}]" if self.place else self.name
        return f"{where}: autograd {self.autograd:.9g}, finite differences {self.finite:.9g}, off by {self.error:.3g}"


def differences(
    loss: Callable[[], Tensor], tensors: Mapping[str, Tensor], *, step: float = 1e-6, most: int = 100
) -> list[Difference]:
    """The worst entry of each tensor, the worst tensor first. The tensors end as they began.

    Args:
        loss: computes one number from the tensors as they are, the same number each time.
        tensors: leaves in float64 that require a gradient, by name.
        step: h of (1) for entries up to 1, above 0.
        most: entries of a tensor that are looked at, evenly spread.

    >>> w = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    >>> worst, = differences(lambda: (w**3).sum(), {"w": w})
    >>> worst.autograd, worst.error < 1e-8
    (3.0, True)
    """
    leaves = list(tensors.values())
    with torch.enable_grad():
        own = torch.autograd.grad(loss(), leaves, allow_unused=True)
    found = []
    for (name, tensor), gradient in zip(tensors.items(), own, strict=True):
        exact = torch.zeros_like(tensor) if gradient is None else gradient.detach()
        scale = max(1.0, float(exact.abs().max())) if exact.numel() else 1.0
        places = torch.arange(tensor.numel())[:: max(1, -(-tensor.numel() // most))]
        worst = None
        for k in places.tolist():
            place = tuple(int(i) for i in torch.unravel_index(torch.tensor(k), tensor.shape)) if tensor.ndim else ()
            finite = _central(loss, tensor, place, step)
            here = float(exact[place])
            error = abs(here - finite) / scale  # eq. 2
            if worst is None or not error <= worst.error:  # nan is worst of all
                worst = Difference(name, place, here, finite, error)
        if worst is not None:
            found.append(worst)
    return sorted(found, key=lambda one: -one.error if one.error == one.error else -torch.inf)


@torch.no_grad()
def _central(loss: Callable[[], Tensor], tensor: Tensor, place: tuple[int, ...], step: float) -> float:
    """Eq. 1."""
    before = tensor[place].clone()
    h = step * max(1.0, abs(float(before)))
    ends = []
    for sign in (1, -1):
        tensor[place] = before + sign * h
        ends.append(float(loss()))
    tensor[place] = before
    return (ends[0] - ends[1]) / (2 * h)
