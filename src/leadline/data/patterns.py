"""Patterns of -1 and +1, to be stored and then found again from damaged copies.

>>> patterns(10, 64)
Data(patterns: train 10, val 10, test 10; x (64,); y pattern: signs (64 values))
"""

from __future__ import annotations

import numpy as np
import torch

from leadline.data.account import Account
from leadline.data.arguments import checked
from leadline.data.data import Data, Split
from leadline.data.inputs import Identity
from leadline.data.target import Target
from leadline.errors import UserError
from leadline.settings import whole


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
    if not 0 <= corrupted <= 1:
        raise UserError(
            "corrupted must be a part of the bits, from 0 to 1", got=f"corrupted={corrupted}", do="Write 10 % as 0.1"
        )
    if not -1 < mean < 1:
        raise UserError("mean must lie between -1 and 1", got=f"mean={mean}", do="Leave it out for 0")
    rng = np.random.default_rng(seed)
    clean = np.where(rng.random((num, dim)) < (1 + mean) / 2, np.float32(1), np.float32(-1))
    y = torch.from_numpy(clean)
    flips = round(corrupted * dim)

    def damaged() -> Split:
        chosen = rng.random((num, dim)).argsort(1) < flips  # exactly so many bits of every row
        return Split(torch.from_numpy(np.where(chosen, -clean, clean)), y.clone(), rows=torch.arange(num))

    columns = tuple(f"x{i}" for i in range(1, dim + 1))
    return Data(
        Split(y.clone(), y, rows=torch.arange(num)),
        damaged(),
        damaged(),
        Target("signs", "pattern", dim=dim),
        Identity(columns),
        name="patterns",
        recipe={
            "source": "patterns",
            "options": {"num": num, "dim": dim, "corrupted": corrupted, "mean": mean, "seed": seed},
        },
        account=Account("patterns generator", read=num),
    )
