"""Lists of sizes, one for each stage of a network, that a constructor accepts."""

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
