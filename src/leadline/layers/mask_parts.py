"""A mask taken apart, for attention that never looks at pairs and so can keep only simple rules.

Shapes     there (B, S)
"""

from __future__ import annotations

from torch import Tensor

from leadline.errors import UserError
from leadline.layers.masks import Both, Causal, Mask, Padding, check_rule


def parts(mask: Mask | None, layer: str, x: Tensor, causal: bool = True) -> tuple[bool, Tensor | None]:
    """Whether a mask is causal, and which keys are there, or None where all are; no other rule is taken.

    Args:
        layer: whose mask it is, for the message.
        x: what the layer reads, (B, T, D).
        causal: the layer can be causal.

    >>> import torch
    >>> parts(Causal(), "KernelAttention", torch.zeros(2, 5, 16))
    (True, None)
    """
    if mask is None:
        return False, None
    check_rule(mask)
    mask.check(x.shape[0], x.shape[1], x.shape[1])
    if isinstance(mask, Padding):
        return False, mask.there
    if isinstance(mask, Causal) and causal:
        return True, None
    if isinstance(mask, Both):
        one, other = parts(mask.first, layer, x, causal), parts(mask.second, layer, x, causal)
        there = [found for found in (one[1], other[1]) if found is not None]
        return one[0] or other[0], (there[0] & there[1] if len(there) == 2 else there[0] if there else None)
    legal = "Causal(), Padding(there), or both with &" if causal else "Padding(there)"
    raise UserError(
        f"the mask of {layer} must be {legal}",
        got=type(mask).__name__,
        do=f"Leave it out, take {legal}, or use SelfAttention, which takes any mask",
    )


def cleared(x: Tensor, there: Tensor | None) -> Tensor:
    """(B, T, D) with 0 where nothing is there."""
    return x if there is None else x.masked_fill(~there[..., None], 0.0)
