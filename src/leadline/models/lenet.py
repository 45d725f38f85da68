"""LeNet-5: two convolutions with pooling, then three full layers (LeCun et al., 1998).

    h_1     = pool(a(C_1 x))          5x5 kernels, 6 channels;    pool is the mean of 2x2         (1)
    h_2     = pool(a(C_2 h_1))        5x5 kernels, 16 channels, no padding                        (2)
    h_3     = a(Ω_3 vec(h_2) + β_3),  h_4 = a(Ω_4 h_3 + β_4)        120 and 84 units              (3)
    output  = Ω_5 h_4 + β_5                                                                       (4)

Digits of 28 x 28 get a border of 2 zeros and become 32 x 32, the size that the paper reads: 61,706 parameters for ten
classes.

Notation   C_1, C_2 -> conv1, conv2;  Ω_3, Ω_4, Ω_5 -> map1, map2, head;  a -> activation
Paper      pooling has a learned factor and bias there, C_2 reads chosen channels only, and the last layer compares
           with a stored picture of each class (radial basis functions) in place of (4)
Shapes     x (B, channels, Y, X) -> (B, dim_output), (Y, X) = size, at least 12 each
Train it   leadline train digits/ --model LeNet
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError, UserError
from leadline.layers.activation import activation as make_activation
from leadline.layers.activation import widening
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.settings import given


class LeNet(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        size: rows and columns of the picture, at least 12 each.
        dim_output: classes, at least 1.
        padding: zeros around the picture, at least 0; 2 for 28 x 28, 0 for 32 x 32.
        activation: a name in `leadline.layers.activation.ACTIVATIONS`.

    >>> import torch
    >>> net = LeNet(1, (28, 28), 10)
    >>> net(torch.zeros(2, 1, 28, 28)).shape, sum(p.numel() for p in net.parameters())
    (torch.Size([2, 10]), 61706)
    """

    def __init__(
        self,
        channels: int,
        size: Sequence[int],
        dim_output: int,
        padding: int = 2,
        activation: str = "tanh",
    ):
        super().__init__()
        self.size = _pair(size)
        check_sizes("LeNet", channels=channels, dim_output=dim_output, padding=padding + 1)
        self.channels, self.dim_output, self.padding, self.activation = channels, dim_output, padding, activation
        self.act = make_activation(activation)
        more = widening(self.act)
        Y, X = (((side + 2 * padding - 4) // 2 - 4) // 2 for side in self.size)
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=padding)
        self.conv2 = nn.Conv2d(6 * more, 16, 5)
        self.map1 = nn.Linear(16 * more * Y * X, 120)
        self.map2 = nn.Linear(120 * more, 84)
        self.head = nn.Linear(84 * more, dim_output)

    @classmethod
    def tiny(cls) -> LeNet:
        return cls(1, (12, 14), 2)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, *self.size

    def forward(self, x: Tensor) -> Tensor:
        check_picture("LeNet", x, self.channels)
        if tuple(x.shape[2:]) != self.size:
            raise ShapeError(
                "LeNet: pictures must have the size that it was built for",
                got=f"{x.shape[2]} x {x.shape[3]}, built for {self.size[0]} x {self.size[1]}",
                do=f"Build LeNet with size={tuple(x.shape[2:])}, or resize the pictures",
            )
        h = F.avg_pool2d(self.act(self.conv1(x)), 2)  # eq. 1
        h = F.avg_pool2d(self.act(self.conv2(h)), 2)  # eq. 2
        h = self.act(self.map2(self.act(self.map1(h.flatten(1)))))  # eq. 3
        return self.head(h)  # eq. 4


def _pair(size: Sequence[int]) -> tuple[int, int]:
    fits = isinstance(size, (tuple, list)) and len(size) == 2 and all(isinstance(s, int) and s >= 12 for s in size)
    if not fits:
        raise UserError(
            "LeNet: size must be rows and columns, at least 12 each", got=given("size", size), do="Pass size=(28, 28)"
        )
    return int(size[0]), int(size[1])
