"""The loss of rows that are each a mixture of two.

    loss_i = λ_i inner(f_i, y_i) + (1 - λ_i) inner(f_i, y_j)        (1)   j = i - 1, the row before in the batch

`inner` may itself depend on the row: it may mix, too, or switch labels. So the second term hands f_i over to row j,
and `inner` scores it as that row's own.
"""

from __future__ import annotations

from torch import Tensor

from leadline.regularize.regularizer import Score


def with_mates(inner: Score, part: Tensor) -> Score:
    """Eq. 1 for λ = `part`, (B,).

    >>> import torch
    >>> off = lambda output, y: (output - y).abs()
    >>> with_mates(off, torch.tensor([1.0, 0.75]))(torch.zeros(2), torch.tensor([4.0, 8.0])).tolist()
    [4.0, 7.0]
    """

    def mixed(output: Tensor, y: Tensor) -> Tensor:
        own, mate = inner(output, y), inner(output.roll(-1, 0), y).roll(1, 0)
        return part.to(own.dtype) * own + (1 - part.to(own.dtype)) * mate

    return mixed
