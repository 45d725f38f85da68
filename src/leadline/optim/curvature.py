"""Rules that solve with a matrix of second derivatives, kept safe by a damping that follows success and failure.

    Δ = -(C + λ I)⁻¹ g,     φ <- φ + Δ  if the loss falls                                                (1)
    success: λ <- λ / 10;   failure, or C + λ I not positive: λ <- 4 λ, and (1) again                    (2)

λ → 0 is the pure step by the curvature C, λ → ∞ a short step along -g. With damping 0 the pure step is taken whatever
comes of it: it goes to the nearest place without a slope, which may be a saddle or a maximum.

Notation   C -> the loss's Hessian (DampedNewton) or its part without the network's own curvature (GaussNewton)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.descent import Descent, without_batch_norm
from leadline.settings import real

MOST = 3000  # parameters: their matrix takes 72 MB in float64, and solving with it a second
_TRIES = 40
_LEAST, _LARGEST = 1e-12, 1e12


class Curvature(Descent):
    """Args:
    damping: λ of the first step, at least 0; 0 takes pure steps.
    tolerance: ½ gᵀ(C + λI)⁻¹g, the loss still to be gained, at which it ends, above 0; only where every batch is
        the whole split.
    """

    def __init__(self, damping: float = 1e-3, tolerance: float = 1e-12):
        self.damping = real("damping", damping, 0, usual=1e-3)
        self.tolerance = real("tolerance", tolerance, 0, above=True, usual=1e-12)

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        super().bind(model, likelihood, total_steps)
        without_batch_norm(self, model)
        self.current, self.finished = self.damping, False
        count = sum(p.numel() for p in self.moved())
        if count > MOST:
            raise UserError(
                f"{type(self).__name__} needs at most {MOST:,} parameters, because it solves for all of them at once",
                got=f"{count:,}",
                do="Leave rule out and pass optimizer='lbfgs' or 'adamw', or take a smaller network",
            )

    def moved(self) -> list[Tensor]:
        """The parameters of the system."""
        return list(self.parameters)

    @abstractmethod
    def curvature(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Loss, g (P,) and C (P, P) at the weights as they are."""

    def step(self, batch: Batch, index: int) -> Tensor:
        with self.same_noise():
            loss, g, matrix = self.curvature(batch)
        g, matrix = g.double(), matrix.double()
        moved = self.moved()
        here = [p.detach().clone() for p in moved]
        if self.finished or not bool(g.any()) or not bool(matrix.isfinite().all()):
            self.finished = self.finished or (not bool(g.any()) and self.steps_per_epoch == 1)
            return loss.detach()
        if self.damping == 0:
            self._put(moved, here, torch.linalg.lstsq(matrix, -g[:, None], driver="gelsd").solution[:, 0])
            return loss.detach()
        eye = torch.eye(len(g), dtype=g.dtype, device=g.device)
        for _ in range(_TRIES):
            factor, failed = torch.linalg.cholesky_ex(matrix + self.current * eye)
            if not bool(failed):
                shift = -torch.cholesky_solve(g[:, None], factor)[:, 0]
                gain = -0.5 * float(g @ shift)
                self._put(moved, here, shift)
                with torch.no_grad():
                    value = float(self.at(self.parameters, batch))
                if gain <= self.tolerance or value < float(loss):  # below the tolerance rounding decides, not the loss
                    self.finished = gain <= self.tolerance and self.steps_per_epoch == 1
                    self.current = max(self.current / 10, _LEAST)
                    return loss.detach()
            self.current = min(4 * self.current, _LARGEST)
        self._put(moved, here, torch.zeros_like(g))
        return loss.detach()

    @torch.no_grad()
    def _put(self, moved: list[Tensor], here: list[Tensor], shift: Tensor) -> None:
        for p, place, part in zip(moved, here, shift.split([p.numel() for p in here]), strict=True):
            p.copy_(place + part.view_as(p).to(p))

    def rate(self, index: int) -> float:
        return self.current

    def state(self) -> Any:
        return {"current": self.current, "finished": self.finished}

    def load_state(self, state: Any) -> None:
        self.current, self.finished = state["current"], state["finished"]
