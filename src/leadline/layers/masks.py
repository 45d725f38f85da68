"""Which query may look at which key: one interface for every pattern of interaction.

    allowed_{b,i,j} = 1  where query i of row b may look at key j                            (1)
    a & b, a | b, ~a                                                     patterns combine      (2)

A mask is a rule on positions, not a matrix: `allows` answers for any index tensors that broadcast, which is what a
fused kernel asks of it, block by block. `dense` writes the matrix out, for the naive softmax, for drawings and for
counts.

Notation   b -> row of the batch,  i -> position of the query,  j -> position of the key
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from leadline.errors import ShapeError, UserError
from leadline.settings import given, real, whole


class Mask(ABC):
    """A rule on positions; frozen, and equal to any other of the same numbers.

    >>> Causal().dense(1, 3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    >>> (Causal() & Window(1)).dense(1, 3, 3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    @abstractmethod
    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Eq. 1 at indices that broadcast against one another."""

    def check(self, B: int, T: int, S: int) -> None:
        """Raise unless what the rule was given is of B rows of T queries and S keys."""

    def dense(self, B: int, T: int, S: int, device: torch.device | str = "cpu") -> Tensor:
        """The matrix, (B, 1, T, S), or (1, 1, T, S) where all rows of a batch have the same."""
        self.check(B, T, S)
        b, i, j = (torch.arange(size, device=device) for size in (B, T, S))
        allowed = self.allows(b[:, None, None], i[:, None], j)
        return allowed.expand(len(allowed) if allowed.dim() == 3 else 1, T, S)[:, None]

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)

    def __invert__(self) -> Mask:
        return Not(self)


@dataclass(frozen=True)
class _OfTwo(Mask):
    """A rule made of two others."""

    first: Mask
    second: Mask

    def __post_init__(self) -> None:
        check_rule(self.first)
        check_rule(self.second)

    def check(self, B: int, T: int, S: int) -> None:
        self.first.check(B, T, S)
        self.second.check(B, T, S)


@dataclass(frozen=True)
class Both(_OfTwo):
    """Where both allow it."""

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.first.allows(b, i, j) & self.second.allows(b, i, j)


@dataclass(frozen=True)
class Either(_OfTwo):
    """Where one of them allows it.

    >>> (Blocks(2) | Global((0,))).dense(1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 1], [1, 1, 0], [1, 0, 1]]
    """

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.first.allows(b, i, j) | self.second.allows(b, i, j)


@dataclass(frozen=True)
class Not(Mask):
    """Where it does not.

    >>> (~Causal()).dense(1, 2, 2)[0, 0].int().tolist()
    [[0, 1], [0, 0]]
    """

    mask: Mask

    def __post_init__(self) -> None:
        check_rule(self.mask)

    def check(self, B: int, T: int, S: int) -> None:
        self.mask.check(B, T, S)

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return ~self.mask.allows(b, i, j)


@dataclass(frozen=True)
class Causal(Mask):
    """Itself and what came before."""

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= i


@dataclass(frozen=True, eq=False)
class UpTo(Mask):
    """Keys up to a place of their own for each query: those of a cache that are filled.

    Args:
        at: (B, T), the last key that query i of row b may look at.

    >>> UpTo(torch.tensor([[0], [2]])).dense(2, 1, 3).int().flatten(1).tolist()
    [[1, 0, 0], [1, 1, 1]]
    """

    at: Tensor

    def __post_init__(self) -> None:
        _check_numbers("UpTo", "at", self.at)

    def check(self, B: int, T: int, S: int) -> None:
        _check_size("at of UpTo", self.at, (B, T), "a place for each query of each row")

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= self.at[b, i]


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Keys that are there, and not only fill their row.

    Args:
        there: (B, S), true where a key is a word of its row.

    >>> Padding(torch.tensor([[True, True, False]])).dense(1, 2, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0]]
    """

    there: Tensor

    def __post_init__(self) -> None:
        _check_truths("Padding", "there", self.there, (2,))

    def check(self, B: int, T: int, S: int) -> None:
        _check_size("there of Padding", self.there, (B, S), "true or false for each key of each row")

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.there[b, j] | (i < 0)  # the second part only widens the shape to that of i


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """The same document, where several are packed into one row.

    Args:
        number: (B, T), of the document that a position belongs to.

    >>> Documents.of(torch.tensor([[5, 0, 7, 8]]), end=0).dense(1, 4, 4)[0, 0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """

    number: Tensor

    def __post_init__(self) -> None:
        _check_numbers("Documents", "number", self.number)

    def check(self, B: int, T: int, S: int) -> None:
        _check_size("number of Documents", self.number, (B, max(T, S)), "the document of each place of each row")

    @classmethod
    def of(cls, tokens: Tensor, end: int) -> Documents:
        """Of rows of tokens (B, T) in which each document closes with the token `end`."""
        _check_numbers("Documents", "tokens", tokens)
        whole("end", end, 0)
        ends = (tokens == end).to(torch.int32)
        return cls(ends.cumsum(1) - ends)

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.number[b, i] == self.number[b, j]


@dataclass(frozen=True)
class Window(Mask):
    """A band: as many neighbours on each side.

    Args:
        reach: neighbours on each side, at least 0.

    >>> Window(1).dense(1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """

    reach: int

    def __post_init__(self) -> None:
        whole("reach", self.reach, 0)

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() <= self.reach


@dataclass(frozen=True)
class Dilated(Mask):
    """A band with holes: every d-th neighbour.

    Args:
        reach: neighbours on each side that are looked at, at least 0.
        dilation: d, at least 1.

    >>> Dilated(1, 2).dense(1, 1, 5)[0, 0].int().tolist()
    [[1, 0, 1, 0, 0]]
    """

    reach: int
    dilation: int

    def __post_init__(self) -> None:
        whole("reach", self.reach, 0)
        whole("dilation", self.dilation)

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        apart = (i - j).abs()
        return (apart % self.dilation == 0) & (apart <= self.reach * self.dilation)


@dataclass(frozen=True)
class Strided(Mask):
    """Every s-th position of the whole row, counted from its own (Child et al., 2019).

    Args:
        stride: s, at least 1.

    >>> Strided(2).dense(1, 2, 5)[0, 0].int().tolist()
    [[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]]
    """

    stride: int

    def __post_init__(self) -> None:
        whole("stride", self.stride)

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i - j) % self.stride == 0


@dataclass(frozen=True)
class Global(Mask):
    """Tokens that look at all others, and that all others look at.

    Args:
        tokens: their positions.

    >>> Global((1,)).dense(1, 3, 3)[0, 0].int().tolist()
    [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
    """

    tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.tokens, (tuple, list, range)):
            got = given("tokens", self.tokens)
            raise UserError("tokens must be a list of positions", got=got, do="Write (0,) for the first token alone")
        object.__setattr__(self, "tokens", tuple(self.tokens))  # what is frozen can be hashed
        for token in self.tokens:
            whole("a token's position", token, 0)

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        found = (i < 0) & (j < 0)
        for token in self.tokens:
            found = found | (i == token) | (j == token)
        return found


@dataclass(frozen=True)
class Blocks(Mask):
    """Positions of the same block of consecutive ones.

    Args:
        size: of a block, at least 1.

    >>> Blocks(2).dense(1, 3, 3)[0, 0].int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    size: int

    def __post_init__(self) -> None:
        whole("size", self.size)

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i // self.size == j // self.size


@dataclass(frozen=True)
class Random(Mask):
    """Each pair with one probability, drawn once from a seed: the same pairs for every row.

    Args:
        p: of a pair, from 0 to 1.
        seed: of the draw.

    >>> bool((Random(0.5).dense(1, 4, 4) == Random(0.5).dense(1, 4, 4)).all())
    True
    """

    p: float
    seed: int = 0

    def __post_init__(self) -> None:
        real("p", self.p, 0, most=1)
        whole("seed", self.seed, 0)

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        z = _scrambled(torch.full_like(i, self.seed % 2**31, dtype=torch.long))
        z = _scrambled(_scrambled(z + i) + j)
        return z < round(self.p * 2**31)


def _scrambled(z: Tensor) -> Tensor:
    """31 bits of a hash. No product has more than 62: of places, whose range it knows, a compiler takes overflow for
    impossible, and `noise.mix` of them comes out otherwise than in eager mode.
    """
    for factor in (0x7FEB352D, 0x2C1B3C6D, 0x297A2D39):
        z = ((z ^ (z >> 15)) * factor) & (2**31 - 1)
    return z ^ (z >> 15)


@dataclass(frozen=True, eq=False)
class Graph(Mask):
    """Any pattern at all: neighbours in a graph.

    Args:
        adjacency: (T, S), or (B, T, S), true where query i may look at key j.

    >>> Graph(torch.eye(2, dtype=torch.bool)).added(torch.float32)[0, 0].tolist()
    [[0.0, -inf], [-inf, 0.0]]
    """

    adjacency: Tensor

    def __post_init__(self) -> None:
        _check_truths("Graph", "adjacency", self.adjacency, (2, 3))

    def check(self, B: int, T: int, S: int) -> None:
        wanted = (T, S) if self.adjacency.dim() == 2 else (B, T, S)
        _check_size("adjacency of Graph", self.adjacency, wanted, "true or false for each query and key")

    def allows(self, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return self.adjacency[i, j] if self.adjacency.dim() == 2 else self.adjacency[b, i, j]

    def dense(self, B: int, T: int, S: int, device: torch.device | str = "cpu") -> Tensor:
        self.check(B, T, S)
        return self.adjacency[None, None] if self.adjacency.dim() == 2 else self.adjacency[:, None]  # it stands written

    def added(self, dtype: torch.dtype) -> Tensor:
        """0 where a query may look and -∞ elsewhere, (B, 1, T, S): written once, however many layers look by it."""
        written: dict[torch.dtype, Tensor] = self.__dict__.setdefault("_written", {})
        if dtype not in written:
            zero = torch.zeros((), dtype=dtype, device=self.adjacency.device)
            allowed = self.adjacency[None, None] if self.adjacency.dim() == 2 else self.adjacency[:, None]
            written[dtype] = zero.masked_fill(~allowed, -math.inf)
        return written[dtype]


def check_rule(mask: object) -> None:
    """Raise unless it is a rule of this file."""
    if isinstance(mask, Mask):
        return
    if isinstance(mask, type) and issubclass(mask, Mask):
        got, do = f"the class {mask.__name__}", f"Write {mask.__name__}(…)"
    else:
        got = type(mask).__name__
        do = "Pass Padding(there) for keys that are there (B, S), or Graph(allowed) for pairs (T, S) or (B, T, S)"
    raise UserError("a mask must be a rule of leadline.layers.masks", got=got, do=do)


def _check_truths(owner: str, name: str, value: Tensor, dims: tuple[int, ...]) -> None:
    """Numbers in place of truth values would be taken for what is added to scores."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool or value.dim() not in dims:
        raise ShapeError(
            f"{name} of {owner} must hold truth values, on {' or '.join(map(str, dims))} axes",
            got=_kind(value),
            do="Pass what is there, such as tokens != pad" if owner == "Padding" else "Pass adjacency > 0",
        )


def _check_numbers(owner: str, name: str, value: Tensor) -> None:
    whole_numbers = isinstance(value, Tensor) and not value.is_floating_point() and value.dtype != torch.bool
    if not whole_numbers or value.dim() != 2:
        raise ShapeError(
            f"{name} of {owner} must hold whole numbers, on 2 axes",
            got=_kind(value),
            do="Pass a row of numbers for each row of the batch, (B, T)",
        )


def _check_size(name: str, value: Tensor, wanted: tuple[int, ...], what: str) -> None:
    """What came for other rows, or of other lengths, would be read at the wrong places."""
    if tuple(value.shape) != wanted:
        raise ShapeError(
            f"{name} must have the shape {wanted} here",
            got=f"{tuple(value.shape)}",
            do=f"Pass {what}",
        )


def _kind(value: object) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else given("it", value)
