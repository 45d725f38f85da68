"""Training on a graph of ten million edges by drawing neighbours, and what drawing costs. Prints JSON.

    PYTHONPATH=src python -m benchmarks.sampling [--quick] [--nodes 1000000] [--edges 10000000] [--threads 1]

The graph has planted communities, which are the classes, and skewed degrees; messages run both ways along each edge.
First a GCN is trained by `neighbours(10, 10)` with ll.fit and asked of all nodes, and the peak of the process's memory
is read. Then samplers draw the same batches: ours, a plain Python one (a dictionary and `random.sample`), and PyG's
NeighborLoader where it runs, which needs pyg-lib or torch-sparse; its k_hop_subgraph needs neither.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import leadline as ll
from leadline.data.edges import Edges
from leadline.data.layer_sampling import layers
from leadline.data.neighbours import hops, neighbours
from leadline.data.partitions import num_cut, partition

CLASSES, FEATURES = 16, 64


def planted(num_nodes: int, num_edges: int, labelled: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, edges and classes; 7 edges of 10 stay in a community, and of a pair of nodes the first has more."""
    g = np.random.default_rng(0)
    each = num_nodes // CLASSES
    skewed = lambda n: (g.random(num_edges) ** 2 * n).astype(np.int64)  # noqa: E731 - node i in proportion to i^{-1/2}
    a = skewed(each * CLASSES)
    b = np.where(g.random(num_edges) < 0.7, skewed(each) * CLASSES + a % CLASSES, skewed(each * CLASSES))
    y = np.arange(num_nodes) % CLASSES
    means = g.normal(size=(CLASSES, FEATURES)).astype(np.float32) * 0.15
    x = g.standard_normal((num_nodes, FEATURES), dtype=np.float32)
    x += means[y]
    known = np.full(num_nodes, -1)
    some = g.permutation(num_nodes)[:labelled]
    known[some] = y[some]
    return x, np.stack([a, b]), known


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def trained(x: np.ndarray, edges: np.ndarray, y: np.ndarray, threads: int, epochs: int) -> tuple[Any, dict[str, Any]]:
    peaks = {"made": peak_gb()}
    start = time.perf_counter()
    data = ll.data.large_graph(x, edges, y, batches="neighbours(10, 10)")
    built, peaks["read"] = time.perf_counter(), peak_gb()
    model = ll.models.build("GCN", data, CLASSES, seed=0, dim=64)
    run = ll.fit(model, data, epochs=epochs, batch=1024, lr=1e-2, threads=threads, progress=False)
    fitted, peaks["trained"] = time.perf_counter(), peak_gb()
    accuracy = run.evaluate("test")["accuracy"]
    tested = time.perf_counter()
    whole = run.predict(torch.arange(len(x))[:, None])
    asked, peaks["asked of all nodes"] = time.perf_counter(), peak_gb()
    known = torch.from_numpy(y >= 0)
    rows = ll.data.arrays(x[y >= 0], y[y >= 0], scale=False)
    alone = ll.fit(
        ll.models.build("MLP", rows, CLASSES, seed=0, hidden=(64,)),
        rows,
        epochs=5,
        batch=1024,
        threads=threads,
        progress=False,
    )
    return data, {
        "seconds_to_read": built - start,
        "seconds_to_train": fitted - built,
        "seconds_to_ask_test_nodes": tested - fitted,
        "seconds_to_ask_all_nodes": asked - tested,
        "epochs": epochs,
        "labelled": int(known.sum()),
        "accuracy": accuracy,
        "accuracy_of_mlp_on_the_nodes_alone": alone.evaluate("test")["accuracy"],
        "answers": len(whole),
        "peak_gb": peaks,
    }


def plain_python(seeds: list[int], fan_outs: Iterable[int], start: list[int], source: memoryview) -> int:
    """The loop that a reader would write, up to a tensor for each layer; the number of edges."""
    place = {node: k for k, node in enumerate(seeds)}
    nodes, drawn = list(seeds), 0
    for fan_out in fan_outs:
        pairs = []
        for target in list(nodes):
            low, high = start[target], start[target + 1]
            spots = range(low, high) if high - low <= fan_out else random.sample(range(low, high), fan_out)
            for spot in spots:
                node = source[spot]
                if node not in place:
                    place[node] = len(nodes)
                    nodes.append(node)
                pairs.append((place[node], place[target]))
        drawn += torch.tensor(pairs).shape[0]
    return drawn


def rate(draw: Callable[[int], int], times: int) -> dict[str, float]:
    """Edges a second: the best and the median of several batches, after one to warm up; and edges a second of the
    process's own time, which other work on the machine does not lengthen.
    """
    draw(0)
    found, own, spent = [], [], []
    for k in range(1, times + 1):
        start, begun = time.perf_counter(), time.process_time()
        count = draw(k)
        found.append(count / (time.perf_counter() - start))
        own.append(count / (time.process_time() - begun))
        spent.append(time.process_time() - begun)
    return {
        "edges_a_second": max(found),
        "median": statistics.median(found),
        "of_own_time": statistics.median(own),
        "own_seconds_a_batch": statistics.median(spent),
    }


def pyg(edges: Edges, batches: list[Tensor], fan_outs: list[int], times: int) -> dict[str, Any]:
    try:
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader

        graph = Data(edge_index=edges.pairs, num_nodes=edges.num_targets)
        loader = NeighborLoader(graph, fan_outs, input_nodes=torch.cat(batches), batch_size=len(batches[0]))
        drawn = iter(loader)
        return rate(lambda k: next(drawn).edge_index.shape[1], times)
    except ImportError as error:
        return {"does_not_run": str(error)}


def pyg_hop(edges: Edges, batches: list[Tensor], times: int) -> dict[str, Any]:
    """The neighbourhood that runs without a compiled extension; it has the edges between all of its nodes."""
    try:
        from torch_geometric.utils import k_hop_subgraph
    except ImportError as error:
        return {"does_not_run": str(error)}
    pairs, num = edges.pairs, edges.num_targets
    return rate(lambda k: k_hop_subgraph(batches[k], 1, pairs, relabel_nodes=True, num_nodes=num)[1].shape[1], times)


def samplers(edges: Edges, batch: int, times: int) -> dict[str, Any]:
    g = torch.Generator().manual_seed(1)
    batches = [torch.randperm(edges.num_targets, generator=g)[:batch] for _ in range(times + 1)]
    start, source = edges.start.tolist(), memoryview(edges.source.numpy())
    count = lambda read: sum(map(len, read[1]))  # noqa: E731

    def compared(fan_outs: list[int]) -> dict[str, Any]:
        ours = rate(lambda k: count(neighbours(edges, batches[k], fan_outs, torch.tensor([k]))), times)
        python = rate(lambda k: plain_python(batches[k].tolist(), fan_outs, start, source), min(3, times))
        ratio = ours["of_own_time"] / python["of_own_time"]
        theirs = pyg(edges, batches, fan_outs, times)
        return {"ours": ours, "plain_python": python, "times_plain_python": ratio, "pyg": theirs}

    found: dict[str, Any] = {str(fan_outs): compared(fan_outs) for fan_outs in ([10, 10], [15, 10, 5])}
    found["layers(4096), two of them"] = rate(
        lambda k: count(layers(edges, batches[k], 4096, 2, torch.tensor([k]))), times
    )
    found["hops, one of them"] = {
        "ours": rate(lambda k: count(hops(edges, batches[k], 1)), times),
        "pyg k_hop_subgraph": pyg_hop(edges, batches, min(3, times)),
    }
    return found


def parts(edges: Edges, num_parts: int) -> dict[str, Any]:
    start, begun = time.perf_counter(), time.process_time()
    found = partition(edges, num_parts)
    spent, own = time.perf_counter() - start, time.process_time() - begun
    chance = torch.randperm(len(found), generator=torch.Generator().manual_seed(0)) % num_parts
    sizes = found.bincount(minlength=num_parts)
    return {
        "parts": num_parts,
        "seconds": spent,
        "own_seconds": own,
        "smallest": int(sizes.min()),
        "largest": int(sizes.max()),
        "share_cut": num_cut(edges, found) / len(edges),
        "share_cut_at_random": num_cut(edges, chance) / len(edges),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a hundredth of the graph")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--labelled", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    less = 100 if options.quick else 1
    torch.set_num_threads(options.threads)
    epochs = 20 if options.quick else options.epochs
    x, pairs, y = planted(options.nodes // less, options.edges // less, options.labelled // less)
    data, training = trained(x, pairs, y, options.threads, epochs)
    edges = data.inputs.graph.edges
    found = {
        "nodes": len(x),
        "edges": pairs.shape[1],
        "messages": len(edges),
        "largest_degree": int(edges.degree.max()),
        "threads": options.threads,
        "training": training,
        "samplers": samplers(edges, 1024 if not options.quick else 128, 4 if options.quick else 8),
        "partition": parts(edges, 16),
        "peak_gb_of_all": peak_gb(),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
