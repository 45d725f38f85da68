"""Find rows by what people type: an id, a section, words in any order, words misspelt.

    likeness  1 for the same word, 0.9 where a known word begins with the typed one (3 letters and more),
              0.8 for the nearest known word, where no word is spelt as typed                                     (1)
    score     Σ over typed words of the largest weight · likeness in the row + share of the title that is met     (2)

A row is found when it has something of every typed word.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher, get_close_matches
from functools import cache

from leadline.syllabus.row import Row, rows, sources

_WEIGHTS = {"id": 8.0, "title": 3.0, "where": 2.0, "claim": 2.0, "source": 1.0, "skipped": 0.5}
_SILENT = {
    *("a", "an", "and", "are", "as", "at", "by", "for", "from", "how", "in", "is", "of", "on", "or", "section", "the"),
    *("to", "what", "where", "with"),
}
_ID = re.compile(r"\b([a-z]{2})-?0*(\d+)\b")
_WORD = re.compile(r"[a-z]{2}-\d+|\d+(?:[-.]\d+)+|[^\W_]+")  # ids, sections and sizes such as 1-3-1 stay whole
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def find(query: str) -> list[Row]:
    """The rows that have something of every word of `query`, best first.

    >>> find("ua188")[0].title
    'Linear regions of a network, counted'
    >>> find("hopfeild network")[0].title
    'Hopfield network'
    """
    met = []
    for word in _typed(query):
        met.append({known: like for known in _vocabulary() if (like := _spelt(word, known))} or _meant(word))
    return _ranked(met) if met and all(met) else []


def nearest(query: str, most: int = 3) -> list[Row]:
    """The rows that are most like `query`: what to say where `find` finds nothing.

    >>> len(nearest("zebra"))
    3
    """
    alike = [
        {known: SequenceMatcher(None, word, known).ratio() ** 2 for known in _vocabulary()} for word in _typed(query)
    ]
    return _ranked(alike)[:most]


def _ranked(met: list[dict[str, float]]) -> list[Row]:
    """Rows by (2); `met` holds, for each typed word, the known words that are like it."""
    scored = []
    for place, (row, fields) in enumerate(_index()):
        best = [max(_WEIGHTS[f] * like.get(w, 0.0) for f, words in fields.items() for w in words) for like in met]
        if min(best, default=0.0) > 0:
            title = fields["title"]
            share = sum(max(like.get(word, 0.0) for like in met) for word in title) / len(title)
            scored.append((-sum(best) - share, place, row))
    return [row for *_, row in sorted(scored)]


# ── likeness of two words ──


def _spelt(word: str, known: str) -> float:
    """The first two cases of (1). A number ends at a point: section 3.1 has 3.1.1 in it, but not 3.18."""
    if word == known:
        return 1.0
    if word[-1].isdigit():
        return 0.9 if known.startswith(f"{word}.") else 0.0
    return 0.9 if len(word) >= 3 and known.startswith(word) else 0.0


def _meant(word: str) -> dict[str, float]:
    """The last case of (1); numbers are right or wrong, and short words too."""
    if word[-1].isdigit() or len(word) < 4:
        return {}
    letters = [known for known in _vocabulary() if not known[-1].isdigit()]
    return dict.fromkeys(get_close_matches(word, letters, n=1, cutoff=0.7), 0.8)


# ── words ──


@cache
def _index() -> tuple[tuple[Row, dict[str, frozenset[str]]], ...]:
    """The words of each row, by field."""
    full = sources()
    index = []
    for row in rows():
        fields = row.to_dict()
        fields["where"] += " " + _CAMEL.sub(" ", row.where)
        fields["source"] += " " + full[row.key]
        index.append((row, {name: frozenset(_words(text)) for name, text in fields.items()}))
    return tuple(index)


@cache
def _vocabulary() -> frozenset[str]:
    return frozenset(word for _, fields in _index() for words in fields.values() for word in words)


def _typed(query: str) -> list[str]:
    words = _words(query)
    return [word for word in words if word not in _SILENT] or words


def _words(text: str) -> list[str]:
    return [_singular(word) for word in _WORD.findall(_ID.sub(r"\1-\2", text.lower()))]


def _singular(word: str) -> str:
    """
    >>> [_singular(word) for word in ("regions", "losses", "loss", "softplus", "bias")]
    ['region', 'loss', 'loss', 'softplus', 'bias']
    """
    if word.endswith(("sses", "xes", "ches")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "as")) else word
