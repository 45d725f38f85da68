"""Many steps of many small networks in one GPU kernel: a program for each network.

    forward     z_k = h_{k-1} W_kᵀ + b_k,   h_k = m_k ⊙ a_k(z_k)                                       (1)
    end         δ_K = (p - q) / B            p predicted, q the target, smoothed                       (2)
    backward    ∂W_k = δ_kᵀ h_{k-1},  ∂b_k = Σ δ_k,   δ_{k-1} = (δ_k W_k) ⊙ m_{k-1} ⊙ a'_{k-1}(z_{k-1})   (3)

Matrix by matrix, a population is bound by memory: every activation, gradient and weight travels to the chip and back
several times a step. A program keeps one network's rows and activations on the chip, from its input rows to its new
weights, and goes on to the next step; the weights stay in the cache nearby. The kernel is written out here for the
chain at hand, in Triton, with every size a number.

Limits: plain chains of layers (`chain()` of the model) up to 128 wide, classes or binary targets, SGD and Adam without
clipping. Everything else goes through `leadline.engine.step`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from leadline.layers import noise
from leadline.layers.chain import Link
from leadline.layers.kernels import kernels
from leadline.layers.noise import MIX
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.categorical import Categorical
from leadline.likelihoods.likelihood import Likelihood

_FLAT = 2048  # numbers that move at a time
WIDEST, TILE = 128, 128  # of a layer, and of the rows at a time: what there is room for on the chip

#: of z: the activation, and its derivative
_ACTIVATIONS = {
    "identity": ("z", "1.0"),
    "relu": ("tl.maximum(z, 0.0)", "tl.where(z > 0, 1.0, 0.0)"),
    "sigmoid": ("tl.sigmoid(z)", "tl.sigmoid(z) * (1 - tl.sigmoid(z))"),
    "tanh": ("2 * tl.sigmoid(2 * z) - 1", "4 * tl.sigmoid(2 * z) * (1 - tl.sigmoid(2 * z))"),
    "silu": ("z * tl.sigmoid(z)", "tl.sigmoid(z) * (1 + z * (1 - tl.sigmoid(z)))"),
    "gelu": (
        "0.5 * z * (1 + tl.erf(0.7071067811865476 * z))",
        "0.5 * (1 + tl.erf(0.7071067811865476 * z)) + 0.3989422804014327 * z * tl.exp(-0.5 * z * z)",
    ),
}

_HEAD = f"""{MIX}

@triton.jit
def kept(key, unit, site, dropped, factor):
    # as leadline.layers.noise.kept: four units share a hash, 16 bits each
    hashed = mix(mix(key ^ site)[:, None] + (unit // 4).to(tl.uint64)[None, :])
    bits = (hashed >> ((unit % 4) * 16).to(tl.uint64)[None, :]) & 0xFFFF
    return tl.where((bits ^ 0x8000).to(tl.int32) >= dropped, factor, 0.0)


@triton.jit
def steps(
    moved, first, second, sums, rows_x, rows_y, shift_x, shift_y, index, keys, numbers, losses, length, places, count,
    rows,
):
    m = tl.program_id(0).to(tl.int64)
    own = m * length
    shift_of_x, shift_of_y = tl.load(shift_x + m), tl.load(shift_y + m)
"""


@dataclass(frozen=True)
class Moves:
    """How parameters move, see `leadline.optim.inline`.

    Args:
        betas: of Adam; None for SGD.
        decays: whether there is a decay at all; `decoupled`, as AdamW has it.
    """

    betas: tuple[float, float] | None
    eps: float
    momentum: bool
    nesterov: bool
    decays: bool
    decoupled: bool

    @classmethod
    def of(cls, group: dict[str, Any], decays: bool) -> Moves:
        decoupled = bool(group.get("decoupled_weight_decay"))
        momentum, nesterov = bool(group.get("momentum")), bool(group.get("nesterov"))
        return cls(group.get("betas"), group.get("eps", 0.0), momentum, nesterov, decays, decoupled)


Run = Callable[[Tensor, Sequence[Tensor], Sequence[Tensor], Tensor, Tensor, Tensor], Tensor]


def fused(chain: Sequence[Link], starts: Mapping[str, int], likelihood: Likelihood, moves: Moves, batch: int) -> Run:
    """A function (moved, memories, rows, index, keys, numbers) that makes the steps in place; their losses.

    Args:
        starts: of the parameters by name in a network's row of numbers.
        batch: rows of a step.
    """
    tile = min(TILE, _padded(batch))
    kernel = kernels(source(chain, starts, likelihood, moves, batch, tile)).steps
    warps = 8 if max(tile, *(_padded(link.dim_output) for link in chain)) > 64 else 4
    sums: dict[torch.Size, Tensor] = {}  # gradients; what lies between parameters stays 0

    def run(
        moved: Tensor, memories: Sequence[Tensor], rows: Sequence[Tensor], index: Tensor, keys: Tensor, numbers: Tensor
    ) -> Tensor:
        count, places, size = index.shape
        losses = torch.empty(count, places, device=index.device)
        first, second, *_ = (*memories, moved, moved)
        if moved.shape not in sums:
            sums[moved.shape] = torch.zeros_like(moved)
        tensors = (moved, first, second, sums[moved.shape], *rows, index, keys, numbers, losses)
        # no loads ahead of time: the weights that they would read are not written yet
        kernel[(places,)](*tensors, moved.shape[1], places, count, size, num_warps=warps, num_stages=1)
        return losses

    return run


def obstacle(
    chain: Sequence[Link] | None,
    likelihood: Likelihood,
    dtype: torch.dtype,
    clip: float | None,
    plain: bool,
) -> str | None:
    """Why this cannot be one kernel, or None."""
    if chain is None:
        return "the model is not a plain chain of layers"
    if any(link.activation not in _ACTIVATIONS for link in chain):
        return "an activation is not among those of the kernel"
    if max(max(link.dim_input, link.dim_output) for link in chain) > WIDEST:
        return f"a layer is wider than {WIDEST}"
    if type(likelihood) not in (Categorical, Bernoulli):
        return f"{type(likelihood).__name__} is not among the likelihoods of the kernel"
    if dtype != torch.float32 or clip is not None or not plain:
        return "precision, clipping or regularisers"
    return None


def source(
    chain: Sequence[Link],
    starts: Mapping[str, int],
    likelihood: Likelihood,
    moves: Moves,
    batch: int,
    tile: int,
) -> str:
    """The kernel's text.

    Args:
        tile: how many rows of a batch are on the chip at a time.
    """
    size = [_padded(width) for width in (chain[0].dim_input, *(link.dim_output for link in chain))]
    widths = [chain[0].dim_input, *(link.dim_output for link in chain)]
    exact = torch.get_float32_matmul_precision() == "highest"
    dot = lambda a, b: f"tl.dot({a}, {b}, input_precision={'ieee' if exact else 'tf32'!r})"  # noqa: E731
    places = []  # of each layer's weights and biases: where they lie, and which of the padded ones there are
    for k, link in enumerate(chain, 1):
        weight, bias = starts[f"model.{link.map}.weight"], starts[f"model.{link.map}.bias"]
        at = f"(own + {weight}) + (d{k}[:, None] * {link.dim_input} + d{k - 1}[None, :])"
        places.append(((at, f"in{k}[:, None] & in{k - 1}[None, :]"), (f"(own + {bias}) + d{k}", f"in{k}")))
    lines = [_HEAD]
    say = lambda text, depth=3: lines.append("    " * depth + text)  # noqa: E731
    for k, width in enumerate(widths):
        say(f"d{k} = tl.arange(0, {size[k]})", 1)
        say(f"in{k} = d{k} < {width}", 1)
    say("for s in range(count):", 1)
    for number, name in enumerate(("rate", "size", "root", "decay", "momentum")):
        say(f"{name} = tl.load(numbers + (s * 5 + {number}) * places + m)", 2)
    say("mean = 0.0", 2)
    say(f"for begin in range(0, rows, {tile}):", 2)
    say(f"b = begin + tl.arange(0, {tile})")
    say("there = b < rows")
    say("place = (s * places + m) * rows + b")
    say("row = tl.load(index + place, mask=there, other=0)")
    if any(link.p_drop for link in chain):
        say("key = tl.load(keys + place, mask=there, other=0).to(tl.uint64)")
    say("y = tl.load(rows_y + row + shift_of_y, mask=there, other=0)")
    for k in range(1, len(chain) + 1):  # eq. 1
        matrix, vector = places[k - 1]
        say(f"w = tl.load(moved + {matrix[0]}, mask={matrix[1]}, other=0.0)")
        say(f"b_old = tl.load(moved + {vector[0]}, mask={vector[1]}, other=0.0)")
        say(f"z{k} = {dot(_read(chain, k - 1), 'tl.trans(w)')} + b_old[None, :]")
    _end(likelihood, len(chain), say)
    for k in range(len(chain), 0, -1):  # eq. 3
        say(f"g_w, g_b = {dot('tl.trans(delta)', _read(chain, k - 1))}, tl.sum(delta, 0)")
        matrix, vector = places[k - 1]
        say(f"w = tl.load(moved + {matrix[0]}, mask={matrix[1]}, other=0.0)")
        if k > 1:
            before = chain[k - 2]
            say(f"delta = {dot('delta', 'w')} * ({_of(_ACTIVATIONS[before.activation][1], k - 1)})")
            if before.p_drop:
                say(f"delta = delta * {_kept(before, k - 1)}")
        parts = ((matrix, "g_w"), (vector, "g_b"))
        if batch > tile:  # parts of a batch add up
            say("if begin > 0:")
            for (at, mask), gradient in parts:
                say(f"{gradient} += tl.load(sums + {at}, mask={mask}, other=0.0)", 4)
        for (at, mask), gradient in parts:
            say(f"tl.store(sums + {at}, {gradient}, mask={mask})")
        say("tl.debug_barrier()  # what comes next reads what other threads have written")
    say("tl.store(losses + s * places + m, mean / rows)", 2)
    say(f"for begin in range(0, length, {_FLAT}):", 2)
    say(f"at = own + begin + tl.arange(0, {_FLAT})")
    say(f"there = begin + tl.arange(0, {_FLAT}) < length")
    _update(moves, say)
    say("tl.debug_barrier()", 2)
    return "\n".join(lines) + "\n"


def _padded(size: int) -> int:
    """A power of two, 16 or more, as matrix units have them."""
    return max(16, 1 << (size - 1).bit_length())


def _read(chain: Sequence[Link], k: int) -> str:
    """h_k of eq. 1, computed again from z_k wherever it is read: there is no room to keep both."""
    if k == 0:
        x = f"rows_x + (row + shift_of_x)[:, None] * {chain[0].dim_input} + d0[None, :]"
        return f"tl.load({x}, mask=there[:, None] & in0[None, :], other=0.0)"
    link = chain[k - 1]
    value = f"({_of(_ACTIVATIONS[link.activation][0], k)})"
    return f"{value} * {_kept(link, k)}" if link.p_drop else value


def _of(expression: str, k: int) -> str:
    return re.sub(r"\bz\b", f"z{k}", expression)


def _kept(link: Link, k: int) -> str:
    site = link.site * noise._C % 2**63
    return f"kept(key, d{k}, {site}, {round(link.p_drop * 2**16)}, {1 / (1 - link.p_drop)!r})"


def _end(likelihood: Likelihood, last: int, say: Callable[..., None]) -> None:
    """Loss and eq. 2."""
    smoothing = cast(Categorical | Bernoulli, likelihood).label_smoothing
    z, inside = f"z{last}", f"in{last}"
    if isinstance(likelihood, Categorical):
        classes = likelihood.num_classes
        say(f"z = tl.where({inside}[None, :], {z}, float('-inf'))")
        say("z = z - tl.max(z, 1)[:, None]")
        say("e = tl.exp(z)")
        say("total = tl.sum(e, 1)[:, None]")
        say(f"q = tl.where(d{last}[None, :] == y[:, None], {1 - smoothing!r}, 0.0) + {smoothing / classes!r}")
        say(f"q = tl.where({inside}[None, :], q, 0.0)")
        say(f"loss = tl.sum(tl.where({inside}[None, :], q * (tl.log(total) - z), 0.0), 1)")
        say("delta = tl.where(there[:, None], (e / total - q) / rows, 0.0)")
    else:
        say(f"q = {1 - smoothing!r} * y.to(tl.float32) + {smoothing / 2!r}")
        say(f"z = tl.sum(tl.where({inside}[None, :], {z}, 0.0), 1)")
        say("loss = tl.maximum(z, 0.0) + tl.log(1 + tl.exp(-tl.abs(z))) - q * z")
        say("delta = tl.where(there, (tl.sigmoid(z) - q) / rows, 0.0)")
        say(f"delta = tl.where({inside}[None, :], delta[:, None], 0.0)")
    say("mean += tl.sum(tl.where(there, loss, 0.0), 0)")


def _update(moves: Moves, say: Callable[..., None]) -> None:
    """Of a stretch of a network's row of numbers."""
    say("g = tl.load(sums + at, mask=there, other=0.0)")
    say("w = tl.load(moved + at, mask=there, other=0.0)")
    if moves.decays and moves.decoupled:
        say("w = w * (1 - rate * decay)")
    elif moves.decays:
        say("g = g + decay * w")
    if moves.betas is not None:
        beta1, beta2 = moves.betas
        say("u = tl.load(first + at, mask=there, other=0.0)")
        say(f"u = u + {1 - beta1!r} * (g - u)")
        say("v = tl.load(second + at, mask=there, other=0.0)")
        say(f"v = {beta2!r} * v + {1 - beta2!r} * g * g")
        say("tl.store(first + at, u, mask=there)")
        say("tl.store(second + at, v, mask=there)")
        say(f"step = size * u / (tl.sqrt(v) / root + {moves.eps!r})")
    elif moves.momentum:
        say("u = momentum * tl.load(first + at, mask=there, other=0.0) + g")
        say("tl.store(first + at, u, mask=there)")
        say(f"step = rate * ({'g + momentum * u' if moves.nesterov else 'u'})")
    else:
        say("step = rate * g")
    say("tl.store(moved + at, w - step, mask=there)")
