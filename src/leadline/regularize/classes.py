"""What regularisers of class labels must know: how many classes there are, and the loss of each.

Told from the output: C numbers a row for C classes, one number for no and yes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.regularize.regularizer import Score


def num_classes(output: Tensor, y: Tensor, who: str) -> int:
    """C, where y holds class codes."""
    if y.is_floating_point() or y.dim() != 1:
        raise UserError(
            f"{who} must have classes as its target",
            got=f"y of type {str(y.dtype).removeprefix('torch.')} and shape {tuple(y.shape)}",
            do="Leave it out, or use it with a target of classes",
        )
    return output.shape[-1] if output.shape[-1] > 1 else 2


def loss_of_each(score: Score, output: Tensor, y: Tensor, count: int) -> Tensor:
    """The loss of each row for each class that it could have, shape (B, C)."""
    return torch.stack([score(output, torch.full_like(y, c)) for c in range(count)], dim=-1)
