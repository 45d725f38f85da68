"""A linear forecast for what is too short to learn from: the value of a season ago, mended by figures of the window.

    b_h = s_h + Σ_k w_hk φ_hk                                                                                      (1)
    φ_1 = (ŝ_h - l_W) - (s_h - l)     the shape of earlier seasons in place of that of the last
    φ_2 = z_o - z_{o-m}               what has changed since a season ago
    φ_3 = l - l'                      the way of the level from season to season
    φ_4 = l_W - l                     the way back to the mean of the window
    φ_5 = -l                          and to that of training, which is 0; not where the level drifts              (2)
    φ_{5+k} = z_{o-k+1} - z_{o-k}     the last steps, k = 1 … p, where they tell more                              (3)
    w_h = argmin Σ_o (z_{o+h} - b_h)² / H + σ² Σ_k n_k w_hk²          σ² = mean (z_{o+h} - s_h)²                   (4)
    ρ_h = √ mean ((z_{o+h} - b_h) / u_o)²                             how far it strays in training                (5)
    k_o = (γ + Σ_t |z_t - z_{t-1}| / u_o) / (γ + γ Σ_t 1)             how far the steps of a window go, beside     (6)
    γ   = mean |z_t - z_{t-1}| / u_o                                  those of all windows of training

Short series ask for strong priors, and all of these weights are fractions: by (4) they are 0, which is the value of a
season ago, give or take 1/√n_k, until the training part says otherwise. Windows that overlap count as the H-th part of
one each. What the five figures of (2) can express is what exponential smoothing does by hand (Holt, 1957; Winters,
1960). With (3) it is an autoregression too, for what swings without keeping time, as sunspots do. These weights are
many, and have a part only if five parts of the training part are told better with them by what is fitted to the
other four. A network's forecasts are weighed against it on values that the network did not learn from, and how far
values stray against (6), which follows the storms and calms of a series: leadline.likelihoods.hindsight.

Notation   z -> a series in its deviations,  o -> origin,  m -> season,  H -> horizon,  W -> window,  u -> its unit;
           s_h -> value of a season ago, ŝ_h its mean over the earlier seasons of the window;  l, l' -> mean of the last
           season and of the one before, l_W of the window;  n_k = 2, and 2 j of the j-th step back;  p -> lags, at most
           two seasons
Shapes     z (N, W), of which `count` steps are seen, from the first on; φ (N, H, 5);  w (H, 5 + p), or (H, 4 + p) where
           the level drifts;  b (N, H);  ρ (H,);  k (N, 1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

NUM = 5  # figures of a window
_FRACTION = 2.0  # n of eq. 4
_SHORTEST, _MOST = 6, 60  # a season as eq. 3 has it, at least, and its steps, at most
_TRIED, _PARTS, _GAIN = 2000, 5, 0.02  # windows and parts that eq. 3 is tried on, and by how much it has to be nearer
_ROWS = 4096  # windows whose figures are in memory at once


@dataclass(frozen=True)
class Linear:
    """Args:
    weights: w, a row for each of H steps ahead.
    spread: ρ of each.
    lags: p.
    step: γ; 0 where it is not known.
    """

    weights: tuple[tuple[float, ...], ...]
    spread: tuple[float, ...]
    lags: int = 0
    step: float = 0.0

    @classmethod
    def of(cls, z: Tensor, count: Tensor, coming: Tensor, unit: Tensor, season: int, drifts: bool) -> Linear:
        """Eqs. 4 to 6.

        Args:
            coming: z_{o+1} … z_{o+H} of each window, (N, H), in the order of time.
            unit: u of each window, (N, 1).
            drifts: whether the level does, so that there is no mean to go back to.

        >>> steps = torch.arange(60.0).double().unfold(0, 12, 1)  # a trend: the value of a season ago lags behind
        >>> z, coming, count = steps[:, :8], steps[:, 8:], torch.full((49,), 8)
        >>> found = Linear.of(z, count, coming, torch.ones(49, 1), 4, drifts=True)
        >>> [bool((coming - b).abs().max() < 1) for b in (season_ago(z, count, 4, 4), found(z, count, 4))]
        [False, True]
        """

        own, K = _Rows(z, count, coming, unit), NUM - drifts
        few, lags = own.some(slice(None, None, -(-len(z) // _TRIED))), 0
        if len(few.z) >= _PARTS * coming.shape[1]:
            most = min(2 * max(season, _SHORTEST), _MOST, z.shape[1] - 1)
            plain, more = (_strays_apart(few, season, K, p) for p in (0, most))
            lags = most if more < (1 - _GAIN) * plain else 0
        found = _fitted(own, season, K, lags)
        way, steps = way_of(z, count)
        step = float((way / unit).sum() / steps.sum().clamp(min=1))  # γ
        return replace(found, spread=tuple(own.strays(found, season).sqrt().tolist()), step=step)

    def __call__(self, z: Tensor, count: Tensor, season: int) -> Tensor:
        """b (eq. 1), (N, H)."""
        weights = torch.tensor(self.weights, dtype=z.dtype, device=z.device)
        H, K = weights.shape
        found = [z.new_empty(0, H)]
        for own, seen in zip(z.split(_ROWS), count.split(_ROWS), strict=True):
            phi, steps = figures_of(own, seen, season, H)[..., : K - self.lags], last_steps(own, seen, self.lags)
            added = torch.einsum("nhk,hk->nh", phi, weights[:, : K - self.lags]) + steps @ weights[:, K - self.lags :].T
            found.append(season_ago(own, seen, season, H) + added)
        return torch.cat(found)

    def stretch(self, z: Tensor, count: Tensor, unit: Tensor) -> Tensor:
        """k (eq. 6), (N, 1); 1 where γ is not known.

        >>> z, count = torch.tensor([[0.0, 3.0, 0.0, 9.0], [5.0, 5.0, 5.0, 5.0]]), torch.tensor([3, 4])
        >>> Linear((), (), step=1.0).stretch(z, count, torch.ones(2, 1)).flatten().tolist()
        [2.3333332538604736, 0.25]
        """
        way, steps = way_of(z, count)
        return (self.step + way / unit) / (self.step + self.step * steps) if self.step > 0 else torch.ones_like(way)


class _Rows(NamedTuple):
    """Windows that are learned from."""

    z: Tensor
    seen: Tensor
    coming: Tensor
    unit: Tensor

    def some(self, rows: slice | Tensor) -> _Rows:
        return _Rows(*(own[rows] for own in self))

    def strays(self, found: Linear, season: int) -> Tensor:
        """ρ² of each step ahead."""
        return ((self.coming - found(self.z, self.seen, season)) / self.unit).square().mean(0)


def _strays_apart(own: _Rows, season: int, figures: int, lags: int) -> float:
    """The mean square of how far each of some parts is from what is fitted to windows that do not overlap it."""
    N, H = own.coming.shape
    place, total = torch.arange(N), 0.0
    for part in place.chunk(_PARTS):
        rest = own.some((place < part[0] - H) | (place > part[-1] + H))
        total += float(own.some(part).strays(_fitted(rest, season, figures, lags), season).mean()) * len(part) / N
    return total


def _fitted(own: _Rows, season: int, figures: int, lags: int) -> Linear:
    """Eq. 4, by so many figures of eq. 2 and of eq. 3."""
    H, K = own.coming.shape[1], figures + lags
    square, cross, sigma = torch.zeros(H, K, K).double(), torch.zeros(H, K).double(), torch.zeros(()).double()
    for z, count, coming, _ in zip(*(column.split(_ROWS) for column in own), strict=True):
        steps = last_steps(z, count, lags)[:, None].expand(-1, H, -1)
        phi = torch.cat([figures_of(z, count, season, H)[..., :figures], steps], -1)
        away = coming - season_ago(z, count, season, H)
        square += torch.einsum("nhi,nhj->hij", phi, phi) / H
        cross += torch.einsum("nhi,nh->hi", phi, away) / H
        sigma += away.square().sum() / own.coming.numel()  # σ²
    prior = torch.cat([torch.full((figures,), _FRACTION), _FRACTION * torch.arange(1, lags + 1)]).double()
    weights = torch.linalg.solve(square + sigma.clamp(min=1e-12) * torch.diag(prior), cross)
    return Linear(tuple(map(tuple, weights.tolist())), (), lags)


def season_ago(z: Tensor, count: Tensor, season: int, horizon: int) -> Tensor:
    """s_h, (N, H); the last value where there is none.

    >>> season_ago(torch.tensor([[1.0, 2.0, 3.0, 0.0]]), torch.tensor([3]), 2, 3).tolist()
    [[2.0, 3.0, 2.0]]
    """
    place = _place(count, season, horizon)
    return z.gather(1, torch.where(place < 0, count[:, None] - 1, place))


def figures_of(z: Tensor, count: Tensor, season: int, horizon: int) -> Tensor:
    """φ of eq. 2, (N, H, 5); one that a window is too short for is 0."""
    step = torch.arange(z.shape[1], device=z.device)
    end = count[:, None]
    mean = lambda first, last: _mean(z, (step >= first) & (step < last) & (step < end))  # noqa: E731
    window, level, before = mean(0, end), mean(end - season, end), mean(end - 2 * season, end - season)
    ago = season_ago(z, count, season, horizon)
    place = _place(count, season, horizon)
    total, found = torch.zeros_like(ago), torch.zeros_like(ago)
    for back in range(season, z.shape[1], season):
        there = place >= back
        total += z.gather(1, (place - back).clamp(min=0)) * there
        found += there
    earlier = total / found.clamp(min=1)
    last, since = (z.gather(1, (end - 1 - lag).clamp(min=0)) for lag in (0, season))
    shape = torch.where(found > 0, (earlier - window) - (ago - level), 0)
    wide = [torch.where(end > season, way, 0) for way in (last - since, level - before)]
    return torch.stack([shape, *(way.expand_as(ago) for way in (*wide, window - level, -level))], -1)


def last_steps(z: Tensor, count: Tensor, lags: int) -> Tensor:
    """φ of eq. 3, (N, p), the last step first; one that a window is too short for is 0.

    >>> last_steps(torch.tensor([[1.0, 2.0, 5.0, 0.0]]), torch.tensor([3]), 3).tolist()
    [[3.0, 1.0, 0.0]]
    """
    end = count[:, None] - 1 - torch.arange(lags, device=count.device)
    return torch.where(end >= 1, z.gather(1, end.clamp(min=0)) - z.gather(1, (end - 1).clamp(min=0)), 0)


def way_of(z: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Σ |z_t - z_{t-1}| over each window, and of how many steps, (N, 1)."""
    there = torch.arange(1, z.shape[1], device=z.device) < count[:, None]
    return (z.diff(dim=1).abs() * there).sum(1, keepdim=True), there.sum(1, keepdim=True)


def _place(count: Tensor, season: int, horizon: int) -> Tensor:
    """Where the value of a season before each step ahead lies in the window, (N, H); below 0 where it does not."""
    lead = torch.arange(horizon, device=count.device)
    return torch.where((count >= season)[:, None], count[:, None] - season + lead % season, -1)


def _mean(z: Tensor, there: Tensor) -> Tensor:
    return (z * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1)
