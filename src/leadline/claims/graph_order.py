"""The order of nodes has no influence, and graphs beside each other have none on each other."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.claims.graphs_made import FIRST, SECOND, SIX, all_of, from_one, made, random_graph
from leadline.data.graph import Graph
from leadline.layers.held_graph import HeldGraph
from leadline.lens.node_order import node_order, permuted
from leadline.lens.on_graphs import dense
from leadline.reference import adjacency as reference


@claim(
    "graphs-have-no-order",
    "Every layer moves with the order of nodes, F[P H, P A Pᵀ] = P F[H, A]; answers for graphs stay as they are",
    "UDL equations 13.6, 13.7, 13.29, problems 13.6, 13.7; lecture notes 7.1, 7.4",
    misprint="lecture notes print equivariance as f(X) = P f(P X), also on graphs; it is f(P X) = P f(X). UDL's "
    "equation 13.27 drops the 1/N of 13.7",
)
def graphs_have_no_order(full: bool) -> Evidence:
    both = Graph.union([random_graph(20, 3, seed=0), random_graph(9, 2, seed=5)])
    worst, printed, points = 0.0, math.inf, {}
    for level in ("node", "edge", "graph"):
        names, errors = [], []
        for name, net in all_of(both, level):
            view = node_order(net, num=5 if full else 2)
            names.append(name)
            errors.append(float(view.errors.max()))
            if level == "node":
                printed = min(printed, view.printed)
        worst = max(worst, *errors)
        points[f"{level}s"] = (tuple(map(float, range(len(names)))), tuple(max(e, 1e-18) for e in errors))
    A, order = dense(made(from_one(SIX), 8)), [3, 1, 7, 0, 5, 2, 6, 4]  # noqa: N806
    moved = dense(permuted(made(from_one(SIX), 8), torch.tensor(order)))
    P = torch.eye(8, dtype=torch.float64)[order].numpy()  # noqa: N806
    rule = abs(P @ A @ P.T - moved).max()
    curve = Curves("Nodes in another order", "", "largest difference, relative", points, log="y", names=tuple(names))
    return Evidence(
        (
            Check("largest error of a layer or an answer, over networks and levels", worst, high=1e-9),
            Check("networks that were looked at", len(names), low=6),
            Check("least error of the misprinted form", printed, low=1e-3),
            Check("P A Pᵀ beside the graph in that order", float(rule), 0, 0),
        ),
        curve,
    )


@claim(
    "union-is-separate",
    "Graphs as one disjoint union have the answers, and give the gradients, that they have one by one",
    "UDL 13.6.1",
)
def union_is_separate(full: bool) -> Evidence:
    graphs = [made(from_one(pairs), n, seed=n) for pairs, n in ((FIRST, 7), (SIX, 8), (SECOND, 7))]
    graphs += [random_graph(n, 2, seed=n) for n in ((3, 12, 30, 60) if full else (3, 12))]
    graphs += [Graph(graphs[0].x[:1], made((), 1).edges)]  # one node, and no edge
    union, rows = Graph.union(graphs), torch.arange(len(graphs))[:, None]
    answers, gradients, names = [], [], []
    for name, net in all_of(union, "graph"):
        held = next(part for part in net.modules() if isinstance(part, HeldGraph))
        together = net(rows)
        whole = _gradient(net, together)
        apart, slopes = [], None
        for graph in graphs:
            held.put(graph)
            out = net(torch.zeros(1, 1, dtype=torch.int64))
            own = _gradient(net, out)
            apart.append(out)
            slopes = own if slopes is None else [a + b for a, b in zip(slopes, own, strict=True)]
        held.put(union)
        names.append(name)
        answers.append(_error(together, torch.cat(apart)))
        gradients.append(_error(*(torch.cat([g.flatten() for g in found]) for found in (whole, slopes or []))))
    at = tuple(map(float, range(len(names))))
    view = Curves(
        "One union beside one by one", "", "largest difference, relative",
        {"answers": (at, tuple(max(e, 1e-18) for e in answers)),
         "gradients": (at, tuple(max(e, 1e-18) for e in gradients))},
        log="y", names=tuple(names),
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference of answers", max(answers), high=1e-12),
            Check("largest difference of gradients", max(gradients), high=1e-10),
        ),
        view,
    )


def _gradient(net: torch.nn.Module, out: Tensor) -> list[Tensor]:
    weights = list(net.parameters())
    found = torch.autograd.grad(out.square().sum(), weights, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]


def _error(found: Tensor, expected: Tensor) -> float:
    size = float(expected.detach().abs().max()) or 1.0
    return float((found - expected).detach().abs().max()) / size


@claim(
    "laplacian-is-local",
    "The Laplacian of a signal is its distance from the mean of the neighbours, times the degree; its quadratic form "
    "is the sum of squared differences along edges",
    "Lecture notes 7.5",
    misprint="lecture notes define the degree with one added for the node itself, which holds in 7.4 and not in 7.5",
)
def laplacian_is_local(full: bool) -> Evidence:
    errors: dict[str, list[float]] = {"(L x)_i": [], "x·L x": [], "with the misprinted degree": []}
    sizes = (5, 10, 20, 40) if full else (5, 10, 20)
    for num in sizes:
        graph = random_graph(num, 3, dim=1, seed=num)
        A = dense(graph)  # noqa: N806
        x = graph.x[:, 0].numpy()
        L = torch.tensor(reference.laplacian(A.tolist()), dtype=torch.float64).numpy()  # noqa: N806
        d = A.sum(1)
        local = d * (x - A @ x / d)
        errors["(L x)_i"].append(float(abs(L @ x - local).max()))
        errors["x·L x"].append(abs(float(x @ L @ x) - reference.energy(A.tolist(), x.tolist())))
        off = L + torch.eye(num, dtype=torch.float64).numpy()
        errors["with the misprinted degree"].append(float(abs(off @ x - local).max()))
    at = tuple(map(float, sizes))
    view = Curves(
        "The Laplacian beside its two meanings", "nodes", "largest difference",
        {name: (at, tuple(max(e, 1e-18) for e in values)) for name, values in errors.items()}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("distance from the mean of the neighbours", max(errors["(L x)_i"]), high=1e-12),
            Check("sum of squared differences", max(errors["x·L x"]), high=1e-10),
            Check("the same with the misprinted degree", min(errors["with the misprinted degree"]), low=0.1),
        ),
        view,
    )
