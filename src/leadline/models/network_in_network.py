"""Network in network: a small network slides over the picture in place of a kernel (Lin et al., 2014).

    m_K(h)  = a(C1' a(C1 a(C_K h)))               a K x K kernel, then two full layers at every place            (1)
    h       = drop(pool(m_5(drop(pool(m_5(x))))))  pools of 3x3 at every second place: maxima, then means        (2)
    output  = mean_{y,x} C1' a(C1 a(C_3 h))       one channel a class: no full layer at the end                  (3)

A convolution of 1x1 is the same full layer at every place, so (1) computes at each place what a network of three layers
makes of its neighbourhood.

Notation   C_K, C1, C1' -> body[…].conv;  a ReLU, after a normalisation where norm is not "none"
Paper      a ReLU stands after the class maps of (3) too; here a score can be negative. The paper has no normalisation,
           norm="none", and then needs a learning rate of its own
Shapes     x (B, channels, Y, X) -> (B, dim_output); any Y, X
Train it   leadline train pictures/ --model NetworkInNetwork --width 96
"""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.dropout import Dropout
from leadline.layers.feature_norm import feature_norm
from leadline.layers.residual_block import draw_kernels
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.settings import real


class NetworkInNetwork(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes, at least 1.
        width: channels of the K x K kernels, at least 6; 192 in the paper, whose 160 and 96 scale with it.
        norm: a name in `leadline.layers.feature_norm.NORMS`.
        p_drop: probability that a unit after a pooling is silenced while training, 0 <= p_drop < 1.

    >>> import torch
    >>> net = NetworkInNetwork(3, 10, width=192, norm="none")
    >>> sum(p.numel() for p in net.parameters())
    966986
    """

    def __init__(self, channels: int, dim_output: int, width: int = 192, norm: str = "batch", p_drop: float = 0.5):
        super().__init__()
        check_sizes("NetworkInNetwork", channels=channels, dim_output=dim_output, width=width)
        self.channels, self.dim_output, self.width = channels, dim_output, width
        self.norm, self.p_drop = norm, real("p_drop", p_drop, 0, 1, usual=0.5)
        narrow, half = max(1, width * 5 // 6), max(1, width // 2)
        self.body = nn.Sequential(
            _layer(channels, width, 5, norm),
            _layer(width, narrow, 1, norm),
            _layer(narrow, half, 1, norm),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            Dropout(p_drop, site=1),
            _layer(half, width, 5, norm),
            _layer(width, width, 1, norm),
            _layer(width, width, 1, norm),
            nn.AvgPool2d(3, 2, ceil_mode=True),
            Dropout(p_drop, site=2),
            _layer(width, width, 3, norm),
            _layer(width, width, 1, norm),
        )
        self.head = nn.Conv2d(width, dim_output, 1)
        draw_kernels(self)

    @classmethod
    def tiny(cls) -> NetworkInNetwork:
        return cls(1, 2, width=6)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 32, 32

    def forward(self, x: Tensor) -> Tensor:
        check_picture("NetworkInNetwork", x, self.channels, least=5)
        h = self.body(x)  # eq. 1, 2   (B, width, Y', X')
        return self.head(h).mean((2, 3))  # eq. 3


def _layer(dim_input: int, dim_output: int, kernel: int, norm: str) -> nn.Sequential:
    conv = nn.Conv2d(dim_input, dim_output, kernel, padding=kernel // 2, bias=norm != "batch")
    return nn.Sequential(OrderedDict(conv=conv, norm=feature_norm(norm, dim_output), relu=nn.ReLU()))
