"""VGG: small kernels in a deep, regular stack (Simonyan and Zisserman, 2015).

    h       <- a(N(C h))                        3x3 kernels, several in a stage                       (1)
    h       <- pool(h)                          the maximum of 2x2, after each of five stages         (2)
    output  = Ω_3 drop a(Ω_2 drop a(Ω_1 vec(h)))                                                      (3)

The channels double from stage to stage up to eight times `width`. `depth` counts the layers with weights and picks the
number of convolutions in each stage from `SIZES`.

Notation   C, N -> features;  Ω_1, Ω_2, Ω_3 (with biases) -> classifier;  a ReLU
Paper      has no normalisation, norm=False, and was trained from a shallower network's weights; here it is on by
           default. What comes out of (2) is averaged, or repeated, to 7 x 7 where pictures are not 224 x 224
Shapes     x (B, channels, Y, X) -> (B, dim_output); Y and X at least 32
Train it   leadline train pictures/ --model VGG --depth 11 --hidden 512
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.layers.dropout import Dropout
from leadline.layers.residual_block import draw_kernels
from leadline.models.picture import check_picture
from leadline.models.sizes import check_sizes
from leadline.settings import given, real


class VGG(nn.Module, Configured):
    """Args:
        channels: of the picture, at least 1.
        dim_output: classes, at least 1.
        depth: a name in `leadline.models.vgg.SIZES`.
        norm: whether a batch normalisation follows each convolution.
        width: channels of the first stage, at least 1.
        hidden: units of the two full layers, at least 1.
        p_drop: probability that a unit of a full layer is silenced while training, 0 <= p_drop < 1.

    >>> import torch
    >>> VGG(3, 10, depth=11, width=4, hidden=16)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        channels: int,
        dim_output: int,
        depth: int = 16,
        norm: bool = True,
        width: int = 64,
        hidden: int = 4096,
        p_drop: float = 0.5,
    ):
        super().__init__()
        check_sizes("VGG", channels=channels, dim_output=dim_output, width=width, hidden=hidden)
        if depth not in SIZES:
            known = ", ".join(map(str, SIZES))
            raise UserError("VGG: depth must be one of SIZES", got=given("depth", depth), do=f"Pass one of {known}")
        self.channels, self.dim_output, self.depth, self.norm = channels, dim_output, depth, norm
        self.width, self.hidden, self.p_drop = width, hidden, real("p_drop", p_drop, 0, 1, usual=0.5)
        self.features, dim = nn.Sequential(), channels
        for stage, num_convs in enumerate(SIZES[depth]):
            c = width * min(2**stage, 8)
            for _ in range(num_convs):
                self.features.append(nn.Conv2d(dim, c, 3, padding=1))
                if norm:
                    self.features.append(nn.BatchNorm2d(c))
                self.features.append(nn.ReLU())
                dim = c
            self.features.append(nn.MaxPool2d(2))
        self.pool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(dim * 49, hidden),
            nn.ReLU(),
            Dropout(p_drop, site=1),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            Dropout(p_drop, site=2),
            nn.Linear(hidden, dim_output),
        )
        draw_kernels(self)

    @classmethod
    def tiny(cls) -> VGG:
        return cls(1, 2, depth=11, width=2, hidden=4)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return self.channels, 32, 32

    def forward(self, x: Tensor) -> Tensor:
        check_picture("VGG", x, self.channels, least=32)
        h = self.pool(self.features(x))  # eq. 1, 2   (B, C, 7, 7)
        return self.classifier(h.flatten(1))  # eq. 3


#: convolutions of each stage: the paper's A, B, D and E
SIZES: dict[int, tuple[int, ...]] = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
