"""What attention has already computed of a row: keys and values of its earlier positions, in rooms of fixed size.

A causal network's answer for a position never changes when later ones come, so nothing is computed twice. Rooms have
their full length from the start: shapes stay the same at each step, which a recorded graph needs. Rows stand at places
of their own, so prompts of different lengths share a batch without padding between words.

Notation   at -> where the tokens of this call stand,  L -> room for positions
Shapes     keys, values (B, G, L, K);  at (B, T)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class Room:
    """Keys and values of one layer.

    Args:
        fixed: they are all there, as those of a source that is read once; nothing is written any more.
    """

    keys: Tensor
    values: Tensor
    fixed: bool = False

    def write(self, k: Tensor, v: Tensor, at: Tensor) -> None:
        """Put keys and values of T positions (B, G, T, K) at their places."""
        if torch.compiler.is_compiling():  # which writes these in place, and copies the room for a scatter
            rows, groups = (torch.arange(size, device=k.device) for size in k.shape[:2])
            where = rows[:, None, None], groups[:, None], at[:, None]
            self.keys[where], self.values[where] = k.to(self.keys.dtype), v.to(self.values.dtype)
            return
        index = at[:, None, :, None]
        self.keys.scatter_(2, index.expand_as(k), k.to(self.keys.dtype))
        self.values.scatter_(2, index.expand_as(v), v.to(self.values.dtype))

    def reorder(self, rows: Tensor) -> None:
        """Row b goes on where row rows[b] stood: beams change places."""
        self.keys.copy_(self.keys[rows])
        self.values.copy_(self.values[rows])


@dataclass(eq=False)
class Cache:
    """The rooms of all layers, and where the tokens of the next call stand.

    Args:
        rooms: one for each attention that sees its own past.
        sources: one for each attention that reads a source; they are filled when the source is read.
        at: (B, T).
        source_there: (B, S), true where a position of the source is a word of its row.
        tokens: (B, L), those that were read, where a model must look at them again.
        states: of recurrent layers, which keep those in place of rooms; (B, …) each.
        begins: what a state is before the first token.
        there: (B, T), true where what is read next is a word of its row; None where all are.

    >>> cache = Cache.empty(num_layers=2, B=3, G=4, L=16, K=8)
    >>> cache.rooms[0].keys.shape
    torch.Size([3, 4, 16, 8])
    """

    rooms: list[Room]
    at: Tensor
    sources: list[Room] = field(default_factory=list)
    source_there: Tensor | None = None
    tokens: Tensor | None = None
    states: list[tuple[Tensor, ...]] = field(default_factory=list)
    begins: list[tuple[Tensor, ...]] = field(default_factory=list)
    there: Tensor | None = None

    @classmethod
    def empty(
        cls,
        num_layers: int,
        B: int,
        G: int,
        L: int,
        K: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> Cache:
        """Rooms of zeros; the next token stands at place 0."""
        room = lambda: torch.zeros(B, G, L, K, device=device, dtype=dtype)  # noqa: E731
        at = torch.zeros(B, 1, dtype=torch.long, device=device)
        return cls([Room(room(), room()) for _ in range(num_layers)], at)

    def reorder(self, rows: Tensor) -> None:
        """Row b goes on where row rows[b] stood."""
        for room in (*self.rooms, *self.sources):
            room.reorder(rows)
        self.at.copy_(self.at[rows])
        for kept in (self.source_there, self.tokens, *(part for state in self.states for part in state)):
            if kept is not None:
                kept.copy_(kept[rows])
