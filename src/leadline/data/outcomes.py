"""The columns to be predicted: one as it is, several side by side, or places of a ranking.

    one column                      y (n,)     what it is
    several, all real               y (n, K)   real, of K outputs
    several of different kinds      y (n, K)   each of its own kind; classes by their codes
    a ranking of K items            y (n, K)   the items from the best on, by their codes

Rows without a value in one of them are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.cells import Table
from leadline.data.columns import named
from leadline.data.outcome import Outcome, read_known
from leadline.data.patterns import check_signs
from leadline.data.target import Target
from leadline.data.words import natural
from leadline.errors import DataError, UserError


def kinds_of(kind: str | Sequence[str | None] | None, count: int) -> tuple[str | None, ...]:
    """A kind for each of `count` columns: one word is for all of them.

    >>> kinds_of("positive", 2), kinds_of(("angle", "positive"), 2), kinds_of(None, 1)
    (('positive', 'positive'), ('angle', 'positive'), (None,))
    """
    if kind is None or isinstance(kind, str):
        return (kind,) * count
    if len(kind) == 1:
        return (kind[0],) * count
    if len(kind) != count:
        raise UserError(
            f"kind must be one word, or one for each of {counted(count, 'column')} to predict",
            got=f"{len(kind)}: {', '.join(map(str, kind))}",
            do="Name as many, in the order of the columns",
        )
    return tuple(kind)


def settle(
    outcomes: Sequence[Outcome],
    rows: np.ndarray,
    kinds: Sequence[str | None],
    at: Callable[[int], str],
    order: Sequence[str] = (),
) -> tuple[Tensor, Tensor, Target]:
    """y of `rows`, y before it is rounded to float32, and what it is (without the figures of a training split)."""
    if "ranking" in kinds:
        y, target = _ranking(outcomes, rows, kinds, at)
        return y, y, target
    if "signs" in kinds:
        y, target = _signs(outcomes, rows, kinds)
        return y, y, target
    if order:
        kinds = _ordered(outcomes, kinds)
    parts = [outcome.settle(rows, kind, at, order) for outcome, kind in zip(outcomes, kinds, strict=True)]
    exact = [outcome.exactly(rows, y) for outcome, (y, _) in zip(outcomes, parts, strict=True)]
    if len(parts) == 1:
        return parts[0][0], exact[0], parts[0][1]
    y = torch.stack([column.float() for column, _ in parts], 1)
    return y, torch.stack([column.double() for column in exact], 1), Target.of(*(target for _, target in parts))


def strata(y: Tensor, target: Target) -> Tensor | None:
    """The classes that every split should have its part of: of several columns, those of the first that has classes."""
    if target.discrete:
        return y
    if target.kind in ("ranking", "signs"):
        return None
    return next((y[:, k].long() for k, column in enumerate(target.columns) if column.discrete), None)


def known_of(table: Table, target: Target, comma: bool) -> Tensor:
    """y of a table whose target is settled already; every row must have it."""
    for name in target.names:
        if name not in table.columns:
            raise DataError(
                f"{table.source} must have the column {name}, to compare with",
                got=f"{len(table.columns)} others",
                do=named(name, list(table.columns)).rstrip("."),
            )
    parts = []
    for name, column in zip(target.names, target.columns or (target,), strict=True):
        y = read_known(table.columns[name], column, table.at, comma)
        gap = y.isnan() if y.is_floating_point() else y < 0
        if bool(gap.any()):
            raise DataError(
                f"{name} must have a value in every row of {table.source}",
                got=f"none in {table.at(int(gap.nonzero()[0]))}",
                do="Take the row out",
            )
        parts.append(y)
    if not target.columns:
        return parts[0]
    if target.kind == "ranking":
        y = torch.stack(parts, 1)
        _check_places(y, target, np.arange(len(y)), table.at)
        return y
    return torch.stack([y.float() for y in parts], 1)


def _signs(outcomes: Sequence[Outcome], rows: np.ndarray, kinds: Sequence[str | None]) -> tuple[Tensor, Target]:
    names = ", ".join(outcome.name for outcome in outcomes)
    if set(kinds) != {"signs"} or any(outcome.values is None for outcome in outcomes):
        raise DataError(
            "a pattern must have a column of -1 and +1 for each bit, and nothing beside them",
            got=f"{names}, kind {', '.join(map(str, kinds))}",
            do='Pass kind="signs" for all, or predict the other columns by themselves',
        )
    bits = np.stack([np.asarray(outcome.values)[rows] for outcome in outcomes], 1)
    y = torch.from_numpy(check_signs("a pattern", bits))
    columns = tuple(Target("signs", outcome.name) for outcome in outcomes)
    return y, Target("signs", names, dim=len(outcomes), columns=columns)


def _ordered(outcomes: Sequence[Outcome], kinds: Sequence[str | None]) -> tuple[str | None, ...]:
    """An order makes the one column ordered; of several, those must be that say so."""
    if len(outcomes) == 1 and kinds[0] in (None, "ordered"):
        return ("ordered",)
    if "ordered" not in kinds:
        raise UserError(
            "order must come with a target that is ordered",
            got=f"kind {', '.join(str(kind) for kind in kinds)}",
            do='Pass kind="ordered", one kind for each column where there are several',
        )
    return tuple(kinds)


def _ranking(
    outcomes: Sequence[Outcome], rows: np.ndarray, kinds: Sequence[str | None], at: Callable[[int], str]
) -> tuple[Tensor, Target]:
    names = ", ".join(outcome.name for outcome in outcomes)
    if len(outcomes) < 2 or set(kinds) != {"ranking"}:
        raise DataError(
            "a ranking must have a column for each place, and nothing beside them",
            got=f"{counted(len(outcomes), 'column')}, {names}",
            do="Name the columns of the first, second … place as the targets",
        )
    seen = {outcome.words[code] for outcome in outcomes for code in np.unique(outcome.codes[rows])}
    items = tuple(sorted((word for word in seen if word is not None), key=natural))
    target = Target(
        "ranking", names, items, dim=len(outcomes),
        columns=tuple(Target("classes", outcome.name, items) for outcome in outcomes),
    )  # fmt: skip
    if len(items) != len(outcomes):
        raise DataError(
            f"a ranking of {len(outcomes)} columns must have {len(outcomes)} items, the best in the first",
            got=f"{len(items)}: {', '.join(items[:6])}{', …' if items[6:] else ''}",
            do="Name a column for each place; if a column is an item and holds its place, turn the table around first",
        )
    code = {name: i for i, name in enumerate(items)}
    columns = []
    for outcome in outcomes:
        of_word = np.array([-1 if word is None else code.get(word, -1) for word in outcome.words], dtype=np.int64)
        columns.append(torch.from_numpy(of_word[outcome.codes[rows]]))
    y = torch.stack(columns, 1)
    _check_places(y, target, rows, at)
    return y, target


def _check_places(y: Tensor, target: Target, rows: np.ndarray, at: Callable[[int], str]) -> None:
    """Every item once in each row."""
    wrong = (y.sort(1).values != torch.arange(target.dim)).any(1).nonzero().flatten()
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            "a ranking must hold every item once in each row",
            got=f"{', '.join(target.decode(y[row]))} in {at(int(rows[row]))}",
            do="Correct the row or leave it out",
        )
