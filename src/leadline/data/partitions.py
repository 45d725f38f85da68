"""A partition of the nodes into parts of nearly equal size that cuts few edges, by halving (Cluster-GCN's batches).

    Ā = D^{-1/2} A D^{-1/2}                         edges inside each part alone, without direction               (1)
    y = eigenvector of Ā after D^{1/2} 1           the slowest of a random walk: nearly constant in a community
    halves                                          nodes below and above the middle of D^{-1/2} y              (2)
    swaps                                           pairs of nodes, one of each half, that cut fewer edges      (3)

All parts are halved at once: they are one graph without the edges between them, and Lanczos' coefficients are one set a
part. Halving of the walk's slowest mode is spectral bisection (Fiedler, 1973); (3) is Kernighan and Lin's, many pairs
at a time. Everything is a product of a sparse matrix and a vector, or a sort.

Notation   P parts,  N nodes
Shapes     -> (N,), the part of each node
"""

from __future__ import annotations

import warnings
from itertools import combinations

import torch
from torch import Tensor

from leadline.data.edges import Edges
from leadline.data.hashes import keyed, uniform
from leadline.errors import UserError

_STEPS, _SWAPS = 24, 8  # of Lanczos, and rounds of swaps, for each halving
_SMALL, _MORE = 100_000, 64  # nodes up to which more steps take no time


def partition(edges: Edges, num_parts: int) -> Tensor:
    """The part, 0 … P - 1, of each node; the same for the same graph.

    >>> clique = torch.combinations(torch.arange(4)).T
    >>> two = Edges.of(torch.cat([clique, clique + 4, torch.tensor([[0], [4]])], 1), num_nodes=8, directed=False)
    >>> parts = partition(two, 2)
    >>> parts.bincount().tolist(), num_cut(two, parts)  # the edge between the cliques, both ways
    ([4, 4], 2)
    """
    N = edges.num_targets
    if not 1 <= num_parts <= max(N, 1):
        raise UserError(
            f"parts must be between 1 and the {N} nodes",
            got=f"{num_parts} parts",
            do="Pass fewer parts, for example of a thousand nodes each",
        )
    device = edges.source.device
    both = edges if not edges.directed else _both_ways(edges)
    part = torch.zeros(N, dtype=torch.int64, device=device)
    wanted = torch.tensor([num_parts], device=device)  # parts that each piece is still to become
    while int(wanted.max()) > 1:
        part, wanted = _halved(both, part, wanted)
    return part


def num_cut(edges: Edges, parts: Tensor) -> int:
    """Edges that run between parts."""
    return int((parts[edges.source] != parts[edges.target]).sum())


def batches(num_parts: int, together: int) -> list[tuple[int, ...]]:
    """All ways to take some parts together: the batches of an epoch that leaves none out.

    >>> len(batches(4, 1)), len(batches(4, 2))
    (4, 6)
    """
    return list(combinations(range(num_parts), together))


def _both_ways(edges: Edges) -> Edges:
    turned = torch.cat([edges.pairs, edges.pairs.flip(0)], 1)
    return Edges.of(turned, edges.num_targets, number=turned[0])


def _halved(edges: Edges, part: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Every piece of which more than one part is wanted, in two."""
    P, device = len(wanted), part.device
    inside = (part[edges.source] == part[edges.target]).float()
    matrix = _matrix(edges, inside)
    degree = matrix @ torch.ones(len(part), device=device)
    scale = degree.clamp(min=1).rsqrt()
    y = _slowest(_matrix(edges, inside * scale[edges.source] * scale[edges.target]), degree.sqrt(), part, P)
    size = part.bincount(minlength=P)
    first = size * (wanted // 2) // wanted  # of the nodes of a piece, those in its first half
    key = keyed(torch.tensor([P], device=device), torch.arange(len(part), device=device), 0)
    order = (y * scale + 1e-9 * uniform(key)).argsort(stable=True)
    order = order[part[order].argsort(stable=True)]
    rank = torch.empty_like(part)
    begin = size.cumsum(0) - size
    rank[order] = torch.arange(len(part), device=device) - begin[part[order]]
    side = (rank >= first[part]) & (wanted[part] > 1)
    side = _swapped(matrix, side, part, P, size)
    split = wanted > 1
    number = (1 + split.long()).cumsum(0) - 1 - split.long()  # of each piece's first half
    halves = torch.stack([torch.where(split, wanted // 2, wanted), torch.where(split, wanted - wanted // 2, 0)], 1)
    return number[part] + side.long(), halves.flatten()[halves.flatten() > 0]


def _slowest(matrix: Tensor, trivial: Tensor, part: Tensor, num_parts: int) -> Tensor:
    """The eigenvector after the trivial one, of each part, by Lanczos' method."""

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return torch.zeros(num_parts, dtype=torch.float64, device=a.device).index_add_(0, part, (a * b).double())

    def without(v: Tensor) -> Tensor:
        return v - trivial * (dot(v, trivial) / dot(trivial, trivial).clamp(min=1e-30)).float()[part]

    def unit(v: Tensor) -> tuple[Tensor, Tensor]:
        norm = dot(v, v).sqrt()
        return v * (1 / norm.clamp(min=1e-20)).float()[part], norm

    nodes = torch.arange(len(part), device=part.device)
    v, _ = unit(without(uniform(keyed(nodes.new_tensor([1]), nodes, num_parts)) - 0.5))
    before, vectors = torch.zeros_like(v), []
    steps = _MORE if len(part) <= _SMALL else _STEPS
    T = torch.zeros(num_parts, steps, steps, dtype=torch.float64, device=v.device)
    beta = T.new_zeros(num_parts)
    for k in range(steps):
        vectors.append(v)
        w = matrix @ v
        alpha = dot(w, v)
        T[:, k, k] = alpha
        w = without(w - alpha.float()[part] * v - beta.float()[part] * before)
        before, (v, beta) = v, unit(w)
        beta = torch.where(beta > 1e-6, beta, 0.0)  # the space is used up: what follows is apart from it
        v = v * (beta > 0).float()[part]
        if k + 1 < steps:
            T[:, k, k + 1] = T[:, k + 1, k] = beta
    values, modes = torch.linalg.eigh(T)
    lives = modes[:, 0].square() > 1e-12  # modes of the vectors that are 0 have no first component
    best = torch.where(lives, values, -9.0).argmax(1)
    weights = modes[torch.arange(num_parts, device=v.device), :, best].float()
    y = torch.zeros_like(v)
    for k, vector in enumerate(vectors):
        y += weights[part, k] * vector
    return y


def _swapped(matrix: Tensor, side: Tensor, part: Tensor, num_parts: int, size: Tensor) -> Tensor:
    """The same halves after swaps of pairs, of each part the best that was seen."""
    begin = size.cumsum(0) - size
    best, least = side, None
    for k in range(_SWAPS + 1):
        s = side.float() * 2 - 1
        gain = -s * (matrix @ s)  # edges to the other half less edges to the own
        cut = torch.zeros(num_parts, dtype=torch.float64, device=s.device).index_add_(0, part, gain.double())
        better = torch.ones_like(cut, dtype=torch.bool) if least is None else cut < least
        best = torch.where(better[part], side, best)
        least = cut if least is None else torch.minimum(cut, least)
        if k == _SWAPS:
            break
        order = gain.argsort(descending=True, stable=True)
        order = order[(2 * part + side)[order].argsort(stable=True)]  # by part, by half, by gain
        ahead = torch.zeros(num_parts, dtype=torch.int64, device=s.device).index_add_(0, part, (~side).long())
        own = part[order]
        rank = torch.arange(len(order), device=s.device) - begin[own] - ahead[own] * side[order].long()
        few = torch.minimum(ahead, size - ahead)
        here = (rank < few[own]).nonzero().flatten()
        here = here[~side[order[here]]]
        a = order[here]
        b = order[begin[part[a]] + ahead[part[a]] + rank[here]]
        worth = (gain[a] + gain[b] > 0) & (uniform(keyed(a.new_tensor([k]), a, 2)) < 0.6)  # not all: they may be joined
        if not bool(worth.any()):
            break
        side = side.clone()
        side[a[worth]], side[b[worth]] = True, False
    return best


def _matrix(edges: Edges, value: Tensor) -> Tensor:
    size = (edges.num_targets, edges.num_sources)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse")  # its layout is called new
        return torch.sparse_csr_tensor(edges.start, edges.source, value, size, check_invariants=False)
