"""The unigram model of words, by listing every way to write them (Kudo, 2018).

p(w)    = Σ over ways s to write w  Π p(x), x in s                  (1)
n(x)    = Σ over words  count(w) E[times x is in s | w]             (2)   s drawn in proportion to its term of (1)
p(x)   <- n(x) / Σ n                                                (3)   never lowers the likelihood
"""

from __future__ import annotations

import math


def ways(word: str, p: dict[str, float]) -> list[list[str]]:
    """Every way to write a word with pieces that have a probability.

    >>> ways("sea", {"s": 0.1, "ea": 0.2, "se": 0.1, "a": 0.3, "e": 0.3})
    [['s', 'e', 'a'], ['s', 'ea'], ['se', 'a']]
    """
    if not word:
        return [[]]
    heads = [word[:n] for n in range(1, len(word) + 1) if word[:n] in p]
    return [[head, *rest] for head in heads for rest in ways(word[len(head) :], p)]


def probability(word: str, p: dict[str, float]) -> float:
    """Eq. 1.

    >>> probability("aa", {"a": 0.5, "aa": 0.25})
    0.5
    """
    return sum(math.prod(p[x] for x in way) for way in ways(word, p))


def expected(counts: dict[str, int], p: dict[str, float]) -> dict[str, float]:
    """Eq. 2.

    >>> expected({"aa": 4}, {"a": 0.5, "aa": 0.25})
    {'a': 4.0, 'aa': 2.0}
    """
    n = dict.fromkeys(p, 0.0)
    for word, count in counts.items():
        total = probability(word, p)
        for way in ways(word, p):
            for x in way:
                n[x] += count * math.prod(p[y] for y in way) / total
    return n


def best(word: str, p: dict[str, float]) -> list[str]:
    """The most probable way to write a word, the first of equals.

    >>> best("aa", {"a": 0.4, "aa": 0.2})
    ['aa']
    """
    return max(ways(word, p), key=lambda way: math.prod(p[x] for x in way))
