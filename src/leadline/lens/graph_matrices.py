"""A graph and what computers see of it: adjacency, numbers of nodes and of edges, and its edge graph.

A    (N, N),   X   (N, F),   E   (edges, numbers)                                                            (1)
A' = P A Pᵀ,   X' = P X                         the same graph, its nodes in another order                   (2)
Bᵀ B - 2 I                                      its edge graph: a node for each edge                         (3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.errors import ShapeError
from leadline.lens.graph_drawing import among, draw
from leadline.lens.graph_layout import layout
from leadline.lens.on_graphs import dense, few, graph_of
from leadline.lens.style import FULL, HUES, SIGNED, SOFT, blank, colour_bar, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MATRIX = 2000
_EDGES = 300  # edges up to which an edge graph is drawn


@dataclass(frozen=True, eq=False)
class GraphMatrices(View):
    """Args:
    adjacency, nodes, edges: eq. 1; edges has no column where edges have no numbers.
    order: nodes of another order, or none; moved, moved_nodes: eq. 2 of it.
    places, pairs: of a drawing.
    directed: whether edges have arrows.
    """

    adjacency: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    order: tuple[int, ...]
    moved: np.ndarray
    moved_nodes: np.ndarray
    places: np.ndarray
    pairs: np.ndarray
    directed: bool

    @styled
    def plot(self) -> Figure:
        two, numbered = bool(self.order), bool(self.edges.shape[1])
        figure = blank(FULL, 6.0 if two else 3.2)
        widths = [1.1, 1, 0.5, *([0.45] if numbered else [])]
        axes = figure.subplots(1 + two, len(widths), width_ratios=widths, squeeze=False)
        num = len(self.places)
        rows = [(np.arange(num), self.adjacency, self.nodes, "")]
        if two:
            rows.append((np.argsort(self.order), self.moved, self.moved_nodes, ", another order"))
        for row, (names, A, X, word) in zip(axes, rows, strict=True):  # noqa: N806
            draw(row[0], self.places, self.pairs, names=tuple(map(str, names)), directed=self.directed)
            row[0].set_title(f"Graph{word}")
            ticks = range(num) if num <= 12 else None
            self._matrix(row[1], A, "Adjacency A", "from node", "to node", False, ticks)
            mesh = self._matrix(row[2], X, "Nodes X", "number", "node", True, ticks)
            colour_bar(row[2], mesh, "")
            if numbered:
                mesh = self._matrix(row[3], self.edges, "Edges E", "number", "edge", True, None)
                colour_bar(row[3], mesh, "")
        return figure

    @staticmethod
    def _matrix(ax: Axes, values: np.ndarray, title: str, x: str, y: str, signed: bool, ticks: Any) -> Any:
        top = float(np.abs(values).max(initial=0)) or 1.0
        how = {"cmap": SIGNED, "vmin": -top, "vmax": top} if signed else {"cmap": "Greys", "vmin": 0, "vmax": top}
        mesh = ax.imshow(values, interpolation="nearest", aspect="auto" if signed else "equal", **how)
        ax.grid(False)
        ax.set(title=title, xlabel=x, ylabel=y)
        ax.xaxis.get_major_locator().set_params(integer=True)
        if ticks is not None:
            ax.set_yticks(ticks)
            if not signed:
                ax.set_xticks(ticks)
        return mesh


def graph_matrices(source: Any, order: Sequence[int] | None = None) -> GraphMatrices:
    """Adjacency and numbers of a graph beside its drawing; with another order of its nodes, both beside each other.

    Args:
        source: a graph, or data, a run or a network that has one; at most 2,000 nodes.
        order: node k of the other order is node order[k] of this one.

    >>> import torch
    >>> from leadline.data.edges import Edges
    >>> view = graph_matrices(Edges.of(torch.tensor([[0], [1]]), num_nodes=3), [2, 0, 1])
    >>> view.adjacency[1].tolist(), view.moved[2].tolist()
    ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    """
    graph = graph_of(source)
    few(graph, _MATRIX, "an adjacency")
    A, X = dense(graph), graph.x.double().cpu().numpy()  # noqa: N806
    at = np.array([] if order is None else order, dtype=int)
    if order is not None and not np.array_equal(np.sort(at), np.arange(len(graph))):
        raise ShapeError(
            "order must have every node once",
            got=f"{list(order)[:8]} for {len(graph)} nodes",
            do=f"Pass the numbers 0 to {len(graph) - 1} in another order",
        )
    features = graph.edges.features
    pairs = among(graph, np.arange(len(graph)))
    return GraphMatrices(
        A,
        X,
        np.zeros((len(graph.edges), 0)) if features is None else features.double().cpu().numpy(),
        tuple(at.tolist()),
        A[np.ix_(at, at)],
        X[at],
        layout(len(graph), pairs),
        pairs,
        graph.edges.directed,
    )


@dataclass(frozen=True, eq=False)
class EdgeGraph(View):
    """Args:
    pairs: (E, 2), ends of the graph's edges.
    joined: edges that share an end, by their places in `pairs`.
    places: of the graph's nodes.
    """

    pairs: np.ndarray
    joined: np.ndarray
    places: np.ndarray

    @styled
    def plot(self) -> Figure:
        from matplotlib.collections import LineCollection

        figure = blank(FULL, 4.2)
        left, right = figure.subplots(1, 2)
        draw(left, self.places, self.pairs, names=tuple(map(str, range(len(self.places)))))
        left.set_title(f"Graph: {len(self.places)} nodes, {len(self.pairs)} edges")
        middle = self.places[self.pairs].mean(1)
        right.add_collection(LineCollection(list(self.places[self.pairs]), colors=SOFT, alpha=0.35, linewidths=0.8))
        right.scatter(*self.places.T, s=26, color=SOFT, alpha=0.4, lw=0)
        names = [f"{i}–{j}" for i, j in self.pairs]
        right.add_collection(LineCollection(list(middle[self.joined]), colors=HUES[1], alpha=0.6, linewidths=1.0))
        right.scatter(*middle.T, s=46, color=HUES[1], marker="s", zorder=3)
        if len(names) <= 30:
            for (x, y), name in zip(middle, names, strict=True):
                right.annotate(name, (x, y), (4, 3), textcoords="offset points", fontsize=7)
        right.set(xlim=left.get_xlim(), ylim=left.get_ylim(), xticks=[], yticks=[], aspect="equal")
        right.grid(False)
        for spine in right.spines.values():
            spine.set_visible(False)
        right.set_title(f"Its edge graph: {len(self.pairs)} nodes, {len(self.joined)} edges")
        return figure


def edge_graph(source: Any) -> EdgeGraph:
    """The edge graph over its graph: a node in the middle of each edge, joined where two edges share an end.

    Args:
        source: a graph, or data, a run or a network that has one; at most 300 edges. Loops are left out.

    >>> import torch
    >>> from leadline.data.edges import Edges
    >>> star = Edges.of(torch.tensor([[0, 0, 0], [1, 2, 3]]), num_nodes=4, directed=False)
    >>> edge_graph(star).joined.tolist()  # a triangle
    [[0, 1], [0, 2], [1, 2]]
    """
    graph = graph_of(source)
    pairs = np.unique(np.sort(among(graph, np.arange(len(graph))), 1), axis=0)
    if len(pairs) > _EDGES:
        raise ShapeError(
            f"a drawing of an edge graph needs at most {_EDGES} edges", got=str(len(pairs)), do="Pass a part"
        )
    share = (pairs[:, None, :, None] == pairs[None, :, None, :]).any((2, 3))
    joined = np.argwhere(np.triu(share, 1))
    return EdgeGraph(pairs, joined, layout(len(graph), pairs))
