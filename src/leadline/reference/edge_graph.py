"""The edge graph and the way back: a node for each edge, joined where two edges share an end.

    B_ie   = 1 where node i is an end of edge e                                                               (1)
    edges  Bᵀ B - 2 I      the adjacency of the edge graph                                                    (2)
    nodes  B Bᵀ - D        the adjacency of the graph itself                                                  (3)

The way back covers the edge graph with cliques such that each of its nodes lies in one or two: each clique is a node of
the graph, and each node of the edge graph joins the cliques it lies in (Krausz, 1943). Of a connected edge graph the
answer is one but for isolated nodes, which leave no trace, and for the triangle, which is the edge graph both of the
triangle and of the star of three edges (Whitney, 1932). Where no cover exists, the graph is no edge graph.

Notes      graphs without loops and parallel edges, without directions; search by trial, for graphs that fit on a page
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from leadline.reference.networks import Matrix

Pairs = list[tuple[int, int]]


def incidence(num_nodes: int, pairs: Sequence[tuple[int, int]]) -> list[list[float]]:
    """Eq. 1.

    >>> incidence(3, [(0, 1), (1, 2)])
    [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    """
    return [[float(i in pair) for pair in pairs] for i in range(num_nodes)]


def edge_graph(pairs: Sequence[tuple[int, int]]) -> Pairs:
    """Pairs of edges that share an end, by their numbers.

    >>> edge_graph([(0, 1), (1, 2), (2, 3)]), edge_graph([(0, 1), (0, 2), (0, 3)])
    ([(0, 1), (1, 2)], [(0, 1), (0, 2), (1, 2)])
    """
    return [(e, f) for e, f in combinations(range(len(pairs)), 2) if set(pairs[e]) & set(pairs[f])]


def edge_matrix(B: Matrix) -> list[list[float]]:
    """Eq. 2.

    >>> edge_matrix(incidence(3, [(0, 1), (1, 2)]))
    [[0.0, 1.0], [1.0, 0.0]]
    """
    E = len(B[0])
    return [[sum(row[e] * row[f] for row in B) - 2 * (e == f) for f in range(E)] for e in range(E)]


def from_edge_graph(num_edges: int, joined: Sequence[tuple[int, int]]) -> list[Pairs]:
    """Every graph without isolated nodes, up to the names of its nodes, whose edge graph this is.

    Args:
        num_edges: nodes of the edge graph.
        joined: its edges.

    >>> from_edge_graph(3, [(0, 1), (1, 2)])  # a path of four nodes
    [[(0, 1), (0, 2), (2, 3)]]
    >>> [len({n for pair in pairs for n in pair}) for pairs in from_edge_graph(3, [(0, 1), (0, 2), (1, 2)])]
    [4, 3]
    >>> from_edge_graph(4, [(0, 1), (0, 2), (0, 3)])  # no edge touches three others that do not touch each other
    []
    """
    near = {e: {f for pair in joined for f in pair if e in pair and f != e} for e in range(num_edges)}
    edges = [tuple(sorted(pair)) for pair in joined]
    found: list[Pairs] = []
    _cover(edges, [], near, found)
    unlike: list[Pairs] = []
    for pairs in found:
        if not any(same_graph(pairs, other) for other in unlike):
            unlike.append(pairs)
    return sorted(unlike, key=lambda pairs: -len({n for pair in pairs for n in pair}))


def _cover(
    left: list[tuple[int, ...]], cliques: list[frozenset[int]], near: dict[int, set[int]], found: list[Pairs]
) -> None:
    """Add a clique that holds the first pair not yet covered, in every way there is."""
    if not left:
        found.append(_graph(cliques, len(near)))
        return
    e, f = left[0]
    both = sorted(near[e] & near[f])
    for size in range(len(both), -1, -1):
        for more in combinations(both, size):
            clique = frozenset((e, f, *more))
            inside = {tuple(sorted(pair)) for pair in combinations(clique, 2)}
            fits = all(b in near[a] for a, b in combinations(clique, 2)) and inside <= set(left)
            if fits and all(sum(n in c for c in cliques) < 2 for n in clique):
                _cover([pair for pair in left if pair not in inside], [*cliques, clique], near, found)


def _graph(cliques: list[frozenset[int]], num_edges: int) -> Pairs:
    """Each node of the edge graph joins the cliques that it lies in; an end that no other edge has is a node alone."""
    ends: list[list[int]] = [[k for k, clique in enumerate(cliques) if e in clique] for e in range(num_edges)]
    new = len(cliques)
    for own in ends:
        while len(own) < 2:
            own.append(new)
            new += 1
    names: dict[int, int] = {}
    for own in ends:
        for n in sorted(own, key=lambda n: (n not in names, n)):
            names.setdefault(n, len(names))
    return [tuple(sorted((names[own[0]], names[own[1]]))) for own in ends]  # type: ignore[misc]


def same_graph(first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]]) -> bool:
    """Whether two graphs without isolated nodes are the same but for the names of nodes; by trial.

    >>> same_graph([(0, 1), (1, 2)], [(5, 3), (7, 5)]), same_graph([(0, 1), (2, 3)], [(0, 1), (1, 2)])
    (True, False)
    """
    one, two = ({frozenset(pair) for pair in pairs} for pairs in (first, second))
    nodes, others = (sorted({n for pair in edges for n in pair}) for edges in (one, two))
    if len(one) != len(two) or len(nodes) != len(others):
        return False

    def degree(edges: set[frozenset[int]], n: int) -> int:
        return sum(n in pair for pair in edges)

    def placed(to: dict[int, int]) -> bool:
        if len(to) == len(nodes):
            return True
        n = nodes[len(to)]
        for m in others:
            if m in to.values() or degree(one, n) != degree(two, m):
                continue
            if all((frozenset((n, k)) in one) == (frozenset((m, to[k])) in two) for k in to) and placed({**to, n: m}):
                return True
        return False

    return placed({})
