"""Graphs that claims are about, and plain stacks of message passing on them, of every aggregation by its name.

    plain     h_i' = a[β + Ω (h_i + agg_i)],        residual   h_i' = h_i + a[β + Ω (h_i + agg_i)]               (1)
    agg       sum, mean, max and kipf of the text, attention with a softmax over a node and its neighbours       (2)

The networks of `leadline.models` that read graphs are held to the same claims: `networks` makes each of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.layers.held_graph import HeldGraph, give_graph
from leadline.layers.segments import largest, mean, shares, total
from leadline.models import MODELS

AGGREGATIONS = ("sum", "mean", "max", "kipf", "attention")

#: of problem 13.2: ends of the edges of two graphs of seven nodes, counted from 1
FIRST = ((1, 2), (1, 3), (2, 4), (2, 5), (2, 6), (3, 6), (3, 7), (4, 6), (4, 7), (5, 7))
SECOND = ((1, 3), (1, 4), (1, 7), (2, 4), (2, 5), (3, 6), (4, 5), (4, 6), (4, 7), (5, 7), (6, 7))
#: a graph of which the caption of figure 13.4 is true, whose drawing is lost
SIX = ((6, 5), (6, 7), (6, 8), (5, 8), (5, 2), (7, 3), (7, 4), (1, 2), (1, 3))

TWO_TRIANGLES = ((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3))
HEXAGON = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))
PRISM = (*TWO_TRIANGLES, (0, 3), (1, 4), (2, 5))
UTILITIES = tuple((i, j) for i in range(3) for j in range(3, 6))  # K_{3,3}: every node has degree 3, as in the prism


def from_one(pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Ends counted from 0 that were counted from 1.

    >>> from_one(((1, 2), (3, 1)))
    ((0, 1), (2, 0))
    """
    return tuple((i - 1, j - 1) for i, j in pairs)


def made(pairs: Any, num_nodes: int, x: Tensor | None = None, dim: int = 4, seed: int = 0) -> Graph:
    """A graph without directions; its nodes have given or random numbers, in float64."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, dim, generator=generator, dtype=torch.float64) if x is None else x.double()
    ends = torch.tensor(sorted(pairs), dtype=torch.int64).reshape(-1, 2).T
    return Graph(x, Edges.of(ends, num_nodes, directed=False))


def random_graph(num_nodes: int, degree: float, dim: int = 4, seed: int = 0, joined: bool = True) -> Graph:
    """Every pair of nodes with the same chance; where it should hang together, a ring besides."""
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(num_nodes, num_nodes, generator=generator, dtype=torch.float64)
    pairs = {(int(i), int(j)) for i, j in (chance.triu(1) > 1 - degree / num_nodes).nonzero().tolist()}
    if joined:
        pairs |= {(i, i + 1) for i in range(num_nodes - 1)} | {(0, num_nodes - 1)}
    return made(pairs, num_nodes, dim=dim, seed=seed + 1)


class Passing(nn.Module):
    """One layer of eq. 1."""

    def __init__(self, dim_input: int, dim_output: int, how: str, residual: bool):
        super().__init__()
        self.how, self.residual = how, residual and dim_input == dim_output
        self.map = nn.Linear(dim_input, dim_output)
        self.score = nn.Linear(2 * dim_output, 1) if how == "attention" else None

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        new = torch.relu(self._attended(h, edges) if self.score is not None else self.map(self._joined(h, edges)))
        return h[: edges.num_targets] + new if self.residual else new

    def _joined(self, h: Tensor, edges: Edges) -> Tensor:
        own = h[: edges.num_targets]
        if self.how == "kipf":
            looped = edges.with_loops()
            root = (edges.degree + 1).to(h.dtype).rsqrt()
            return total(h[looped.source] * (root[looped.source] * root[looped.target])[:, None], looped)
        return own + {"sum": total, "mean": mean, "max": largest}[self.how](h[edges.source], edges)

    def _attended(self, h: Tensor, edges: Edges) -> Tensor:
        v, looped = self.map(h), edges.with_loops()
        s = nn.functional.leaky_relu(self.score(torch.cat([v[looped.target], v[looped.source]], 1)), 0.2)  # type: ignore[misc]
        return total(shares(s, looped) * v[looped.source], looped)


class Stack(nn.Module):
    """Layers of eq. 1 and a last linear map, in float64, on a graph."""

    def __init__(
        self,
        graph: Graph,
        how: str,
        num_layers: int = 3,
        dim: int = 8,
        dim_output: int = 3,
        level: str = "node",
        readout: str = "sum",
        residual: bool = False,
    ):
        super().__init__()
        self.held, self.readout = HeldGraph(level), readout
        self.held.put(graph)
        widths = [graph.x.shape[1], *[dim] * num_layers]
        self.layers = nn.ModuleList(Passing(a, b, how, residual) for a, b in pairwise(widths))
        self.head = nn.Linear(dim, dim_output)
        self.double()

    def forward(self, asked: Tensor) -> Tensor:
        read = self.held(asked, len(self.layers))
        h = read.x
        for layer, edges in zip(self.layers, read.blocks, strict=True):
            h = layer(h, edges)
        if self.held.level == "graph":
            h = torch.segment_reduce(h, self.readout, offsets=read.first, unsafe=True)
        return self.head(h)[read.places]


def networks(graph: Graph, level: str = "node", num_layers: int = 2, seed: int = 0) -> Iterator[tuple[str, nn.Module]]:
    """Every network of `leadline.models` that reads graphs, in float64 and at rest, on this one."""
    wanted = {"level": level, "dim_input": graph.x.shape[1], "dim_output": 3, "dim": 8, "num_layers": num_layers}
    wanted |= {"num_relations": 1, "dim_edge": 0, "p_drop": 0.0, "num_hops": 1}
    for name, kind in MODELS.items():
        known = inspect.signature(kind).parameters
        if "level" not in known:
            continue
        torch.manual_seed(seed)
        net = kind(**{key: value for key, value in wanted.items() if key in known})
        give_graph(net, graph)
        yield name, net.double().eval()


def stacks(graph: Graph, level: str = "node", num_layers: int = 2, seed: int = 0) -> Iterator[tuple[str, nn.Module]]:
    """A stack of every aggregation."""
    for how in AGGREGATIONS:
        torch.manual_seed(seed)
        yield how, Stack(graph, how, num_layers, level=level).eval()


def all_of(graph: Graph, level: str = "node", num_layers: int = 2, seed: int = 0) -> list[tuple[str, nn.Module]]:
    """Both."""
    return [*stacks(graph, level, num_layers, seed), *networks(graph, level, num_layers, seed)]
