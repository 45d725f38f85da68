"""Options as a shell spells them."""

from __future__ import annotations

import shlex
from typing import Any


def flag_name(option: str, taken: set[str] = frozenset()) -> str:  # type: ignore[assignment]
    """The flag of an option; one that another group has taken is told apart by `data-`.

    >>> flag_name("weight_decay"), flag_name("seed", {"seed"})
    ('--weight-decay', '--data-seed')
    """
    return f"--{'data-' if option in taken else ''}{option.replace('_', '-')}"


def shell_words(option: str, value: Any, taken: set[str] = frozenset()) -> str:  # type: ignore[assignment]
    """An option with its value, quoted for a shell; an option of None is left out.

    >>> shell_words("hidden", [100, 100]), shell_words("residual", False), shell_words("target", "the price")
    ('--hidden 100 100', '--no-residual', "--target 'the price'")
    """
    flag = flag_name(option, taken)
    if value is None or value == [] or value == ():
        return ""
    if isinstance(value, bool):
        return flag if value else f"--no-{flag.removeprefix('--')}"
    values = value if isinstance(value, (list, tuple)) else [value]
    return " ".join([flag, *(shlex.quote(str(item)) for item in values)])
