"""Times that name a period, or a day in another way than by numbers with marks: 2003-01, 2003M01, Jan 2003, 1983Q1,
2003-W05, 15-Jan-2003, 20030115. Each is its first day; weeks are those of ISO 8601, and begin on Monday.

A form is a template that is read and written alike. Numbers are taken for such times only where every one of them is a
date of the years from 1700 to 2199: 200312 is a month and 200313 is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import cache

import numpy as np

from leadline.data.cells import Cells, Text
from leadline.data.raw import words_of
from leadline.data.words import plain_text

_EPOCH = date(1970, 1, 1).toordinal()
_YEARS = range(1700, 2200)
_MONTHS = ["January", "February", "March", "April", "May", "June", "July"]
_MONTHS += ["August", "September", "October", "November", "December"]
_SHORT = [name[:3] for name in _MONTHS]
_BY_MONTH = ("{y}-{m}", "{y}/{m}", "{y}.{m}", "{y}M{m}", "{y}-M{m}", "{m}/{y}", "{m}.{y}", "{m}-{y}")
_BY_QUARTER = ("{y}Q{q}", "{y}-Q{q}", "{y}/Q{q}", "{y} Q{q}", "Q{q} {y}", "Q{q}-{y}", "Q{q}/{y}", "{q}Q{y}")
_BY_WEEK = ("{g}-W{w:02}", "{g}W{w:02}", "{g} W{w:02}", "{g}-W{w:02}-{u}", "{g}W{w:02}{u}")
_MARKED = (*(form.replace("{m}", month) for form in _BY_MONTH for month in ("{m:02}", "{m}")), *_BY_QUARTER, *_BY_WEEK)
_BARE = ("{b} {y}", "{b}-{y}", "{y} {b}", "{y}-{b}")
_DAYS = ("{d} {b} {y}", "{d}-{b}-{y}", "{b} {d}, {y}", "{b} {d} {y}", "{b}-{d}-{y}", "{y} {b} {d}", "{y}-{b}-{d}")
_SPELLED = (*_BARE, *(form.replace("{d}", day) for form in _DAYS for day in ("{d:02}", "{d}")))
_NAMED = tuple(form.replace("{b}", month) for form in _SPELLED for month in ("{b}", "{B}"))
_DIGITS = ("{y}{m:02}", "{y}{m:02}{d:02}")
_PART = {"y": r"\d{4}", "m:02": r"\d{2}", "m": r"\d{1,2}", "d": r"\d{1,2}", "d:02": r"\d{2}", "q": "[1-4]"}
_PART |= {"g": r"\d{4}", "w:02": r"\d{2}", "u": "[1-7]", "b": "|".join(_SHORT), "B": "|".join(_MONTHS)}


def periods_of(cells: Cells) -> tuple[np.ndarray, str] | None:
    """Days since the start of 1970 of each cell, and the form; None where not every cell is such a time.

    >>> periods_of(Text(["1970-02", "1970-03"])), periods_of(Text(["1", "2"]))
    ((array([31., 59.]), '{y}-{m:02}'), None)
    """
    if not len(cells) or (not isinstance(cells, Text) and cells.dtype.kind == "M"):
        return None  # what is a date already needs no reading
    written = isinstance(cells, Text)
    first = cells[0] if isinstance(cells, Text) else plain_text(float(cells[0]))
    every = (*_MARKED, *_NAMED, *_DIGITS) if written else _DIGITS
    forms = [form for form in every if _day(first, form) is not None]
    words, codes = words_of(cells) if forms else ([], np.empty(0))  # most columns show it at once
    for form in forms:
        days = [_day(word, form) for word in words]
        if None not in days:
            return np.array(days, dtype=np.float64)[codes], _cased(form, "".join(map(str, words)))
    return None


def period(day: date, form: str) -> str:
    """A day as a form writes it.

    >>> period(date(1983, 4, 1), "{y}Q{q}"), period(date(1983, 4, 1), "{b} {y}")
    ('1983Q2', 'Apr 1983')
    """
    return form.format(**fields(day))


def fields(day: date) -> dict[str, int | str]:
    """What forms have places for."""
    short, name = _SHORT[day.month - 1], _MONTHS[day.month - 1]
    names = {"b": short, "bu": short.upper(), "bl": short.lower(), "B": name, "Bu": name.upper(), "Bl": name.lower()}
    g, w, u = day.isocalendar()
    return {"y": day.year, "m": day.month, "q": (day.month + 2) // 3, "d": day.day, "g": g, "w": w, "u": u, **names}


def _cased(form: str, words: str) -> str:
    """A form with its letters as all words have them, small or capital."""
    if words == words.lower():
        form = form.replace("M", "m").replace("Q", "q").replace("W", "w")
        return form.replace("{b}", "{bl}").replace("{B}", "{Bl}")
    return form.replace("{b}", "{bu}").replace("{B}", "{Bu}") if words == words.upper() else form


def short_dates(words: Sequence[str]) -> str | None:
    """How the last of some numbers would be written, if all of them are dates of six digits, such as 800131.

    >>> short_dates(["800131", "800201"]), short_dates(["800132"])
    ('1980-02-01', None)
    """
    days = [_day(f"{'20' if word < '5' else '19'}{word}", _DIGITS[1]) if len(word) == 6 else None for word in words]
    if not days or None in days:
        return None
    return str(date.fromordinal(int(days[-1] or 0) + _EPOCH))


def _day(word: str | None, form: str) -> float | None:
    match = _pattern(form).fullmatch((word or "").strip())
    if match is None:
        return None
    said = match.groupdict()
    name = said.pop("b", said.pop("B", None))
    part = {letter: int(value) for letter, value in said.items()}
    month = part.get("m", 3 * part.get("q", 0) - 2) if name is None else _SHORT.index(name[:3].capitalize()) + 1
    if part.get("y", part.get("g")) not in _YEARS:
        return None
    try:
        if "g" in part:
            return float(date.fromisocalendar(part["g"], part["w"], part.get("u", 1)).toordinal() - _EPOCH)
        return float(date(part["y"], month, part.get("d", 1)).toordinal() - _EPOCH)
    except ValueError:
        return None


@cache
def _pattern(form: str) -> re.Pattern[str]:
    parts = re.sub(r"\{((\w)[^}]*)\}", lambda found: f"(?P<{found[2]}>{_PART[found[1]]})", form.replace(".", r"\."))
    return re.compile(parts, re.IGNORECASE)
