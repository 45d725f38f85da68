"""Weights of one of torch's recurrent layers, as they are now and as its kernels want them.

cuDNN reads W, U, b and c in one piece of memory, in this order, and has room for b and c also where there are none.
Weights that lie apart are copied at every call, with a warning: those that were put in the place of a layer's own for a
while, as noise on weights does it, and those that a layer makes out of its own.

Notation   W -> weight_ih_l0, U -> weight_hh_l0, b -> bias_ih_l0, c -> bias_hh_l0 of torch.nn.RNNBase
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def weights_of(kernel: nn.RNNBase) -> list[Tensor]:
    """W, U, b and c as they are now: others may have been put in their place for a while.

    >>> [tuple(part.shape) for part in weights_of(nn.GRU(3, 5, bias=False))]
    [(15, 3), (15, 5)]
    """
    return [getattr(kernel, name) for name in kernel._flat_weights_names]


def weights_for(kernel: nn.RNNBase) -> list[Tensor]:
    """The same, and on a GPU in one piece.

    >>> kernel = nn.GRU(3, 5)
    >>> all(one is other for one, other in zip(weights_for(kernel), kernel.parameters()))
    True
    """
    found = weights_of(kernel)
    own = all(one is other for one, other in zip(found, kernel._flat_weights, strict=True))
    return found if own or not found[0].is_cuda else in_one_piece(found)


def in_one_piece(weights: Sequence[Tensor]) -> list[Tensor]:
    """W, U, b and c one after the other in memory; of a layer without b and c these are 0.

    >>> W, U, b, c = in_one_piece([torch.ones(4, 2), torch.ones(4, 1)])
    >>> [part.storage_offset() for part in (W, U, b, c)], float(b.sum() + c.sum())
    ([0, 8, 12, 16], 0.0)
    """
    W, U, *offsets = weights
    parts = [W, U, *(offsets or [W.new_zeros(len(W))] * 2)]
    flat = torch.cat([part.flatten() for part in parts])
    pieces = flat.split([part.numel() for part in parts])
    return [piece.view_as(part) for piece, part in zip(pieces, parts, strict=True)]
