"""The graph that a network's questions are about: rows of a batch are numbers of nodes, edges or graphs in it.

A graph is no weight: it is moved with the network from device to device, and is left out of its state, its copies on
disk, and its hash.

    held(asked, K)    what K layers must read to answer

    nodes, edges      all nodes; or those that a sampler draws for the asked ones, where the network is training
    graphs            the nodes of the asked graphs

Shapes     asked (B, 1) of nodes and graphs, (B, 2) of pairs of nodes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.errors import UserError
from leadline.layers import noise
from leadline.layers.once import owned
from leadline.names import lookup

LEVELS = ("node", "edge", "graph")

#: draws what some layers read for some nodes: the nodes, (N_s,), and the edges of each layer; keys are one a row
Sampler = Callable[[Graph, Tensor, int, Tensor | None], tuple[Tensor, tuple[Edges, ...]]]


@dataclass(frozen=True, eq=False)
class Reading:
    """What is read for a batch.

    Args:
        x: numbers of the nodes that are read, (N_s, F).
        blocks: the edges of each layer; the targets of one are the sources of the next.
        places: where the asked nodes, (B,), or ends of pairs, (B, 2), stand among the targets of the last layer;
            of graphs, which of those that are read.
        first: where the nodes of each graph that is read begin, and one more.
        kind: which kind of node each is.
        nodes: the number in the whole graph of each node that is read; None is all of them in their order.
        keys: of the noise of each node that is read, (N_s,); None where none is drawn from keys. A node's follows from
            its number and the batch; of graphs, from its place in its graph and that graph's key.
    """

    x: Tensor
    blocks: tuple[Edges, ...]
    places: Tensor
    first: Tensor
    kind: Tensor | None = None
    nodes: Tensor | None = None
    keys: Tensor | None = None


class HeldGraph(nn.Module):
    """A place for a graph.

    Args:
        level: what rows are numbers of, one of `LEVELS`.

    >>> held = HeldGraph("node")
    >>> held.put(Graph(torch.zeros(2, 3), Edges.of(torch.tensor([[0], [1]]), num_nodes=2)))
    >>> held.graph, len(list(held.buffers())), held.double().graph.x.dtype
    (Graph(2 nodes, 1 edges), 0, torch.float64)
    >>> held(torch.tensor([[1]]), 2).places
    tensor([1])
    """

    def __init__(self, level: str):
        super().__init__()
        self.level = lookup(level, {name: name for name in LEVELS}, "level")
        self.sampler: Sampler | None = None
        self._held: list[Graph] = []  # in a list, for what a module has as an attribute is copied with it

    def put(self, graph: Graph) -> None:
        """Have this graph from now on."""
        self._held[:] = [graph]

    @property
    def reads_by_value(self) -> bool:
        """Whether how much is read depends on which rows are asked, so that no step stands for another."""
        return self.level == "graph" or self.sampler is not None

    @property
    def full(self) -> bool:
        """Whether a graph is here."""
        return bool(self._held)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of a question."""
        return (2,) if self.level == "edge" else (1,)

    @property
    def graph(self) -> Graph:
        if not self._held:
            raise UserError(
                "a network on a graph must be given it before it is asked",
                got="no graph",
                do="Train it with ll.fit(model, ll.data.graph(…)), or pass model.held.put(graph)",
            )
        return self._held[0]

    def forward(self, asked: Tensor, num_layers: int) -> Reading:
        graph = self.graph
        keys = noise.current.keys if self.training else None
        if self.level == "graph":
            return _of_graphs(graph, asked.flatten(), num_layers, keys)
        if self.sampler is not None and self.training:
            wanted, places = asked.unique(return_inverse=True)
            nodes, blocks = self.sampler(graph, wanted, num_layers, keys)
            x, kind = graph.x[nodes], None if graph.kind is None else graph.kind[nodes]
        else:
            nodes, blocks, places, x, kind = None, (graph.edges,) * num_layers, asked, graph.x, graph.kind
            owned(graph.edges, x)
        places = places[:, 0] if self.level == "node" else places
        if keys is not None:
            numbers = torch.arange(len(x), device=x.device) if nodes is None else nodes
            keys = noise.mix(noise.mix(numbers) ^ noise.of_batch(keys))
        return Reading(x, blocks, places, graph.bounds, kind, nodes, keys)

    def _apply(self, fn: Any, recurse: bool = True) -> HeldGraph:
        super()._apply(fn, recurse)
        for k, graph in enumerate(self._held):
            probe = fn(torch.zeros(0, dtype=graph.x.dtype, device=graph.x.device))
            self._held[k] = graph.to(probe.device, probe.dtype)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> HeldGraph:
        twin = HeldGraph(self.level)
        twin._held[:] = self._held  # the same graph: it never changes
        twin.sampler, twin.training = self.sampler, self.training
        return twin


def _of_graphs(graph: Graph, asked: Tensor, num_layers: int, keys: Tensor | None) -> Reading:
    own = graph.some(asked)
    places = torch.arange(len(asked), device=asked.device)
    if keys is not None:
        within = torch.arange(len(own), device=asked.device) - own.bounds[own.of_node]
        keys = noise.mix(noise.mix(within) ^ keys[own.of_node])
    return Reading(own.x, (own.edges,) * num_layers, places, own.bounds, own.kind, None, keys)


def give_graph(model: nn.Module, graph: Graph | None) -> None:
    """Put a graph where the network holds one; nothing where there is none.

    >>> give_graph(nn.Linear(2, 2), None)
    """
    for module in model.modules():
        if graph is not None and isinstance(module, HeldGraph):
            module.put(graph)
