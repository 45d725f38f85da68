"""Which rows train, which validate, which test: drawn from a seed, never by position in the file.

    at random    every row is equally likely to fall in each split
    stratified   each class is spread over the splits in proportion, to within a row; a class's first row trains
    by group     rows that belong together (a patient, a street, an author) fall in one split
    by time      train holds the earliest rows, test the latest; rows of equal time stay together

Counts follow the fractions by largest remainder: floors first, then a row to each split that fell short by most.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.errors import DataError, ShapeError, UserError


def split_indices(
    n: int,
    *,
    val: float = 0.15,
    test: float = 0.2,
    seed: int = 0,
    stratify: Tensor | None = None,
    groups: Tensor | None = None,
    time: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Indices of the train, val and test rows, each in ascending order. Train always has a row.

    Args:
        n: number of rows, at least 1.
        val, test: fractions of the rows, 0 or more, together less than 1.
        seed: the same seed gives the same split; torch's own generator is left alone.
        stratify: (n,) class codes to spread evenly.
        groups: (n,) codes of groups to keep whole.
        time: (n,) times to cut by.

    >>> train, val, test = split_indices(20)
    >>> len(train), len(val), len(test)
    (13, 3, 4)
    """
    fractions = _fractions(val, test)
    plan = {"stratify": stratify, "groups": groups, "time": time}
    given = {name: column for name, column in plan.items() if column is not None}
    if n < 1:
        raise DataError("a split needs at least one row", got="none", do="Provide more rows")
    if len(given) > 1:
        raise UserError("rows are split in one way at a time", got=" and ".join(given), do="Keep one of them")
    for name, column in given.items():
        if column.shape != (n,):
            raise ShapeError(
                f"{name} must have one value for each row",
                got=f"{name} of shape {tuple(column.shape)} for {counted(n, 'row')}",
                do=f"Pass a tensor of shape ({n},)",
            )
    if time is not None:
        part = _by_time(time, fractions)
    else:
        generator = torch.Generator().manual_seed(seed)
        if groups is not None:
            part = _by_group(groups, fractions, generator)
        elif stratify is not None:
            part = _stratified(stratify, fractions, generator)
        else:
            part = _at_random(n, fractions, generator)
    train, val_rows, test_rows = ((part == split).nonzero().flatten() for split in range(3))
    return train, val_rows, test_rows


def _fractions(val: float, test: float) -> tuple[float, float, float]:
    if not (val >= 0 and test >= 0 and val + test < 1):
        raise UserError(
            "val and test must be fractions that leave rows to train on",
            got=f"val={val}, test={test}",
            do="Usual values are val=0.15 and test=0.2",
        )
    return 1 - val - test, val, test


def _floors(n: int, fractions: Sequence[float]) -> tuple[list[float], list[int]]:
    """Rows due to each split, and their whole parts (with room for the rounding of the fractions themselves)."""
    due = [n * fraction for fraction in fractions]
    return due, [int(quota + 1e-9) for quota in due]


def _at_random(n: int, fractions: Sequence[float], generator: torch.Generator) -> Tensor:
    due, counts = _floors(n, fractions)
    for split in sorted(range(3), key=lambda s: counts[s] - due[s])[: n - sum(counts)]:
        counts[split] += 1
    for split in range(3):  # train gets a row in any case, the others when there is one to spare
        if fractions[split] > 0 and counts[split] == 0 and (split == 0 or max(counts) > 1):
            counts[counts.index(max(counts))] -= 1
            counts[split] = 1
    part = torch.empty(n, dtype=torch.int64)
    part[torch.randperm(n, generator=generator)] = torch.repeat_interleave(torch.tensor(counts))
    return part


def _stratified(classes: Tensor, fractions: Sequence[float], generator: torch.Generator) -> Tensor:
    _, code, sizes = classes.unique(return_inverse=True, return_counts=True)
    shuffled = torch.randperm(len(classes), generator=generator)
    shuffled = shuffled[code[shuffled].argsort(stable=True)]  # class by class, in random order within each
    # What earlier classes still owe each split decides who gets a class's odd rows, so that the totals fit too.
    owed = [0.0, 0.0, 0.0]
    table = []
    for size in sizes.tolist():
        due, counts = _floors(size, fractions)
        owed = [o + d - c for o, d, c in zip(owed, due, counts)]
        short = [split for split in range(3) if due[split] - counts[split] > 1e-9]
        short.sort(key=lambda split: -owed[split])
        if counts[0] == 0:  # a class that no training row shows cannot be learned
            short.sort(key=lambda split: split != 0)
        for split in short[: size - sum(counts)]:
            counts[split] += 1
            owed[split] -= 1
        table.append(counts)
    part = torch.empty(len(classes), dtype=torch.int64)
    part[shuffled] = torch.arange(3).repeat(len(table)).repeat_interleave(torch.tensor(table).flatten())
    return part


def _by_group(groups: Tensor, fractions: Sequence[float], generator: torch.Generator) -> Tensor:
    _, code, sizes = groups.unique(return_inverse=True, return_counts=True)
    # Few or uneven groups fit the fractions badly in most orders: several are tried, and the best is kept.
    tries = (_fill(sizes.tolist(), fractions, generator) for _ in range(1 + min(63, 10_000 // len(sizes))))
    split_of, _ = min(tries, key=lambda one: one[1])
    return split_of[code]


def _fill(sizes: list[int], fractions: Sequence[float], generator: torch.Generator) -> tuple[Tensor, float]:
    """A split for each group, taken in random order to where most rows are owed; and by how many rows it misses."""
    owed = [sum(sizes) * fraction for fraction in fractions]
    empty = {split for split in range(3) if fractions[split] > 0}
    split_of = torch.empty(len(sizes), dtype=torch.int64)
    for place, group in enumerate(torch.randperm(len(sizes), generator=generator).tolist()):
        left = len(sizes) - place
        open_to = empty if left <= len(empty) else range(3)  # the last groups go where there is none yet
        split = 0 if place == 0 else max(open_to, key=owed.__getitem__)
        split_of[group] = split
        owed[split] -= sizes[group]
        empty.discard(split)
    return split_of, sum(abs(rows) for rows in owed)


def _by_time(time: Tensor, fractions: Sequence[float]) -> Tensor:
    if time.is_floating_point() and not bool(time.isfinite().all()):
        row = int((~time.isfinite()).nonzero()[0])
        raise DataError("every row needs a time", got=f"{time[row].item()} in row {row}", do="Fill it or drop the row")
    _, moment, sizes = time.unique(return_inverse=True, return_counts=True)
    ends = sizes.cumsum(0).double()  # rows up to and with each moment: the places where a cut may fall
    moments, n = len(sizes), len(time)
    wants_val, wants_test = fractions[1] > 0, fractions[2] > 0
    first = _nearest(ends, n * fractions[0], 1, moments - wants_val - wants_test)
    second = _nearest(ends, n * (fractions[0] + fractions[1]), first + wants_val, moments - wants_test)
    return (moment >= first).long() + (moment >= second).long()


def _nearest(ends: Tensor, rows: float, least: int, most: int) -> int:
    """How many moments to take to come nearest to `rows`, within `least` … `most` (`least` wins)."""
    return max(least, min(most, int((ends - rows).abs().argmin()) + 1))
