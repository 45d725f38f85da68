"""A large graph out of arrays: features are taken as they are, and may stay in a file.

import leadline as ll
data = ll.data.large_graph("x.npy", "edges.npy", "y.npy", batches="neighbours(10, 10)")
run = ll.fit(ll.models.build("GraphSAGE", data), data)

A file of features is mapped, not read: only the rows that a batch asks for are ever in memory, beside what the system
keeps of the file as long as it has room. Numbers are not scaled, which would need a copy of all, and are to be float32,
as a network computes, for the same reason.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import Account, counted
from leadline.data.arguments import checked
from leadline.data.arrays import arrays
from leadline.data.data import Data, Split
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.graph_inputs import GraphInputs
from leadline.data.graph_tables import Roles
from leadline.data.sampling import sampling
from leadline.errors import DataError


@checked
def large_graph(
    path: Any,
    edges: Any,
    y: Any,
    *,
    batches: str = "neighbours(10)",
    directed: bool = False,
    kind: str | None = None,
    val: float = 0.15,
    test: float = 0.2,
    split_seed: int = 0,
) -> Data:
    """Nodes of one graph, each with a class or a number.

    Args:
        path: features, (N, F): an array, a tensor, or a file that ends in .npy, which is mapped.
        edges: (2, E), nodes where each begins and where it ends: an array, a tensor or such a file.
        y: (N,), or such a file; classes as whole numbers, of which -1 is not known and is asked of nobody; or real.
        batches: what a network reads while it learns (`leadline.data.sampling`); empty reads all.
        directed: False has messages run both ways along each edge.
        kind: what y is, as for `arrays`.
        val, test: parts of the nodes whose y is known.
        split_seed: of the draw.

    >>> x, pairs, y = np.ones((6, 2), np.float32), np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), [0, 1, 0, 1, 0, -1]
    >>> data = large_graph(x, pairs, y)
    >>> data, data.inputs.graph, data.inputs.graph.batches
    (Data(graph: train 3, val 1, test 1; x (1,); y y: 0 or 1), Graph(6 nodes, 10 edges), neighbours(10))
    """
    x, pairs, answers = (_tensor(what, name) for what, name in ((path, "x"), (edges, "edges"), (y, "y")))
    if x.dim() != 2 or len(answers) != len(x) or answers.dim() != 1:
        raise DataError(
            "x must be (nodes, numbers), and y must have one value a node",
            got=f"x of shape {tuple(x.shape)} and y of shape {tuple(answers.shape)}",
            do="Pass arrays of as many rows",
        )
    if x.dtype != torch.float32 and (isinstance(path, (str, Path)) or not x.is_floating_point()):
        raise DataError("x must hold real numbers of 32 bits", got=str(x.dtype), do="Store it as float32")
    if pairs.is_floating_point():
        raise DataError("edges must be whole numbers, places of nodes", got=str(pairs.dtype), do="Store it as int64")
    x = x.float()
    known = (answers.isfinite() if answers.is_floating_point() else answers >= 0).nonzero().flatten()
    graph = Graph(x, Edges.of(pairs.long(), len(x), directed=directed), batches=sampling(batches) if batches else None)
    table = arrays(known.numpy(), answers[known].numpy(), kind=kind, val=val, test=test, split_seed=split_seed)
    inputs = GraphInputs("node", [], [], Roles(key="", ends=("source", "target"), directed=directed))

    def asked(split: Split) -> Split:
        rows = torch.zeros(0, dtype=torch.int64) if split.rows is None else split.rows
        return Split(known[rows][:, None], split.y, None, known[rows])

    files = {"path": path, "edges": edges, "y": y}
    recipe = None
    if all(isinstance(what, (str, Path)) for what in files.values()):
        own = {name: str(Path(what).expanduser().absolute()) for name, what in files.items()}
        more = {"batches": batches, "directed": directed, "kind": kind, "val": val, "test": test}
        recipe = {"source": "large_graph", "options": {**own, **more, "split_seed": split_seed}}
    loops, twice = _odd(graph.edges)
    way = "with a direction" if directed else "without direction"
    notes = [
        f"{len(x)} nodes of {x.shape[1]} numbers and {pairs.shape[1]} edges {way}",
        f"y is known for {len(known)} nodes",
    ]
    notes += [f"{counted(loops, 'edge')} from a node to itself kept"] if loops else []
    both = "" if directed else ", both ways counted"
    notes += [f"{counted(twice, 'edge')} parallel to another kept{both}: each is one more message"] if twice else []
    return replace(
        table,
        train=asked(table.train),
        val=asked(table.val),
        test=asked(table.test),
        inputs=inputs.holding(graph, None),
        name="graph",
        recipe=recipe,
        account=Account("arrays", read=len(x), notes=tuple(notes), one="node"),
    )


def _odd(edges: Edges) -> tuple[int, int]:
    """Loops, and edges whose ends are those of the edge before: they are sorted by both."""
    target = torch.repeat_interleave(edges.start.diff(), output_size=len(edges))  # not kept, unlike edges.target
    same = (edges.source[1:] == edges.source[:-1]) & (target[1:] == target[:-1])
    return int((edges.source == target).sum()), int(same.sum())


def _tensor(what: Any, name: str) -> Tensor:
    if isinstance(what, Tensor):
        return what
    if isinstance(what, (str, Path)):
        file = Path(what).expanduser()
        try:
            what = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{name} must be a file of one array, as numpy.save writes it", got=f"{file} ({error})", do="Save it so"
            ) from None
    if (dtype := np.asarray(what).dtype).kind not in "fiub":
        do = "Write classes as whole numbers, or pass tables to ll.data.graph"
        raise DataError(f"{name} must hold numbers", got=str(dtype), do=do)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")  # it is only read
        return torch.from_numpy(np.asarray(what))
