"""The edge graph: a node for each edge, joined where two edges share an end; and back.

    B_ne    = 1 where edge e ends in node n                                       incidence, (N, E)          (1)
    A_edge  = Bᵀ B - 2 I,      A = B Bᵀ - D                                                                  (2)

(2) holds for graphs without loops and parallel edges. What is read of an edge is read of a node of the edge graph, and
a layer of nodes becomes a layer of edges.

Back. Edges at one node are all joined: they form a clique, each node of the edge graph is in two such cliques at most,
and each edge of it is in exactly one. So the graph is found by covering the edge graph with cliques, no node in more
than two (Krausz, 1943). By Whitney (1932) the cover is the only one, but for the triangle, which is the edge graph of a
triangle and of three edges at one node: the star is given. Nodes without edges leave no trace.

Notation   N nodes,  E edges, each without a direction,  D -> degrees on the diagonal
Shapes     pairs (2, E) -> pairs (2, E') of the edge graph
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.errors import DataError, ShapeError


def incidence(pairs: Tensor, num_nodes: int) -> Tensor:
    """Eq. 1, as numbers of 0 and 1.

    >>> incidence(torch.tensor([[0, 1], [1, 2]]), 3).tolist()
    [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    """
    pairs = _checked(pairs, num_nodes)
    B = torch.zeros(num_nodes, pairs.shape[1])
    B[pairs[0], torch.arange(pairs.shape[1])] = 1.0
    B[pairs[1], torch.arange(pairs.shape[1])] = 1.0
    return B


def edge_graph(pairs: Tensor, num_nodes: int) -> Tensor:
    """The pairs of edges that share an end, each once, the lower number first: eq. 2 without a matrix.

    >>> edge_graph(torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]]), 4).tolist()  # a ring of four is its own edge graph
    [[0, 0, 1, 2], [1, 3, 2, 3]]
    """
    pairs = _checked(pairs, num_nodes)
    count = pairs.shape[1]
    ends = pairs.flatten()
    order = ends.argsort(stable=True)
    edge = torch.arange(count).repeat(2)[order]
    start = torch.searchsorted(ends[order], torch.arange(num_nodes + 1))
    degree = start.diff()
    # each place of an end meets the places after it at the same node
    place = torch.arange(2 * count)
    behind = start[1:].repeat_interleave(degree) - place - 1
    one = place.repeat_interleave(behind)
    step = torch.arange(len(one)) - (behind.cumsum(0) - behind).repeat_interleave(behind) + 1
    found = torch.stack([edge[one], edge[one + step]])
    found = torch.stack([found.amin(0), found.amax(0)])
    return found[:, (found[0] * count + found[1]).argsort()]


def graph_of_edge_graph(pairs: Tensor, num_edges: int) -> Tensor:
    """A graph (2, num_edges) whose edge graph this is, its nodes numbered as they come.

    Args:
        pairs: (2, E'), which edges share an end.
        num_edges: nodes of the edge graph.

    >>> star = torch.tensor([[0, 0, 1], [1, 2, 2]])  # three edges, all joined
    >>> graph_of_edge_graph(star, 3).tolist()
    [[0, 0, 0], [1, 2, 3]]
    """
    pairs = _checked(pairs, num_edges)
    near: list[set[int]] = [set() for _ in range(num_edges)]
    for a, b in pairs.T.tolist():
        near[a].add(b)
        near[b].add(a)
    cliques: list[set[int]] = []
    seen = [False] * num_edges
    for first in range(num_edges):
        if seen[first]:
            continue
        part = _component(near, first)
        for node in part:
            seen[node] = True
        cliques += _cover(near, part)
    return _from_cliques(cliques, num_edges)


def _component(near: list[set[int]], first: int) -> list[int]:
    found, todo = {first}, [first]
    while todo:
        for other in near[todo.pop()]:
            if other not in found:
                found.add(other)
                todo.append(other)
    return sorted(found)


def _cover(near: list[set[int]], part: list[int]) -> list[set[int]]:
    """Cliques that hold each edge of a component once, no node in more than two."""
    if len(part) == 1 or all(len(near[v]) == len(part) - 1 for v in part):
        return [set(part)] if len(part) > 1 else []  # one star; of a triangle, this is the choice
    start = part[0]
    beside = sorted(near[start])
    for first in _beginnings(near, start, beside):
        found = _grown(near, part, first)
        if found is not None:
            return found
    raise DataError(
        "pairs must be the edge graph of a graph",
        got=f"one that is not, near node {start}: three of its neighbours, say, share nothing but it",
        do="Make it with edge_graph(pairs, num_nodes)",
    )


def _beginnings(near: list[set[int]], start: int, beside: list[int]) -> list[set[int]]:
    """Cliques at a node that could be those of one end of its edge: the neighbours part in two cliques at most, and the
    parts are unsure for a few of them alone.
    """
    other = beside[0]
    both = near[start] & near[other]
    # of those that know both, all but one at most belong to the clique of start and other: who knows the others does
    sure = {start, other} | {v for v in both if len(both - near[v] - {v}) == 0}
    tries = [sure]
    for v in sorted(both):
        kept = {u for u in both if u == v or u in near[v]}
        for own in (kept, kept - {v}, both - {v}):
            clique = {start, other} | own
            if clique not in tries and all(len(clique - near[u]) == 1 for u in clique):
                tries.append(clique)
    pair = {start, other}
    if pair not in tries:
        tries.append(pair)
    return [clique for clique in tries if all(len(clique - near[u]) == 1 for u in clique)]


def _grown(near: list[set[int]], part: list[int], first: set[int]) -> list[set[int]] | None:
    """The whole cover from one of its cliques: what is left at a node of a clique is its other one."""
    cliques, held = [first], dict.fromkeys(part, 0)
    covered = {frozenset((a, b)) for a in first for b in first if a < b}
    for v in first:
        held[v] += 1
    todo = sorted(first)
    while todo:
        v = todo.pop()
        rest = {u for u in near[v] if frozenset((u, v)) not in covered}
        if not rest:
            continue
        clique = {v} | rest
        new = {frozenset((a, b)) for a in clique for b in clique if a < b}
        if new & covered or any(len(clique - near[u]) != 1 for u in clique):
            return None
        cliques.append(clique)
        covered |= new
        for u in clique:
            held[u] += 1
            if held[u] > 2:
                return None
        todo += sorted(rest)
    wanted = sum(len(near[v]) for v in part) // 2
    return cliques if len(covered) == wanted else None


def _from_cliques(cliques: list[set[int]], num_edges: int) -> Tensor:
    """Edges between cliques: each clique is a node, and an edge in fewer than two ends in nodes of its own."""
    ends: list[list[int]] = [[] for _ in range(num_edges)]
    for number, clique in enumerate(cliques):
        for edge in clique:
            ends[edge].append(number)
    count = len(cliques)
    for own in ends:
        while len(own) < 2:
            own.append(count)
            count += 1
    return torch.tensor(ends, dtype=torch.int64).reshape(-1, 2).T.contiguous()


def _checked(pairs: Tensor, num_nodes: int) -> Tensor:
    if pairs.dim() != 2 or pairs.shape[0] != 2 or pairs.is_floating_point():
        raise ShapeError(
            "edges must be two rows of whole numbers",
            got=f"{pairs.dtype} of shape {tuple(pairs.shape)}",
            do="Pass pairs of shape (2, E)",
        )
    if pairs.numel() and not 0 <= int(pairs.min()) <= int(pairs.max()) < num_nodes:
        raise ShapeError(
            f"ends of edges must be nodes 0 … {num_nodes - 1}",
            got=f"{int(pairs.min())} … {int(pairs.max())}",
            do="Pass the right number of nodes",
        )
    code = pairs.amin(0) * num_nodes + pairs.amax(0)
    if bool((pairs[0] == pairs[1]).any()) or len(code.unique()) < len(code):
        raise DataError(
            "an edge graph must be of different edges between different nodes",
            got="a loop" if bool((pairs[0] == pairs[1]).any()) else "an edge that comes twice, or both ways",
            do="Leave it out, and give each edge once",
        )
    return pairs
