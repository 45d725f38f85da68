"""Colours of Weisfeiler and Lehman: which nodes, and which graphs, no message passing can tell apart.

    c_i^{t+1} = new name of (c_i^t, {{ c_j^t : j → i }})                                                         (1)

(1) begins with what nodes have, and ends where the number of colours no longer grows. Two nodes of one colour have the
same numbers after any stack of layers that sum, average, compare or attend to what neighbours send, whatever the
weights; two graphs with the same colours, each as often, have the same answer. What a network of yours makes of it is
measured: `within` is the largest difference of its answers inside a colour, which is rounding, and `between` the least
between colours, which is 0 where it tells apart less than it could.

Notes      the test shows that two graphs are not isomorphic; where colours agree nothing is shown
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from leadline.data.graph import Graph
from leadline.lens.at_rest import at_rest
from leadline.lens.graph_drawing import among, around, draw, key
from leadline.lens.graph_layout import layout
from leadline.lens.on_graphs import graph_of, middle, network_of, states
from leadline.lens.rows import Fitted
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, label, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class NodeColours(View):
    """Args:
    colours: of the nodes when they no longer change, (N,), by the order of their first nodes.
    counts: colours before the first round and after each.
    alike: groups of two and more nodes of one colour, the largest first.
    graphs_alike: groups of two and more graphs with the same colours, of a union of graphs.
    within, between: of a network's answers, as above; nan where no network was given.
    places, pairs, shown: of a drawing, and which nodes it shows.
    """

    colours: np.ndarray
    counts: tuple[int, ...]
    alike: tuple[tuple[int, ...], ...]
    graphs_alike: tuple[tuple[int, ...], ...]
    within: float
    between: float
    places: np.ndarray
    pairs: np.ndarray
    shown: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 4.4)
        left, right = figure.subplots(1, 2, width_ratios=[1.35, 1])
        num = self.counts[-1]
        group = np.full(len(self.colours), -1)  # of the largest groups; grey is alone, or in a smaller one
        for k, nodes in enumerate(self.alike[: len(HUES)]):
            group[list(nodes)] = k
        classes = tuple(f"{len(nodes)} alike" for nodes in self.alike[: len(HUES)])
        names = [str(c) for c in self.colours[self.shown]] if len(self.shown) <= 40 else ()
        draw(left, self.places, self.pairs, values=group[self.shown], classes=classes or ("",), names=names)
        if classes:
            left.legend(handles=key(classes), loc="upper left", bbox_to_anchor=(0, -0.01), ncols=5, labelcolor=SOFT)
        single = f", {int((np.bincount(self.colours) == 1).sum()):,} of one node" if num > 1 else ""
        left.set_title(f"{num:,} colours of {len(self.colours):,} nodes{single}")
        at = np.arange(len(self.counts))
        right.plot(at, self.counts, "o-", ms=4, color=HUES[0], label="colours")
        right.axhline(len(self.colours), color=INK, lw=0.9, ls=":", label="nodes")
        right.set_ylim(0, len(self.colours) * 1.08)
        right.xaxis.get_major_locator().set_params(integer=True)
        words = "Told apart by k rounds"
        if not np.isnan(self.within):
            words += f"\nnetwork: {self.within:.1e} within, {self.between:.1e} between"
        label(right, words, "rounds, or layers", "colours", legend=2)
        return figure


def node_colours(source: Any, *, features: bool = True, rounds: int | None = None, most: int = 600) -> NodeColours:
    """Colours of the nodes, and what they say about a network where one is given.

    Args:
        source: a graph or data; or a run or a network that holds a graph, whose answers are compared.
        features: whether colours begin with what nodes have; else all begin alike.
        rounds: at most; None is until colours no longer change.
        most: nodes that are drawn.

    >>> import torch
    >>> from leadline.data.edges import Edges
    >>> path = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, directed=False)
    >>> view = node_colours(path)
    >>> view.colours.tolist(), view.counts, view.alike
    ([0, 1, 1, 0], (1, 2), ((0, 3), (1, 2)))
    """
    graph = graph_of(source)
    rounds = len(graph) if rounds is None else whole("rounds", rounds, 0, usual=3)
    colours, counts = refined(graph, rounds, features)
    groups = _groups(colours)
    alike = _groups([tuple(np.sort(c)) for c in np.split(colours, graph.bounds.cpu().numpy()[1:-1])])
    within = between = float("nan")
    if isinstance(source, (nn.Module, Fitted)):
        net = network_of(source)
        with at_rest(net):
            h = states(net)[1][-1].cpu().numpy()
        within, between = _apart(h, colours)
    shown = np.arange(len(graph)) if len(graph) <= most else around(graph, middle(graph), most)
    pairs = among(graph, shown)
    graphs = alike if graph.num_graphs > 1 else ()
    return NodeColours(
        colours, counts, groups, graphs, within, between, layout(len(shown), pairs), pairs, shown
    )  # fmt: skip


def refined(graph: Graph, rounds: int, features: bool = True) -> tuple[np.ndarray, tuple[int, ...]]:
    """Eq. 1: colours (N,), and how many there were before the first round and after each."""
    columns = [graph.x.double().cpu().numpy()] if features else []
    if graph.kind is not None:
        columns.append(graph.kind.double().cpu().numpy()[:, None])
    now = np.zeros(len(graph), dtype=np.int64)
    if columns and len(graph):
        now = _named(np.concatenate(columns, 1))
    edges = graph.edges
    source, target = edges.pairs.cpu().numpy()
    sent = [c.double().cpu().numpy().reshape(len(edges), -1) for c in (edges.weight, edges.features) if c is not None]
    sent += [] if edges.relation is None else [edges.relation.double().cpu().numpy()[:, None]]
    along = _named(np.concatenate(sent, 1)) if sent and len(edges) else np.zeros(len(edges), dtype=np.int64)
    start = edges.start.cpu().numpy()
    counts = [int(now.max(initial=-1)) + 1]
    for _ in range(rounds):
        heard = now[source] * (int(along.max(initial=0)) + 1) + along
        heard = heard[np.lexsort((heard, target))].tolist()
        names: dict[Any, int] = {}
        keys = zip(now.tolist(), start[:-1].tolist(), start[1:].tolist(), strict=True)
        new = [names.setdefault((own, *heard[a:b]), len(names)) for own, a, b in keys]
        if len(names) == counts[-1]:
            break
        now = np.array(new)
        counts.append(len(names))
    return now, tuple(counts)


def _named(rows: np.ndarray) -> np.ndarray:
    """Numbers of different rows, in the order in which they come first."""
    _, first, code = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[code.reshape(-1)]


def _groups(keys: Sequence[Any] | np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Numbers with the same key, two and more, the largest group first."""
    found: dict[Any, list[int]] = {}
    for k, own in enumerate(keys.tolist() if isinstance(keys, np.ndarray) else keys):
        found.setdefault(own, []).append(k)
    return tuple(sorted((tuple(g) for g in found.values() if len(g) > 1), key=lambda g: (-len(g), g)))


def _apart(h: np.ndarray, colours: np.ndarray) -> tuple[float, float]:
    """Largest difference of numbers within a colour, and least between two, by their size."""
    size = float(np.abs(h).max()) or 1.0
    first = np.unique(colours, return_index=True)[1]
    within = float(np.abs(h - h[first[colours]]).max()) / size
    if len(first) < 2:
        return within, float("nan")
    one = h[first]
    least = min(float(np.abs(one[k + 1 :] - one[k]).max(1).min()) for k in range(len(one) - 1))
    return within, least / size
