"""Least squares in closed form: the affine map with the smallest sum of squares, in one pass.

    Ω, β = argmin Σ_i w_i |t_i - β - Ω x_i|² + λ |Ω|²                               (1)
    (Σ w (x-x̄)(x-x̄)ᵀ + λ) Ωᵀ = Σ w (x-x̄)(t-t̄)ᵀ,     β = t̄ - Ω x̄                    (2)   normal equations
    t = (y - shift) / scale, or the label as a row of 0 and 1                       (3)   the likelihood's own unit
    σ² = Σ w |t - β - Ω x|² / Σ w                                                   (4)   where the variance is learned

This is the maximum of the likelihood of a Normal with one variance for all rows, and with λ > 0 the most probable map
under a normal prior: λ = σ²/σ0², the variance of the rows over that of the weights. Where several maps do equally
well, the one of least norm is taken, in units of each column's deviation. The sums of (2) are gathered about running
means (Chan, Golub and LeVeque, 1979), so that a column far from 0 loses no digits; a pass of one batch whose columns
are nearly dependent is solved from the rows themselves (lstsq).

Notation   λ -> ridge,  w -> the rows' weights,  x̄, t̄ -> weighted means; β is not penalised
Use it     ll.fit(ll.models.Linear(d, 1), data, rule=ll.optim.LeastSquares(), epochs=1)
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import FLOOR, PACE
from leadline.likelihoods.normal import Normal
from leadline.likelihoods.one_hot import OneHot
from leadline.optim.passes import PassRule, least_pivot, solve
from leadline.settings import real

_SAFE = 1e-6  # least pivot of the normal equations that loses no more than 6 of 16 digits
_CONSTANT = 1e-13  # deviation over mean, below which a column says nothing


class LeastSquares(PassRule):
    """Args:
        ridge: pull of the slopes towards 0, λ of eq. 1, at least 0.

    >>> from leadline.models import Linear
    >>> x = torch.arange(4.0)[:, None]
    >>> model, rule = Linear(1, 1), LeastSquares()
    >>> rule.bind(model, Normal(), total_steps=1)
    >>> _ = rule.step(Batch(x, 2 * x.flatten() + 1), 0)
    >>> round(model.map.weight.item(), 4), round(model.map.bias.item(), 4)
    (2.0, 1.0)
    """

    def __init__(self, ridge: float = 0.0):
        self.ridge = real("ridge", ridge, 0, usual=1.0)

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        same = isinstance(likelihood, Normal)
        if not isinstance(likelihood, (Normal, OneHot)) or (same and likelihood.variance == "input"):
            raise UserError(
                "LeastSquares needs a Normal likelihood with one variance for all rows, or OneHot for classes",
                got="Normal(variance='input')" if same else type(likelihood).__name__,
                do="Use Normal(variance='learned')" if same else "Leave rule out, or use Newton for classes",
            )
        super().bind(model, likelihood, total_steps)
        self._offset = self.map.bias is not None

    def gather(self, batch: Batch) -> Tensor:
        losses = self.likelihood.loss(self.model(batch.x), batch.y)
        if not self.finished:
            self._gather(batch)
        return losses.mean() if batch.weight is None else (losses * batch.weight).sum() / batch.weight.sum()

    def _gather(self, batch: Batch) -> None:
        x, w = self.rows(batch)
        z = torch.cat([x, self._targets(batch.y)], dim=1)
        mean = w @ z / w.sum() if self._offset else torch.zeros_like(z[0])
        z = (z - mean) * w.sqrt()[:, None]
        if self.steps_per_epoch == 1:
            self.sums = {"rows": z, "mean": mean, "weight": w.sum()}
        elif not self.sums:
            self.sums = {"moments": z.T @ z, "mean": mean, "weight": w.sum()}
        else:
            old, new = self.sums["weight"], w.sum()
            apart, share = mean - self.sums["mean"], new / (old + new)
            self.sums = {
                "moments": self.sums["moments"].addmm(z.T, z).addr_(apart, apart * (old * share)),
                "mean": self.sums["mean"] + share * apart,
                "weight": old + new,
            }

    def _targets(self, y: Tensor) -> Tensor:
        if isinstance(self.likelihood, OneHot):
            return self.likelihood.rows(y).to(self.device, torch.float64)
        normal = cast(Normal, self.likelihood)
        shift, scale = (s.to(self.device, torch.float64) for s in (normal._shift, normal._scale))
        return (y.to(self.device, torch.float64).view(len(y), -1) - shift) / scale  # eq. 3

    def move(self, last: bool) -> None:
        d, mean = self.map.in_features, self.sums["mean"]
        rows, moments = self.sums.get("rows"), self.sums.get("moments")
        spread = rows.square().sum(0) if rows is not None else cast(Tensor, moments).diagonal()
        # what a constant column leaves after its mean is taken off is rounding, and must not be taken for a signal
        varies = (spread > (_CONSTANT * mean).square() * self.sums["weight"])[:d].double()
        if rows is not None:
            slopes, left = self._from_rows(rows[:, :d] * varies, rows[:, d:])
        else:
            kept = torch.cat([varies, varies.new_ones(len(spread) - d)])
            slopes, left = self._from_moments(cast(Tensor, moments) * kept * kept[:, None], d)
        self.put(slopes.T, mean[d:] - mean[:d] @ slopes if self._offset else None)  # eq. 2
        normal = self.likelihood
        if isinstance(normal, Normal) and normal.variance == "learned":
            sigma = (left / self.sums["weight"]).clamp(min=0).sqrt()  # eq. 4
            # softplus(ρ) + floor = σ
            normal.rho.copy_((sigma - FLOOR).clamp(min=1e-2 * FLOOR).expm1().log() / PACE)
        self.finished = True

    def _from_rows(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Slopes (d, outputs) and the squares left, (outputs,), by an orthogonal factorisation of the rows."""
        z = torch.cat([x, t], dim=1)
        moments, d = z.T @ z, x.shape[1]
        ridged = moments[:d, :d] + self.ridge * torch.eye(d).to(x)
        if x.is_cuda or least_pivot(ridged) > _SAFE:  # there lstsq knows full rank only; here it would gain no digit
            return self._from_moments(moments, d)
        root = x.square().sum(0).sqrt()
        scale = torch.where(root > 0, root, 1.0)
        left, right = x / scale, t
        if self.ridge:  # eq. 1 as rows of its own: 0 = √λ Ω
            left = torch.cat([left, torch.diag(self.ridge**0.5 / scale)])
            right = torch.cat([t, t.new_zeros(len(scale), t.shape[1])])
        slopes = torch.linalg.lstsq(left, right, driver="gelsd").solution / scale[:, None]
        return slopes, (t - x @ slopes).square().sum(0)

    def _from_moments(self, moments: Tensor, d: int) -> tuple[Tensor, Tensor]:
        xx, xt, tt = moments[:d, :d], moments[:d, d:], moments.diagonal()[d:]
        slopes = solve(xx + self.ridge * torch.eye(d).to(xx), xt)  # eq. 2
        return slopes, tt - 2 * (slopes * xt).sum(0) + (slopes * (xx @ slopes)).sum(0)
