"""Randomness as a pure function: of the seed, the step and the example, never of what ran before.

    u(example, site, position) = mix(mix(key[example] ⊕ site·C) + position) / 2^64        (1)

The engine hands every batch one 64-bit key per example, itself a mix of (seed, epoch, example). A layer that needs
noise derives its own from that key (1). So a mask does not depend on batch mates, on the order of micro-batches, on the
number of workers or on an interruption; and any step can be computed again, alone.

Notation   key -> keys[b],  site -> a number that tells layers apart,  mix -> splitmix64's finaliser
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.hashes import mix as mix
from leadline.data.hashes import shift_right
from leadline.layers.kernels import has_triton, kernels

_C = -0x61C8864680B583EB  # 2^64 / golden ratio, as a signed number: splitmix64's increment
_MANY = 2**20  # units of a batch from which on a GPU's masks have a kernel of their own

#: `mix` of uint64, as the beginning of a text of kernels
MIX = """
import triton
import triton.language as tl


@triton.jit
def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)
"""

_KERNEL = f"""{MIX}

@triton.jit
def fourfold(keys, out, site, dropped, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = mix(mix((tl.load(keys + row) ^ site).to(tl.uint64)) + at.to(tl.uint64))
    word = tl.zeros((BLOCK,), tl.int32)
    for k in tl.static_range(4):
        value = (((z >> (16 * k)) & 0xFFFF) ^ 0x8000).to(tl.int32)
        word |= (value >= dropped).to(tl.int32) << (8 * k)
    tl.store(out + row * width + at, word, mask=at < width)
"""


def mix_int(*parts: int) -> int:
    """The same mixing for Python integers, folded over `parts`: one 63-bit number from many.

    >>> mix_int(0, 1) == mix_int(0, 1), mix_int(0, 1) == mix_int(1, 0)
    (True, False)
    """
    z = 0
    for part in parts:
        z = (z + part + 0x9E3779B97F4A7C15) % 2**64
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        z ^= z >> 31
    return z >> 1


def mix_ints(first: np.ndarray, *rest: int) -> np.ndarray:
    """`mix_int(f, *rest)` for each f of `first`, as int64.

    >>> mix_ints(np.array([3, 4]), 7).tolist() == [mix_int(3, 7), mix_int(4, 7)]
    True
    """
    z = np.zeros(len(first), np.uint64)
    with np.errstate(over="ignore"):
        for part in (first.astype(np.uint64), *(np.full(len(first), part, np.uint64) for part in rest)):
            z = z + part + np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(1)).astype(np.int64)


def example_keys(seed: int, epoch: int, examples: Tensor) -> Tensor:
    """One key for each example of this epoch."""
    return mix(mix(examples) ^ mix_int(seed, epoch))


def uniform(keys: Tensor, shape: tuple[int, ...], site: int) -> Tensor:
    """Uniform numbers in [0, 1), shape (B, *shape): row b depends on keys[b] and `site` alone (1)."""
    # position enters by a plain sum: a compiler may fold a large factor into its loop counter, whose overflow is
    # undefined in C++ and has been seen to break the loop
    position = torch.arange(_count(shape), device=keys.device)
    z = mix(mix(keys ^ (site * _C % 2**63))[:, None] + position)
    return (shift_right(z, 40).float() * 2.0**-24).view(len(keys), *shape)


def kept(keys: Tensor, shape: tuple[int, ...], p_drop: float, site: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A mask (B, *shape) that is 1 with probability 1 - p_drop, rounded to a multiple of 2^-16, and 0 otherwise.

        v >= t  <=>  clamp(v - t + 1, 0, 1) = 1        for whole numbers

    Each hash of (1) yields four values of 16 bits: a quarter of the arithmetic of `uniform`. The mask is made of
    numbers, since truth values are read and written one by one: eight times slower on a CPU. On a GPU a large one is
    one operation, of which a compiler has nothing to unfold.
    """
    count, site, dropped, scale = _count(shape), site * _C % 2**63, round(p_drop * 2**16), 1 / (1 - p_drop)
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    if keys.is_cuda and len(keys) * count >= _MANY and has_triton():
        mask = kept_units(keys, count, site, dropped).to(exact).mul_(scale)
    else:
        beyond = _values(keys, count, site)[:, :count].to(exact)
        mask = beyond.add_(2**15 + 1 - dropped).mul_(scale).clamp(0, scale)
    return mask.to(dtype).view(len(keys), *shape)


@torch.library.custom_op("leadline::kept_units", mutates_args=())
def kept_units(keys: Tensor, count: int, site: int, dropped: int) -> Tensor:
    """(B, count) bytes: 1 for what is kept, 0 for a part dropped / 2^16 of the units."""
    return (_values(keys, count, site)[:, :count] >= dropped - 2**15).to(torch.uint8)


@kept_units.register_kernel("cuda")
def _(keys: Tensor, count: int, site: int, dropped: int) -> Tensor:
    width, block = -(-count // 4), 1024
    words = torch.empty(len(keys), width, dtype=torch.int32, device=keys.device)
    grid = (len(keys), -(-width // block))
    kernels(_KERNEL).fourfold[grid](keys.contiguous(), words, site, dropped, width, BLOCK=block)
    units = words.view(torch.uint8)
    return units if units.shape[1] == count else units[:, :count].contiguous()


@kept_units.register_fake
def _(keys: Tensor, count: int, site: int, dropped: int) -> Tensor:
    return keys.new_empty(len(keys), count, dtype=torch.uint8)


@kept_units.register_vmap
def _(info: Any, dims: Any, keys: Tensor, count: int, site: int, dropped: int) -> tuple[Tensor, int]:
    keys = keys.movedim(dims[0], 0)
    return kept_units(keys.flatten(), count, site, dropped).unflatten(0, keys.shape), 0


def normal(keys: Tensor, shape: tuple[int, ...], site: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normal numbers, shape (B, *shape), by Box and Muller: row b depends on keys[b] and `site` alone.

        r = √(-2 log u),  u in (0, 1];   r cos 2πv  and  r sin 2πv  are normal and independent

    Each hash of (1) yields u and v, 24 bits each, and so two numbers; none lies beyond 5.8.
    """
    count = _count(shape)
    position = torch.arange(-(-count // 2), device=keys.device)
    z = mix(mix(keys ^ (site * _C % 2**63))[:, None] + position)
    u = (shift_right(z, 40) + 1).to(dtype) * 2.0**-24
    turn = (shift_right(z, 8) & (2**24 - 1)).to(dtype) * (2 * math.pi * 2.0**-24)
    r = (-2 * u.log()).sqrt()
    pairs = torch.stack([r * turn.cos(), r * turn.sin()], dim=-1).flatten(1)
    return pairs[:, :count].reshape(len(keys), *shape)


def symmetric_beta(
    keys: Tensor, shape: tuple[int, ...], a: float | Tensor, site: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Numbers of the law Beta(a, a), a > 0, shape (B, *shape), without rejection (Bailey, 1994).

    ½ (1 + c / √(c² + q / (1 - q))),   q = u^{1/a},  c = cos 2πv        from Student's t of 2a degrees
    """
    u = uniform(keys, (*shape, 2), site).to(dtype)
    q = (u[..., 0] + 2.0**-25) ** (1 / a)
    c = ((u[..., 1] + 2.0**-25) * (2 * math.pi)).cos()
    return 0.5 * (1 + c / (c.square() + q / (1 - q)).sqrt())


def of_batch(keys: Tensor) -> Tensor:
    """One key, shape (1,), for what all rows of a batch share, such as noise on weights; their order does not count."""
    return mix(keys.sum(0, keepdim=True))


def draws_noise(model: nn.Module) -> bool:
    """Whether any layer of `model` says that it draws from the current keys."""
    return any(getattr(module, "draws_noise", False) for module in model.modules())


class _Current:
    keys: Tensor | None = None


current = _Current()


class keyed:  # noqa: N801 - read as a verb: with keyed(keys): …
    """Inside, layers draw their noise from `keys`, one row each; outside, from torch's generator."""

    def __init__(self, keys: Tensor | None):
        self.keys = keys

    def __enter__(self) -> None:
        self.before, current.keys = current.keys, self.keys

    def __exit__(self, *error: object) -> None:
        current.keys = self.before


def _values(keys: Tensor, count: int, site: int) -> Tensor:
    """(B, n) signed numbers of 16 bits, n the first multiple of four that is not below `count`."""
    position = torch.arange(-(-count // 4), device=keys.device)
    return _quarters(mix(mix(keys ^ site)[:, None] + position))


def _quarters(z: Tensor) -> Tensor:
    """Each number as four signed ones of 16 bits, the lowest first; (B, n) -> (B, 4n)."""
    try:
        return z.view(torch.int16)
    except RuntimeError:  # of vmap before torch 2.12
        return torch.stack([z << bits >> 48 for bits in (48, 32, 16, 0)], -1).flatten(-2)


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
