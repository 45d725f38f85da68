"""Find rows by what people type: an id, a section, words in any order, words misspelt.

    likeness  1 for the same word, 0.9 where a known word begins with the typed one (3 letters and more), 0.85 where
              they differ in their ending alone, 0.8 for the nearest known word, where no word is spelt as typed  (1)
    score     Σ over typed words of the largest weight · likeness in the row + share of the title that is met     (2)

A row is found when it has something of every typed word. Where none has, the nearest rows are those of (2) in which
each word counts by log(rows / rows that have it): a rare word says more.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from itertools import takewhile
from math import log

from leadline.syllabus.row import Row, rows, sources

_WEIGHTS = {"id": 8.0, "title": 3.0, "also": 2.5, "where": 2.0, "claim": 2.0, "source": 1.0, "skipped": 0.5}
_SILENT = {
    *("a", "an", "and", "are", "as", "at", "by", "for", "from", "how", "in", "is", "of", "on", "or", "section", "the"),
    *("to", "what", "where", "with"),
}
_ID = re.compile(r"\b([a-z]{2})-?0*(\d+)\b")
_WORD = re.compile(r"[a-z]{2}-\d+|\d+(?:[-.]\d+)+|[^\W_]+")  # ids, sections and sizes such as 1-3-1 stay whole
_JOINED = re.compile(r"[^\W_]+(?:-[^\W_]+)+")  # "multi-head" is met by "multihead" too
_ENDINGS = {
    *("", "al", "able", "ce", "e", "ed", "es", "ing", "ion", "ity", "ling", "ly", "t"),
    *("sation", "se", "sed", "sing", "zation", "ze", "zed", "zing"),
}
_STEM = 5  # letters that two words must share before their endings
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def find(query: str) -> list[Row]:
    """The rows that have something of every word of `query`, best first.

    >>> find("ua188")[0].title
    'Linear regions of a network, counted'
    >>> find("hopfeild network")[0].title
    'Hopfield network'
    """
    met = [_known(word) or _meant(word) for word in _typed(query)]
    return _ranked(met) if met and all(met) else []


def nearest(query: str, most: int = 3) -> list[Row]:
    """The rows that are most like `query`: what to say where `find` finds nothing.

    >>> len(nearest("zebra"))
    3
    """
    words = _typed(query)
    alike = [_known(word) or _nearly(word) for word in words]
    rare = [log(len(_index()) / max(1, _rows_with(word))) for word in words]
    return _ranked(alike, rare)[:most]


def _ranked(met: list[dict[str, float]], rare: list[float] | None = None) -> list[Row]:
    """Rows by (2); `met` holds, for each typed word, the known words that are like it. With `rare`, what each typed
    word counts, a row need not have all of them.
    """
    scored = []
    for place, (row, fields) in enumerate(_index()):
        best = [max(_WEIGHTS[f] * like.get(w, 0.0) for f, words in fields.items() for w in words) for like in met]
        if (min if rare is None else max)(best, default=0.0) > 0:
            title = fields["title"]
            share = sum(max(like.get(word, 0.0) for like in met) for word in title) / len(title)
            total = sum(best) if rare is None else sum(value * each for value, each in zip(best, rare, strict=True))
            scored.append((-total - share, place, row))
    return [row for *_, row in sorted(scored)]


def _rows_with(word: str) -> int:
    return sum(any(word in words for words in fields.values()) for _, fields in _index())


# ── likeness of two words ──


def _known(word: str) -> dict[str, float]:
    """The words that are spelt like it."""
    return {known: like for known in _vocabulary() if (like := _spelt(word, known))}


def _spelt(word: str, known: str) -> float:
    """The first three cases of (1). A number ends at a point: section 3.1 has 3.1.1 in it, but not 3.18."""
    if word == known:
        return 1.0
    if word[-1].isdigit():
        return 0.9 if known.startswith(f"{word}.") else 0.0
    if len(word) >= 3 and known.startswith(word):
        return 0.9
    stem = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, known, strict=False)))
    return 0.85 if stem >= _STEM and {word[stem:], known[stem:]} <= _ENDINGS else 0.0


def _nearly(word: str) -> dict[str, float]:
    """Every word, by how many letters they share."""
    return {known: SequenceMatcher(None, word, known).ratio() ** 2 for known in _vocabulary()}


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
        index.append((row, {name: frozenset([*_words(text), *_joined(text)]) for name, text in fields.items()}))
    return tuple(index)


@cache
def _vocabulary() -> frozenset[str]:
    return frozenset(word for _, fields in _index() for words in fields.values() for word in words)


def _typed(query: str) -> list[str]:
    words = _words(query)
    return [word for word in words if word not in _SILENT] or words


def _words(text: str) -> list[str]:
    return [_singular(word) for word in _WORD.findall(_ID.sub(r"\1-\2", text.lower()))]


def _joined(text: str) -> list[str]:
    """
    >>> _joined("Multi-head attention of GPT-3")
    ['multihead', 'gpt3']
    """
    return [_singular(word.replace("-", "")) for word in _JOINED.findall(text.lower())]


def _singular(word: str) -> str:
    """
    >>> [_singular(word) for word in ("regions", "losses", "loss", "softplus", "bias")]
    ['region', 'loss', 'loss', 'softplus', 'bias']
    """
    if word.endswith(("sses", "xes", "ches")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "as")) else word
