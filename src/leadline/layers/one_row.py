"""One more word of one row in one kernel, whose programs wait for each other's numbers, not for launches.

    read     q, k, v = W N(h) + b                                                                   (1)
    look     o_hs = Σ_j e^{q·k_j} v_j,           of each head h, over a part s of the places so far  (2)
    join     h <- h + W_o o + b_o                                                                   (3)
    think    h <- h + W₂ a(W₁ N(h) + b₁) + b₂                                                       (4)
    score    E N(h), and the largest of them                                                        (5)

    W N(x) + b = (W' x - μ W' 1) / σ + W s + b,        W' = W diag(g),  g and s the norm's own       (6)

Each weight is read once, multiplied and forgotten, and a step can take no less than the time of reading all weights.
Here every multiprocessor has one program, which owns some rows of each matrix for the whole step. Its weights flow into
shared memory as fast as the chip reads them, a layer ahead of their use. What all programs must know, a vector of each
of (1) to (4), goes through memory without a barrier: the last bit of each number says whether it is of this step or of
the one before, and whoever needs a number looks at it until the bit is right. What many look at is told in eight
copies. Matrix units multiply, with a number of a vector as the sum of two in bfloat16, so that it keeps 16 bits, and
add in float32. Sums have one order: a text comes out the same each time.

Deleting this file loses speed only: `Cached` then takes the way of many rows.

Notation   W -> look.branch.query_key_value;  W_o -> look.branch.out;  W₁, W₂ -> think.branch.widen, narrow;  N norms
Limits     weights in bfloat16, on a GPU of compute capability 9 or more whose shared memory holds a layer: about ten
           million weights where there are 132 multiprocessors
Shapes     h (D,);  keys, values (G, T, K)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.layers.attention import SelfAttention
from leadline.layers.cache import Cache
from leadline.layers.cuda import Kernel, can_compile
from leadline.layers.feed_forward import FeedForward
from leadline.layers.gelu_tanh import TanhGELU
from leadline.layers.many_rows import fits, norm_of
from leadline.layers.next_word import NextWord, Parts, Places

_WARPS, _SPLITS, _MOST_ROWS = 8, 2, 32  # warps that multiply, parts of a head's places, rows of a matrix in a program
_SCORE_ROWS, _SECTOR = 32, 8  # rows of E at once; numbers that one write hands on
_OWN_MEMORY = 2048  # bytes of shared memory besides weights and vectors
_ACTIVATIONS: dict[type[nn.Module], int] = {TanhGELU: 0, nn.GELU: 1, nn.ReLU: 2, nn.SiLU: 3}


def fits_one(parts: Parts, device: torch.device) -> bool:
    """Whether the kernel knows all of a chain, and the device can run it.

    >>> from leadline.models import GPT
    >>> fits_one(GPT.tiny().parts(), torch.device("cpu"))
    False
    """
    if not can_compile(device) or torch.cuda.get_device_capability(device) < (9, 0) or not known(parts):
        return False
    found: Any = torch.cuda.get_device_properties(device)
    sizes = sizes_of(parts, found.multi_processor_count)
    return memory_of(sizes, found.shared_memory_per_block_optin) is not None


def known(parts: Parts) -> bool:
    """Whether the kernel is written for such a chain: equal layers in bfloat16, of sizes that are read in eights.

    >>> from leadline.models import GPT
    >>> plain, turned = (GPT(64, 8, dim=64, num_heads=4, positions=by).bfloat16() for by in ("learned", "rotary"))
    >>> known(plain.parts()), known(turned.parts()), known(GPT.tiny().parts())
    (True, False, False)
    """
    if not fits(parts) or parts.embed.dtype != torch.bfloat16:
        return False
    alike = set()
    for look, think in parts.layers:
        attention: Any = look.branch
        network: Any = think.branch
        if not isinstance(attention, SelfAttention) or attention.turn is not None:
            return False
        if not isinstance(network, FeedForward) or network.gated or type(network.activation) not in _ACTIVATIONS:
            return False
        shape = attention.heads, attention.groups, attention.dim_head, attention.scale, *network.widen.weight.shape
        alike.add((*shape, type(network.activation), *(norm_of(part.norm)[2:] for part in (look, think))))
    D, K, hidden = parts.embed.shape[1], attention.dim_head, len(network.widen.weight)
    return len(alike) == 1 and not (D % 8 or hidden % 8) and D <= 4096 and K in (8, 16, 32, 64, 128, 256)


def sizes_of(parts: Parts, programs: int) -> dict[str, int | float]:
    """What the text of the kernel leaves open.

    >>> from leadline.models import GPT
    >>> sizes = sizes_of(GPT(64, 8, dim=64, num_heads=4).bfloat16().parts(), 132)
    >>> sizes["READ_BYTES"], sizes["SPLITS"]
    (608, 2)
    """
    look, think = parts.layers[0]
    attention: Any = look.branch
    network: Any = think.branch
    (V, D), H, G, K = parts.unembed.shape, attention.heads, attention.groups, attention.dim_head
    hidden, N = len(network.widen.weight), (H + 2 * G) * K
    rows = {"READ": N, "BACK": D, "WIDEN": hidden}
    rows = {name: -(-count // programs // 4) * 4 for name, count in rows.items()}
    bytes_ = lambda count, columns, ends: -(-count * (2 * padded(columns) + 4 * ends) // 16) * 16  # noqa: E731
    norms = {"READ": look.norm, "WIDEN": think.norm, "SCORE": parts.leave}
    scale = K**-0.5 if attention.scale is None else attention.scale
    return {
        "PROGRAMS": programs, "WARPS": _WARPS, "D": D, "A": H * K, "F": hidden, "N": N, "H": H, "G": G, "K": K, "V": V,
        "L": len(parts.layers), "SPLITS": max(s for s in range(1, _SPLITS + 1) if H * s <= programs or s == 1),
        **rows, "SCORE_ROWS": _SCORE_ROWS,
        "READ_BYTES": bytes_(rows["READ"], D, 2), "OUT_BYTES": bytes_(rows["BACK"], H * K, 1),
        "WIDEN_BYTES": bytes_(rows["WIDEN"], D, 2), "NARROW_BYTES": bytes_(rows["BACK"], hidden, 1),
        "SCORE_BYTES": bytes_(_SCORE_ROWS, D, 2),
        "PLACED": int(parts.place is not None), "ACTIVATION": _ACTIVATIONS[type(network.activation)],
        "SCALE": float(scale),
        **{f"{name}_EPS": float(norm_of(norm)[3]) for name, norm in norms.items()},
        **{f"{name}_RMS": int(norm_of(norm)[2]) for name, norm in norms.items()},
    }  # fmt: skip


def padded(size: int) -> int:
    """Numbers of a row of weights as the kernel has it: whole groups of 32, and 16 bytes more.

    >>> padded(64), padded(100)
    (72, 136)
    """
    return -(-size // 32) * 32 + 8


def memory_of(sizes: dict[str, Any], room: int) -> tuple[int, int] | None:
    """Slots for rows of E that shared memory has, and bytes of it that weights take; none if a layer does not fit.

    >>> from leadline.models import GPT
    >>> parts = GPT(64, 8, dim=64, num_heads=4).bfloat16().parts()
    >>> memory_of(sizes_of(parts, 132), 200_000), memory_of(sizes_of(parts, 1), 100_000)
    ((8, 38912), None)
    """
    D, A, hidden, K, own = (sizes[name] for name in ("D", "A", "F", "K", "V"))
    own = -(-own // sizes["PROGRAMS"])
    room -= _OWN_MEMORY + 4 * (D + A + hidden + (_WARPS + 3) * K + 2 * _WARPS * _MOST_ROWS) + 24 * sizes["L"] + own
    layer = sum(sizes[f"{name}_BYTES"] for name in ("READ", "OUT", "WIDEN", "NARROW"))
    layer += 16 * padded(hidden)  # rows are read eight at once, also behind the last
    slots = min(8, room // sizes["SCORE_BYTES"])
    most = max(sizes[name] for name in ("READ", "BACK", "WIDEN"))
    if layer > room or slots < 2 or sizes["H"] > sizes["PROGRAMS"] or most > _MOST_ROWS:
        return None
    return slots, max(layer, slots * sizes["SCORE_BYTES"])


class OneRow:
    """Args:
    parts: as they are now; their weights are copied.
    cache: whose rooms hold what was read so far.
    places: of the decoder.
    """

    def __init__(self, parts: Parts, cache: Cache, places: Places):
        device, V = places.at.device, len(parts.embed)
        found: Any = torch.cuda.get_device_properties(device)
        sizes: dict[str, Any] = sizes_of(parts, found.multi_processor_count)
        memory: Any = memory_of(sizes, found.shared_memory_per_block_optin)
        self.parts, self.cache, self.sizes = parts, cache, sizes
        self.next = NextWord(parts, places, words=V)
        P, L, S, H = (sizes[name] for name in ("PROGRAMS", "L", "SPLITS", "H"))
        self.kernel = Kernel("one_row.cu", "step", {**sizes, "SLOTS": memory[0]}, device, memory[1])
        self.layers = torch.stack([_packed(look, think, sizes) for look, think in parts.layers])
        self.unembed = _rows(*_folded(parts.unembed, None, parts.leave), -(-V // P), P, _SCORE_ROWS)
        rooms = [(r.keys.data_ptr(), r.values.data_ptr(), r.keys.stride(1) // 8) for r in cache.rooms]
        self.rooms = torch.tensor(rooms, device=device)
        new = lambda *size, dtype=torch.int32: torch.zeros(*size, dtype=dtype, device=device)  # noqa: E731
        lines = [P * -(-sizes[name] // _SECTOR) * _SECTOR for name in ("READ", "BACK", "WIDEN", "BACK")]
        told = (lines[0], _WARPS * S * H * (sizes["K"] + _SECTOR), *(_WARPS * line for line in lines[1:]))
        self.told = [new(L, size) for size in told]  # as qkv, looked, joined, hidden, thought
        self.found = new(P, dtype=torch.float32), new(P), new(P, dtype=torch.float32)
        self.turn, self.done = new(1) + 1, new(1)

    def step(self, choose: bool) -> None:
        """Scores behind the next word, or behind the likeliest one if it is to choose it."""
        after, parts = self.next, self.parts
        at: Any = after.places
        place: Any = parts.embed if parts.place is None else parts.place.weight
        self.kernel(
            self.sizes["PROGRAMS"], 32 * (_WARPS + 1),
            at.tokens, at.at, at.words, at.log_p, at.slot, at.number, self.turn, self.done,
            parts.embed, place, self.layers, self.unembed, after.allowed, self.rooms, *self.told,
            after.scores, *self.found, after.best, after.where, after.mass, int(choose), at.length - 1,
            at_once=True,
        )  # fmt: skip


def _packed(look: Any, think: Any, sizes: dict[str, Any]) -> Tensor:
    """A layer as the kernel reads it: of each program, its rows of the four matrices and what belongs to a row."""
    attention, network, programs = look.branch, think.branch, sizes["PROGRAMS"]
    read, out, widen, narrow = attention.query_key_value, attention.out, network.widen, network.narrow
    tiles = [
        _rows(*_folded(read.weight, read.bias, look.norm), sizes["READ"], programs),
        _rows(out.weight, _offset(out.weight, out.bias)[:, None], sizes["BACK"], programs),
        _rows(*_folded(widen.weight, widen.bias, think.norm), sizes["WIDEN"], programs),
        _rows(narrow.weight, _offset(narrow.weight, narrow.bias)[:, None], sizes["BACK"], programs),
    ]
    return torch.cat(tiles, 1)


def _rows(weight: Tensor, ends: Tensor, each: int, programs: int, at_once: int | None = None) -> Tensor:
    """Bytes (programs, …): rows of weights (N, D), then what belongs to each (N, E), zeros where there is no row.

    Args:
        each: rows of a program.
        at_once: rows of a tile, of which a program then has several; all of a program by default.
    """
    size = at_once or each
    tiles, parts = -(-each // size), []
    weight = F.pad(weight.detach(), (0, padded(weight.shape[1]) - weight.shape[1]))
    for t in (weight, ends.float()):
        t = F.pad(t, (0, 0, 0, programs * each - len(t))).view(programs, each, -1)
        t = F.pad(t, (0, 0, 0, tiles * size - each)).view(programs, tiles, -1)
        parts.append(t.contiguous().view(torch.uint8))
    whole = torch.cat(parts, 2)
    return F.pad(whole, (0, -whole.shape[2] % 16)).flatten(1)


def _folded(weight: Tensor, bias: Tensor | None, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Eq. 6: W', and W' 1 beside W s + b (N, 2)."""
    gain, shift, rms, _ = norm_of(norm)
    whole = weight.detach().float()
    scaled = (whole * gain.detach().float()).to(weight.dtype)
    moved = _offset(weight, bias) if rms else _offset(weight, bias) + whole @ shift.detach().float()
    return scaled, torch.stack([scaled.float().sum(1), moved], 1)


def _offset(weight: Tensor, bias: Tensor | None) -> Tensor:
    """In float32; zeros where there is none."""
    return torch.zeros(len(weight), device=weight.device) if bias is None else bias.detach().float()
