"""Blocks that torch.nn lacks: scalars in, one idea a file."""

from leadline.layers.actnorm import ActNorm
from leadline.layers.checkpointed import Checkpointed
from leadline.layers.dropout import Dropout
from leadline.layers.skip import Skip

__all__ = ["ActNorm", "Checkpointed", "Dropout", "Skip"]
