"""Attention in linear time: the exponential of a product becomes a product of features (Katharopoulos et al., 2020).

    out_i = g(q_i)ᵀ Σ_j g(k_j) v_jᵀ / g(q_i)ᵀ Σ_j g(k_j)                 the sums are the same for every query  (1)
    causal: the sums run over j <= i, and grow by one key at a time                                             (2)

    elu        g(x) = elu(x) + 1                                                                                (3)
    random     g(x)_r = exp(ω_r · x' - ‖x'‖²/2) / √R,   x' = x / K^{1/4},   ω_r ~ N(0, 1)                       (4)

The mean of g(q) · g(k) in (4) over ω is exp(q · k / √K), so it approximates softmax attention, the better the more
features (Choromanski et al., 2020); only infinitely many are exact. Directions ω are drawn orthogonal within each K of
them. In (2) a row is read in pieces: inside a piece as a small square, before it through the sums. Features of (4) are
kept as logarithms (`leadline.layers.log_kernel`): those of long queries and keys are smaller than any number.

Notation   g -> features;  ω -> directions;  R features
Shapes     q, k (B, H, T, K) -> features (B, H, T, R);  v (B, H, T, K');  x (B, T, D) -> (B, T, D)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from leadline.layers.attention import SelfAttention, joined
from leadline.layers.log_kernel import log_kernel_attend
from leadline.layers.mask_parts import parts
from leadline.layers.masks import Mask
from leadline.layers.positions import check_rows
from leadline.names import lookup
from leadline.settings import whole

FEATURES = {"elu": "elu", "random": "random"}


class KernelAttention(nn.Module):
    """Args:
        dim: D.
        num_heads: H.
        features: elu or random.
        num_features: R of the random ones; 4 K by default.
        seed: of their directions.

    >>> KernelAttention(16, 4)(torch.zeros(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    directions: Tensor

    def __init__(self, dim: int, num_heads: int, features: str = "elu", num_features: int | None = None, seed: int = 0):
        super().__init__()
        self.attention = SelfAttention(dim, num_heads)
        self.kind, K = lookup(features, FEATURES, "features"), self.attention.dim_head
        R = 4 * K if num_features is None else whole("num_features", num_features)
        if self.kind == "random":
            self.register_buffer("directions", orthogonal_directions(R, K, seed))

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Causal, Padding, both, or None.
        """
        check_rows(x, self.attention.dim, "KernelAttention")
        causal, there = parts(mask, "KernelAttention", x)
        q, k, v = self.attention.queries_keys_values(x)
        if self.kind == "random":
            log_q, log_k = log_random_features(q, self.directions), log_random_features(k, self.directions)
            return self.attention.out(joined(log_kernel_attend(log_q, log_k, v, there, causal)))
        g_q, g_k = _elu(q), _elu(k)
        if there is not None:
            g_k = g_k.masked_fill(~there[:, None, :, None], 0.0)
        return self.attention.out(joined(kernel_attend(g_q, g_k, v, causal)))


def kernel_attend(g_q: Tensor, g_k: Tensor, v: Tensor, causal: bool = False, piece: int = 64) -> Tensor:
    """Eq. 1, or eq. 2.

    Args:
        g_q, g_k: features, none below 0.
        piece: places that are read at once where it is causal.

    >>> one = torch.ones(1, 1, 2, 1)
    >>> kernel_attend(one, one, torch.tensor([[[[0.0], [4.0]]]]), causal=True).flatten().tolist()
    [0.0, 2.0]
    """
    v = torch.cat([v, torch.ones_like(v[..., :1])], -1)  # the last value, 1, makes the denominator
    if not causal:
        return _ratio(g_q @ (g_k.transpose(-1, -2) @ v))
    out, total = [], v.new_zeros(*v.shape[:2], g_k.shape[-1], v.shape[-1])
    for q_, k_, v_ in zip(g_q.split(piece, 2), g_k.split(piece, 2), v.split(piece, 2), strict=True):
        out.append((q_ @ k_.transpose(-1, -2)).tril() @ v_ + q_ @ total)
        total = total + k_.transpose(-1, -2) @ v_  # eq. 2
    return _ratio(torch.cat(out, 2))


def random_features(x: Tensor, directions: Tensor, rescaled: bool) -> Tensor:
    """Eq. 4; of queries each may be `rescaled` to a largest feature of 1, which cancels in eq. 1.

    >>> random_features(torch.zeros(1, 1, 1, 4), orthogonal_directions(4, 4), False).flatten().tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    power = log_random_features(x, directions)
    power = power - power.amax(-1, keepdim=True).detach() if rescaled else power
    return power.exp() / math.sqrt(len(directions))


def log_random_features(x: Tensor, directions: Tensor) -> Tensor:
    """The logarithm of eq. 4, but for √R, which cancels in eq. 1.

    >>> log_random_features(torch.zeros(1, 1, 1, 4), orthogonal_directions(4, 4)).flatten().tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    x = x / x.shape[-1] ** 0.25
    return x @ directions.T.to(x.dtype) - x.square().sum(-1, keepdim=True) / 2


def _elu(x: Tensor) -> Tensor:
    """Eq. 3. To add 1 to an elu near -1 would leave nothing of it."""
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def orthogonal_directions(num_features: int, dim: int, seed: int = 0) -> Tensor:
    """ω of eq. 4, (R, K): each as long as a normal vector, each K of them at right angles."""
    generator = torch.Generator().manual_seed(whole("seed", seed, 0))
    blocks = []
    for _ in range(-(-num_features // dim)):
        turn, upper = torch.linalg.qr(torch.randn(dim, dim, generator=generator))
        blocks.append(turn * upper.diagonal().sign())  # else the signs of a turn would not be random
    lengths = torch.randn(num_features, dim, generator=generator).norm(dim=1, keepdim=True)
    return torch.cat(blocks)[:num_features] * lengths


def _ratio(both: Tensor) -> Tensor:
    """Numerator over denominator, and 0 where a query may look at nothing."""
    above, below = both[..., :-1], both[..., -1:]
    return torch.where(below > 0, above / torch.where(below > 0, below, 1.0), 0.0)
