"""What message passing can tell apart: the colours of Weisfeiler and Lehman, and what means and maxima lose."""

from __future__ import annotations

import torch

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.claims.graphs_made import (
    HEXAGON,
    PRISM,
    TWO_TRIANGLES,
    UTILITIES,
    Stack,
    all_of,
    made,
    random_graph,
)
from leadline.data.graph import Graph
from leadline.lens.node_colours import node_colours
from leadline.lens.on_graphs import dense, states
from leadline.reference.adjacency import walks

#: two rings of six that share an edge, and two rings of five that an edge joins: decalin and bicyclopentyl
_FUSED = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (5, 6), (6, 7), (7, 8), (8, 9), (9, 0))
_JOINED = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (5, 6), (6, 7), (7, 8), (8, 9), (9, 5), (0, 5))
_PAIRS = {
    "two triangles, hexagon": (TWO_TRIANGLES, HEXAGON),
    "prism, K₃₃": (PRISM, UTILITIES),
    "decalin, bicyclopentyl": (_FUSED, _JOINED),
}


@claim(
    "colours-bound-networks",
    "Graphs of equal Weisfeiler-Lehman colours have equal answers from every message passing network, whatever its "
    "weights, though they are not the same graph; nodes of one colour have equal states",
    "Xu et al. 2019; Morris et al. 2019; UDL notes 13; lecture notes 7.4",
    misprint="lecture notes say that the Weisfeiler-Lehman test decides whether graphs are isomorphic; it only refutes",
)
def colours_bound_networks(full: bool) -> Evidence:
    points: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {}
    worst, unlike, alike, told = 0.0, 0, 0, 1.0
    seeds = range(5 if full else 2)
    for word, shapes in _PAIRS.items():
        num = 1 + max(max(pair) for pair in shapes[0])
        graphs = [made(pairs, num, torch.ones(num, 2)) for pairs in shapes]
        both = Graph.union(graphs)
        alike += node_colours(both).graphs_alike == ((0, 1),)
        cycles = [sum(walks(dense(g).tolist(), k)[i][i] for i in range(num)) for g in graphs for k in (3, 4, 5, 6)]
        unlike += cycles[:4] != cycles[4:]
        names, gaps = [], []
        for seed in seeds:
            for name, net in all_of(both, "graph", num_layers=3, seed=seed):
                with torch.no_grad():
                    out = net(torch.tensor([[0], [1]]))
                gaps.append(float((out[0] - out[1]).abs().max() / out.abs().max().clamp(min=1e-12)))
                names.append(name)
        worst = max(worst, *gaps)
        count = len(names) // len(seeds)
        points[word] = (tuple(map(float, range(count))), tuple(max(g, 1e-18) for g in gaps[:count]))
        names_ = 2 * torch.randn(num, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        marked = Graph.union([Graph(names_, g.edges) for g in graphs])
        torch.manual_seed(0)
        out = Stack(marked, "mean", 3, dim=32, level="graph")(torch.tensor([[0], [1]])).detach()
        told = min(told, float((out[0] - out[1]).abs().max()))
    graph = random_graph(30, 1.5, seed=6, joined=False)
    constant = Graph(torch.ones(30, 2, dtype=torch.float64), graph.edges)
    within = max(node_colours(net).within for _, net in all_of(constant, num_layers=4))
    view = Curves(
        "Graphs of equal colours", "", "difference of answers, relative", points, log="y", names=tuple(names[:count])
    )
    return Evidence(
        (
            Check("pairs of equal colours", alike, len(_PAIRS), len(_PAIRS)),
            Check("of them with other counts of closed walks, so not the same", unlike, len(_PAIRS), len(_PAIRS)),
            Check("largest difference of two answers", worst, high=1e-9),
            Check("largest difference of states within a colour, 30 nodes", within, high=1e-9),
            Check("least difference where nodes have names of their own", told, low=1e-6),
        ),
        view,
    )


@claim(
    "sums-count",
    "A sum tells multisets of neighbours apart that a mean and a maximum take for one, and so finds every colour",
    "Xu et al. 2019; UDL equation 13.26",
    misprint="UDL prints h of the layer above on the right side of equation 13.26; it is that of the layer below",
)
def sums_count(full: bool) -> Evidence:
    cases = {"aa, aaa": ("aa", "aaa"), "ab, aabb": ("ab", "aabb"), "abb, aab": ("abb", "aab")}
    value = {"a": (1.0, 0.0), "b": (0.0, 1.0)}
    gaps: dict[str, list[float]] = {"sum": [], "mean": [], "max": []}
    for first, second in cases.values():
        stars = []
        for leaves in (first, second):
            x = torch.tensor([(1.0, 1.0), *(value[leaf] for leaf in leaves)])
            stars.append(made([(0, k) for k in range(1, len(x))], len(x), x))
        both = Graph.union(stars)
        for how, found in gaps.items():
            torch.manual_seed(0)
            net = Stack(both, how, 1, dim=32)
            out = net(torch.tensor([[0], [len(stars[0])]])).detach()
            found.append(float((out[0] - out[1]).abs().max()))
    graph = random_graph(60 if full else 40, 1.8, seed=8, joined=False)
    constant = Graph(torch.ones(len(graph), 2, dtype=torch.float64), graph.edges)
    colours = node_colours(constant).counts[-1]
    told = {}
    for how in gaps:
        torch.manual_seed(1)
        net = Stack(constant, how, len(node_colours(constant).counts), dim=32)
        with torch.no_grad():
            told[how] = len(states(net)[1][-1].mul(1e8).round().unique(dim=0))
    at = tuple(map(float, range(len(cases))))
    view = Curves(
        "Neighbours that are told apart", "", "difference of the states",
        {how: (at, tuple(max(g, 1e-18) for g in found)) for how, found in gaps.items()}, log="y", names=tuple(cases),
    )  # fmt: skip
    lonely = bool((graph.edges.degree == 0).any())
    return Evidence(
        (
            Check("least difference by sums", min(gaps["sum"]), low=1e-3),
            Check("by means: aa from aaa, ab from aabb", max(gaps["mean"][:2]), high=1e-12),
            Check("by means: abb from aab", gaps["mean"][2], low=1e-3),
            Check("by maxima, all three", max(gaps["max"]), high=1e-12),
            Check(f"nodes that sums tell apart, of {colours} colours", told["sum"], colours, colours),
            Check("that means do: nodes alone and others", told["mean"], 1 + lonely, 1 + lonely),
            Check("that maxima do", told["max"], 1 + lonely, 1 + lonely),
        ),
        view,
    )
