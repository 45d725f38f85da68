"""Gradient descent that looks before it steps: how far to go along -g is searched for, on the same batch.

    ℓ(α) = L(φ - α g)                                                                                     (1)
    bracketing   widen [0, d] until ℓ turns up; then, with 0 < b < c < d: ℓ(b) > ℓ(c) drops [0, b],       (2)
                 else [c, d] goes; repeat until the bracket is narrow
    armijo       halve α until ℓ(α) <= ℓ(0) - c₁ α |g|²                                                   (3)
    wolfe        … and gᵀ∇L(φ - α g) <= c₂ |g|²: the slope has flattened as well; too long halves,        (4)
                 too short doubles, then bisects

It ends when |g| falls below `stop`. Directions of successive steps are perpendicular after an exact search (2), which
is why descent zigzags through narrow valleys. Meant for whole splits: with small batches each search fits its own
batch's noise, so pass batch as large as the split, or nearly.

Notation   c₁ = 10⁻⁴;  c₂ = 0.9;  b and c divide by the golden ratio, so that each round needs one new loss;  narrow
           enough is `narrow` times α
Use it     ll.fit(model, data, rule=ll.optim.LineSearch(), batch=10_000, epochs=50)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.likelihoods.likelihood import Likelihood
from leadline.names import lookup
from leadline.optim.descent import Descent, dot
from leadline.settings import real

_GOLDEN = (math.sqrt(5) - 1) / 2
_C1, _C2 = 1e-4, 0.9
_TRIES = 60  # of widening, halving or bisecting: 2^60 in all


class LineSearch(Descent):
    """Args:
        method: bracketing, armijo or wolfe.
        first: α that the first search begins with, above 0; later ones begin at twice what the last one found.
        stop: |g| at which it ends, at least 0; 0 never ends.
        narrow: width of a bracket, over the α in it, at which it is narrow enough, above 0 and below 1.

    >>> from leadline.likelihoods import Normal
    >>> model = nn.Linear(1, 1, bias=False).double()
    >>> _ = nn.init.constant_(model.weight, 5.0)
    >>> rule = LineSearch(stop=1e-6)
    >>> rule.bind(model, Normal(variance="fixed"), total_steps=20)
    >>> x = torch.tensor([[1.0], [2.0]]).double()
    >>> losses = [rule.step(Batch(x, 3 * x[:, 0]), k) for k in range(20)]
    >>> rule.finished, round(model.weight.item(), 4)
    (True, 3.0)
    """

    def __init__(self, method: str = "bracketing", first: float = 1.0, stop: float = 0.0, narrow: float = 1e-3):
        self.method = method
        self.first = real("first", first, 0, above=True, usual=1.0)
        self.stop = real("stop", stop, 0, usual=1e-6)
        self.narrow = real("narrow", narrow, 0, 1, above=True, usual=1e-3)
        self._search = lookup(
            method, {"bracketing": self._bracket, "armijo": self._armijo, "wolfe": self._wolfe}, "method"
        )
        self.last: float | None = None

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        super().bind(model, likelihood, total_steps)
        self.last, self.finished = None, False

    def step(self, batch: Batch, index: int) -> Tensor:
        loss, g = self.gradient(batch)
        square = dot(g, g)
        if self.finished or math.sqrt(square) < self.stop:
            self.finished = True
            return loss
        here = [p.detach().clone() for p in self.parameters]
        away = lambda alpha: [p - alpha * d for p, d in zip(here, g, strict=True)]  # noqa: E731

        def along(alpha: float) -> float:
            with torch.no_grad():
                value = float(self.at(away(alpha), batch))
            return value if math.isfinite(value) else math.inf

        slope = lambda alpha: dot(g, self.gradient_at(away(alpha), batch)[1])  # noqa: E731
        begin = self.first if self.last is None else 2 * self.last
        alpha = self._search(along, slope, float(loss), square, begin)
        self.finished = alpha == 0 and self.steps_per_epoch == 1  # no lower loss along -g, to rounding
        if alpha > 0:
            self.last = alpha
            with torch.no_grad():
                for p, place in zip(self.parameters, away(alpha), strict=True):
                    p.copy_(place)
        return loss

    def _bracket(self, along: Any, slope: Any, here: float, square: float, begin: float) -> float:
        """Eq. 2; 0 where no loss lower than here was found."""
        d, value = begin, along(begin)
        for _ in range(_TRIES if value < here else 0):  # widen while it still falls
            wider = along(2 * d)
            if wider >= value:
                break
            d, value = 2 * d, wider
        a, d = 0.0, 2 * d
        b, c = d - _GOLDEN * d, _GOLDEN * d
        at_b, at_c = along(b), along(c)
        best = min((value, d / 2), (at_b, b), (at_c, c))
        for _ in range(4 * _TRIES):
            if d - a <= self.narrow * best[1] and best[0] < here:
                break
            if at_b > at_c:
                a, b, at_b = b, c, at_c
                c = a + _GOLDEN * (d - a)
                at_c = along(c)
                best = min(best, (at_c, c))
            else:
                d, c, at_c = c, b, at_b
                b = d - _GOLDEN * (d - a)
                at_b = along(b)
                best = min(best, (at_b, b))
        return best[1] if best[0] < here else 0.0

    def _armijo(self, along: Any, slope: Any, here: float, square: float, begin: float) -> float:
        """Eq. 3."""
        alpha = begin
        for _ in range(_TRIES):
            if along(alpha) <= here - _C1 * alpha * square:
                return alpha
            alpha /= 2
        return 0.0

    def _wolfe(
        self, along: Callable[[float], float], slope: Callable[[float], float], here: float, square: float, begin: float
    ) -> float:
        """Eq. 3 and 4: `low` is too short, `high` too long."""
        low, high, alpha = 0.0, math.inf, begin
        for _ in range(_TRIES):
            if along(alpha) > here - _C1 * alpha * square:
                high = alpha
            elif slope(alpha) > _C2 * square:
                low = alpha
            else:
                return alpha
            alpha = 2 * low if high == math.inf else (low + high) / 2
        return low

    def rate(self, index: int) -> float:
        return self.last or 0.0

    def state(self) -> Any:
        return {"last": self.last, "finished": self.finished}

    def load_state(self, state: Any) -> None:
        self.last, self.finished = state["last"], state["finished"]
