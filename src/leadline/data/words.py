"""What a word in a cell may mean: nothing, a number, yes or no, a date. Each reader answers None when it does not fit.

A column is read as numbers, flags or dates only when *every* word of it fits; one that does not makes it text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import date

#: words that mean "no value" in any column
MISSING = frozenset(("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "null", "NULL", "Null", "?"))
#: words that mean it only among numbers: elsewhere they may be a level like any other
MISSING_AMONG_NUMBERS = MISSING | {"-", "--", ".", "na", "none", "None", "NONE", "missing"}

FLAG_PAIRS = (("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"), ("off", "on"))
FLAGS = {word: float(value) for pair in FLAG_PAIRS for value, word in enumerate(pair)}

_UNIT = "[$€£¥]"
_PLAIN = r"(?:\d+{0}?\d*|{0}\d+)(?:[eE][+-]?\d+)?"
_GROUPED = r"[1-9]\d{{0,2}}(?P<group>[{1}'’ \u00a0\u202f])\d{{3}}(?:(?P=group)\d{{3}})*(?:{0}\d*)?"
_BODY = {
    "point": f"{_PLAIN}|{_GROUPED}".format(r"\.", ","),  # 1,234.5; thousands by space or apostrophe too
    "comma": f"{_PLAIN}|{_GROUPED}".format(",", r"\."),  # 1.234,5
}
_NUMBER = {
    style: re.compile(
        rf"(?P<before>{_UNIT}?) ?(?P<sign>[+-]?)(?P<unit>{_UNIT}?) ?(?P<body>{body}) ?(?P<after>(?:%|{_UNIT})?)"
    )
    for style, body in _BODY.items()
}
_INFINITE = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "infinity": math.inf, "-infinity": -math.inf}


def number(word: str, style: str = "point") -> float | None:
    """The number that a word spells, with its decimal sign (`style`) a point or a comma.

    >>> number("1,234.5"), number("1.234,5 €", "comma"), number("12 %"), number("twelve")
    (1234.5, 1234.5, 12.0, None)
    """
    match = _NUMBER[style].fullmatch(word)
    if match is None:
        return _INFINITE.get(word.lower())
    body = match["body"]
    if match["group"]:
        body = body.replace(match["group"], "")
    if style == "comma":
        body = body.replace(",", ".")
    return float(match["sign"] + body)


def unit(word: str, style: str = "point") -> str:
    """The currency or per-cent sign that a number carries.

    >>> unit("5 €"), unit("12 %"), unit("7")
    ('€', '%', '')
    """
    match = _NUMBER[style].fullmatch(word)
    return (match["before"] or match["unit"] or match["after"]) if match else ""


def number_style(words: Iterable[str]) -> str | None:
    """The style in which every word is a number of one unit; None when there is none.

    >>> number_style(["1,234", "56"]), number_style(["1,5", "2"]), number_style(["$5", "5 €"])
    ('point', 'comma', None)
    """
    words = list(words)
    for style in _NUMBER:
        if all(number(word, style) is not None for word in words):
            return style if len({unit(word, style) for word in words}) == 1 else None
    return None


def flag_pair(words: Iterable[str]) -> bool:
    """Whether all the words are of one pair such as yes and no, whatever their case.

    >>> flag_pair(["Yes", "no"]), flag_pair(["yes", "off"])
    (True, False)
    """
    lowered = {word.lower() for word in words}
    return any(lowered <= set(pair) for pair in FLAG_PAIRS)


#: how a date begins, for splitting it from the time of day
DAY = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}"
_DAY = re.compile(r"(\d{1,4})([-./])(\d{1,2})\2(\d{1,4})")
#: what may follow it
CLOCK = re.compile(
    r"(?:(?P<gap>,?[T ]+)(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?)?"
    r"(?P<half> ?[AaPp]\.?[Mm]\.?)?)?(?P<zone> ?(?:Z|UTC|(?P<sign>[+-])(?P<ahead>\d{2}):?(?P<and>\d{2}))?)"
)
_ENDS = re.compile(r"(?::\d{2}(?:\.\d+)?|[AaPp]\.?[Mm]\.?)(?P<zone> ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?$")  # of a time
_EPOCH = date(1970, 1, 1).toordinal()


def days(word: str, style: str = "ymd") -> float | None:
    """Days since the start of 1970 (UTC, where a zone is given) of a date whose parts come in the order `style`.

    >>> days("1970-01-02 12:00"), days("31.12.1970", "dmy"), days("31.12.1970", "mdy")
    (1.5, 364.0, None)
    """
    match = _DAY.match(word)
    if match is None:
        return None
    day, time = day_of(match[0], style), clock(word[match.end() :])
    if day is None or time is None:
        return None
    hours, minutes, seconds = time
    return day + hours / 24 + minutes / 1440 + seconds / 86400


def day_of(word: str, style: str = "ymd") -> int | None:
    """Whole days since the start of 1970 of a date without a time.

    >>> day_of("1970-02-01"), day_of("1.2.1970", "dmy"), day_of("1970-02-30")
    (31, 31, None)
    """
    match = _DAY.fullmatch(word)
    if match is None:
        return None
    part = dict(zip(style, (match[1], match[3], match[4])))
    if len(part["y"]) != 4:
        return None
    try:
        return date(int(part["y"]), int(part["m"]), int(part["d"])).toordinal() - _EPOCH
    except ValueError:
        return None


def clock(word: str) -> tuple[int, int, float] | None:
    """Hours, minutes and seconds (UTC, where a zone is given) of what follows a date.

    >>> clock("T12:30:15.5"), clock(" 12:00+02:00"), clock(" 12:00 AM"), clock(""), clock(" noon")
    ((12, 30, 15.5), (10, 0, 0.0), (0, 0, 0.0), (0, 0, 0.0), None)
    """
    match = CLOCK.fullmatch(word)
    if match is None:
        return None
    hours, minutes, seconds = int(match["hour"] or 0), int(match["minute"] or 0), float(match["second"] or 0)
    if match["half"]:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + (12 if match["half"].strip()[0] in "Pp" else 0)
    elif match["hour"] and not match["minute"]:
        return None
    if hours > 24 or minutes > 59 or seconds >= 61:
        return None
    if match["sign"]:
        sign = -1 if match["sign"] == "+" else 1
        hours, minutes = hours + sign * int(match["ahead"]), minutes + sign * int(match["and"])
    return hours, minutes, seconds


def midnight(word: str) -> bool:
    """Whether what follows a date is the beginning of the day, in whatever zone.

    >>> midnight(" 00:00:00+02:00"), midnight(" 12:00 AM"), midnight("T01:00Z"), midnight(" noon")
    (True, True, False, False)
    """
    match = CLOCK.fullmatch(word)
    return match is not None and clock(word[: match.start("zone")]) == (0, 0, 0.0)


def zoned(word: str) -> bool | None:
    """Whether the time of day in which a word ends has a zone; None where it ends in none.

    >>> zoned("1 Jan 2024 12:00 PM+0100"), zoned("2024-01-31 12:00"), zoned("31-12-2024")
    (True, False, None)
    """
    match = _ENDS.search(word.strip())
    return None if match is None else match["zone"] is not None


def date_style(words: Iterable[str]) -> str | None:
    """The order of year, month and day that fits every word; where both fit, 1/2/2024 has the month first.

    >>> date_style(["2024-02-01"]), date_style(["1/2/2024"]), date_style(["1.2.2024"]), date_style(["1/20/24"])
    ('ymd', 'mdy', 'dmy', None)
    """
    words = list(words)
    orders = ("ymd", "mdy", "dmy") if any("/" in word for word in words[:1]) else ("ymd", "dmy", "mdy")
    return next((style for style in orders if all(days(word, style) is not None for word in words)), None)


def plain_text(value: float) -> str:
    """A number as the name of a level or class: without a point when it is whole.

    >>> plain_text(3.0), plain_text(2.5)
    ('3', '2.5')
    """
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


def natural(word: str) -> tuple:
    """A key that sorts numbers by size and puts them before words.

    >>> sorted(["10", "9", "b", "a2"], key=natural)
    ['9', '10', 'a2', 'b']
    """
    value = number(word)
    return (1, 0.0, word) if value is None else (0, value, word)
