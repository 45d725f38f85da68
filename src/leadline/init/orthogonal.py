"""Weights that keep lengths: orthogonal matrices, and kernels that are one at their centre.

    orthogonal          W = g Q,   QᵀQ = 1  (or QQᵀ = 1 where there are fewer outputs than inputs)      (1)
    delta_orthogonal    K[centre] = g Q,   K = 0 elsewhere                                              (2)

By (1) |W h| = g |h|, and |Wᵀ δ| = g |δ| too where W is square: all singular values are g. A ReLU halves the second
moment, which g = √2 makes up for; the tanh of small values keeps it. A convolution by (2) is (1) at every place, so it
keeps the length of a signal of any size where its outputs are at least as many as its inputs, its stride is 1 and its
padding half of its size; `orthogonal` alone flattens a kernel to a matrix and does not.

Papers   Saxe et al. 2013 (1);  Xiao et al. 2018 (2)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.init import orthogonal_

from leadline.init.maps import need_maps


def orthogonal(model: nn.Module, generator: torch.Generator | None = None, gain: float = 1.0) -> None:
    """
    >>> net = nn.Linear(50, 50)
    >>> orthogonal(net, torch.Generator().manual_seed(0))
    >>> bool(torch.allclose(net.weight @ net.weight.T, torch.eye(50), atol=1e-5))
    True
    """
    for one in need_maps(model):
        one.draw(lambda block: _orthogonal(block, gain, generator), generator)


def delta_orthogonal(model: nn.Module, generator: torch.Generator | None = None, gain: float = 1.0) -> None:
    """
    >>> net = nn.Conv1d(8, 8, 3, padding=1)
    >>> delta_orthogonal(net, torch.Generator().manual_seed(0))
    >>> x = torch.randn(1, 8, 100)
    >>> bool(torch.allclose(net(x).norm(), x.norm()))
    True
    """
    for one in need_maps(model):
        one.draw(lambda block: _delta(block, gain, generator), generator)


def _orthogonal(block: Tensor, gain: float, generator: torch.Generator | None) -> None:
    """torch's own, which needs a matrix of single or double precision."""
    exact = block if block.dtype == torch.float64 else block.float()
    block.copy_(orthogonal_(exact, gain, generator=generator))


def _delta(block: Tensor, gain: float, generator: torch.Generator | None) -> None:
    if block.dim() == 2:
        return _orthogonal(block, gain, generator)
    block.zero_()
    matrix = block.new_empty(block.shape[:2])
    _orthogonal(matrix, gain, generator)
    for place, size in enumerate(block.shape[2:]):
        block = block.narrow(place + 2, size // 2, 1)  # the centre
    block.view(matrix.shape).copy_(matrix)
