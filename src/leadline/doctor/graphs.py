"""Does the graph help? Nodes without edges, nodes that are alike, neighbours of other classes, more layers than steps.

    agreement  share of edges between labelled nodes whose ends have the same class                              (1)
    chance     Σ_c p_c²,  p_c shares of the classes at the ends of those edges                                   (2)

Sums over neighbours help where (1) is above (2). Below, a layer that gives a node and its neighbours one and the same
map blurs what it should tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.account import counted
from leadline.data.data import Data
from leadline.data.graph import Graph
from leadline.doctor.finding import Finding
from leadline.doctor.words import percent
from leadline.engine.untouched import untouched
from leadline.errors import UserError
from leadline.layers.graph_attention import GraphAttention
from leadline.layers.graph_convolution import GraphConvolution
from leadline.layers.held_graph import asked_of
from leadline.lens.on_graphs import hops, listened

# Where more than half of the nodes have no edge, most answers come from a node's own numbers alone.
MOST_ALONE = 0.5
# Agreement is judged from this many edges on, three standard errors and a fifth below chance.
FEW_EDGES, SIGMAS, BELOW = 100, 3.0, 0.8
# Answers that differ by less than this share of their size are one answer, given float32.
ALIKE = 1e-5
# After training, one answer for all: outputs vary by less than a twentieth, of a logit or of y's deviation, which moves
# no probability by more than a hundredth.
SAME_ANSWER = 0.05
# Ends of the longest ways are looked for from so many nodes, on graphs of at most so many edges.
STARTS, SMALL = 8, 200_000
PROBE_ROWS = 256
PIECE = 4096  # nodes whose numbers are read at a time


def check_graph(model: nn.Module, data: Data) -> list[Finding]:
    """Findings about the graph, and about a network on it; the model is bit for bit as before."""
    graph = data.inputs.graph
    if graph is None or not len(graph):
        return []
    of_network = (_constant, _unlike, _unread, _deep)
    return [*_alone(graph), *(found for check in of_network for found in check(model, data, graph))]


def _alone(graph: Graph) -> list[Finding]:
    touched = torch.zeros(len(graph), dtype=torch.bool, device=graph.edges.source.device)
    apart = graph.edges.source != graph.edges.target
    touched[graph.edges.source[apart]] = touched[graph.edges.target[apart]] = True
    alone = (~touched).nonzero().flatten()
    if not len(alone):
        return []
    share = len(alone) / len(graph)
    return [
        Finding(
            "isolated-nodes",
            "warning" if share > MOST_ALONE and len(graph) > graph.num_graphs else "note",
            "some nodes have no edge to another",
            "the graph",
            f"{len(alone):,} of {counted(len(graph), 'node')} ({percent(share)}), the first are {_some(alone)}",
            "Check that nodes and edges spell ids the same way; if they do, a network that keeps a node's own "
            "numbers (GraphSAGE, or residual='sum') answers for them as an MLP would",
        )
    ]


def _constant(model: nn.Module, data: Data, graph: Graph) -> list[Finding]:
    """Nodes with the same numbers, of which the network makes one answer."""
    if len(graph) < 2 or _varied(graph):
        return []
    out = _answers(model, data)
    if out is None or float(out.std(0).max()) > ALIKE * max(float(out.abs().max()), 1e-12):
        return []
    return [
        Finding(
            "constant-nodes",
            "warning",
            "all nodes have the same numbers, and the network gives all of them the same answer",
            "the graph",
            f"{counted(len(graph), 'node')} with {counted(graph.x.shape[1], 'number')} each, none of which varies; "
            f"{len(out)} answers, all alike",
            "Give nodes columns of their own, or features=('degree',); GIN, whose sums count neighbours, sees degrees",
        )
    ]


def _varied(graph: Graph) -> bool:
    """Whether nodes differ in any number; of a large graph the first of them mostly tell."""
    first = graph.x[:1]
    return any(bool((part != first).any()) for part in graph.x.split(PIECE))


def _answers(model: nn.Module, data: Data) -> Tensor | None:
    """Outputs for a few rows, (B, D), or None where the network cannot be asked."""
    weight = next(model.parameters(), None)
    if weight is None or len(data.train) < 2:
        return None
    x, _ = data.asked(torch.arange(data.few(PROBE_ROWS)))
    with untouched(model, training=False), torch.no_grad():
        try:
            out = model(x.to(weight.device))
        except (RuntimeError, UserError):  # what is wrong there is said by others
            return None
    return out.double().flatten(1) if isinstance(out, Tensor) and bool(out.isfinite().all()) else None


def _unlike(model: nn.Module, data: Data, graph: Graph) -> list[Finding]:
    """Eqs. 1 and 2 over the training nodes."""
    if getattr(data.inputs, "level", "") != "node" or data.target.kind not in ("classes", "binary"):
        return []
    label = torch.full((len(graph),), -1, dtype=torch.int64)
    label[data.train.x[:, 0].long().cpu()] = data.train.y.long().cpu().flatten()
    ends = label[graph.edges.pairs.cpu()]
    ends = ends[:, (ends >= 0).all(0) & (graph.edges.source != graph.edges.target).cpu()]
    num = ends.shape[1] if graph.edges.directed else ends.shape[1] // 2
    if num < FEW_EDGES:
        return []
    agreement = float((ends[0] == ends[1]).double().mean())
    shares = torch.bincount(ends.flatten()).double() / ends.numel()
    chance = float(shares.square().sum())
    error = math.sqrt(max(chance * (1 - chance), 1e-12) / num)
    if agreement > min(BELOW * chance, chance - SIGMAS * error):
        return []
    blurs = any(isinstance(part, (GraphConvolution, GraphAttention)) for part in model.modules())
    kept = getattr(model, "residual", "none") != "none"
    return [
        Finding(
            "unlike-neighbours",
            "warning" if blurs and not kept else "note",
            "neighbours mostly belong to other classes",
            "the graph's training nodes",
            f"{percent(agreement)} of {num:,} edges join nodes of one class, where chance would give {percent(chance)}",
            "Use GraphSAGE or MessageNet with combine='separate', which tell a node from its neighbours, or "
            "residual='concat'; and compare with an MLP on the nodes alone",
        )
    ]


def _unread(model: nn.Module, data: Data, graph: Graph) -> list[Finding]:
    """Weights, features and kinds of edges without which the network answers the same."""
    carried = {"weight": "weights", "features": "features", "relation": "kinds"}
    there = {name: column for name in carried if (column := getattr(graph.edges, name)) is not None}
    there = {name: column for name, column in there.items() if len(column) and bool((column != column[:1]).any())}
    out = _answers(model, data) if there and len(graph.edges) <= SMALL else None
    unread = []
    for name in there if out is not None else ():
        with asked_of(model, replace(graph, edges=graph.edges.with_(**{name: None}))):
            other = _answers(model, data)
        if other is not None and torch.equal(out, other):  # type: ignore[arg-type]
            unread.append(carried[name])
    if not unread:
        return []
    return [
        Finding(
            "unread-edges",
            "note",
            "the network does not read all columns of the edges",
            type(model).__name__,
            f"its answers are the same without the {' and '.join(unread)} of edges",
            "Features are read by GAT, GIN and EdgeNetwork, weights by GCN, GraphSAGE and GIN, kinds by RelationalGCN; "
            "or leave the columns out",
        )
    ]


def _deep(model: nn.Module, data: Data, graph: Graph) -> list[Finding]:
    """More layers than there are steps between any two nodes."""
    if len(graph.edges) > SMALL or graph.num_graphs > 1:
        return []
    with listened(model) as calls:
        if _answers(model, data) is None:
            return []
    layers = len(calls)
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(0))[:STARTS]
    far = 0
    for node in order.tolist():
        steps = hops(graph, node)
        far = max(far, int(steps.max()), int(hops(graph, int(steps.argmax())).max()))  # there and on
    if not 0 < far < layers:
        return []
    return [
        Finding(
            "deeper-than-graph",
            "note",
            "the network has more layers than the graph has steps",
            type(model).__name__,
            f"{layers} layers, and the two nodes farthest apart that were found are {counted(far, 'step')} apart",
            f"{far} layers already read everything; more of them can still compute, and make nodes alike",
        )
    ]


def check_smoothed(data: Data, outputs: Mapping[str, Tensor]) -> list[Finding]:
    """After the run: one answer for all nodes, though their numbers differ.

    >>> from leadline.data.data import Split
    >>> from leadline.data.target import Target
    >>> split = Split(torch.zeros(3, 2), torch.zeros(3))
    >>> check_smoothed(Data(split, split, split, Target("real")), {"train": torch.ones(3, 1)})  # no graph
    []
    """
    graph, out = data.inputs.graph, outputs.get("train")
    if graph is None or out is None or len(out) < 2 or not _varied(graph):
        return []
    spread = float(out.double().flatten(1).std(0).max())
    if spread > SAME_ANSWER:
        return []
    return [
        Finding(
            "over-smoothed",
            "warning",
            "the network gives all nodes the same answer",
            "the trained network",
            f"answers for {counted(len(out), 'row')} vary by {spread:.1g}, though nodes have different numbers",
            "Use fewer layers, residual='sum' or jumping='concat', or GraphSAGE; leadline.lens.over_smoothing shows "
            "after which layer nodes become alike",
        )
    ]


def _some(nodes: Any) -> str:
    return ", ".join(str(int(n)) for n in nodes[:5]) + (", …" if len(nodes) > 5 else "")
