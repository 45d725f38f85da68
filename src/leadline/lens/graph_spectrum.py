"""The waves of a graph: eigenvectors of its Laplacian, from slow to fast, and what a signal is made of.

    L = U Λ Uᵀ,   L = D - A   or   L~ = I - D^{-1/2} A D^{-1/2}                                                  (1)
    λ_k = u_k · L u_k = ½ Σ_ij A_ij (u_ki - u_kj)²       how fast wave k changes along edges                     (2)
    x^  = Uᵀ x,   power_k = Σ_f x^_kf² / Σ x²            what the numbers of the nodes are made of               (3)

As many λ are 0 as the graph has pieces. λ_2 is small where few edges cut the graph in two, and the signs of u_2 say
where. In (3) numbers whose power lies at small λ are smooth: neighbours have alike ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.lens.graph_drawing import among, draw
from leadline.lens.graph_layout import layout
from leadline.lens.on_graphs import dense, few, graph_of
from leadline.lens.style import FULL, HUES, blank, colour_bar, label, short, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MATRIX = 3000


@dataclass(frozen=True, eq=False)
class GraphSpectrum(View):
    """Args:
    values: λ, (N,), the smallest first.
    waves: the first and the last of U, (N, m): which ones says `which`.
    power: eq. 3 of the nodes' numbers, (N,); their means are taken off first.
    pieces: how many λ are 0.
    normalised: which L.
    places, pairs: of a drawing.
    """

    values: np.ndarray
    waves: np.ndarray
    which: tuple[int, ...]
    power: np.ndarray
    pieces: int
    normalised: bool
    places: np.ndarray
    pairs: np.ndarray

    @styled
    def plot(self) -> Figure:
        shown = self.waves.shape[1]
        columns = min(shown, 4)
        rows = -(-shown // columns)
        figure = blank(FULL, 2.6 * rows + 2.6)
        grid = figure.add_gridspec(rows + 1, 2 * columns)
        axes = []
        top = float(np.abs(self.waves).max())
        for k in range(shown):
            row, column = divmod(k, columns)
            ax = figure.add_subplot(grid[row, 2 * column : 2 * column + 2])
            axes.append(ax)
            mesh = draw(ax, self.places, self.pairs, values=self.waves[:, k], signed=True, top=top)
            ax.set_title(
                f"wave {self.which[k] + 1}: λ = {short(round(float(self.values[self.which[k]]), 3))}", fontsize=9
            )
        colour_bar(axes, mesh, "u")
        left = figure.add_subplot(grid[rows, :columns])
        left.plot(np.arange(1, len(self.values) + 1), self.values, "o", ms=2.5, color=HUES[0])
        kind = "I − D^−½ A D^−½" if self.normalised else "D − A"
        word = f"Spectrum of {kind}: {self.pieces} piece{'' if self.pieces == 1 else 's'}"
        label(left, word, "wave", "λ")
        right = figure.add_subplot(grid[rows, columns:])
        right.vlines(self.values, 0, self.power, color=HUES[1], lw=1.2)
        right.set_ylim(bottom=0)
        label(right, "Power of the nodes' numbers", "λ", "share")
        return figure


def graph_spectrum(source: Any, *, normalised: bool = True, num: int = 8) -> GraphSpectrum:
    """Eigenvalues and waves of a graph, and the power of its nodes' numbers in them.

    Args:
        source: a graph, or data, a run or a network that has one; at most 3,000 nodes. Directions are left out.
        num: waves that are drawn, at least 1: the slowest after the constant one, and the fastest.

    >>> import torch
    >>> from leadline.data.edges import Edges
    >>> path = Edges.of(torch.tensor([[0, 1], [1, 2]]), num_nodes=3, directed=False)
    >>> view = graph_spectrum(path, normalised=False)
    >>> view.values.round(6).tolist(), view.pieces
    ([0.0, 1.0, 3.0], 1)
    """
    graph, num = graph_of(source), whole("num", num, 1, usual=8)
    few(graph, _MATRIX, "a spectrum")
    A = dense(graph)  # noqa: N806
    both = (A + A.T) / 2
    both -= np.diag(np.diag(both))
    d = both.sum(1)
    matrix = np.diag(d) - both
    if normalised:
        root = np.where(d > 0, d, 1) ** -0.5
        matrix = root[:, None] * matrix * root
    values, waves = np.linalg.eigh(matrix)
    values = np.where(np.abs(values) < 1e-10 * max(1.0, float(values.max(initial=0))), 0, values)
    x = graph.x.double().cpu().numpy()
    centred = x - x.mean(0)
    power = ((waves.T @ centred) ** 2).sum(1)
    which = [*list(range(1, len(graph) - 1))[: num - 1], len(graph) - 1]
    pairs = among(graph, np.arange(len(graph)))
    zero = int((values == 0).sum())
    return GraphSpectrum(
        values,
        waves[:, which],
        tuple(which),
        power / (power.sum() or 1.0),
        zero,
        normalised,
        layout(len(graph), pairs),
        pairs,
    )
