"""How findings write numbers, rows and names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def some(items: Iterable[object], limit: int = 5) -> str:
    """A list that stays short.

    >>> some([3, 1, 4, 1, 5, 9, 2])
    '3, 1, 4, 1, 5 and 2 more'
    """
    words = [str(item) for item in items]
    rest = len(words) - limit
    return ", ".join(words[:limit]) + (f" and {rest} more" if rest > 0 else "")


def percent(share: float) -> str:
    """
    >>> percent(0.5), percent(0.0123), percent(1)
    ('50 %', '1.2 %', '100 %')
    """
    value = 100 * share
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.2g} %"


def column(j: int, names: Sequence[str], width: int) -> str:
    """A column by its name where the names are known, else by its number.

    >>> column(1, ("age", "year"), 2), column(1, (), 2)
    ("column 'year'", 'column 1')
    """
    return f"column {names[j]!r}" if len(names) == width else f"column {j}"


def columns(js: Sequence[int], names: Sequence[str], width: int, limit: int = 5) -> str:
    """Several columns.

    >>> columns([0, 1], ("age", "year"), 2)
    "columns 'age', 'year'"
    """
    if len(js) == 1:
        return column(js[0], names, width)
    return "columns " + some((repr(names[j]) if len(names) == width else j for j in js), limit)
