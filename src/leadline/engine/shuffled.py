"""`torch.randperm` of many seeds at once on a GPU, number for number: one program for each seed.

    state     624 words of the Mersenne twister, seeded as torch seeds it                              (1)
    order     for k = 0, 1, …, n - 2:   swap place k with place k + (next word mod (n - k))            (2)

Each order is drawn one swap after the other, but a GPU has room for thousands of them side by side; a host would take
longer to draw the orders of a thousand networks than the GPU takes to train them. Needs Triton.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.layers.kernels import kernels

WORDS = 624  # of a state

_TEXT = """
import triton
import triton.language as tl


@triton.jit
def twisted(state, begin, size, shift):
    j = begin + tl.arange(0, 256)
    there = j < begin + size
    high, low = tl.load(state + j, mask=there, other=0), tl.load(state + (j + 1) % 624, mask=there, other=0)
    word = (high & 0x80000000) | (low & 0x7FFFFFFF)
    word = tl.load(state + j + shift, mask=there, other=0) ^ (word >> 1) ^ ((word & 1) * 0x9908B0DF)
    tl.debug_barrier()
    tl.store(state + j, word, mask=there)
    tl.debug_barrier()


@triton.jit
def orders(seeds, counts, members, states, out, stride):
    i = tl.program_id(0).to(tl.int64)
    state, to, count = states + i * 624, out + i * stride, tl.load(counts + i % members)
    word = (tl.load(seeds + i) & 0xFFFFFFFF).to(tl.uint32)
    tl.store(state, word)
    for j in range(1, 624):  # eq. 1
        word = (word ^ (word >> 30)) * 1812433253 + j
        tl.store(state + j, word)
    for begin in range(0, count, 256):
        k = begin + tl.arange(0, 256)
        tl.store(to + k, k.to(tl.int64), mask=k < count)
    tl.debug_barrier()
    for k in range(0, count - 1):  # eq. 2
        if k % 624 == 0:
            twisted(state, 0, 227, 397)
            twisted(state, 227, 227, -227)
            twisted(state, 454, 170, -227)
        word = tl.load(state + k % 624)
        word ^= word >> 11
        word ^= (word << 7) & 0x9D2C5680
        word ^= (word << 15) & 0xEFC60000
        word ^= word >> 18
        other = k + word.to(tl.int64) % (count - k)
        here, there = tl.load(to + k), tl.load(to + other)
        tl.debug_barrier()
        tl.store(to + k, there)
        tl.store(to + other, here)
        tl.debug_barrier()
"""


def orders(seeds: Tensor, counts: Tensor, out: Tensor) -> None:
    """Write the order of `counts[i mod len(counts)]` rows that `seeds[i]` gives into the first places of `out[i]`."""
    states = torch.empty(len(seeds), WORDS, dtype=torch.uint32, device=seeds.device)
    kernels(_TEXT).orders[(len(seeds),)](seeds, counts, len(counts), states, out, out.shape[1], num_warps=1)
