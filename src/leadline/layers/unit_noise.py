"""Noise on hidden units, other than silencing them: multiplied or added, other for each example and step.

    multiplied   h~ = h * m,  E m = 1,  Var m = s²                                                           (1)
                 normal    m = 1 + s ε                       (Srivastava et al., 2014)
                 uniform   m = 1 + s √3 (2u - 1)             (Shen et al., 2017)
                 beta      m = 2 b,  b ~ Beta(a, a),  a = (1/s² - 1) / 2      between 0 and 2 (Liu et al., 2019)
    added        h~ = h + s ε                                                                                (2)

Dropout is (1) with m of two values and s² = p / (1 - p). Both are the identity in evaluation mode.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers import noise
from leadline.names import lookup
from leadline.settings import real

LAWS = ("normal", "uniform", "beta")


class MultiplicativeNoise(nn.Module):
    """Args:
        deviation: s of eq. 1, at least 0; below 1 for beta.
        law: "normal", "uniform" or "beta".
        site: tells this layer's noise from that of other layers.

    Shapes     (B, ...) -> (B, ...)

    >>> bool((MultiplicativeNoise(0.5, "beta")(torch.ones(9, 9)) <= 2).all())
    True
    """

    draws_noise = True

    def __init__(self, deviation: float = 0.5, law: str = "normal", site: int = 0):
        super().__init__()
        self.deviation, self.site = real("deviation", deviation, 0, usual=0.5), site
        self.law = lookup(law, {word: word for word in LAWS}, "law")
        if self.law == "beta" and not self.deviation < 1:
            raise UserError("deviation of law beta must be below 1", got=f"deviation={deviation}", do="Pass 0.5")

    def forward(self, h: Tensor) -> Tensor:
        if not self.training or self.deviation == 0:
            return h
        keys, s, shape = _keys(h), self.deviation, tuple(h.shape[1:])
        if self.law == "normal":
            return h * (1 + s * noise.normal(keys, shape, self.site, h.dtype))
        if self.law == "uniform":
            return h * (1 + s * 3**0.5 * (2 * noise.uniform(keys, shape, self.site).to(h.dtype) - 1))
        return h * 2 * noise.symmetric_beta(keys, shape, (1 / s**2 - 1) / 2, self.site, h.dtype)


class AdditiveNoise(nn.Module):
    """Args:
        deviation: s of eq. 2, at least 0.
        site: tells this layer's noise from that of other layers.

    Shapes     (B, ...) -> (B, ...)

    >>> layer = AdditiveNoise(0.1).eval()
    >>> layer(torch.ones(1, 2)).tolist()
    [[1.0, 1.0]]
    """

    draws_noise = True

    def __init__(self, deviation: float = 0.1, site: int = 0):
        super().__init__()
        self.deviation, self.site = real("deviation", deviation, 0, usual=0.1), site

    def forward(self, h: Tensor) -> Tensor:
        if not self.training or self.deviation == 0:
            return h
        return h + self.deviation * noise.normal(_keys(h), tuple(h.shape[1:]), self.site, h.dtype)  # eq. 2


class RandomizedReLU(nn.Module):
    """ReLU whose slope below 0 is drawn anew for each unit and example (Xu et al., 2015).

        z, or s·z below 0,   s ~ U[low, high] while training,   s = (low + high) / 2 otherwise

    Args:
        low, high: range of the slope, low <= high.
        site: tells this layer's noise from that of other layers.

    >>> RandomizedReLU(0.1, 0.3).eval()(torch.tensor([[-1.0, 2.0]])).tolist()
    [[-0.20000000298023224, 2.0]]
    """

    draws_noise = True

    def __init__(self, low: float = 1 / 8, high: float = 1 / 3, site: int = 0):
        super().__init__()
        self.low, self.high, self.site = real("low", low), real("high", high), site
        if low > high:
            raise UserError("low must not exceed high", got=f"low={low}, high={high}", do="Pass low=0.125, high=0.333")

    def forward(self, z: Tensor) -> Tensor:
        slope: Tensor | float = (self.low + self.high) / 2
        if self.training:
            drawn = noise.uniform(_keys(z), tuple(z.shape[1:]), self.site).to(z.dtype)
            slope = self.low + (self.high - self.low) * drawn
        return torch.where(z < 0, slope * z, z)


def _keys(h: Tensor) -> Tensor:
    """The keys of the rows, or keys from torch's generator outside of `fit`."""
    keys = noise.current.keys
    return torch.randint(2**62, (len(h),), device=h.device) if keys is None else keys
