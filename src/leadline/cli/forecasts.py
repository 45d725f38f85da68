"""What the shell says of a run on series or sequences: forecasts as a table, and what they are worth."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import Tensor

from leadline.cli.rows import read
from leadline.cli.screen import Screen
from leadline.data.account import counted
from leadline.data.cells import Table, Text
from leadline.data.sequence_inputs import Sequences, sequence_rows
from leadline.data.sequence_sources import LISTED, steps_of
from leadline.data.series_windows import Windows
from leadline.engine.evaluation import Evaluation
from leadline.engine.forecast_scores import LEVEL, OF_A_STEP, Score, naive_in_words
from leadline.errors import DataError
from leadline.forecast import forecast, forecasts, scores
from leadline.run import Run


def beside_naive(run: Run, split: str, screen: Screen) -> dict[str, Any]:
    """Scores of a split beside those of the value of a season ago; nothing of a run that is not on series."""
    if not forecasts(run):
        return {}
    found = scores(run, split)
    season = naive_in_words(found.season)
    screen.say()
    screen.table(
        ("forecasts", "CRPS", "MAE", "MASE", f"held by {found.level:.0%} intervals"),
        [("of the model", *_told(found.model)), (season, *_told(found.naive))],
        title=f"on {split}, {counted(found.rows, 'window')}, {found.apart} of which do not overlap; in the unit of "
        f"{found.unit}",
    )
    if found.followed is not None:
        screen.say(
            f"a forecast mixes three: it goes {found.followed:.0%} of the way from {season} to a linear forecast, and "
            f"from there {found.share:.0%} of the way to the network's, by how well each did on earlier windows"
        )
    return {"forecast": found.to_dict()}


def _told(score: Score) -> list[str]:
    figures = (score.crps, score.mae, score.mase)
    words = [f"{figure:.4g}" if math.isfinite(figure) else "-" for figure in figures]
    held = f"{score.coverage:.1%} ({score.low:.0%} … {score.high:.0%})"
    return [*words, held if math.isfinite(score.coverage) else "-"]


def whose(run: Run, told: bool = True) -> str:
    """A title over metrics that are not those of the forecasts.

    Args:
        told: whether the scores of the forecasts follow.
    """
    if not isinstance(run.inputs, Windows) or run.inputs.linear is None:
        return ""
    return "of the network alone" + ("; the scores of the forecasts that predict gives are below" if told else "")


def shown(run: Run, evaluations: Mapping[str, Evaluation]) -> dict[str, Evaluation]:
    """The metrics as the screen shows them: of forecasts those of all steps ahead together."""
    if not forecasts(run) or run.target.dim == 1:
        return dict(evaluations)
    found = {}
    for split, own in evaluations.items():
        names = [name for name in own if not OF_A_STEP.search(name)]
        found[split] = Evaluation({n: own[n] for n in names}, {n: own.interval(n) for n in names}, own.count)
    return found


def forecast_columns(trained: Run, table: Table, level: float | None) -> dict[str, list[str]]:
    """The next values of each series of a table: name of a column → its cells."""
    found, window = forecast(trained, table, level or LEVEL), cast(Windows, trained.inputs).window
    short = {name: count for name, count in zip(found.series, found.read) if count < window}
    if short:
        several = f"{counted(len(short), 'series', 'series')} of it, {next(iter(short))} first, hold"
        who = several if found.group else "the table holds"
        told = f"{who} {counted(min(short.values()), 'step')} where the model reads {window}"
        told += "; forecasts from so few steps are less certain than their intervals say"
        print(f"note: {told}; give it the last {window} or more", file=sys.stderr)
    lost = [place for place, value in enumerate(found.predicted) if not math.isfinite(value)]
    if lost:
        whose = f" of {found.group} {found.series[lost[0]]}" if found.group else ""
        told = (
            f"{counted(len(lost), 'step')} ahead without a forecast, the first of them {found.moments[lost[0]]}{whose}"
        )
        print(f"note: {told}; look for values far beyond those of training, as 1e36 is", file=sys.stderr)
    for name, count in _unknown(cast(Windows, trained.inputs), table).items():
        told = f"{name} is empty at {counted(count, 'step')} ahead, though it must be known there"
        print(f"note: {told}; what is usual in training stands in for it", file=sys.stderr)
    columns = {name: list(cells) for name, cells in found.columns().items()}
    return {
        name: [f"{cell:.7g}" if isinstance(cell, float) and math.isfinite(cell) else _word(cell) for cell in cells]
        for name, cells in columns.items()
    }


def _unknown(inputs: Windows, table: Table) -> dict[str, int]:
    """At how many steps ahead a column that must be known there is empty."""
    if not inputs.looks_ahead:
        return {}
    missing, found = np.isnan(inputs.known.read(table).numpy()), np.zeros(len(inputs.known.names), dtype=np.int64)
    for laid in inputs.laid(table):
        found += missing[laid.one.rows[len(laid.one) :][: inputs.horizon]].sum(0)
    return {name: int(count) for name, count in zip(inputs.known.names, found) if count}


def _word(cell: Any) -> str:
    return cell if isinstance(cell, str) else ""


def known_steps(trained: Run, path: str) -> tuple[Any, Any]:
    """x and y of a table with what was measured, for a run on series."""
    inputs = trained.inputs
    if isinstance(inputs, Windows):
        return inputs.known_rows(read(path))
    raise DataError("a run on sequences is evaluated on its own splits", got=f"--data {path}", do="Leave --data out")


def sequence_columns(
    trained: Run, path: Path, field: str | None, level: float | None
) -> tuple[Table, dict[str, list[str]]]:
    """A row for each sequence of a file, or for each step where every step is asked, and what is said of it.

    Args:
        field: what held the sequences of training, where each was held whole.
    """
    from leadline.cli.predict import class_columns, number_columns

    word, names, x, cut = _sequences(trained, path, field)
    if cut:
        told = f"{counted(cut, 'sequence')} cut to the {counted(x.shape[1], 'step')} that the model reads"
        print(f"note: {told}", file=sys.stderr)
    prediction, target = trained.predict(x), trained.target
    if target.kind == "tokens":
        there = x[..., -1] > 0
        said = [target.classes[int(code)] for code in prediction.mode[there]]
        names = [name for name, count in zip(names, there.sum(1).tolist()) for _ in range(count)]
        columns = {"predicted": said}
    elif target.discrete:
        columns = class_columns(prediction, target, level)
    else:
        columns = number_columns(prediction, level)
    return Table({word: Text(list(names))}, np.arange(len(names))), columns


def _sequences(trained: Run, path: Path, field: str | None) -> tuple[str, list[str], Tensor, int]:
    """What sequences are told apart by, the name of each, their raw rows, and how many of them lost their end."""
    inputs = cast(Sequences, trained.inputs)
    if path.name.lower().endswith(LISTED) or inputs.sequence is None:
        word, numbers, steps = steps_of(path, field)
        x = inputs.of_lists(steps, [f"{word} {number}" for number in numbers])
        return word, [str(number) for number in numbers], x, sum(len(own) > inputs.length for own in steps)
    table = read(path)
    x, names = inputs.of_table(table)
    lengths = [len(rows) for _, rows in sequence_rows(table, inputs.sequence, inputs.order, inputs.dates)]
    return inputs.sequence, names, x, sum(length > inputs.length for length in lengths)
