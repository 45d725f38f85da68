"""Normalisation of feature maps by name: (B, C, *places) in, the same shape out.

    none       h
    batch      each channel over the batch and all places            rows depend on their batch while training
    group      up to 8 groups of channels, over all places           rows stand alone
    instance   each channel over all places                          rows stand alone

All but `none` then scale and shift each channel by learned numbers.
"""

from __future__ import annotations

import math

from torch import nn

from leadline.errors import UserError
from leadline.names import lookup

NORMS = {"none": "none", "batch": "batch", "group": "group", "instance": "instance"}

_BATCH: dict[int, type[nn.Module]] = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_INSTANCE: dict[int, type[nn.Module]] = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}


def feature_norm(name: str, channels: int, dims: int = 2) -> nn.Module:
    """Args:
        name: one of `NORMS`.
        channels: of the maps, at least 1.
        dims: axes of places, 1 (a series), 2 (a picture) or 3 (a volume).

    >>> feature_norm("group", 12).num_groups
    4
    """
    if dims not in _BATCH:
        raise UserError("feature_norm: dims must be 1, 2 or 3", got=f"dims={dims!r}", do="A picture has dims=2")
    norm = lookup(name, NORMS, "norm")
    if norm == "batch":
        return _BATCH[dims](channels)
    if norm == "instance":
        return _INSTANCE[dims](channels, affine=True)
    return nn.Identity() if norm == "none" else nn.GroupNorm(math.gcd(8, channels), channels)
