"""What a network reads of a graph: numbers of nodes, of pairs of nodes or of graphs, and the graph that they are in.

    level      a row                asks of
    node       (1,)                 a node
    edge       (2,)                 a pair of nodes, joined or not
    graph      (1,)                 one of many graphs

Columns of nodes and edges become numbers as those of a table do (`leadline.data.columns`), by the figures of the nodes
that training reads: all of them where one graph is given whole, the training nodes alone where the others are not
seen. A graph is far larger than what is to be known of it, so that a record has its digest: a run that is read back
finds the graph where its recipe says, and without it still reads new graphs of the same columns.

Shapes     rows (B, 1) or (B, 2), whole numbers
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.config import plain
from leadline.data.account import counted
from leadline.data.cells import Cells, Table, Text
from leadline.data.columns import Column, TableInputs
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.graph_formats import graph_tables, is_graph
from leadline.data.graph_links import strangers
from leadline.data.graph_tables import Found, Roles, find
from leadline.data.inputs import Inputs
from leadline.data.raw import read_numbers, shown, words_of
from leadline.data.words import plain_text
from leadline.errors import DataError, ShapeError

#: what a network may read of a node
FEATURES = ("columns", "degree", "constant", "one-hot")
_TOGETHER = 2**20  # rows that are answered in one pass
MOST_ONE_HOT = 5000  # nodes, of which each has a number of its own


@dataclass(frozen=True, eq=False)
class NewGraph:
    """A graph that a user brings to predict on, as a network reads it.

    Args:
        graph: of the columns that the model was trained on.
        rows: (B, 1) or (B, 2), what is asked.
        names: of the nodes, pairs or graphs that are asked.
        table: a row of columns for each of them.
    """

    graph: Graph
    rows: Tensor
    names: tuple[Any, ...]
    table: Table


class GraphInputs(Inputs):
    """Args:
        level: what rows are numbers of: "node", "edge" or "graph".
        columns, edge_columns: what is read of nodes and edges, as `Column` or as the dictionaries of its fields.
        roles: what the other columns are for, as `Roles` or as its fields.
        relations, kinds: names of the kinds of edges and of nodes, by their numbers.
        digest: of the graph.
        hidden: whether links are held out of the graph.

    >>> inputs = GraphInputs("node", [], [], Roles(key="id", ends=("from", "to"), features=("constant",)))
    >>> new = inputs.brought({"nodes": {"id": ["a", "b"]}, "edges": {"from": ["a"], "to": ["b"]}})
    >>> new.graph, new.rows.tolist(), new.names
    (Graph(2 nodes, 2 edges), [[0], [1]], ('a', 'b'))
    """

    def __init__(
        self,
        level: str,
        columns: Sequence[Column | Mapping[str, Any]],
        edge_columns: Sequence[Column | Mapping[str, Any]],
        roles: Roles | Mapping[str, Any],
        relations: Sequence[str] = (),
        kinds: Sequence[str] = (),
        digest: str = "",
        hidden: bool = False,
    ):
        self.hidden = hidden
        self.level, self.relations, self.kinds, self.digest = level, tuple(relations), tuple(kinds), digest
        self.of_nodes, self.of_edges, self.roles = TableInputs(columns), TableInputs(edge_columns), Roles.of(roles)
        self.graph: Graph | None = None
        self.ids: tuple[str, ...] | None = None
        self.links: Tensor | None = None  # codes of all links, where pairs without one are drawn
        self.raw: Tensor | None = None  # values of the nodes' columns, where there are many graphs

    @property
    def config(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "columns": self.of_nodes.config["columns"],
            "edge_columns": self.of_edges.config["columns"],
            "roles": plain(asdict(self.roles)),
            "relations": list(self.relations),
            "kinds": list(self.kinds),
            "digest": self.digest,
            "hidden": self.hidden,
        }

    def holding(self, graph: Graph, ids: Sequence[str] | None) -> GraphInputs:
        """The same with a graph; ids: names of its nodes, or of its graphs where rows are graphs."""
        config = {**self.config, "digest": digest_of(graph)}
        new = GraphInputs(**config)
        new.graph, new.ids = graph, None if ids is None else tuple(ids)
        return new

    @property
    def together(self) -> int | None:  # type: ignore[override]
        """All nodes are read for one that is asked, so that many are asked at once."""
        return None if self.level == "graph" else _TOGETHER

    def learned(self, rows: Tensor) -> GraphInputs:
        """The same for other training rows: of one graph that is seen whole nothing changes, of many graphs the figures
        are learned anew, on the nodes of those that train.
        """
        graph = self._need()
        if graph.taught is not None or self.hidden:
            raise DataError(
                "folds need a graph of which training sees every edge",
                got="links that are held out" if self.hidden else "inductive=True",
                do="Leave folds out, or train with several seeds",
            )
        if self.level != "graph" or self.raw is None:
            return self
        own = torch.zeros(graph.num_graphs, dtype=torch.bool)
        own[rows[:, 0]] = True
        seen = self.raw[own[graph.of_node]].numpy()
        columns = [relearned(column, seen[:, j]) for j, column in enumerate(self.of_nodes.columns)]
        new = GraphInputs(**{**self.config, "columns": [plain(asdict(column)) for column in columns]})
        x = torch.cat([new.of_nodes.encode(self.raw), graph.x[:, self.of_nodes.width :]], 1)
        new = new.holding(replace(graph, x=x), self.ids)
        new.raw = self.raw
        return new

    def encode(self, x: Tensor) -> Tensor:
        width = 2 if self.level == "edge" else 1
        if x.dim() != 2 or x.shape[1] != width or x.is_floating_point():
            raise ShapeError(
                f"rows must be {'pairs of numbers of nodes' if width == 2 else f'the number of a {self.level} each'}",
                got=f"{x.dtype} of shape {tuple(x.shape)}",
                do=f"Pass whole numbers of shape (n, {width}), or names to run.predict",
            )
        return x

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether rows of -1, -1 stand for pairs without a link, which are drawn."""
        return self.links is not None

    def drawn(self, x: Tensor, y: Tensor, keys: Tensor | None) -> tuple[Tensor, Tensor]:
        if keys is None or self.links is None or self.graph is None:
            return x, y
        self.links = self.links.to(x.device)
        pairs = strangers(keys, self.links, len(self.graph), self.roles.directed)
        return torch.where(x < 0, pairs, x), y

    def ordered(self, x: Tensor, order: Tensor) -> Tensor:
        if self.graph is None or self.graph.batches is None or self.level == "graph":
            return order
        return self.graph.batches.ordered(self.graph.while_learning.edges, x[:, 0], order)

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        width = self.of_nodes.width if self.graph is None else self.graph.x.shape[1]
        both = {"edge_head": "mlp"} if self.level == "edge" and self.roles.directed else {}  # it tells the ends apart
        return both | {
            "level": self.level,
            "dim_input": width,
            "dim_edge": self.of_edges.width,
            "num_relations": len(self.relations) or 1,
            "num_kinds": len(self.kinds) or 1,
        }

    def dim(self, x: Tensor) -> int:
        return self.sizes(tuple(x.shape[1:]))["dim_input"]

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the numbers that a network reads of a node."""
        own = self.of_nodes.encoded_names()
        if "constant" in self.roles.features:
            own = (*own, "constant")
        if "one-hot" in self.roles.features:
            own = (*own, *(f"is {name}" for name in self.ids or ()))
        return own

    def read(self, rows: Any) -> Tensor:
        """Rows of names, pairs of names, whole numbers (n, 1) or (n, 2) as they are; or of what `brought` gave."""
        if isinstance(rows, NewGraph):
            return rows.rows
        width = 2 if self.level == "edge" else 1
        if isinstance(rows, (Tensor, np.ndarray)) and rows.ndim == 2 and np.asarray(rows).dtype.kind in "iu":
            x = torch.as_tensor(np.asarray(rows)).long()
            self._check_range(x)
            return self._in_order(self.encode(x))
        if isinstance(rows, (Tensor, np.ndarray)):
            rows = rows.tolist()
        if isinstance(rows, (str, int)) or (isinstance(rows, tuple) and width == 2 and len(rows) == 2):
            rows = [rows]
        try:
            listed = list(rows)
            asked = [list(row) if width == 2 else [row] for row in listed]
            if any(len(row) != width or (width == 2 and isinstance(own, str)) for row, own in zip(asked, listed)):
                raise TypeError
        except TypeError:
            raise DataError(
                f"rows must be {'pairs of names of nodes' if width == 2 else f'names of {self.level}s'}",
                got=f"{type(rows).__name__}",
                do='Pass a list, or {"nodes": …, "edges": …} for a new graph',
            ) from None
        numbers = [[self._number(name) for name in row] for row in asked]
        return self._in_order(torch.tensor(numbers, dtype=torch.int64).reshape(-1, width))

    def _in_order(self, pairs: Tensor) -> Tensor:
        """Of links without a direction the lower number first, as in training."""
        return pairs.sort(1).values if self.hidden and not self.roles.directed else pairs

    def told(self, row: Tensor) -> str:
        """A row in words: the name of what it asks of, and how much there is around it."""
        graph = self._need()
        names = [str(k) if self.ids is None or k < 0 else self.ids[k] for k in row.tolist()]
        if min(row.tolist()) < 0:
            return "two nodes without a link, drawn anew each time"
        if self.level == "graph":
            begin, end = graph.bounds[row[0]], graph.bounds[row[0] + 1]
            edges = int(graph.edges.start[end] - graph.edges.start[begin]) // (1 if graph.edges.directed else 2)
            return f"graph {names[0]}: {counted(int(end - begin), 'node')}, {counted(edges, 'edge')}"
        each = [f"{name} ({counted(int(graph.edges.degree[k]), 'edge')})" for name, k in zip(names, row.tolist())]
        return f"node{'s' if each[1:] else ''} {' and '.join(each)}"

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.ids or ())}

    def _number(self, name: Any) -> int:
        held = self._need()
        if isinstance(name, (float, np.floating)) and float(name).is_integer():
            name = int(name)
        word = plain_text(float(name)) if isinstance(name, (int, np.integer)) else str(name).strip()
        count = held.num_graphs if self.level == "graph" else len(held)
        place = self._numbers.get(word, -1) if self.ids is not None else int(word) if word.isdecimal() else -1
        if not 0 <= place < count:
            one = "graph" if self.level == "graph" else "node"
            some = ", ".join((self.ids or tuple(map(str, range(min(4, count)))))[:4])
            raise DataError(
                f"rows must name {one}s of the graph that the run was trained on: {some} … ({count} in all)",
                got=repr(name),
                do='Correct the name, or pass a new graph: {"nodes": …, "edges": …}',
            )
        return place

    def _check_range(self, x: Tensor) -> None:
        held = self._need()
        count = held.num_graphs if self.level == "graph" else len(held)
        if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < count:
            raise DataError(
                f"rows must be numbers 0 … {count - 1}",
                got=f"{int(x.min())} … {int(x.max())}",
                do="Pass names instead, or other numbers",
            )

    def _need(self) -> Graph:
        if self.graph is None:
            raise DataError(
                "to predict nodes of the graph that the run was trained on, its files must still be there, unchanged",
                got="none",
                do='Put its files back, or pass a new graph: {"nodes": …, "edges": …}',
            )
        return self.graph

    def brought(self, rows: Any) -> Any:
        """What a user brings as a graph of its own, read as those of training; all else as it is."""
        if isinstance(rows, NewGraph) or not is_graph(rows):
            return rows
        nodes, edges, _ = graph_tables(rows, None if self.level != "graph" else self.roles.graph or "graph")
        return self.new_graph(nodes, edges)

    def new_graph(self, nodes: Table | None, edges: Table, bad_edges: str = "error") -> NewGraph:
        """The graph of two tables, of which every node, edge or graph is asked."""
        if "one-hot" in self.roles.features:
            raise DataError(
                "a model trained with features=one-hot can only predict nodes that it was trained with",
                got="a new graph",
                do='Train on columns of the nodes, or with features="degree"',
            )
        found = find(nodes, edges, self._roles_for(nodes, edges), bad_edges)
        raw = self.of_nodes.read(self.with_degree(found)) if self.of_nodes.columns else None
        graph = self.graph_of(found, raw)
        names = found.names or tuple(map(str, range(len(found.nodes))))
        if self.level == "graph":
            graphs = found.graphs or ("1",)
            table = Table({self.roles.graph or "graph": Text(list(graphs))}, np.arange(len(graphs)))
            return NewGraph(graph, torch.arange(graph.num_graphs)[:, None], graphs, table)
        if self.level == "node":
            return NewGraph(graph, torch.arange(len(graph))[:, None], names, found.nodes)
        pairs = torch.from_numpy(found.pairs.T.copy())
        asked = tuple((names[a], names[b]) for a, b in found.pairs.T.tolist())
        return NewGraph(graph, self._in_order(pairs), asked, found.edges)

    def _roles_for(self, nodes: Table | None, edges: Table) -> Roles:
        """Those of training, as far as names of columns that are not there can be found out again."""
        own = asdict(self.roles)
        if nodes is not None and self.roles.key and self.roles.key not in nodes.columns:
            own["key"] = None
        if nodes is not None and not self.roles.key:
            own["key"] = "" if "id" not in nodes.columns else None
        if not set(self.roles.ends) <= set(edges.columns):
            own["ends"] = ()
        if self.roles.graph is not None and (nodes is None or self.roles.graph not in nodes.columns):
            own["graph"] = None
        return Roles.of(own)

    def with_degree(self, found: Found) -> Table:
        """The nodes with a column of how many edges each has, where that is read."""
        if "degree" not in self.roles.features:
            return found.nodes
        columns = {**found.nodes.columns, "degree": found.degree.astype(np.float64)}
        return Table(columns, found.nodes.numbers, found.nodes.word, found.nodes.source)

    def graph_of(self, found: Found, raw: Tensor | None, keep: np.ndarray | None = None) -> Graph:
        """The graph as a network reads it.

        Args:
            raw: values of the nodes' columns; None where none is read.
            keep: edges that are there; None is all.
        """
        count = len(found.nodes)
        parts = [] if raw is None else [self.of_nodes.encode(raw)]
        if "constant" in self.roles.features:
            parts.append(torch.ones(count, 1))
        if "one-hot" in self.roles.features:
            parts.append(torch.eye(count))
        return Graph(
            torch.cat(parts, 1) if parts else torch.zeros(count, 0),
            self.edges_of(found, keep),
            None if found.first is None else torch.from_numpy(found.first.astype(np.int64)),
            self._codes(found.nodes, self.roles.node_kind, self.kinds),
        )

    def edges_of(self, found: Found, keep: np.ndarray | None = None) -> Edges:
        """The edges with what is read of each."""
        table = found.edges
        weight = None
        if self.roles.weight is not None:
            weight = torch.from_numpy(numbers_of(table, self.roles.weight).astype(np.float32))
        features = None
        if self.of_edges.columns:
            features = self.of_edges.encode(self.of_edges.read(table))
        columns = {
            "weight": weight,
            "features": features,
            "relation": self._codes(table, self.roles.relation, self.relations),
            "number": torch.arange(len(table)),
        }
        pairs = torch.from_numpy(np.ascontiguousarray(found.pairs))
        if keep is not None:
            kept = torch.from_numpy(keep)
            pairs = pairs[:, kept]
            columns = {name: None if c is None else c[kept] for name, c in columns.items()}
        return Edges.of(pairs, len(found.nodes), directed=self.roles.directed, **columns)

    def _codes(self, table: Table, name: str | None, known: Sequence[str]) -> Tensor | None:
        if name is None:
            return None
        if name not in table.columns:
            raise DataError(
                f"{table.source} must have the column {name}",
                got=f"the columns {', '.join(list(table.columns)[:6])}",
                do="Add it, as the graph that the model was trained on has it",
            )
        return torch.from_numpy(codes_of(table, name, known))


def relearned(own: Column, values: np.ndarray) -> Column:
    """The column with the figures of other raw values, in the same form."""
    fitted = Column.fit(own.name, own.kind, values, style=own.style, levels=own.levels, log=own.log)
    return replace(fitted, gaps=own.gaps, cycles=own.cycles)


def codes_of(table: Table, name: str, known: Sequence[str]) -> np.ndarray:
    """Numbers of the kinds in a column."""
    words, codes = words_of(table.columns[name])
    place = {word: k for k, word in enumerate(known)}
    lost = [word for word in words if word not in place]
    if lost:
        raise DataError(
            f"{name} must hold kinds that were there in training: {', '.join(known[:6])}",
            got="an empty cell" if None in lost else ", ".join(map(str, lost[:5])),
            do="Correct the column, or train with these kinds too",
        )
    return np.array([place[str(word)] for word in words], dtype=np.int64)[codes]


def numbers_of(table: Table, name: str) -> np.ndarray:
    """A column of finite numbers without a gap."""
    cells: Cells = table.columns[name]
    values, misfit = read_numbers(cells)
    wrong = np.flatnonzero(misfit | ~np.isfinite(values))
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{name} must be a finite number in every row of {table.source}",
            got=f"{'nothing' if cells[row] in (None, '') else shown(cells, row)} in {table.at(row)}"
            + (f" ({counted(len(wrong), 'such cell')})" if len(wrong) > 1 else ""),
            do="Correct the cell",
        )
    return values


def digest_of(graph: Graph) -> str:
    """A hash of every number of a graph.

    >>> one = Graph(torch.zeros(2, 1), Edges.of(torch.tensor([[0], [1]]), num_nodes=2))
    >>> digest_of(one) == digest_of(Graph(torch.zeros(2, 1), one.edges)), len(digest_of(one))
    (True, 64)
    """
    digest = hashlib.sha256()
    parts: dict[str, Any] = {field.name: getattr(graph, field.name) for field in fields(graph)}
    parts |= {f"edges.{field.name}": getattr(graph.edges, field.name) for field in fields(graph.edges)}
    for name, value in parts.items():
        if isinstance(value, Tensor):
            own = value.contiguous().cpu()
            digest.update(f"{name} {own.dtype} {tuple(own.shape)}".encode())
            digest.update(own.view(torch.uint8).numpy().data if own.numel() else b"")
        elif not isinstance(value, Edges):
            digest.update(f"{name} {value}".encode())
        elif name != "edges":
            digest.update(f"{name} {digest_of(Graph(graph.x, value))}".encode())
    return digest.hexdigest()
