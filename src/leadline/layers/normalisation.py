"""Normalisation of units and of pictures, as the books have it where torch does not.

    batch    z = γ (x - mean_B) / (√var_B + ε) + β        ε outside the root, or inside: / √(var_B + ε)       (1)
    layer    z = γ (x - mean) / √(var + ε) + β            over all channels and positions of an example       (2)

Statistics of (1) are for each channel, over the batch and all positions; γ and β belong to the channel in both. With ε
outside, a unit of small deviation s is left with s / (s + ε) in place of s / √(s² + ε): ε = 1e-5 holds back deviations
of 1e-5, and inside the root those of 3e-3.

Notation   γ, β -> weight, bias
Textbook   torch's batch normalisation has ε inside the root only, and its LayerNorm a gain for each value; (2) is its
           GroupNorm of one group
Shapes     (B, C, …) -> the same
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leadline.errors import ShapeError, UserError
from leadline.settings import real, whole


class BatchNorm(_BatchNorm):
    """Eq. 1, of rows, series, pictures and volumes alike.

    Args:
        dim: units or channels, at least 1.
        epsilon: added to the deviation, or to the variance where `inside`; at least 0.
        inside: the root, as in torch.
        momentum: of the running statistics, above 0 and below 1.

    >>> layer, x = BatchNorm(1, epsilon=1.0), torch.tensor([[-3.0], [3.0]])
    >>> layer(x).flatten().tolist()  # ± 3 / (3 + 1)
    [-0.75, 0.75]
    """

    momentum: float
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, dim: int, epsilon: float = 1e-5, inside: bool = False, momentum: float = 0.1):
        super().__init__(
            whole("dim", dim),
            eps=real("epsilon", epsilon, 0, usual=1e-5),
            momentum=real("momentum", momentum, 0, 1, above=True, usual=0.1),
        )
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        if self.inside:
            return super().forward(x)
        self._check_input_dim(x)
        h = x.to(torch.promote_types(x.dtype, torch.float32))
        axes, shape = (0, *range(2, x.dim())), (-1, *[1] * (x.dim() - 2))
        mean, deviation = self._measured(h, axes) if self.training else (self.running_mean, self.running_var.sqrt())
        scale = self.weight / (deviation + self.eps)  # eq. 1
        return ((h - mean.view(shape)) * scale.view(shape) + self.bias.view(shape)).to(x.dtype)

    def _measured(self, h: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        count = h.numel() // h.shape[1]
        if count < 2:
            raise UserError("batch normalisation needs at least 2 rows at a time", got="1", do="Pass a larger batch")
        mean = h.mean(axes, keepdim=True)
        # a norm, not the root of a mean: its gradient at 0 is 0
        deviation = torch.linalg.vector_norm(h - mean, dim=axes) / count**0.5
        mean = mean.flatten()
        with torch.no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            variance = deviation.square() * (count / (count - 1))
            self.running_var.lerp_(variance.to(self.running_var.dtype), self.momentum)
            self.num_batches_tracked.add_(1)
        return mean, deviation

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2 or input.shape[1] != self.num_features:
            raise ShapeError(
                f"BatchNorm takes rows of {self.num_features} channels",
                got=f"shape {tuple(input.shape)}",
                do=f"Pass (B, {self.num_features}, …)",
            )

    def extra_repr(self) -> str:
        return f"{self.num_features}, epsilon={self.eps}, inside={self.inside}, momentum={self.momentum}"


class ImageLayerNorm(nn.Module):
    """Eq. 2.

    Args:
        dim: channels, at least 1.
        epsilon: inside the root, at least 0.

    >>> out = ImageLayerNorm(3)(torch.randn(2, 3, 5, 5) * 4 + 1)
    >>> bool((out.mean((1, 2, 3)).abs() < 1e-5).all())
    True
    """

    def __init__(self, dim: int, epsilon: float = 1e-5):
        super().__init__()
        self.epsilon = real("epsilon", epsilon, 0, usual=1e-5)
        self.weight, self.bias = nn.Parameter(torch.ones(whole("dim", dim))), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, 1, self.weight, self.bias, self.epsilon)  # eq. 2

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, epsilon={self.epsilon}"
