"""Attention along edges: how much each node takes from each neighbour, layer by layer and head by head.

    p_e      share of edge e among the edges that end in its node, of every head; they sum to 1                  (1)
    focus    1 - H(p) / log d      0 where all d neighbours have the same share, 1 where one has all of it        (2)

(1) is computed again from what `GraphAttention` layers read; of transformers on graphs it is their attention, where
their mask lets it be.

    GCN  D'^{-1/2} (A + I) D'^{-1/2},    self-attention  softmax of all scores,    GAT  softmax where A + I is 1   (3)

The three of (3) mix the same values by different matrices: `mixings` shows them side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.graph_attention import GraphAttention
from leadline.layers.segments import shares
from leadline.lens.at_rest import at_rest
from leadline.lens.graph_drawing import draw
from leadline.lens.graph_layout import layout
from leadline.lens.heads import heard
from leadline.lens.on_graphs import dense, everything, few, graph_of, network_of
from leadline.lens.style import FULL, HUES, INK, blank, colour_bar, label, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWN = 1500
_SHOWN = 3  # layers that have a drawing


@dataclass(frozen=True, eq=False)
class EdgeAttention(View):
    """Args:
    names: path of the module of each attention.
    pairs: of each, (E, 2): where its edges begin and where they end, loops among them.
    weights: eq. 1 of each, (E, H).
    focus: eq. 2 of each, (N, H); nan where a node has one edge or none.
    num_nodes: N.
    places: of a drawing.
    """

    names: tuple[str, ...]
    pairs: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray, ...]
    focus: tuple[np.ndarray, ...]
    num_nodes: int
    places: np.ndarray

    @styled
    def plot(self) -> Figure:
        shown = min(len(self.names), _SHOWN)
        figure = blank(FULL, 3.9)
        axes = figure.subplots(1, shown + 1, width_ratios=[1.25] * shown + [1])
        for ax, name, pairs, weights in zip(axes, self.names, self.pairs, self.weights):
            mean = weights.mean(1)
            apart = pairs[:, 0] != pairs[:, 1]
            own = np.zeros(self.num_nodes)
            own[pairs[~apart, 1]] = mean[~apart]
            top = float(mean[apart].max(initial=0)) or 1.0
            mesh = draw(
                ax, self.places, pairs[apart], values=own, edge_values=mean[apart] / top, top=1.0,
                degree=np.ones(self.num_nodes),
            )  # fmt: skip
            ax.set_title(f"{name}\nwidest line: {top:.2f}", fontsize=9)
        colour_bar(list(axes[:shown]), mesh, "share that a node keeps for itself")
        for k, (name, focus) in enumerate(zip(self.names, self.focus, strict=True)):
            sorted_ = np.sort(focus[np.isfinite(focus)])
            if len(sorted_):
                rise = np.linspace(0, 1, len(sorted_))
                axes[-1].plot(sorted_, rise, color=HUES[k % len(HUES)], label=name)
        axes[-1].set(xlim=(0, 1), ylim=(0, 1.02))
        label(axes[-1], "Focus of nodes and heads", "focus: 0 even, 1 one neighbour", "share of them below", legend=1)
        return figure


def edge_attention(model: Any) -> EdgeAttention:
    """The shares of edges in every attention of a network on a graph.

    Args:
        model: a run, or a network that holds a graph of at most 1,500 nodes. It is left as it was.

    >>> from leadline.data.edges import Edges
    >>> from leadline.data.graph import Graph
    >>> from leadline.models import GAT
    >>> net = GAT(2, 2, dim=4, num_heads=2, num_layers=1)
    >>> net.held.put(Graph(torch.ones(3, 2), Edges.of(torch.tensor([[0, 1], [2, 2]]), num_nodes=3)))
    >>> view = edge_attention(net)
    >>> view.pairs[0].tolist(), view.weights[0][:, 0].round(6).tolist()
    ([[0, 0], [1, 1], [0, 2], [1, 2], [2, 2]], [1.0, 1.0, 0.333333, 0.333333, 0.333333])
    """
    net = network_of(model)
    graph = graph_of(net)
    few(graph, _DRAWN, "a drawing of attention")
    found: list[tuple[str, np.ndarray, np.ndarray]] = []

    def listen(name: str) -> Any:
        def hook(layer: nn.Module, args: tuple[Any, ...], _: Any) -> None:
            if isinstance(layer, GraphAttention):
                h, edges = args
                edges = edges.with_loops() if layer.loops else edges
                p = shares(layer.scores(h, layer.value(h), edges), edges)
                found.append((name, edges.pairs.T.cpu().numpy(), p.double().cpu().numpy()))

        return hook

    handles = [m.register_forward_hook(listen(n)) for n, m in net.named_modules() if isinstance(m, GraphAttention)]
    try:
        with at_rest(net), torch.enable_grad(), heard(net) as calls:
            net(everything(net))
    finally:
        for handle in handles:
            handle.remove()
    found += [(call.name, *_of_matrix(call.weights)) for call in calls if call.weights.shape[2:] == (len(graph),) * 2]
    if not found:
        raise UserError(
            "the network must have attention along edges",
            got=f"{type(net).__name__}, which has no attention",
            do="Take GAT, GraphTransformer, or MessageNet with aggregate='attention'",
        )
    ends = graph.edges.pairs.T.cpu().numpy()
    return EdgeAttention(
        tuple(name for name, *_ in found),
        tuple(pairs for _, pairs, _ in found),
        tuple(weights for *_, weights in found),
        tuple(_focus(pairs, weights, len(graph)) for _, pairs, weights in found),
        len(graph),
        layout(len(graph), ends[ends[:, 0] != ends[:, 1]]),
    )


def _of_matrix(weights: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Pairs, and their weights, of attention that is written out, (1, H, N, N)."""
    own = weights[0].detach().double().cpu().numpy()
    target, source = np.nonzero(own.max(0) > 0)
    return np.stack([source, target], 1), own[:, target, source].T


def _focus(pairs: np.ndarray, weights: np.ndarray, num: int) -> np.ndarray:
    """Eq. 2, (N, H)."""
    entropy = np.zeros((num, weights.shape[1]))
    np.add.at(entropy, pairs[:, 1], -weights * np.log(np.maximum(weights, 1e-300)))
    degree = np.bincount(pairs[:, 1], minlength=num)
    most = np.log(np.maximum(degree, 1))[:, None]
    return np.where(most > 0, 1 - entropy / np.where(most > 0, most, 1), np.nan)


@dataclass(frozen=True, eq=False)
class Mixings(View):
    """Args:
    matrices: eq. 3 by name, (N, N) each: what node i takes from node j stands in row i.
    """

    matrices: dict[str, np.ndarray]

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.5)
        axes = figure.subplots(1, len(self.matrices))
        top = max(float(matrix.max()) for matrix in self.matrices.values())
        for ax, (name, matrix) in zip(axes, self.matrices.items()):
            mesh = ax.imshow(matrix, cmap="Greys", vmin=0, vmax=top, interpolation="nearest")
            ax.grid(False)
            ax.set(xlabel="from node j", ylabel="node i" if ax is axes[0] else "")
            zero = int((matrix == 0).sum())
            ax.set_title(f"{name}: {zero} of {matrix.size} are 0", fontsize=9, color=INK)
        colour_bar(list(axes), mesh, "weight")
        return figure


def mixings(source: Any, dim: int = 8, seed: int = 0) -> Mixings:
    """How a graph convolution, self-attention and graph attention mix the same nodes, with weights at random.

    Args:
        source: a graph, or data, a run or a network that has one; at most 1,500 nodes.
        dim: width of queries, keys and values.

    >>> from leadline.data.edges import Edges
    >>> path = Edges.of(torch.tensor([[0, 1], [1, 2]]), num_nodes=3, directed=False)
    >>> [int((matrix == 0).sum()) for matrix in mixings(path).matrices.values()]
    [2, 0, 2]
    """
    graph = graph_of(source)
    few(graph, _DRAWN, "a matrix of attention")
    rng = np.random.default_rng(seed)
    x = graph.x.double().cpu().numpy()
    near = dense(graph, weighted=False) + np.eye(len(graph))
    d = near.sum(1)
    draws = lambda *shape: rng.standard_normal(shape) / shape[0] ** 0.5  # noqa: E731
    q, k, v = (x @ draws(x.shape[1], dim) for _ in range(3))
    phi, psi = draws(dim), draws(dim)
    pair = (v @ phi)[:, None] + v @ psi
    return Mixings(
        {
            "graph convolution": near / np.sqrt(d[:, None] * d),
            "self-attention": _softmax(q @ k.T / dim**0.5, np.ones_like(near)),
            "graph attention": _softmax(np.where(pair > 0, pair, 0.2 * pair), near),
        }
    )


def _softmax(scores: np.ndarray, may: np.ndarray) -> np.ndarray:
    e = np.where(may > 0, np.exp(scores - scores.max(1, keepdims=True)), 0)
    return e / e.sum(1, keepdims=True)
