"""Data cut into K parts, each held out once.

    fold k:   test = part k,   train and val = the other parts                                     (1)
    by time:  test = part k,   train and val = the parts before it, K + 1 parts in all             (2)

Parts differ by one row at most, and so do the rows of each class in them; groups stay whole, and go, the largest first,
to the part that has the fewest rows yet.

The parts are made of the rows that train and validate; rows that test stay apart, in no fold. Every figure (means,
deviations, medians, the unit of y) is learned anew, on a fold's own training rows. The form of the inputs is that of
the data: a level of a category or a gap that a fold's training rows never show has its place, and is 0 in the held-out
rows, so that no weight that was never trained takes part in their prediction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.columns import TableInputs
from leadline.data.data import Data, Split
from leadline.data.graph_inputs import GraphInputs, relearned
from leadline.data.inputs import Identity, Inputs, Rescale, Standardize
from leadline.data.outcome import with_figures
from leadline.data.outcomes import strata
from leadline.data.pictures import Pictures
from leadline.data.sequence_inputs import Sequences
from leadline.data.series_windows import Windows
from leadline.data.set_inputs import Sets
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.settings import whole


def folds(
    data: Data,
    num: int = 10,
    *,
    seed: int = 0,
    stratified: bool = True,
    groups: Any = None,
    val: float | None = None,
) -> list[Data]:
    """The data of each fold; `test` of a fold is its held-out part.

    Args:
        data: whose rows that train and validate are cut; rows that test are in no fold.
        num: K, from 2 to the number of rows, groups or moments.
        seed: the same seed gives the same folds.
        stratified: spread each class evenly; groups and times come before it.
        groups: (n,) of the rows that train, then of those that validate; by default those that the data were split by.
        val: part of a fold's other rows that validates, from 0 to below 1; by default the data's own.

    >>> from leadline.data import moons
    >>> folds(moons(num=90), 3)[0]
    Data(moons, fold 1 of 3: train 39, val 9, test 24; x (2,); y y: upper or lower)
    """
    whole("seed", seed, 0)
    if isinstance(data.inputs, Windows):
        raise UserError(
            "folds must be of rows that do not overlap",
            got=f"windows of a series, {data.name}",
            do="Leave folds out: the last part of the time is held out in any case",
        )
    pool = _pooled(data, groups)
    num = _checked(num, pool)
    if val is None:
        val = len(data.val) / len(pool)
    classes = strata(pool.y, data.target) if stratified else None
    generator = torch.Generator().manual_seed(seed)
    if pool.group is not None:
        part = _by_group(pool.group, num, generator)
    elif pool.time is not None:
        part = _by_time(pool.time, num) - 1  # the first of K + 1 parts is never held out
    else:
        part = _evenly(len(pool), classes, num, generator)
    found = []
    for k in range(num):
        held = (part == k).nonzero().flatten()
        rest = (part < k if pool.group is None and pool.time is not None else part != k).nonzero().flatten()
        own = pool.take(rest)
        by: dict[str, Tensor | None] = {"stratify": None if classes is None else classes[rest]}
        if own.group is not None:
            by = {"groups": own.group}
        elif own.time is not None:
            by = {"time": own.time}
        train, valid, _ = split_indices(len(own), val=val, test=0.0, seed=seed, **by)
        found.append(_fold(data, own.take(train), own.take(valid), pool.take(held), f"fold {k + 1} of {num}"))
    return found


def _pooled(data: Data, groups: Any) -> Split:
    """The rows that train and validate, as one split."""
    parts = [split for split in (data.train, data.val) if len(split)]

    def join(name: str) -> Tensor | None:
        columns = [getattr(part, name) for part in parts]
        return None if any(column is None for column in columns) else torch.cat(columns)

    x, y = torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts])
    pool = Split(x, y, *(join(name) for name in ("weight", "rows", "group", "time")))
    if groups is None:
        return pool
    _, codes = np.unique(np.asarray(groups), return_inverse=True)
    if codes.shape != (len(pool),):
        raise ShapeError(
            "groups must have one value for each row that trains or validates",
            got=f"groups of shape {np.shape(groups)} for {counted(len(pool), 'row')}",
            do="Pass those of data.train, then those of data.val",
        )
    return replace(pool, group=torch.from_numpy(codes.astype(np.int64)))


def _checked(num: int, pool: Split) -> int:
    num = whole("folds", num, 2, usual=10)
    what, most = "row", len(pool)
    if pool.group is not None:
        what, most = "group", len(pool.group.unique())
    elif pool.time is not None:
        what, most = "moment", len(pool.time.unique()) - 1  # the first trains in every fold
    if num > most:
        raise UserError(
            f"there must be a {what} for each fold" + (", and one before them" if what == "moment" else ""),
            got=f"folds={num} and {counted(most + (what == 'moment'), what)} to train and validate on",
            do=f"Pass folds={most} or fewer" if most >= 2 else "Add more rows",
        )
    return num


def _evenly(n: int, classes: Tensor | None, num: int, generator: torch.Generator) -> Tensor:
    """A part for each row: dealt out in turn, class by class, each class in random order."""
    order = torch.randperm(n, generator=generator)
    if classes is not None:
        order = order[classes[order].argsort(stable=True)]
    part = torch.empty(n, dtype=torch.int64)
    part[order] = torch.arange(n) % num
    return part


def _by_group(groups: Tensor, num: int, generator: torch.Generator) -> Tensor:
    _, code, sizes = groups.unique(return_inverse=True, return_counts=True)
    order = torch.randperm(len(sizes), generator=generator)
    order = order[sizes[order].argsort(stable=True, descending=True)]
    rows, part = [0] * num, torch.empty(len(sizes), dtype=torch.int64)
    for group in order.tolist():
        emptiest = rows.index(min(rows))
        part[group] = emptiest
        rows[emptiest] += int(sizes[group])
    return part[code]


def _by_time(time: Tensor, num: int) -> Tensor:
    """One of K + 1 parts for each row, in the order of time; rows of one moment stay together."""
    _, moment, sizes = time.unique(return_inverse=True, return_counts=True)
    middle = sizes.cumsum(0) - sizes / 2  # a moment goes where its middle row falls, and every part has a moment
    of_moment = (middle * (num + 1) / len(time)).long().clamp(max=num)
    last = len(sizes) - 1
    for place in range(len(sizes)):
        before = int(of_moment[place - 1]) if place else -1
        least = max(before, num - (last - place))
        of_moment[place] = min(max(int(of_moment[place]), least), before + 1)
    return of_moment[moment]


def _fold(data: Data, train: Split, val: Split, test: Split, which: str) -> Data:
    inputs, target = _learned(data.inputs, train.x), _measured(data.target, train.y)
    own = Data(train, val, test, target, inputs, f"{data.name}, {which}", None, data.account)
    return replace(own, val=replace(val, x=as_seen(own, val.x)), test=replace(test, x=as_seen(own, test.x)))


def _measured(target: Target, y: Tensor) -> Target:
    """The target in the unit of these rows; one that has no unit stays without."""
    plain = all(shift == 0 for shift in target.shift) and all(scale == 1 for scale in target.scale)
    return target if plain else with_figures(target, y)


def _learned(inputs: Inputs, x: Tensor) -> Inputs:
    """Inputs of the same form, with the figures of x."""
    if isinstance(inputs, Identity):
        return inputs
    if isinstance(inputs, Rescale):
        return Rescale.fit(x, inputs.names)
    if isinstance(inputs, Standardize):
        if len(inputs.shift) > 1 and len({*inputs.shift}) == len({*inputs.scale}) == 1:  # one figure for all columns
            all_alike = Rescale.fit(x)
            count = len(inputs.shift)
            return Standardize((all_alike.shift,) * count, (all_alike.scale,) * count, inputs.names)
        return Standardize.fit(x, inputs.names)
    if isinstance(inputs, Pictures):
        return Pictures.of(x, inputs.fit)
    if isinstance(inputs, Sets):
        return Sets.fit(x, inputs.columns, inputs.coordinates, inputs.set, inputs.comma)
    if isinstance(inputs, Sequences):
        return Sequences.fit(x, inputs.channels, inputs.sequence, inputs.order, inputs.comma, inputs.dates)
    if isinstance(inputs, GraphInputs):
        return inputs.learned(x)
    if isinstance(inputs, TableInputs):
        return TableInputs([relearned(own, x[:, j].numpy()) for j, own in enumerate(inputs.columns)])
    raise DataError(
        "inputs must be of a kind whose figures can be learned anew",
        got=type(inputs).__name__,
        do="Encode the rows beforehand, and let ll.data.arrays(x, y) make the data",
    )


def as_seen(fold: Data, x: Tensor) -> Tensor:
    """Raw rows in which what the fold's training rows never show is not shown either."""
    if not isinstance(fold.inputs, TableInputs):
        return x
    x = x.clone()
    for j, column in enumerate(fold.inputs.columns):
        seen, values = fold.train.x[:, j], x[:, j]
        if column.kind == "category":
            values[~torch.isin(values, seen) & ~values.isnan()] = -1.0
        if column.gaps and not bool(seen.isnan().any()):
            values[values.isnan()] = -1.0 if column.kind == "category" else column.fill
    return x
