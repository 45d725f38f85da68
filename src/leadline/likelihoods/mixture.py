"""Mixture density network: y has several likely values, each with its own spread (Bishop, 1994).

    p(y) = Σ_k w_k p_k(y),   w = softmax(a)                                                (1)
    Normal     p_k = N(μ_k, σ_k),   μ_k = shift + scale · (m_k + b_k),  σ_k = scale · positive(s_k)     (2)
    VonMises   p_k = e^{κ_k cos(y - μ_k)} / (2π I0(κ_k)),  κ_k (cos μ_k, sin μ_k) = (m_k, s_k) + b_k    (3)
    loss = -logsumexp_k (log w_k + log p_k(y))                                             (4)

Notation   a, m, s -> the three thirds of the output;  b_k -> where component k begins: no two are alike
Shapes     output (B, 3K); y (B,)
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical as CategoricalDistribution
from torch.distributions import MixtureSameFamily
from torch.distributions import Normal as NormalDistribution

from leadline.data.target import Target
from leadline.errors import ShapeError
from leadline.likelihoods.angles import TURN, angular_distance, check_angles, log_i0
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.links import full, positive
from leadline.likelihoods.multimodal import MixturePrediction
from leadline.likelihoods.normal import Normal
from leadline.likelihoods.von_mises import VonMisesDistribution
from leadline.names import lookup
from leadline.settings import whole

COMPONENTS = ("Normal", "VonMises")
_FLOOR = 1e-3  # least σ, in units of the target's deviation: a component that sits on one row must not reach log 0


class Mixture(Likelihood):
    """Args:
        num_components: K, at least 1.
        component: "Normal" for numbers or "VonMises" for angles; by default as the target asks.
        shift, scale: mean and deviation of y, one of each.

    >>> Mixture(2).prediction(torch.tensor([[0.0, 0.0, -1.0, 1.0, -2.0, -2.0]])).modes
    tensor([[-2.,  2.]])
    """

    headline = "nll"
    kinds = ("real", "positive", "count", "proportion", "angle")
    _begin: Tensor

    def __init__(
        self,
        num_components: int = 3,
        component: str = "Normal",
        shift: tuple[float, ...] = (0.0,),
        scale: tuple[float, ...] = (1.0,),
    ):
        super().__init__()
        self.num_components = whole("num_components", num_components, 1)
        self.component = lookup(component, {word: word for word in COMPONENTS}, "component")
        self.shift, self.scale = tuple(shift), tuple(scale)
        self.dim_output = 3 * self.num_components
        if self.circular:
            angle = torch.arange(self.num_components) * TURN / self.num_components
            begin = torch.stack([angle.cos(), angle.sin()])
        else:
            line = torch.linspace(-1, 1, self.num_components) if self.num_components > 1 else torch.zeros(1)
            begin = torch.stack([line, torch.zeros_like(line)])
        self.register_buffer("_begin", begin, persistent=False)  # (2, K)

    @classmethod
    def for_target(cls, target: Target, component: str | None = None, **options: Any) -> Mixture:
        component = component or ("VonMises" if target.kind == "angle" else "Normal")
        if target.dim > 1:
            raise ShapeError(
                "Mixture must have one number to predict",
                got=f"{target}",
                do='Use one for each of them, with likelihood="Joint" and families="Mixture"',
            )
        figures: dict[str, Any] = (
            {} if component.lower() == "vonmises" else {"shift": target.shift, "scale": target.scale}
        )
        return cls(component=component, **figures, **options)

    @property
    def circular(self) -> bool:
        """Whether y is an angle."""
        return self.component == "VonMises"

    def parameters_of(self, output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log w, μ, and σ or κ, each (B, K)."""
        a, m, s = full(output).chunk(3, dim=-1)
        if self.circular:
            m, s = m + self._begin[0], s + self._begin[1]
            return a.log_softmax(-1), torch.atan2(s, m), _length(m, s)  # eq. 3
        return (
            a.log_softmax(-1),
            self.shift[0] + self.scale[0] * (m + self._begin[0]),
            self.scale[0] * positive(s, _FLOOR),
        )  # eq. 2

    def distribution(self, output: Tensor) -> MixtureSameFamily:
        log_w, loc, spread = self.parameters_of(output)
        weights = CategoricalDistribution(logits=log_w, validate_args=False)
        if self.circular:
            return MixtureSameFamily(weights, VonMisesDistribution(loc, spread), validate_args=False)
        return MixtureSameFamily(weights, NormalDistribution(loc, spread, validate_args=False), validate_args=False)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        y = y[:, None]
        if self.circular:  # from the arrows themselves: atan2 has no gradient where an arrow has no length
            a, m, s = full(output).chunk(3, dim=-1)
            m, s = m + self._begin[0], s + self._begin[1]
            log_w, log_p = a.log_softmax(-1), m * y.cos() + s * y.sin() - log_i0(_length(m, s)) - math.log(TURN)
        else:
            log_w, mu, sigma = self.parameters_of(output)
            log_p = -0.5 * ((y - mu) / sigma).square() - sigma.log() - 0.5 * math.log(TURN)
        return -(log_w + log_p).logsumexp(-1)  # eq. 4

    def measures(self, output: Tensor, y: Tensor) -> dict[str, Tensor]:
        log_w, loc, _ = self.parameters_of(output)
        # of the component that weighs most: its place is as good as a mode, and needs no search
        place = loc.gather(1, log_w.argmax(-1, keepdim=True)).squeeze(1)
        off = angular_distance(y, place) if self.circular else (y - place).abs()
        return {"nll": self.loss(output, y), "mae": off}

    def prediction(self, output: Tensor) -> MixturePrediction:
        return MixturePrediction(self.distribution(output), self.circular)

    def check(self, y: Tensor) -> None:
        if self.circular:
            check_angles(y)
        else:
            Normal().check(y)


def _length(m: Tensor, s: Tensor) -> Tensor:
    return (m.square() + s.square() + 1e-12).sqrt()
