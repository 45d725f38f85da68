"""A graph cut in parts, and the batches that they make.

    cut      edges between parts, over all edges: what a batch of one part leaves out                            (1)
    pairs    M (M - 1) / 2 batches of two parts of M, with the edges between the two put back                    (2)

Notation   M parts
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.data.partitions import partition
from leadline.errors import ShapeError
from leadline.lens.graph_drawing import among, draw
from leadline.lens.graph_layout import layout
from leadline.lens.on_graphs import few, graph_of
from leadline.lens.style import FULL, blank, percent, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DRAWN = 3000
_BATCHES = 4  # parts that have a panel of their own


@dataclass(frozen=True, eq=False)
class GraphParts(View):
    """Args:
    part: of each node, (N,), from 0 on.
    sizes: nodes of each part.
    inside, between: edges within parts and between them, each edge without a direction once.
    singles, pairs_of_parts: batches of one part, and of two.
    restored: edges that the fullest pair of parts puts back; pair: which it is.
    places, pairs: of a drawing.
    """

    part: np.ndarray
    sizes: tuple[int, ...]
    inside: int
    between: int
    singles: int
    pairs_of_parts: int
    restored: int
    pair: tuple[int, int]
    places: np.ndarray
    pairs: np.ndarray

    @property
    def cut(self) -> float:
        """Eq. 1."""
        return self.between / max(1, self.inside + self.between)

    @styled
    def plot(self) -> Figure:
        shown = min(self.singles, _BATCHES)
        figure = blank(FULL, 6.2)
        grid = figure.add_gridspec(2, 12, height_ratios=[1.5, 1])
        whole, apart = figure.add_subplot(grid[0, :6]), figure.add_subplot(grid[0, 6:])
        every = np.ones(len(self.part), dtype=bool)
        self._panel(whole, every, True, f"The graph: {len(self.part):,} nodes")
        words = f"{self.singles} parts: {self.between:,} edges cut, {percent(self.cut)}"
        self._panel(apart, every, False, words)
        step = 12 // (shown + 1)
        for k in range(shown):
            ax = figure.add_subplot(grid[1, k * step : (k + 1) * step])
            self._panel(ax, self.part == k, False, f"batch: part {k}")
        two = np.isin(self.part, self.pair)
        last = figure.add_subplot(grid[1, shown * step : (shown + 1) * step])
        self._panel(last, two, True, f"batch: parts {self.pair[0]} and {self.pair[1]},\n{self.restored} edges back")
        return figure

    def _panel(self, ax: Axes, own: np.ndarray, between: bool, title: str) -> None:
        same = self.part[self.pairs[:, 0]] == self.part[self.pairs[:, 1]]
        kept = own[self.pairs].all(1) & (same | between)
        names = tuple(map(str, range(self.singles)))
        draw(ax, self.places, self.pairs[kept], values=self.part, classes=names, faint=~own, degree=np.ones(len(own)))
        ax.set_title(title, fontsize=9)


def graph_parts(source: Any, part: Any) -> GraphParts:
    """A partition of a graph's nodes, the edges it cuts, and the batches it makes.

    Args:
        source: a graph, or data, a run or a network that has one; at most 3,000 nodes.
        part: which part each node belongs to, from 0 on; or how many parts `leadline.data.partitions` should make.

    >>> from leadline.data.edges import Edges
    >>> path = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, directed=False)
    >>> view = graph_parts(path, [0, 0, 1, 1])
    >>> view.inside, view.between, view.singles, view.pairs_of_parts
    (2, 1, 2, 1)
    >>> graph_parts(path, 2).sizes
    (2, 2)
    """
    graph = graph_of(source)
    few(graph, _DRAWN, "a drawing of parts")
    if isinstance(part, int):
        part = partition(graph.edges, part)
    own = (part.detach().cpu() if isinstance(part, torch.Tensor) else torch.as_tensor(part)).numpy().reshape(-1)
    if len(own) != len(graph) or own.min(initial=0) < 0 or own.dtype.kind not in "iu":
        raise ShapeError(
            "part must be a whole number from 0 on for each node",
            got=f"{len(own)} of {own.dtype} for {len(graph)} nodes",
            do="Pass one a node",
        )
    pairs = among(graph, np.arange(len(graph)))
    ends = own[pairs]
    same = ends[:, 0] == ends[:, 1]
    num = int(own.max(initial=0)) + 1
    table = np.zeros((num, num), dtype=int)
    np.add.at(table, (ends.min(1), ends.max(1)), 1)
    np.fill_diagonal(table, 0)
    first, second = divmod(int(table.argmax()), num)
    pair = (first, second) if first != second else (0, min(1, num - 1))
    return GraphParts(
        own,
        tuple(np.bincount(own, minlength=num).tolist()),
        int(same.sum()),
        int((~same).sum()),
        num,
        num * (num - 1) // 2,
        int(table.max(initial=0)),
        pair,
        layout(len(graph), pairs),
        pairs,
    )
