"""Attention without anything to train: the estimator of Nadaraya and Watson, its limits, and what it is a case of."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.attend import attend
from leadline.layers.kernel_smoother import KERNELS, KernelSmoother

_NOTES = "notes after Dive into Deep Learning, section 11"


@claim(
    "smoother-is-attention",
    "The estimator of Nadaraya and Watson with a gaussian kernel is softmax attention with the scores q · k / w² - "
    "|k|² / 2w², and dot-product attention where all keys are equally long; a narrow kernel answers with the nearest "
    "value, a wide one with the mean of all",
    f"{_NOTES}; Nadaraya 1964; Watson 1964",
    misprint="the kernel that the notes print as Epanechnikov's, 1 - r, is the triangular one; his is 1 - r²",
)
def smoother_is_attention(full: bool) -> Evidence:
    num, dim, asked = (400, 8, 200) if full else (60, 4, 40)
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    q, k, v = draw(asked, dim), draw(num, dim), draw(num, 2)
    width = 0.75
    smoother = KernelSmoother("gaussian", width).double()
    by_sums = torch.stack([_by_sums(one, k, v, width) for one in q])
    scores = (q @ k.T - k.square().sum(1) / 2) / width**2
    level = k / k.norm(dim=1, keepdim=True)
    heads = [part[None, None] for part in (q / width, level / width, v)]
    dots = attend(heads[0], heads[1], heads[2], scale=1.0)[0, 0]
    widths = (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
    found = [KernelSmoother("gaussian", one).double()(q, k, v) for one in widths]
    nearest, middle = v[torch.cdist(q, k).argmin(1)], v.mean(0)
    to_nearest, to_mean = ([_far(one, limit) for one in found] for limit in (nearest, middle))
    sizes = [KernelSmoother(name, 50.0).double()(q, k, v) for name in KERNELS]
    view = Curves(
        "From the nearest value to the mean of all", "width of the kernel", "largest difference",
        {"from the nearest": (widths, tuple(max(d, 1e-17) for d in to_nearest)),
         "from the mean": (widths, tuple(max(d, 1e-17) for d in to_mean))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference from sums written out", _far(smoother(q, k, v), by_sums), high=1e-10),
            Check("… from softmax attention of the scores", _far(smoother(q, k, v), scores.softmax(1) @ v), high=1e-10),
            Check("… from dot-product attention, keys of length 1", _far(smoother(q, level, v), dots), high=1e-10),
            Check("difference from the nearest value, narrowest kernel", to_nearest[0], high=1e-6),
            Check("difference from the mean, widest kernel", to_mean[-1], high=1e-2),
            Check("… and how it falls with the width, as a power", _power(widths[-2:], to_mean[-2:]), -2.2, -1.8),
            Check("difference of any kernel from the mean, width 50", max(_far(s, middle) for s in sizes), high=0.05),
        ),
        view,
    )


@claim(
    "smoother-is-consistent",
    "With a width that shrinks as n^(-1/5) the estimator of Nadaraya and Watson comes to the truth as rows are added; "
    "with a width that stays it does not",
    f"{_NOTES}; Mack and Silverman 1982",
)
def smoother_is_consistent(full: bool) -> Evidence:
    sizes, draws = ((50, 200, 800, 3200, 12800), 40) if full else ((50, 200, 800), 30)
    generator = torch.Generator().manual_seed(0)
    grid = torch.linspace(0.5, 4.5, 100, dtype=torch.float64)[:, None]  # away from the ends, where it leans
    truth = lambda x: 2 * x.sin() + x  # noqa: E731
    rates: dict[str, list[float]] = {"width 0.6 n^(-1/5)": [], "width 0.6": []}
    for n in sizes:
        squares: dict[str, list[float]] = {name: [] for name in rates}
        for _ in range(draws):
            x = 5 * torch.rand(n, 1, generator=generator, dtype=torch.float64)
            y = truth(x) + 0.5 * torch.randn(n, 1, generator=generator, dtype=torch.float64)
            for name, width in zip(rates, (0.6 * n**-0.2, 0.6), strict=True):
                far = KernelSmoother("gaussian", width).double()(grid, x, y) - truth(grid)
                squares[name].append(float(far.square().mean()))
        for name, values in squares.items():
            rates[name].append(math.sqrt(sum(values) / draws))
    shrinking, fixed = rates.values()
    xs = tuple(map(float, sizes))
    view = Curves(
        "Error of the estimator", "rows n", "root mean square error",
        {name: (xs, tuple(values)) for name, values in rates.items()},
        {"n^(-2/5)": (xs, tuple(shrinking[0] * (n / sizes[0]) ** -0.4 for n in sizes))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            # squared bias and variance both fall as n^(-4/5); at few rows the bias is not yet that of the limit
            Check("power of n with which the error falls", _power(xs, shrinking), -0.5, -0.3),
            Check("error where the width stays, most rows over fewest", fixed[-1] / fixed[0], low=0.7),
        ),
        view,
    )


def _by_sums(q: Tensor, k: Tensor, v: Tensor, width: float) -> Tensor:
    """Σ α v / Σ α for one query, key by key."""
    total, above = 0.0, [0.0] * v.shape[1]
    for key, value in zip(k.tolist(), v.tolist(), strict=True):
        alpha = math.exp(-sum((a - b) ** 2 for a, b in zip(q.tolist(), key, strict=True)) / (2 * width**2))
        total += alpha
        above = [s + alpha * one for s, one in zip(above, value, strict=True)]
    return torch.tensor([s / total for s in above], dtype=torch.float64)


def _far(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


def _power(x: tuple[float, ...], y: list[float]) -> float:
    """The slope between the first and the last of logarithms."""
    return math.log(y[-1] / y[0]) / math.log(x[-1] / x[0])
