"""Own graphs: a table of nodes and a table of edges become `Data` in one call.

import leadline as ll
data = ll.data.graph("nodes.csv", "edges.csv", target="label")     # a class or number of each node
data = ll.data.graph("nodes.csv", "edges.csv", target="price")     # a column of the edges: of each edge
data = ll.data.graph("edges.csv", level="links")                   # which nodes are joined
data = ll.data.graph("nodes.csv", "edges.csv", graph="molecule", graphs="molecules.csv", target="toxic")
print(data.account)          # what each column is, what was odd about the edges, who trains and who tests
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.config import plain
from leadline.data.account import Account, Refusal, counted
from leadline.data.arguments import checked
from leadline.data.cells import Table
from leadline.data.columns import named
from leadline.data.data import Data, Split
from leadline.data.frame import stem
from leadline.data.graph_columns import graph_inputs
from leadline.data.graph_formats import array_tables, graph_tables, is_graph, table_in
from leadline.data.graph_inputs import FEATURES
from leadline.data.graph_rows import Asked, GraphPlan, rows_of
from leadline.data.graph_tables import Found, Roles, find
from leadline.data.outcome import with_figures
from leadline.data.outcomes import kinds_of
from leadline.data.sampling import Sampling, sampling
from leadline.data.splits import split_indices
from leadline.errors import DataError, UserError

LEVELS = ("node", "edge", "links", "graph")


@checked
def graph(
    path: Any,
    edges: Any = None,
    target: Any = None,
    *,
    level: str | None = None,
    key: str | None = None,
    ends: Sequence[str] = (),
    directed: bool | None = None,
    weight: str | None = None,
    relation: str | None = None,
    node_kind: str | None = None,
    graph: str | None = None,
    graphs: Any = None,
    features: Sequence[str] = (),
    kind: str | Sequence[str] | None = None,
    order: Sequence[str] = (),
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    log: Sequence[str] = (),
    bad_edges: str = "error",
    inductive: bool = False,
    val: float = 0.15,
    test: float = 0.2,
    split: str | None = None,
    split_seed: int = 0,
    negatives: float = 1.0,
    batches: str = "",
) -> Data:
    """The graph of two tables.

    Args:
        path: the nodes: a file that ends in .csv, .tsv or .parquet, a data frame, or an array (nodes, numbers). Or the
            whole graph: a folder with nodes.csv and edges.csv, a GraphML file, a networkx graph, an object of PyG, a
            list of such graphs. Or, without edges, an edge list.
        edges: a file, a data frame, or an array of pairs of nodes' places, (2, E) or (E, 2).
        target: the column to predict, of nodes, of edges or of graphs; for arrays the values themselves. A node
            without a value is a neighbour, and is asked of nobody.
        level: what is predicted: node, edge, graph, or links, which says whether two nodes are joined; by default where
            target is.
        key: the column of nodes that names each; by default id, node or name, or one that edges name.
        ends: the two columns of edges; by default source and target, from and to, src and dst, and the like.
        directed: whether an edge is one way alone; by default it is both.
        weight: a column of edges, by which messages are multiplied.
        relation: a column of edges that says of which kind each is.
        node_kind: a column of nodes that says of which kind each is.
        graph: a column of nodes that says of many graphs which each is in.
        graphs: a table with a row for each graph, which has that column and target.
        features: what is read of a node: columns, degree, constant, one-hot; by default its columns, and without any
            one-hot in a small graph and degree in others.
        kind, order: what the target is, as for a table.
        drop, categories, log: columns of nodes and edges, as for a table.
        bad_edges: "error", or "drop" to leave out edges to nodes that are not there.
        inductive: while it learns, a network does not see validation and test nodes, nor their edges.
        val, test: parts of what is asked, each from 0 and together below 1; classes are spread evenly.
        split: a column of nodes (of graphs, of edges) that holds train, val or test, instead.
        split_seed: of the draw, any whole number; of the pairs that are not joined, too.
        negatives: of links, pairs that are not joined for each that is, above 0.
        batches: what a network reads of a large graph while it learns: hops, neighbours(10, 10), heavy(10, 10),
            layers(512), walks(4) or parts(32) (`leadline.data.sampling`); by default all of it.

    >>> nodes = {"id": [*"abcdefgh"], "age": [1, 2, 3, 4, 5, 6, 7, 8.0], "side": ["l", "r"] * 4}
    >>> edges = {"from": [*"abcdefg"], "to": [*"cdefghh"]}
    >>> data = graph(nodes, edges, target="side")
    >>> data
    Data(graph: train 5, val 1, test 2; x (1,); y side: l or r)
    >>> print(data.account)
    nodes and edges: 8 nodes read, 8 used, 0 refused
      side: l or r, the target, of nodes
      age: number
      8 nodes and 7 edges without direction
      edges run from from to to
      id names the nodes
    """
    if val < 0 or test < 0 or val + test >= 1:
        split_indices(1, val=val, test=test)
    way = sampling(batches) if batches else None
    brought = _brought(path, edges, target)
    more = brought.more
    target = brought.target if brought.target is not None else target
    column = lambda name, own: own if own not in (None, ()) else more.get(name, own)  # noqa: E731
    graphs = graphs if graphs is not None else more.get("graphs")
    roles = Roles(
        key=column("key", key),
        ends=tuple(column("ends", tuple(ends)) or ()),
        directed=bool(column("directed", directed)),
        weight=column("weight", weight),
        relation=column("relation", relation),
        node_kind=column("node_kind", node_kind),
        graph=column("graph", graph),
    )
    of_graphs = None if graphs is None else table_in(graphs, "graphs")
    names = _target_names(target, brought, of_graphs, level, roles.graph)
    if weight is None and roles.weight in names:  # which its source calls so, and which is asked here
        roles = replace(roles, weight=None)
    plan = GraphPlan(
        names,
        _level(target, level, brought.nodes, brought.edges, of_graphs, roles),
        kinds_of(column("kind", kind) if names == ("y",) else kind, 1),
        tuple(order),
        (tuple(drop), tuple(categories), tuple(log)),
        (val, test, split_seed),
        column("split", split),
        _features_asked(features),
        inductive,
        negatives,
    )
    if way is not None and plan.level == "graph":
        raise UserError(
            "batches needs one large graph: with many graphs, each batch reads whole graphs",
            got=f"batches {way} and many graphs",
            do="Leave it out",
        )
    _check_named(brought, {"drop": drop, "categories": categories, "log": log})
    found = find(brought.nodes, brought.edges, roles, bad_edges)
    _check_free(plan, found.roles)
    data = _data(found, plan, of_graphs, brought, way)
    recipe = None
    if brought.files:
        names = ("level", "key", "directed", "weight", "relation", "node_kind", "graph", "kind", "bad_edges")
        own: dict[str, Any] = dict(
            zip(names, (level, key, directed, weight, relation, node_kind, graph, kind, bad_edges))
        )
        own |= {"inductive": inductive, "val": val, "test": test, "split": split, "split_seed": split_seed}
        lists = {"ends": ends, "features": features, "order": order, "drop": drop, "categories": categories, "log": log}
        options = {**brought.files, "target": target, **own, **{n: list(v) for n, v in lists.items() if v}}
        if plan.level == "links":
            options["negatives"] = negatives
        if batches:
            options["batches"] = batches
        if isinstance(graphs, (str, Path)):
            options["graphs"] = str(Path(graphs).expanduser().absolute())
        if graphs is None or "graphs" in options or "graphs" in more:
            recipe = {"source": "graph", "options": plain(options)}
    return replace(data, recipe=recipe)


@dataclass(frozen=True, eq=False)
class _Brought:
    """What a user passed: two tables, their files, their name, and what else their source says."""

    nodes: Table | None
    edges: Table
    name: str
    files: dict[str, str]
    more: dict[str, Any]
    target: str | None = None


def _brought(path: Any, edges: Any, target: Any) -> _Brought:
    place = lambda what: str(Path(what).expanduser().absolute())  # noqa: E731
    named_file = isinstance(path, (str, Path))
    if edges is None and isinstance(path, Tensor | np.ndarray):
        raise DataError("a graph of arrays must have edges", got="x alone", do="Pass graph(x, edges, y)")
    if isinstance(path, Tensor | np.ndarray) or (
        isinstance(path, list) and path and isinstance(path[0], (list, tuple))
    ):
        y = target if target is not None and not isinstance(target, str) else None
        x, links = array_tables(path, edges, y)
        own = {"key": "", "ends": ("source", "target")}
        return _Brought(x, links, "graph", {}, own, None if y is None else "y")
    if target is not None and not isinstance(target, (str, list, tuple)):
        raise DataError(
            "target must name a column", got=f"target as {type(target).__name__}", do='Write it in quotes: target="…"'
        )
    if edges is None and is_graph(path):
        nodes, links, more = graph_tables(path)
        files = {"path": place(path)} if named_file else {}
        name = stem(Path(path)) if named_file else "graph"
        has_y = nodes is not None and "y" in nodes.columns and not named_file
        return _Brought(nodes, links, name, files, more, "y" if has_y and target is None else None)
    if edges is None:
        if named_file and Path(path).expanduser().is_dir():
            graph_tables(path)  # refuses it by name
        return _Brought(
            None, table_in(path, "edges"), stem(Path(path)) if named_file else "graph",
            {"path": place(path)} if named_file else {}, {},
        )  # fmt: skip
    both = named_file and isinstance(edges, (str, Path))
    files = {"path": place(path), "edges": place(edges)} if both else {}
    return _Brought(table_in(path, "nodes"), table_in(edges, "edges"), stem(Path(path)) if both else "graph", files, {})


def _target_names(
    target: Any, brought: _Brought, graphs: Table | None, level: str | None, graph: str | None
) -> tuple[str, ...]:
    if target is None and graphs is not None:
        free = [name for name in graphs.columns if name not in (graph, "graph", "id")]
        if len(free) == 1:
            return (free[0],)
    if target is None:
        if level == "links":
            return ()
        known = [*(brought.nodes.columns if brought.nodes else ()), *(graphs.columns if graphs else ())]
        raise DataError(
            "a graph needs a target, the column to predict",
            got="none",
            do=(f"Name one of {', '.join(known[:12])}, or pass" if known else "Pass")
            + ' level="links" to predict which nodes are joined',
        )
    return (target,) if isinstance(target, str) else tuple(target)


def _level(
    target: Any, level: str | None, nodes: Table | None, edges: Table, graphs: Table | None, roles: Roles
) -> str:
    if level is not None and level not in LEVELS:
        raise UserError(f"level must be {', '.join(LEVELS)}", got=f"level={level!r}", do="Leave it out")
    if level is not None:
        return level
    if graphs is not None or roles.graph is not None:
        return "graph"
    one = target if isinstance(target, str) else target[0]
    if nodes is not None and one in nodes.columns:
        return "node"
    if one in edges.columns:
        return "edge"
    known = [*(nodes.columns if nodes is not None else ()), *edges.columns]
    raise DataError(
        "target must name a column of the nodes or of the edges",
        got=f"target {one!r}",
        do=named(str(one), known).rstrip("."),
    )


def _check_free(plan: GraphPlan, roles: Roles) -> None:
    """Refuses a target that a network reads besides, or that says who is who."""
    of = {"node": ("key", "node_kind", "graph"), "edge": ("ends", "weight", "relation"), "graph": ("graph",)}
    for role in of.get(plan.level, ()):
        own = getattr(roles, role)
        for name in set(plan.target) & {*(own if isinstance(own, tuple) else (own,))}:
            raise DataError(
                "target must not be a column that the network reads too",
                got=f"target {name!r}, which is {role}",
                do=f"Name another target, or another {role}",
            )


def _check_named(brought: _Brought, lists: dict[str, Sequence[str]]) -> None:
    known = [*(brought.nodes.columns if brought.nodes is not None else ()), *brought.edges.columns]
    for option, names in lists.items():
        for name in names:
            if name not in known:
                raise DataError(
                    f"{option} must name columns of the nodes or of the edges",
                    got=f"{option} {name!r}",
                    do=named(name, known).rstrip("."),
                )


def _features_asked(features: Sequence[str]) -> tuple[str, ...]:
    for name in features:
        if name not in FEATURES:
            raise UserError(f"features must be of {', '.join(FEATURES)}", got=repr(name), do="Leave it out")
    return tuple(features)


def _data(found: Found, plan: GraphPlan, graphs: Table | None, brought: _Brought, read: Sampling | None) -> Data:
    rows = rows_of(found, plan, graphs)
    parts, seen = rows.parts, found
    if plan.level == "links":
        seen = replace(found, edges=found.edges.keep(rows.kept), pairs=found.pairs[:, rows.kept])
    node_mask, edge_mask = _training(seen, rows, plan)
    inputs, raw, lines = graph_inputs(seen, plan, node_mask, edge_mask)
    held = inputs.graph_of(seen, raw)
    if plan.inductive and plan.level == "node":
        inside = node_mask[seen.pairs].all(0)
        held = replace(held, taught=inputs.edges_of(seen, inside))
        if "degree" in inputs.roles.features and raw is not None:  # which tells of edges that are kept from it
            own = torch.from_numpy(replace(seen, pairs=seen.pairs[:, inside]).degree.astype(np.float64))
            as_taught = inputs.graph_of(seen, torch.cat([raw[:, :-1], own[:, None]], 1))
            held = replace(held, taught_x=as_taught.x)
    names = found.graphs if plan.level == "graph" else found.names
    inputs = inputs.holding(replace(held, batches=read), names or None)
    inputs.raw, inputs.links = raw if plan.level == "graph" else None, rows.links
    everything = Split(rows.x, rows.y, None, rows.numbers)
    train, val, test = (everything.take(part) for part in parts)
    target = with_figures(rows.target, rows.exact[parts[0]])
    source = f"{found.nodes.source} and {found.edges.source}"
    way = "with a direction" if found.roles.directed else "without direction"
    size = f"{len(found.nodes)} nodes and {len(found.edges)} edges {way}"
    if found.graphs:
        size = f"{counted(len(found.graphs), 'graph')}: {size}"
    of = {"links": "pairs of nodes", "node": "nodes", "edge": "edges", "graph": "graphs"}[plan.level]
    account = Account(
        source,
        read=len(found.nodes),
        refused=tuple(Refusal(r.reason, r.count, r.rows) for r in found.nodes.refused),
        columns=(f"{target}, the target, of {of}", *lines),
        notes=(size, *rows.notes, *found.notes, *found.nodes.notes, *found.edges.notes),
        numbered="lines" if found.nodes.word == "line" else "rows",
        one="node",
    )
    return Data(train, val, test, target, inputs, brought.name, None, account)


def _training(found: Found, rows: Asked, plan: GraphPlan) -> tuple[np.ndarray, np.ndarray]:
    """Which nodes and edges training reads."""
    nodes = np.ones(len(found.nodes), dtype=bool)
    if plan.level == "graph":
        own = np.zeros(len(found.graphs), dtype=bool)
        own[rows.x[rows.parts[0], 0].numpy()] = True
        nodes = np.repeat(own, np.diff(np.zeros(1) if found.first is None else found.first))
    elif plan.inductive and plan.level == "node":
        for part in rows.parts[1:]:
            nodes[rows.x[part, 0].numpy()] = False
    elif plan.inductive:
        raise UserError(
            "inductive needs level node; level graph always is inductive",
            got=f"inductive=True and level {plan.level}",
            do="Leave it out",
        )
    return nodes, nodes[found.pairs].all(0)
