"""The graph that a network's questions are about: rows of a batch are numbers of nodes, edges or graphs in it.

A graph is no weight: it is moved with the network from device to device, and is left out of its state, its copies on
disk, and its hash.

    held(asked, K)    what K layers must read to answer

    nodes, edges      all nodes; or those that a sampler draws for the asked ones, where the network is training;
                      or, of a large graph, their neighbourhoods, where these are but a part of it
    graphs            the nodes of the asked graphs

Numbers of nodes that would not fit on the device stay in the host's memory, or in the file that is mapped into it:
what is read for a batch is gathered from there.

Shapes     asked (B, 1) of nodes and graphs, (B, 2) of pairs of nodes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.neighbours import hops_within
from leadline.errors import UserError
from leadline.layers import noise
from leadline.layers.once import owned
from leadline.layers.piecewise import rows
from leadline.names import lookup

LEVELS = ("node", "edge", "graph")

#: draws what some layers read for some nodes, none of them twice: the nodes, (N_s,), those that are asked first, and
#: the edges of each layer; of the edges of the graph, and a key, (1,)
Sampler = Callable[[Edges, Tensor, int, Tensor], tuple[Tensor, tuple[Edges, ...]]]

_LARGE = 2**20  # edges, from which on a neighbourhood is looked for before all are read
_FEW = 50  # nodes of the graph for each that is asked, at least: the neighbourhoods of more are nearly all of it
_SHARE = 0.5  # of the edges of all layers, up to which it is read instead
_ROOM = 0.5  # of the free memory of a device, that numbers of nodes may take


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
        whole: whether the layers must have a whole graph, in which each node has all of its edges and is computed.

    >>> held = HeldGraph("node")
    >>> held.put(Graph(torch.zeros(2, 3), Edges.of(torch.tensor([[0], [1]]), num_nodes=2)))
    >>> held.graph, len(list(held.buffers())), held.double().graph.x.dtype
    (Graph(2 nodes, 1 edges), 0, torch.float64)
    >>> held(torch.tensor([[1]]), 2).places
    tensor([1])
    """

    def __init__(self, level: str, whole: bool = False):
        super().__init__()
        self.whole = whole
        self.level = lookup(level, {name: name for name in LEVELS}, "level")
        self.sampler: Sampler | None = None
        self._held: list[Graph] = []  # in a list, for what a module has as an attribute is copied with it

    def put(self, graph: Graph) -> None:
        """Have this graph, and its way to be read, from now on."""
        self._held[:] = [graph]
        self.sampler = graph.batches

    def check(self, num_layers: int | None) -> None:
        """Refuses a way to be read that does not suit the network, before a run begins.

        Args:
            num_layers: of the network; None where it is not known.
        """
        if self.sampler is None or self.level == "graph":
            return
        if self.whole and not getattr(self.sampler, "whole", False):
            raise UserError(
                "batches of this network must be whole graphs: its layers look further than one edge",
                got=f"batches {self.sampler}",
                do="Use batches parts(8), say, or a network such as GCN, GraphSAGE, GAT or GIN",
            )
        if num_layers is not None and hasattr(self.sampler, "check"):
            self.sampler.check(num_layers)

    @property
    def draws_noise(self) -> bool:
        """Whether what is read while training is drawn from the current keys."""
        return self.level != "graph" and self.sampler is not None and getattr(self.sampler, "draws", True)

    @property
    def varies(self) -> bool:
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
        graph = self.graph.while_learning if self.training else self.graph
        keys = noise.current.keys if self.training else None
        if self.level == "graph":
            return _of_graphs(graph, asked.flatten(), num_layers, keys)
        found, places = self._found(graph.edges, asked, num_layers)
        places = places[:, 0] if self.level == "node" else places
        if found is None:
            in_pieces = not torch.is_grad_enabled() and not self.whole  # which gather from wherever x lies
            x = graph.x if in_pieces else graph.x.to(asked.device)
            nodes, blocks, kind, first = None, (graph.edges,) * num_layers, graph.kind, graph.bounds
            owned(graph.edges, x)
        else:
            nodes, blocks = found
            x, kind = rows(graph.x, nodes, asked.device), None if graph.kind is None else graph.kind[nodes]
            first = torch.tensor([0, len(nodes)], device=asked.device)
        if keys is not None:
            numbers = torch.arange(len(x), device=x.device) if nodes is None else nodes
            keys = noise.mix(noise.mix(numbers) ^ noise.of_batch(keys))
        return Reading(x, blocks, places, first, kind, nodes, keys)

    def _found(
        self, edges: Edges, asked: Tensor, num_layers: int
    ) -> tuple[tuple[Tensor, tuple[Edges, ...]] | None, Tensor]:
        """The nodes and edges that are read, None where that is all; and where the asked nodes are among them."""
        if self.training and self.sampler is not None:
            self.check(None)
            seeds, places = asked.unique(return_inverse=True)
            return self.sampler(edges, seeds, num_layers, _key(asked)), places
        few = asked.numel() * _FEW <= edges.num_targets
        if not self.training and not self.whole and few and len(edges) >= _LARGE:
            seeds, places = asked.unique(return_inverse=True)
            found = hops_within(edges, seeds, num_layers, int(_SHARE * num_layers * len(edges)))
            if found is not None:
                return found, places
        return None, asked

    def _apply(self, fn: Any, recurse: bool = True) -> HeldGraph:
        super()._apply(fn, recurse)
        for k, graph in enumerate(self._held):
            probe = fn(torch.zeros(0, dtype=graph.x.dtype, device=graph.x.device))
            self._held[k] = _placed(graph, probe.device, probe.dtype)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> HeldGraph:
        twin = HeldGraph(self.level, self.whole)
        twin._held[:] = self._held  # the same graph: it never changes
        twin.sampler, twin.training = self.sampler, self.training
        return twin


def _key(asked: Tensor) -> Tensor:
    """Of all that is drawn for a batch, (1,)."""
    keys = noise.current.keys
    return torch.randint(2**62, (1,), device=asked.device) if keys is None else noise.of_batch(keys)


def _placed(graph: Graph, device: torch.device, dtype: torch.dtype) -> Graph:
    """On a device; but for numbers of nodes that would take too much of its memory."""
    if device.type == "cuda" and not graph.x.is_cuda:
        free, _ = torch.cuda.mem_get_info(device)
        if graph.x.numel() * dtype.itemsize > _ROOM * free:
            return replace(replace(graph, x=graph.x[:, :0]).to(device, dtype), x=graph.x.to(dtype))
    return graph.to(device, dtype)


def _of_graphs(graph: Graph, asked: Tensor, num_layers: int, keys: Tensor | None) -> Reading:
    own = graph.some(asked)
    places = torch.arange(len(asked), device=asked.device)
    if keys is not None:
        within = torch.arange(len(own), device=asked.device) - own.bounds[own.of_node]
        keys = noise.mix(noise.mix(within) ^ keys[own.of_node])
    return Reading(own.x, (own.edges,) * num_layers, places, own.bounds, own.kind, None, keys)


def give_graph(model: nn.Module, graph: Graph | None, level: str | None = None) -> None:
    """Put a graph where the network holds one; nothing where there is none.

    Args:
        level: what rows of the data are numbers of, which must be what the network takes them for; None asks nothing.

    >>> give_graph(nn.Linear(2, 2), None)
    """
    for module in model.modules():
        if graph is not None and isinstance(module, HeldGraph):
            if level not in (None, module.level):
                raise UserError(
                    f"a network must be built for what is asked, a number of each {level}",
                    got=f"{type(model).__name__} with level {module.level!r}",
                    do=f"Build it with ll.models.build(name, data, …), or with level={level!r}",
                )
            module.put(graph)
            module.check(getattr(model, "num_layers", None))


@contextmanager
def asked_of(model: nn.Module, graph: Graph | None) -> Iterator[None]:
    """Inside, the network holds another graph, on its own device; None is the one that it holds.

    >>> model = nn.Sequential(HeldGraph("node"))
    >>> with asked_of(model, Graph(torch.zeros(1, 1), Edges.of(torch.zeros(2, 0, dtype=torch.int64), num_nodes=1))):
    ...     len(model[0].graph)
    1
    """
    places = [module for module in model.modules() if isinstance(module, HeldGraph)] if graph is not None else []
    before = [(list(place._held), place.sampler) for place in places]
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    try:
        give_graph(model, None if graph is None else graph.to(like.device, like.dtype))
        yield
    finally:
        for place, (held, sampler) in zip(places, before, strict=True):
            place._held[:], place.sampler = held, sampler
