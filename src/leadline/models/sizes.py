"""Sizes that a constructor accepts."""

from __future__ import annotations

from leadline.errors import UserError


def check_sizes(owner: str, **sizes: int) -> None:
    """Every size must be a whole number of at least 1; the message names the argument."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UserError(
                f"{owner}: {name} must be a whole number of at least 1",
                got=f"{name}={size!r}",
                do="Pass a size above 0",
            )
