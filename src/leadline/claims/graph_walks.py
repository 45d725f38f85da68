"""Walks on graphs, edge graphs, and how soon layers see everything."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves, Points
from leadline.claims.graphs_made import FIRST, SECOND, SIX, all_of, from_one, made, random_graph
from leadline.data.edge_graph import edge_graph, graph_of_edge_graph
from leadline.data.graph import Graph
from leadline.lens.graph_walks import graph_walks, hop_reach
from leadline.lens.node_influence import jacobians
from leadline.lens.on_graphs import dense, hops, network_of
from leadline.reference import edge_graph as reference
from leadline.reference.adjacency import adjacency, degrees, distances, walks


@claim(
    "walks-are-powers",
    "Entry i, j of A^L counts the walks of length L from j to i; diag(A²) are the degrees",
    "UDL 13.2.1, figure 13.4, problems 13.2 to 13.4",
    misprint="the drawings of figures 13.4 and 13.14 are not in the text at hand: a graph of which the caption is true "
    "and the matrices of problem 13.2 stand in for them",
)
def walks_are_powers(full: bool) -> Evidence:
    wrong = 0.0
    graphs = [from_one(SIX), from_one(FIRST), from_one(SECOND)]
    for pairs in graphs:
        num = 1 + max(max(pair) for pair in pairs)
        A = dense(made(pairs, num))  # noqa: N806
        near = {i: [j for j in range(num) if A[i, j]] for i in range(num)}
        power = torch.eye(num, dtype=torch.float64).numpy()
        for length in range(1, 7 if full else 5):
            power = A @ power
            wrong += sum(abs(power[i, j] - _counted(near, i, j, length)) for i in range(num) for j in range(num))
            far = distances(A.tolist())
            wrong += sum(power[i, j] > 0 and far[i][j] > length for i in range(num) for j in range(num))
    view = graph_walks(made(from_one(SIX), 8), 5, 2)
    one, two = ({int(k) + 1 for k in view.ways[length].nonzero()[0]} for length in (1, 2))
    counts = [walks(adjacency(7, from_one(pairs)), length)[1][0] for pairs in (FIRST, SECOND) for length in (3, 7)]
    own = 0.0
    for pairs in (FIRST, SECOND):
        matrix = adjacency(7, from_one(pairs))
        square = walks(matrix, 2)
        own += sum(abs(square[i][i] - d) for i, d in enumerate(degrees(matrix)))
    return Evidence(
        (
            Check("powers beside walks counted one by one, sum of differences", wrong, 0, 0),
            Check("nodes one step from node six that are not 5, 7, 8, or are missing", len(one ^ {5, 7, 8}), 0, 0),
            Check("the same of two steps, 2, 3, 4, 5, 6, 8", len(two ^ {2, 3, 4, 5, 6, 8}), 0, 0),
            Check("ways from node six back in two steps", view.ways[2][5], 3, 3),
            Check("first graph, ways from 1 to 2 in 3 steps", counts[0], 6, 6),
            Check("in 7 steps", counts[1], 321, 321),
            Check("second graph, in 3 steps", counts[2], 3, 3),
            Check("in 7 steps", counts[3], 495, 495),
            Check("diag(A²) less degrees, sum", own, 0, 0),
        ),
        view,
    )


def _counted(near: dict[int, list[int]], i: int, j: int, left: int) -> int:
    """Walks from j to i, one by one."""
    return int(i == j) if left == 0 else sum(_counted(near, k, j, left - 1) for k in near[i])


@claim(
    "edge-graphs-invert",
    "A graph is found again from its edge graph, but for isolated nodes and for the triangle, whose edge graph is that "
    "of a star of three edges",
    "Whitney 1932; UDL 13.10, problems 13.11 to 13.13",
    misprint="the text says that it is possible in general and names no exception",
)
def edge_graphs_invert(full: bool) -> Evidence:
    num = 5
    every = list(combinations(range(num), 2))
    generator = torch.Generator().manual_seed(0)
    once, twice, lost, seen = 0, 0, 0, 0
    others: list[int] = []
    for k in range(400 if full else 120):
        keep = torch.rand(len(every), generator=generator) < 0.2 + 0.6 * (k % 7) / 6
        pairs = [pair for pair, kept in zip(every, keep.tolist(), strict=True) if kept]
        if not 1 <= len(pairs) <= 8 or not _connected(pairs):
            continue
        seen += 1
        found = reference.from_edge_graph(len(pairs), reference.edge_graph(pairs))
        lost += not any(reference.same_graph(pairs, other) for other in found)
        once, twice = once + (len(found) == 1), twice + (len(found) == 2)
        others += [len(pairs)] if len(found) > 1 else []
    stars = 0
    for k in range(20 if full else 6):
        graph = random_graph(25, 3, seed=k)
        ends = graph.edges.pairs[:, graph.edges.source < graph.edges.target]
        back = graph_of_edge_graph(edge_graph(ends, 25), ends.shape[1])
        stars += _stars(ends) == _stars(back)
    triangle, star = ((0, 1), (1, 2), (2, 0)), ((0, 1), (0, 2), (0, 3))
    both = reference.from_edge_graph(3, reference.edge_graph(triangle))
    sizes = [len(reference.edge_graph(from_one(pairs))) for pairs in (FIRST, SECOND)]
    kept = all(any(reference.same_graph(shape, other) for other in both) for shape in (triangle, star))
    curve: dict[str, Points] = {"graphs": ((0.0, 1.0, 2.0), (float(once), float(twice), float(lost)))}
    view = Curves(
        f"{seen} connected graphs of at most five nodes", "", "graphs", curve, names=("one answer", "two", "none")
    )
    return Evidence(
        (
            Check("graphs that were looked at", seen, low=40),
            Check("of them not found again", lost, 0, 0),
            Check("graphs of 25 nodes found again by the fast way, share", stars / (k + 1), 1, 1),
            Check("edges of those that have two answers, at most", max(others, default=3), 3, 3),
            Check("answers for a triangle of edges", len(both), 2, 2),
            Check("triangle and star among them", float(kept), 1, 1),
            Check("edges of the edge graph of the first graph of problem 13.2", sizes[0], 20, 20),
            Check("of the second", sizes[1], 27, 27),
            Check("graphs whose edge graph is a star of three edges", len(reference.from_edge_graph(4, star)), 0, 0),
        ),
        view,
    )


def _stars(pairs: Tensor) -> set[frozenset[int]]:
    """Which edges meet in a node, of every node with two and more: all that an edge graph can tell."""
    ends = pairs.tolist()
    met = (frozenset(e for e, pair in enumerate(zip(*ends, strict=True)) if n in pair) for n in {*ends[0], *ends[1]})
    return {star for star in met if len(star) > 1}


def _connected(pairs: list[tuple[int, int]]) -> bool:
    seen = set(pairs[0])
    while True:
        more = {n for pair in pairs if seen & set(pair) for n in pair} | seen
        if more == seen:
            return all(set(pair) <= seen for pair in pairs)
        seen = more


#: networks of which a layer reads more than one step
WIDER = ("ChebNet", "EdgeNetwork", "RecursiveGraphNet")


@claim(
    "layers-see-hops",
    "k layers see exactly k hops: a node's state depends on x of another if and only if it is at most k steps away",
    "UDL 13.8.1, figure 13.9; lecture notes 7.4",
)
def layers_see_hops(full: bool) -> Evidence:
    plain = random_graph(40, 1.6, seed=3)
    graph = Graph(plain.x.abs(), plain.edges)
    outside, unseen, points = 0.0, 0, {}
    for layers in (1, 2, 3):
        for name, net in all_of(graph, num_layers=layers, seed=layers):
            if name in WIDER:
                continue
            with torch.no_grad():
                for p in net.parameters():
                    p.abs_()  # so that no unit is shut
            at = list(range(0, 40, 4 if full else 10))
            for i, jacobian in zip(at, jacobians(network_of(net), at)[0], strict=True):
                size = abs(jacobian).sum((0, 2))
                far = hops(graph, i)
                beyond = (far > layers) | (far < 0)
                outside = max(outside, float(size[beyond].max(initial=0)))
                unseen += 0 if name == "max" else int((size[~beyond] == 0).sum())  # a max is of one neighbour alone
    reach = hop_reach(graph, 0, num=40)
    dense_reach = hop_reach(random_graph(200, 12, seed=1), 0, num=40)
    for word, view_ in (("40 nodes, degree 3", reach), ("200 nodes, degree 14", dense_reach)):
        points[word] = (tuple(map(float, range(len(view_.mean)))), tuple(view_.mean.tolist()))
    view = Curves("What k layers read", "layers k", "share of all nodes", points)
    return Evidence(
        (
            Check("largest derivative by a node farther than k steps", outside, 0, 0),
            Check("derivatives within k steps that are 0, all weights positive", unseen, 0, 0),
            Check("share of a graph of degree 14 that three layers read", dense_reach.mean[3], low=0.95),
            Check("the same of one layer", dense_reach.mean[1], high=0.12),
        ),
        view,
    )
