"""Names typed by people: find the one they meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from leadline.errors import UnknownName

T = TypeVar("T")


def suggest(name: str, known: Iterable[str]) -> str:
    """A sentence that names the closest known word, or all of them when none is close.

    >>> suggest("MPL", ["MLP", "Linear"])
    'Did you mean MLP?'
    >>> suggest("zebra", ["MLP", "Linear"])
    'Known: Linear, MLP'
    """
    by_lower = {word.lower(): word for word in known}
    close = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(by_lower[c] for c in close)}?"
    return f"Known: {', '.join(sorted(by_lower.values(), key=str.lower))}"


def lookup(name: str, table: Mapping[str, T], kind: str) -> T:
    """The entry called `name`, whatever its case; an unknown name answers with the closest known one.

    >>> lookup("mlp", {"MLP": 1}, "model")
    1
    """
    for known, entry in table.items():
        if known.lower() == str(name).lower():
            return entry
    raise UnknownName(f"{kind} must be a known name", got=f"{kind} {name!r}", do=suggest(str(name), table).rstrip("."))
