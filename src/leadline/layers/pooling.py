"""Fewer places: what torch lacks, for series, pictures and volumes.

    subsample      z[i] = x[s i]                                                                               (1)
    l_p            z[i] = (Σ_k |x[s i + k]|^p)^{1/p}                 p = 1 sums |x|, p = ∞ is the largest |x|  (2)
    max-blur       m[i] = max_k x[i + k],   z[i] = Σ_j b[j] m[s i + j - q],   b[j] = C(J-1, j) / 2^{J-1}       (3)
    max, dropped   z[i] = max_k x[s i + k] M[s i + k],   M ~ Bernoulli(1 - P)        while training            (4)
                   z[i] = Σ_r (1 - P) P^{r-1} x_(r)                                  otherwise                 (5)

A layer with a stride throws places away; what is finer than the places that are left shows up as something else. (3)
takes it out before: the maximum at every place, the binomial low-pass b, then every s-th (Zhang, 2019). In (4) the
maximum of a window is one of its values by chance; (5) is the mean of (4) over all masks, x_(1) the largest of the
window, for x of at least 0 (Wu and Gu, 2015).

Notation   K -> window;  s -> stride;  J -> taps;  P -> p_drop;  q -> what keeps the size, end values repeated
Textbook   torch's LPPool takes powers of x, not of |x|: below 0 odd and broken p go wrong; and large p overflow
Shapes     (B, C, *sizes) -> (B, C, *sizes'), one to three axes
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers import noise
from leadline.settings import given, real, whole

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_SUMS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class Subsample(nn.Module):
    """Eq. 1.

    Args:
        stride: s, at least 1.

    >>> Subsample(2)(torch.arange(5.0).view(1, 1, 5)).tolist()
    [[[0.0, 2.0, 4.0]]]
    """

    def __init__(self, stride: int = 2):
        super().__init__()
        self.stride = whole("stride", stride)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, *[slice(None, None, self.stride)] * (x.dim() - 2)]  # eq. 1

    def extra_repr(self) -> str:
        return f"stride={self.stride}"


class LpPool(nn.Module):
    """Eq. 2.

    Args:
        p: at least 1, or infinite.
        window: K of each axis, at least 1.
        stride: None is the window.

    >>> LpPool(3, 2)(torch.tensor([[[-1.0, 0.0, 0.0, 2.0]]])).tolist()
    [[[1.0, 2.0]]]
    """

    def __init__(self, p: float = 2.0, window: int = 2, stride: int | None = None):
        super().__init__()
        if p != math.inf:
            real("p", p, 1, usual=2)
        self.p, self.window = float(p), whole("window", window)
        self.stride = window if stride is None else whole("stride", stride)

    def forward(self, x: Tensor) -> Tensor:
        held = windows(x, self.window, self.stride)
        most = held.detach().abs().amax(-1, keepdim=True)
        scale = torch.where(most > 0, most, 1)  # the norm is homogeneous, and powers of ratios do not overflow
        return torch.linalg.vector_norm(held / scale, self.p, dim=-1) * scale.squeeze(-1)  # eq. 2

    def extra_repr(self) -> str:
        return f"p={self.p:g}, window={self.window}, stride={self.stride}"


class MaxBlurPool(nn.Module):
    """Eq. 3.

    Args:
        window: K of the maximum, at least 1; 1 only blurs and subsamples.
        stride: s, at least 1.
        taps: J of the low-pass, at least 1; 1 does not blur.

    >>> MaxBlurPool()(torch.ones(2, 3, 8, 8)).shape
    torch.Size([2, 3, 4, 4])
    >>> MaxBlurPool(window=1)(torch.tensor([[[0.0, 0.0, 4.0, 0.0]]])).tolist()
    [[[0.0, 2.0]]]
    """

    def __init__(self, window: int = 2, stride: int = 2, taps: int = 3):
        super().__init__()
        self.window, self.stride, self.taps = whole("window", window), whole("stride", stride), whole("taps", taps)

    def forward(self, x: Tensor) -> Tensor:
        dims, channels = x.dim() - 2, x.shape[1]
        m = _MAX[dims](x, self.window, 1)
        before = (self.taps - 1) // 2
        m = F.pad(m, [before, self.taps - 1 - before] * dims, "replicate")
        b = torch.tensor([math.comb(self.taps - 1, j) / 2 ** (self.taps - 1) for j in range(self.taps)]).to(m)
        for axis in range(dims):  # the filter is a product: axis after axis
            shape = [self.taps if other == axis else 1 for other in range(dims)]
            stride = [self.stride if other == axis else 1 for other in range(dims)]
            m = _SUMS[dims](m, b.view(1, 1, *shape).expand(channels, 1, *shape), stride=stride, groups=channels)
        return m  # eq. 3

    def extra_repr(self) -> str:
        return f"window={self.window}, stride={self.stride}, taps={self.taps}"


class MaxPoolDropout(nn.Module):
    """Eq. 4, and 5 in evaluation mode; for values of at least 0, as after a ReLU.

    Args:
        p_drop: probability that a value does not take part, 0 <= p_drop < 1.
        window: K of each axis, at least 1.
        stride: None is the window.
        site: tells this layer's noise from that of other layers.

    >>> MaxPoolDropout(0.5).eval()(torch.tensor([[[8.0, 4.0]]])).tolist()  # 8/2 + 4/4
    [[[5.0]]]
    """

    draws_noise = True

    def __init__(self, p_drop: float = 0.5, window: int = 2, stride: int | None = None, site: int = 0):
        super().__init__()
        self.p_drop, self.site = real("p_drop", p_drop, 0, 1, usual=0.5), site
        self.window = whole("window", window)
        self.stride = window if stride is None else whole("stride", stride)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.p_drop > 0:
            return _MAX[x.dim() - 2](x * self._mask(x), self.window, self.stride)  # eq. 4
        ordered = windows(x, self.window, self.stride).sort(-1, descending=True).values
        rank = torch.arange(ordered.shape[-1], device=x.device, dtype=x.dtype)
        return (ordered * ((1 - self.p_drop) * self.p_drop**rank)).sum(-1)  # eq. 5

    def _mask(self, x: Tensor) -> Tensor:
        keys = noise.current.keys
        if keys is None:
            return torch.rand_like(x).ge(self.p_drop).to(x.dtype)
        return noise.kept(keys, tuple(x.shape[1:]), self.p_drop, self.site, x.dtype).sign()

    def extra_repr(self) -> str:
        return f"p_drop={self.p_drop}, window={self.window}, stride={self.stride}"


def windows(x: Tensor, window: int, stride: int) -> Tensor:
    """The values of every window in a last axis of its own: (B, C, *sizes) -> (B, C, *sizes', windowᵈ).

    >>> windows(torch.arange(4.0).view(1, 1, 4), 2, 2).tolist()
    [[[[0.0, 1.0], [2.0, 3.0]]]]
    """
    if x.dim() < 3 or window > min(x.shape[2:]):
        raise UserError(
            "a window must fit into every axis of (B, C, *sizes)",
            got=f"{given('window', window)} and shape {tuple(x.shape)}",
            do="Choose a smaller window",
        )
    for axis in range(2, x.dim()):
        x = x.unfold(axis, window, stride)
    return x.flatten(x.dim() // 2 + 1)
