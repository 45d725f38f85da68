"""Graphs of what is none yet: points and their nearest, pixels and the eight around each, all members of a set.

    nearest    j → i where x_j is one of the K points nearest to x_i, of other places                            (1)
    pixels     a node for each pixel, joined with those beside, above, below and aslant                          (2)
    complete   every two members of a set                                                                        (3)

Shapes     points (N, D) -> pairs (2, N K);  pairs of (2) and (3) hold each edge once
"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.errors import ShapeError
from leadline.settings import whole

_TOGETHER = 2**24  # distances that are computed at once


def nearest(points: Tensor, k: int) -> Tensor:
    """Eq. 1: (2, N k), from each of the k nearest to the point; of equal distances the lower number comes first.

    >>> nearest(torch.tensor([[0.0], [1.0], [3.0]]), 1).tolist()
    [[1, 0, 1], [0, 1, 2]]
    """
    if points.dim() != 2 or not points.is_floating_point() or not bool(points.isfinite().all()):
        raise ShapeError(
            "points must be finite numbers of shape (N, D)",
            got=f"{points.dtype} of shape {tuple(points.shape)}",
            do="Pass one row a point",
        )
    count = len(points)
    k = whole("k", k, 1, max(1, count - 1), usual=8)
    if count < 2:
        raise ShapeError("there must be two points to be near each other", got=f"{count}", do="Pass more points")
    own = points.double()
    found = []
    for rows in torch.arange(count).split(max(1, _TOGETHER // count)):
        distance = torch.cdist(own[rows], own, compute_mode="donot_use_mm_for_euclid_dist")
        distance[torch.arange(len(rows)), rows] = torch.inf
        found.append(distance.sort(dim=1, stable=True).indices[:, :k])
    return torch.stack([torch.cat(found).flatten(), torch.arange(count).repeat_interleave(k)])


def point_graph(points: Tensor, k: int, *, directed: bool = False) -> Graph:
    """The graph of (1), each node with its position.

    Args:
        directed: messages run from the k nearest alone; else an edge that one of two points wants runs both ways.

    >>> point_graph(torch.tensor([[0.0], [1.0], [3.0]]), 1)
    Graph(3 nodes, 4 edges)
    """
    pairs = nearest(points, k)
    if not directed:
        code = (pairs.amin(0) * len(points) + pairs.amax(0)).unique()
        pairs = torch.stack([code // len(points), code % len(points)])
    return Graph(points.float(), Edges.of(pairs, len(points), directed=directed))


def picture_graph(picture: Tensor) -> Graph:
    """Eq. 2: the pixels of a picture (C, Y, X), row by row, each with its channels.

    >>> picture_graph(torch.zeros(3, 2, 2)), len(picture_graph(torch.zeros(1, 3, 3)).edges)
    (Graph(4 nodes, 12 edges), 40)
    """
    if picture.dim() != 3 or not picture.numel():
        raise ShapeError("a picture must have shape (C, Y, X)", got=f"shape {tuple(picture.shape)}", do="Add an axis")
    _, Y, X = picture.shape
    number = torch.arange(Y * X).view(Y, X)
    beside = (number[:, :-1], number[:, 1:])
    below = (number[:-1], number[1:])
    aslant = (number[:-1, :-1], number[1:, 1:])
    other = (number[:-1, 1:], number[1:, :-1])
    pairs = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in (beside, below, aslant, other)], 1)
    return Graph(picture.float().flatten(1).T.contiguous(), Edges.of(pairs, Y * X, directed=False))


def complete_graph(members: Tensor) -> Graph:
    """Eq. 3: the members (N, F) of a set, every two of them joined.

    >>> complete_graph(torch.zeros(4, 2))
    Graph(4 nodes, 12 edges)
    """
    pairs = torch.triu_indices(len(members), len(members), 1)
    return Graph(members.float(), Edges.of(pairs, len(members), directed=False))
