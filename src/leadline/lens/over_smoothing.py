"""Over-smoothing: do nodes become alike with depth?

    energy   E(H) = ½ Σ_ij A_ij ‖h_i / √(1 + d_i) - h_j / √(1 + d_j)‖² / ‖H‖²      = tr(Hᵀ L~ H) / tr(Hᵀ H)       (1)
    spread   S(H) = Σ_i ‖h_i - mean h‖² / ‖H‖²                                                                   (2)

(1) is the Dirichlet energy of what stands at the nodes after each layer, by its own size: between 0, where neighbours
are alike up to degrees, and 2. It is 0 for what a deep stack of normalised sums tends to, and (2) for what a deep stack
of means does. A network whose (1) or (2) falls by the same factor layer by layer forgets which node is which
(Li et al., 2018; Oono and Suzuki, 2020); skips keep it.

Notation   A without directions, with loops of weight 1: L~ = I - D'^{-1/2} (A + I) D'^{-1/2}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.graph import Graph
from leadline.lens.at_rest import at_rest
from leadline.lens.on_graphs import graph_of, network_of, states
from leadline.lens.style import HALF, HUES, blank, label, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST = 1e-17  # drawn for what is 0


@dataclass(frozen=True, eq=False)
class OverSmoothing(View):
    """Args:
    names: "input", then the layers.
    energy, spread: eqs. 1 and 2, before the first layer and after each.
    rate: factor by which a layer changes the spread, a geometric mean; nan where there is one layer.
    """

    names: tuple[str, ...]
    energy: np.ndarray
    spread: np.ndarray
    rate: float

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF + 1.6, 3.5)
        ax = figure.subplots()
        at = np.arange(len(self.names))
        for values, hue, word in (
            (self.energy, HUES[0], "Dirichlet energy / size"),
            (self.spread, HUES[1], "spread around the mean / size"),
        ):
            ax.plot(at, np.maximum(values, _LEAST), "o-", ms=3.5, color=hue, label=word)
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        if high / low < 10:
            ax.set_ylim(low / 4, high * 4)
        if len(at) <= 12:
            long = sum(map(len, self.names)) > 60
            ax.set_xticks(at, self.names, rotation=35 if long else 0, ha="right" if long else "center")
        words = "" if np.isnan(self.rate) else f": spread × {self.rate:.2g} a layer"
        label(ax, f"How alike nodes become{words}", "layer", "share of ‖H‖²", legend=2)
        return figure


def over_smoothing(model: Any) -> OverSmoothing:
    """How alike nodes are after every layer.

    Args:
        model: a run, or a network that holds a graph. It is left as it was.

    >>> from leadline.data.edges import Edges
    >>> from leadline.models import GCN
    >>> path = Graph(torch.eye(4), Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, directed=False))
    >>> net = GCN(4, 2, dim=8, num_layers=3)
    >>> net.held.put(path)
    >>> view = over_smoothing(net)
    >>> view.names, round(float(view.energy[0]), 3), round(float(view.spread[0]), 3)
    (('input', 'stack.layers.0', 'stack.layers.1', 'stack.layers.2'), 0.583, 0.75)
    """
    net = network_of(model)
    with at_rest(net):
        names, kept = states(net)
    graph = graph_of(net)
    energies = np.array([energy_of(h, graph) for h in kept])
    spreads = np.array([spread_of(h) for h in kept])
    inner = spreads[1:]
    rate = float((inner[-1] / inner[0]) ** (1 / (len(inner) - 1))) if len(inner) > 1 and inner[0] > 0 else float("nan")
    return OverSmoothing(names, energies, spreads, rate)


def energy_of(h: Tensor, graph: Graph) -> float:
    """Eq. 1; 0 where h is 0.

    >>> from leadline.data.edges import Edges
    >>> pair = Graph(torch.zeros(2, 1), Edges.of(torch.tensor([[0], [1]]), num_nodes=2, directed=False))
    >>> energy_of(torch.tensor([[1.0], [1.0]]), pair), round(energy_of(torch.tensor([[1.0], [-1.0]]), pair), 9)
    (0.0, 1.0)
    """
    source, target = graph.edges.pairs
    apart = source != target
    source, target = source[apart], target[apart]
    weight = torch.ones_like(source, dtype=torch.float64)
    if graph.edges.weight is not None:
        weight = graph.edges.weight[apart].double()
    half = weight / 2
    degree = torch.ones(len(graph), dtype=torch.float64, device=h.device)
    degree = degree.index_add(0, source, half).index_add(0, target, half)  # of A without directions
    scaled = h.double() / degree.sqrt()[:, None]
    total = (half * (scaled[source] - scaled[target]).square().sum(1)).sum()
    size = h.double().square().sum()
    return float(total / size) if size > 0 else 0.0


def spread_of(h: Tensor) -> float:
    """Eq. 2; 0 where h is 0.

    >>> spread_of(torch.tensor([[1.0], [1.0]])), spread_of(torch.tensor([[1.0], [-1.0]]))
    (0.0, 1.0)
    """
    h = h.double()
    size = h.square().sum()
    return float((h - h.mean(0)).square().sum() / size) if size > 0 else 0.0
