"""Hard-concrete gates: weights that can be exactly 0, and a smooth count of those that are not (Louizos et al., 2018).

    s = sigmoid((log u - log(1 - u) + log α) / τ),   z = clip(s (ζ - γ) + γ, 0, 1)      while training, u uniform  (1)
    z = clip(sigmoid(log α) (ζ - γ) + γ, 0, 1)                                          otherwise  (2)
    P(z > 0) = sigmoid(log α - τ log(-γ / ζ))                                           the cost of a gate  (3)

Each weight, or each unit with all of its weights, is multiplied by its gate z. The regulariser `L0` adds λ times the
sum of (3): the expected number of open gates. τ = 2/3, γ = -0.1, ζ = 1.1 as in the paper. The gates of a step are drawn
from the keys of its rows together, so that micro-batches draw gates of their own.
"""

from __future__ import annotations

import copy
import math
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from leadline.layers import noise
from leadline.settings import real

Network = TypeVar("Network", bound=nn.Module)

_TAU, _GAMMA, _ZETA = 2 / 3, -0.1, 1.1


class HardConcrete(nn.Module):
    """Gates on a weight tensor, one for each entry or one for each row.

    Args:
        shape: of the gates; they are multiplied on, and spread over axes of size 1.
        start: sigmoid(log α) at the start, above 0 and below 1; near 1, gates begin open.
        site: tells these gates' noise from that of others.

    >>> gates = HardConcrete((2, 3)).eval()
    >>> tuple(gates(torch.ones(2, 3)).shape), round(float(gates.expected().detach()), 1)  # of 6
    ((2, 3), 5.9)
    """

    draws_noise = True

    def __init__(self, shape: tuple[int, ...], start: float = 0.9, site: int = 0):
        super().__init__()
        real("start", start, 0, 1, above=True, usual=0.9)
        self.site = site
        self.log_alpha = nn.Parameter(torch.full(shape, math.log(start / (1 - start))))

    def gates(self) -> Tensor:
        """z of eq. 1 or 2."""
        logit: Tensor = self.log_alpha
        if self.training:
            keys = noise.current.keys
            if keys is None:
                u = torch.rand_like(logit)
            else:
                u = noise.uniform(noise.of_batch(keys), tuple(logit.shape), self.site)[0].to(logit.dtype)
            u = u.clamp(1e-6, 1 - 1e-6)
            logit = (u.log() - (-u).log1p() + logit) / _TAU
        return (logit.sigmoid() * (_ZETA - _GAMMA) + _GAMMA).clamp(0, 1)

    def expected(self) -> Tensor:
        """Expected number of open gates, the sum of eq. 3."""
        return (self.log_alpha - _TAU * math.log(-_GAMMA / _ZETA)).sigmoid().sum()

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.gates()


def gated(model: Network, by_unit: bool = False, start: float = 0.9) -> Network:
    """A copy whose linear maps have gates on their weights.

    Args:
        by_unit: one gate for all weights into a unit, and none on the last map, whose units are outputs.
        start: sigmoid(log α) at the start, above 0 and below 1; near 1, gates begin open.

    >>> model = gated(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), by_unit=True)
    >>> [tuple(m.log_alpha.shape) for m in model.modules() if isinstance(m, HardConcrete)]
    [(4, 1)]
    """
    made = copy.deepcopy(model)
    maps = [module for module in made.modules() if isinstance(module, nn.Linear)]
    for k, layer in enumerate(maps[:-1] if by_unit else maps):
        shape = (layer.out_features, 1) if by_unit else tuple(layer.weight.shape)
        gates = HardConcrete(shape, start, site=0x2000 + k).to(layer.weight)
        parametrize.register_parametrization(layer, "weight", gates)
    return made
