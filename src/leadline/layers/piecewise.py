"""A layer of a large graph in pieces: some targets at a time, with what they read.

    y_i = layer(x, edges)_i        asks for the edges that end in i, and for no other row of y

So the rows of y are computed piece by piece, and beside x and y there is never more in memory than one piece: the rows
that it reads and its messages. Nothing is kept for a gradient, so this serves where none is asked. Where x does not fit
on the device it stays in the host's memory, or in a file, and a piece gathers the rows that it reads.

Shapes     x (N_s, D) -> y (N, D')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from leadline.data.blocks import block
from leadline.data.edges import Edges

#: numbers of the messages of a piece
_ROOM = {"cpu": 2**28, "cuda": 2**31}
_LEAST = 4096  # edges and targets of a piece, whatever room they take


def piecewise(layer: Callable[[Tensor, Edges], Tensor], x: Tensor, edges: Edges, most: int | None = None) -> Tensor:
    """`layer(x, edges)`; where no gradient is asked and the edges are many, so many of them at a time.

    Args:
        layer: must compute each target from its own edges alone, as any layer does that does not look at all nodes.
        most: edges and targets of a piece; by default as many as have room.

    >>> from leadline.layers.segments import received
    >>> ring = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    >>> with torch.no_grad():
    ...     piecewise(received, torch.tensor([[1.0], [2.0], [4.0]]), ring, most=2).tolist()
    [[4.0], [1.0], [2.0]]
    """
    device = edges.source.device
    most = most or max(_LEAST, _ROOM.get(device.type, _ROOM["cpu"]) // max(1, x.shape[1]))
    if torch.is_grad_enabled() or (len(edges) + edges.num_targets <= most and x.device == device):
        return layer(x.to(device), edges)
    y: Tensor | None = None
    for begin, end in pieces(edges, most):
        low, high = int(edges.start[begin]), int(edges.start[end])
        targets = torch.arange(begin, end, device=device)
        spots = torch.arange(low, high, device=device)
        nodes, own = block(edges, targets, spots, edges.start[begin : end + 1] - low, None)
        part = layer(rows(x, nodes, device), own)
        if y is None:
            y = torch.empty(edges.num_targets, *part.shape[1:], dtype=part.dtype, device=device)
        y[begin:end] = part
    return layer(x.to(device), edges) if y is None else y


def rows(x: Tensor, nodes: Tensor, device: torch.device) -> Tensor:
    """Some rows of x, on the device, from wherever it lies."""
    return x.index_select(0, nodes.to(x.device)).to(device, non_blocking=True)


def pieces(edges: Edges, most: int) -> Iterator[tuple[int, int]]:
    """Targets begin … end - 1 of each piece, which has at most so many edges and targets together, or one target.

    >>> list(pieces(Edges.of(torch.tensor([[0, 1, 2, 3], [1, 1, 1, 0]]), num_nodes=4), most=3))
    [(0, 1), (1, 2), (2, 4)]
    """
    cost = edges.start + torch.arange(len(edges.start), device=edges.start.device)
    begin = 0
    while begin < edges.num_targets:
        end = int(torch.searchsorted(cost, cost[begin] + most, right=True)) - 1
        end = max(begin + 1, end)
        yield begin, end
        begin = end
