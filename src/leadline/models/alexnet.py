"""AlexNet: five convolutions and three full layers (Krizhevsky et al., 2012; Krizhevsky, 2014).

    h_1     = pool(R a(C_1 x))          11x11 kernels at every fourth place;  pool is the maximum of 3x3      (1)
    h_2     = pool(R a(C_2 h_1))        5x5 kernels                                                           (2)
    h_5     = pool(a(C_5 a(C_4 a(C_3 h_2))))      3x3 kernels                                                 (3)
    output  = Ω_8 a(Ω_7 drop a(Ω_6 drop vec(h_5)))                                                            (4)
    (R h)_c = h_c / (2 + 10⁻⁴ Σ_{|c'-c| <= 2} h_{c'}²)^{3/4}        layout "2012" only                        (5)

The layout "2014" is the network on one machine, 64-192-384-256-256 channels, as torchvision has it. "2012" is that of
the competition, 96-256-384-384-256, with R; there two machines held half of the channels each, num_groups=2: C_2, C_4
and C_5 read only the half on their own machine.

Notation   C_1 … C_5 -> features,  Ω_6, Ω_7, Ω_8 (with biases) -> classifier;  a ReLU
Paper      the 2012 picture of 224 x 224 gives 55 x 55 places with a border of 2, which the paper leaves out. What
           comes out of (3) is averaged to 6 x 6 where pictures have another size
Shapes     x (B, channels, Y, X) -> (B, dim_output); Y and X at least 63
Train it   leadline train pictures/ --model AlexNet
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from leadline.config import Configured
from leadline.layers.dropout import Dropout
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import real


class AlexNet(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes, at least 1.
        layout: a name in `leadline.models.alexnet.SIZES`.
        num_groups: machines that the channels are split over, at least 1; 2 in 2012.
        width: factor on the channels of all convolutions, above 0.
        hidden: units of the two full layers, at least 1.
        p_drop: probability that a unit before a full layer is silenced while training, 0 <= p_drop < 1.

    >>> import torch
    >>> AlexNet(3, 10, width=0.125, hidden=32)(torch.zeros(2, 3, 64, 64)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        layout: str = "2014",
        num_groups: int = 1,
        width: float = 1.0,
        hidden: int = 4096,
        p_drop: float = 0.5,
    ):
        super().__init__()
        check_sizes("AlexNet", channels=channels, dim_output=dim_output, num_groups=num_groups, hidden=hidden)
        size = lookup(str(layout), SIZES, "layout")
        self.channels, self.dim_output, self.layout, self.num_groups = channels, dim_output, str(layout), num_groups
        self.width, self.hidden = real("width", width, 0, above=True, usual=1.0), hidden
        self.p_drop = real("p_drop", p_drop, 0, 1, usual=0.5)
        c = [max(1, round(dim * width / num_groups)) * num_groups for dim in size["widths"]]
        apart, respond = num_groups, size["response"]
        self.features = nn.Sequential(
            *_conv(channels, c[0], 11, 4, 2, respond=respond),
            nn.MaxPool2d(3, 2),
            *_conv(c[0], c[1], 5, 1, 2, apart, respond),
            nn.MaxPool2d(3, 2),
            *_conv(c[1], c[2], 3, 1, 1),
            *_conv(c[2], c[3], 3, 1, 1, apart),
            *_conv(c[3], c[4], 3, 1, 1, apart),
            nn.MaxPool2d(3, 2),
        )
        self.classifier = nn.Sequential(
            Dropout(p_drop, site=1),
            nn.Linear(c[4] * 36, hidden),
            nn.ReLU(),
            Dropout(p_drop, site=2),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, dim_output),
        )
        self.pool = nn.AdaptiveAvgPool2d(6)

    @classmethod
    def tiny(cls) -> AlexNet:
        return cls(1, 2, layout="2012", num_groups=2, width=1 / 48, hidden=8)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 64, 64

    def forward(self, x: Tensor) -> Tensor:
        check_picture("AlexNet", x, self.channels, least=63)
        h = self.pool(self.features(x))  # eq. 1 - 3   (B, C, 6, 6)
        return self.classifier(h.flatten(1))  # eq. 4


def _conv(
    dim_input: int, dim_output: int, kernel: int, stride: int, padding: int, groups: int = 1, respond: bool = False
) -> list[nn.Module]:
    parts: list[nn.Module] = [nn.Conv2d(dim_input, dim_output, kernel, stride, padding, groups=groups), nn.ReLU()]
    if respond:
        parts.append(nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0))  # eq. 5; torch divides alpha by 5
    return parts


SIZES: dict[str, dict[str, Any]] = {
    "2014": {"widths": (64, 192, 384, 256, 256), "response": False},
    "2012": {"widths": (96, 256, 384, 384, 256), "response": True},
}
