"""Where a token stands, added to what it is: learned, or waves of many lengths (Vaswani et al., 2017).

    x_n <- x_n + π_n                                                                              (1)
    π_{n,2k} = sin(n ω_k),   π_{n,2k+1} = cos(n ω_k),   ω_k = 10000^{-2k/D},   k = 0 … D/2 - 1    (2)

Without it attention cannot tell orders apart: a row in another order gives the same outputs in that order. With (2) one
matrix for each offset, the same everywhere, takes π_n to π_{n + offset}, and π_n · π_m depends on n - m alone.

Notation   π -> weight, or sinusoids;  ω_k -> frequencies
Shapes     x (B, T, D) -> (B, T, D);  at (B, T) or (T,)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.settings import whole


class LearnedPositions(nn.Module):
    """Eq. 1, one learned vector for each place.

    Args:
        length: most places.
        dim: D.

    >>> LearnedPositions(8, 4)(torch.zeros(2, 5, 4)).shape
    torch.Size([2, 5, 4])
    """

    def __init__(self, length: int, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(whole("length", length), whole("dim", dim)) * 0.02)

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        """Args:
        at: where the tokens stand; 0 … T-1 by default.
        """
        check_rows(x, self.weight.shape[1], "LearnedPositions")
        if at is None:
            check_places(x, len(self.weight))
        return x + (self.weight[: x.shape[1]] if at is None else self.weight[at])


class SinusoidalPositions(nn.Module):
    """Eq. 1 with eq. 2: nothing is learned, and no place is the last.

    Args:
        dim: D, even.

    >>> SinusoidalPositions(4)(torch.zeros(2, 5, 4)).shape
    torch.Size([2, 5, 4])
    """

    def __init__(self, dim: int):
        super().__init__()
        self.dim = even("dim", dim)

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        """Args:
        at: where the tokens stand; 0 … T-1 by default.
        """
        check_rows(x, self.dim, "SinusoidalPositions")
        at = torch.arange(x.shape[1], device=x.device) if at is None else at
        return x + sinusoids(at, self.dim, dtype=computing(x)).to(x.dtype)


def sinusoids(at: Tensor, dim: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Eq. 2 at any places, (…) -> (…, D).

    >>> sinusoids(torch.tensor([0]), 4).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    angles = at[..., None].to(dtype) * frequencies(dim, base, at.device, dtype)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def frequencies(
    dim: int, base: float = 10000.0, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Tensor:
    """ω_k of eq. 2, (D/2,).

    >>> frequencies(4, base=100.0).tolist()
    [1.0, 0.10000000149011612]
    """
    return base ** -(torch.arange(0, even("dim", dim), 2, device=device, dtype=dtype) / dim)


def check_places(x: Tensor, length: int) -> None:
    """Refuse rows (B, T, D) that are longer than what was learned for each place.

    >>> check_places(torch.zeros(1, 9, 4), 8)
    Traceback (most recent call last):
    leadline.errors.UserError: a row must fit the places that were learned. Got 9 tokens, 8 places. Build the model \
with length=9, or cut the row.
    """
    if x.shape[1] > length:
        raise UserError(
            "a row must fit the places that were learned",
            got=f"{x.shape[1]} tokens, {length} places",
            do=f"Build the model with length={x.shape[1]}, or cut the row",
        )


def check_rows(x: Tensor, dim: int, owner: str) -> None:
    """Refuse what is no batch of rows of so many features; without its first axis it would be read along the wrong one.

    >>> check_rows(torch.zeros(9, 4), 4, "SelfAttention")
    Traceback (most recent call last):
    leadline.errors.ShapeError: SelfAttention reads rows of 4 features, (B, T, 4). Got torch.float32 of shape (9, 4). \
Add an axis for the batch: x[None].
    """
    if x.dim() == 3 and x.shape[-1] == dim and x.is_floating_point():
        return
    if not x.is_floating_point():
        do = "Pass real numbers: tokens through nn.Embedding first"
    elif x.shape[-1:] == (dim,):
        do = "Add an axis for the batch: x[None]" if x.dim() < 3 else "Join the axes of places: x.flatten(1, -2)"
    else:
        do = f"Pass as many features, or build it with dim={x.shape[-1]}" if x.dim() else "Pass a batch of rows"
    got = f"{x.dtype} of shape {tuple(x.shape)}"
    raise ShapeError(f"{owner} reads rows of {dim} features, (B, T, {dim})", got=got, do=do)


def computing(x: Tensor) -> torch.dtype:
    """The type in which angles are computed for x: never half precision, in which far places have no exact number."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def even(name: str, value: int) -> int:
    """`value` as an even whole number.

    >>> even("dim", 7)
    Traceback (most recent call last):
    leadline.errors.UserError: dim must be even: a sine and a cosine for each frequency. Got dim=7. Nearest: 6 or 8.
    """
    if whole(name, value, 2) % 2:
        raise UserError(
            f"{name} must be even: a sine and a cosine for each frequency",
            got=f"{name}={value}",
            do=f"Nearest: {value - 1} or {value + 1}",
        )
    return value
