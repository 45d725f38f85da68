"""Attention for long rows: products of features in place of the exponential, channels in place of places."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.attend import attend
from leadline.layers.channel_attention import ChannelAttention, cost_of_channels, cost_of_places
from leadline.layers.kernel_attention import kernel_attend, orthogonal_directions, random_features

_UDL = "Understanding Deep Learning"


@claim(
    "kernel-attention",
    "Where the exponential of a product is a product of features, sums over keys are computed once for all queries: "
    "the same answer as of the full matrix, in time that grows with N alone",
    f"{_UDL}, notes on chapter 12 and problem 12.10; Katharopoulos et al. 2020",
    misprint="equation 12.20 has queries and keys the wrong way round below the line, as 12.5 has above it",
)
def kernel_attention(full: bool) -> Evidence:
    lengths = (64, 256, 1024) if full else (32, 100)
    generator = torch.Generator().manual_seed(0)
    apart: dict[str, list[float]] = {"all words": [], "earlier words": []}
    for length in lengths:
        q, k, v = (torch.randn(2, 3, length, 8, generator=generator, dtype=torch.float64) for _ in range(3))
        g_q, g_k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
        for name, causal in zip(apart, (False, True), strict=True):
            apart[name].append(float((kernel_attend(g_q, g_k, v, causal) - _square(g_q, g_k, v, causal)).abs().max()))
    counts = {n: (n * n * (64 + 8), 2 * n * 64 * 8) for n in (32, 256, 2048, 16384)}  # features 64, values 8
    xs = tuple(map(float, counts))
    view = Curves(
        "Multiply-adds of a head", "tokens", "products",
        {"full matrix": (xs, tuple(float(a) for a, _ in counts.values())),
         "sums over keys": (xs, tuple(float(b) for _, b in counts.values()))}, log="xy",
    )  # fmt: skip
    grown = [counts[16384][which] / counts[2048][which] for which in (0, 1)]
    return Evidence(
        (
            *(Check(f"difference from the full matrix, {name}", max(far), high=1e-12) for name, far in apart.items()),
            Check("rise of the cost with 8 times the tokens, full matrix", grown[0], 64, 64),
            Check("the same, sums over keys", grown[1], 8, 8),
        ),
        view,
    )


@claim(
    "random-features",
    "Finitely many random features only come near the exponential of a product; their error falls with their number, "
    "as 1 / √R",
    f"{_UDL}, notes on chapter 12; Choromanski et al. 2020",
)
def random_features_approach(full: bool) -> Evidence:
    counts, draws = ((16, 64, 256, 1024, 4096), 20) if full else ((16, 64, 256), 12)
    generator = torch.Generator().manual_seed(0)
    # a draw has relative variance exp(|q + k|² / √K) - 1, and R draws an R-th of it: |q + k|² / √K is about 2 here
    q, k, v = (torch.randn(1, 4, 32, 16, generator=generator, dtype=torch.float64) / 2 for _ in range(3))
    exact = attend(q, k, v)
    scores = (q @ k.transpose(-1, -2) / 4).exp()
    errors, powers = [], []
    for count in counts:
        far, off = [], []
        for seed in range(draws):
            directions = orthogonal_directions(count, 16, seed).double()
            g_k = random_features(k, directions, False)
            far.append((kernel_attend(random_features(q, directions, True), g_k, v) - exact).square().mean())
            off.append((random_features(q, directions, False) @ g_k.transpose(-1, -2) - scores).square().mean())
        errors.append(float(torch.stack(far).mean().sqrt()))
        powers.append(float(torch.stack(off).mean().sqrt()))
    xs = tuple(map(float, counts))
    view = Curves(
        "Attention by random features", "features R", "root mean square error",
        {"of the outputs": (xs, tuple(errors)), "of the exponentials": (xs, tuple(powers))},
        {"1 / √R": (xs, tuple(powers[0] * math.sqrt(counts[0] / n) for n in counts))}, log="xy",
    )  # fmt: skip
    slope = math.log(powers[-1] / powers[0]) / math.log(counts[-1] / counts[0])
    return Evidence(
        (
            # unbiased means of R draws; the law of a draw has a heavy tail, so that the power strays from -1/2
            Check("power of R with which the error of exponentials falls", slope, -0.7, -0.3),
            Check("error of the outputs, most features over fewest", errors[-1] / errors[0], high=0.5),
            Check("error of the outputs, most features", errors[-1], low=1e-6),
        ),
        view,
    )


@claim(
    "channels-or-patches",
    "For 16 x 16 patches of 512 channels attention between patches costs half of that between channels; the matrix of "
    "the latter does not grow with the picture",
    f"{_UDL}, problem 12.9 and notes on chapter 12; Ding et al. 2022",
)
def channels_or_patches(full: bool) -> Evidence:
    sides = (4, 8, 16, 32, 64)
    places, channels = ([f(side * side, 512) for side in sides] for f in (cost_of_places, cost_of_channels))
    layer, shapes = ChannelAttention(64, 4), set()
    for side in (4, 9):
        parts = torch.randn(2, 1, 4, 16, side * side, generator=torch.Generator().manual_seed(0))
        shapes.add(tuple(layer.weights(*parts).shape))
    xs = tuple(map(float, sides))
    view = Curves(
        "One product of attention, 512 channels", "patches along a side", "multiply-adds",
        {"between patches": (xs, tuple(map(float, places))), "between channels": (xs, tuple(map(float, channels)))},
        log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("multiply-adds between 16 x 16 patches", places[2], 33_554_432, 33_554_432),
            Check("multiply-adds between 512 channels", channels[2], 67_108_864, 67_108_864),
            Check("sizes that the matrix of channels has, for two sizes of picture", len(shapes), 1, 1),
        ),
        view,
    )


def _square(g_q: Tensor, g_k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """The full matrix of products of features, its rows divided by their sums."""
    scores = g_q @ g_k.transpose(-1, -2)
    scores = scores.tril() if causal else scores
    return scores / scores.sum(-1, keepdim=True) @ v
