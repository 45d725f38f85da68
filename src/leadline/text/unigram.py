"""The unigram model of words: pieces, and how probable each is (Kudo, 2018).

    p(w)  = Σ over ways s to write w  Π p(x), x in s                                            (1)
    n(x)  = Σ over words  count(w) E[times x is in s | w],     p(x) <- n(x) / Σ n               (2)   EM
    loss of x  =  n(x) (log p(x) - log of the best way to write x without x)                    (3)

Start with the substrings that cover most of the corpus; fit p by (2), drop a quarter of the pieces, those of least (3),
and so on until as many are left as were asked for. Single letters stay, so that every word can be written.

A word's ways are the paths through a lattice whose nodes are the places between its letters. (1) and (2) are sums over
paths, forward and backward, of all words at once: places that are equally far from the start are one vector.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

#: letters of a piece at most
PIECE = 16
#: different words that are fitted at most, the most frequent ones
WORDS = 100_000
SEEDS, KEPT, ROUNDS = 10, 0.75, 2


def unigram(counts: Mapping[str, int], letters: Sequence[str], size: int) -> dict[str, float]:
    """At most `size` pieces and the logarithms of their probabilities, the most probable first.

    Args:
        counts: how often each word comes.
        letters: that are pieces in any case, those of all words among them.

    >>> list(unigram({"sea": 9, "see": 9, "seas": 1}, "aes", 5))
    ['sea', 'see', 's', 'a', 'e']
    """
    words = sorted(counts, key=lambda word: (-counts[word], word))[:WORDS]
    weight = np.array([counts[word] for word in words], dtype=float)
    pieces = [*letters, *_seeds(words, counts, max(SEEDS * size, 10_000))]
    always = np.arange(len(pieces)) < len(letters)
    index = {piece: i for i, piece in enumerate(pieces)}
    lattice, parts = Lattice.of(words, index), Lattice.of(pieces, index, proper=True)
    logp = np.log(np.bincount(lattice.piece, weight[lattice.word], len(pieces)) + 1e-3)
    logp -= np.log(np.exp(logp).sum())
    alive = np.ones(len(pieces), dtype=bool)
    while True:
        for _ in range(ROUNDS):
            n = lattice.expected(logp, weight)
            logp = np.log(np.where(always, np.maximum(n, 1e-3), np.maximum(n, 1e-12)) / n.sum())  # eq. 2
        if alive.sum() <= size:
            break
        loss = n * (logp - np.where(always, -1e9, parts.best(logp)))  # eq. 3
        kept = max(size, int(KEPT * alive.sum()))
        first = np.argsort(np.where(always, -np.inf, np.where(alive, -loss, np.inf)), kind="stable")[:kept]
        alive = np.isin(np.arange(len(pieces)), first)
        lattice, parts = lattice.without(~alive), parts.without(~alive)
    found = sorted((-round(float(logp[i]), 6), pieces[i]) for i in np.flatnonzero(alive))
    return {piece: -score for score, piece in found}


def _seeds(words: list[str], counts: Mapping[str, int], most: int) -> list[str]:
    """Substrings that come more than once, those that cover most letters first."""
    found: Counter[str] = Counter()
    for word in words:
        for i in range(len(word)):
            for j in range(i + 2, min(i + PIECE, len(word)) + 1):
                found[word[i:j]] += counts[word]
    often = [piece for piece, count in found.items() if count > 1]
    return sorted(often, key=lambda piece: (-found[piece] * len(piece), piece))[:most]


@dataclass(frozen=True, eq=False)
class Lattice:
    """The ways to write words: an edge for every place where a piece fits.

    Args:
        source, target: the nodes that an edge joins, numbered through all words, (E,).
        piece, word: which piece it is, of which word, (E,).
        depth: letters before the edge's source, (E,).
        first, last: the end nodes of each word, (W,).
    """

    source: np.ndarray
    target: np.ndarray
    piece: np.ndarray
    word: np.ndarray
    depth: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, words: Sequence[str], index: Mapping[str, int], proper: bool = False) -> Lattice:
        """Of words and numbered pieces; `proper` leaves out the piece that is the whole word.

        >>> Lattice.of(["see"], {"s": 0, "e": 1, "se": 2}).target.tolist()
        [1, 2, 2, 3]
        """
        edges = array("i")
        ends, node = [], 0
        for w, word in enumerate(words):
            n = len(word)
            for i in range(n):
                for j in range(i + 1, min(i + PIECE, n) + 1):
                    piece = index.get(word[i:j])
                    if piece is not None and not (proper and j - i == n):
                        edges.extend((node + i, node + j, piece, w, i))
            ends.append((node, node + n))
            node += n + 1
        columns = np.frombuffer(edges, dtype=np.intc).reshape(-1, 5).T.copy()
        firsts, lasts = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        return cls(*columns, firsts, lasts)  # type: ignore[call-arg]

    def without(self, dropped: np.ndarray) -> Lattice:
        """The lattice less the edges of some pieces."""
        kept = ~dropped[self.piece]
        columns = {name: getattr(self, name)[kept] for name in ("source", "target", "piece", "word", "depth")}
        return replace(self, **columns)

    def expected(self, logp: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """n(x) of (2) for each piece.

        >>> Lattice.of(["aa"], {"a": 0, "aa": 1}).expected(np.log([0.5, 0.25]), np.array([4.0])).round(6).tolist()
        [4.0, 2.0]
        """
        before, after = self._sums(logp), self._sums(logp, backward=True)
        share = before[self.source] + logp[self.piece] + after[self.target] - before[self.last][self.word]
        return np.bincount(self.piece, np.exp(share) * weight[self.word], len(logp))

    def likelihood(self, logp: np.ndarray) -> np.ndarray:
        """log p(w) of (1) for each word."""
        return self._sums(logp)[self.last]

    def best(self, logp: np.ndarray) -> np.ndarray:
        """log p of the most probable way to write each word; -inf where there is none."""
        return self._sums(logp, largest=True)[self.last]

    def _sums(self, logp: np.ndarray, backward: bool = False, largest: bool = False) -> np.ndarray:
        """At each node the log of the sum over all paths to it, or from it; or the largest term."""
        start, end, piece, bounds = self._backward if backward else self._forward
        step = logp[piece]
        value = np.full(int(self.last.max(initial=-1)) + 1, -np.inf)
        value[self.last if backward else self.first] = 0.0
        for low, high in pairwise(bounds):
            terms = value[start[low:high]] + step[low:high]
            groups = np.flatnonzero(np.diff(end[low:high], prepend=-1))
            top = np.maximum.reduceat(terms, groups)
            if not largest:
                each = np.repeat(top, np.diff(np.append(groups, high - low)))
                top = top + np.log(np.add.reduceat(np.exp(terms - each), groups))
            value[end[low:high][groups]] = top
        return value

    @cached_property
    def _forward(self) -> tuple[np.ndarray, ...]:
        return _in_order(self.source, self.target, self.piece, self.depth + self.target - self.source)

    @cached_property
    def _backward(self) -> tuple[np.ndarray, ...]:
        return _in_order(self.target, self.source, self.piece, self.last[self.word] - self.source)


def _in_order(start: np.ndarray, end: np.ndarray, piece: np.ndarray, letters: np.ndarray) -> tuple[np.ndarray, ...]:
    """Edges by how many letters lie after their end, then by their end; and the bounds between those numbers."""
    order = np.lexsort((end, letters))
    steps = np.flatnonzero(np.diff(letters[order])) + 1
    bounds = np.concatenate([[0], steps, [len(order)]]) if len(order) else np.zeros(0, dtype=int)
    return start[order], end[order], piece[order], bounds
