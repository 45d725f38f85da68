"""Normalisations over the nodes of a graph, against features that become all alike with depth.

    graph   y_i = γ (h_i - α mean) / √(mean (h - α mean)² + ε) + β       per number, per graph (Cai et al., 2021)   (1)
    pair    y_i = s (h_i - mean) / √(mean_i |h_i - mean|²)               distances of pairs stay (Zhao, 2020)       (2)

Shapes     h (N, D), first (G + 1,), where the nodes of each graph begin -> (N, D)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.layers.segments import arrived, mean


class GraphNorm(nn.Module):
    """Args:
        dim: D.

    >>> GraphNorm(1)(torch.tensor([[1.0], [3.0], [7.0]]), torch.tensor([0, 2, 3])).round().tolist()
    [[-1.0], [1.0], [0.0]]
    """

    def __init__(self, dim: int):
        super().__init__()
        self.weight, self.bias, self.part = (nn.Parameter(fill(dim)) for fill in (torch.ones, torch.zeros, torch.ones))

    def forward(self, h: Tensor, first: Tensor) -> Tensor:
        run = _nodes(h, first)
        off = h - self.part * arrived(mean(h, run), run)
        return self.weight * off * arrived((mean(off.square(), run) + 1e-5).rsqrt(), run) + self.bias  # eq. 1


class PairNorm(nn.Module):
    """Args:
        scale: s.

    >>> PairNorm()(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 2])).tolist()
    [[-1.0], [1.0]]
    """

    def __init__(self, scale: float = 1.0):
        super().__init__()
        self.scale = scale

    def forward(self, h: Tensor, first: Tensor) -> Tensor:
        run = _nodes(h, first)
        off = h - arrived(mean(h, run), run)
        length = mean(off.square().sum(1, keepdim=True), run)
        return self.scale * off * arrived(length.clamp(min=1e-12).rsqrt(), run)  # eq. 2


def _nodes(h: Tensor, first: Tensor) -> Edges:
    """The nodes of each graph, as what ends in it."""
    return Edges(torch.arange(len(h), device=h.device), first, len(h))
