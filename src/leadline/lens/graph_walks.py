"""Walks on a graph, and how soon all of it is seen.

    ways      (A^L e_n)_i    ways to walk from node n to node i in L steps                                      (1)
    A^L       of all pairs;  diag(A²) = degrees, out along an edge and back                                     (2)
    share     nodes within k steps of a node, over all nodes: what k layers can read for it                     (3)

Where (3) is near 1 after a few steps, a batch of few nodes reads the whole graph (the graph expansion problem).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.lens.graph_drawing import among, around, draw
from leadline.lens.graph_layout import layout
from leadline.lens.on_graphs import dense, few, graph_of, hops, middle, one_node
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, colour_bar, label, percent, short, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MATRIX = 2000  # nodes up to which all pairs are counted
_CELLS = 12  # nodes up to which a matrix shows its numbers


@dataclass(frozen=True, eq=False)
class Walks(View):
    """Args:
    node: where walks begin.
    ways: eq. 1, (L + 1, N), from 0 steps on.
    matrices: eq. 2, (L, N, N), from 1 step on.
    places, pairs: of a drawing.
    """

    node: int
    ways: np.ndarray
    matrices: np.ndarray
    places: np.ndarray
    pairs: np.ndarray

    @styled
    def plot(self) -> Figure:
        shown = min(len(self.matrices), 3)
        figure = blank(FULL * shown / 3, 6.4)
        top, bottom = figure.subplots(2, shown, squeeze=False)
        num = len(self.places)
        for k in range(shown):
            ways, matrix = self.ways[k + 1], self.matrices[k]
            ring = np.arange(num) == self.node
            names = [short(w) if w else "" for w in ways] if num <= 40 else ()
            size = np.full(num, float(np.median(self.matrices[0].sum(1))))
            draw(top[k], self.places, self.pairs, values=np.log1p(ways), ring=ring, names=names, degree=size)
            there = int((ways > 0).sum())
            top[k].set_title(f"{k + 1} step{'s' if k else ''} from node {self.node}: {there} nodes", fontsize=9)
            mesh = bottom[k].imshow(np.log1p(matrix), cmap="Greys", interpolation="nearest", vmin=0)
            bottom[k].grid(False)
            bottom[k].set(xlabel="from", ylabel="to" if k == 0 else "")
            bottom[k].set_title("A" if k == 0 else f"A{'²³'[k - 1]}: ways in {k + 1} steps", fontsize=9)
            if num <= _CELLS:
                half = mesh.get_clim()[1] / 2
                for i, row in enumerate(matrix):
                    for j, value in enumerate(row):
                        ink = "white" if np.log1p(value) > half else INK if value else SOFT
                        bottom[k].text(j, i, short(value), ha="center", va="center", fontsize=7, color=ink)
        return figure


def graph_walks(source: Any, node: int | None = None, length: int = 2) -> Walks:
    """Ways to walk from a node, and between all pairs.

    Args:
        source: a graph, or data, a run or a network that has one; at most 2,000 nodes.
        node: None is the one with most edges.
        length: steps, at least 1.

    >>> from leadline.data.edges import Edges
    >>> triangle = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3, directed=False)
    >>> graph_walks(triangle, 0).ways.tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [2.0, 1.0, 1.0]]
    """
    graph, length = graph_of(source), whole("length", length, 1, usual=2)
    few(graph, _MATRIX, "walks between all pairs")
    at, A = one_node(graph, node, middle(graph)), dense(graph, weighted=False)  # noqa: N806
    powers = [A]
    while len(powers) < length:
        powers.append(A @ powers[-1])
    ways = np.stack([np.eye(len(graph))[at], *(power[:, at] for power in powers)])
    pairs = among(graph, np.arange(len(graph)))
    return Walks(at, ways, np.stack(powers), layout(len(graph), pairs), pairs)


@dataclass(frozen=True, eq=False)
class HopReach(View):
    """Args:
    node: whose steps are drawn.
    steps: fewest steps from each node to it, (N,); -1 where there is no way.
    own: eq. 3 of it, from 0 steps on.
    mean, low, high: eq. 3 over the nodes that were looked at: mean, tenth and ninetieth percentile.
    looked: how many nodes were looked at.
    diameter: the most steps that any of them needed.
    places, pairs, shown: of a drawing, and which nodes it shows.
    """

    node: int
    steps: np.ndarray
    own: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    looked: int
    diameter: int
    places: np.ndarray
    pairs: np.ndarray
    shown: np.ndarray

    def after(self, share: float) -> int | None:
        """Steps after which this share of the graph is seen, on average; None where it never is."""
        found = np.flatnonzero(self.mean >= share)
        return int(found[0]) if len(found) else None

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 4.2)
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.05])
        at = np.arange(len(self.mean))
        left.fill_between(at, self.low, self.high, color=HUES[0], alpha=0.15, lw=0, label="10 to 90 % of the nodes")
        left.plot(at, self.mean, "o-", ms=3.5, color=HUES[0], label=f"mean of {self.looked:,} nodes")
        left.plot(at, self.own, "o-", ms=3.5, color=HUES[1], label=f"node {self.node}")
        left.set(ylim=(0, 1.03))
        left.xaxis.get_major_locator().set_params(integer=True)
        label(left, "What k layers can read", "layers k", "share of all nodes", legend=3)
        values = self.steps[self.shown].astype(float)
        values[values < 0] = np.nan
        ring = self.shown == self.node
        mesh = draw(right, self.places, self.pairs, values=values, ring=ring)
        title = f"Steps to node {self.node}"
        if len(self.shown) < len(self.steps):
            title += f" ({len(self.shown):,} of {len(self.steps):,} nodes)"
        right.set_title(title)
        colour_bar(right, mesh, "steps")
        return figure

    def __str__(self) -> str:
        half = self.after(0.5)
        return (
            f"half of the graph is seen after {half} steps" if half is not None else f"at most {percent(self.mean[-1])}"
        )


def hop_reach(source: Any, node: int | None = None, *, num: int = 128, most: int = 1000, seed: int = 0) -> HopReach:
    """How much of a graph lies within k steps of its nodes.

    Args:
        source: a graph, or data, a run or a network that has one.
        node: None is the one with most edges.
        num: nodes that are looked at, at random, at least 1.
        most: nodes that are drawn.

    >>> from leadline.data.edges import Edges
    >>> path = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, directed=False)
    >>> view = hop_reach(path, 0)
    >>> view.own.tolist(), view.diameter, view.after(1.0)
    ([0.25, 0.5, 0.75, 1.0], 3, 3)
    """
    graph, num = graph_of(source), whole("num", num, 1, usual=128)
    at = one_node(graph, node, middle(graph))
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(whole("seed", seed, 0, usual=0)))
    found = [hops(graph, int(n)) for n in order[:num]]
    own = hops(graph, at)
    last = max(int(far.max()) for far in (*found, own))
    shares = np.array([[((far >= 0) & (far <= k)).mean() for k in range(last + 1)] for far in (own, *found)])
    low, high = np.quantile(shares[1:], [0.1, 0.9], axis=0)
    shown = np.arange(len(graph)) if len(graph) <= most else around(graph, at, most, seed)
    pairs = among(graph, shown)
    places = layout(len(shown), pairs)
    return HopReach(at, own, shares[0], shares[1:].mean(0), low, high, len(found), last, places, pairs, shown)
