"""Edit distance by whole words of bits, and the nearest of many texts (Myers, 1999; Hyyrö, 2003).

    D_{i,j} = min(D_{i-1,j} + 1, D_{i,j-1} + 1, D_{i-1,j-1} + [a_i ≠ b_j])                               (1)
    D(a, b) >= max(Σ_c max(n_c(a) - n_c(b), 0), Σ_c max(n_c(b) - n_c(a), 0))                             (2)

Neighbours in the table of (1) differ by -1, 0 or 1, so a column is two rows of bits, and one letter of b costs a few
operations on whole words, whatever the length of a. Many b are compared at once, those with the lowest bound (2) first;
what cannot beat the best that was found is never compared.

Notation   n_c(a) -> times that letter c stands in a;  rise, fall -> bits where D grows or shrinks by 1 downwards;
           climb, drop -> the same from left to right
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from leadline.errors import UserError

_BINS = 64  # letters are counted modulo this: the bound (2) stays one
_MOST = 16000  # times that a letter is counted, for the same reason
_WORD = 64  # bits
_FIRST, _CHUNK = 64, 2048  # texts that are compared at once


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Eq. 1 at the end of both: letters that must be put in, taken out or exchanged; or words, of lists of them.

    >>> edit_distance("kitten", "sitting"), edit_distance("K AE T".split(), "K AA T S".split())
    (3, 2)
    """
    if not a or not b:
        return max(len(a), len(b))
    where: dict[Hashable, int] = {}
    for i, letter in enumerate(a):
        where[letter] = where.get(letter, 0) | 1 << i
    full, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    rise, fall, distance = full, 0, len(a)
    for letter in b:
        same = where.get(letter, 0)
        level = same | fall
        across = (((same & rise) + rise) ^ rise) | same
        climb, drop = fall | ~(across | rise), rise & across
        distance += bool(climb & last) - bool(drop & last)
        climb, drop = climb << 1 | 1, drop << 1
        rise, fall = (drop | ~(level | climb)) & full, climb & level & full
    return distance


class Memory:
    """Texts, and for any other the nearest of them.

    Args:
        texts: at least one.

    >>> Memory(["dog", "cut", "rat"]).nearest("cat")
    (1, 1)
    """

    def __init__(self, texts: Sequence[str]):
        if not texts:
            raise UserError("a memory must hold texts", got="none", do="Pass at least one")
        self.known = {text: place for place, text in reversed(list(enumerate(texts)))}
        letters = [np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) for text in texts]
        self.lengths = np.array([len(text) for text in letters])
        self.starts = np.concatenate([[0], self.lengths.cumsum()])
        flat = np.concatenate(letters)
        self.alphabet, codes = np.unique(flat, return_inverse=True)
        self.codes = codes.astype(np.int32)
        row = np.repeat(np.arange(len(texts)), self.lengths)
        counts = np.bincount(row * _BINS + flat % _BINS, minlength=len(texts) * _BINS)
        self.counts = counts.reshape(len(texts), _BINS).clip(max=_MOST).astype(np.int16)

    def nearest(self, query: str) -> tuple[int, int]:
        """Place and distance of the first among those that are nearest."""
        if query in self.known:
            return self.known[query], 0
        letters = np.frombuffer(query.encode("utf-32-le", "surrogatepass"), np.uint32)
        if not len(letters):
            place = int(self.lengths.argmin())
            return place, int(self.lengths[place])
        if not len(self.alphabet):  # nothing but empty texts
            return 0, len(letters)
        bounds = self._bounds(letters)
        order = np.argsort(bounds, kind="stable")
        best, begin, size = (int(bounds.max() + len(letters) + self.lengths.max()), 0), 0, _FIRST
        while begin < len(order):
            places = order[begin : begin + size]
            places = places[bounds[places] <= best[0]]  # an equal one may stand earlier
            if not len(places):
                break
            found = self._distances(letters, places)
            k = np.lexsort((places, found))[0]
            best = min(best, (int(found[k]), int(places[k])))
            begin, size = begin + size, _CHUNK
        return best[1], best[0]

    def _bounds(self, letters: np.ndarray) -> np.ndarray:
        """Eq. 2 against each text."""
        more = np.bincount(letters % _BINS, minlength=_BINS).clip(max=_MOST).astype(np.int16) - self.counts
        over = np.maximum(more, 0).sum(1, dtype=np.int32)
        return np.maximum(over, over - more.sum(1, dtype=np.int32))

    def _distances(self, letters: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Eq. 1 against the texts at some places, one letter of all of them at a time."""
        same_as, lengths = self._bits(letters), self.lengths[places]
        blocks, last = same_as.shape[1], np.uint64((len(letters) - 1) % _WORD)
        rise = np.full((blocks, len(places)), ~np.uint64(0))
        fall = np.zeros_like(rise)
        distance = np.full(len(places), len(letters))
        one, top = np.uint64(1), np.uint64(_WORD - 1)
        for j in range(int(lengths.max())):
            there = j < lengths
            at = np.where(there, self.starts[places] + j, 0)
            same_j = same_as[self.codes[at]]  # (N, blocks)
            up, down = np.ones(len(places), np.uint64), np.zeros(len(places), np.uint64)  # D_{0,j} = j
            for w in range(blocks):
                level = same_j[:, w] | fall[w]
                same = same_j[:, w] | down
                across = (((same & rise[w]) + rise[w]) ^ rise[w]) | same
                climb, drop = fall[w] | ~(across | rise[w]), rise[w] & across
                bit = last if w == blocks - 1 else top
                above_up, above_down = up, down
                up, down = (climb >> bit) & one, (drop >> bit) & one
                climb, drop = climb << one | above_up, drop << one | above_down
                rise[w], fall[w] = drop | ~(level | climb), climb & level
            distance += there * (up.astype(np.int64) - down.astype(np.int64))
        return distance

    def _bits(self, letters: np.ndarray) -> np.ndarray:
        """Where each letter of the alphabet stands in a text, (letters, words of bits)."""
        found = np.zeros((len(self.alphabet), -(-len(letters) // _WORD)), np.uint64)
        codes = np.searchsorted(self.alphabet, letters)
        codes = np.minimum(codes, len(self.alphabet) - 1)
        for i in np.flatnonzero(self.alphabet[codes] == letters):
            found[codes[i], i // _WORD] |= np.uint64(1) << np.uint64(i % _WORD)
        return found
