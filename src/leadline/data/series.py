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
import torch

from leadline.config import plain
from leadline.data.account import Account, Refusal, counted
from leadline.data.arguments import checked
from leadline.data.cells import Table
from leadline.data.clock import Clock
from leadline.data.columns import Column
from leadline.data.data import Data, Split
from leadline.data.features import Feature, feature
from leadline.data.frame import stem
from leadline.data.outcome import read_outcome
from leadline.data.raw import writes_comma
from leadline.data.series_rows import GAPS, Roles, Series, check_column, series_of
from leadline.data.series_windows import LEVELLED, Figures, Laid, Windows, answer, last_means
from leadline.data.table import rows_of
from leadline.data.target import SEVERAL, Target
from leadline.errors import DataError, UserError
from leadline.settings import given, real, whole

KINDS = ("real", *LEVELLED)
LEVELS = ("auto", "fixed", "moving")
_MOST_BYTES = 2**30  # of training windows, above which they are taken further apart
_LONGEST_SEASON = 400  # steps among which a season is searched for
_LEAST_LIKENESS = 0.2  # autocorrelation below which there is no season
_SEARCHED = 50  # series in which it is searched
_SHORTEST = 8  # window that is taken where none is named
_SHOWN = 5
_STILL = 0.01  # of the variance of a series, below which its level stands still
_LESS = 0.5  # of the squared distance, for a level to be one that moves


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
        time: the column of dates or numbers that orders the rows; by default they are in order.
        window: steps that are read before them, at least 1; by default two seasons or two horizons, the longer.
        group: a column whose equal values are one series; by default there is one.
        season: steps after which the series repeats itself, at least 1; by default a day of hours, a week of days,
            a year of months, or else the lag at which it is most like itself.
        static: columns that are the same at all steps of a series, numbers or words.
        known: columns that are known ahead, such as holidays; rows at the end without a target tell of the future.
        drop: columns to leave out; all others of numbers are read up to the moment of the forecast.
        kind: what the target is: real, positive or count.
        level: "moving" reads and asks values relative to the mean of the last season that is seen, "fixed" as they
            are; "auto" moves with a real target whose level drifts in the training part.
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
    for name, word, legal in (("kind", kind, KINDS), ("gaps", gaps, GAPS), ("level", level, LEVELS)):
        if word not in legal:
            raise UserError(f"{name} must be {', '.join(legal[:-1])} or {legal[-1]}", got=given(name, word), do="Pick")
    if level == "moving" and kind != "real":
        raise UserError("a moving level is of a real target", got=f"kind={kind!r}", do="Leave one of them out")
    _check_parts(val, test)
    table, place = rows_of(path, "path")
    roles = Roles(target, time, group, gaps=gaps)
    left_out = _check_columns(table, roles, static, known, drop)
    roles = replace(roles, past=_past(table, roles, (*static, *known, *drop), left_out))
    found, clock, notes = series_of(table, roles)
    _check_values(table, roles, kind)
    cuts = _cuts(found, horizon, val, test, table.source)
    kept, refused = _kept(found, roles, cuts, horizon, table.source)
    parts = [one.values[: cuts[0] - one.begin] for one in kept]
    season, window, told = _season_and_window(parts, clock, season, window, horizon)
    inputs = Windows(
        roles,
        horizon,
        window,
        season,
        kind,
        clock,
        [Figures.of(one, cuts[0] - one.begin, season) for one in kept],
        clock.cycles(np.concatenate([one.moments[: cuts[0] - one.begin] for one in kept])),
        _columns(table, known, np.concatenate([one.rows[: cuts[0] - one.begin] for one in kept]), "known"),
        _columns(_first_rows(table, kept), static, np.arange(len(kept)), "static"),
        level == "moving" or (level == "auto" and kind == "real" and drifts(parts, season, horizon)),
    )
    _check_static(table, inputs, kept)
    laid = [own for own in inputs.laid(table) if inputs.place(own.one.name) is not None]
    step = every or _every(laid, inputs, cuts)
    train, held, tested = (_split(laid, inputs, cuts, part, step, table) for part in range(3))
    if not len(train):
        raise _too_short(table.source, max(map(len, found)), horizon, val, test)
    options = {"target": target, "horizon": horizon, "time": time, "window": window, "group": group, "season": season}
    options |= {"static": static, "known": known, "drop": drop, "kind": kind, "level": level}
    options |= {"gaps": gaps, "every": every, "val": val, "test": test}
    recipe = None if place is None else {"source": "series", "options": plain({"path": str(place), **options})}
    account = Account(
        table.source,
        read=len(table) + sum(refusal.count for refusal in table.refused),
        refused=(*table.refused, *refused),
        columns=(*_lines(inputs), *left_out),
        notes=(*table.notes, *notes, told, *_told(inputs, kept, cuts, step)),
        numbered=f"{table.word}s",
    )
    name = "frame" if place is None else stem(Path(place))
    return Data(train, held, tested, _target(train, inputs), inputs, name, recipe, account)


def _check_parts(val: float, test: float) -> None:
    if not (real("val", val) >= 0 and real("test", test) >= 0 and val + test < 1):
        raise UserError(
            "val and test must be fractions that leave time to train on",
            got=f"val={val}, test={test}",
            do="Usual values are val=0.15 and test=0.2",
        )


def _check_columns(
    table: Table, roles: Roles, static: Sequence[str], known: Sequence[str], drop: Sequence[str]
) -> list[str]:
    """Refuse names that are not there, or in two roles; a line on each column that is left out as asked."""
    roles.check(table)
    taken = {roles.target: "target", roles.time: "time"}
    for role, names in (("static", static), ("known", known), ("drop", drop)):
        for name in names:
            check_column(table, role, name)
            if name in taken:
                raise DataError("a column must have one role", got=f"{name!r} as {taken[name]} and {role}", do="Pick")
            taken[name] = role
    return [f"{name}: left out, as asked" for name in drop]


def _past(table: Table, roles: Roles, others: Sequence[str], left_out: list[str]) -> tuple[str, ...]:
    """All other columns of numbers; a line is added on each that is none."""
    found = []
    comma = writes_comma(table.columns.values())
    for name, cells in table.columns.items():
        if name in (roles.target, roles.time, roles.group, *others):
            continue
        item = feature(name, cells, table, comma=comma)
        if isinstance(item, Feature) and item.kind in ("number", "flag") and not item.misfit.any():
            if item.kind == "number":
                found.append(name)
                continue
            item = "a flag"
        why = item if isinstance(item, str) else f"a {item.kind}"
        left_out.append(f"{name}: left out, {why.removeprefix('left out: ')}; known or static columns may be such")
    return tuple(found)


def _check_values(table: Table, roles: Roles, kind: str) -> None:
    """Refuse a constant target, and numbers that are not of its kind."""
    outcome = read_outcome(roles.target, table.columns[roles.target], writes_comma(table.columns.values()))
    outcome.settle(np.flatnonzero(~outcome.missing), kind, table.at)


def _cuts(found: Sequence[Series], horizon: int, val: float, test: float, source: str) -> tuple[int, int]:
    """The steps at which validation and test begin, on the clock of all series; each has room for a horizon."""
    if max(map(len, found)) <= horizon:
        raise DataError(
            f"a series must be longer than the horizon of {counted(horizon, 'step')}",
            got=f"{counted(max(map(len, found)), 'value')} in {source}",
            do="Forecast fewer steps, or bring a longer one",
        )
    begin, end = min(one.begin for one in found), max(one.begin + len(one) for one in found)
    alive = np.zeros(end - begin + 1, dtype=np.int64)
    for one in found:
        alive[one.begin - begin] += 1
        alive[one.begin - begin + len(one)] -= 1
    share = np.cumsum(np.cumsum(alive[:-1])) / sum(map(len, found))  # of all values, up to and with each step
    cut = [begin + int(np.searchsorted(share, part - 1e-9)) + 1 for part in (1 - val - test, 1 - test)]
    tested = min(cut[1], end - horizon) if test > 0 else end
    return min(cut[0], tested - horizon) if val > 0 else tested, tested


def _kept(
    found: Sequence[Series], roles: Roles, cuts: tuple[int, int], horizon: int, source: str
) -> tuple[list[Series], list[Refusal]]:
    """The series with something to learn from, and why the others are left out."""
    kept: list[Series] = []
    lost: dict[str, list[Series]] = {}
    for one in found:
        values = one.values[: max(0, cuts[0] - one.begin)]
        if len(values) <= horizon:
            lost.setdefault(f"fewer than {horizon + 1} values in the training part", []).append(one)
        elif (values == values[0]).all():
            lost.setdefault("constant in the training part", []).append(one)
        else:
            kept.append(one)
    if not kept:
        why = "; ".join(f"{counted(len(which), 'series', 'series')} {reason}" for reason, which in lost.items())
        raise DataError(
            f"{roles.target} must vary in a training part that is longer than the horizon of "
            f"{counted(horizon, 'step')}",
            got=f"{why}: the training part of {source} ends after {max(0, cuts[0] - min(o.begin for o in found))} of "
            f"{max(map(len, found))} steps",
            do="Bring a longer series, forecast fewer steps, or test and validate on less",
        )
    refused = []
    for reason, which in lost.items():
        names = ", ".join(one.name for one in which[:_SHOWN]) + (", …" if which[_SHOWN:] else "")
        refused.append(Refusal(f"{roles.group} {names}: {reason}", sum(len(one.rows) for one in which)))
    return kept, refused


def _too_short(source: str, count: int, horizon: int, val: float, test: float) -> DataError:
    parts = 1 + (val > 0) + (test > 0)
    return DataError(
        f"{source} must have room for a horizon of {counted(horizon, 'step')} in each of {parts} parts, and a step "
        "before them",
        got=f"{counted(count, 'value')}",
        do=f"Forecast at most {max(1, (count - 1) // parts)}, or bring a longer series",
    )


def _season_and_window(
    parts: Sequence[np.ndarray], clock: Clock, season: int | None, window: int | None, horizon: int
) -> tuple[int, int, str]:
    """m and W, and how m was found."""
    longest = max(map(len, parts))
    how = "as told"
    if season is None:
        season, how = clock.season, "of the calendar"
        if season is None or 2 * season > longest or (window is not None and season > window):
            most = min(_LONGEST_SEASON, longest // 2, window or longest)
            season, how = season_of(parts, most), "the lag at which it is most like itself"
    if window is None:
        window = max(1, min(max(2 * season, 2 * horizon, _SHORTEST), longest - horizon))
        season = season if season <= window or how == "as told" else 1
    if season > window:
        raise UserError(
            "a window must hold a season",
            got=f"window={window}, season={season}",
            do=f"Pass window={season} or more, if the series is long enough",
        )
    told = f"a season of {counted(season, 'step')}, {how}" if season > 1 else "no season"
    return season, window, told


def season_of(parts: Sequence[np.ndarray], most: int) -> int:
    """The lag, from 2 to `most`, at which series without their trend are most like themselves; 1 where none stands out.

    >>> season_of([np.sin(np.arange(60) * 2 * np.pi / 12) + 0.1 * np.arange(60)], 30)
    12
    """
    likeness = np.zeros(most + 2)
    weight = 0
    for values in sorted(parts, key=len)[-_SEARCHED:]:
        n = len(values)
        if n < 8:
            continue
        rest = values - np.polynomial.Polynomial.fit(np.arange(n), values, 1)(np.arange(n))
        power = float(rest @ rest)
        if power <= 1e-18 * float(values @ values) or power == 0:
            continue
        wave = np.fft.rfft(rest, 2 * n)
        own = np.fft.irfft(wave * wave.conj())[: most + 2] / power
        likeness[: len(own)] += n * own
        weight += n
    if not weight:
        return 1
    likeness /= weight
    inner = likeness[2:-1] if most >= 2 else likeness[:0]
    peaks = (inner > likeness[1 : 1 + len(inner)]) & (inner >= likeness[3 : 3 + len(inner)])
    peaks &= inner > max(_LEAST_LIKENESS, 2 / np.sqrt(weight))
    return int(np.where(peaks, inner, -np.inf).argmax()) + 2 if peaks.any() else 1


def drifts(parts: Sequence[np.ndarray], season: int, horizon: int) -> bool:
    """Whether the mean of what comes is told better by the mean of the last season than by that of all: whether its
    squared distance from it is less than half of that from the other.

    >>> steps = np.arange(200.0)
    >>> drifts([steps], 1, 5), drifts([np.sin(steps)], 6, 5)
    (True, False)
    """
    moved, spread, count = 0.0, 0.0, 0
    for values in parts:
        ahead = max(season, horizon)
        origins = np.arange(season - 1, len(values) - ahead)
        if len(origins) < _SHORTEST or values.std() == 0:
            continue
        z = (values - values.mean()) / values.std()
        coming = last_means(z, ahead)[origins + ahead]
        moved += float(np.square(coming - last_means(z, season)[origins]).sum())
        spread += float(np.square(coming - coming.mean()).sum())
        count += len(origins)
    return moved < _LESS * spread and spread > _STILL * count


def _first_rows(table: Table, kept: Sequence[Series]) -> Table:
    """A row for each series that is kept."""
    mask = np.zeros(len(table), dtype=bool)
    mask[[one.rows[0] for one in kept]] = True
    return table.keep(mask)


def _columns(table: Table, names: Sequence[str], train: np.ndarray, role: str) -> list[Column]:
    """Columns of numbers, flags, categories or dates, with the figures of the training rows."""
    comma, found = writes_comma(table.columns.values()), []
    for name in names:
        item = feature(name, table.columns[name], table, comma=comma)
        if isinstance(item, str) and role == "static":  # a word of its own for each series says which it is
            item = feature(name, table.columns[name], table, forced=True, comma=comma)
        if isinstance(item, str):
            raise DataError(
                f"{role} columns must be numbers, yes or no, dates or words", got=f"{name}, {item}", do="Leave it out"
            )
        found.append(item.fit(np.arange(len(table)), np.unique(train))[0])
    return found


def _check_static(table: Table, inputs: Windows, kept: Sequence[Series]) -> None:
    if not inputs.static.width:
        return
    raw = np.nan_to_num(inputs.static.read(table).numpy(), nan=np.inf)
    for one in kept:
        moved = (raw[one.rows] != raw[one.rows[:1]]).nonzero()
        if len(moved[0]):
            name = inputs.static.names[int(moved[1][0])]
            of = f" of {inputs.roles.group} {one.name}" if inputs.several else ""
            raise DataError(
                "a static column must be the same at all steps of a series",
                got=f"{name}, which changes in {table.at(int(one.rows[moved[0][0]]))}{of}",
                do="Name it in known if it is known ahead, or leave it out of static",
            )


def _bounds(own: Laid, inputs: Windows, cuts: tuple[int, int], part: int) -> tuple[int, int]:
    """The steps of a series between which the values of a part lie."""
    n, begin = len(own.one), own.one.begin
    edges = [0, *(min(max(cut - begin, 0), n) for cut in cuts), n]
    first, end = edges[part], edges[part + 1]
    if part == 0:  # whole windows, if there are any; else half of what there is
        room = end - inputs.horizon
        first = inputs.window if room >= inputs.window else max(1, (room + 1) // 2)
    return first, end


def _every(laid: Sequence[Laid], inputs: Windows, cuts: tuple[int, int]) -> int:
    bounds = [_bounds(own, inputs, cuts, 0) for own in laid]
    count = sum(max(0, end - first - inputs.horizon + 1) for first, end in bounds)
    return max(1, -(-count * inputs.length * len(inputs.channels) * 4 // _MOST_BYTES))


def _split(laid: Sequence[Laid], inputs: Windows, cuts: tuple[int, int], part: int, step: int, table: Table) -> Split:
    """The windows of a part, every `step`-th of them, the last among them."""
    origins = [inputs.whole(own, *_bounds(own, inputs, cuts, part))[::-1][::step][::-1] for own in laid]
    counts = torch.tensor([len(some) for some in origins])
    pairs = list(zip(laid, origins))
    code = torch.arange(len(laid)).repeat_interleave(counts)
    return Split(
        torch.cat([inputs.windows(own, some) for own, some in pairs]),
        answer(np.concatenate([inputs.asked(own, some) for own, some in pairs])),
        rows=torch.from_numpy(np.concatenate([table.numbers[own.one.rows[some]] for own, some in pairs])),
        group=code if inputs.several else None,
        time=torch.from_numpy(np.concatenate([own.one.moments[some] for own, some in pairs])),
    )


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


def _lines(inputs: Windows) -> list[str]:
    """A line on each column that is used."""
    roles = inputs.roles
    lines = [f"{roles.target}: {inputs.kind}, the target: {counted(inputs.horizon, 'value')} behind each window"]
    if roles.time is not None:
        places = "".join(f", place in the {cycle}" for cycle in inputs.cycles)
        lines.append(f"{roles.time}: the time, a step is {inputs.clock.step()}{places}")
    if roles.group is not None:
        lines.append(f"{roles.group}: the group, {counted(len(inputs.figures), 'series', 'series')}")
    lines += [f"{name}: number, read up to the moment of the forecast" for name in roles.past]
    for columns, how in ((inputs.known, "known ahead"), (inputs.static, "the same at all steps")):
        lines += [f"{column.line()}, {how}" for column in columns.columns]
    return lines


def _told(inputs: Windows, kept: Sequence[Series], cuts: tuple[int, int], step: int) -> list[str]:
    """How windows and parts were made."""
    lines = [f"windows of {counted(inputs.window, 'step')}" + (f", every {step} steps" if step > 1 else "")]
    longest = max(kept, key=lambda one: one.begin + len(one))
    ends = [longest.begin, *cuts, longest.begin + len(longest)]
    begun = [(word, cut) for word, cut, end in zip(("validated", "tested"), cuts, ends[2:]) if ends[0] <= cut < end]
    if inputs.roles.time is not None and begun:
        moments = inputs.clock.written(longest.moments[[cut - longest.begin for _, cut in begun]])
        lines.append(", ".join(f"{word} from {moment} on" for (word, _), moment in zip(begun, moments)))
    if inputs.moving:
        lines.append(f"the level drifts: y is what is added to the mean of the last {counted(inputs.season, 'step')}")
    if inputs.scaled:
        lines.append("y and its metrics are in deviations of each series from its mean in the training part")
    return lines
