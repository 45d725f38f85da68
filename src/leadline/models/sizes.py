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
    _check_list(owner, "hidden", "widths", hidden, "(100,)")


def check_stages(owner: str, **lists: Sequence[int]) -> None:
    """Every argument must be a list of sizes, one a stage.

    >>> check_stages("Swin", stages=2)
    Traceback (most recent call last):
    leadline.errors.UserError: Swin: stages must be a list of sizes. Got stages=2. Write stages=(2, 2).
    """
    for name, sizes in lists.items():
        _check_list(owner, name, "sizes", sizes, "(2, 2)")


def _check_list(owner: str, name: str, kind: str, sizes: Sequence[int], usual: str) -> None:
    if isinstance(sizes, str) or not hasattr(sizes, "__iter__"):
        raise UserError(f"{owner}: {name} must be a list of {kind}", got=given(name, sizes), do=f"Write {name}={usual}")
    check_sizes(owner, **{f"{name}[{k}]": size for k, size in enumerate(sizes)})
