"""Identities of normalising and distilling: whitening, batch norm, weight norm, a teacher's gradient."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.whitening import whitening
from leadline.layers import weight_normed
from leadline.regularize import soft_loss

_SLIDES = "Slides on activation normalisation"
_NOTES = "Lecture notes on tricks of the trade"


def _rows(num: int, dim: int, seed: int = 0) -> Tensor:
    """Correlated columns of mean 0."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(num, dim, generator=g, dtype=torch.float64) @ torch.randn(
        dim, dim, generator=g, dtype=torch.float64
    )
    return x - x.mean(0)


@claim(
    "whitening",
    "W Σ Wᵀ = I for PCA, ZCA and Cholesky whitening; batch norm is whitening with a diagonal W",
    _SLIDES,
    misprint="Cholesky whitening is printed as Σ^{1/2}, which does not whiten: it is L^{-1} for Σ = L Lᵀ",
)
def whitening_identities(full: bool) -> Evidence:
    dims = (2, 5, 10, 20, 50) if full else (2, 5, 10, 20)
    worst: dict[str, list[float]] = {"pca": [], "zca": [], "cholesky": [], "printed Σ^{1/2}": []}
    for dim in dims:
        x = _rows(400, dim)
        sigma = x.mT @ x / len(x)
        values, turned = torch.linalg.eigh(sigma)
        matrices = {kind: whitening(sigma, kind) for kind in ("pca", "zca", "cholesky")}
        matrices["printed Σ^{1/2}"] = turned @ values.sqrt().diag() @ turned.mT
        for kind, w in matrices.items():
            worst[kind].append(float((w @ sigma @ w.mT - torch.eye(dim)).abs().max()))
    layer = nn.BatchNorm1d(dim, eps=1e-13, affine=False).double()
    diagonal = float((layer(x) - x @ whitening(sigma, "diagonal").mT).abs().max())
    xs = tuple(map(float, dims))
    view = Curves("How far W Σ Wᵀ is from I", "columns", "largest distance",
                  {kind: (xs, tuple(max(v, 1e-17) for v in off)) for kind, off in worst.items()}, log="xy")  # fmt: skip
    return Evidence(
        (
            Check("largest distance of W Σ Wᵀ from I, the three",
                  max(max(worst[kind]) for kind in ("pca", "zca", "cholesky")), high=1e-9),
            Check("the same for Σ^{1/2}, least", min(worst["printed Σ^{1/2}"]), low=1),
            Check("batch norm less (x - mean) times diag(Σ)^{-1/2}", diagonal, high=1e-10),
        ),
        view,
    )  # fmt: skip


@claim(
    "norm-of-a-unit",
    "Batch norm of a linear unit depends on the direction of its weights alone, and is weight norm times |w|_I / |w|_Σ",
    f"{_NOTES}, batch and weight normalisation",
)
def norm_of_a_unit(full: bool) -> Evidence:
    x = _rows(500, 4)
    sigma = x.mT @ x / len(x)
    g = torch.Generator().manual_seed(1)
    layer, off, moved, factors = nn.BatchNorm1d(1, eps=1e-13, affine=False).double(), 0.0, 0.0, []
    for _ in range(40 if full else 12):
        w = torch.randn(4, generator=g, dtype=torch.float64)
        out = layer((x @ w)[:, None])[:, 0]
        factor = w.norm() / (w @ sigma @ w).sqrt()
        factors.append(float(factor))
        off = max(off, float((out - x @ (w / w.norm()) * factor).abs().max()))
        moved = max(moved, float((layer((x @ (7 * w))[:, None])[:, 0] - out).abs().max()))
    white = x @ whitening(sigma).mT
    same = float((layer((white @ w)[:, None])[:, 0] - white @ (w / w.norm())).abs().max())
    view = Curves("Batch norm over weight norm", "weights drawn", "factor |w|_I / |w|_Σ",
                  {"correlated inputs": (tuple(map(float, range(len(factors)))), tuple(factors))},
                  {"white inputs": ((0.0, float(len(factors) - 1)), (1.0, 1.0))}, joined=False)  # fmt: skip
    return Evidence(
        (
            Check("largest distance of the two", off, high=1e-10),
            Check("largest change with weights seven times as long", moved, high=1e-10),
            Check("distance from plain weight norm where inputs are white", same, high=1e-9),
        ),
        view,
    )


@claim(
    "weight-norm-gradients",
    "Under w = g v/|v| the gradient of v is g/|v| times that of w without its part along w; so steps of descent only "
    "ever lengthen v",
    f"{_NOTES}, weight normalisation",
)
def weight_norm_gradients(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 5, generator=g).double(), torch.randn(60, 1, generator=g).double()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plain: Any = nn.Sequential(nn.Linear(5, 1)).double()
    model: Any = weight_normed(plain)
    lengths: list[float] = []
    off = along = 0.0
    gain, v = (getattr(model[0].parametrizations.weight, f"original{k}") for k in (0, 1))
    for _ in range(200 if full else 60):
        lengths.append(float(v.detach().norm()))
        with torch.no_grad():
            plain[0].weight.copy_(model[0].weight)
            plain[0].bias.copy_(model[0].bias)
        for net in (plain, model):
            net.zero_grad()
            (net(x) - y).square().mean().backward()
        w, slope = plain[0].weight.detach(), plain[0].weight.grad
        across = slope - w * (slope * w).sum() / w.square().sum()
        off = max(off, float((v.grad - gain.detach() / v.detach().norm() * across).abs().max()),
                  abs(float(gain.grad - (slope * v.detach()).sum() / v.detach().norm())))  # fmt: skip
        along = max(along, abs(float((v.grad * w).sum())))
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(0.1 * p.grad)
    view = Curves("Descent on a linear unit", "steps", "length of v",
                  {"|v|": (tuple(map(float, range(len(lengths)))), tuple(lengths))})  # fmt: skip
    return Evidence(
        (
            Check("largest distance of both gradients from the closed form", off, high=1e-12),
            Check("largest product of the gradient of v with w", along, high=1e-12),
            Check("least growth of v in a step",
                  min(b - a for a, b in pairwise(lengths)), low=-1e-14),
        ),
        view,
    )  # fmt: skip


@claim(
    "distillation-gradient",
    "The gradient of a student's softened loss is (q - p)/T, its softened answers less the teacher's; for high T it is "
    "that of matching logits",
    f"{_NOTES}, distillation; Hinton et al. 2015",
    misprint="the notes print both losses without their minus sign, so that (p_F - p_G)/T is uphill",
)
def distillation_gradient(full: bool) -> Evidence:
    g = torch.Generator().manual_seed(0)
    teacher, student = (3 * torch.randn(30, 6, generator=g, dtype=torch.float64) for _ in range(2))
    heats = (0.5, 1.0, 2.0, 5.0, 20.0, 100.0, 500.0)
    off, near = [], []
    matched = ((student - student.mean(1, keepdim=True)) - (teacher - teacher.mean(1, keepdim=True))) / 6
    for heat in heats:
        z = student.clone().requires_grad_()
        slope = torch.autograd.grad(soft_loss(z, teacher, heat).sum(), z)[0]
        off.append(float((slope - ((student / heat).softmax(-1) - (teacher / heat).softmax(-1)) / heat).abs().max()))
        near.append(float((heat**2 * slope - matched).norm() / matched.norm()))
    view = Curves("T² times the gradient, beside that of matching logits", "temperature T", "relative distance",
                  {"measured": (heats, tuple(near))}, log="xy")  # fmt: skip
    return Evidence(
        (
            Check("largest distance of the gradient from (q - p)/T", max(off), high=1e-14),
            Check("relative distance from matching logits at T = 500", near[-1], high=0.02),
            Check("the same at T = 1", near[1], low=0.3),
        ),
        view,
    )
