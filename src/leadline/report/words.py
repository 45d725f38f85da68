"""Numbers and names as a reader wants them."""

from __future__ import annotations

import html
import math
from typing import Any

SPACE = "\u00a0"  # between digits, and before a unit: a line does not break there
#: signs that no page may hold, as pictures of themselves
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {0x7F: "␡"}
_PICTURES |= dict.fromkeys(range(0x80, 0xA0), "�")
PARTS = ("accuracy",)  # metrics that are a part of the whole, shown in per cent


def escape(value: Any) -> str:
    """Any value as text that HTML shows and never obeys.

    >>> escape("<b>"), escape(chr(27))
    ('&lt;b&gt;', '␛')
    """
    return html.escape(_sound(str(value)).translate(_PICTURES), quote=True)


def shorten(name: Any, length: int = 18) -> str:
    """A name for a figure: on one line, cut in the middle, where names of a family tend to agree.

    >>> shorten("a very long name of a class", 11)
    'a ver…class'
    """
    name = " ".join("".join(c if c.isprintable() else " " for c in _sound(str(name))).split())
    if len(name) <= length:
        return name
    return f"{name[: length // 2]}…{name[len(name) - (length - 1 - length // 2) :]}"


def number(value: Any, digits: int = 4) -> str:
    r"""
    >>> number(0.123456), number(123456.7), number(1e-9), number(float("nan")), number(12000)
    ('0.1235', '123\xa0457', '1.000e-09', '–', '12\xa0000')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if isinstance(value, int) or (abs(value) >= 10**digits and abs(value) < 1e9):
        return f"{value:,.0f}".replace(",", SPACE).replace("-", "−")
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    decimals = digits - 1 - (math.floor(math.log10(abs(value))) if value else 0)
    return f"{value:.{max(min(decimals, digits), 0)}f}".replace("-", "−")


def percent(part: float) -> str:
    r"""
    >>> percent(0.6837), percent(1.0), percent(1e-5), percent(float("nan"))
    ('68.4\xa0%', '100.0\xa0%', '<\xa00.1\xa0%', '–')
    """
    if not math.isfinite(part):
        return "–"
    return f"<{SPACE}0.1{SPACE}%" if 0 < part < 0.0005 else f"{100 * part:.1f}{SPACE}%"


def metric(name: str, value: float) -> str:
    """A metric's value in its own form: accuracy in per cent, the rest as numbers."""
    return percent(value) if name in PARTS else number(value)


def metric_range(name: str, ends: tuple[float, float]) -> str:
    r"""
    >>> metric_range("accuracy", (0.61, 1.02)), metric_range("rmse", (1.5, 2.25))
    ('61.0 to 100.0\xa0%', '1.500 to 2.250')
    """
    low, high = ends
    if name in PARTS:
        low, high = max(low, 0.0), min(high, 1.0)
        return f"{percent(low).removesuffix(SPACE + '%')} to {percent(high)}"
    return f"{metric(name, low)} to {metric(name, high)}"


def duration(seconds: float) -> str:
    """
    >>> duration(0.42), duration(75), duration(7500)
    ('0.42 s', '1 min 15 s', '2 h 5 min')
    """
    if not math.isfinite(seconds):
        return "–"
    if seconds < 59.95:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def count(number_of: int, one: str, many: str | None = None) -> str:
    r"""
    >>> count(1, "row"), count(2500, "row"), count(2, "class", "classes")
    ('1 row', '2\xa0500 rows', '2 classes')
    """
    return f"{number(int(number_of))} {one if number_of == 1 else many or one + 's'}"


def _sound(text: str) -> str:
    """Without the lone surrogates that no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def table(heads: list[str], rows: list[list[str]], texts: int = 1, last_text: bool = False, cut: bool = False) -> str:
    """A table of ready HTML cells: the first `texts` columns are words, the rest numbers, but perhaps the last.

    `cut` lets a long table scroll in its card.
    """
    words = [k < texts or (last_text and k == len(heads) - 1) for k in range(len(heads))]
    kind = ["" if word else ' class="num"' for word in words]
    if last_text:
        kind[-1] = ' class="last"'
    head = "".join(f"<th{k}>{escape(name)}</th>" for k, name in zip(kind, heads, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{cell}</td>" for k, cell in zip(kind, row, strict=True)) + "</tr>" for row in rows
    )
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll{" cut" if cut else ""}" tabindex="0">{inner}</div>'
