"""Filters on graphs: polynomials and their spectra, what stays on its own graph, and masks that are masks."""

from __future__ import annotations

import math

import numpy as np
import torch

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.claims.graphs_made import random_graph
from leadline.lens.on_graphs import dense, hops
from leadline.reference import adjacency, message_passing


@claim(
    "polynomials-are-spectral",
    "A polynomial of the Laplacian of degree K is a spectral filter, Σ α_k L^k = U (Σ α_k Λ^k) Uᵀ; it reads K hops, "
    "and has K + 1 weights where a free filter has as many as nodes",
    "Defferrard et al. 2016; lecture notes 7.5; UDL notes 13",
    misprint="lecture notes sum p_mn(L) x_n over nodes; m and n number channels, and the offset belongs to m",
)
def polynomials_are_spectral(full: bool) -> Evidence:
    num = 40 if full else 24
    graph = random_graph(num, 1.2, seed=1)
    A = dense(graph)  # noqa: N806
    L = np.array(adjacency.laplacian(A.tolist(), normalised=True))  # noqa: N806
    values, vectors = adjacency.eigen(L.tolist())
    far = np.stack([hops(graph, i) for i in range(num)])
    rng = np.random.default_rng(0)
    apart, outside, inside, points = 0.0, 0.0, math.inf, []
    degrees_ = (1, 2, 3, 4)
    for K in degrees_:  # noqa: N806
        alphas = rng.standard_normal(K + 1)
        matrix = sum(alpha * np.linalg.matrix_power(L, k) for k, alpha in enumerate(alphas))
        U = np.array(vectors)  # noqa: N806
        spectral = U.T @ np.diag([sum(a * v**k for k, a in enumerate(alphas)) for v in values]) @ U
        apart = max(apart, float(abs(matrix - spectral).max()))
        outside = max(outside, float(abs(matrix[far > K]).max(initial=0)))
        inside = min(inside, float(abs(matrix[far == K]).min()))
        points.append(float((abs(matrix) > 0).mean()))
    x = graph.x.tolist()
    cheb = np.array(message_passing.chebyshev(A.tolist(), x, [0.0] * 4, [np.eye(4).tolist()] * 4))
    free = U.T @ np.diag([sum(math.cos(k * math.acos(max(-1, min(1, v - 1)))) for k in range(4)) for v in values]) @ U
    recursion = float(abs(cheb - free @ graph.x.numpy()).max())
    at = tuple(map(float, degrees_))
    view = Curves(
        "What a polynomial of degree K reads", "degree K", "share of the matrix that is not 0",
        {"p(L)": (at, tuple(points))}, {"K hops": (at, tuple(float((far <= k).mean()) for k in degrees_))},
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference of the two forms", apart, high=1e-8),
            Check("largest entry beyond K hops", outside, 0, 0),
            Check("least entry at K hops", inside, low=1e-6),
            Check("Chebyshev's recursion beside cos(k arccos λ)", recursion, high=1e-8),
            Check(f"weights of degree 4 over those of a free filter on {num} nodes", 5 / num, high=0.25),
        ),
        view,
    )


@claim(
    "spectral-filters-stay",
    "A filter given wave by wave belongs to its graph: on another it does something else, while a polynomial's weights "
    "carry over",
    "Bruna et al. 2014; Defferrard et al. 2016; lecture notes 7.5",
)
def spectral_filters_stay(full: bool) -> Evidence:
    num = 40
    errors: dict[str, list[float]] = {"wave by wave": [], "polynomial": []}
    first = random_graph(num, 3, seed=0)
    # spectra of graphs of one kind are nearly alike, so that a filter by wave errs there by some hundredths only
    count = 6 if full else 3
    others = {"its own": first} | {f"alike {k}": random_graph(num, 3, seed=10 + k) for k in range(1, count)}
    others |= {f"denser {k}": random_graph(num, 10, seed=20 + k) for k in range(1, count)}
    wanted = lambda v: np.exp(-3 * v)  # noqa: E731 - heat that spreads
    values, _ = _waves(dense(first))
    free = wanted(values)
    powers = np.stack([values**k for k in range(7)], 1)
    alphas = np.linalg.lstsq(powers, free, rcond=None)[0]
    for graph in others.values():
        own, W = _waves(dense(graph))  # noqa: N806
        x = graph.x.numpy()
        expected = W @ (wanted(own)[:, None] * (W.T @ x))
        signs = np.sign(np.random.default_rng(0).standard_normal(num))  # of waves, which are free
        taken = (W * signs) @ (free[:, None] * ((W * signs).T @ x))
        fitted = W @ ((np.stack([own**k for k in range(7)], 1) @ alphas)[:, None] * (W.T @ x))
        size = float(np.linalg.norm(expected))
        errors["wave by wave"].append(float(np.linalg.norm(taken - expected)) / size)
        errors["polynomial"].append(float(np.linalg.norm(fitted - expected)) / size)
    moved = _moved(first, free)
    ratios = [a / b for a, b in zip(errors["wave by wave"][1:], errors["polynomial"][1:], strict=True)]
    at = tuple(map(float, range(len(others))))
    view = Curves(
        "A filter fitted on one graph", "", "error on this graph, relative",
        {name: (at, tuple(max(e, 1e-18) for e in found)) for name, found in errors.items()},
        log="y", names=tuple(others),
    )  # fmt: skip
    return Evidence(
        (
            Check("wave by wave, on its own graph", errors["wave by wave"][0], high=1e-10),
            Check("over the polynomial's error on another graph, the least", min(ratios), low=20),
            Check("wave by wave, on graphs of another degree, the best", min(errors["wave by wave"][count:]), low=0.1),
            Check("polynomial of degree 6, the worst", max(errors["polynomial"]), high=0.02),
            Check("wave by wave on its own graph with three edges more", moved, low=0.02),
        ),
        view,
    )


def _waves(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803
    values, waves = np.linalg.eigh(np.array(adjacency.laplacian(A.tolist(), normalised=True)))
    return np.maximum(values, 0), waves


def _moved(graph: object, free: np.ndarray) -> float:
    """Error of weights by wave where three edges were added."""
    A = dense(graph)  # type: ignore[arg-type]  # noqa: N806
    for i, j in ((0, 13), (5, 29), (17, 36)):
        A[i, j] = A[j, i] = 1
    values, W = _waves(A)  # noqa: N806
    expected, found = (W @ np.diag(g) @ W.T for g in (np.exp(-3 * values), free))
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@claim(
    "softmask-is-a-mask",
    "Softmask gives exactly nothing to nodes that are no neighbours; multiplying scores by A + I does not",
    "UDL equation 13.24",
    misprint="UDL 13.9.6 also speaks of multiplying S by A + I, which is no mask, for exp 0 = 1",
)
def softmask_is_a_mask(full: bool) -> Evidence:
    outside, sums, least, wrong = 0.0, 0.0, math.inf, []
    sizes = (5, 10, 20, 40) if full else (5, 10, 20)
    for num in sizes:
        graph = random_graph(num, 2, seed=num, joined=False)
        A = dense(graph)  # noqa: N806
        may = A + np.eye(num) > 0
        S = 3 * torch.randn(num, num, generator=torch.Generator().manual_seed(num), dtype=torch.float64).numpy()  # noqa: N806
        W = np.array(message_passing.softmask(S.tolist(), (A + np.eye(num)).tolist()))  # noqa: N806
        outside = max(outside, float(W[~may].max(initial=0)))
        least = min(least, float(W[may].min()))
        sums = max(sums, float(abs(W.sum(1) - 1).max()))
        e = np.exp(S * may)
        wrong.append(float(((e / e.sum(1, keepdims=True)) * ~may).sum(1).mean()))
    at = tuple(map(float, sizes))
    view = Curves(
        "Attention to nodes that are no neighbours", "nodes", "share, mean over nodes",
        {"scores times A + I": (at, tuple(wrong)), "softmask": (at, (outside,) * len(sizes))},
    )  # fmt: skip
    return Evidence(
        (
            Check("largest weight outside", outside, 0, 0),
            Check("least weight of a neighbour", least, low=1e-12),
            Check("largest distance of a sum from 1", sums, high=1e-12),
            Check("share that goes outside where scores are multiplied", wrong[-1], low=0.1),
        ),
        view,
    )
