"""One more word of one row: a kernel for each product of a matrix with a vector, and for what stands around it.

    read     q, k, v = W N(h) + b                                                   (1)
    look     o = heads(q, k, v), by `attend_one`                                    (2)
    join     h <- h + W_o o + b_o                                                   (3)
    think    h <- h + W₂ a(W₁ N(h) + b₁) + b₂                                       (4)
    score    E N(h), and the largest of each block of words                         (5)   `leadline.layers.next_word`

    W N(x) + b = (W (g x) - μ W g) / σ + W s + b,      g and s the norm's own       (6)

Each weight is read once, multiplied and forgotten, and a step can take no less than the time of reading all weights. A
kernel starts while those before it still run, as far ahead as multiprocessors have registers for its weights, and has
them when its vector comes; by (6) it needs no other kernel for the norm. Then five kernels a layer take the time of
handing five vectors on. Vectors and sums are float32, and sums have one order: a text comes out the same each time.

Deleting this file loses speed only: `Cached` then takes the way of many rows.

Notation   W -> look.branch.query_key_value;  W_o -> look.branch.out;  W₁, W₂ -> think.branch.widen, narrow;  N norms
Limits     weights in bfloat16, on a GPU of compute capability 8 or more; kernels start early from 9 on
Shapes     h (1, D);  keys, values (1, G, T, K)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leadline.layers.attend_one import attend_one
from leadline.layers.cache import Cache
from leadline.layers.cuda import Kernel, can_compile
from leadline.layers.feed_forward import FeedForward
from leadline.layers.gelu_tanh import TanhGELU
from leadline.layers.many_rows import fits, norm_of
from leadline.layers.next_word import NextWord, Parts, Places

_WARPS, _ROWS, _AT_ONCE = 12, 6, 256  # most warps of a block, most rows and columns that a warp has at once
_ACTIVATIONS: dict[type[nn.Module], int] = {TanhGELU: 1, nn.GELU: 2, nn.ReLU: 3, nn.SiLU: 4}


def fits_one(parts: Parts, device: torch.device) -> bool:
    """Whether these kernels know all of a chain, and the device can run them.

    >>> from leadline.models import GPT
    >>> fits_one(GPT.tiny().parts(), torch.device("cpu"))
    False
    """
    return can_compile(device) and torch.cuda.get_device_capability(device) >= (8, 0) and known(parts)


def known(parts: Parts) -> bool:
    """Whether the kernels are written for such a chain: in bfloat16, of sizes that are read in eights.

    >>> from leadline.models import GPT
    >>> known(GPT(64, 8, dim=64, num_heads=4).bfloat16().parts()), known(GPT.tiny().parts())
    (True, False)
    """
    networks: list[Any] = [think.branch for _, think in parts.layers]
    return (
        fits(parts)
        and parts.embed.dtype == torch.bfloat16
        and all(isinstance(network, FeedForward) and not network.gated for network in networks)
        and all(type(network.activation) in _ACTIVATIONS for network in networks)
        and not any(layer.weight.shape[1] % 8 for pair in parts.layers for layer in _products(*pair))
    )


def _products(look: Any, think: Any) -> tuple[nn.Linear, ...]:
    return look.branch.query_key_value, look.branch.out, think.branch.widen, think.branch.narrow


def shape_of(rows: int, columns: int, programs: int) -> tuple[int, int, int]:
    """Rows that a warp has, bands of such rows in a block, and warps side by side: about a block for each program.

    >>> shape_of(2304, 768, 132), shape_of(768, 768, 132), shape_of(768, 3072, 132), shape_of(50257, 768, 132)
    ((6, 3, 3), (2, 3, 3), (6, 1, 12), (6, 4, 3))
    """
    parts = min(_WARPS, -(-columns // _AT_ONCE))
    most, bands = max(1, _ROWS // -(-columns // (_AT_ONCE * parts))), _WARPS // parts
    each = min(-(-rows // programs), most * bands)
    can = [(r * b, r, b) for r in range(1, most + 1) for b in range(1, bands + 1) if r * b >= each]
    return *min(can)[1:], parts


class OneRow:
    """Args:
    parts: as they are now.
    cache: whose rooms hold what was read so far.
    places: of the decoder.
    """

    def __init__(self, parts: Parts, cache: Cache, places: Places):
        self.parts, self.cache, self.next = parts, cache, NextWord(parts, places, words=1024)
        self.layers = []
        for look, think in parts.layers:
            read, out, widen, narrow = _products(look, think)
            network: Any = think.branch
            self.layers.append((
                _Product(read.weight, read.bias, look.norm, y_half=True),
                _Product(out.weight, out.bias, x_half=True, add=True),
                _Product(widen.weight, widen.bias, think.norm, activation=_ACTIVATIONS[type(network.activation)]),
                _Product(narrow.weight, narrow.bias, add=True),
            ))  # fmt: skip
        self.score = _Product(parts.unembed, None, parts.leave)

    def step(self, choose: bool) -> None:
        """Scores after the next word, or after the likeliest one if it is to choose it."""
        h, at = self.next.enter(choose), self.next.places.at
        new = lambda product, dtype: torch.empty(1, product.rows, dtype=dtype, device=h.device)  # noqa: E731
        for (read, out, widen, narrow), room, (look, _) in zip(self.layers, self.cache.rooms, self.parts.layers):
            attention: Any = look.branch
            scale = attention.dim_head**-0.5 if attention.scale is None else attention.scale
            y = read(h, new(read, torch.bfloat16))  # eq. 1
            q, k, v = attention.heads_of(y[:, None], at)
            o = attend_one(q, k, v, room.keys, room.values, at, scale)  # eq. 2
            out(o, h)  # eq. 3
            narrow(widen(h, new(widen, torch.float32)), h)  # eq. 4
        self.next.largest(self.score(h, self.next.scores))  # eq. 5


class _Product:
    """y = a(W N(x) + b), or y <- y + that.

    Args:
        weight, bias: (N, C) and (N,), if there is one.
        norm: if there is one.
        activation: its number.
        x_half, y_half: in bfloat16; elsewhere float32.
        add: to y.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, norm: nn.Module | None = None, activation: int = 0, **flags: bool
    ):
        self.rows, C = weight.shape
        found: Any = torch.cuda.get_device_properties(weight.device)
        R, bands, side = shape_of(self.rows, C, found.multi_processor_count)
        self.blocks, self.threads = -(-self.rows // (R * bands)), 32 * bands * side
        self.early = found.major >= 9
        self.weight, self.gain, eps, kind = weight.detach().contiguous(), weight, 0.0, 0
        ends = torch.zeros(self.rows, 2, device=weight.device)
        if bias is not None:
            ends[:, 1] = bias.detach()
        if norm is not None:
            self.gain, shift, rms, eps = norm_of(norm)
            kind = 2 if rms else 1
            ends[:, 0] = weight.detach().float() @ self.gain.detach().float()
            if not rms:
                ends[:, 1] += weight.detach().float() @ shift.detach().float()
        self.ends = ends
        sizes = {"C": C, "R": R, "BANDS": bands, "PARTS": side, "NORM": kind, "EPS": float(eps)}
        flagged = {name.upper(): 1 for name, on in flags.items() if on}
        self.kernel = Kernel("one_row.cu", "product", {**sizes, "ACTIVATION": activation, **flagged}, weight.device)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        self.kernel(self.blocks, self.threads, x, self.weight, self.gain, self.ends, y, self.rows, early=self.early)
        return y
