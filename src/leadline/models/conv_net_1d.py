"""Convolutional network for series: one kernel slides along all positions.

    h_0     = x                                                                                            (1)
    z_k     = β_k + Ω_k * h_{k-1}          (Ω * h)_{c,i} = Σ_{c',j} Ω_{c,c',j} h_{c',s·i+j-p}              (2)
    h_k     = drop(a(N z_k))               K kernel width,  s stride,  p = ⌊K/2⌋ zeros at each end         (3)
    output  = β + Ω vec(h_L)               every position of every channel                                 (4)

A layer has as many weights as its kernel, whatever the length of the series. The textbook's network for MNIST-1D has
2,050 parameters and is ConvNet1D(40, 10, widths=(15, 15, 15), strides=(2, 2, 2), kernel=3, padding="valid",
norm="none", p_drop=0); `leadline.models.dense_twin` builds the fully connected network of the same sizes.

Notation   Ω_k, β_k -> layers[k-1].conv.weight, .bias;  N -> norm;  a ReLU;  Ω, β -> head.weight, head.bias;
           c channels, i position, T length
Textbook   has neither normalisation nor dropout and takes every second position in each of three layers. The defaults
           here had the highest accuracy of nine tried on the validation rows of MNIST-1D
Shapes     x (B, T) or (B, C, T), T = dim_input and C = channels -> (B, dim_output)
Train it   leadline train mnist1d --model ConvNet1D
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import UnknownName, UserError
from leadline.layers.dropout import Dropout
from leadline.layers.feature_norm import feature_norm
from leadline.models.sizes import check_sizes
from leadline.names import suggest
from leadline.settings import given, real

PADDINGS = ("same", "valid")


class ConvNet1D(nn.Module, Configured):
    """Args:
        dim_input: length T of a series, at least 1.
        dim_output: classes or other outputs, at least 1.
        channels: of the series, at least 1.
        widths: channels of each layer, at least 1 each.
        strides: positions from one output of each layer to the next, at least 1 each, as many as widths.
        kernel: positions that a kernel covers, at least 1.
        padding: "same" (zeros at both ends, so that stride 1 keeps the length) or "valid" (none).
        norm: a name in `leadline.layers.feature_norm.NORMS`.
        p_drop: probability that a hidden unit is silenced while training, 0 <= p_drop < 1.

    >>> import torch
    >>> net = ConvNet1D(40, 10)
    >>> net(torch.zeros(5, 40)).shape, net.sizes
    (torch.Size([5, 10]), [(64, 40), (64, 20), (64, 10), (64, 5)])
    """

    def __init__(
        self,
        dim_input: int,
        dim_output: int,
        channels: int = 1,
        widths: Sequence[int] = (64, 64, 64, 64),
        strides: Sequence[int] = (1, 2, 2, 2),
        kernel: int = 5,
        padding: str = "same",
        norm: str = "batch",
        p_drop: float = 0.2,
    ):
        super().__init__()
        widths, strides = tuple(widths), tuple(strides)
        check_sizes("ConvNet1D", dim_input=dim_input, dim_output=dim_output, channels=channels, kernel=kernel)
        check_sizes("ConvNet1D", **{f"widths[{k}]": width for k, width in enumerate(widths)})
        check_sizes("ConvNet1D", **{f"strides[{k}]": stride for k, stride in enumerate(strides)})
        if not widths or len(widths) != len(strides):
            raise UserError(
                "ConvNet1D: every layer must have a width and a stride",
                got=f"widths={widths}, strides={strides}",
                do=f"Pass as many of both, such as strides={(2,) * max(1, len(widths))}",
            )
        if padding not in PADDINGS:
            raise UnknownName(
                "ConvNet1D: padding must be a known word", got=given("padding", padding), do=suggest(padding, PADDINGS)
            )
        self.dim_input, self.dim_output, self.channels = dim_input, dim_output, channels
        self.widths, self.strides, self.kernel, self.padding = widths, strides, kernel, padding
        self.norm, self.p_drop = norm, real("p_drop", p_drop, 0, 1, usual=0.2)
        zeros = kernel // 2 if padding == "same" else 0
        self.layers, self.sizes = nn.Sequential(), []
        dim, length = channels, dim_input
        for k, (width, stride) in enumerate(zip(widths, strides, strict=True), 1):
            conv = nn.Conv1d(dim, width, kernel, stride, zeros, bias=norm != "batch")
            parts = OrderedDict(conv=conv, norm=feature_norm(norm, width, dims=1), relu=nn.ReLU())
            if p_drop:
                parts["drop"] = Dropout(p_drop, site=k)
            self.layers.append(nn.Sequential(parts))
            dim, length = width, (length + 2 * zeros - kernel) // stride + 1
            if length < 1:
                raise UserError(
                    f"ConvNet1D: a series must be long enough for layer {k}",
                    got=f"dim_input={dim_input}, kernel={kernel}, strides={strides}",
                    do='Pass padding="same", a smaller kernel, or fewer layers',
                )
            self.sizes.append((dim, length))
        self.head = nn.Linear(dim * length, dim_output)

    @classmethod
    def tiny(cls) -> ConvNet1D:
        return cls(8, 2, widths=(3, 4), strides=(1, 2), kernel=3, p_drop=0.1)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.dim_input,) if self.channels == 1 else (self.channels, self.dim_input)

    def forward(self, x: Tensor) -> Tensor:
        h = x.reshape(len(x), self.channels, self.dim_input)  # eq. 1
        h = self.layers(h)  # eq. 2, 3   (B, C, T')
        return self.head(h.flatten(1))  # eq. 4
