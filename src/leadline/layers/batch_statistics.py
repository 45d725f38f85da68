"""Batch normalisation's relatives, and its exact statistics for test time.

    batch norm   z = γ (x - mean_B) / √(var_B + ε) + β        over the batch B while training  (1)
    ghost        (1) over parts of the batch, each by itself: the noise of small batches (Hoffer et al.) (2)
    renorm       z = γ ((x - mean_B) / σ_B · r + d) + β,  r = σ_B / σ,  d = (mean_B - mean) / σ, both clipped and held
                 constant: as at test time, with a gradient through the batch (Ioffe, 2017)  (3)
    exact        mean and variance over the whole training split, in place of running averages  (4)

Running averages follow weights that are gone; after training, (4) is what (1) would have with one batch of all rows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leadline.settings import real, whole


class GhostBatchNorm(nn.Module):
    """Args:
        dim: number of units, at least 1.
        rows: of a part, at least 2; a batch is cut into parts of at least that many, nearly alike.

    Shapes     (B, dim) -> (B, dim)

    >>> layer = GhostBatchNorm(3, rows=4)
    >>> bool(layer(torch.randn(8, 3))[:4].mean(0).abs().max() < 1e-6)
    True
    """

    def __init__(self, dim: int, rows: int = 16):
        super().__init__()
        self.rows = whole("rows", rows, 2)
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.norm(x)
        return torch.cat([self.norm(part) for part in x.tensor_split(max(1, len(x) // self.rows))])  # eq. 2


class BatchRenorm(nn.Module):
    """Args:
        dim: number of units, at least 1.
        most_scale, most_shift: r lies in [1/most_scale, most_scale], d in [-most_shift, most_shift].
        momentum: of the running mean and deviation, above 0 and below 1.

    Shapes     (B, dim) -> (B, dim)

    >>> layer = BatchRenorm(3)
    >>> layer(torch.randn(8, 3)).shape
    torch.Size([8, 3])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, dim: int, most_scale: float = 3.0, most_shift: float = 5.0, momentum: float = 0.1):
        super().__init__()
        self.most_scale, self.most_shift = real("most_scale", most_scale, 1), real("most_shift", most_shift, 0)
        self.momentum = real("momentum", momentum, 0, 1, above=True, usual=0.1)
        self.gain, self.shift = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("deviation", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.gain * (x - self.mean) / self.deviation + self.shift
        mean, deviation = x.mean(0), (x.var(0, unbiased=False) + 1e-5).sqrt()
        r = (deviation.detach() / self.deviation).clamp(1 / self.most_scale, self.most_scale)
        d = ((mean.detach() - self.mean) / self.deviation).clamp(-self.most_shift, self.most_shift)
        out = self.gain * ((x - mean) / deviation * r + d) + self.shift  # eq. 3
        with torch.no_grad():
            self.mean.lerp_(mean.detach(), self.momentum)
            self.deviation.lerp_(deviation.detach(), self.momentum)
        return out


@torch.no_grad()
def exact_statistics(model: nn.Module, x: Tensor) -> None:
    """Give every batch normalisation of the model the statistics of all rows (4), in place.

    Args:
        x: the training rows as the network reads them, all at once; at least 2.

    >>> model = nn.Sequential(nn.BatchNorm1d(1))
    >>> exact_statistics(model, torch.tensor([[1.0], [5.0]]))
    >>> model[0].running_mean.tolist(), model[0].running_var.tolist()
    ([3.0], [4.0])
    """
    modes = [(module, module.training) for module in model.modules()]
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]

    def measure(module: _BatchNorm, arguments: tuple[Tensor, ...]) -> None:
        [h] = arguments
        axes = [axis for axis in range(h.dim()) if axis != 1]
        module.running_mean.copy_(h.mean(axes))  # type: ignore[union-attr]
        module.running_var.copy_(h.var(axes, unbiased=False))  # type: ignore[union-attr]

    hooks = [norm.register_forward_pre_hook(measure) for norm in norms]
    try:
        model.eval()  # each layer then normalises by what was measured a moment ago, and hands on exact values
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in modes:
            module.training = mode
