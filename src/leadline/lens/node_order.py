"""Does a function on graphs move with the order of nodes, or stay?

    layer    F[P H, P A Pᵀ] = P F[H, A]               equivariant                                                (1)
    nodes    f[P X, P A Pᵀ] = P f[X, A]               of a network that answers for nodes                        (2)
    graphs   f[P X, P A Pᵀ] = f[X, A]                 invariant: of a network that answers for graphs            (3)

Errors are the largest difference over the largest number, in float64, over some orders at random. (1) to (3) hold for
every weight where a layer treats neighbours as a multiset; where they fail, a layer reads the numbers of nodes or the
order of edges.

Paper      lecture notes print (1) as f(X) = P f(P X), which only the orders that undo themselves satisfy; the error of
           that form is `printed`, and is not small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.errors import UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.on_graphs import everything, graph_of, held_in, network_of, passings
from leadline.lens.style import HALF, HUES, blank, label, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST = 1e-18


@dataclass(frozen=True, eq=False)
class NodeOrder(View):
    """Args:
    names: of the layers, then "output".
    errors: eqs. 1 to 3, the largest over the orders.
    printed: the error of the misprinted form, of the first layer that answers for all nodes; nan of graphs alone.
    """

    names: tuple[str, ...]
    errors: np.ndarray
    printed: float

    @property
    def holds(self) -> bool:
        """Whether every error is rounding."""
        return bool((self.errors < 1e-9).all())

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF + 1.4, 0.32 * (len(self.names) + 1) + 1.6)
        ax = figure.subplots()
        names = [*self.names, "as misprinted"]
        values = np.maximum([*self.errors, np.nan_to_num(self.printed)], _LEAST)
        hues = [HUES[0]] * len(self.names) + [HUES[9]]
        at = np.arange(len(names))
        ax.hlines(at, _LEAST, values, color=hues, lw=2)
        ax.scatter(values, at, color=hues, s=26, zorder=3)
        ax.axvline(1e-9, color=HUES[1], lw=1, ls=":", label="rounding is left of this")
        ax.set_xscale("log")
        ax.set_xlim(_LEAST, max(10.0, float(values.max()) * 3))
        ax.set_yticks(at, names)
        ax.invert_yaxis()
        label(ax, "Nodes in another order", "largest difference, relative", "", legend=2)
        return figure


def node_order(model: Any, *, num: int = 3, seed: int = 0) -> NodeOrder:
    """How far a network on a graph, and each of its layers, is from not knowing the order of nodes.

    Args:
        model: a run, or a network that holds a graph. It is left as it was.
        num: orders at random, at least 1; of many graphs each keeps its nodes.

    >>> from leadline.models import GCN
    >>> path = Graph(torch.eye(4), Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, directed=False))
    >>> net = GCN(4, 2, dim=8, num_layers=2)
    >>> net.held.put(path)
    >>> view = node_order(net)
    >>> view.names, view.holds
    (('stack.layers.0', 'stack.layers.1', 'output'), True)
    """
    net = network_of(model)
    graph, held = graph_of(net), held_in(net)
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, usual=0))
    with at_rest(net):
        calls = passings(net)
        rows = everything(net)
        plain = net(rows)
        errors = np.zeros(len(calls) + 1)
        printed = float("nan")
        for _ in range(whole("num", num, 1, usual=3)):
            order = _order(graph, generator)
            for k, call in enumerate(calls):
                found = layer_error(call.module, call.read, call.edges, order)
                errors[k] = max(errors[k], found)
            place = torch.empty_like(order)
            place[order] = torch.arange(len(order), device=order.device)
            held.put(permuted(graph, order))
            moved = net(rows if held.level == "graph" else place[rows])
            errors[-1] = max(errors[-1], _error(moved, plain))
            if held.level == "node":  # f(X) = P f(P X), P X = X[order]
                again = net(rows)[order]
                printed = max(_error(again, plain), 0.0 if np.isnan(printed) else printed)
            held.put(graph)
    return NodeOrder((*(call.name for call in calls), "output"), errors, printed)


def layer_error(layer: nn.Module, read: tuple[Any, ...], edges: Edges, order: Tensor) -> float:
    """Eq. 1 of one layer on a whole graph.

    Args:
        read: what it is called with: a row a node, the edges, and a row an edge where it reads these.

    >>> class Mean(nn.Module):
    ...     def forward(self, h, edges):
    ...         from leadline.layers.segments import mean
    ...         return mean(h[edges.source], edges)
    >>> edges = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    >>> layer_error(Mean(), (torch.tensor([[1.0], [2.0], [3.0]]), edges), edges, torch.tensor([2, 0, 1]))
    0.0
    """
    if edges.num_sources != edges.num_targets:
        raise UserError("a layer must be looked at on a whole graph", got="a part of one", do="Leave sampling out")
    numbers = torch.arange(len(edges), device=edges.source.device)
    there = permuted(Graph(numbers.new_zeros(len(order), 1), edges.with_(number=numbers)), order).edges
    number = numbers if there.number is None else there.number

    first = next(part for part in read if isinstance(part, Tensor))

    def moved(part: Any) -> Any:
        if isinstance(part, Edges):
            return there
        if not isinstance(part, Tensor):
            return part
        return part[order] if part is first or len(part) != len(number) else part[number]

    found, expected = layer(*(moved(part) for part in read)), layer(*read)
    if isinstance(found, tuple):
        return max(_error(found[0], expected[0][order]), _error(found[1], expected[1][number]))
    return _error(found, expected[order])


def permuted(graph: Graph, order: Tensor) -> Graph:
    """The same graph with its nodes in another order: node k is what node order[k] was.

    >>> path = Graph(torch.tensor([[0.0], [1.0], [2.0]]), Edges.of(torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
    >>> moved = permuted(path, torch.tensor([2, 0, 1]))
    >>> moved.x.flatten().tolist(), moved.edges.pairs.tolist()
    ([2.0, 0.0, 1.0], [[2, 1], [0, 2]])
    """
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    names = ("weight", "features", "relation", "number", "times")
    columns = {name: getattr(graph.edges, name) for name in names}
    edges = Edges.of(place[graph.edges.pairs], len(graph), **columns).with_(directed=graph.edges.directed)
    if graph.edges.full_degree is not None:
        edges = edges.with_(full_degree=graph.edges.full_degree[order])
    kind = None if graph.kind is None else graph.kind[order]
    return Graph(graph.x[order], edges, graph.first, kind)


def _order(graph: Graph, generator: torch.Generator) -> Tensor:
    """Nodes of each graph of a union in an order at random."""
    drawn = torch.rand(len(graph), generator=generator, dtype=torch.float64)
    return (graph.of_node.cpu().double() + drawn).argsort().to(graph.x.device)


def _error(found: Tensor, expected: Tensor) -> float:
    size = float(expected.abs().max()) if expected.numel() else 0.0
    return float((found - expected).abs().max()) / (size or 1.0) if expected.numel() else 0.0
