"""Which nodes an answer at a node comes from: derivatives beside a random walk.

    influence  I_ij = Σ |∂ h_i^K / ∂ x_j|,  over all numbers of both, divided by Σ_j I_ij                        (1)
    walk       W_ij = (P^K)_ij,  P = (D + I)^{-1} (A + I)     K steps from i, staying put allowed                (2)

Where a layer takes the mean over a node and its neighbours and half of the units are shut at random, (1) is (2) in
expectation (Xu et al., 2018): nodes in a dense place are lost in the crowd, and nodes at the end of a path keep to
themselves. `overlap` is Σ_j min(I_ij, W_ij), 1 where they are the same.

Notation   h_i^K what node i has after the last layer, x_j what node j brings
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.graph import Graph
from leadline.lens.at_rest import at_rest
from leadline.lens.graph_drawing import among, around, draw
from leadline.lens.graph_layout import layout
from leadline.lens.on_graphs import graph_of, hops, middle, network_of, one_node, states
from leadline.lens.style import FULL, HUES, INK, blank, colour_bar, label, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class NodeInfluence(View):
    """Args:
    node: i of eq. 1; layers: K.
    influence, walk: eqs. 1 and 2, (N,), each of sum 1.
    steps: from each node to i, (N,); -1 where there is no way.
    overlap: of the two; correlation: of the two over the nodes within reach.
    places, pairs, shown: of a drawing, and which nodes it shows.
    """

    node: int
    layers: int
    influence: np.ndarray
    walk: np.ndarray
    steps: np.ndarray
    overlap: float
    correlation: float
    places: np.ndarray
    pairs: np.ndarray
    shown: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.8)
        first, second, third = figure.subplots(1, 3, width_ratios=[1, 1, 0.95])
        ring = self.shown == self.node
        top = float(max(self.influence.max(), self.walk.max())) ** 0.5
        for ax, values, title in (
            (first, self.influence, f"Influence on node {self.node}"),
            (second, self.walk, f"Random walk of {self.layers} steps"),
        ):
            own = np.sqrt(values[self.shown])
            mesh = draw(ax, self.places, self.pairs, values=own, ring=ring, top=top, faint=own == 0)
            ax.set_title(title)
        colour_bar([first, second], mesh, "root of the share")
        reach = (self.steps >= 0) & (self.steps <= self.layers)
        for k in range(self.layers + 1):
            here = reach & (self.steps == k)
            word = f"{k} step{'' if k == 1 else 's'} away"
            third.plot(self.walk[here], self.influence[here], "o", ms=4, color=HUES[k % len(HUES)], label=word)
        end = float(max(self.walk.max(), self.influence.max())) * 1.05
        third.plot([0, end], [0, end], color=INK, lw=0.8)
        label(third, f"Overlap {self.overlap:.2f}", "share of the walk", "share of the influence", legend=2)
        return figure


def node_influence(model: Any, node: int | None = None, *, most: int = 600, seed: int = 0) -> NodeInfluence:
    """Where the answer at a node comes from, beside a random walk of as many steps as there are layers.

    Args:
        model: a run, or a network that holds a graph. It is left as it was.
        node: None is the one with most edges.
        most: nodes that are drawn.

    >>> from leadline.data.edges import Edges
    >>> from leadline.models import GCN
    >>> path = Graph(torch.eye(4), Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4, directed=False))
    >>> net = GCN(4, 2, dim=8, num_layers=1)
    >>> net.held.put(path)
    >>> view = node_influence(net, 0)
    >>> view.walk.tolist(), (view.influence > 0).tolist()
    ([0.5, 0.5, 0.0, 0.0], [True, True, False, False])
    """
    net = network_of(model)
    graph = graph_of(net)
    at = one_node(graph, node, middle(graph))
    jacobian, layers = jacobians(net, [at])
    size = np.abs(jacobian[0]).sum((0, 2))
    influence = size / (size.sum() or 1.0)
    walk = walked(graph, at, layers)
    steps = hops(graph, at)
    reach = (steps >= 0) & (steps <= layers)
    both = np.stack([influence[reach], walk[reach]])
    varied = reach.sum() > 2 and both.std(1).min() > 0
    shown = np.arange(len(graph)) if len(graph) <= most else around(graph, at, most, seed)
    pairs = among(graph, shown)
    return NodeInfluence(
        at,
        layers,
        influence,
        walk,
        steps,
        float(np.minimum(influence, walk).sum()),
        float(np.corrcoef(both)[0, 1]) if varied else float("nan"),
        layout(len(shown), pairs),
        pairs,
        shown,
    )


def jacobians(net: nn.Module, nodes: list[int]) -> tuple[list[np.ndarray], int]:
    """∂ h_i^K / ∂ x of some nodes i, (D, N, F) each, and K. The network is a copy of `network_of`."""
    graph = graph_of(net)
    x = graph.x.double().clone().requires_grad_()
    with at_rest(net), torch.enable_grad():
        names, kept = states(net, x)
        h = kept[-1]
    out = []
    for i in nodes:
        rows = [_gradient(h[i, d], x) for d in range(h.shape[1])]
        out.append(torch.stack(rows).cpu().numpy())
    return out, len(names) - 1


def _gradient(value: Tensor, x: Tensor) -> Tensor:
    (g,) = torch.autograd.grad(value, x, retain_graph=True, allow_unused=True)
    return torch.zeros_like(x) if g is None else g


def walked(graph: Graph, node: int, steps: int) -> np.ndarray:
    """Eq. 2: where a walk against the edges stands after some steps, (N,)."""
    source, target = graph.edges.pairs.cpu().numpy()
    degree = graph.edges.start.diff().cpu().numpy() + 1.0
    p = np.zeros(len(graph))
    p[node] = 1
    for _ in range(steps):
        share = p / degree
        p = share.copy()
        np.add.at(p, source, share[target])
    return p
