"""Own data: arrays, tensors, lists or a data frame become `Data` in one call.

import leadline as ll
data = ll.data.arrays(x, y)                        # x (n, columns), y (n,)
data = ll.data.arrays(images, labels)              # x (n, channels, rows, columns)
data = ll.data.arrays(frame[features], frame.price)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import Account, counted
from leadline.data.arguments import checked
from leadline.data.cells import Table, Text, cells_of, table_of
from leadline.data.columns import Column, TableInputs
from leadline.data.data import Data, Split
from leadline.data.frame import Plan, data_of
from leadline.data.inputs import Identity, Inputs, Rescale, Standardize
from leadline.data.outcome import read_known, read_outcome, with_figures
from leadline.data.outcomes import kinds_of, known_of, settle, strata
from leadline.data.patterns import check_signs
from leadline.data.raw import words_of
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.settings import given


@checked
def arrays(
    x: Any,
    y: Any,
    *,
    kind: str | Sequence[str] | None = None,
    order: Sequence[str] = (),
    names: Sequence[str] = (),
    val: float = 0.15,
    test: float = 0.2,
    split_seed: int = 0,
    scale: bool = True,
    groups: Any = None,
    time: Any = None,
    weight: Any = None,
    name: str = "arrays",
    test_data: tuple[Any, Any] | None = None,
) -> Data:
    """The rows of x with what is to be predicted from each.

    Args:
        x: numpy array, tensor, nested lists, or a data frame (whose columns may be text, dates, and have gaps). One
            axis is taken as one column.
        y: (n,) numbers or labels: text, truth values, few whole numbers, and -1 and +1 are classes, other
            floating-point numbers are real; (n, k) with k > 1 is k real outputs.
        kind: what y is, instead of that rule: real, positive, count, angle, proportion, binary, classes, ordered, or
            ranking, of which y is (n, items), each row the items from the best on; or signs, patterns of -1 and +1,
            with x as it is. For (n, k) one word for all columns, or one each.
        order: the classes of an ordered y from low to high, where they are words.
        names: names of the columns of x.
        val, test: fractions of the rows, drawn at random with `split_seed`; classes are spread evenly.
        scale: to mean 0 and deviation 1, by column; x of more than two axes by one figure for all.
        groups: (n,) of any values; equal ones stay in one split.
        time: (n,) numbers by which to split, train first and test last, instead of at random.
        weight: (n,) numbers that scale each row's loss.
        name: for titles and run folders.
        test_data: x and y of the test split, when they are apart; `test` is then not used.

    >>> arrays([[1.0], [2.0], [3.0], [4.0]], ["cat", "dog", "cat", "dog"])
    Data(arrays: train 2, val 1, test 1; x (1,); y y: cat or dog)
    """
    columns = {"groups": groups, "time": time, "weight": weight}
    for what, rows in (("x", x), ("y", y)):
        if rows is None or isinstance(rows, str) or callable(rows):
            named = "; ll.data.table(frame, target=…) takes a column by its name" if isinstance(rows, str) else ""
            raise DataError(
                f"{what} must hold one row per example",
                got=given(what, rows),
                do=f"Pass an array, a tensor, a list or a data frame{named}",
            )
    if _is_frame(x):
        return _of_frame(x, y, columns, kind, order, val, test, split_seed, name, test_data)
    values = _numbers(x, "x")
    _check_finite(values, names)
    labels, exact, target = _outcome(y, kind, order, len(values))
    by = _split_by(columns, len(values), strata(labels, target))
    part = split_indices(len(values), val=val, test=0.0 if test_data is not None else test, seed=split_seed, **by)
    inputs = _inputs(values[part[0]], tuple(names), scale and target.kind != "signs")
    if not isinstance(inputs, TableInputs):
        values = values.float()
    target = with_figures(target, exact[part[0]])
    weights = _weight(weight, len(values))
    everything = Split(values, labels, weights, torch.arange(len(values)), by.get("groups"), by.get("time"))
    train, held, tested = (everything.take(rows) for rows in part)
    if test_data is not None:
        tested = _test_split(test_data, target, inputs, tuple(values.shape[1:]))
    return Data(train, held, tested, target, inputs, name, None, Account(name, read=len(values)))


def _is_frame(x: Any) -> bool:
    if isinstance(x, (np.ndarray, Tensor, list, tuple)):
        return isinstance(x, (list, tuple)) and len(x) > 0 and isinstance(x[0], dict)
    return not np.isscalar(x)


def _of_frame(
    x: Any,
    y: Any,
    columns: dict[str, Any],
    kind: str | Sequence[str] | None,
    order: Sequence[str],
    val: float,
    test: float,
    split_seed: int,
    name: str,
    test_data: tuple[Any, Any] | None,
) -> Data:
    """By way of a table: y, groups, time and weight become columns of it."""
    outcomes = _columns_of(y)
    if kind is None:
        kinds = [_kind_of_floats(np.asarray(_plain_array(values))) for values in outcomes.values()]
    else:
        kinds = list(kinds_of(kind, len(outcomes)))
    table = table_of(x, source=name)
    labels = [_free(label, table) for label in outcomes]
    table = _joined(table, dict(zip(labels, outcomes.values(), strict=True)), name)
    roles = {}
    for role, values in columns.items():
        if values is not None:
            roles[{"groups": "group"}.get(role, role)] = column = _free(role, table)
            table = _joined(table, {column: values}, name)
    plan = Plan(labels, kinds, order=order, val=val, test=test, split_seed=split_seed, **roles)
    other = None
    if test_data is not None:
        held_out = _columns_of(test_data[1])
        if len(held_out) != len(labels):
            raise ShapeError(
                f"y of the test data must have {counted(len(labels), 'column')}, like the others",
                got=f"{len(held_out)}",
                do="Pass the same columns",
            )
        other = _joined(test_data[0], dict(zip(labels, held_out.values(), strict=True)), f"{name}, test")
    return data_of(table, plan, name=name, recipe=None, test=other)


def _columns_of(y: Any) -> dict[str, Any]:
    """The columns to predict by name: one of a series or an array, several of a frame or an array of two axes."""
    shape = np.shape(y)
    if len(shape) == 1:
        named = getattr(y, "name", None)  # a series has one
        return {named if isinstance(named, str) and named else "y": y}
    if len(shape) != 2 or shape[1] < 2:
        raise ShapeError(
            "y must have shape (n,), or (n, k) for k columns, beside a data frame",
            got=f"y of shape {shape}",
            do="Pass y.squeeze(), of shape (n,)" if shape[1:] == (1,) else "Pass a column for each thing to predict",
        )
    if _is_frame(y):
        return dict(table_of(y, source="y").columns)
    return {f"y_{k + 1}": values for k, values in enumerate(np.asarray(_plain_array(y)).T)}


def _joined(x: Any, more: dict[str, Any], source: str) -> Table:
    table = table_of(x, source=source)
    columns = dict(table.columns)
    for name, values in more.items():
        columns[name] = cells = cells_of(_plain_array(values, keep_words=True), name)
        if len(cells) != len(table):
            raise ShapeError(
                f"{name} must have one value for each row of x",
                got=f"{counted(len(cells), 'value')} for {counted(len(table), 'row')}",
                do="Pass columns of equal length",
            )
    return Table(columns, table.numbers, source=source)


def _free(name: str, table: Table) -> str:
    """`name`, or a like one that no column has yet."""
    while name in table.columns:
        name += "_"
    return name


def _numbers(x: Any, what: str) -> Tensor:
    """x as a tensor of floating-point numbers, of two axes or more."""
    try:
        values = x.detach().cpu() if isinstance(x, Tensor) else torch.from_numpy(np.asarray(x, dtype=_float_of(x)))
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} must hold numbers, in rows of equal length",
            got=f"{type(x).__name__} that is not ({error})",
            do="Pass an array of numbers, or a data frame for text and dates",
        ) from None
    if values.dim() == 0 or values.is_complex():
        raise ShapeError(
            f"{what} must have one row per example", got=f"{what} of {values.dtype}, shape {tuple(values.shape)}",
            do="Pass real numbers of shape (n, columns)",
        )  # fmt: skip
    if not values.is_floating_point():
        values = values.double() if values.dtype in (torch.int64, torch.int32) else values.float()
    elif values.dtype in (torch.float16, torch.bfloat16):
        values = values.float()
    values = values[:, None] if values.dim() == 1 else values
    if len(values) < 3:
        raise DataError(
            "x must have at least 3 rows to train, validate and test on", got=f"{len(values)}", do="Add more rows"
        )
    if values.numel() == 0:
        raise ShapeError("x must have a column", got=f"shape {tuple(values.shape)}", do="Pass shape (n, columns)")
    return values


def _float_of(x: Any) -> type:
    """The type in which an array of numbers keeps its values: small integers, such as pixels, fit in float32."""
    small = isinstance(x, np.ndarray) and (x.dtype.itemsize <= 2 or x.dtype == np.float32) and x.dtype.kind in "fiub"
    return np.float32 if small else np.float64


def _check_finite(x: Tensor, names: Sequence[str]) -> None:
    wrong = ~x.isfinite()
    if bool(wrong.any()):
        place = wrong.nonzero()[0].tolist()
        column = names[place[1]] if len(place) == 2 and len(names) > place[1] else None
        where = f"column {column if column else place[1]}" if len(place) == 2 else f"place {tuple(place[1:])}"
        raise DataError(
            "x must be finite everywhere",
            got=f"{x[tuple(place)].item():g} in row {place[0]}, {where} ({counted(int(wrong.sum()), 'such value')})",
            do="Take the rows out, or pass a data frame, whose missing values are filled in",
        )


def _plain_array(values: Any, keep_words: bool = False) -> Any:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    if isinstance(values, np.ndarray) or keep_words:
        return values
    return np.asarray(values)


def _outcome(
    y: Any, kind: str | Sequence[str] | None, order: Sequence[str], count: int
) -> tuple[Tensor, Tensor, Target]:
    """y as the engine takes it, y before rounding, and what it is."""
    values = _plain_array(y)
    if values.ndim == 1 and len(values) != count:
        raise ShapeError(
            "x and y must have one row per example", got=f"{counted(count, 'row')} of x and {len(values)} of y",
            do="Pass arrays whose first axis is the example",
        )  # fmt: skip
    if values.ndim != 1:
        _check_outputs(values.shape, count)
        if kind is None or (isinstance(kind, str) and kind in ("real", "ranking", "signs")):
            return _outputs(values, kind)
    columns = {"y": values} if values.ndim == 1 else {f"y_{k + 1}": column for k, column in enumerate(values.T)}
    outcomes = []
    for name, cells in columns.items():
        outcomes.append(outcome := read_outcome(name, cells_of(cells, name)))
        gap = np.flatnonzero(outcome.missing | outcome.misfit)
        if len(gap):
            raise DataError(
                "y must have a value in every row",
                got=f"{cells[gap[0]]} in row {gap[0]} ({counted(len(gap), 'such row')})",
                do="Take these rows out of x and y",
            )
    kinds = kinds_of(_kind_of_floats(values) if kind is None and not order else kind, len(outcomes))
    return settle(outcomes, np.arange(count), kinds, lambda row: f"row {row}", order)


def _kind_of_floats(values: np.ndarray) -> str | None:
    """Whoever has floating-point numbers measured something, except for signs: -1 and +1 are two classes."""
    if values.dtype.kind != "f":
        return None
    return "binary" if len(values) and (np.abs(values) == 1).all() and (values != values[0]).any() else "real"


def _check_outputs(shape: tuple[int, ...], count: int) -> None:
    """A column that should have been a row of numbers is sent back."""
    if len(shape) != 2 or shape[1] == 1 or shape[0] != count:
        do = "Pass y.ravel(), or y.squeeze(1) for a tensor" if shape[1:] == (1,) else "Pass y of shape (n,) or (n, k)"
        raise ShapeError(
            "y must have shape (n,), or (n, k) for k outputs",
            got=f"y of shape {shape} for {counted(count, 'row')} of x",
            do=do,
        )


def _outputs(values: np.ndarray, kind: str | None) -> tuple[Tensor, Tensor, Target]:
    """Several real outputs a row, or a ranking."""
    shape = values.shape
    if kind == "ranking":
        return _ranking(values)
    if kind == "signs":
        bits = torch.from_numpy(check_signs("y", values))
        return bits, bits, Target("signs", dim=shape[1])
    if values.dtype.kind not in "fiub":
        raise DataError(
            "y of two axes must hold real numbers, or come with a kind for each column",
            got=f"y of type {values.dtype}",
            do='Pass kind=("real", "classes", …), or y of shape (n,)',
        )
    one_hot = np.isin(values, (0, 1)).all() and (values.sum(1) == 1).all()
    if one_hot and kind is None:
        raise DataError(
            "classes must be codes, one a row",
            got=f"y of shape {shape} with a single 1 in each row",
            do='Pass y.argmax(1), or kind="real" if these are numbers to predict',
        )
    labels = torch.from_numpy(values.astype(np.float32))
    if not bool(labels.isfinite().all()):
        row = int((~labels.isfinite()).any(1).nonzero()[0])
        raise DataError(
            "y must be finite everywhere", got=f"{values[row].tolist()} in row {row}", do="Take the row out"
        )
    target = Target("real", dim=shape[1], shift=(0.0,) * shape[1], scale=(1.0,) * shape[1])
    return labels, torch.from_numpy(values.astype(np.float64)), target


def _ranking(values: np.ndarray) -> tuple[Tensor, Tensor, Target]:
    """Rows that hold 0 … k-1 each; what is no permutation is refused by the likelihood too, which knows its form."""
    whole = values.dtype.kind in "iu" or (values.dtype.kind == "f" and (values == np.round(values)).all())
    if not whole:
        raise DataError(
            "a ranking must hold whole numbers, the items from 0 on",
            got=f"y of type {values.dtype}",
            do="Pass scores.argsort(1)[:, ::-1] to rank by score",
        )
    places = torch.from_numpy(values.astype(np.int64))
    return places, places, Target("ranking", dim=values.shape[1])


def _split_by(columns: dict[str, Any], count: int, classes: Tensor | None) -> dict[str, Tensor | None]:
    by: dict[str, Tensor | None] = {}
    for role in ("groups", "time"):
        if columns[role] is not None:
            cells = cells_of(_plain_array(columns[role]), role)
            if role == "groups" or isinstance(cells, Text):
                words, codes = words_of(cells)
                if role == "time":
                    raise DataError(
                        "time must be numbers or dates", got=f"words such as {words[0]!r}", do="Convert them"
                    )
                by[role] = torch.from_numpy(codes)
            else:
                by[role] = torch.from_numpy(cells.astype(np.int64) if cells.dtype.kind == "M" else cells)
    return by or {"stratify": classes}


def _inputs(train: Tensor, names: tuple[str, ...], scale: bool) -> Inputs:
    if names and (train.dim() != 2 or len(names) != train.shape[1]):
        raise UserError(
            "names must name every column of x",
            got=f"{counted(len(names), 'name')} for x of shape {tuple(train.shape[1:])} a row",
            do="Leave names out, or give one a column",
        )
    if not scale:
        return Identity(names)
    if train.dim() > 2:
        return Rescale.fit(train)
    spread = train.double().std(0, unbiased=False)
    lost = (train.double() - train.float().double()).abs().amax(0)
    if bool((lost > 1e-5 * spread).any()) and bool((spread > 0).any()):  # float32 would blur it before it is scaled
        labels = names or tuple(f"x{i}" for i in range(train.shape[1]))
        return TableInputs([Column.fit(label, "number", train[:, i].numpy()) for i, label in enumerate(labels)])
    return Standardize.fit(train, names)


def _weight(weight: Any, count: int) -> Tensor | None:
    if weight is None:
        return None
    values = _as_numbers(weight, "weight", torch.float32)
    if values.shape != (count,):
        raise ShapeError(
            "weight must have one value for each row",
            got=f"shape {tuple(values.shape)} for {counted(count, 'row')}",
            do="Pass (n,)",
        )
    wrong = ~(values.isfinite() & (values >= 0))
    if bool(wrong.any()) or not float(values.sum()) > 0:
        row = int(wrong.nonzero()[0]) if bool(wrong.any()) else 0
        raise DataError(
            "weight must be at least 0, and above 0 in some row",
            got=f"{values[row].item():g} in row {row}",
            do="Correct it",
        )
    return values


def _as_numbers(values: Any, what: str, dtype: torch.dtype) -> Tensor:
    try:
        return torch.as_tensor(_plain_array(values), dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{what} must hold numbers",
            got=f"{type(values).__name__} that does not ({error})",
            do="Pass an array of them",
        ) from None


def _test_split(given: tuple[Any, Any], target: Target, inputs: Inputs, shape: tuple[int, ...]) -> Split:
    x, y = given
    values = _as_numbers(x, "x of the test data", torch.float64 if isinstance(inputs, TableInputs) else torch.float32)
    values = values[:, None] if values.dim() == 1 else values
    if tuple(values.shape[1:]) != shape:
        raise ShapeError(
            "rows of the test data must have the shape of the others",
            got=f"{tuple(values.shape[1:])} and {shape}",
            do="Pass the same columns",
        )
    _check_finite(values, inputs.names)
    if target.columns:
        held_out = zip(target.names, _columns_of(y).values(), strict=False)
        columns = {name: cells_of(_plain_array(cells, keep_words=True), name) for name, cells in held_out}
        labels = known_of(Table(columns, np.arange(len(values)), source="the test data"), target, comma=False)
    elif target.dim > 1:
        labels = _as_numbers(y, "y of the test data", torch.int64 if target.kind == "ranking" else torch.float32)
    else:
        labels = read_known(cells_of(_plain_array(y), target.name), target, lambda row: f"row {row} of the test data")
    return Split(values, labels, None, torch.arange(len(values)))
