"""Windows of a series as a network reads them: what was, and after it what is known of what will be.

    z_t = (v_t - shift) / scale                       mean and deviation of the series' training part         (1)
    x   = z_{o-W+1} … z_o  (o+1 … o+H)  0 …           o the last step that is seen; padding after it         (2)
    y   = v_{o+1} … v_{o+H}                           as measured; of several series z in place of v          (3)
    z - l_o, y - l_o  with  l_o = mean z_{o-m+1} … z_o   in place of z and y where the level moves            (4)
    (z - l_o) / s_o, (y - l_o) / s_o                  where the unit moves too; l_o is 0 where it does not    (5)
    s_o² = (Σ (z - mean)² + n) / (W + n)              over the window; n = 4 values of the usual deviation, 1  (6)
    naive_{o+h} = z_{o+h-m⌈h/m⌉}                      the value of a season ago; z_o where there is none      (7)

A network that has learned from values around 100 knows nothing of values around 200. By (4) both look alike to it, and
what is forecast is the way from the mean of the last season. By (5) swings that have grown look as they did, and the
intervals around them grow alike.

A step has the channels: target, other variables up to o, what is known ahead, sine and cosine of its place in day, week
and year, what is the same at all steps, log s_o where the unit moves, and a last one that is 1 where there is a step.
Where columns are known ahead, the H steps after o follow with target and variables 0, and a channel that marks them.

Notation   W -> window,  H -> horizon,  m -> season,  o -> origin
Shapes     x (N, T, C + 1), T = W, or W + H;  y (N, H), (N,) where H is 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.config import plain
from leadline.data.account import counted
from leadline.data.cells import Table, table_of
from leadline.data.clock import Clock
from leadline.data.columns import Column, TableInputs
from leadline.data.data import Split
from leadline.data.inputs import Inputs
from leadline.data.series_linear import Linear, season_ago
from leadline.data.series_moments import days_of_zones, with_dates
from leadline.data.series_rows import Roles, Series, series_of
from leadline.errors import DataError, ShapeError

LEVELLED = ("count", "positive")  # kinds that stay as they are measured, where there are several series
_USUAL = 4.0  # n of eq. 6
_DATES = ("order", "weekdays", "day", "days", "look", "zone")  # what a clock knows and training never sees
_ROWS = 4096  # windows that are looked at together


@dataclass(frozen=True)
class Figures:
    """What the training part of a series says of it.

    Args:
        name: of the series.
        shift, scale: mean and deviation of the target.
        error: mean distance of a value from that of a season before; 0 where it is not known.
        past: mean and deviation of each other variable.
    """

    name: str
    shift: float = 0.0
    scale: float = 1.0
    error: float = 0.0
    past: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, one: Series, steps: int, season: int) -> Figures:
        """Those of the first so many steps."""
        values, made = one.values[:steps], one.made[:steps]
        apart = np.abs(values[season:] - values[:-season])[~made[season:]] if len(values) > season else np.empty(0)
        past = tuple(_mean_and_deviation(column[~np.isnan(column)]) for column in one.past[:steps].T)
        return cls(one.name, *_mean_and_deviation(values), float(apart.mean()) if len(apart) else 0.0, past)


def _mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """A constant keeps its scale."""
    if not len(values):
        return 0.0, 1.0
    deviation = float(values.std())
    return float(values.mean()), deviation if deviation > 1e-12 * float(np.abs(values).max()) else 1.0


@dataclass(frozen=True, eq=False)
class Laid:
    """A series laid out in channels.

    Args:
        one: the series.
        figures: its own.
        seen, ahead: channels of each step where it lies after the origin of a forecast, and where it is ahead.
    """

    one: Series
    figures: Figures
    seen: np.ndarray
    ahead: np.ndarray


class Windows(Inputs):
    """Raw rows are windows, made of a table by `read`; a network reads them as they are.

    Args:
        roles: what the columns of a table are.
        horizon: H, at least 1.
        window: W, at least 1.
        season: m, at least 1.
        kind: of the target: real, or one of `LEVELLED`.
        clock: the steps of time.
        figures: of each series of the training part; none where they have no names.
        cycles: of the calendar, that are read.
        known, static: columns that are known ahead, and those that are the same at all steps of a series.
        moving: eq. 4, for a target of kind real.
        own_unit: eq. 5, for a target of kind real.
        until: the moment at which the training part ends; None where it is not known.
        linear: what forecasts are weighed against, for a target of kind real; None where there is nothing.
        comma: the table of training writes decimals with a comma.
        dates: what `clock` knows of the dates there, where it does not say it itself.

    >>> inputs = Windows(Roles("sales"), horizon=2, window=3, clock=Clock("row"), figures=[Figures("", 2.0, 1.0)])
    >>> inputs.read({"sales": [1.0, 2.0, 3.0, 4.0]})[0].tolist()
    [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]
    """

    aside = ("linear", "comma", "dates")

    def __init__(
        self,
        roles: Roles | Mapping[str, Any],
        horizon: int,
        window: int,
        season: int = 1,
        kind: str = "real",
        clock: Clock | Mapping[str, Any] = Clock("row"),  # noqa: B008 - frozen
        figures: Sequence[Figures | Sequence[Any]] = (),
        cycles: Sequence[str] = (),
        known: Sequence[Column | Mapping[str, Any]] = (),
        static: Sequence[Column | Mapping[str, Any]] = (),
        moving: bool = False,
        own_unit: bool = False,
        until: float | None = None,
        linear: Linear | Mapping[str, Any] | None = None,
        comma: bool = False,
        dates: Mapping[str, Any] | None = None,
    ):
        self.roles = roles if isinstance(roles, Roles) else Roles(**{**roles, "past": tuple(roles.get("past", ()))})
        self.horizon, self.window, self.season, self.kind = horizon, window, season, kind
        self.clock = clock if isinstance(clock, Clock) else _clock(clock, dates or {})
        self.figures = tuple(f if isinstance(f, Figures) else _figures(f) for f in figures)
        self.cycles, self.moving, self.own_unit = tuple(cycles), moving, own_unit
        self.until, self.comma = until, comma
        self.linear = linear if linear is None or isinstance(linear, Linear) else _linear(linear)
        self.known, self.static = TableInputs(known), TableInputs(static)
        self._place = {own.name: k for k, own in enumerate(self.figures)}
        levels = np.log1p([max(own.shift, 0.0) for own in self.figures])
        self._level = _mean_and_deviation(np.asarray(levels))

    @property
    def config(self) -> dict[str, Any]:
        names = ("horizon", "window", "season", "kind", "moving", "own_unit", "until", "comma")
        own: dict[str, Any] = {name: getattr(self, name) for name in names}
        return plain(
            {
                "roles": asdict(self.roles),
                **own,
                "linear": None if self.linear is None else asdict(self.linear),
                "clock": {k: v for k, v in asdict(self.clock).items() if k not in _DATES and (k != "form" or v)},
                "dates": {name: getattr(self.clock, name) for name in _DATES},
                "figures": [(f.name, f.shift, f.scale, f.error, f.past) for f in self.figures],
                "cycles": self.cycles,
                "known": self.known.config["columns"],
                "static": self.static.config["columns"],
            }
        )

    @property
    def several(self) -> bool:
        """Whether there is a series for each value of a group."""
        return self.roles.group is not None

    @property
    def scaled(self) -> bool:
        """Whether y is in deviations from the mean of its own series (eq. 3)."""
        return self.several and self.kind not in LEVELLED

    @property
    def looks_ahead(self) -> bool:
        """Whether rows go on after the origin."""
        return self.known.width > 0

    @property
    def length(self) -> int:
        """T."""
        return self.window + (self.horizon if self.looks_ahead else 0)

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the C + 1 channels."""
        waves = [f"{wave} of {cycle}" for cycle in self.cycles for wave in ("sine", "cosine")]
        level = ["level"] if self.several and not self.scaled else []
        known, static = self.known.encoded_names(), self.static.encoded_names()
        more = [*(["unit"] if self.own_unit else []), *(["ahead"] if self.looks_ahead else [])]
        return (self.roles.target, *self.roles.past, *known, *waves, *static, *level, *more, "there")

    def encode(self, x: Tensor) -> Tensor:
        if x.dim() != 3 or x.shape[2] != len(self.channels):
            raise ShapeError(
                f"windows must have shape (N, T, {len(self.channels)}), a channel for each of "
                f"{', '.join(self.channels)}",
                got=f"shape {tuple(x.shape)}",
                do="Pass the table, and read(…) of these inputs makes them",
            )
        if not self.moving and not self.own_unit:
            return x
        level, unit = self.level(x).to(x.dtype), self.unit(x).to(x.dtype)
        read = x.clone()
        read[..., 0] = torch.where(self._seen(x), (x[..., 0] - level) / unit, x[..., 0])  # eqs. 4, 5
        if self.own_unit:
            read[..., self.channels.index("unit")] = unit.log() * x[..., -1]
        return read

    def _seen(self, x: Tensor) -> Tensor:
        """Which steps lie up to the origin, (N, T)."""
        return torch.arange(x.shape[1], device=x.device) < self._count(x)[:, None]

    def _count(self, x: Tensor) -> Tensor:
        return x[..., -1].sum(1).long() - (self.horizon if self.looks_ahead else 0)

    def level(self, x: Tensor) -> Tensor:
        """l of raw rows (eq. 4), (N, 1), in float64; 0 where the level does not move."""
        if not self.moving:
            return torch.zeros(len(x), 1, dtype=torch.float64, device=x.device)
        step, count = torch.arange(x.shape[1], device=x.device), self._count(x)[:, None]
        last = (step < count) & (step >= count - self.season)
        return (x[..., 0].double() * last).sum(1, keepdim=True) / last.sum(1, keepdim=True)

    def unit(self, x: Tensor) -> Tensor:
        """s of raw rows (eq. 6), (N, 1), in float64; 1 where the unit does not move."""
        if not self.own_unit:
            return torch.ones(len(x), 1, dtype=torch.float64, device=x.device)
        seen, z = self._seen(x).double(), x[..., 0].double()
        count = seen.sum(1, keepdim=True)
        apart = (z - (z * seen).sum(1, keepdim=True) / count).square() * seen
        return ((apart.sum(1, keepdim=True) + _USUAL) / (count + _USUAL)).sqrt()

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"channels": len(self.channels) - 1, "pool": "last"}

    def read(self, rows: Any) -> Tensor:
        """Raw rows: the last window of each series of a table, or windows as they are."""
        if isinstance(rows, (Tensor, np.ndarray)) and rows.ndim == 3:
            return torch.as_tensor(rows, dtype=torch.float32)
        return self.last(table_of(with_dates(rows)[0]))[0]

    def last(self, table: Table) -> tuple[Tensor, list[Laid]]:
        """The last window of each series, and the series."""
        every = self.laid(table)
        return torch.cat([self.windows(laid, np.array([len(laid.one) - 1])) for laid in every]), every

    def laid(self, table: Table) -> list[Laid]:
        """The series of a table in channels; one that training never saw has figures of its own."""
        self._check_columns(table)
        table = days_of_zones(table)
        every, _, _ = series_of(table, self.roles, self.clock, self.comma)
        empty = next((one for one in every if not len(one)), None)
        if empty is not None:
            raise DataError(
                f"{self.roles.target} must have values to forecast from",
                got=f"none{f' for {self.roles.group} {empty.name}' if self.several else ''} in {table.source}",
                do="Add rows with what was measured so far",
            )
        known, static = (
            columns.encode(columns.read(table)).numpy() if columns.width else np.empty((len(table), 0))
            for columns in (self.known, self.static)
        )
        return [self._laid(one, known[one.rows], static[one.rows[0]]) for one in every]

    def _check_columns(self, table: Table) -> None:
        """Refuse a table without a column that was read in training."""
        roles = self.roles
        read = (roles.target, roles.time, roles.group, *roles.past, *self.known.names, *self.static.names)
        absent = [name for name in dict.fromkeys(read) if name is not None and name not in table.columns]
        if absent:
            nameless = " in a file without a line of names" if table.nameless else ""
            raise DataError(
                f"{table.source} must have the columns that the model was trained on",
                got=f"no column {', '.join(absent[:8])}{nameless}, but {', '.join(list(table.columns)[:8])}",
                do="Add what is missing, and name columns as in training",
            )

    def _laid(self, one: Series, known: np.ndarray, static: np.ndarray) -> Laid:
        at = self.place(one.name)
        own = self.figures[at] if at is not None else Figures.of(one, len(one), self.season)
        further = len(one.rows) - len(one)
        z = (one.values - own.shift) / own.scale  # eq. 1
        shift, scale = np.array(own.past).reshape(-1, 2).T
        past = np.nan_to_num((one.past - shift) / scale)
        own_part = np.pad(np.column_stack([z, past]), ((0, further), (0, 0)))
        waves = self.clock.waves(one.moments, self.cycles)
        level = (np.log1p(max(own.shift, 0.0)) - self._level[0]) / self._level[1]
        same = np.append(static, [level] if self.several and not self.scaled else [])
        same = np.append(same, [0.0] if self.own_unit else [])  # filled in by `encode`
        rest = [known, waves, np.broadcast_to(same, (len(known), len(same)))]
        flags = lambda ahead: [np.full((len(known), 1), ahead)] if self.looks_ahead else []  # noqa: E731
        there = np.ones((len(known), 1))
        seen = np.concatenate([own_part, *rest, *flags(0.0), there], 1)
        ahead = np.concatenate([np.zeros_like(own_part), *rest, *flags(1.0), there], 1)
        return Laid(one, own, seen.astype(np.float32), ahead.astype(np.float32))

    def place(self, name: str) -> int | None:
        """Which of the training part's series this is."""
        return self._place.get(name)

    def windows(self, laid: Laid, origins: np.ndarray) -> Tensor:
        """x of some origins (eq. 2), (N, T, C + 1)."""
        x = np.zeros((len(origins), self.length, len(self.channels)), dtype=np.float32)
        if self.looks_ahead and len(origins) and origins.max() + self.horizon >= len(laid.ahead):
            known = len(laid.ahead) - len(laid.one)
            raise DataError(
                f"{' and '.join(self.known.names)} must be known {counted(self.horizon, 'step')} ahead",
                got=f"{counted(known, 'row')} after the last {self.roles.target}"
                + (f" of {self.roles.group} {laid.one.name}" if self.several else ""),
                do=f"Add a row for each step to come, with {self.roles.target} left empty",
            )
        seen = np.minimum(origins + 1, self.window)
        for count in np.unique(seen).tolist():
            rows = np.flatnonzero(seen == count)
            x[rows, :count] = _stretches(laid.seen, origins[rows] - count + 1, count)
            if self.looks_ahead:
                x[rows, count : count + self.horizon] = _stretches(laid.ahead, origins[rows] + 1, self.horizon)
        return torch.from_numpy(x)

    def asked(self, laid: Laid, origins: np.ndarray) -> np.ndarray:
        """y of some origins (eqs. 3 to 5), (N, H), in float64."""
        own, values = laid.figures, laid.one.values
        values = (values - own.shift) / own.scale if self.scaled else values
        y = _stretches(values[:, None], origins + 1, self.horizon)[..., 0]
        if not self.own_unit:
            return y - last_means(values, self.season)[origins, None] if self.moving else y
        centre = 0.0 if self.scaled else own.shift
        level = last_means(values, self.season)[origins, None] if self.moving else centre
        return (y - level) / last_units((laid.one.values - own.shift) / own.scale, self.window)[origins, None]

    def whole(self, laid: Laid, first: int, end: int) -> np.ndarray:
        """Origins whose H values lie at the steps `first` … `end` - 1, were all measured, and have a step before."""
        origins = np.arange(max(first, 1) - 1, end - self.horizon)
        lost = np.append(0, np.cumsum(laid.one.made))
        return origins[lost[origins + 1 + self.horizon] == lost[origins + 1]]

    def known_rows(self, table: Table) -> tuple[Tensor, Tensor]:
        """x and y of every window of a table whose H values are there."""
        every = self.laid(table)
        first = [min(self.window, max(1, len(laid.one) - self.horizon)) for laid in every]
        origins = [self.whole(laid, start, len(laid.one)) for laid, start in zip(every, first)]
        if not any(map(len, origins)):
            raise DataError(
                f"{table.source} must have {counted(self.horizon, 'value')} after a window to compare with",
                got=f"a series of at most {max(len(laid.one) for laid in every)}",
                do="Pass a longer one",
            )
        x = torch.cat([self.windows(laid, own) for laid, own in zip(every, origins)])
        return x, answer(np.concatenate([self.asked(laid, own) for laid, own in zip(every, origins)]))

    def unlearned(self, laid: Laid) -> Split:
        """The windows of a series whose H values are there and lie after the training part."""
        first = self.window
        if self.place(laid.one.name) is not None:
            until = np.inf if self.until is None else self.until
            first = int(np.searchsorted(laid.one.moments[: len(laid.one)], until - 1e-9)) or first
        origins = self.whole(laid, first, len(laid.one))
        moments = torch.from_numpy(laid.one.moments[origins])
        return Split(self.windows(laid, origins), answer(self.asked(laid, origins)), time=moments)

    def naive(self, x: Tensor) -> Tensor:
        """The value of a season ago for each step ahead (eq. 7), (N, H), in deviations from the series' mean."""
        return season_ago(x[..., 0], self._count(x), self.season, self.horizon)

    def with_linear(self, laid: Sequence[Laid], origins: Sequence[np.ndarray]) -> Windows:
        """These inputs with a linear forecast that is fitted to some origins of each series."""
        parts: list[tuple[Tensor, ...]] = []
        for own, some in zip(laid, origins, strict=True):
            values = (own.one.values - own.figures.shift) / own.figures.scale
            for few in np.split(some, range(_ROWS, len(some), _ROWS)):
                x, ahead = self.windows(own, few), _stretches(values[:, None], few + 1, self.horizon)[..., 0]
                parts.append((x[..., 0].double(), self._count(x), torch.from_numpy(ahead), self.unit(x)))
        z, count, coming, unit = (torch.cat(column) for column in zip(*parts))
        found = Linear.of(z, count, coming, unit, self.season, self.moving)
        return Windows(**{**self.config, "linear": found})

    def by_line(self, x: Tensor, code: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
        """The value of a season ago, the linear forecast and how far that strays, as y has them, and how far the steps
        of the window go, all (N, H); None where there is no such forecast.
        """
        if self.linear is None:
            return None
        z, count = x[..., 0].double(), self._count(x)
        b, stretch = self.linear(z, count, self.season), self.linear.stretch(z, count, self.unit(x))
        spread = torch.tensor(self.linear.spread, dtype=torch.float64).clamp(min=1e-9).expand(len(x), -1)
        spread = spread if self.scaled else spread * self.units(code, len(x))[1]
        return self.as_asked(self.naive(x), x, code), self.as_asked(b, x, code), spread, stretch.cpu().expand_as(spread)

    def as_asked(self, z: Tensor, x: Tensor, code: Tensor | None) -> Tensor:
        """Values in deviations from the mean of their series, z (N, H), as y has them."""
        shift, scale, _ = self.units(code, len(x))
        z = (z.double().cpu() - self.level(x).cpu()) / self.unit(x).cpu()
        return z if self.scaled else scale * z if self.moving or self.own_unit else shift + scale * z

    def as_measured(self, y: Tensor, x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
        """y (N, H) as the table has it; shift and scale (N, 1) of each row's series."""
        if not self.scaled and not self.moving and not self.own_unit:
            return y
        return shift + scale * (self.level(x) + self.unit(x) * (y if self.scaled else y / scale))

    def units(self, code: Tensor | None, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, deviation and error of the series of each row, (N, 1), in float64.

        Args:
            code: the number of each row's series; None where there is one.
        """
        table = torch.tensor([(f.shift, f.scale, f.error) for f in self.figures], dtype=torch.float64)
        own = table[torch.zeros(count, dtype=torch.int64) if code is None else code.cpu()]
        return own[:, :1], own[:, 1:2], own[:, 2:]


def last_means(values: np.ndarray, count: int) -> np.ndarray:
    """The mean of the last `count` values up to each; of fewer at the beginning.

    >>> last_means(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [1.0, 2.0, 4.0]
    """
    centre = values.mean()  # sums of values far from 0 would lose digits
    sums = np.append(0.0, np.cumsum(values - centre))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - count, 0)
    return centre + (sums[ends] - sums[begins]) / (ends - begins)


def last_units(z: np.ndarray, count: int) -> np.ndarray:
    """s of the last `count` values up to each (eq. 6); of fewer at the beginning.

    >>> last_units(np.array([0.0, 2.0, -2.0]), 3).round(3).tolist()
    [0.894, 1.0, 1.309]
    """
    num = np.minimum(np.arange(1, len(z) + 1), count)
    apart = np.maximum(last_means(np.square(z), count) - np.square(last_means(z, count)), 0) * num
    return np.sqrt((apart + _USUAL) / (num + _USUAL))


def answer(y: np.ndarray) -> Tensor:
    """y as likelihoods take it: (N, H), or (N,) where H is 1."""
    return torch.from_numpy(y[:, 0] if y.shape[1] == 1 else y).float()


def _stretches(values: np.ndarray, starts: np.ndarray, count: int) -> np.ndarray:
    """`count` rows of values from each start on, (N, count, C)."""
    if not len(starts):
        return np.empty((0, count, values.shape[1]), dtype=values.dtype)
    return np.lib.stride_tricks.sliding_window_view(values, count, 0)[starts].transpose(0, 2, 1)


def _figures(fields: Sequence[Any]) -> Figures:
    name, shift, scale, error, past = fields
    return Figures(name, shift, scale, error, tuple((a, b) for a, b in past))


def _clock(fields: Mapping[str, Any], dates: Mapping[str, Any]) -> Clock:
    return Clock(**fields, **{**dates, "weekdays": tuple(dates.get("weekdays", ()))})


def _linear(fields: Mapping[str, Any]) -> Linear:
    return Linear(
        tuple(map(tuple, fields["weights"])), tuple(fields["spread"]), fields.get("lags", 0), fields.get("step", 0.0)
    )
