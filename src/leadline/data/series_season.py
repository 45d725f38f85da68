"""What is settled of a series by its training part: season, window, and whether its level and its unit move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leadline.data.account import counted
from leadline.data.series_windows import last_means, last_units
from leadline.errors import UserError

_LONGEST_SEASON = 400  # steps among which a season is searched for
_LEAST_LIKENESS = 0.2  # autocorrelation below which there is no season
_SEARCHED = 50  # series in which it is searched
_SHORTEST = 8  # window that is taken where none is named
_STILL = 0.01  # of the variance of a series, below which its level stands still
_LIKELIER = 0.01  # nats a value, for a unit to be one that moves
_LESS = 0.5  # of the squared distance, for a level to be one that moves


def season_and_window(
    parts: Sequence[np.ndarray],
    calendar: int | None,
    season: int | None,
    window: int | None,
    horizon: int,
    sure: bool = True,
) -> tuple[int, int, str]:
    """m and W, and how m was found.

    Args:
        calendar: steps after which it repeats itself; None where the steps are not its own.
        sure: whether it is the season of a series that does not repeat itself better than its last value does too.
    """
    longest = max(map(len, parts))
    how = "as told"
    if season is None:
        season, how = calendar, "of the calendar"
        season = season if season is None or sure or repeats(parts, season, horizon) else None
        if season is None or 2 * season > longest or (window is not None and season > window):
            most = min(_LONGEST_SEASON, longest // 2, window or longest)
            season, how = season_of(parts, most), "the lag at which it is most like itself"
            season = season if repeats(parts, season, horizon) else 1
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


def repeats(parts: Sequence[np.ndarray], season: int, horizon: int) -> bool:
    """Whether what comes, 1 … H steps ahead, is nearer to the value of a season ago than to the last one.

    >>> wave = np.sin(np.arange(60) * 2 * np.pi / 12)
    >>> repeats([wave], 12, 3), repeats([wave + np.arange(60)], 12, 3)
    (True, False)
    """
    ago, last = 0.0, 0.0
    for values in (own / (own.std() or 1.0) for own in parts):
        origins = np.arange(season - 1, len(values) - horizon)
        for h in range(1, horizon + 1):
            coming = values[origins + h]
            ago += float(np.abs(coming - values[origins + 1 - season + (h - 1) % season]).sum())
            last += float(np.abs(coming - values[origins]).sum())
    return ago < last


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


def swings(parts: Sequence[np.ndarray], season: int, horizon: int, window: int, moving: bool) -> bool:
    """Whether what comes, from its level on, is likelier under a normal law whose deviation follows that of the window
    before it than under one of a single deviation, by a hundredth of a nat a value or more.

    >>> noise = np.random.default_rng(0).normal(size=200)
    >>> swings([noise], 1, 3, 20, False), swings([noise * np.linspace(1, 9, 200)], 1, 3, 20, False)
    (False, True)
    """
    gain, count = 0.0, 0
    for values in parts:
        origins = np.arange(window - 1, len(values) - horizon)
        if len(origins) < _SHORTEST or values.std() == 0:
            continue
        z = (values - values.mean()) / values.std()
        unit = last_units(z, window)[origins]
        level = last_means(z, season)[origins] if moving else 0.0
        for h in range(1, horizon + 1):
            coming = z[origins + h] - level
            one, own = np.sqrt(np.square(coming).mean()), np.sqrt(np.square(coming / unit).mean())
            if one > 0:
                gain += len(origins) * float(np.log(one) - np.log(own) - np.log(unit).mean())
                count += len(origins)
    return gain > _LIKELIER * count
