"""What is asked of a graph: nodes, edges, graphs or pairs of nodes, with the answers and the rows of each split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.cells import Table, Text
from leadline.data.columns import named
from leadline.data.graph_links import link_rows
from leadline.data.graph_tables import Found
from leadline.data.outcome import read_outcome
from leadline.data.outcomes import settle, strata
from leadline.data.raw import shown, words_of, writes_comma
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import DataError

#: what becomes of those whose value is not known
_UNASKED = {
    "node": "neighbours of others, not asked about",
    "edge": "part of the graph, not asked about",
    "graph": "not used",
}


@dataclass(frozen=True, eq=False)
class GraphPlan:
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


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked: rows, answers, and the rows of each split."""

    x: Tensor
    y: Tensor
    exact: Tensor
    target: Target
    numbers: Tensor
    parts: tuple[Tensor, Tensor, Tensor]
    notes: tuple[str, ...] = ()
    kept: Any = None
    links: Tensor | None = None


def rows_of(found: Found, plan: GraphPlan, graphs: Table | None) -> Asked:
    val, test, seed = plan.parts
    if plan.level == "links":
        rows = link_rows(found.pairs, len(found.nodes), found.roles.directed, val, test, seed, plan.negatives)
        numbers = torch.arange(len(rows.x))
        return Asked(rows.x, rows.y, rows.y, rows.target, numbers, rows.parts, rows.notes, rows.kept, rows.codes)
    table = {"node": found.nodes, "edge": found.edges, "graph": graphs}[plan.level]
    if table is None:
        table = _of_graphs(found, plan)
    notes: list[str] = []
    if plan.level == "graph":
        without = len(table) - len(found.graphs)
        table = _in_order(table, found)
        if without > 0:
            notes.append(f"{counted(without, 'graph')} of {table.source} without a node left out")
        aside = [
            name for name in table.columns if name not in (*plan.target, plan.split, found.roles.graph, "graph", "id")
        ]
        notes += [f"{', '.join(aside)} of {table.source} not read: networks read only nodes and edges"] if aside else []
    for name in plan.target:
        if name not in table.columns:
            raise DataError(
                f"target must name a column of {table.source}",
                got=f"target {name!r}",
                do=named(name, list(table.columns)).rstrip("."),
            )
    if not len(table):
        raise DataError(f"{table.source} must have edges", got="none", do="Add rows to the table of edges")
    comma = writes_comma(table.columns.values())
    outcomes = [read_outcome(name, table.columns[name], comma) for name in plan.target]
    known = np.ones(len(table), dtype=bool)
    for outcome in outcomes:
        if outcome.misfit.any():
            row = int(np.flatnonzero(outcome.misfit)[0])
            raise DataError(
                f"{outcome.name}, the target, must hold numbers, like most of its cells",
                got=f"{shown(outcome.cells, row)} in {table.at(row)}",
                do="Correct or empty the cell",
            )
        known &= ~outcome.missing
    used = np.flatnonzero(known)
    one = {"node": "node", "edge": "edge", "graph": "graph"}[plan.level]
    if len(used) < 3:
        raise DataError(
            f"at least 3 {one}s must have a value of {', '.join(plan.target)}, to train, validate and test on",
            got=f"{len(used)} of {len(table)}",
            do="Add more of them",
        )
    y, exact, target = settle(outcomes, used, plan.kinds * len(outcomes), table.at, plan.order)
    if len(used) < len(table):
        notes.append(f"{counted(len(table) - len(used), one)} without a value of {target.name}: {_UNASKED[plan.level]}")
    if plan.split is not None:
        parts = _given_split(table, plan.split, used)
        notes.append(f"{plan.split} says which rows train, validate and test")
    elif (same := _same_ends(found, used) if plan.level == "edge" else None) is not None:
        parts = split_indices(len(used), val=val, test=test, seed=seed, groups=same)
        notes.append("edges between the same two nodes are in the same split: a network reads only their two nodes")
    else:
        parts = split_indices(len(used), val=val, test=test, seed=seed, stratify=strata(y, target))
    x = torch.from_numpy(used)[:, None]
    if plan.level == "edge":
        x = torch.from_numpy(found.pairs.T[used].copy())
    return Asked(x, y, exact, target, torch.from_numpy(table.numbers[used]), parts, tuple(notes))


def _same_ends(found: Found, used: np.ndarray) -> Tensor | None:
    """A code for the two ends of each edge that is asked; None where no two edges have the same."""
    pairs = found.pairs[:, used]
    low, high = (pairs[0], pairs[1]) if found.roles.directed else (pairs.min(0), pairs.max(0))
    code = torch.from_numpy(low * len(found.nodes) + high)
    return None if len(code.unique()) == len(code) else code


def _of_graphs(found: Found, plan: GraphPlan) -> Table:
    """A table of graphs out of columns of their nodes, which must be the same within each."""
    if found.first is None:
        raise DataError(
            "to predict something for each graph, a column must say which graph a node is in",
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
        of_node = np.repeat(np.arange(len(first)), np.diff(found.first))
        wrong = np.flatnonzero(codes != codes[first][of_node])
        if len(wrong):
            raise DataError(
                f"{name} must be the same at all nodes of a graph to be its target",
                got=f"two values in {found.roles.graph} {found.graphs[int(of_node[wrong[0]])]}",
                do='Pass level="node" to predict it of each node, or pass a table of graphs',
            )
    mask = np.zeros(len(found.nodes), dtype=bool)
    mask[first] = True
    columns = {name: cells for name, cells in found.nodes.keep(mask).columns.items() if name in wanted}
    return Table({"graph": Text(list(found.graphs)), **columns}, np.arange(len(first)), source="graphs")


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
        raise DataError(f"{name} must hold train, val or test, or nothing", got=got, do="Correct the column")
    part = np.array([-1 if word is None else known[word.lower()] for word in words])[codes][used]
    train, val, test = (torch.from_numpy(np.flatnonzero(part == k)) for k in range(3))
    if not len(train):
        raise DataError(f"{name} must say train in some row", got="none", do="Correct the column")
    return train, val, test
