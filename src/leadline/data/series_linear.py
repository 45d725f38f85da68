"""A linear forecast for what is too short to learn from: the value of a season ago, mended by figures of the window.

    b_h = s_h + Σ_k w_hk φ_hk                                                                                      (1)
    φ_1 = (ŝ_h - l_W) - (s_h - l)     the shape of earlier seasons in place of that of the last
    φ_2 = z_o - z_{o-m}               what has changed since a season ago
    φ_3 = l - l'                      the way of the level from season to season
    φ_4 = l_W - l                     the way back to the mean of the window
    φ_5 = -l                          and to that of training, which is 0; not where the level drifts              (2)
    w_h = argmin Σ_o (z_{o+h} - b_h)² / H + n σ² |w_h|²               σ² = mean (z_{o+h} - s_h)²                   (3)
    ρ_h = √ mean ((z_{o+h} - b_h) / u_o)²                             how far it strays in training                (4)

Short series ask for strong priors, and all of these weights are fractions: by (3) they are 0, which is the value of a
season ago, give or take 1/√n, until the training part says otherwise. Windows that overlap count as the H-th part of
one each. What (1) can express is what exponential smoothing does by hand (Holt, 1957; Winters, 1960). A network's
forecasts are weighed against it on values that the network did not learn from: leadline.likelihoods.hindsight.

Notation   z -> a series in its deviations,  o -> origin,  m -> season,  H -> horizon,  W -> window,  u -> its unit;
           s_h -> value of a season ago, ŝ_h its mean over the earlier seasons of the window;  l, l' -> mean of the last
           season and of the one before, l_W of the window;  n = 2
Shapes     z (N, W), of which `count` steps are seen, from the first on; φ (N, H, 5);  w (H, 5), or (H, 4) where the
           level drifts;  b (N, H);  ρ (H,)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NUM = 5  # figures of a window
_FRACTION = 2.0  # n of eq. 3
_ROWS = 4096  # windows whose figures are in memory at once


@dataclass(frozen=True)
class Linear:
    """Args:
    weights: w, a row for each of H steps ahead.
    spread: ρ of each.
    """

    weights: tuple[tuple[float, ...], ...]
    spread: tuple[float, ...]

    @classmethod
    def of(cls, z: Tensor, count: Tensor, coming: Tensor, unit: Tensor, season: int, drifts: bool) -> Linear:
        """Eqs. 3 and 4.

        Args:
            coming: z_{o+1} … z_{o+H} of each window, (N, H).
            unit: u of each window, (N, 1).
            drifts: whether the level does, so that there is no mean to go back to.

        >>> steps = torch.arange(60.0).double().unfold(0, 12, 1)  # a trend: the value of a season ago lags behind
        >>> z, coming, count = steps[:, :8], steps[:, 8:], torch.full((49,), 8)
        >>> found = Linear.of(z, count, coming, torch.ones(49, 1), 4, drifts=True)
        >>> [bool((coming - b).abs().max() < 1) for b in (season_ago(z, count, 4, 4), found(z, count, 4))]
        [False, True]
        """
        H, K = coming.shape[1], NUM - drifts
        square, cross, sigma = torch.zeros(H, K, K).double(), torch.zeros(H, K).double(), torch.zeros(()).double()
        for own, seen, came in zip(z.split(_ROWS), count.split(_ROWS), coming.split(_ROWS), strict=True):
            phi, away = figures_of(own, seen, season, H)[..., :K], came - season_ago(own, seen, season, H)
            square += torch.einsum("nhi,nhj->hij", phi, phi) / H
            cross += torch.einsum("nhi,nh->hi", phi, away) / H
            sigma += away.square().sum() / coming.numel()  # σ²
        prior = _FRACTION * sigma.clamp(min=1e-12) * torch.eye(K)
        weights = torch.linalg.solve(square + prior, cross)
        found = cls(tuple(map(tuple, weights.tolist())), ())
        spread = ((coming - found(z, count, season)) / unit).square().mean(0).sqrt()
        return cls(found.weights, tuple(spread.tolist()))

    def __call__(self, z: Tensor, count: Tensor, season: int) -> Tensor:
        """b (eq. 1), (N, H)."""
        weights = torch.tensor(self.weights, dtype=z.dtype, device=z.device)
        H, K = weights.shape
        found = [z.new_empty(0, H)]
        for own, seen in zip(z.split(_ROWS), count.split(_ROWS), strict=True):
            added = torch.einsum("nhk,hk->nh", figures_of(own, seen, season, H)[..., :K], weights)
            found.append(season_ago(own, seen, season, H) + added)
        return torch.cat(found)


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


def _place(count: Tensor, season: int, horizon: int) -> Tensor:
    """Where the value of a season before each step ahead lies in the window, (N, H); below 0 where it does not."""
    lead = torch.arange(horizon, device=count.device)
    return torch.where((count >= season)[:, None], count[:, None] - season + lead % season, -1)


def _mean(z: Tensor, there: Tensor) -> Tensor:
    return (z * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1)
