"""What a recurrence gains by being linear in its state: all steps at once, and a matrix that may be diagonal."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.scan import scan, scan_by_steps
from leadline.reference import linear_recurrence
from leadline.reference import scan as by_hand

_NOTES = "lecture notes on deep learning, section 5.2"


@claim(
    "scan-is-the-loop",
    "Stretches of a recurrence that is linear in its state can be joined in any order: T steps take ⌈log₂ T⌉ levels, "
    "and give what a loop gives",
    f"{_NOTES}; Hillis and Steele 1986; Feng et al. 2024",
)
def scan_is_the_loop(full: bool) -> Evidence:
    lengths = (1, 10, 100, 1000, 10_000, 100_000) if full else (1, 10, 100, 1000)
    generator = torch.Generator().manual_seed(0)
    apart, apart_back, levels, apart_levels = [], [], [], []
    for steps in lengths:
        a = torch.rand(1, steps, 4, generator=generator, dtype=torch.float64).requires_grad_()
        b = torch.randn(1, steps, 4, generator=generator, dtype=torch.float64).requires_grad_()
        ways = [way(a, b) for way in (scan, scan_by_steps)]
        slopes = [torch.autograd.grad(h.square().sum(), (a, b)) for h in ways]
        apart.append(_apart(*ways))
        apart_back.append(max(_apart(one, other) for one, other in zip(*slopes, strict=True)))
        joined, count = by_hand.by_levels(a[0, :, 0].tolist(), b[0, :, 0].tolist())
        levels.append(float(count))
        apart_levels.append(_apart(torch.tensor(joined, dtype=torch.float64), ways[1][0, :, 0]))
    xs = tuple(map(float, lengths))
    expected = tuple(float(math.ceil(math.log2(steps))) for steps in lengths)
    view = Curves(
        "Depth of a scan", "steps T", "levels", {"counted": (xs, tuple(levels))}, {"⌈log₂ T⌉": (xs, expected)}, log="x",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference of states from those of the loop", max(apart), high=1e-10),
            Check("largest difference of gradients from those of the loop", max(apart_back), high=1e-9),
            Check("largest difference of states joined level by level", max(apart_levels), high=1e-10),
            Check("largest difference of levels from ⌈log₂ T⌉", _furthest(levels, expected), 0, 0),
        ),
        view,
    )


@claim(
    "lru-stable",
    "A diagonal linear recurrence stays bounded where |λ| < 1 and grows without bound where |λ| > 1; λ = exp(-exp(ν) + "
    "iφ) lies inside whatever ν, and ν = log(-log r) gives back r",
    f"{_NOTES}; Orvieto et al. 2023",
)
def lru_stable(full: bool) -> Evidence:
    steps = 20_000 if full else 2000
    radii = (0.9, 0.99, 1.01, 1.02)
    generator = torch.Generator().manual_seed(0)
    b = torch.complex(*(torch.randn(1, steps, 1, generator=generator, dtype=torch.float64) for _ in range(2)))
    b = (b / b.abs()).expand(1, steps, len(radii))  # |b| = 1: states are at most 1 / (1 - |λ|)
    a = torch.polar(torch.tensor(radii, dtype=torch.float64), torch.full((len(radii),), 0.7, dtype=torch.float64))
    sizes = scan(a, b).abs()[0]
    half = {r: float(sizes[: steps // 2, k].max()) for k, r in enumerate(radii)}
    whole = {r: float(sizes[:, k].max()) for k, r in enumerate(radii)}
    inside = max(whole[r] * (1 - r) for r in radii if r < 1)
    growth = [math.log(whole[r] / half[r]) / (steps / 2) / math.log(r) for r in radii if r > 1]
    rates = torch.linspace(-12.0, 5.0, 2001, dtype=torch.float64)
    layer = LRU(1, 1, dim_state=len(rates)).double()
    with torch.no_grad():
        layer.log_rate.copy_(rates)
    found = layer.eigenvalues.abs()
    r = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    back = (-(-r.log()).log().exp()).exp()
    at = range(0, steps, steps // 200)
    view = Curves(
        "States of a diagonal recurrence, inputs of size 1", "step", "|h|",
        {f"|λ| = {r}": (tuple(t + 1.0 for t in at), tuple(float(sizes[t, k]) for t in at))
         for k, r in enumerate(radii)}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest |h| (1 - |λ|), |λ| < 1", inside, high=1 + 1e-9),
            Check("least power of |λ| > 1 with which |h| grows, a step", min(growth), 0.95, 1.05),
            Check("largest |λ| of any ν", float(found.max()), high=1 - 1e-9),
            Check("least |λ| of any ν", float(found.min()), low=0),
            Check("largest distance of exp(-exp(log(-log r))) from r", float((back - r).abs().max()), high=1e-12),
        ),
        view,
    )


@claim(
    "diagonal-basis",
    "A linear recurrence whose matrix can be diagonalised gives the same outputs in the basis of its eigenvectors, "
    "where it is one complex number a unit",
    f"{_NOTES}; Orvieto et al. 2023",
)
def diagonal_basis(full: bool) -> Evidence:
    sizes, steps = ((2, 8, 32, 128), 1000) if full else ((2, 8, 24), 100)
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    apart, imaginary, numbers = [], [], []
    for m in sizes:
        dense, read, write, x = draw(m, m), draw(m, 3), draw(2, m), draw(steps, 3)
        dense = 0.95 * dense / torch.linalg.eigvals(dense).abs().max()
        eigenvalues, basis = torch.linalg.eig(dense)
        into = torch.linalg.solve(basis, read.to(basis.dtype))
        y = scan(eigenvalues, (x.to(basis.dtype) @ into.T)[None])[0] @ (write.to(basis.dtype) @ basis).T
        loops = linear_recurrence.dense(*(t.tolist() for t in (x, dense, read, write)))
        expected = torch.tensor(loops, dtype=torch.float64)
        apart.append(_apart(y.real, expected) / float(expected.abs().max()))
        imaginary.append(float(y.imag.abs().max() / expected.abs().max()))
        numbers.append(float(m * m))
    xs = tuple(map(float, sizes))
    view = Curves(
        "Products of a step, states alone", "states m", "products",
        {"dense": (xs, tuple(numbers)), "diagonal, complex": (xs, tuple(4.0 * m for m in sizes))}, log="xy",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference of the outputs, as a share", max(apart), high=1e-10),
            Check("largest imaginary part of the outputs, as a share", max(imaginary), high=1e-10),
        ),
        view,
    )


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one.detach() - other.detach()).abs().max())


def _furthest(one: list[float], other: tuple[float, ...]) -> float:
    return max(abs(p - q) for p, q in zip(one, other, strict=True))
