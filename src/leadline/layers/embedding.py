"""Tokens as vectors: the rows of a table, or the message that it has none for them.

Shapes     x (B, T) -> (B, T, D)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UserError


def embedded(table: nn.Module, x: Tensor, owner: str) -> Tensor:
    """The vectors of tokens.

    Args:
        table: nn.Embedding, or what takes its place.
        owner: whose tokens they are, for the message.

    >>> embedded(nn.Embedding(5, 2), torch.tensor([[4, 5]]), "GPT")
    Traceback (most recent call last):
    leadline.errors.UserError: GPT reads tokens from 0 to 4. Got 5. Use the tokenizer that the model was built for.
    """
    if x.dtype not in (torch.int64, torch.int32):
        raise ShapeError(f"{owner} reads tokens, whole numbers of 32 or 64 bits", got=f"{x.dtype}", do="Pass x.long()")
    try:
        return table(x)
    except IndexError:
        low, high = (int(end) for end in x.aminmax())
        raise UserError(
            f"{owner} reads tokens from 0 to {len(table.weight) - 1}",  # type: ignore[arg-type]
            got=f"{low if low < 0 else high}",
            do="Use the tokenizer that the model was built for",
        ) from None
