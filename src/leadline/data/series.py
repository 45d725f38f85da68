"""Own series: a table with a row for each moment becomes `Data` of windows and what follows them.

import leadline as ll
data = ll.data.series("sales.csv", target="sales", time="date", horizon=12)
data = ll.data.series(frame, target="load", time="hour", group="meter", known=["holiday"], static=["region"])

The last part of the time is tested on, the part before it validates. A row belongs to the part in which all the values
lie that are asked of it; its window may reach back into earlier parts, as it will when it is used. Means, deviations,
the season and the levels of categories are those of the training part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leadline.config import plain
from leadline.data.account import Account
from leadline.data.arguments import checked
from leadline.data.data import Data, Split
from leadline.data.frame import stem
from leadline.data.raw import writes_comma
from leadline.data.series_account import column_lines, comma_lines, made_lines
from leadline.data.series_columns import (
    check_columns,
    check_static,
    check_values,
    first_rows,
    fitted_columns,
    past_columns,
)
from leadline.data.series_moments import days_of_zones, with_dates
from leadline.data.series_parts import (
    check_parts,
    cuts_of,
    every_of,
    kept_of,
    origins_of,
    split_of,
    too_broken,
    until_of,
)
from leadline.data.series_rows import GAPS, Roles, series_of
from leadline.data.series_season import drifts, season_and_window, swings
from leadline.data.series_windows import LEVELLED, Figures, Windows
from leadline.data.table import rows_of
from leadline.data.target import SEVERAL, Target
from leadline.errors import UserError
from leadline.settings import given, whole

KINDS = ("real", *LEVELLED)
MOVES = ("auto", "fixed", "moving")


@checked
def series(
    path: Any,
    target: str,
    *,
    horizon: int,
    time: str | None = None,
    window: int | None = None,
    group: str | None = None,
    season: int | None = None,
    static: Sequence[str] = (),
    known: Sequence[str] = (),
    drop: Sequence[str] = (),
    kind: str = "real",
    level: str = "auto",
    unit: str = "auto",
    gaps: str = "error",
    every: int | None = None,
    val: float = 0.15,
    test: float = 0.2,
) -> Data:
    """The series in a file or a data frame.

    Args:
        path: a file as of `table`, or a data frame, a dictionary of columns or a list of dictionaries.
        target: the column to forecast.
        horizon: how many of its next values are asked for, at least 1.
        time: the column of dates or numbers that orders the rows; by default the index of a frame of pandas, where it
            holds dates, and else rows are in order.
        window: steps that are read before them, at least 1; by default two seasons or two horizons, the longer.
        group: a column whose equal values are one series; by default there is one.
        season: steps after which the series repeats itself, at least 1; by default a day of hours, a week of days,
            a year of months, or else the lag at which it is most like itself, if that tells more than the last value.
        static: columns that are the same at all steps of a series, numbers or words.
        known: columns that are known ahead, such as holidays; rows at the end without a target tell of the future.
        drop: columns to leave out; all others of numbers are read up to the moment of the forecast.
        kind: what the target is: real, positive or count.
        level: "moving" reads and asks values relative to the mean of the last season that is seen, "fixed" as they
            are; "auto" moves with a real target whose level drifts in the training part.
        unit: "moving" reads and asks them in units of the deviation of the window, "fixed" in one for all; "auto" moves
            with a real target that strays as far as its window did in the training part.
        gaps: what becomes of a missing step: "error", "fill" it with the value before, or "join" its neighbours.
        every: steps from one window to the next, at least 1; by default 1, more where they would fill the memory.
        val, test: parts of the time, each from 0 and together below 1, test last.

    >>> month = [f"{year}-{m:02d}-01" for year in range(2000, 2010) for m in range(1, 13)]
    >>> data = series({"month": month, "sales": [float(k % 12) for k in range(120)]}, "sales", time="month", horizon=3)
    >>> data
    Data(frame: train 52, val 16, test 22; x (24, 4); y sales: real (3 values))
    >>> data.inputs.channels, data.inputs.season
    (('sales', 'sine of year', 'cosine of year', 'there'), 12)
    """
    horizon = whole("horizon", horizon, 1, usual=12)
    for name, value in (("window", window), ("season", season), ("every", every)):
        if value is not None:
            whole(name, value, 1)
    words = (("kind", kind, KINDS), ("gaps", gaps, GAPS), ("level", level, MOVES), ("unit", unit, MOVES))
    for name, word, legal in words:
        if word not in legal:
            raise UserError(
                f"{name} must be {', '.join(legal[:-1])} or {legal[-1]}", got=given(name, word), do="Pick one"
            )
    for name, word in (("level", level), ("unit", unit)):
        if word == "moving" and kind != "real":
            raise UserError(f"a moving {name} needs a real target", got=f"kind={kind!r}", do="Leave one of them out")
    check_parts(val, test)
    path, dates = with_dates(path)
    time = dates if time is None else time
    table, place = rows_of(path, "path")
    table = days_of_zones(table)
    roles = Roles(target, time, group, gaps=gaps)
    left_out = check_columns(table, roles, static, known, drop)
    roles = replace(roles, past=past_columns(table, roles, (*static, *known, *drop), left_out))
    found, clock, notes = series_of(table, roles)
    check_values(table, roles, kind)
    cuts = cuts_of(found, horizon, val, test, table.source)
    kept, refused = kept_of(found, roles, cuts, horizon, table.source)
    parts = [one.values[: cuts[0] - one.begin] for one in kept]
    # rows that were joined over gaps are no steps of the calendar
    whole_steps = all(clock.places(one.moments)[0][-1] == len(one.moments) - 1 for one in kept)
    calendar = clock.season if whole_steps else None
    season, window, told = season_and_window(parts, calendar, season, window, horizon, not clock.annual)
    moving = level == "moving" or (level == "auto" and kind == "real" and drifts(parts, season, horizon))
    own_unit = unit == "auto" and kind == "real" and swings(parts, season, horizon, window, moving)
    inputs = Windows(
        roles,
        horizon,
        window,
        season,
        kind,
        clock,
        [Figures.of(one, cuts[0] - one.begin, season) for one in kept],
        clock.cycles(np.concatenate([one.moments[: cuts[0] - one.begin] for one in kept])),
        fitted_columns(table, known, np.concatenate([one.rows[: cuts[0] - one.begin] for one in kept]), "known"),
        fitted_columns(first_rows(table, kept), static, np.arange(len(kept)), "static"),
        moving,
        own_unit or unit == "moving",
        until_of(kept, cuts[0]),
        comma=writes_comma(table.columns.values()),
    )
    check_static(table, inputs, kept)
    laid = [own for own in inputs.laid(table) if inputs.place(own.one.name) is not None]
    step = every or every_of(laid, inputs, cuts)
    learned = [origins_of(own, inputs, cuts, 0, step) for own in laid]
    if kind == "real" and any(map(len, learned)):
        inputs = inputs.with_linear(laid, learned)
    train, held, tested = (split_of(laid, inputs, cuts, part, step, table) for part in range(3))
    if not len(train):
        raise too_broken(table.source, laid, cuts[0], horizon)
    options = {"target": target, "horizon": horizon, "time": time, "window": window, "group": group, "season": season}
    options |= {"static": static, "known": known, "drop": drop, "kind": kind, "level": level, "unit": unit}
    options |= {"gaps": gaps, "every": every, "val": val, "test": test}
    recipe = None if place is None else {"source": "series", "options": plain({"path": str(place), **options})}
    account = Account(
        table.source,
        read=len(table) + sum(refusal.count for refusal in table.refused),
        refused=(*table.refused, *refused),
        columns=(*column_lines(inputs), *left_out),
        notes=(
            *table.notes,
            *comma_lines(table, inputs),
            *notes,
            told,
            *made_lines(inputs, kept, cuts, step),
        ),
        numbered=f"{table.word}s",
    )
    name = "frame" if place is None else stem(Path(place))
    return Data(train, held, tested, _target(train, inputs), inputs, name, recipe, account)


def _target(train: Split, inputs: Windows) -> Target:
    """What y is, in the unit of the training rows."""
    found = Target.real(train.y, inputs.roles.target)
    if inputs.kind == "real" or inputs.horizon == 1:
        return replace(found, kind=inputs.kind)
    columns = tuple(
        Target(inputs.kind, name, shift=(shift,), scale=(scale,))
        for name, shift, scale in zip(found.names, found.shift, found.scale)
    )
    return replace(found, kind=SEVERAL, columns=columns)
