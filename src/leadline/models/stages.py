"""Stages of a network: lists of sizes that a constructor accepts, and the units that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.errors import UserError
from leadline.models.sizes import check_sizes
from leadline.settings import given


def check_stages(owner: str, **lists: Sequence[int]) -> None:
    """Every list must hold at least one size, and whole numbers of at least 1; the message names the argument."""
    for name, sizes in lists.items():
        if isinstance(sizes, str) or not hasattr(sizes, "__iter__") or not len(sizes):
            raise UserError(
                f"{owner}: {name} must be a list of sizes, one a stage",
                got=given(name, sizes),
                do=f"Write {name}=(2, 2)",
            )
        check_sizes(owner, **{f"{name}[{k}]": size for k, size in enumerate(sizes)})


def planned(stages: Sequence[int], width: int) -> list[tuple[int, int, int]]:
    """Channels read, channels given and stride of each unit; each stage but the first begins with half the size and
    twice the channels.

    Args:
        stages: units of each stage.
        width: channels of the first stage.

    >>> planned((1, 2), 16)
    [(16, 16, 1), (16, 32, 2), (32, 32, 1)]
    """
    found, channels = [], width
    for stage, count in enumerate(stages):
        for place in range(count):
            stride = 2 if stage and not place else 1
            found.append((channels, channels * stride, stride))
            channels *= stride
    return found
