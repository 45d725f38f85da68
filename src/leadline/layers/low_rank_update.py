"""A linear map that is held still, and a map of low rank beside it that learns (Hu et al., 2021).

    y = W x + b + (α / r) B A x        A of r rows, B of r columns; B is 0 at first, so y begins as it was        (1)
    W' = W + (α / r) B A                 the same map as one matrix                                              (2)

Notation   W, b -> base.weight, base.bias;  A -> down.weight;  B -> up.weight;  r -> rank
Paper      A is drawn with variance 1 / width; what the update reads is not dropped here
Shapes     (…, in) -> (…, out)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.settings import real, whole


class LowRankUpdate(nn.Module):
    """Args:
        base: the map; it is held still from here on.
        rank: r, at least 1.
        alpha: α, above 0; r by default.
        generator: of the first A.

    >>> layer = LowRankUpdate(nn.Linear(6, 4), rank=2)
    >>> layer(torch.ones(3, 6)).shape, [name for name, p in layer.named_parameters() if p.requires_grad]
    (torch.Size([3, 4]), ['down.weight', 'up.weight'])
    """

    def __init__(
        self, base: nn.Linear, rank: int = 8, alpha: float | None = None, generator: torch.Generator | None = None
    ):
        super().__init__()
        self.rank = whole("rank", rank, usual=8)
        self.alpha = float(rank) if alpha is None else real("alpha", alpha, 0, above=True, usual=8.0)
        self.base = base.requires_grad_(False)
        as_base = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.down = nn.Linear(base.in_features, rank, bias=False, **as_base)
        self.up = nn.Linear(rank, base.out_features, bias=False, **as_base)
        first = torch.randn(rank, base.in_features, generator=generator) / base.in_features**0.5
        with torch.no_grad():
            self.down.weight.copy_(first)
            self.up.weight.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.alpha / self.rank * self.up(self.down(x))  # eq. 1

    @property
    def weight(self) -> Tensor:
        """Eq. 2."""
        return self.base.weight + self.alpha / self.rank * (self.up.weight @ self.down.weight)

    @property
    def bias(self) -> Tensor | None:
        return self.base.bias

    @torch.no_grad()
    def folded(self) -> nn.Linear:
        """The base with the update in its weights, free to move again."""
        self.base.weight.copy_(self.weight)
        return self.base.requires_grad_(True)

    def extra_repr(self) -> str:
        return f"rank={self.rank}, alpha={self.alpha:g}"
