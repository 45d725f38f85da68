"""The two signs: of a perceptron, where nothing is 0, and of a memory, where a tie goes to +1.

sgn(a)   = -1, 0, +1                                   torch.sign        (1)
signs(a) = +1 where a >= 0, else -1                                      (2)
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.errors import DataError, ShapeError


def signs(a: Tensor) -> Tensor:
    """Eq. 2, in the type of `a`.

    >>> signs(torch.tensor([-2.0, 0.0, 3.0])).tolist()
    [-1.0, 1.0, 1.0]
    """
    return (a >= 0).to(a.dtype).mul_(2).sub_(1)


def read_signs(owner: str, x: Tensor) -> Tensor:
    """Eq. 2 of rows as they come; bits written 0 and 1 would all be +1, and are refused.

    >>> read_signs("Memory", torch.tensor([[-0.3, 2.0]])).tolist()
    [[-1.0, 1.0]]
    """
    if bool((x == 0).any()) and not bool((x < 0).any()):
        raise DataError(f"{owner}: rows must be -1 and +1", got="0 and no value below it", do="Pass 2 * x - 1")
    return signs(x)


def check_signs(owner: str, patterns: Tensor, dim: int) -> Tensor:
    """`patterns`, if they are rows of `dim` values -1 and +1; else the message that says what they are.

    >>> check_signs("Memory", torch.tensor([[0.0, 1.0]]), 2)
    Traceback (most recent call last):
    leadline.errors.DataError: Memory: patterns must be -1 and +1. Got 0 and 1. Pass 2 * patterns - 1.
    """
    patterns = torch.as_tensor(patterns)
    if patterns.dim() != 2 or patterns.shape[1] != dim or not len(patterns):
        raise ShapeError(
            f"{owner}: patterns must be rows of {counted(dim, 'value')}",
            got=f"shape {tuple(patterns.shape)}",
            do=f"Pass one row a pattern, shape (P, {dim})",
        )
    number = patterns.to(torch.int8) if patterns.dtype in (torch.bool, torch.uint8) else patterns
    if patterns.dtype != torch.bool and bool((number.abs() == 1).all()):
        return patterns
    if bool(((number == 0) | (number == 1)).all()):
        raise DataError(f"{owner}: patterns must be -1 and +1", got="0 and 1", do="Pass 2 * patterns - 1")
    row = int((number.abs() != 1).any(1).nonzero()[0])
    value = number[row][number[row].abs() != 1][0].item()
    raise DataError(
        f"{owner}: patterns must be -1 and +1",
        got=f"{value:g} in row {row}",
        do="Take the sign of the values, and decide what 0 becomes",
    )
