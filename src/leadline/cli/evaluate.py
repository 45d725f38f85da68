"""Measure a run on one of its splits, or on rows of your own that have the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from leadline.cli.flag import Flag
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import need_run
from leadline.errors import UserError

USAGE = "leadline evaluate RUN [--split test | --data FILE [--edges FILE]]"
EXAMPLES = (
    "leadline evaluate runs/first",
    "leadline evaluate runs/first --split val --json",
    "leadline evaluate runs/cars --data newer-cars.csv",
    "leadline evaluate runs/photos --data newer-photos/",
    "leadline evaluate runs/novels --data another-novel.txt",
)


def flags(argv: Sequence[str]) -> list[Flag]:
    return [
        Flag("split", help="train, val or test", default="test"),
        Flag(
            "data",
            help="instead of a split: a table with the run's columns and the target, a folder of labelled pictures, or "
            "a file or folder of text",
        ),
        Flag("edges", help="with --data, for a run on a graph: the table of edges between the nodes of FILE"),
    ]


def run(line: Line, screen: Screen) -> int:
    folder = need_run("evaluate", line)
    split, path = line.get("split", "test"), line.get("data")
    if path is not None and ("verb", "split") in line.values:
        raise UserError(
            "the rows must come from a split or from --data, not from both",
            got=f"--split {split} and --data {path}",
            do="Keep one",
        )
    import leadline as ll

    trained = ll.load(folder)
    if path is None:
        name, evaluation = split.lower(), trained.evaluate(split)
    elif isinstance(trained.inputs, ll.data.Pictures):
        from leadline.cli.labelled import labelled

        rows = labelled(trained, path)
        name, evaluation = path, trained.measure(rows.x, rows.y)
    elif isinstance(trained.inputs, ll.data.Tokens):
        from leadline.cli.known_texts import known_texts
        from leadline.engine.record import Record

        recipe = Record.open(folder).config["data"]["recipe"] or {}
        rows = known_texts(trained, Path(path), recipe.get("options", {}))
        name, evaluation = path, trained.measure(rows.x, rows.y)
    elif isinstance(trained.inputs, ll.data.GraphInputs):
        from leadline.cli.graphs import measured

        name, evaluation = path, measured(trained, path, line.get("edges"))
    elif isinstance(trained.inputs, ll.data.Sets):
        from leadline.cli.sets import measured_on_a_split

        raise measured_on_a_split(path)
    elif isinstance(trained.inputs, (ll.data.Windows, ll.data.Sequences)):
        from leadline.cli.forecasts import known_steps

        name, evaluation = path, trained.measure(*known_steps(trained, path))
    else:
        from leadline.cli.rows import inputs_of, outcome_of, read

        table = read(path)
        x = inputs_of(table, trained.inputs, math.prod(trained.shape), trained.target)
        y = outcome_of(table, trained.target, trained.inputs)
        name, evaluation = table.source, trained.measure(x.reshape(len(x), *trained.shape), y)
    from leadline.cli.forecasts import beside_naive, shown, whose

    screen.metrics(shown(trained, {name: evaluation}), whose(trained, told=path is None))
    answer = {
        "run": folder,
        "split": name if path is None else None,
        "data": path,
        "rows": evaluation.count,
        "metrics": dict(evaluation),
        "intervals": {metric: evaluation.interval(metric) for metric in evaluation},
    }
    if trained.target.kind == "tokens":
        from leadline.cli.translated import translated

        answer |= translated(trained, name, screen, None if path is None else rows)
    if path is None:
        answer |= beside_naive(trained, name, screen)
    screen.answer(answer)
    return 0
