"""Memory-compressed attention: a strided convolution makes one key and one value of s neighbours (Liu et al., 2018).

    k'_c = b + Σ_{t<s} W_t k_{cs + t},   v' likewise                    ⌈T/s⌉ in place of T                (1)
    out  = softmax(q k'ᵀ / √K) v'                                                                          (2)
    causal: query i looks at c where its last place, cs + s - 1, is at most i                              (3)

So the first s - 1 queries of (3) look at nothing and get 0: pair this layer with a local one. A key is there where one
of its places is. W mixes the channels of one head alone.

Notation   W, b -> compress_keys, compress_values
Shapes     x (B, T, D) -> (B, T, D)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.attend import attend
from leadline.layers.attention import SelfAttention, in_heads, joined
from leadline.layers.mask_parts import cleared, parts
from leadline.layers.masks import Mask, Padding, UpTo
from leadline.layers.positions import check_rows
from leadline.settings import whole


class CompressedAttention(nn.Module):
    """Args:
        dim: D.
        num_heads: H.
        stride: s.

    >>> CompressedAttention(16, 4, stride=3)(torch.zeros(2, 8, 16)).shape
    torch.Size([2, 8, 16])
    """

    def __init__(self, dim: int, num_heads: int, stride: int = 3):
        super().__init__()
        self.attention = SelfAttention(dim, num_heads)
        self.stride = whole("stride", stride)
        self.compress_keys = nn.Conv1d(dim, dim, stride, stride, groups=num_heads)
        self.compress_values = nn.Conv1d(dim, dim, stride, stride, groups=num_heads)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """Args:
        mask: Causal, Padding, both, or None.
        """
        check_rows(x, self.attention.dim, "CompressedAttention")
        B, T, _ = x.shape
        causal, there = parts(mask, "CompressedAttention", x)
        if not x.shape[1]:
            return x
        q, k, v = self.attention.query_key_value(x).chunk(3, -1)
        more = -T % self.stride
        k, v = (F.pad(cleared(part, there).transpose(1, 2), (0, more)) for part in (k, v))  # (B, D, T + more)
        k, v = self.compress_keys(k).transpose(1, 2), self.compress_values(v).transpose(1, 2)  # eq. 1
        q, k, v = (in_heads(part, self.attention.dim_head) for part in (q, k, v))
        rule: Mask | None = None
        if there is not None:
            rule = Padding(F.pad(there, (0, more)).unflatten(1, (-1, self.stride)).any(-1))
        if causal:
            last = (torch.arange(T, device=x.device) + 1) // self.stride - 1
            rule = UpTo(last.expand(B, T)) if rule is None else rule & UpTo(last.expand(B, T))  # eq. 3
        return self.attention.out(joined(attend(q, k, v, rule)))  # eq. 2
