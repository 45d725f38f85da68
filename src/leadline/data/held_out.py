"""Which documents of a text, or rows of a table, are held out: whole ones, or blocks where there are too few of them.

by draw      whole documents, so that each split has about its part of the text; equal ones are in the same split
by place     of every k the last is test, the one before it val
by block     fewer than three documents: blocks of them, evenly spaced, cut where words end
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.splits import split_indices
from leadline.data.text_files import word_end
from leadline.settings import real

_FEW, _MANY = 20, 200  # blocks into which a document is cut
_BLOCK = 10_000  # characters of a block, if their number allows it
_BY_SIZE = 200  # documents up to which the splits follow their sizes rather than their number


class Texts(Protocol):
    """Documents that are read in pieces: their sizes in characters, a hash of each, and the pieces as of `Corpus`."""

    @property
    def sizes(self) -> Sequence[int]: ...
    @property
    def digests(self) -> Sequence[bytes]: ...

    def pieces(self) -> Iterable[tuple[int, str, bool]]: ...


@dataclass(frozen=True)
class Held:
    """Which documents or rows are held out.

    Args:
        val, test: parts of them, from 0 and together below 1.
        seed: of the draw.
        every: the k-th is test and the one before it val, instead.
    """

    val: float
    test: float
    seed: int = 0
    every: int | None = None

    def __post_init__(self):
        real("val", self.val)
        real("test", self.test)
        split_indices(1, val=self.val, test=self.test)  # refuses parts that do not fit

    def rows(self, n: int, **by: Tensor | None) -> list[Tensor]:
        """The rows of each split; `by` as of `split_indices`."""
        if self.every is not None:
            place = torch.arange(n) % self.every - self.every
            return [(place < -2).nonzero().flatten(), *((place == k).nonzero().flatten() for k in (-2, -1))]
        return list(split_indices(n, val=self.val, test=self.test, seed=self.seed, **by))

    def documents(self, sizes: Sequence[int], digests: Sequence[bytes]) -> list[int]:
        """The split of each document, by number, so that the splits have their parts of the text; equal ones share one,
        if that can be.
        """
        code = _numbered(digests) if self._joins(digests) else torch.arange(len(sizes))
        n = int(code.max()) + 1
        part = torch.zeros(n, dtype=torch.int64)
        if self.every is not None or n > _BY_SIZE:
            for k, rows in enumerate(self.rows(n)):
                part[rows] = k
            return part[code].tolist()
        unit = max(1, sum(sizes) // 100_000)
        of = code.repeat_interleave(torch.tensor([1 + size // unit for size in sizes]))
        for k, rows in enumerate(self.rows(len(of), groups=of)):
            part[of[rows]] = k
        return part[code].tolist()

    def _joins(self, digests: Sequence[bytes]) -> bool:
        """Whether equal documents fall in one split: not by place, nor where too few would be left to draw from."""
        return self.every is None and len(set(digests)) >= 3

    def blocks(self, size: int) -> list[int]:
        """The split of each block of a document of so many characters, evenly spaced.

        >>> Held(0.05, 0.05).blocks(1000)
        [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]
        """
        count = max(_FEW, min(_MANY, size // _BLOCK))
        if self.every is not None:
            return [{-2: 1, -1: 2}.get(k % self.every - self.every, 0) for k in range(count)]
        wanted = [max(1, round(count * share)) if share > 0 else 0 for share in (self.val, self.test)]
        held = min(sum(wanted), count - 1)
        parts = [0] * count
        for k in range(held):
            tested = (k + 1) * wanted[1] // sum(wanted) > k * wanted[1] // sum(wanted)
            parts[int((k + 0.5) * count / held)] = 2 if tested else 1
        return parts

    def routed(self, corpus: Texts) -> Iterator[tuple[int, str, bool]]:
        """The split of each piece of text, the piece, and whether its document is closed after it."""
        if len(corpus.sizes) >= 3:
            part = self.documents(corpus.sizes, corpus.digests)
            yield from ((part[number], piece, last) for number, piece, last in corpus.pieces())
            return
        plans = [_Blocks(self.blocks(size), size) for size in corpus.sizes]
        for number, piece, last in corpus.pieces():
            yield from plans[number].cut(piece, last)

    def told(self, digests: Sequence[bytes]) -> list[str]:
        """How the splits of documents were made, in lines."""
        documents, more = len(digests), len(digests) - len(set(digests))
        if documents < 3:
            return [f"blocks of {'one document' if documents == 1 else 'two documents'}, evenly spaced, are held out"]
        equal = "equal ones are in the same split" if self._joins(digests) else "equal ones can be in several splits"
        again = f"{counted(more, 'document')} repeat{'s' if more == 1 else ''} another, but for white space: {equal}"
        if self.every is not None:
            how = f"documents are held out by place: of {self.every} the last is test, the one before it val"
        else:
            how = f"whole documents are held out, drawn with seed {self.seed}"
        return [how, again] if more else [how]


def _numbered(digests: Sequence[bytes]) -> Tensor:
    """A number for each document, from 0 in the order in which they come; equal ones share it."""
    number: dict[bytes, int] = {}
    return torch.tensor([number.setdefault(digest, len(number)) for digest in digests])


class _Blocks:
    """A document in blocks of equal size, cut where words end.

    Args:
        parts: the split of each block.
        size: characters of the document.
    """

    def __init__(self, parts: Sequence[int], size: int):
        self.parts, self.size, self.block, self.left = parts, -(-size // len(parts)), 0, -(-size // len(parts))

    def cut(self, piece: str, last: bool) -> Iterator[tuple[int, str, bool]]:
        """The pieces of a piece; a block that another split follows is closed."""
        while self.block < len(self.parts) - 1 and len(piece) >= self.left:
            place = word_end(piece, self.left) if len(piece) > self.left else len(piece)
            here, after = self.parts[self.block : self.block + 2]
            yield here, piece[:place], here != after or (last and place == len(piece))
            piece, self.block, self.left = piece[place:], self.block + 1, self.size
            if last and not piece:
                return
        self.left -= len(piece)
        yield self.parts[self.block], piece, last
