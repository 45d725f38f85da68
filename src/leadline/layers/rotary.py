"""Rotary positions: queries and keys are turned by an angle that grows with their place (Su et al., 2021).

    (a, b) <- (a cos nω_k - b sin nω_k,  a sin nω_k + b cos nω_k)        pair k at place n         (1)
    ω_k    = base^{-2k/K},   k = 0 … K/2 - 1                                                       (2)

A turn keeps lengths, and q · k after it depends on the two vectors and on the difference of their places. Which numbers
are a pair is a matter of layout: "halves" takes number k and number k + K/2, as LLaMA's weights have it, "pairs" the
numbers 2k and 2k + 1, as in the paper. A permutation of the rows of W_q and W_k leads from one to the other.

Notation   (a, b) -> a pair of numbers of a query or key;  n -> at
Shapes     (B, H, T, K) -> (B, H, T, K);  at (B, T) or (T,)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.layers.positions import computing, even, frequencies
from leadline.names import lookup
from leadline.settings import real, whole

LAYOUTS = {"halves": "halves", "pairs": "pairs"}


class Rotary(nn.Module):
    """A turn for `SelfAttention(turn=…)`.

    Args:
        dim_head: K.
        base: of eq. 2, above 0.
        layout: halves or pairs.
        dim_turned: the first so many numbers of each head are turned, an even number; K by default.

    >>> Rotary(4)(torch.ones(1, 1, 2, 4))[0, 0, 0].tolist()  # nothing is turned at place 0
    [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, dim_head: int, base: float = 10000.0, layout: str = "halves", dim_turned: int | None = None):
        super().__init__()
        self.dim = even("dim_head", dim_head) if dim_turned is None else even("dim_turned", dim_turned)
        whole("dim_turned", self.dim, 2, dim_head)
        self.base, self.layout = real("base", base, 0, above=True, usual=10000.0), lookup(layout, LAYOUTS, "layout")

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        """Args:
        at: where the tokens stand; 0 … T-1 by default.
        """
        at = torch.arange(x.shape[2], device=x.device) if at is None else at
        # computed at each call: a stored table would be rounded with the weights, when those go to half precision
        omega = frequencies(self.dim, self.base, x.device, computing(x))
        angles = (at[..., None].to(omega.dtype) * omega).unsqueeze(-3)  # (1 or B, 1, T, K/2), or without B
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        turned, rest = x[..., : self.dim], x[..., self.dim :]
        if self.layout == "halves":
            a, b = turned.chunk(2, -1)
            turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)  # eq. 1
        else:
            a, b = turned[..., 0::2], turned[..., 1::2]
            turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)  # eq. 1
        return torch.cat([turned, rest], -1) if rest.shape[-1] else turned

    def extra_repr(self) -> str:
        return f"dim={self.dim}, base={self.base:g}, layout={self.layout}"
