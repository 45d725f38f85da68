"""Sizes that a constructor accepts."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.errors import UserError
from leadline.settings import given


def check_sizes(owner: str, **sizes: int) -> None:
    """Every size must be a whole number of at least 1; the message names the argument."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UserError(
                f"{owner}: {name} must be a whole number of at least 1",
                got=f"{name}={size!r}",
                do="Pass a size above 0",
            )


def check_widths(owner: str, hidden: Sequence[int]) -> None:
    """`hidden` must be a list of sizes."""
    if isinstance(hidden, str) or not hasattr(hidden, "__iter__"):
        raise UserError(
            f"{owner}: hidden must be a list of widths", got=given("hidden", hidden), do="Write hidden=(100,)"
        )
    check_sizes(owner, **{f"hidden[{k}]": width for k, width in enumerate(hidden)})
