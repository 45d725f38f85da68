"""What lenses on graphs look at: the graph that is meant, and what every layer of a network reads and puts out on it.

A layer on a graph is a module that is called with `Edges`; of those inside each other the outermost counts, so that a
skip around a layer belongs to it. Any network is heard whose layers are such modules, not those of this library alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.data import Data
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.errors import UserError
from leadline.layers.held_graph import HeldGraph
from leadline.lens.rows import Fitted
from leadline.settings import given, whole


@dataclass(frozen=True, eq=False)
class Passing:
    """One call of a layer: its path, the module, what it read (N_s, D), along which edges, and what it put out (N, D').

    Where a layer reads numbers of edges too, `read` has everything that it was called with.
    """

    name: str
    module: nn.Module
    h: Tensor
    edges: Edges
    out: Tensor
    read: tuple[Any, ...]


def graph_of(source: Any) -> Graph:
    """The graph of a run, of Data, of a network that holds one, or the graph itself.

    >>> pair = Graph(torch.zeros(2, 1), Edges.of(torch.tensor([[0], [1]]), num_nodes=2))
    >>> graph_of(pair) is pair
    True
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, Edges):
        return Graph(torch.zeros(source.num_targets, 1, device=source.source.device), source)
    graph = source.inputs.graph if isinstance(source, Data) else None
    if isinstance(source, Fitted):
        graph = source.need_data().inputs.graph
    if isinstance(source, nn.Module):
        graph = held_in(source).graph
    if graph is None:
        raise UserError(
            "a lens on graphs looks at a graph, or at data, a run or a network that has one",
            got=given("source", source),
            do="Pass ll.data.graph(…), or a Graph",
        )
    return graph


def held_in(model: nn.Module) -> HeldGraph:
    """The place where a network holds its graph.

    >>> from leadline.models import GCN
    >>> held_in(GCN(3, 2)).level
    'node'
    """
    found = next((part for part in model.modules() if isinstance(part, HeldGraph)), None)
    if found is None:
        raise UserError(
            "a lens on graphs needs a network that holds a graph",
            got=type(model).__name__,
            do="Pass a network on graphs, such as ll.models.GCN, or a run of one",
        )
    return found


def network_of(model: Any) -> nn.Module:
    """A copy of a run's network or of a module, in float64 and at rest, on the graph that it holds."""
    net = model.model if isinstance(model, Fitted) else model
    if not isinstance(net, nn.Module):
        raise UserError("a lens looks at a run or a torch module", got=given("model", model), do="Pass run")
    held_in(net).graph  # noqa: B018 - says what is missing where there is none
    return deepcopy(net).double().eval().requires_grad_(False)


def everything(model: nn.Module) -> Tensor:
    """Rows that ask a network about every node, every graph, or the two ends of every edge."""
    held = held_in(model)
    graph = held.graph
    if held.level == "edge":
        return graph.edges.pairs.T if len(graph.edges) else torch.zeros(1, 2, dtype=torch.int64, device=graph.x.device)
    num = len(graph) if held.level == "node" else graph.num_graphs
    return torch.arange(num, device=graph.x.device)[:, None]


@contextmanager
def listened(model: nn.Module) -> Iterator[list[Passing]]:
    """Inside, each call of a layer on a graph is left in the list."""
    kept: list[Passing] = []
    inside: list[nn.Module] = []
    handles: list[Any] = []

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _edges(args, kwargs) is not None:
            inside.append(module)

    def leave(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
            edges = _edges(args, kwargs)
            if edges is None:
                return
            inside.pop()
            h = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
            out = out[0] if isinstance(out, tuple) else out  # of one that updates edges too, the nodes
            if not inside and h is not None and isinstance(out, Tensor):
                kept.append(Passing(name, module, h, edges, out, (*args, *kwargs.values())))

        return hook

    for path, part in model.named_modules():
        handles.append(part.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(part.register_forward_hook(leave(path), with_kwargs=True))
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def _edges(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Edges | None:
    return next((a for a in (*args, *kwargs.values()) if isinstance(a, Edges)), None)


def passings(model: nn.Module, asked: Tensor | None = None) -> list[Passing]:
    """Every call of a layer on a graph, in order, while all nodes or some rows are asked for."""
    with torch.enable_grad(), listened(model) as kept:  # without, a large graph would be read in pieces
        model(everything(model) if asked is None else asked)
    if not kept:
        raise UserError(
            "a network on a graph must have layers that are called with Edges",
            got=type(model).__name__,
            do="Write layers as layer(h, edges)",
        )
    return kept


def states(model: nn.Module, x: Tensor | None = None) -> tuple[tuple[str, ...], list[Tensor]]:
    """What stands at the nodes before the first layer and after each one, with names; what comes between two layers,
    such as an activation or a skip, belongs to the first.

    Args:
        x: numbers of the nodes, in place of the graph's own.
    """
    held = held_in(model)
    own = held.graph
    if x is not None:
        held.put(Graph(x, own.edges, own.first, own.kind))
    try:
        calls = passings(model)
    finally:
        held.put(own)
    names = ("input", *(call.name for call in calls))
    return names, [*(call.h for call in calls), calls[-1].out]


def dense(graph: Graph, weighted: bool = True) -> np.ndarray:
    """A of `leadline.reference.adjacency`, (N, N): what node i receives stands in row i."""
    A = np.zeros((len(graph), len(graph)))  # noqa: N806
    source, target = graph.edges.pairs.cpu().numpy()
    weight = graph.edges.weight
    np.add.at(A, (target, source), 1.0 if weight is None or not weighted else weight.double().cpu().numpy())
    return A


def hops(graph: Graph, node: int, most: int | None = None) -> np.ndarray:
    """Fewest steps by which something comes from each node to this one, (N,); -1 where there is no way.

    >>> path = Graph(torch.zeros(4, 1), Edges.of(torch.tensor([[0, 1], [1, 2]]), num_nodes=4, directed=False))
    >>> hops(path, 0).tolist()
    [0, 1, 2, -1]
    """
    start, source = graph.edges.start.cpu().numpy(), graph.edges.source.cpu().numpy()
    far = np.full(len(graph), -1)
    far[node] = 0
    here, steps = np.array([node]), 0
    while len(here) and (most is None or steps < most):
        steps += 1
        count = start[here + 1] - start[here]
        shift = np.repeat(start[here] - np.cumsum(count) + count, count)
        near = source[np.arange(len(shift)) + shift]
        here = np.unique(near[far[near] < 0])
        far[here] = steps
    return far


def one_node(graph: Graph, node: int | None, usual: int) -> int:
    """A node of the graph: as given, or the usual one."""
    at = usual if node is None else whole("node", node, 0, usual=0)
    if not 0 <= at < len(graph):
        raise UserError(
            "node must be one of the graph's nodes", got=f"node={node}", do=f"Pass a number from 0 to {len(graph) - 1}"
        )
    return int(at)


def middle(graph: Graph) -> int:
    """The node at which most edges end."""
    return int(graph.edges.start.diff().argmax())


def few(graph: Graph, most: int, what: str) -> None:
    """Refuse a graph whose matrix would not fit."""
    if len(graph) > most:
        raise UserError(
            f"{what} needs a matrix of nodes by nodes, so at most {most:,} nodes",
            got=f"{len(graph):,}",
            do="Pass a part of the graph, such as leadline.lens.graph_part(graph, node)",
        )
