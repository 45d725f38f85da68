"""Full-batch training of graph networks through `fit`, beside PyG in one process. Prints JSON.

    PYTHONPATH=src python -m benchmarks.graphs [--only gcn sage gat] [--nodes 169343] [--edges 2315598] [--dim 256]
                                               [--layers 3] [--cpu] [--deterministic]

A random graph of so many nodes and edges, a few of its nodes with very many, 128 numbers a node and 40 classes; on a
CPU by default 100,000 edges, as many a node, and a width of 64. A step is one gradient of the loss of all training
nodes. Steps a second are those of steady training: of ours from the listener of a fit, without its first steps, in
which code is compiled and steps are recorded; of PyG's of a plain loop in the same precision, with its norms kept from
step to step, on a CPU the better of one thread and all. Both optimizers are AdamW. On a GPU the largest memory of each
is told too. `--deterministic` trains ten times with torch's deterministic algorithms alone, tells whether all weights
have the same bits, and what that costs. Each figure goes to stderr as it comes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import leadline as ll
from benchmarks.clock import now
from leadline.data.data import Data, Split
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.inputs import Inputs
from leadline.data.target import Target
from leadline.engine.events import StepsDone

FEATURES, CLASSES, HEADS = 128, 40, 4
MODELS = {"gcn": "GCN", "sage": "GraphSAGE", "gat": "GAT"}


class Asked(Inputs):
    """Rows are numbers of nodes."""

    def __init__(self, graph: Graph | None = None):
        self.graph = graph

    @property
    def config(self) -> dict[str, Any]:
        return {}

    def encode(self, x: Tensor) -> Tensor:
        return x


def drawn(nodes: int, edges: int) -> tuple[Graph, Tensor]:
    """A graph without directions, some of whose nodes have thousands of neighbours, and a class for each node."""
    generator = torch.Generator().manual_seed(0)
    heavy = torch.rand(nodes, generator=generator, dtype=torch.float64).clamp(min=1e-9) ** -0.65
    ends = torch.searchsorted(heavy.cumsum(0) / heavy.sum(), torch.rand(2, edges // 2, generator=generator).double())
    ends = ends.clamp(max=nodes - 1)
    ends[1] = torch.where(ends[0] == ends[1], (ends[1] + 1) % nodes, ends[1])
    x = torch.randn(nodes, FEATURES, generator=generator)
    return Graph(x, Edges.of(ends, nodes, directed=False)), torch.randint(CLASSES, (nodes,), generator=generator)


def data_of(graph: Graph, y: Tensor) -> Data:
    rows = torch.randperm(len(graph), generator=torch.Generator().manual_seed(1))[:, None]
    ends = [0, int(0.54 * len(rows)), int(0.72 * len(rows)), len(rows)]
    train, val, test = (Split(rows[a:b], y[rows[a:b, 0]]) for a, b in itertools.pairwise(ends))
    return Data(train, val, test, Target("classes", classes=tuple(map(str, range(CLASSES)))), Asked(graph))


class Steady:
    """Listens to a fit: seconds of the steps after the first `skip`."""

    def __init__(self, skip: int, last: int):
        self.skip, self.last, self.marks = skip, last, {}  # type: int, int, dict[int, float]

    def __call__(self, event: Any) -> None:
        if isinstance(event, StepsDone) and ((event.step >= self.skip and not self.marks) or event.step == self.last):
            self.marks[event.step] = now()

    @property
    def rate(self) -> float:
        (first, begin), (last, end) = self.marks.items()
        return (last - first) / (end - begin)


def ours(
    name: str, data: Data, options: argparse.Namespace, steps: int, threads: int | None = None
) -> tuple[float, nn.Module]:
    """Steps a second of a fit, and the network."""
    torch.manual_seed(0)
    chosen = {"num_heads": HEADS} if name == "gat" else {}
    model = ll.models.MODELS[MODELS[name]](FEATURES, CLASSES, dim=options.dim, num_layers=options.layers, **chosen)
    listener = Steady(max(3, steps // 4), steps)
    ll.fit(
        model,
        data,
        epochs=steps,
        batch=len(data.train),
        validate_every=steps,
        precision="float32" if options.cpu else "bf16",
        device="cpu" if options.cpu else "cuda",
        compile="off" if options.cpu else options.compile,
        threads=threads,
        listeners=[listener],
        findings=[],  # the doctor reads the whole graph on the host first
        progress=False,
    )
    return listener.rate, model


def theirs(name: str, data: Data, options: argparse.Namespace, steps: int) -> float:
    """Steps a second of a plain loop of PyG's layers."""
    from torch_geometric import nn as pyg

    dims = [FEATURES] + [options.dim] * (options.layers - 1) + [CLASSES]

    def layer(k: int) -> nn.Module:
        if name == "gcn":
            return pyg.GCNConv(dims[k], dims[k + 1], cached=True)
        if name == "sage":
            return pyg.SAGEConv(dims[k], dims[k + 1])
        last = k == options.layers - 1
        width = dims[k + 1] if last else dims[k + 1] // HEADS
        return pyg.GATConv(dims[k], width, HEADS, concat=not last)

    device = "cpu" if options.cpu else "cuda"
    layers = nn.ModuleList(layer(k) for k in range(options.layers)).to(device)
    graph = data.inputs.graph
    x, pairs = graph.x.to(device), graph.edges.pairs.to(device)  # type: ignore[union-attr]
    rows, y = data.train.x[:, 0].to(device), data.train.y.to(device)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=3e-3, fused=True)

    def run(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16, enabled=not options.cpu):
                h = x
                for k, one in enumerate(layers):
                    h = one(h, pairs) if k == options.layers - 1 else one(h, pairs).relu()
                loss = nn.functional.cross_entropy(h[rows].float(), y)
            loss.backward()
            optimizer.step()

    rates = []
    for threads in {1, os.cpu_count() or 1} if options.cpu else {torch.get_num_threads()}:
        torch.set_num_threads(threads)
        run(3)
        begin = now()
        run(steps)
        rates.append(steps / (now() - begin))
    return max(rates)


def measured(work: Callable[[], Any], cpu: bool) -> tuple[Any, float | None]:
    """What it returns, and the most memory that it had, in GiB."""
    if cpu:
        return work(), None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    found = work()
    return found, round(torch.cuda.max_memory_allocated() / 2**30, 3)


def tell(**figures: Any) -> None:
    print(json.dumps(figures), file=sys.stderr, flush=True)


def same_bits(name: str, data: Data, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """Ten fits with deterministic algorithms alone: whether their weights are the same, and what it costs."""
    torch.use_deterministic_algorithms(True)
    rates, states = [], []
    for _ in range(10):
        one, model = ours(name, data, options, max(12, options.steps // 10), threads=1 if options.cpu else None)
        rates.append(one)
        states.append([p.detach().cpu() for p in model.parameters()])
    torch.use_deterministic_algorithms(False)
    same = all(torch.equal(a, b) for other in states[1:] for a, b in zip(states[0], other, strict=True))
    return {"same bits": same, "runs": 10, "steps/s": round(max(rates), 2), "of its speed": round(max(rates) / rate, 3)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--edges", type=int)
    parser.add_argument("--dim", type=int)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--compile", choices=("record", "on", "auto", "off"), default="record")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--deterministic", action="store_true")
    options = parser.parse_args()
    options.nodes = options.nodes or (7_313 if options.cpu else 169_343)
    options.edges = options.edges or (100_000 if options.cpu else 2_315_598)
    options.dim = options.dim or (64 if options.cpu else 256)
    options.steps = options.steps or (20 if options.cpu else 300)
    graph, y = drawn(options.nodes, options.edges)
    data = data_of(graph, y)
    tell(nodes=len(graph), edges=len(graph.edges), most=int(graph.edges.degree.max()))
    found: dict[str, Any] = {"nodes": len(graph), "edges": len(graph.edges), "dim": options.dim}
    for name in options.only:
        (rate, _), memory = measured(lambda: ours(name, data, options, options.steps), options.cpu)  # noqa: B023
        tell(model=name, ours=round(rate, 2), gib=memory)
        few = options.steps if options.cpu else max(10, options.steps // 10)
        peer, peer_memory = measured(lambda: theirs(name, data, options, few), options.cpu)  # noqa: B023
        tell(model=name, pyg=round(peer, 2), gib=peer_memory)
        told = {"ours steps/s": round(rate, 2), "pyg steps/s": round(peer, 2), "ratio": round(rate / peer, 2)}
        if memory and peer_memory:
            told |= {"ours GiB": memory, "pyg GiB": peer_memory, "memory ratio": round(memory / peer_memory, 3)}
        if options.deterministic:
            told["deterministic"] = same_bits(name, data, options, rate)
            tell(model=name, **told["deterministic"])
        found[name] = told
    device = "cpu" if options.cpu else torch.cuda.get_device_name()
    print(json.dumps({**found, "device": device, "torch": torch.__version__}))


if __name__ == "__main__":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when torch first multiplies
    main()
