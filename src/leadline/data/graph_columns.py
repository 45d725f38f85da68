"""What a network reads of nodes and edges: their columns as those of a table, how many edges a node has, or its number.

columns     as `leadline.data.features` finds them
degree      edges at a node, for graphs without columns that should be read on others too
constant    1: what nodes have in common, so that edges alone tell them apart
one-hot     the node's own number, for one small graph
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from leadline.data.cells import Table
from leadline.data.columns import Column
from leadline.data.features import Feature, feature
from leadline.data.graph_inputs import MOST_ONE_HOT, GraphInputs
from leadline.data.graph_rows import GraphPlan
from leadline.data.graph_tables import Found
from leadline.data.raw import shown, words_of, writes_comma
from leadline.errors import DataError

_FEW = 1000  # nodes up to which each has a number of its own, where they have no columns


def graph_inputs(
    found: Found, plan: GraphPlan, nodes: np.ndarray, edges: np.ndarray
) -> tuple[GraphInputs, Tensor | None, list[str]]:
    """The inputs with the figures of what training reads, raw values of the nodes' columns, and a line on each."""
    roles = found.roles
    aside = (*plan.target, roles.key, roles.graph, plan.split)
    if roles.node_kind:  # a network reads it as any other category
        drop, categories, log = plan.columns
        plan = replace(plan, columns=(drop, (*categories, roles.node_kind), log))
    own, lines = _fitted(found.nodes, plan, aside if plan.level != "edge" else aside[len(plan.target) :])
    asked = plan.features or (("columns",) if own else _stand_in(found, plan))
    if "columns" not in asked and own:
        lines, own = [f"{item.name}: left out, as asked" for item in own], []
    if "one-hot" in asked and len(found.nodes) > MOST_ONE_HOT:
        raise DataError(
            f"one-hot needs a graph of at most {MOST_ONE_HOT} nodes",
            got=f"{len(found.nodes)}",
            do='Pass features="degree"',
        )
    if "one-hot" in asked and (plan.level == "graph" or plan.inductive):
        raise DataError(
            "one-hot knows each node by its number, so it needs one graph of which training sees every node",
            got="many graphs" if plan.level == "graph" else "inductive=True",
            do='Pass features="degree"',
        )
    if "degree" in asked:
        seen = replace(found, pairs=found.pairs[:, edges]) if plan.inductive else found
        values = seen.degree.astype(np.float64)  # figures are those of the edges that training reads
        own = [*own, Feature("degree", "number", values, np.zeros(len(values), dtype=bool))]
    if not plan.features and not own:
        lines.append(f"no column to read: nodes get {' and '.join(asked)}")
    rows, train = np.arange(len(found.nodes)), np.flatnonzero(nodes)
    fitted = [item.fit(rows, train) for item in own]
    columns = [column for column, _ in fitted]
    lines = [*_told(columns, own), *lines]
    at_ends = (*roles.ends, roles.weight, roles.relation, *(plan.target if plan.level == "edge" else ()))
    of_edges, edge_lines = _fitted(found.edges, plan, (*at_ends, roles.graph))
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
        hidden=plan.level == "links",
    )
    raw = torch.from_numpy(np.column_stack([values for _, values in fitted])) if fitted else None
    if raw is not None and "degree" in asked:
        raw[:, -1] = torch.from_numpy(found.degree.astype(np.float64))
    return inputs, raw, lines


def _stand_in(found: Found, plan: GraphPlan) -> tuple[str, ...]:
    small = len(found.nodes) <= _FEW and plan.level != "graph" and not plan.inductive
    return ("one-hot",) if small else ("degree", "constant")


def _kinds(table: Table, name: str | None) -> tuple[str, ...]:
    if name is None:
        return ()
    words = words_of(table.columns[name])[0]
    if None in words:
        raise DataError(f"{name} must be filled in every row of {table.source}", got="an empty cell", do="Fill it in")
    return tuple(sorted(str(word) for word in words))


def _fitted(table: Table, plan: GraphPlan, aside: Sequence[str | None]) -> tuple[list[Feature], list[str]]:
    """The columns to read, and a line on each that is left out."""
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
                do=f"Correct or empty the cell, or take the column as text with categories=[{name!r}]",
            )
        found.append(item)
    return found, left_out


def _told(columns: Sequence[Column], features: Sequence[Feature]) -> list[str]:
    gaps = [int(np.isnan(item.values).sum()) for item in features]
    return [column.line(gap) + item.note for column, item, gap in zip(columns, features, gaps)]
