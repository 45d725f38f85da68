"""True convolution: the kernel flipped, and dilation counted in zeros.

    z[o][i] = β[o] + Σ_c Σ_k w[o][c][k] x[c][s i + (m + 1) (K-1-k) - p]        (1)

What networks call convolution slides the kernel as it is; (1) flips it, as signal processing does, so that it commutes:
f * h = h * f. The network learns either way, one the mirror image of the other; a kernel taken from elsewhere must be
used in the form it was made for.

Notation   m -> zeros, the number of zeros inserted between taps; s -> stride; p -> padding; w, β -> weight, bias
Textbook   torch counts the step between taps, `spacing(m)` = m + 1: 1 there is none, 0 here
Shapes     x (B, dim_input, *sizes) -> (B, dim_output, *sizes'), one to three axes
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from leadline.errors import UserError
from leadline.names import lookup
from leadline.settings import whole

CONVOLUTIONS: dict[int, type[nn.Conv1d | nn.Conv2d | nn.Conv3d]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}

_SUMS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_MODES = {"zeros": "constant", "circular": "circular", "reflect": "reflect"}


def spacing(zeros: int) -> int:
    """What torch calls dilation, of the number of zeros inserted between taps.

    >>> nn.Conv1d(1, 1, 3, dilation=spacing(1))
    Conv1d(1, 1, kernel_size=(3,), stride=(1,), dilation=(2,))
    """
    return whole("zeros", zeros, 0) + 1


class TrueConvolution(_ConvNd):
    """Args:
        dim_input, dim_output: channels, at least 1, multiples of `groups`.
        kernel: taps of each axis, at least 1.
        dims: axes, 1 to 3.
        stride: s, at least 1.
        padding: values appended at each end of each axis, at least 0.
        zeros: m, at least 0.
        groups: each output channel reads one group of input channels.
        mode: of padding: "zeros", "circular" or "reflect".

    >>> import torch
    >>> layer = TrueConvolution(1, 1, 3, dims=1)
    >>> _ = layer.weight.data.copy_(torch.tensor([[[1.0, 0.0, -1.0]]])), layer.bias.data.zero_()
    >>> layer(torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])).tolist()
    [[[2.0, 2.0]]]
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
        groups: int = 1,
        mode: str = "zeros",
    ):
        dims = whole("dims", dims, 1, 3)
        groups = whole("groups", groups)
        if whole("dim_input", dim_input) % groups or whole("dim_output", dim_output) % groups:
            raise UserError(
                "groups must divide both numbers of channels",
                got=f"dim_input={dim_input}, dim_output={dim_output}, groups={groups}",
                do="Pass groups=1",
            )
        self.mode = lookup(mode, _MODES, "mode")
        super().__init__(
            dim_input,
            dim_output,
            (whole("kernel", kernel),) * dims,
            (whole("stride", stride),) * dims,
            (whole("padding", padding, 0),) * dims,
            (spacing(zeros),) * dims,
            False,
            (0,) * dims,
            groups,
            True,
            mode.lower(),  # type: ignore[arg-type]
        )

    def forward(self, x: Tensor) -> Tensor:
        dims = len(self.kernel_size)
        flipped, padding = self.weight.flip(tuple(range(2, 2 + dims))), self.padding
        if self.mode != "constant":
            x, padding = F.pad(x, [self.padding[0]] * (2 * dims), self.mode), (0,) * dims  # type: ignore[list-item]
        return _SUMS[dims](x, flipped, self.bias, self.stride, padding, self.dilation, self.groups)  # eq. 1
