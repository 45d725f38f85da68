"""More places out of more channels: sub-pixel convolution, for series, pictures and volumes (Shi et al., 2016).

    h = w ⋆ x,   s^d channels for each one that is wanted                              (1)
    y[c][s i + r] = h[s^d c + r][i],   r = 0 … s-1 in each of d axes                   (2)

Each place of y reads a kernel of its own out of s^d, by where it stands between the places of x: a convolution of
stride 1/s, without the uneven overlap that gives a transposed one its chequers.

Notation   s -> factor;  d -> dims;  w -> map.weight
Textbook   torch has (2) for pictures only (PixelShuffle), and no layer of both steps
Shapes     (B, dim_input, *sizes) -> (B, dim_output, *(s·sizes)), one to three axes
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.layers.true_convolution import CONVOLUTIONS
from leadline.settings import whole


class SubPixel(nn.Module):
    """Args:
        dim_input, dim_output: channels, at least 1.
        factor: s, at least 1.
        kernel: taps of each axis, an odd number.
        dims: axes, 1 to 3.

    >>> import torch
    >>> SubPixel(8, 3, factor=2)(torch.zeros(1, 8, 5, 6)).shape
    torch.Size([1, 3, 10, 12])
    """

    def __init__(self, dim_input: int, dim_output: int, factor: int = 2, kernel: int = 3, dims: int = 2):
        super().__init__()
        self.factor, dims = whole("factor", factor), whole("dims", dims, 1, 3)
        if whole("kernel", kernel) % 2 == 0:
            raise UserError("kernels must have odd sizes", got=f"kernel={kernel}", do=f"Pass {kernel + 1}")
        wide = whole("dim_output", dim_output) * factor**dims
        self.map = CONVOLUTIONS[dims](whole("dim_input", dim_input), wide, kernel, padding=kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        return shuffled(self.map(x), self.factor)  # eq. 1, 2


def shuffled(h: Tensor, factor: int) -> Tensor:
    """Eq. 2, of any number of axes.

    >>> import torch
    >>> shuffled(torch.tensor([[[1, 2], [10, 20]]]), 2).tolist()
    [[[1, 10, 2, 20]]]
    """
    B, C, *sizes = h.shape
    dims = len(sizes)
    if C % factor**dims:
        raise ShapeError(
            f"channels must be a multiple of {factor**dims}",
            got=f"{C} channels, factor={factor}, {dims} axes",
            do=f"Pass {-(-C // factor**dims) * factor**dims} channels",
        )
    h = h.reshape(B, C // factor**dims, *[factor] * dims, *sizes)
    order = [axis for k in range(dims) for axis in (2 + dims + k, 2 + k)]  # each size, then its r
    return h.permute(0, 1, *order).reshape(B, C // factor**dims, *[factor * size for size in sizes])
