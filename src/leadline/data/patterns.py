"""Patterns of -1 and +1, to be stored and then found again from damaged copies.

>>> patterns(10, 64)
Data(patterns: train 10, val 10, test 10; x (64,); y pattern: signs (64 values))
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from leadline.data.account import Account
from leadline.data.arguments import checked
from leadline.data.data import Data, Split
from leadline.data.inputs import Identity
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.settings import given, whole


@checked
def patterns(num: int = 10, dim: int = 100, corrupted: float = 0.1, mean: float = 0.0, seed: int = 0) -> Data:
    """Random patterns ξ_t: train has x = y = ξ_t; val and test have the same y, and x = ξ_t with some bits flipped.

    Args:
        num: patterns, at least 1.
        dim: bits a pattern, at least 1.
        corrupted: part of the bits of x that are flipped in val and test, from 0 to 1.
        mean: of a bit, between -1 and 1; 0 makes both signs equally likely.
        seed: of the patterns and of what is flipped.
    """
    num, dim = whole("num", num, usual=10), whole("dim", dim, usual=100)
    seed = whole("seed", seed, 0, 2**63 - 1, usual=0)
    if not -1 < mean < 1:
        raise UserError("mean must lie between -1 and 1", got=f"mean={mean}", do="Leave it out for 0")
    rng = np.random.default_rng(seed)
    clean = np.where(rng.random((num, dim)) < (1 + mean) / 2, np.float32(1), np.float32(-1))
    options = {"num": num, "dim": dim, "corrupted": corrupted, "mean": mean, "seed": seed}
    return _data(clean, corrupted, rng, "patterns", {"source": "patterns", "options": options})


@checked
def memories(rows: Any, corrupted: float = 0.1, seed: int = 0) -> Data:
    """Patterns of your own, in the same form.

    Args:
        rows: (num, bits) of -1 and +1.
        corrupted: part of the bits of x that are flipped in val and test, from 0 to 1.
        seed: of what is flipped.

    >>> memories([[1, -1, 1], [-1, -1, 1]], corrupted=0.3).val.x.shape
    torch.Size([2, 3])
    """
    clean = check_signs("rows", rows)
    return _data(clean, corrupted, np.random.default_rng(whole("seed", seed, 0, usual=0)), "memories", None)


def _data(clean: np.ndarray, corrupted: float, rng: np.random.Generator, name: str, recipe: dict | None) -> Data:
    if not 0 <= corrupted <= 1:
        raise UserError(
            "corrupted must be a part of the bits, from 0 to 1", got=f"corrupted={corrupted}", do="Write 10 % as 0.1"
        )
    num, dim = clean.shape
    y = torch.from_numpy(clean)
    flips = round(corrupted * dim)

    def damaged() -> Split:
        chosen = rng.random((num, dim)).argsort(1) < flips  # exactly so many bits of every row
        return Split(torch.from_numpy(np.where(chosen, -clean, clean)), y.clone(), rows=torch.arange(num))

    return Data(
        Split(y.clone(), y, rows=torch.arange(num)),
        damaged(),
        damaged(),
        Target("signs", "pattern", dim=dim),
        Identity(tuple(f"x{i}" for i in range(1, dim + 1))),
        name=name,
        recipe=recipe,
        account=Account(f"{name} generator" if recipe else name, read=num),
    )


def check_signs(name: str, values: Any) -> np.ndarray:
    """`values` as an array (n, dim) of -1 and +1 in float32; else the message that says what they are.

    >>> check_signs("y", [[0, 1], [1, 1]])
    Traceback (most recent call last):
    leadline.errors.DataError: y must hold -1 and +1. Got 0 and 1. Pass 2 * y - 1.
    """
    try:
        found = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
        number = found.astype(np.float32)
    except (TypeError, ValueError):
        raise DataError(f"{name} must hold -1 and +1", got=given(name, values), do="Pass an array of numbers") from None
    if found.ndim != 2 or not found.size:
        raise ShapeError(
            f"{name} must have shape (n, bits), one pattern a row", got=f"shape {found.shape}", do="Pass rows of bits"
        )
    if found.dtype != bool and (np.abs(number) == 1).all():
        return number
    if np.isin(number, (0, 1)).all():
        raise DataError(f"{name} must hold -1 and +1", got="0 and 1", do=f"Pass 2 * {name} - 1")
    row = int(np.flatnonzero((np.abs(number) != 1).any(1))[0])
    value = number[row][np.abs(number[row]) != 1][0]
    raise DataError(f"{name} must hold -1 and +1", got=f"{value:g} in row {row}", do="Take the sign of the values")
