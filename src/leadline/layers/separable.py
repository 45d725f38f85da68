"""Convolutions of fewer weights: kernels that are products, and channels apart from places.

    full        w[o][c][k][l]                                   C K² weights for each output channel          (1)
    rank one    w[o][c][k][l] = u[o][c] r[o][k] q[o][l]         C + K + K                                     (2)
    depthwise   h[c] = v[c] ⋆ x[c],   z[o] = β[o] + Σ_c u[o][c] h[c]       K² for each input channel, C for each
                                                                output channel                                (3)

(2) is computed without ever building w: u mixes the channels, r runs along the rows of what comes out and q along the
columns, in all C + 2K products for each place and output channel in place of C K². First weights of (2) are drawn so
that w has the variance that torch gives to (1).

Notation   u -> pointwise.weight;  r, q -> along[0].weight, along[1].weight;  v -> depthwise.weight;  β -> the last bias
Shapes     x (B, dim_input, *sizes) -> (B, dim_output, *sizes'), one to three axes
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.layers.true_convolution import CONVOLUTIONS, spacing
from leadline.settings import whole


class RankOne(nn.Module):
    """Eq. 2.

    Args:
        dim_input, dim_output: channels, at least 1.
        kernel: taps of each axis, at least 1.
        dims: axes, 1 to 3.
        stride: at least 1.
        padding: zeros appended at each end of each axis, at least 0.

    >>> layer = RankOne(16, 8, 5)
    >>> sum(p.numel() for p in layer.parameters()) == 8 * (16 + 5 + 5) + 8  # and an offset each
    True
    """

    def __init__(self, dim_input: int, dim_output: int, kernel: int, dims: int = 2, stride: int = 1, padding: int = 0):
        super().__init__()
        conv = CONVOLUTIONS[whole("dims", dims, 1, 3)]
        self.pointwise = conv(whole("dim_input", dim_input), whole("dim_output", dim_output), 1, bias=False)
        self.along = nn.ModuleList()
        for axis in range(dims):

            def only(value: int, rest: int, axis: int = axis) -> tuple[int, ...]:
                return tuple(value if other == axis else rest for other in range(dims))

            layer = conv(
                dim_output,
                dim_output,
                only(whole("kernel", kernel), 1),  # type: ignore[arg-type]
                only(whole("stride", stride), 1),  # type: ignore[arg-type]
                only(whole("padding", padding, 0), 0),  # type: ignore[arg-type]
                groups=dim_output,
                bias=axis == dims - 1,
            )
            nn.init.uniform_(layer.weight, -((3 / kernel) ** 0.5), (3 / kernel) ** 0.5)  # variance 1 / K
            self.along.append(layer)

    def forward(self, x: Tensor) -> Tensor:
        h = self.pointwise(x)
        for layer in self.along:
            h = layer(h)  # eq. 2
        return h

    def kernels(self) -> Tensor:
        """w of eq. 2, (dim_output, dim_input, *K).

        >>> RankOne(3, 2, 5).kernels().shape
        torch.Size([2, 3, 5, 5])
        """
        w = self.pointwise.weight
        for layer in self.along:
            w = w * layer.weight  # type: ignore[operator]
        return w


class DepthwiseSeparable(nn.Module):
    """Eq. 3.

    Args:
        dim_input, dim_output: channels, at least 1.
        kernel: taps of each axis, at least 1.
        dims: axes, 1 to 3.
        stride: at least 1.
        padding: zeros appended at each end of each axis, at least 0.
        zeros: inserted between taps, at least 0.

    >>> import torch
    >>> layer = DepthwiseSeparable(16, 8, 3, padding=1)
    >>> layer(torch.zeros(2, 16, 9, 9)).shape, sum(p.numel() for p in layer.parameters()) == 9 * 16 + 16 * 8 + 8
    (torch.Size([2, 8, 9, 9]), True)
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        kernel: int,
        dims: int = 2,
        stride: int = 1,
        padding: int = 0,
        zeros: int = 0,
    ):
        super().__init__()
        conv = CONVOLUTIONS[whole("dims", dims, 1, 3)]
        self.depthwise = conv(
            whole("dim_input", dim_input),
            dim_input,
            whole("kernel", kernel),
            whole("stride", stride),
            whole("padding", padding, 0),
            spacing(zeros),
            dim_input,
            bias=False,
        )
        self.pointwise = conv(dim_input, whole("dim_output", dim_output), 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(x))  # eq. 3
