"""The nouns of data: `Data` is named splits and a `Target`; a `Split` is arrays; a `Batch` is some of their rows.

x stays as the user gave it (numbers, or the codes of categories; NaN where a value is missing). `Data.inputs` turns
such raw rows into what a network reads, with statistics of the training split alone, and travels with the model: so
training, evaluation and `predict` all take raw rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from leadline.data.account import Account
from leadline.data.inputs import Identity, Inputs
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError
from leadline.names import lookup
from leadline.settings import given


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows that are computed together, as the network reads them.

    Args:
        weight: scales each row's loss; None is 1 for all.
        example: each row's place in the split.
        keys: each row's noise in this epoch (see `leadline.layers.noise`); None draws from torch's generator.
    """

    x: Tensor
    y: Tensor
    weight: Tensor | None = None
    example: Tensor | None = None
    keys: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    def columns(self) -> tuple[Tensor | None, ...]:
        """Its tensors, in the order of the constructor."""
        return self.x, self.y, self.weight, self.example, self.keys

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """The batch of `function` of each column."""
        return Batch(
            function(self.x),
            function(self.y),
            *(None if c is None else function(c) for c in (self.weight, self.example, self.keys)),
        )

    def parts(self, count: int) -> list[Batch]:
        """At most `count` micro-batches of nearly equal size, in order; the last may be smaller."""
        return self.split(-(-len(self) // count))

    def split(self, size: int | list[int]) -> list[Batch]:
        """Batches of `size` rows each, in order (the last may be smaller), or of the sizes in a list. Views."""
        return self._each(lambda column: column.split(size))

    def groups(self, count: int, size: int) -> list[Stacked]:
        """Its rows in order as batches of `size`, `count` at a time; there must be none left over. Views."""
        whole = self.map(lambda column: column.view(-1, count, size, *column.shape[1:]))
        return [Stacked(group) for group in whole._each(lambda column: column.unbind())]

    def _each(self, parts: Callable[[Tensor], Sequence[Tensor]]) -> list[Batch]:
        """The batches of the first parts of all columns, of the second parts, and so on."""
        columns = [() if column is None else parts(column) for column in self.columns()]
        return [Batch(*row) for row in zip_longest(*columns)]


class Stacked(Sequence[Batch]):
    """Consecutive batches of one size, in one piece: `columns` have the shape (batches, size, …)."""

    def __init__(self, columns: Batch):
        self.columns, self._count = columns, columns.y.shape[0]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, k: int) -> Batch:  # type: ignore[override]
        if not 0 <= k < self._count:
            raise IndexError(k)
        return self.columns.map(lambda column: column[k])


@dataclass(frozen=True, eq=False)
class Split:
    """Some rows of a data set.

    Args:
        rows: their numbers in the source, for messages that name a row.
        group: codes of what the rows belong to, where they were split by it.
        time: when each row was, where they were split by it.
        digest: a hash of x and y that was taken when they were made; None has it taken. A changed copy has none.
    """

    x: Tensor
    y: Tensor
    weight: Tensor | None = None
    rows: Tensor | None = None
    group: Tensor | None = None
    time: Tensor | None = None
    digest: str | None = field(default=None, init=False)

    def __post_init__(self):
        for name in ("x", "y"):
            if not isinstance(getattr(self, name), Tensor):
                raise ShapeError(
                    f"{name} of a split must be a tensor",
                    got=given(name, getattr(self, name)),
                    do="Pass a tensor, or let ll.data.arrays(x, y) make the splits",
                )
        if len(self.x) != len(self.y):
            raise ShapeError(
                "x and y must have one row per example",
                got=f"x of shape {tuple(self.x.shape)} and y of shape {tuple(self.y.shape)}",
                do="Pass arrays whose first axis is the example",
            )

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Tensor) -> Split:
        """The split of the given rows, in that order."""
        pick = lambda column: None if column is None else column[index]  # noqa: E731
        more = (pick(column) for column in (self.weight, self.rows, self.group, self.time))
        return Split(self.x[index], self.y[index], *more)

    def hashed(self, digest: str) -> Split:
        """The same split, of which a hash of x and y is known."""
        same = replace(self)
        object.__setattr__(same, "digest", digest)
        return same

    def row_numbers(self, index: Tensor) -> list[int]:
        """Numbers in the source of the rows at `index`."""
        return (index if self.rows is None else self.rows[index]).tolist()


@dataclass(frozen=True, eq=False)
class Data:
    """A data set, split.

    Args:
        train, val, test: the splits; `val` and `test` may be empty but exist.
        target: what y is.
        inputs: how raw rows become network inputs.
        name: for titles and run folders.
        recipe: `{"source": name, "options": {...}}`, which `leadline.data.load` turns into the same data again;
            None when the data came from arrays in memory.
        account: what was read, used and refused.
    """

    train: Split
    val: Split
    test: Split
    target: Target
    inputs: Inputs = field(default_factory=Identity)
    name: str = "data"
    recipe: dict[str, Any] | None = None
    account: Account = field(default_factory=Account)

    def __post_init__(self):
        for name, kind in (("train", Split), ("val", Split), ("test", Split), ("target", Target), ("inputs", Inputs)):
            if not isinstance(getattr(self, name), kind):
                raise DataError(
                    f"{name} of Data must be of type {kind.__name__}",
                    got=given(name, getattr(self, name)),
                    do="Let ll.data.arrays(x, y) or ll.data.table(…) put the data together",
                )
        if len(self.train) == 0:
            raise DataError("the training split must have at least one row", got="none", do="Provide more rows")

    def splits(self) -> Iterator[tuple[str, Split]]:
        """The splits that have rows, by name."""
        for name in ("train", "val", "test"):
            if len(self[name]):
                yield name, self[name]

    def __getitem__(self, split: str) -> Split:
        if split not in ("train", "val", "test"):
            lookup(split, {"train": 0, "val": 0, "test": 0}, "split")
        return getattr(self, split.lower())

    @property
    def dim_input(self) -> int:
        """Width of what a network reads, for inputs that are vectors."""
        return self.inputs.dim(self.train.x)

    @property
    def shape_input(self) -> tuple[int, ...]:
        """Shape of a row as a network reads it."""
        return tuple(self.inputs.encode(self.train.x[:1]).shape[1:])

    def asked(self, rows: Tensor, split: str = "train") -> tuple[Tensor, Tensor]:
        """What a network reads of some rows of a split, and what is asked of it."""
        part = self[split]
        keys = rows.long() if self.inputs.draws else None
        return self.inputs.drawn(self.inputs.encode(part.x[rows]), part.y[rows], keys)

    def few(self, most: int, room: int = 2**26) -> int:
        """At most so many rows of the training split, and no more than a network can answer in `room` bytes."""
        own = self.inputs.room(tuple(self.train.x.shape[1:]))
        return min(most, len(self.train), max(2, room // own) if own else most)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of every number that training can see: equal fingerprints mean equal data."""
        seen = {name: part for name, part in self.inputs.config.items() if name not in self.inputs.aside}
        digest = hashlib.sha256(json.dumps([self.target.config, seen], sort_keys=True).encode())
        for name in ("train", "val", "test"):
            split = self[name]
            if split.digest is not None:
                digest.update(f"{name} {split.digest} {tuple(split.x.shape)}".encode())
            for column in (split.x, split.y, split.weight) if split.digest is None else (split.weight,):
                if column is not None:
                    digest.update(f"{name} {column.dtype} {tuple(column.shape)}".encode())
                    digest.update(column.contiguous().cpu().view(torch.uint8).numpy().data if column.numel() else b"")
        return digest.hexdigest()

    def of_column(self, k: int) -> Data:
        """The same rows with one of several columns as the target."""
        column = self.target.columns[k]
        train, val, test = (
            replace(split, y=split.y[:, k].long() if column.discrete else split.y[:, k])
            for split in (self.train, self.val, self.test)
        )
        return replace(self, train=train, val=val, test=test, target=column)

    def with_(self, **changes: Any) -> Data:
        """A copy with some fields replaced."""
        for name in changes:
            lookup(name, self.__dataclass_fields__, "field of Data")
        return replace(self, **changes)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {len(split)}" for name, split in self.splits())
        return f"Data({self.name}: {sizes}; x {tuple(self.train.x.shape[1:])}; y {self.target})"
