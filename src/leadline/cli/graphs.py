"""What a run on a graph says: of a new graph, of nodes or pairs that a table names, of nodes that had no value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from leadline.cli.predict import prediction_columns
from leadline.data.account import counted
from leadline.data.cells import Table, Text
from leadline.data.columns import named
from leadline.data.graph_formats import graph_tables, is_graph, table_in
from leadline.data.graph_inputs import GraphInputs, NewGraph
from leadline.data.outcomes import known_of
from leadline.data.raw import words_of, writes_comma
from leadline.errors import DataError

if TYPE_CHECKING:
    from leadline.engine.evaluation import Evaluation
    from leadline.run import Run


def graph_columns(
    trained: Run, what: str | None, edges: str | None, level: float | None
) -> tuple[Table, dict[str, Any]]:
    """The rows that come back, and the columns that are added to them."""
    inputs = cast(GraphInputs, trained.inputs)
    if what is None:
        table, rows = _without_value(trained, inputs)
        return table, prediction_columns(trained.predict(rows), trained.target, level)
    if edges is None and not is_graph(what):
        table, rows = _named_rows(inputs, table_in(what, "rows"))
        return table, prediction_columns(trained.predict(rows), trained.target, level)
    new = _new(inputs, what, edges)
    if not len(new.rows):
        raise DataError("there must be edges to predict", got="none", do="Add rows to the table of edges")
    return new.table, prediction_columns(trained.predict(new), trained.target, level)


def measured(trained: Run, what: str, edges: str | None) -> Evaluation:
    """Metrics on a new graph, of whose nodes (edges, graphs) the value is known where it is given."""
    from leadline.layers.held_graph import asked_of

    inputs, target = cast(GraphInputs, trained.inputs), trained.target
    new = _new(inputs, what, edges)
    table = new.table
    if inputs.level == "graph":
        raise DataError(
            "a run on many graphs is evaluated on its own splits",
            got=f"--data {what}",
            do="Leave --data out, or predict and compare",
        )
    for name in target.names:
        if name not in table.columns:
            raise DataError(
                f"{table.source} must have the column {name}, to compare predictions with",
                got=f"{len(table.columns)} others",
                do=named(name, list(table.columns)).rstrip("."),
            )
    words = [words_of(table.columns[name]) for name in target.names]
    known = np.all([[own[code] is not None for code in codes] for own, codes in words], axis=0)
    if not known.any():
        raise DataError(f"{target.name} must be known for some rows", got="none", do="Fill the column in")
    y = known_of(table.keep(known), target, writes_comma(table.columns.values()))
    with asked_of(trained.model, new.graph):
        return trained.measure(new.rows[torch.from_numpy(known)], y)


def _new(inputs: GraphInputs, what: str, edges: str | None) -> NewGraph:
    if edges is not None:
        return inputs.new_graph(table_in(what, "nodes"), table_in(edges, "edges"))
    if not is_graph(what):
        raise DataError(
            "a graph must have edges", got=f"{what} alone", do="Add --edges FILE, or name a folder with nodes and edges"
        )
    nodes, links, _ = graph_tables(what, inputs.roles.graph)
    return inputs.new_graph(nodes, links)


def _named_rows(inputs: GraphInputs, table: Table) -> tuple[Table, Tensor]:
    """A table of names of nodes, or of pairs of them."""
    if inputs.level == "edge":
        wanted = list(inputs.roles.ends)
    else:
        wanted = [inputs.roles.graph or "graph" if inputs.level == "graph" else inputs.roles.key or "id"]
    absent = [name for name in wanted if name not in table.columns]
    if absent:
        raise DataError(
            f"{table.source} must have {' and '.join(wanted)}, which name what to predict",
            got=f"the columns {', '.join(list(table.columns)[:6])}",
            do="Rename a column, or pass a new graph with --edges FILE",
        )
    columns = []
    for name in wanted:
        words, codes = words_of(table.columns[name])
        columns.append([words[code] for code in codes.tolist()])
    asked: Any = list(zip(*columns)) if inputs.level == "edge" else columns[0]
    return table, inputs.read(asked)


def _without_value(trained: Run, inputs: GraphInputs) -> tuple[Table, Tensor]:
    """The nodes (graphs) of the run's own graph that are in none of its splits."""
    data = trained.need_data()
    if inputs.level == "edge" or inputs.graph is None:
        raise DataError(
            "leadline predict needs pairs of nodes", got="no INPUT", do="Name a table with the two nodes of each pair"
        )
    count = inputs.graph.num_graphs if inputs.level == "graph" else len(inputs.graph)
    asked = torch.cat([split.x[:, 0] for _, split in data.splits()])
    free = torch.ones(count, dtype=torch.bool)
    free[asked] = False
    rows = free.nonzero()
    one = "graph" if inputs.level == "graph" else "node"
    if not len(rows):
        raise DataError(
            f"without INPUT, predict answers for the {one}s of the run's graph that have no {trained.target.name}",
            got=f"{counted(count, one)} that all have one",
            do=f"Name a table of {one}s, or a new graph with --edges FILE",
        )
    names = inputs.ids or tuple(map(str, range(count)))
    name = (inputs.roles.graph if one == "graph" else inputs.roles.key) or ("graph" if one == "graph" else "id")
    return Table({name: Text([names[k] for k in rows[:, 0].tolist()])}, np.arange(len(rows))), rows
