"""Names typed by people: find the one they meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from leadline.errors import UnknownName, UserError

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


def bracketed(text: str, kind: str) -> tuple[str, tuple[float, ...]]:
    """A name and the numbers in brackets after it, as a config can hold both in one word.

    >>> bracketed("l1(1e-4)", "regularizer"), bracketed("step(10, 0.5)", "schedule"), bracketed("cosine", "schedule")
    (('l1', (0.0001,)), ('step', (10.0, 0.5)), ('cosine', ()))
    """
    name, opened, rest = str(text).strip().partition("(")
    if not opened:
        return name, ()
    try:
        numbers = tuple(float(word) for word in rest.strip().removesuffix(")").split(","))
        good = rest.strip().endswith(")") and all(abs(number) < float("inf") for number in numbers)
    except ValueError:
        good, numbers = False, ()
    if not good:
        raise UserError(
            f"{kind} must be a name, or a name with finite numbers in brackets",
            got=f"{kind} {text!r}",
            do=f"Write {name.strip()}(0.5), or {name.strip()}",
        )
    return name.strip(), numbers
