"""Options as a shell spells them."""

from __future__ import annotations

import shlex
from collections.abc import Set
from typing import Any

#: flags of the verbs themselves, which no option of the data may take
RESERVED = frozenset({"model", "likelihood", "rule", "folder", "report", "json", "help", "data", "from", "lora"})


def flag_name(option: str, taken: Set[str] = frozenset()) -> str:
    """The flag of an option; one that another group has taken is told apart by `data-`.

    >>> flag_name("weight_decay"), flag_name("seed", {"seed"})
    ('--weight-decay', '--data-seed')
    """
    return f"--{'data-' if option in taken else ''}{option.replace('_', '-')}"


def shell_words(option: str, value: Any, taken: Set[str] = frozenset()) -> str:
    """An option with its value, quoted for a shell; an option of None is left out.

    >>> shell_words("hidden", [100, 100]), shell_words("residual", False), shell_words("target", "the price")
    ('--hidden 100 100', '--no-residual', "--target 'the price'")
    """
    flag = flag_name(option, taken)
    if value is None:
        return ""
    if value == [] or value == ():
        return f"{flag} none"
    if isinstance(value, bool):
        return flag if value else f"--no-{flag.removeprefix('--')}"
    values = value if isinstance(value, (list, tuple)) else [value]
    return " ".join([flag, *(shlex.quote(str(item)) for item in values)])
