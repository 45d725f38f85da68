"""Predict rows of a file: the rows come back as CSV, with what the model says of each after them.

Columns that are added, after those of the file: for classes `predicted`, the likeliest class, and `p(<class>)`, the
probability of each (ordered classes have `low` and `high` too); for a number `predicted`, its mean, and `low` and
`high`, the ends of the interval that holds the value with probability --interval; for several targets the same of each,
with its name after it, as in `predicted_speed`, or its number where it has no name. The ends for a count are whole
numbers, and hold it at least that often. For an angle `predicted` is the mean direction, and `low` and `high` end the
arc around it: beyond ±π they have passed the seam. For a Mixture `predicted` is the highest mode, and `modes` holds all
of them. For Quantile `q(<level>)` is each quantile that was trained, and `low` and `high` are there if they lie within
those. A loss without probabilities, such as Margin, has `predicted` alone. For patterns `predicted_1` … are the bits.
For a ranking there is one for each place, and together they are the likeliest order. Where the file has such a column
already, the new one gets a `_` after its name. Rows are read as those of training were; decimal commas and separators
are found out.

A run on pictures takes a picture or a folder of them. Classes and numbers come as a table, a line a file. Masks, boxes
and points are drawn: --output is then a folder, by default `predicted` in that of the run, with each picture and what
was found on it, a table of the boxes or points, and the masks as pictures of codes.

A run on series takes a table with what was measured so far, and answers with a line for each step ahead of each series:
its group, its time, and `predicted`, `low` and `high`. A run on sequences takes a table with a row for each step, or
what else it was trained on: a .npz, a .jsonl, or a table with a sequence in each row. It answers with a line for each
sequence, or, where every step has a class, for each step. A run on sets does the same, with a row for each member;
clouds of points may also be files, or a folder, of .off, .ply, .xyz, .pts or .txt.

A run on a graph takes a new one: a table of nodes with --edges and the table of edges, a folder with both, or GraphML;
every node comes back with what is said of it (every edge, where edges were learned; every graph, where graphs were).
Without --edges it takes names: a table with the column that names nodes, or with the two ends of pairs. Without INPUT
it answers for the nodes of its own graph that had no value.

A run on text takes a table with the columns that it was trained on, or one text a line, in a file or, with - for
INPUT, piped in. Classes and numbers come as for any table; other tasks add `translation`, `filled` (the likeliest word
for each mask), `tags`, `answer`, or, of a run that writes, `tokens`, `nll` and `bits_per_byte`.
"""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.cli.flag import Flag, Kind
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import need_run
from leadline.data.account import counted
from leadline.errors import DataError, UserError
from leadline.likelihoods.margin import PointPrediction

USUAL = 0.9  # probability of the interval, where none is asked for
USAGE = "leadline predict RUN [INPUT] [--edges FILE] [--output FILE] [flags]"
EXAMPLES = (
    "leadline predict runs/cars new-cars.csv > predicted.csv",
    "leadline predict runs/cars new-cars.csv --output predicted.csv --interval 0.95",
    "leadline predict runs/first rows.csv --json --output predicted.csv",
    "leadline predict runs/street new-photos/ --output found/",
    "leadline predict runs/papers nodes.csv --edges edges.csv --output out.csv",
)


def flags(argv: Sequence[str]) -> list[Flag]:
    return [
        Flag("edges", help="for a run on a graph: the table of edges between the nodes of INPUT"),
        Flag("output", help="the file to write; by default the rows are printed"),
        Flag(
            "interval", Kind((float,)), help="probability with which a number lies between low and high", default=USUAL
        ),
    ]


def run(line: Line, screen: Screen) -> int:
    folder = need_run("predict", line, words=2)
    level, output, edges = line.get("interval"), line.get("output"), line.get("edges")
    if len(line.words) < 2 and not of_graph(folder):
        raise DataError(
            "leadline predict needs rows to predict",
            got="no INPUT",
            do=f"Name a file: leadline predict {folder} rows.csv",
        )
    if level is not None and not 0 < level < 1:
        raise UserError("--interval must lie between 0 and 1", got=f"{level:g}", do="Write 90 % as --interval 0.9")
    import numpy as np

    import leadline as ll
    from leadline.cli.rows import read, written
    from leadline.data.cells import Table
    from leadline.verbs import load_to_ask

    trained = load_to_ask(folder)
    if output is not None:
        protect(Path(output), [*line.words[1:], *([edges] if edges else []), *source_files(folder)])
    if edges is not None and not isinstance(trained.inputs, ll.data.GraphInputs):
        raise UserError("--edges needs a run on a graph", got=f"a run on {trained.target}", do="Leave it out")
    if isinstance(trained.inputs, ll.data.Pictures):
        from leadline.cli.pictures import predict

        return predict(trained, line.words[1], output, level, screen)
    if isinstance(trained.inputs, ll.data.Windows):
        from leadline.cli.forecasts import forecast_columns

        added = forecast_columns(trained, read(line.words[1]), level)
        table = Table({}, np.arange(len(added["predicted"])))
    elif isinstance(trained.inputs, ll.data.GraphInputs):
        from leadline.cli.graphs import graph_columns

        table, added = graph_columns(trained, line.words[1] if line.words[1:] else None, edges, level)
    elif isinstance(trained.inputs, ll.data.Sequences):
        from leadline.cli.forecasts import sequence_columns
        from leadline.engine.record import Record

        recipe = Record.open(folder).config["data"]["recipe"] or {}
        field = recipe.get("options", {}).get("field")
        table, added = sequence_columns(trained, Path(line.words[1]), field, level)
    elif isinstance(trained.inputs, ll.data.Sets):
        from leadline.cli.sets import set_columns

        table, added = set_columns(trained, Path(line.words[1]), level)
    elif isinstance(trained.inputs, ll.data.Tokens):
        table, added = _of_text(trained, Path(line.words[1]), level)
    else:
        table = read(line.words[1])
        added = columns_of(trained, table, level)
    names = [_free(name, table.columns) for name in added]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*table.columns, *names])
    writer.writerows(zip(*map(written, table.columns.values()), *added.values(), strict=True))
    if output is not None:
        write(Path(output), text.getvalue())
        screen.say(f"{counted(len(table), 'row')} predicted: {output}")
    else:
        printed(text.getvalue(), screen)
    screen.answer({"rows": len(table), "output": output, "columns": names})
    return 0


def _of_text(trained: Any, path: Path, level: float | None) -> tuple[Any, dict[str, list[str]]]:
    """A file of texts as a table, and what a run on text says of each."""
    from leadline.cli import texts

    table, rows = texts.table_of(path, trained.inputs, trained.target.classes)
    if cut := texts.num_cut(trained.inputs, rows):
        print(f"note: {counted(cut, 'text')} cut to the tokens that the model reads", file=sys.stderr)
    for note in texts.odd(trained.inputs, rows):
        print(f"note: {note}", file=sys.stderr)
    if long := texts.in_parts(trained.inputs, rows):
        named = ", ".join(str(table.numbers[row]) for row in long[:5]) + (", …" if long[5:] else "")
        told = (
            f"{counted(len(long), 'text')} longer than the {trained.inputs.length} tokens that the model reads at once"
        )
        print(f"note: {told}, and read in parts: {table.word} {named}", file=sys.stderr)
    if trained.inputs.task != "classes":
        return table, texts.columns_of(trained, rows)
    prediction = trained.predict([row[0] if len(row) == 1 else tuple(row) for row in rows])
    if trained.target.discrete:
        return table, class_columns(prediction, trained.target, level)
    return table, number_columns(prediction, level, tuple(str(k + 1) for k in range(trained.target.dim)))


def columns_of(trained: Any, table: Any, level: float | None) -> dict[str, list[str]]:
    """What the model says of each row: name of a column → its cells."""
    from leadline.cli.rows import inputs_of

    x = inputs_of(table, trained.inputs, math.prod(trained.shape), trained.target)
    return prediction_columns(trained.predict(x.reshape(len(x), *trained.shape)), trained.target, level)


def prediction_columns(prediction: Any, target: Any, level: float | None) -> dict[str, list[str]]:
    """The same of a prediction."""
    if target.discrete:
        return class_columns(prediction, target, level)
    if target.kind == "signs":
        return {f"predicted_{k + 1}": _cells(bit) for k, bit in enumerate(prediction.mode.T)}
    ends = target.names if target.columns else tuple(str(k + 1) for k in range(target.dim))
    if target.kind == "ranking":
        places = prediction.mode.T
        said = [target.decode(place) if target.classes else _cells(place) for place in places]
        return {f"predicted_{end}": cells for end, cells in zip(ends, said, strict=True)}
    heads = getattr(prediction, "columns", None)  # a prediction of several families is one of each
    if heads is not None:
        kinds = target.columns or (target,) * len(heads)
        each = [class_columns(h, t, level) if t.discrete else number_columns(h, level) for h, t in zip(heads, kinds)]
        order = ("predicted", "modes", "low", "high")
        own = {f"{name}_{end}": said[name] for name in order for end, said in zip(ends, each) if name in said}
        chances = {f"{name}_{end}": c for end, said in zip(ends, each) for name, c in said.items() if name not in order}
        return own | chances
    return number_columns(prediction, level, ends)


def class_columns(prediction: Any, target: Any, level: float | None) -> dict[str, list[str]]:
    """The likeliest class, the chances of each and, where classes have an order, the ends of the interval."""
    classes = target.classes or ("0", "1")
    columns = {"predicted": [classes[int(code)] for code in prediction.mode]}
    if isinstance(prediction, PointPrediction):  # it has no probabilities
        return columns
    chances = prediction.mean.double()
    tell_of_nan(chances)
    if chances.dim() == 1:
        import torch

        chances = torch.stack([1 - chances, chances], 1)
    if target.kind == "ordered":
        try:
            low, high = prediction.interval(level or USUAL)
            columns |= {"low": [classes[int(c)] for c in low], "high": [classes[int(c)] for c in high]}
        except UserError:  # a family that leaves the order aside
            pass
    return columns | {f"p({name})": [f"{p:.6g}" for p in chances[:, k].tolist()] for k, name in enumerate(classes)}


def number_columns(prediction: Any, level: float | None, ends: Sequence[str] = ()) -> dict[str, list[str]]:
    """Mean and interval of each number; of a mixture its modes, since its mean may be a value that never occurs.

    Args:
        level: of the interval, if the user asked for one.
        ends: how the names of several outputs end.
    """
    tell_of_nan(prediction.mode)
    if isinstance(prediction, PointPrediction):
        return {"predicted": _cells(prediction.mode)}
    modes = getattr(prediction, "modes", None)
    columns: dict[str, list[str]] = {}
    if modes is not None:
        columns["predicted"] = _cells(modes[:, 0])
        columns["modes"] = ["; ".join(_cells(row[~row.isnan()])) for row in modes]
        named: tuple[tuple[str, Any], ...] = ()
    else:
        mean = prediction.mean
        named = (("predicted", mean if mean.shape == prediction.mode.shape else prediction.mode),)
    try:
        named = (*named, *zip(("low", "high"), prediction.interval(level or USUAL), strict=True))
    except UserError:  # classes, one of several heads, have no interval; quantiles none beyond their levels
        if not hasattr(prediction, "probabilities") and (level is not None or not hasattr(prediction, "levels")):
            raise
    named = (*named, *((f"q({q:g})", prediction.quantile(q)) for q in getattr(prediction, "levels", ())))
    if modes is not None and prediction.circular:  # the turn of the arc in which the mode is written
        turns = 2 * math.pi * ((modes[:, 0] - (named[0][1] + named[1][1]) / 2) / (2 * math.pi)).round()
        named = tuple((name, end + turns) for name, end in named)
    for name, values in named:
        by_output = values.reshape(len(values), -1)
        many = by_output.shape[1] > 1
        for k in range(by_output.shape[1]):
            columns[f"{name}_{ends[k]}" if many else name] = _cells(by_output[:, k])
    return columns


def tell_of_nan(values: Any) -> None:
    """A note of the rows for which the model's answer is no number, as where what it read overflows."""
    lost = values.reshape(len(values), -1).isnan().any(1).nonzero().flatten().tolist()
    if lost:
        told = f"{counted(len(lost), 'row')} without an answer that is a number, the first of them row {lost[0] + 1}"
        print(f"note: {told}; look for values far beyond those of training, as 1e36 is", file=sys.stderr)


def _cells(values: Any) -> list[str]:
    """Numbers as they are written: whole ones in full, others to the digits that a network has."""
    return [f"{v:.0f}" if abs(v) < 1e15 and v == round(v) else f"{v:.7g}" for v in values.tolist()]


def source_files(folder: Any) -> list[str]:
    """The files that the run was trained on."""
    from leadline.engine.record import Record

    recipe = Record.open(folder).config["data"]["recipe"]
    options = recipe["options"] if recipe else {}
    return [options[name] for name in ("path", "test_path", "edges", "graphs") if options.get(name)]


def of_graph(folder: Any) -> bool:
    """Whether a run was trained on a graph, of which it can be asked without any rows."""
    from leadline.engine.record import Record

    return Record.open(folder).config["data"]["inputs"]["name"] == "GraphInputs"


def protect(output: Path, files: Sequence[str]) -> None:
    """Never write over the rows that are read, or over those that the run was trained on."""
    own = output.resolve()
    for file in map(Path, files):
        if own == file.resolve() or (own.is_file() and file.is_dir() and own.is_relative_to(file.resolve())):
            raise DataError("--output must not be a file that is read", got=f"{output}", do="Name a new file")


def printed(text: str, screen: Screen) -> None:
    """On the screen, beside what --json says."""
    (sys.stderr if screen.as_json else sys.stdout).write(text)


def write(path: Path, text: str) -> None:
    """The whole file or none of it."""
    from leadline.engine.files import replace_bytes

    try:
        replace_bytes(path, text.encode())
    except OSError as error:
        raise DataError(
            "--output must be a file that can be written",
            got=f"{path} ({error.strerror})",
            do="Name a file in a folder that exists",
        ) from None


def _free(name: str, taken: Any) -> str:
    """A column's name that the rows do not have yet."""
    while name in taken:
        name += "_"
    return name
