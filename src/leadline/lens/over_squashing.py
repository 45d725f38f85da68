"""Over-squashing: how much of a far node is still felt, and how narrow the way to it is.

    felt        ‖∂ h_i^K / ∂ x_j‖ (Frobenius), a mean over pairs at the same distance                            (1)
    resistance  R_ij = (e_i - e_j)ᵀ L⁺ (e_i - e_j)     of the graph as a net of unit resistors                  (2)
    crowd       nodes within k steps, whose news must all fit into one vector of fixed length                   (3)

Through a bottleneck, R is large and little is felt (Alon and Yahav, 2021; Topping et al., 2022; Black et al., 2023).
`rank` is Spearman's correlation of (1) and (2) over the pairs within reach: near -1 where what is felt falls with
resistance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leadline.lens.node_influence import jacobians
from leadline.lens.on_graphs import dense, few, graph_of, hops, network_of
from leadline.lens.style import FULL, HUES, SOFT, blank, label, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MATRIX = 2000
_SHOWN = 1500  # pairs that are drawn


@dataclass(frozen=True, eq=False)
class OverSquashing(View):
    """Args:
    layers: K.
    distance, felt, resistance: of each pair of nodes that was looked at and lies within K steps, (P,).
    by_distance: eq. 1, from 0 steps to K; nan where no pair is so far apart.
    crowd: eq. 3, mean over the nodes that were looked at, from 0 steps to K.
    rank: of (1) with (2).
    """

    layers: int
    distance: np.ndarray
    felt: np.ndarray
    resistance: np.ndarray
    by_distance: np.ndarray
    crowd: np.ndarray
    rank: float

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.4)
        left, right = figure.subplots(1, 2)
        at = np.arange(self.layers + 1)
        left.plot(at, np.where(self.by_distance > 0, self.by_distance, np.nan), "o-", ms=4, color=HUES[0], label="felt")
        left.set_yscale("log")
        left.xaxis.get_major_locator().set_params(integer=True)
        crowd = left.twinx()
        crowd.plot(at, self.crowd, "o--", ms=3, color=SOFT, label="nodes within as many steps")
        crowd.set(ylabel="nodes", ylim=(0, None))
        crowd.grid(False)
        left.plot([], [], "o--", ms=3, color=SOFT, label="nodes within as many steps")
        label(left, "What a node feels of others", "steps between them", "‖∂h / ∂x‖, mean of pairs", legend=2)
        every = max(1, len(self.felt) // _SHOWN)
        for k in range(1, self.layers + 1):
            own = (self.distance == k) & (self.felt > 0)
            word = f"{k} step{'' if k == 1 else 's'}"
            hue = HUES[k % len(HUES)]
            right.plot(self.resistance[own][::every], self.felt[own][::every], "o", ms=2.5, color=hue, label=word)
        right.set_yscale("log")
        rank = "" if np.isnan(self.rank) else f": rank correlation {self.rank:.2f}".replace("-", "−")
        label(right, f"Against resistance{rank}", "effective resistance (ohms)", "‖∂h / ∂x‖", legend=6)
        return figure


def over_squashing(model: Any, *, num: int = 24, seed: int = 0) -> OverSquashing:
    """How much of other nodes a node feels, against how far and how narrow the way is.

    Args:
        model: a run, or a network that holds a graph of at most 2,000 nodes. It is left as it was.
        num: nodes that are looked at, at random, at least 1.

    >>> from leadline.data.edges import Edges
    >>> from leadline.data.graph import Graph
    >>> from leadline.models import GCN
    >>> path = Graph(torch.eye(4), Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, directed=False))
    >>> net = GCN(4, 2, dim=8, num_layers=2)
    >>> net.held.put(path)
    >>> view = over_squashing(net)
    >>> view.layers, view.crowd.tolist(), int(view.distance.max())
    (2, [1.0, 2.5, 3.5], 2)
    """
    net = network_of(model)
    graph, num = graph_of(net), whole("num", num, 1, usual=24)
    few(graph, _MATRIX, "resistance")
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(whole("seed", seed, 0, usual=0)))
    nodes = [int(n) for n in order[:num]]
    found, layers = jacobians(net, nodes)
    ohms = resistance(dense(graph))
    far = np.stack([hops(graph, n) for n in nodes])
    size = np.stack([np.sqrt((jacobian**2).sum((0, 2))) for jacobian in found])
    reach = (far >= 0) & (far <= layers)
    mean = [size[far == k].mean() if (far == k).any() else np.nan for k in range(layers + 1)]
    crowd = [((far >= 0) & (far <= k)).sum(1).mean() for k in range(layers + 1)]
    apart = reach & (far > 0)
    rank = _spearman(size[apart], ohms[nodes][apart])
    return OverSquashing(
        layers, far[reach], size[reach], ohms[nodes][reach], np.array(mean, dtype=float), np.array(crowd), rank
    )


def resistance(A: np.ndarray) -> np.ndarray:  # noqa: N803
    """Eq. 2 of all pairs, (N, N); directions are left out. Between pieces it means nothing.

    >>> path = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> resistance(path).round(6).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """
    both = (A + A.T) / 2
    both = both - np.diag(np.diag(both))
    inverse = np.asarray(np.linalg.pinv(np.diag(both.sum(1)) - both, hermitian=True))
    own = np.diag(inverse)
    return np.maximum(own[:, None] + own - 2 * inverse, 0)


def _spearman(a: np.ndarray, b: np.ndarray) -> float:
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    mid = []
    for v in (a, b):  # those alike share their mean rank
        codes = np.unique(v.round(12), return_inverse=True)[1].reshape(-1)
        counts = np.bincount(codes)
        mid.append((np.cumsum(counts) - (counts - 1) / 2)[codes])
    return float(np.corrcoef(mid[0], mid[1]).flat[1])
