"""Blocks that torch.nn lacks: scalars in, one idea a file."""

from leadline.layers.dropout import Dropout

__all__ = ["Dropout"]
