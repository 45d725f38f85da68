"""Byte pair encoding, one merge at a time (Sennrich et al., 2016; Gage, 1994).

    (a, b)* = argmax of n(a, b)  over neighbours a, b in the text whose a does not end in whitespace            (1)
    every a b, from left to right, becomes the one token ab                                                     (2)

Whitespace is written `_` and closes its word, so that by (1) no token reaches into the next word. Of pairs that are
equally frequent the one that comes first in the text is merged. Left alone, (1) and (2) end when all tokens are words.

Notation   n(a, b) how often b stands right after a;  a token is a string of characters
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

#: a nursery rhyme of 33 words in four lines
RHYME = """a sailor went to sea sea sea
to see what he could see see see
but all that he could see see see
was the bottom of the deep blue sea sea sea"""


@dataclass(frozen=True)
class Merge:
    """One step: the pair, how often it stood in the text, and the tokens after it, the most frequent first."""

    pair: tuple[str, str]
    count: int
    tokens: dict[str, int]

    @property
    def size(self) -> int:
        """Of the vocabulary: how many different tokens the text now has."""
        return len(self.tokens)


def characters(text: str) -> list[str]:
    """The text before the first merge: its characters, each word closed by `_`.

    >>> "".join(characters("to  see\\nsea"))
    'to_see_sea_'
    """
    return [character for word in text.split() for character in f"{word}_"]


def frequencies(tokens: list[str]) -> dict[str, int]:
    """How often each token comes, the most frequent first; of equal ones the first seen.

    >>> frequencies(list("sea_see_"))
    {'e': 3, 's': 2, '_': 2, 'a': 1}
    """
    counts: dict[str, int] = {}
    for token in tokens:
        counts[token] = counts.get(token, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def best_pair(tokens: list[str]) -> tuple[tuple[str, str], int] | None:
    """Eq. 1 and its count; None where nothing may be merged.

    >>> best_pair(list("sea_see_")), best_pair(["sea_", "see_"])
    ((('s', 'e'), 2), None)
    """
    counts: dict[tuple[str, str], int] = {}
    for a, b in pairwise(tokens):
        if not a.endswith("_"):
            counts[a, b] = counts.get((a, b), 0) + 1
    return max(counts.items(), key=lambda item: item[1]) if counts else None


def joined(tokens: list[str], pair: tuple[str, str]) -> list[str]:
    """Eq. 2.

    >>> joined(list("sea_see_"), ("s", "e"))
    ['se', 'a', '_', 'se', 'e', '_']
    """
    out: list[str] = []
    i = 0
    while i < len(tokens):
        both = tuple(tokens[i : i + 2]) == pair
        out.append("".join(pair) if both else tokens[i])
        i += 2 if both else 1
    return out


def byte_pairs(text: str, most: int | None = None) -> list[Merge]:
    """The merges of a text in order, `most` at most.

    >>> [("".join(m.pair), m.count, m.size) for m in byte_pairs(RHYME, 2)]
    [('se', 13, 20), ('e_', 12, 21)]
    """
    tokens, merges = characters(text), list[Merge]()
    while most is None or len(merges) < most:
        found = best_pair(tokens)
        if found is None:
            break
        tokens = joined(tokens, found[0])
        merges.append(Merge(*found, frequencies(tokens)))
    return merges


def segment(word: list[str], pairs: list[tuple[str, str]]) -> list[str]:
    """A word as the tokens that merges make of it, each pair in its turn.

    >>> segment(list("sees_"), [("s", "e"), ("e", "_"), ("se", "e")])
    ['see', 's', '_']
    """
    for pair in pairs:
        word = joined(word, pair)
    return word
