"""Layer normalisation over a whole sequence: one mean and one variance for all its tokens and channels.

    m, s² = mean and mean square deviation over all n and d of one row                   (1)
    x'_{nd} = γ_d (x_{nd} - m) / √(s² + ε) + δ_d                                         (2)

`torch.nn.LayerNorm` has a mean and a variance for each token, which is what transformers use; this is what some texts
write. Here a token depends on all others of its row, so a causal network must not have it. Places that only fill their
row are left out of (1).

Notation   γ -> weight;  δ -> bias
Shapes     x (B, T, D) -> (B, T, D);  there (B, T)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.settings import real, whole


class SequenceNorm(nn.Module):
    """Args:
        dim: D.
        epsilon: ε, above 0.

    >>> h = SequenceNorm(4)(torch.arange(24.0).view(2, 3, 4))
    >>> h.mean((1, 2)).abs().max().item() < 1e-6
    True
    """

    def __init__(self, dim: int, epsilon: float = 1e-5):
        super().__init__()
        self.epsilon = real("epsilon", epsilon, 0, above=True, usual=1e-5)
        self.weight = nn.Parameter(torch.ones(whole("dim", dim)))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        """Args:
        there: true where a token is a word of its row; all are by default.
        """
        B, T, D = x.shape
        counts = x.new_ones(B, T, 1) if there is None else there[..., None].to(x.dtype)
        total = (counts.sum((1, 2), keepdim=True) * D).clamp(min=1)
        centred = x - (x * counts).sum((1, 2), keepdim=True) / total
        variance = (centred.square() * counts).sum((1, 2), keepdim=True) / total  # eq. 1
        return self.weight * centred * (variance + self.epsilon).rsqrt() + self.bias  # eq. 2
