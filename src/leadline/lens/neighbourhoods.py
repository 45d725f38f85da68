"""What is read for one answer: the whole neighbourhood of a node, beside one that is drawn at random.

    full     nodes within K steps of i                                                                           (1)
    drawn    from i on, at each of K steps at most m edges of every node that was reached                        (2)

(1) may be the whole graph after a few steps. (2) reads at most (1 + m)^K nodes, others at every batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.data.graph import Graph
from leadline.data.neighbours import neighbours
from leadline.lens.graph_drawing import among, around, draw, key
from leadline.lens.graph_layout import layout
from leadline.lens.on_graphs import graph_of, hops, middle, one_node
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Neighbourhoods(View):
    """Args:
    node: i.
    full: steps from each node to i, (N,); -1 beyond K steps.
    drawn: step at which each node was reached, (N,); -1 where it was not.
    edges: (E, 2), source and target of the edges that were drawn.
    read_full, read_drawn: nodes that are read, by both.
    places, pairs, shown: of a drawing, and which nodes it shows.
    """

    node: int
    full: np.ndarray
    drawn: np.ndarray
    edges: np.ndarray
    read_full: int
    read_drawn: int
    places: np.ndarray
    pairs: np.ndarray
    shown: np.ndarray

    @styled
    def plot(self) -> Figure:
        from matplotlib.collections import LineCollection

        figure = blank(FULL, 4.6)
        axes = figure.subplots(1, 2)
        num, last = len(self.full), int(self.full.max())
        classes = tuple("the node" if k == 0 else f"{k} step{'' if k == 1 else 's'}" for k in range(last + 1))
        ring = self.shown == self.node
        for ax, steps, read, word in (
            (axes[0], self.full, self.read_full, "All neighbours"),
            (axes[1], self.drawn, self.read_drawn, "Some neighbours, drawn at random"),
        ):
            own = steps[self.shown]
            draw(ax, self.places, self.pairs, values=own, classes=classes, faint=own < 0)
            ax.scatter(*self.places[ring].T, s=150, facecolors="none", edgecolors=INK, lw=1.4, zorder=4)
            ax.set_title(f"{word}: {read:,} of {num:,} nodes are read", fontsize=9)
        number = np.full(num, -1)
        number[self.shown] = np.arange(len(self.shown))
        inside = number[self.edges]
        inside = inside[(inside >= 0).all(1)]
        axes[1].add_collection(LineCollection(list(self.places[inside]), colors=HUES[0], linewidths=1.4, zorder=2))
        figure.legend(handles=key(classes), loc="outside lower left", ncols=6, labelcolor=SOFT)
        return figure


def neighbourhoods(
    source: Any, node: int | None = None, fanouts: Sequence[int] = (3, 3), *, most: int = 500, seed: int = 0
) -> Neighbourhoods:
    """The neighbourhood of a node as far as some layers read, whole and drawn at random.

    Args:
        source: a graph, or data, a run or a network that has one.
        node: None is the one with most edges.
        fanouts: m of each step, the first at the node itself; as many as there are layers.
        most: nodes that are drawn.

    >>> import torch
    >>> from leadline.data.edges import Edges
    >>> star = Edges.of(torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]]), num_nodes=5, directed=False)
    >>> view = neighbourhoods(star, 0, [2])
    >>> view.read_full, view.read_drawn
    (5, 3)
    """
    graph = graph_of(source)
    at = one_node(graph, node, middle(graph))
    full = hops(graph, at, most=len(fanouts))
    drawn, edges = _drawn(graph, at, [whole("fanouts", m, 1, usual=3) for m in fanouts], seed)
    shown = (
        np.arange(len(graph))
        if len(graph) <= most
        else np.union1d(around(graph, at, most, seed), np.flatnonzero(drawn >= 0))
    )
    pairs = among(graph, shown)
    return Neighbourhoods(
        at, full, drawn, edges, int((full >= 0).sum()), int((drawn >= 0).sum()), layout(len(shown), pairs), pairs, shown
    )


def _drawn(graph: Graph, node: int, fanouts: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 2, as networks that learn read it: the step at which each node was reached, and the edges."""
    edges = graph.edges.map(lambda t: t.cpu())
    found, blocks = neighbours(edges, torch.tensor([node]), fanouts, torch.tensor([seed]))
    nodes = found.numpy()
    step, sizes = np.full(len(graph), -1), [block.num_targets for block in reversed(blocks)]
    for k, (begin, end) in enumerate(pairwise([0, *sizes, len(nodes)])):
        step[nodes[begin:end]] = k
    taken = np.concatenate([nodes[block.pairs.numpy()].T for block in blocks])
    return step, np.unique(taken, axis=0)
