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
from leadline.data.columns import Column, named
from leadline.data.data import Data, Split
from leadline.data.features import Feature, feature
from leadline.data.frame import stem
from leadline.data.graph_formats import array_tables, files_of, graph_tables, is_graph, table_in
from leadline.data.graph_inputs import FEATURES, MOST_ONE_HOT, GraphInputs
from leadline.data.graph_links import link_rows
from leadline.data.graph_tables import Found, Roles, find
from leadline.data.outcome import read_outcome, with_figures
from leadline.data.outcomes import kinds_of, settle, strata
from leadline.data.raw import shown, words_of, writes_comma
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import DataError, UserError

LEVELS = ("node", "edge", "links", "graph")
_FEW = 1000  # nodes up to which each has a number of its own, where they have no columns


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
    brought = _brought(path, edges, target)
    more = brought.more
    target = brought.target if brought.target is not None else target
    column = lambda name, own: own if own not in (None, ()) else more.get(name, own)  # noqa: E731
    graphs = graphs if graphs is not None else more.get("graphs")
    roles = Roles(
        key=column("key", key),
        ends=tuple(column("ends", tuple(ends))),
        directed=bool(column("directed", directed)),
        weight=column("weight", weight),
        relation=column("relation", relation),
        node_kind=column("node_kind", node_kind),
        graph=column("graph", graph),
    )
    of_graphs = None if graphs is None else table_in(graphs, "graphs")
    plan = _Plan(
        _target_names(target, brought, of_graphs, level),
        _level(target, level, brought.nodes, brought.edges, of_graphs, roles),
        kinds_of(kind, 1),
        tuple(order),
        (tuple(drop), tuple(categories), tuple(log)),
        (val, test, split_seed),
        column("split", split),
        _features_asked(features),
        inductive,
        negatives,
    )
    found = find(brought.nodes, brought.edges, roles, bad_edges)
    data = _data(found, plan, of_graphs, brought)
    recipe = None
    if brought.files:
        names = ("level", "key", "directed", "weight", "relation", "node_kind", "graph", "kind", "bad_edges")
        own = dict(zip(names, (level, key, directed, weight, relation, node_kind, graph, kind, bad_edges)))
        own |= {"inductive": inductive, "val": val, "test": test, "split": split, "split_seed": split_seed}
        lists = {"ends": ends, "features": features, "order": order, "drop": drop, "categories": categories, "log": log}
        options = {**brought.files, "target": target, **own, **{n: list(v) for n, v in lists.items() if v}}
        if plan.level == "links":
            options["negatives"] = negatives
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


@dataclass(frozen=True, eq=False)
class _Plan:
    """What to make of the tables: see `graph` for the fields."""

    target: tuple[str, ...]
    level: str
    kinds: tuple[str | None, ...]
    order: tuple[str, ...]
    columns: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]  # drop, categories, log
    parts: tuple[float, float, int]
    split: str | None
    features: tuple[str, ...]
    inductive: bool
    negatives: float


def _brought(path: Any, edges: Any, target: Any) -> _Brought:
    place = lambda what: str(Path(what).expanduser().absolute())  # noqa: E731
    named_file = isinstance(path, (str, Path))
    if edges is None and isinstance(path, Tensor | np.ndarray):
        raise DataError("a graph of arrays must have edges", got="x alone", do="Pass graph(x, edges, y)")
    if isinstance(path, Tensor | np.ndarray) or (isinstance(path, list) and path and isinstance(path[0], (list, tuple))):
        y = target if target is not None and not isinstance(target, str) else None
        nodes, links = array_tables(path, edges, y)
        own = {"key": "", "ends": ("source", "target")}
        return _Brought(nodes, links, "graph", {}, own, None if y is None else "y")
    if target is not None and not isinstance(target, (str, list, tuple)):
        raise DataError(
            "target must name a column", got=f"target as {type(target).__name__}", do='Write it in quotes: target="…"'
        )
    if edges is None and is_graph(path):
        nodes, links, more = graph_tables(path)
        files = {"path": place(path)} if named_file else {}
        name = stem(Path(path)) if named_file else "graph"
        has_y = nodes is not None and "y" in nodes.columns and more.get("key") == ""
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


def _target_names(target: Any, brought: _Brought, graphs: Table | None, level: str | None) -> tuple[str, ...]:
    if target is None and graphs is not None:
        free = [name for name in graphs.columns if name not in (brought.more.get("graph"), "graph", "id")]
        if len(free) == 1:
            return (free[0],)
    if target is None:
        if level == "links":
            return ()
        known = [*(brought.nodes.columns if brought.nodes else ()), *(graphs.columns if graphs else ())]
        raise DataError(
            "a graph needs a target, the column to predict",
            got="none",
            do=(f"Name one, of the nodes {', '.join(known[:12])}; or " if known else "")
            + 'Pass level="links" to predict which nodes are joined',
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


def _features_asked(features: Sequence[str]) -> tuple[str, ...]:
    for name in features:
        if name not in FEATURES:
            raise UserError(f"features must be of {', '.join(FEATURES)}", got=repr(name), do="Leave it out")
    return tuple(features)


def _data(found: Found, plan: _Plan, graphs: Table | None, brought: _Brought) -> Data:
    rows = _rows_of(found, plan, graphs)
    parts, seen = rows.parts, found
    if plan.level == "links":
        seen = replace(found, edges=found.edges.keep(rows.kept), pairs=found.pairs[:, rows.kept])
    node_mask, edge_mask = _training(seen, rows, plan)
    inputs, raw, lines = _inputs(seen, plan, node_mask, edge_mask)
    held = inputs.graph_of(seen, raw)
    if plan.inductive and plan.level == "node":
        inside = node_mask[seen.pairs].all(0)
        held = replace(held, taught=inputs.edges_of(seen, inside))
    names = found.graphs if plan.level == "graph" else found.names
    inputs = inputs.holding(held, names or None)
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


@dataclass(frozen=True, eq=False)
class _Asked:
    """What is asked: rows, answers, and the rows of each split."""

    x: Tensor
    y: Tensor
    exact: Tensor
    target: Target
    numbers: Tensor
    parts: tuple[Tensor, Tensor, Tensor]
    notes: tuple[str, ...] = ()
    kept: Any = None


def _rows_of(found: Found, plan: _Plan, graphs: Table | None) -> _Asked:
    val, test, seed = plan.parts
    if plan.level == "links":
        rows = link_rows(found.pairs, len(found.nodes), found.roles.directed, val, test, seed, plan.negatives)
        numbers = torch.arange(len(rows.x))
        return _Asked(rows.x, rows.y, rows.y, rows.target, numbers, rows.parts, rows.notes, rows.kept)
    table = {"node": found.nodes, "edge": found.edges, "graph": graphs}[plan.level]
    if table is None:
        table = _of_graphs(found, plan)
    if plan.level == "graph":
        table = _in_order(table, found)
    for name in plan.target:
        if name not in table.columns:
            raise DataError(
                f"target must name a column of {table.source}",
                got=f"target {name!r}",
                do=named(name, list(table.columns)).rstrip("."),
            )
    if not len(table):
        raise DataError(f"{table.source} must have edges to be asked of", got="none", do="Bring some")
    comma = writes_comma(table.columns.values())
    outcomes = [read_outcome(name, table.columns[name], comma) for name in plan.target]
    known = np.ones(len(table), dtype=bool)
    for outcome in outcomes:
        if outcome.misfit.any():
            row = int(np.flatnonzero(outcome.misfit)[0])
            raise DataError(
                f"{outcome.name}, the target, must hold numbers, like most of its cells",
                got=f"{shown(outcome.cells, row)} in {table.at(row)}",
                do="Mend or empty the cell",
            )
        known &= ~outcome.missing
    used = np.flatnonzero(known)
    one = {"node": "node", "edge": "edge", "graph": "graph"}[plan.level]
    if len(used) < 3:
        raise DataError(
            f"at least 3 {one}s must have a value of {', '.join(plan.target)}, to train, validate and test on",
            got=f"{len(used)} of {len(table)}",
            do="Bring more of them",
        )
    y, exact, target = settle(outcomes, used, plan.kinds * len(outcomes), table.at, plan.order)
    notes = []
    if len(used) < len(table):
        notes.append(f"{counted(len(table) - len(used), one)} without a value of {target.name}: not asked")
    if plan.split is not None:
        parts = _given_split(table, plan.split, used)
        notes.append(f"{plan.split} says who trains, validates and tests")
    else:
        parts = split_indices(len(used), val=val, test=test, seed=seed, stratify=strata(y, target))
    x = torch.from_numpy(used)[:, None]
    if plan.level == "edge":
        x = torch.from_numpy(found.pairs.T[used].copy())
    return _Asked(x, y, exact, target, torch.from_numpy(table.numbers[used]), parts, tuple(notes))


def _of_graphs(found: Found, plan: _Plan) -> Table:
    """A table of graphs out of columns of their nodes, which must be the same within each."""
    if found.first is None:
        raise DataError(
            "graphs must be told apart to predict something of each",
            got="one graph",
            do='Name the column of nodes that says which graph each is in: graph="…"',
        )
    first = found.first[:-1]
    wanted = [*plan.target, *([plan.split] if plan.split else [])]
    columns: dict[str, Any] = {}
    for name in wanted:
        if name not in found.nodes.columns:
            raise DataError(
                "target must name a column of the nodes, or of a table of graphs",
                got=f"target {name!r}",
                do=named(name, list(found.nodes.columns)).rstrip("."),
            )
        codes = words_of(found.nodes.columns[name])[1]
        wrong = np.flatnonzero(codes != np.repeat(codes[first], np.diff(found.first)))
        if len(wrong):
            raise DataError(
                f"{name} must be the same at all nodes of a graph to be its target",
                got=f"two values in {found.roles.graph} {found.graphs[int(np.searchsorted(found.first, wrong[0], 'right')) - 1]}",
                do='Pass level="node" to predict it of each node, or bring a table of graphs',
            )
    mask = np.zeros(len(found.nodes), dtype=bool)
    mask[first] = True
    columns = {name: cells for name, cells in found.nodes.keep(mask).columns.items() if name in wanted}
    return Table({"graph": _text(found.graphs), **columns}, np.arange(len(first)), source="graphs")


def _text(words: Sequence[str]) -> Any:
    from leadline.data.cells import Text

    return Text(list(words))


def _in_order(table: Table, found: Found) -> Table:
    """The rows of a table of graphs in the order of the graphs."""
    by = found.roles.graph if found.roles.graph in table.columns else "graph" if "graph" in table.columns else None
    by = by or ("id" if "id" in table.columns else next(iter(table.columns)))
    words, codes = words_of(table.columns[by])
    place = {words[code]: row for row, code in reversed(list(enumerate(codes.tolist())))}
    if len(place) < len(codes):
        raise DataError(f"{by} must name each graph of {table.source} once", got="one twice", do="Keep one row each")
    lost = [name for name in found.graphs if name not in place]
    if lost:
        raise DataError(
            f"{table.source} must have a row for each graph",
            got=f"none for {', '.join(lost[:5])}",
            do="Add them, or take their nodes out",
        )
    rows = np.array([place[name] for name in found.graphs])
    columns = {n: c[rows] if isinstance(c, np.ndarray) else c.take(rows) for n, c in table.columns.items()}
    return replace(table, columns=columns, numbers=table.numbers[rows])


def _given_split(table: Table, name: str, used: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    if name not in table.columns:
        do = named(name, list(table.columns)).rstrip(".")
        raise DataError(f"split must name a column of {table.source}", got=f"split {name!r}", do=do)
    words, codes = words_of(table.columns[name])
    known = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, "testing": 2}
    strange = [str(word) for word in words if word is not None and word.lower() not in known]
    if strange:
        got = ", ".join(strange[:5])
        raise DataError(f"{name} must hold train, val or test, or nothing", got=got, do="Mend the column")
    part = np.array([-1 if word is None else known[word.lower()] for word in words])[codes][used]
    train, val, test = (torch.from_numpy(np.flatnonzero(part == k)) for k in range(3))
    if not len(train):
        raise DataError(f"{name} must say train of some row", got="none", do="Mend the column")
    return train, val, test


def _training(found: Found, rows: _Asked, plan: _Plan) -> tuple[np.ndarray, np.ndarray]:
    """Which nodes and edges training reads."""
    nodes = np.ones(len(found.nodes), dtype=bool)
    if plan.level == "graph":
        own = np.zeros(len(found.graphs), dtype=bool)
        own[rows.x[rows.parts[0], 0].numpy()] = True
        nodes = np.repeat(own, np.diff(found.first))  # type: ignore[arg-type]
    elif plan.inductive and plan.level == "node":
        for part in rows.parts[1:]:
            nodes[rows.x[part, 0].numpy()] = False
    elif plan.inductive:
        raise UserError(
            "inductive must be of nodes, or of graphs, which are so in any case",
            got=f"inductive=True and level {plan.level}",
            do="Leave it out",
        )
    return nodes, nodes[found.pairs].all(0)


def _inputs(
    found: Found, plan: _Plan, nodes: np.ndarray, edges: np.ndarray
) -> tuple[GraphInputs, Tensor | None, list[str]]:
    """The inputs with the figures of the nodes and edges that training reads, raw values of nodes, and lines on each."""
    roles = found.roles
    aside = (*plan.target, roles.key, roles.node_kind, roles.graph, plan.split)
    own, lines = _fitted(found.nodes, plan, aside if plan.level != "edge" else aside[len(plan.target) :])
    asked = plan.features or (("columns",) if own else _stand_in(found, plan))
    if "columns" not in asked and own:
        lines, own = [f"{item.name}: left out, as asked" for item in own], []
    if "one-hot" in asked and len(found.nodes) > MOST_ONE_HOT:
        raise DataError(
            f"one-hot must be of at most {MOST_ONE_HOT} nodes", got=f"{len(found.nodes)}", do='Pass features="degree"'
        )
    if "one-hot" in asked and (plan.level == "graph" or plan.inductive):
        raise DataError(
            "one-hot knows a node by its number, and must be of one graph that is seen whole",
            got="many graphs" if plan.level == "graph" else "inductive=True",
            do='Pass features="degree"',
        )
    if "degree" in asked:
        values = found.degree.astype(np.float64)
        own = [*own, Feature("degree", "number", values, np.zeros(len(values), dtype=bool))]
    if not plan.features and not own:
        lines.append(f"no column to read: nodes are known by {' and '.join(asked)}")
    rows, train = np.arange(len(found.nodes)), np.flatnonzero(nodes)
    fitted = [item.fit(rows, train) for item in own]
    columns = [column for column, _ in fitted]
    lines = [*_told(columns, own), *lines]
    at_ends = (*roles.ends, roles.weight, roles.relation, *(plan.target if plan.level == "edge" else ()))
    of_edges, edge_lines = _fitted(found.edges, plan, (*at_ends, roles.graph), missing=True)
    edge_columns: list[Column] = []
    if of_edges and len(found.edges):
        places = np.arange(len(found.edges))
        edge_columns = [item.fit(places, np.flatnonzero(edges))[0] for item in of_edges]
    lines += [f"edge {line}" for line in [*_told(edge_columns, of_edges), *edge_lines]]
    for name, what in ((roles.weight, "weighs the edges"), (roles.relation, "tells kinds of edges apart")):
        lines += [f"edge {name}: {what}"] if name else []
    lines += [f"{roles.node_kind}: tells kinds of nodes apart"] if roles.node_kind else []
    inputs = GraphInputs(
        "edge" if plan.level == "links" else plan.level,
        columns,
        edge_columns,
        replace(roles, features=asked),
        _kinds(found.edges, roles.relation),
        _kinds(found.nodes, roles.node_kind),
    )
    raw = torch.from_numpy(np.column_stack([values for _, values in fitted])) if fitted else None
    return inputs, raw, lines


def _stand_in(found: Found, plan: _Plan) -> tuple[str, ...]:
    small = len(found.nodes) <= _FEW and plan.level != "graph" and not plan.inductive
    return ("one-hot",) if small else ("degree", "constant")


def _kinds(table: Table, name: str | None) -> tuple[str, ...]:
    if name is None:
        return ()
    words = words_of(table.columns[name])[0]
    if None in words:
        raise DataError(f"{name} must be filled in every row of {table.source}", got="an empty cell", do="Fill it in")
    return tuple(sorted(str(word) for word in words))


def _fitted(
    table: Table, plan: _Plan, aside: Sequence[str | None], missing: bool = False
) -> tuple[list[Feature], list[str]]:
    """The columns to read, and a line on each that is left out; `missing`: names of other tables may be asked for."""
    drop, categories, log = plan.columns
    comma = writes_comma(c for name, c in table.columns.items() if name not in (*drop, *categories, *aside))
    found, left_out = [], []
    for name, cells in table.columns.items() if len(table) else ():
        if name in aside:
            continue
        if name in drop:
            left_out.append(f"{name}: left out, as asked")
            continue
        item = feature(name, cells, table, name in categories, comma, name in log)
        if isinstance(item, str):
            left_out.append(f"{name}: {item}")
            continue
        if item.misfit.any():
            row = int(np.flatnonzero(item.misfit)[0])
            raise DataError(
                f"column {name} of {table.source} must hold finite numbers, like most of its cells",
                got=f"{shown(cells, row)} in {table.at(row)}",
                do=f"Mend or empty the cell, or take the column as text with categories=[{name!r}]",
            )
        found.append(item)
    return found, left_out


def _told(columns: Sequence[Column], features: Sequence[Feature]) -> list[str]:
    gaps = [int(np.isnan(item.values).sum()) for item in features]
    return [column.line(gap) + item.note for column, item, gap in zip(columns, features, gaps)]
