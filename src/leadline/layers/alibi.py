"""Linear biases: the further a key, the lower its score, at a rate of each head's own (Press et al., 2021).

    bias_{h,ij} = -m_h |i - j|                                                                     (1)
    m_h         = 2^{-8h/H},   h = 1 … H                       H a power of two                    (2)

For another H: the slopes of the power of two below, P, then every second one of 2P, from its first. Nothing is learned,
and no place is the last: rows may be longer than those of training.

Notation   m -> slopes;  i -> place of the query, j -> of the key
Shapes     i (T,) or (B, T);  j (S,);  bias (1 or B, H, T, S)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.settings import whole


class ALiBi(nn.Module):
    """Args:
        num_heads: H.

    >>> ALiBi(2)(torch.arange(3), torch.arange(3))[0, 0, 2].tolist()
    [-0.125, -0.0625, -0.0]
    """

    def __init__(self, num_heads: int):
        super().__init__()
        self.heads = whole("num_heads", num_heads)

    def forward(self, i: Tensor, j: Tensor) -> Tensor:
        """The bias, for `attend`."""
        apart = (i[..., :, None] - j).abs()  # (T, S) or (B, T, S)
        apart = apart[None, None] if apart.dim() == 2 else apart[:, None]
        return -slopes(self.heads, i.device)[:, None, None] * apart  # eq. 1

    def extra_repr(self) -> str:
        return f"num_heads={self.heads}"


def slopes(num_heads: int, device: torch.device | str = "cpu") -> Tensor:
    """Eq. 2, (H,).

    >>> slopes(4).tolist(), slopes(3).tolist()
    ([0.25, 0.0625, 0.015625, 0.00390625], [0.0625, 0.00390625, 0.25])
    """
    P = 2 ** (num_heads.bit_length() - 1)
    plain = torch.arange(1, P + 1, device=device) * (8 / P)
    between = torch.arange(1, 2 * (num_heads - P) + 1, 2, device=device) * (4 / P)
    return torch.cat([plain, between]).neg().exp2()
