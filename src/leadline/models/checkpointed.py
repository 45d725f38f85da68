"""The blocks of a transformer computed again on the way back, in place of keeping their inside (Chen et al., 2016).

    kept for the backward pass: what a block reads; queries, weights and hidden units are computed a second time    (1)

It acts on a model from outside: names and weights stay as they are, and gradients are equal bit for bit, noise
included. A step costs one more forward pass, and keeps a small part of the activations.
A block is a module that holds sublayers (leadline.layers.sublayer), whatever masks and sources it is called with.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn

from leadline.errors import UserError
from leadline.layers.checkpointed import recomputed
from leadline.layers.sublayer import Sublayer
from leadline.settings import whole

Network = TypeVar("Network", bound=nn.Module)


def checkpointed(model: Network, every: int | None = 1) -> Network:
    """Compute one block in `every` again on the way back, in place (1).

    Args:
        every: at least 1, which takes all blocks; 2 takes the first, the third and so on; None takes none. The last
            call counts.

    >>> from leadline.models import GPT
    >>> checkpointed(GPT.tiny())(torch.ones(2, 6, dtype=torch.long)).shape
    torch.Size([2, 6, 11])
    """
    if every is not None:
        whole("every", every)
    blocks = [m for m in model.modules() if any(isinstance(part, Sublayer) for part in m.children())]
    if not blocks:
        raise UserError(
            "a model must have blocks of sublayers to be checkpointed",
            got=type(model).__name__,
            do="Put ll.layers.Checkpointed around the chain inside your model",
        )
    for place, block in enumerate(blocks):
        block.__dict__.pop("forward", None)
        if every is not None and place % every == 0:
            block.forward = _Again(block)
    return model


def is_checkpointed(model: nn.Module) -> bool:
    """Whether some of its blocks are computed again.

    >>> from leadline.models import GPT
    >>> model = GPT.tiny()
    >>> is_checkpointed(checkpointed(model)), is_checkpointed(checkpointed(model, None))
    (True, False)
    """
    return any(isinstance(module.__dict__.get("forward"), _Again) for module in model.modules())


class _Again:
    """Stands in place of a block's forward; an object, so that a copy of a model has blocks of its own."""

    def __init__(self, block: nn.Module):
        self.block = block

    def __call__(self, *args: Any, **more: Any) -> Any:
        if torch.is_grad_enabled():
            return recomputed(self.block, *args, **more)
        return type(self.block).forward(self.block, *args, **more)
