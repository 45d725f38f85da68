"""A graph as a drawing that stays readable at a thousand nodes.

Places are those of `leadline.lens.graph_layout`: the same graph is drawn the same way. Nodes have the colour of their
class or of a value and grow with the root of their degree; edges are thin, and the more there are the fainter. Names
and arrows are drawn where there are few. Of a graph that is too large a part is drawn: the nodes around one, ring
after ring, and of the ring that is too large some at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.data.data import Data
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.graph_inputs import GraphInputs
from leadline.errors import ShapeError
from leadline.lens.graph_layout import layout
from leadline.lens.on_graphs import graph_of, middle, one_node
from leadline.lens.rows import Fitted
from leadline.lens.style import CARD, HUES, INK, SEQUENTIAL, SIGNED, SOFT, blank, colour_bar, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMED = 40  # nodes up to which each has its name beside it
_ARROWS = 150  # edges up to which arrows are drawn


@dataclass(frozen=True, eq=False)
class GraphDrawing(View):
    """Args:
    places: of the nodes that are drawn, (N, 2), between 0 and 1.
    pairs: (E, 2), ends of the edges among them, each edge without a direction once.
    nodes: which nodes of the graph these are.
    num_nodes, num_edges: of the whole graph.
    degree: of each node that is drawn, in the whole graph.
    values: what colours stand for, one a node, or none; codes of classes where these have names.
    classes: their names.
    wrong: nodes with a ring around them, as those that were told wrongly.
    names: of the nodes, or none.
    what: in words, what colours stand for.
    directed: whether edges have arrows.
    """

    places: np.ndarray
    pairs: np.ndarray
    nodes: np.ndarray
    num_nodes: int
    num_edges: int
    degree: np.ndarray
    values: np.ndarray | None
    classes: tuple[str, ...]
    wrong: np.ndarray | None
    names: tuple[str, ...]
    what: str
    directed: bool

    @styled
    def plot(self) -> Figure:
        high = float(np.ptp(self.places[:, 1])) if len(self.places) else 1.0
        figure = blank(6.6, float(np.clip(6.2 * high, 2.4, 6.2)) + 0.6)
        ax = figure.subplots()
        mesh = draw(
            ax, self.places, self.pairs, values=self.values, classes=self.classes, ring=self.wrong, degree=self.degree,
            names=self.names, directed=self.directed, signed=self._signed,
        )  # fmt: skip
        part = "" if len(self.nodes) == self.num_nodes else f"{len(self.nodes):,} of "
        title = f"{part}{self.num_nodes:,} nodes, {self.num_edges:,} edges" + (f": {self.what}" if self.what else "")
        handles = key(self.classes, self.wrong is not None and bool(self.wrong.any()))
        ax.set_title(title, pad=10 + 14 * -(-len(handles) // 5) if handles else 8)
        if handles:
            ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, labelcolor=SOFT)
        if mesh is not None:
            colour_bar(ax, mesh, self.what or "value")
        return figure

    @property
    def _signed(self) -> bool:
        """Whether values lie on both sides of 0."""
        values = self.values
        return values is not None and not self.classes and bool((values < 0).any() and (values > 0).any())


def _scale(values: np.ndarray, signed: bool, top: float | None) -> tuple[float, float]:
    """Values of the first and last colour: from 0 on, unless that leaves more than half of the colours unused.

    >>> _scale(np.array([5.5, 6.0]), False, None), _scale(np.array([1.0, 6.0]), False, None)
    ((5.5, 6.0), (0.0, 6.0))
    """
    known = values[np.isfinite(values)]
    if signed or not len(known):
        high = top or float(np.abs(known).max(initial=0)) or 1.0
        return (-high if signed else 0.0), high
    low, high = float(known.min()), float(known.max()) if top is None else top
    low = 0.0 if 0 <= low < high / 2 or top is not None else low
    return (low, high) if low < high else (low - 0.5, low + 0.5)


def draw(
    ax: Axes,
    places: np.ndarray,
    pairs: np.ndarray,
    *,
    values: np.ndarray | None = None,
    classes: Sequence[str] = (),
    ring: np.ndarray | None = None,
    degree: np.ndarray | None = None,
    names: Sequence[str] = (),
    directed: bool = False,
    signed: bool = False,
    edge_values: np.ndarray | None = None,
    faint: np.ndarray | None = None,
    top: float | None = None,
) -> Any:
    """The graph on some axes; returns what a colour bar needs, where colours stand for values.

    Args:
        edge_values: between 0 and 1, one an edge: the larger, the wider and darker.
        faint: nodes that are drawn as small grey dots, (N,) of booleans.
        top: value of the last colour.
    """
    from matplotlib.collections import LineCollection

    num, many = len(places), len(pairs)
    ends = places[pairs] if many else np.zeros((0, 2, 2))
    room = _room(ax)
    alpha = float(np.clip(0.085 * (room / max(many, 1)) ** 0.5, 0.07, 0.75))
    if edge_values is not None:
        order = np.argsort(edge_values)
        shades = np.zeros((many, 4))
        shades[:, :3] = tuple(int(INK[k : k + 2], 16) / 255 for k in (1, 3, 5))
        shades[:, 3] = 0.06 + 0.9 * edge_values
        ax.add_collection(
            LineCollection(list(ends[order]), colors=shades[order], linewidths=0.3 + 3 * edge_values[order])
        )
    else:
        ax.add_collection(LineCollection(list(ends), colors=SOFT, alpha=alpha, linewidths=0.5 if many > 300 else 0.9))
    degree = np.bincount(pairs.ravel(), minlength=num) if degree is None else degree
    size = room / max(num, 1) * np.sqrt(np.maximum(degree, 0.5) / max(np.median(degree), 1))
    size = np.clip(size, 4, 170)
    if faint is not None:
        ax.scatter(*places[faint].T, s=np.minimum(size[faint], 9), color=SOFT, alpha=0.35, lw=0, zorder=2)
    shown = np.ones(num, dtype=bool) if faint is None else ~faint
    edge = {"edgecolors": CARD, "linewidths": 0.4 if num > 200 else 0.8, "zorder": 3}
    mesh, pale = None, np.zeros(num, dtype=bool)  # pale: names on them are dark
    if values is None:
        ax.scatter(*places[shown].T, s=size[shown], color=HUES[0], **edge)
    elif len(classes):
        for k in range(len(classes)):
            own = shown & (values == k)
            hue = HUES[k % len(HUES)]
            ax.scatter(*places[own].T, s=size[own], color=hue, **edge)
        unknown = shown & ~np.isin(values, np.arange(len(classes)))
        ax.scatter(*places[unknown].T, s=size[unknown], color="#ccd2da", **edge)
        pale = unknown
    else:
        low, high = _scale(values[shown], signed, top)
        own = {"cmap": SIGNED if signed else SEQUENTIAL, "vmin": low, "vmax": high, "plotnonfinite": True}
        seen = {**edge, "edgecolors": SOFT} if signed else edge
        mesh = ax.scatter(*places[shown].T, s=size[shown], c=values[shown], **own, **seen)
        pale[shown] = mesh.to_rgba(values[shown])[:, :3] @ [0.3, 0.59, 0.11] > 0.6
    if ring is not None and ring.any():
        how: dict[str, Any] = {"facecolors": "none", "edgecolors": INK, "lw": 1.2, "zorder": 4}
        ax.scatter(*places[ring].T, s=size[ring] * 1.9 + 12, **how)
    if directed and 0 < many <= _ARROWS:
        _arrows(ax, ends, size[pairs[:, 1]])
    if len(names) == num <= _NAMED:
        for (x, y), name, s, light in zip(places, names, size, pale, strict=True):
            inside = len(name) <= 2 and s > 90
            how = (
                {"ha": "center", "va": "center", "color": INK if light else CARD}
                if inside
                else {"va": "bottom", "color": INK}
            )
            away = (0, 0) if inside else (s**0.5 / 2 + 1, 2)
            ax.annotate(name, (x, y), away, textcoords="offset points", zorder=5, fontsize=7.5, **how)
    ax.set(xlim=(-0.04, 1.04), xticks=[], yticks=[], aspect="equal")
    low_y, high_y = places[:, 1].min(), places[:, 1].max()
    ax.set_ylim(low_y - 0.04, high_y + 0.04)
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return mesh


def _room(ax: Axes) -> float:
    """Square points that nodes may fill together, about a fifteenth of the axes."""
    wide, high = ax.get_position().size * ax.figure.get_size_inches()
    return 0.068 * float(wide * high) * 72**2


def key(classes: Sequence[str], wrong: bool = False) -> list[Any]:
    """Handles of a legend, of one size: ten classes at most, and a ring for what is wrong."""
    from matplotlib.lines import Line2D

    how: dict[str, Any] = {"ls": "", "marker": "o", "ms": 6}
    found = [Line2D([], [], color=HUES[k], label=name, **how) for k, name in enumerate(classes[: len(HUES)])]
    ring = Line2D([], [], color=INK, markerfacecolor="none", label="wrong", **how)
    return [*found, *([ring] if wrong else [])]


def _arrows(ax: Axes, ends: np.ndarray, size: np.ndarray) -> None:
    for (a, b), s in zip(ends, size, strict=True):
        if (a != b).any():
            how = {"arrowstyle": "-|>", "color": SOFT, "lw": 0, "shrinkB": s**0.5 / 2, "mutation_scale": 8}
            ax.annotate("", b, a, arrowprops=how, zorder=2)


def graph_drawing(
    source: Any,
    values: Any = None,
    *,
    classes: Sequence[str] = (),
    names: Sequence[str] = (),
    what: str = "",
    wrong: Any = None,
    node: int | None = None,
    most: int = 1500,
    seed: int = 0,
) -> GraphDrawing:
    """A graph, or a part of one that is too large, with its layout.

    Args:
        source: a graph, or data, a run or a network that has one.
        values: one a node: numbers, or codes of classes where these have names; others than 0, 1, … are drawn grey.
            None takes the classes of nodes that data or a run tell.
        what: in words, what they are.
        wrong: one a node, whether it gets a ring.
        node: around which a part is drawn; None is the one with most edges.
        most: nodes that are drawn, at least 1.

    >>> square = Edges.of(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), num_nodes=4, directed=False)
    >>> view = graph_drawing(square)
    >>> view.places.shape, view.pairs.tolist()
    ((4, 2), [[0, 1], [0, 3], [1, 2], [2, 3]])
    """
    graph = graph_of(source)
    most = whole("most", most, 1, usual=1500)
    if values is None and isinstance(source, (Data, Fitted)):
        values, classes, what = _told(source if isinstance(source, Data) else source.need_data(), len(graph))
    nodes = np.arange(len(graph))
    if node is not None or len(graph) > most:
        nodes = around(graph, one_node(graph, node, middle(graph)), most, seed)
    pairs = among(graph, nodes)
    columns = [_column(name, c, len(graph)) for name, c in (("values", values), ("wrong", wrong))]
    own, rings = (None if c is None else c[nodes] for c in columns)
    if len(names) not in (0, len(graph)):
        raise ShapeError("names must be one a node", got=f"{len(names)} of {len(graph)}", do="Pass as many as nodes")
    return GraphDrawing(
        layout(len(nodes), pairs, seed),
        pairs,
        nodes,
        len(graph),
        _undirected(graph.edges),
        graph.edges.start.diff().cpu().numpy()[nodes],
        own,
        tuple(map(str, classes)),
        None if rings is None else rings.astype(bool),
        _names(names, nodes),
        what,
        graph.edges.directed,
    )


def _told(data: Data, count: int) -> tuple[np.ndarray | None, Sequence[str], str]:
    """Codes of the classes of nodes, -1 where nobody tells, their names, and what they are; none of other answers."""
    if not isinstance(data.inputs, GraphInputs) or data.inputs.level != "node" or not data.target.classes:
        return None, (), ""
    codes = np.full(count, -1)
    for _, split in data.splits():
        codes[split.x[:, 0].numpy()] = split.y.numpy()
    return codes, data.target.classes, data.target.name


def _names(names: Sequence[str], nodes: np.ndarray) -> tuple[str, ...]:
    """Of the nodes that are drawn: as given, or their numbers where they are few."""
    if len(names):
        return tuple(str(names[int(n)]) for n in nodes)
    return tuple(map(str, nodes)) if len(nodes) <= _NAMED else ()


def around(graph: Graph, node: int, most: int, seed: int = 0) -> np.ndarray:
    """The nodes nearest to one, ring after ring, `most` at most; of the last ring some at random. Edges run both ways.

    >>> path = Graph(torch.zeros(5, 1), Edges.of(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), num_nodes=5))
    >>> around(path, 2, 3).tolist()
    [1, 2, 3]
    """
    rng = np.random.default_rng(seed)
    source, target = graph.edges.pairs.cpu().numpy()
    taken = np.zeros(len(graph), dtype=bool)
    taken[node] = True
    while taken.sum() < most:
        ring = np.union1d(source[taken[target]], target[taken[source]])
        ring = ring[~taken[ring]]
        if not len(ring):
            break
        left = most - int(taken.sum())
        taken[ring if len(ring) <= left else rng.choice(ring, left, replace=False)] = True
    return np.flatnonzero(taken)


def graph_part(source: Any, node: int | None = None, most: int = 500, seed: int = 0) -> Graph:
    """A part of a graph, around a node, with the edges among its nodes.

    >>> path = Graph(torch.zeros(5, 1), Edges.of(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), num_nodes=5))
    >>> graph_part(path, 2, 3)
    Graph(3 nodes, 2 edges)
    """
    graph = graph_of(source)
    nodes = around(graph, one_node(graph, node, middle(graph)), whole("most", most, 1, usual=500), seed)
    number = np.full(len(graph), -1)
    number[nodes] = np.arange(len(nodes))
    pairs = number[graph.edges.pairs.cpu().numpy()]
    kept = torch.from_numpy((pairs >= 0).all(0))
    names = ("weight", "features", "relation", "number")
    columns: dict[str, Any] = {n: None if (c := getattr(graph.edges, n)) is None else c.cpu()[kept] for n in names}
    edges = Edges.of(torch.from_numpy(pairs)[:, kept], len(nodes), **columns).with_(directed=graph.edges.directed)
    at = torch.from_numpy(nodes)
    return Graph(graph.x.cpu()[at], edges, kind=None if graph.kind is None else graph.kind.cpu()[at])


def among(graph: Graph, nodes: np.ndarray) -> np.ndarray:
    """(E, 2), edges among some nodes by their places in the list; both ways of one are one, and loops are left out."""
    number = np.full(len(graph), -1)
    number[nodes] = np.arange(len(nodes))
    pairs = number[graph.edges.pairs.cpu().numpy()].T
    pairs = pairs[(pairs >= 0).all(1) & (pairs[:, 0] != pairs[:, 1])]
    if not graph.edges.directed:
        pairs = np.sort(pairs, 1)
    return np.unique(pairs, axis=0) if len(pairs) else pairs.reshape(0, 2)


def _undirected(edges: Edges) -> int:
    """Edges, those without a direction counted once."""
    loops = int((edges.source == edges.target).sum())
    return len(edges) if edges.directed else (len(edges) - loops) // 2 + loops


def _column(name: str, values: Any, num: int) -> np.ndarray | None:
    if values is None:
        return None
    column = (values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)).reshape(-1)
    if len(column) != num:
        raise ShapeError(f"{name} must be one a node", got=f"{len(column)} of {num}", do="Pass as many as nodes")
    return column
