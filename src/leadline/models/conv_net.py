"""Convolutional network for pictures: small, plain and quick on a CPU.

    h_0     = x                                                                                        (1)
    h       <- a(N(C h))                    K x K kernels; the first of a stage halves rows, columns   (2)
    output  = β + Ω drop(mean_{y,x} h)                                                                 (3)

A stage is `depth` layers (2) of one width. The stem, the first layer of the first stage, halves too, so that most of
the work is done at a quarter of the places. With the mean in (3) the network reads pictures of any size.

Notation   C, N -> body[k].conv, .norm;  a ReLU;  Ω, β -> head.weight, head.bias;  K -> kernel
Shapes     x (B, channels, Y, X) -> (B, dim_output); any Y, X
Train it   leadline train pictures/ --model ConvNet --widths 32 64 128
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.dropout import Dropout
from leadline.layers.feature_norm import feature_norm
from leadline.layers.residual_block import draw_kernels
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.settings import given, real


class ConvNet(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes or other outputs, at least 1.
        widths: channels of each stage, at least 1 each.
        depth: layers of a stage, at least 1.
        kernel: rows and columns of a kernel, an odd number.
        norm: a name in `leadline.layers.feature_norm.NORMS`.
        p_drop: probability that a unit before the last map is silenced while training, 0 <= p_drop < 1.

    >>> import torch
    >>> ConvNet(1, 10)(torch.zeros(5, 1, 28, 28)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        widths: Sequence[int] = (32, 64, 128),
        depth: int = 2,
        kernel: int = 3,
        norm: str = "batch",
        p_drop: float = 0.2,
    ):
        super().__init__()
        widths = tuple(widths)
        check_sizes("ConvNet", channels=channels, dim_output=dim_output, depth=depth, kernel=kernel)
        check_sizes("ConvNet", **{f"widths[{k}]": width for k, width in enumerate(widths)})
        if not widths or kernel % 2 == 0:
            what, got = ("kernel must be odd", given("kernel", kernel)) if widths else ("widths must be given", "none")
            raise UserError(f"ConvNet: {what}", got=got, do="Leave it out, or pass widths=(32, 64, 128), kernel=3")
        self.channels, self.dim_output, self.widths, self.depth = channels, dim_output, widths, depth
        self.kernel, self.norm, self.p_drop = kernel, norm, real("p_drop", p_drop, 0, 1, usual=0.2)
        self.body = nn.Sequential()
        dim = channels
        for width in widths:
            for k in range(depth):
                conv = nn.Conv2d(dim, width, kernel, 2 if k == 0 else 1, kernel // 2, bias=norm != "batch")
                self.body.append(nn.Sequential(OrderedDict(conv=conv, norm=feature_norm(norm, width), relu=nn.ReLU())))
                dim = width
        self.drop = Dropout(p_drop, site=1)
        self.head = nn.Linear(dim, dim_output)
        draw_kernels(self)

    @classmethod
    def tiny(cls) -> ConvNet:
        return cls(1, 2, widths=(3, 4), depth=1)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 32, 32

    def forward(self, x: Tensor) -> Tensor:
        check_picture("ConvNet", x, self.channels)
        h = self.body(x)  # eq. 2   (B, D, Y', X')
        return self.head(self.drop(h.mean((2, 3))))  # eq. 3
