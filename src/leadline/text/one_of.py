"""Texts that may be written, each of several tokens: what is written stays on the paths of a tree.

    next(w_1 … w_t) = {w : w_1 … w_t w begins one of the rows}, and `end` where w_1 … w_t is one of them          (1)
    again           = (1) of what stands after any whole row: rows in any order, as often as they come          (2)

Notation   w -> new tokens of a text, those of its prompt not among them
Shapes     seen (B, T), -1 where a row has nothing -> (B, V)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.settings import whole


class OneOf:
    """A constraint: the text after a prompt is one of some rows of tokens, and then ends.

    Args:
        rows: of tokens, each with one at least.
        num_tokens: V.
        end: the token that closes a text.
        again: rows may follow each other (eq. 2).

    >>> choices = OneOf([[1, 2], [1, 3]], num_tokens=5, end=0).after_prompts(torch.tensor([1]))
    >>> choices(torch.tensor([[4]])).nonzero()[:, 1].tolist(), choices(torch.tensor([[4, 1]])).nonzero()[:, 1].tolist()
    ([1], [2, 3])
    """

    def __init__(self, rows: Sequence[Sequence[int]], num_tokens: int, end: int, again: bool = False):
        self.num_tokens = whole("num_tokens", num_tokens)
        self.end, self.again = whole("end", end, 0, num_tokens - 1), again
        self.longest = max((len(row) for row in rows), default=0)
        if not rows or any(len(row) == 0 for row in rows):
            got, do = ("one with none", "Leave it out") if rows else ("no texts", "Pass one at least")
            raise UserError("a text that may be written must have a token", got=got, do=do)
        self._next: list[dict[int, int]] = [{}]  # of each node of the tree: token -> node
        self._whole = {self._grown([whole("a token", int(word), 0, num_tokens - 1) for word in row]) for row in rows}

    def _grown(self, row: Sequence[int]) -> int:
        """The node where a row ends."""
        node = 0
        for word in row:
            if word not in self._next[node]:
                self._next[node][word] = len(self._next)
                self._next.append({})
            node = self._next[node][word]
        return node

    def after_prompts(self, lengths: Tensor) -> _AfterPrompts:
        """The same, told where the prompts end, (B,)."""
        return _AfterPrompts(self, lengths)

    def after(self, words: Sequence[int]) -> set[int]:
        """Eq. 1, or eq. 2: tokens that may come after these new ones; `end` alone where they are on no path.

        >>> sorted(OneOf([[1], [1, 3]], num_tokens=5, end=0).after([1]))
        [0, 3]
        """
        nodes = {0}
        for word in words:
            nodes = {self._next[node][word] for node in nodes if word in self._next[node]}
            nodes |= {0} if self.again and nodes & self._whole else set()
        found = {word for node in nodes for word in self._next[node]}
        return found | {self.end} if not nodes or nodes & self._whole else found


class _AfterPrompts:
    """`OneOf` of prompts whose lengths are known."""

    def __init__(self, of: OneOf, lengths: Tensor):
        self.of, self.lengths = of, lengths.tolist()

    def __call__(self, seen: Tensor) -> Tensor:
        allowed = torch.zeros(len(seen), self.of.num_tokens, dtype=torch.bool)
        for b, (row, length) in enumerate(zip(seen.tolist(), self.lengths, strict=True)):
            allowed[b, list(self.of.after([word for word in row[length:] if word >= 0]))] = True
        return allowed
