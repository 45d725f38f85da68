"""What penalties have in common: a strength that is a tensor, and the weights that it acts on.

    penalty = share · λ · C[weights],   weights: matrices and kernels, not biases and not the gains of norms        (1)

λ is a buffer and not a plain number: the members of a population, stacked into one computation, may each have theirs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leadline.settings import real


def hold(
    module: nn.Module, name: str, value: float, least: float = 0.0, below: float = math.inf, most: float = math.inf
) -> None:
    """Keep a number twice: as the plain attribute `name`, and in float64 as the buffer `_name`, which counts.

    Args:
        least, below, most: its range; `least` and `most` are inside, `below` is not.
    """
    module.__dict__[name] = float(real(name, value, least, below, most=most))
    module.register_buffer(f"_{name}", torch.tensor(float(value), dtype=torch.float64), persistent=False)


def weights_of(model: nn.Module) -> list[Tensor]:
    """Matrices and kernels of a model, in order.

    >>> from leadline.models import MLP
    >>> [tuple(weight.shape) for weight in weights_of(MLP(3, (5,), 2))]
    [(5, 3), (2, 5)]
    """
    return [p for p in model.parameters() if p.dim() > 1]
