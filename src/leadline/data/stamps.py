"""How a table writes its dates with a time, or in digits, so that forecasts are written alike: 31.12.2024 18:00,
12/31/2024 6:00 PM, 31-Dec-2024 18:00.

A look is a template that holds for all dates of a column. Where they are not written alike it is empty, and dates are
written as 2024-12-31 or 2024-12-31 18:00:00.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np

from leadline.data.cells import Text
from leadline.data.periods import fields, periods_of
from leadline.data.raw import words_of
from leadline.data.words import CLOCK, DAY, clock, midnight

_PLAIN = "{y}-{m:02}-{d:02}"
_PARTS = re.compile(r"(\d+)([-./])(\d+)[-./](\d+)")
_HALVES = {"P": ("AM", "PM"), "p": ("am", "pm"), "Pd": ("A.M.", "P.M."), "pd": ("a.m.", "p.m.")}
_ZONE = re.compile(r"\} ?([+-])(\d\d):?(\d\d)$")  # after a time that changes: one that does not is a day's, anywhere
_EPOCH = datetime(1970, 1, 1)
_AHEAD = re.compile(r"([+-])(\d\d):?(\d\d)$")
_TIMED = re.compile(rf"(.+?\w)((?!$){re.sub('[?]P<[a-z]+>', '?:', CLOCK.pattern)})")


def look_of(cells: Text, order: str) -> str:
    """The look of a column's dates, all of which can be read; empty where they have none, or that of 2024-12-31.

    Args:
        order: of year, month and day.

    >>> look_of(Text(["31.1.2024 09:30", "1.12.2024 10:00"]), "dmy"), look_of(Text(["2024-01-31"]), "ymd")
    ('{d}.{m}.{y} {H:02}:{M:02}', '')
    """
    heads, tails, _ = cells.split(DAY)
    day = _day_look([word for word in heads.distinct()[0] if word is not None], order)
    time = _time_look([word for word in tails.distinct()[0] if word is not None])
    return "" if day is None or time is None or day + time == _PLAIN else day + time


def stamp(moment: float, look: str) -> str:
    """A moment in days since the start of 1970 (UTC), as a look has it.

    >>> stamp(19723.75, "{m}/{d}/{y} {I}:{M:02} {P}"), stamp(19723.75, "{y}-{m:02}-{d:02} {H:02}:{M:02}+01:00")
    ('1/1/2024 6:00 PM', '2024-01-01 19:00+01:00')
    """
    zone, digits = _ZONE.search(look), re.search(r"\.(\d)f\}", look)
    ahead = 0 if zone is None else (1 if zone[1] == "+" else -1) * (60 * int(zone[2]) + int(zone[3]))
    seconds = round(moment * 86400, int(digits[1]) if digits else 0)
    at = _EPOCH + timedelta(minutes=ahead, seconds=seconds)
    halves = {name: both[at.hour >= 12] for name, both in _HALVES.items()}
    second = at.second + at.microsecond / 1e6 if digits else at.second
    hours = {"H": at.hour, "I": (at.hour - 1) % 12 + 1}
    return look.format(M=at.minute, S=second, **hours, **halves, **fields(at.date()))


def in_zone(moment: float, zone: str) -> datetime:
    """A moment in days since the start of 1970 (UTC), as the clocks of a zone have it.

    >>> str(in_zone(19723.75, "Europe/Berlin")), str(in_zone(19723.75, "UTC-03:30"))
    ('2024-01-01 19:00:00+01:00', '2024-01-01 14:30:00-03:30')
    """
    return (_EPOCH + timedelta(seconds=round(moment * 86400, 3))).replace(tzinfo=UTC).astimezone(_zone(zone))


@cache
def _zone(name: str) -> tzinfo:
    """A zone by its name or its distance; UTC where the system knows none of that name."""
    if ahead := _AHEAD.search(name):
        return timezone((1 if ahead[1] == "+" else -1) * timedelta(hours=int(ahead[2]), minutes=int(ahead[3])))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return UTC


def timed_periods(cells: Text) -> tuple[np.ndarray, str] | None:
    """Days since the start of 1970 (UTC) of cells that are days in another way than by numbers with marks, and a time;
    and their look. None where not every cell is.

    >>> timed_periods(Text(["1-Jan-1970 06:00", "1-Jan-1970 18:00"])), timed_periods(Text(["at 6:00"]))
    ((array([0.25, 0.75]), '{d}-{b}-{y} {H:02}:{M:02}'), None)
    """
    first = _TIMED.fullmatch(cells.first(()))
    if first is None or clock(first[2]) is None or periods_of(Text([first[1]])) is None:
        return None  # most columns show it at once
    words, codes = words_of(cells)
    found = [_TIMED.fullmatch(word or "") for word in words]
    heads, tails = ([match and match[part] for match in found] for part in (1, 2))
    days, times = periods_of(Text(heads)), [None if tail is None else clock(tail) for tail in tails]
    if days is None or None in times:
        return None
    hours, minutes, seconds = np.array(times, dtype=np.float64).T
    if all(midnight(tail or "") for tail in tails):  # days, in whatever zone: none of them begins on the day before
        hours = minutes = seconds = np.zeros(len(times))
    look = _time_look(list(dict.fromkeys(filter(None, tails))))
    return (days[0] + hours / 24 + minutes / 1440 + seconds / 86400)[codes], "" if look is None else days[1] + look


def _day_look(words: Sequence[str], order: str) -> str | None:
    found = [match.groups() for word in words if (match := _PARTS.fullmatch(word))]
    marks = {match[1] for match in found}
    if len(marks) != 1:
        return None
    parts = dict(zip(order, ([match[k] for match in found] for k in (0, 2, 3))))
    bare = {letter: _bare(parts[letter]) for letter in "md"}
    places = {"y": "{y}"}
    for letter, other in ("md", "dm"):
        own = bare[letter] if bare[letter] is not None else bare[other]
        places[letter] = f"{{{letter}}}" if own else f"{{{letter}:02}}"
    return marks.pop().join(places[letter] for letter in order)


def _time_look(tails: Sequence[str]) -> str | None:
    if len(tails) == 1 and (not tails[0] or midnight(tails[0])):
        return tails[0]  # of a day, and no time that goes on
    found = [match for tail in tails if (match := CLOCK.fullmatch(tail))]
    if all(midnight(tail) for tail in tails):
        return ""  # days, in zones that change
    kinds = {(m["gap"], m["minute"] is None, m["second"] is None, _half(m["half"])) for m in found}
    zones = {m["zone"] for m in found}
    if len(kinds) != 1 or found[0]["gap"] is None:
        return None
    gap, hourly, minutely, half = kinds.pop()
    hour = "I" if half else "H"
    bare = _bare([m["hour"] for m in found])
    look = gap + (f"{{{hour}}}" if (bool(half) if bare is None else bare) else f"{{{hour}:02}}")
    look += "" if hourly else ":{M:02}"
    digits = max(len((m["second"] or "").partition(".")[2]) for m in found)
    second = f"{{S:0{3 + digits}.{digits}f}}" if digits else "{S:02}"
    look += "" if minutely else f":{second}"
    return look + half + (zones.pop() if len(zones) == 1 else "+00:00")


def _half(word: str | None) -> str:
    """The field of AM or PM, with the space before it; empty where there is none."""
    if word is None:
        return ""
    space, own = word[: len(word) - len(word.lstrip())], word.strip()
    return next((f"{space}{{{name}}}" for name, both in _HALVES.items() if own in both), f"{space}{{P}}")


def _bare(words: Sequence[str]) -> bool | None:
    """Whether numbers below ten have one digit; None where there is none."""
    small = [word for word in words if int(word) < 10]
    return len(small[0]) == 1 if small else None
