"""What the model got right and wrong, by the kind of target: classes, real numbers, or anything else."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from leadline.data.columns import Column, TableInputs
from leadline.data.data import Split
from leadline.data.graph_inputs import GraphInputs
from leadline.data.series_windows import Windows
from leadline.data.target import SEVERAL
from leadline.data.tokens import Tokens
from leadline.report import figures
from leadline.report.facts import Facts
from leadline.report.forecasts import series
from leadline.report.maps import maps
from leadline.report.numbers import (
    Answers,
    Turned,
    array,
    confusion,
    counts_note,
    coverage,
    per_class,
    reliability,
    top_confusions,
    worst,
)
from leadline.report.style import LIGHT
from leadline.report.texts import row_text, texts
from leadline.report.words import count, escape, number, percent, table

Draw = Callable[..., str]
"""draw(name, figure, caption, full=False) -> HTML of a figure, which is also kept as a PNG file."""

OUTPUTS = 4  # outputs of a real target that get a panel each
FEATURES = 6  # values of a row that are told
MEASURED = ("real", "positive", "count", "proportion", "angle")  # kinds that have a distance from the truth


def results(facts: Facts, split: str, draw: Draw) -> str:
    """HTML of the section."""
    target = facts.data.target
    if target.spatial:
        return maps(facts, split, draw)
    if target.placed:
        return texts(facts, split, draw)
    if isinstance(facts.data.inputs, Windows):
        return series(facts, split, draw)
    if target.kind == SEVERAL:
        return _several(facts, split, draw)
    answers = (Turned if target.kind == "angle" else Answers).of(facts, split)
    if target.discrete and (p := answers.probabilities) is not None:
        return _classes(facts, split, answers, p, draw)
    if target.kind in MEASURED and (mean := answers.mean) is not None:
        return _real(facts, split, answers, mean, draw)
    return _anything(facts, split, answers, draw)


def _several(facts: Facts, split: str, draw: Draw) -> str:
    """Column by column, each as if it were the only one."""
    shown = []
    for k, column in enumerate(facts.data.target.columns):
        own = facts.of_column(k)
        shown.append(f"<h3>{escape(column)}</h3>{results(own, split, _numbered(draw, k + 1))}")
    return "".join(shown)


def _numbered(draw: Draw, column: int) -> Draw:
    """`draw`, with a name for each column's figures."""
    return lambda name, figure, caption, full=False: draw(f"{name}-{column}", figure, caption, full=full)


def class_names(facts: Facts, size: int) -> list[str]:
    """The target's names of the classes, or their codes where it has none."""
    names = [str(name) for name in facts.data.target.classes]
    return names if len(names) == size else [str(code) for code in range(size)]


def _classes(facts: Facts, split: str, answers: Answers, p: np.ndarray, draw: Draw) -> str:
    names = class_names(facts, p.shape[1])
    said = p.argmax(1) if np.isfinite(p).all() else np.nan_to_num(p).argmax(1)
    counts = confusion(answers.y, said, len(names))
    if len(names) == 2:  # of the second class, "yes": it is judged by its own probability, low ones too
        bins = reliability(p[:, 1], answers.y == 1, bins=_bins(len(p)))
    else:
        bins = reliability(p.max(1), said == answers.y, bins=_bins(len(p)))
    matrix = draw(
        "confusion", figures.confusion_matrix(counts, names, split),
        "Each row is a true class; right answers are on the diagonal, mistakes are purple. The stronger the colour, "
        "the larger the share of the row." + (" Numbers count rows." if len(names) <= figures.CELLS else ""),
    )  # fmt: skip
    diagram = draw(
        "reliability", figures.reliability_diagram(bins, names[1] if len(names) == 2 else None, split),
        "On the dashed line, answers given a probability of 80 % are right in 80 of 100 rows; below it, in fewer. ECE, "
        "the expected calibration error, is the mean distance from the line. Below: the number of rows in each bin.",
    )  # fmt: skip
    cards = [f'<div class="card">{matrix}</div>', f'<div class="card">{diagram}</div>']
    confusions = _confusions(counts, names) if len(names) > 2 else ""
    wide = "" if confusions else " wide"
    cards.append(f'<div class="card{wide}"><h3>Class by class</h3>{_per_class(counts, names, split)}</div>')
    if confusions:
        cards.append(f'<div class="card"><h3>Most common mistakes</h3>{confusions}</div>')
    index = worst(answers.nll)
    rows = []
    for i in index:
        right = said[i] == answers.y[i]
        rows.append(
            [
                _name(names[int(answers.y[i])]),
                _name(names[int(said[i])], miss=not right),
                percent(p[i, said[i]]),
                percent(p[i, int(answers.y[i])]),
            ]
        )
    cards.append(
        _worst(
            facts,
            split,
            answers,
            index,
            ["true", "predicted", "its probability", "probability of the true class"],
            rows,
        )
    )
    return f'<div class="grid">{"".join(cards)}</div>'


def _real(facts: Facts, split: str, answers: Answers, mean: np.ndarray, draw: Draw) -> str:
    target, colour, total = facts.data.target, split, mean.shape[1]
    names = list(target.names)
    y, ends = answers.y.reshape(len(mean), -1).astype(float), answers.interval(0.9)
    few = slice(0, OUTPUTS)
    some_ends = None if ends is None else (ends[0][:, few], ends[1][:, few])
    note = f" The first {OUTPUTS} of {total} outputs are shown." if total > OUTPUTS else ""
    if len(mean) > figures.POINTS // min(total, OUTPUTS):
        note += f" {number(figures.POINTS // min(total, OUTPUTS))} of {count(len(mean), 'row')} are drawn."
    bad = int((~np.isfinite(mean).all(1)).sum())
    if bad:
        note += f" Left out: {count(bad, 'row')} without a finite prediction."
    lines = " Vertical lines are 90 % intervals." if ends is not None else ""
    scatter = draw(
        "predicted", figures.predicted_against_true(y[:, few], mean[:, few], some_ends, names, colour),
        f"The nearer to the dashed line, the better.{lines}{note}", full=total > 1,
    )  # fmt: skip
    cards = [f'<div class="card{" wide" if total > 1 else ""}">{scatter}</div>']
    observed = coverage(answers)
    if observed is not None:
        held = draw(
            "coverage", figures.coverage_curve(observed[:, :OUTPUTS], len(answers.y), names, split),
            "An interval of 90 % should hold the truth in 90 of 100 rows. Below the grey diagonal intervals are too "
            f"narrow, above it too wide; inside the band the difference may be chance.{counts_note(answers)}",
        )  # fmt: skip
        cards.append(f'<div class="card">{held}</div>')
    if total > 1:
        cards.append(f'<div class="card"><h3>Output by output</h3>{_per_output(y, mean, ends, names)}</div>')
    spread = draw(
        "residuals", figures.residuals(y[:, few], mean[:, few], names, colour),
        "There should be no pattern: a slope or a funnel shows something that the model has not learned.", full=True,
    )  # fmt: skip
    cards.append(f'<div class="card wide">{spread}</div>')
    index = worst(answers.nll)
    heads, rows = ["true", "predicted", "off by"], []
    for i in index:
        off = y[i] - mean[i]
        rows.append([_values(y[i]), _values(mean[i]), f'<span class="miss">{_values(off)}</span>'])
        if ends is not None:
            rows[-1].append(f"{number(float(ends[0][i, 0]))} to {number(float(ends[1][i, 0]))}" if total == 1 else "")
    if ends is not None and total == 1:
        heads.append("90 % interval")
    else:
        rows = [row[:3] for row in rows]
    cards.append(_worst(facts, split, answers, index, heads, rows))
    return f'<div class="grid">{"".join(cards)}</div>'


def _anything(facts: Facts, split: str, answers: Answers, draw: Draw) -> str:
    plate = draw(
        "losses", figures.losses(answers.nll, split),
        "On the left are rows that the model predicted well, on the right those that it predicted badly.", full=True,
    )  # fmt: skip
    index = worst(answers.nll)
    y = answers.y.reshape(len(answers.y), -1)
    table = _worst(facts, split, answers, index, ["true"], [[_values(y[i])] for i in index])
    return f'<div class="grid"><div class="card wide">{plate}</div>{table}</div>'


def _bins(rows: int) -> int:
    """Ten bins, or five where ten would hold a few rows each."""
    return 10 if rows >= 100 else 5


def _per_class(counts: np.ndarray, names: list[str], split: str) -> str:
    scores = per_class(counts)
    rows = []
    for c, name in enumerate(names):
        f1 = scores["f1"][c]
        width = 0 if math.isnan(f1) else 100 * f1
        bar = f'<span class="bar" style="{colour_of(split)}"><i style="width:{width:.0f}%"></i></span>'
        cells = [percent(scores[key][c]) for key in ("precision", "recall")] + [f"{percent(f1)}{bar}"]
        rows.append([_name(name), *cells, number(int(scores["support"][c]))])
    return table(["class", "precision", "recall", "F1", "rows"], rows, cut=True)


def _per_output(y: np.ndarray, mean: np.ndarray, ends: Any, names: list[str]) -> str:
    """Errors in each output's own unit, and how often its 90 % interval held the truth."""
    rmse, mae = np.sqrt(((y - mean) ** 2).mean(0)), np.abs(y - mean).mean(0)
    rows = [[_name(name), number(a), number(b)] for name, a, b in zip(names, rmse.tolist(), mae.tolist(), strict=True)]
    if ends is None:
        return table(["output", "rmse", "mae"], rows, cut=True)
    inside = ((ends[0] <= y) & (y <= ends[1])).mean(0).tolist()
    rows = [[*row, percent(part)] for row, part in zip(rows, inside, strict=True)]
    return table(["output", "rmse", "mae", "in 90 % interval"], rows, cut=True)


def _confusions(counts: np.ndarray, names: list[str]) -> str:
    pairs = top_confusions(counts)
    if not pairs:
        return '<p class="soft">No mistakes.</p>'
    true = counts.sum(1)
    rows = [[_name(names[i]), _name(names[j]), number(rows), percent(rows / true[i])] for i, j, rows in pairs]
    return table(["true", "taken for", "rows", "of its class"], rows, texts=2)


def _worst(
    facts: Facts, split: str, answers: Answers, index: np.ndarray, heads: list[str], rows: list[list[str]]
) -> str:
    part = facts.data[split]
    numbers = part.row_numbers(torch.from_numpy(index))
    told = [_features(facts, part, int(i)) for i in index]
    # numbers stand right, class names left
    texts = 3 if facts.data.target.discrete and len(heads) > 1 else 1
    body = [
        [str(row), *cells, number(float(answers.nll[i])), f'<div class="features">{features}</div>']
        for row, cells, i, features in zip(numbers, rows, index, told, strict=True)
    ]
    listing = table(["row", *heads, "loss", "input"], body, texts=texts, last_text=True)
    return (
        '<div class="card wide"><h3>Worst mistakes</h3><p class="soft small">Rows of the '
        f"{split} split with the highest negative log-likelihood, by their number in the source. A wrong label often "
        f"shows up here first.</p>{listing}</div>"
    )


def _features(facts: Facts, part: Split, i: int) -> str:
    """The first few values by name; a line for a long nameless row; a thumbnail for an image."""
    x, inputs = array(part.x[i]), facts.data.inputs
    if isinstance(inputs, Tokens):
        return row_text(inputs, part.x[i])
    if isinstance(inputs, GraphInputs) and inputs.graph is not None:
        return escape(inputs.told(part.x[i]))
    if x.ndim == 1 and isinstance(inputs, TableInputs):
        told = [f"{escape(c.name)}&nbsp;<b>{escape(_cell(c, v))}</b>" for c, v in zip(inputs.columns[:FEATURES], x)]
    elif x.ndim == 1 and len(inputs.names) == len(x):
        told = [f"{escape(name)}&nbsp;<b>{_value(value)}</b>" for name, value in zip(inputs.names[:FEATURES], x)]
    elif x.ndim == 1 and len(x) > FEATURES:
        return _sparkline(x)
    elif x.ndim in (2, 3) and (picture := _thumbnail(x)):
        return picture
    else:
        told = [f"x{k}&nbsp;<b>{_value(value)}</b>" for k, value in enumerate(x.reshape(-1)[:FEATURES])]
    more = x.size - len(told)
    return " · ".join(told) + (f" · and {number(more)} more" if more else "")


def _sparkline(x: np.ndarray, width: int = 190, height: int = 30) -> str:
    x = x[np.linspace(0, len(x) - 1, min(len(x), 400)).astype(int)].astype(float)
    finite = x[np.isfinite(x)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    span = high - low if high > low else 1.0
    step = width / max(len(x) - 1, 1)
    points = " ".join(
        f"{k * step:.1f},{2 + (high - v) / span * (height - 4):.1f}" for k, v in enumerate(x) if np.isfinite(v)
    )
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="the row as a '
        f'line"><polyline points="{points}" fill="none" stroke="var(--soft)" stroke-width="1.3" '
        'stroke-linejoin="round"/></svg>'
    )


def _thumbnail(x: np.ndarray) -> str:
    """A small PNG of (Y, X), (1, Y, X) or (3, Y, X); nothing for other shapes."""
    if x.ndim == 3 and x.shape[0] in (1, 3):
        x = x[0] if x.shape[0] == 1 else x.transpose(1, 2, 0)
    elif x.ndim == 3:
        return ""
    if min(x.shape[:2]) < 2 or not np.isfinite(x).all():
        return ""
    from matplotlib.image import imsave

    x = x[:: max(x.shape[0] // 64, 1), :: max(x.shape[1] // 64, 1)].astype(float)
    x = (x - x.min()) / max(x.max() - x.min(), 1e-12)
    stream = io.BytesIO()
    imsave(stream, x, cmap="gray", vmin=0, vmax=1, format="png")
    return f'<img alt="the row as an image" src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'


def _name(name: Any, miss: bool = False) -> str:
    return f'<div class="name-cell{" miss" if miss else ""}">{escape(name)}</div>'


def _value(value: Any) -> str:
    value = value.item()
    return "missing" if isinstance(value, float) and math.isnan(value) else number(value)


def _cell(column: Column, value: Any) -> str:
    """A raw value of a table as its source wrote it."""
    if math.isnan(value):
        return "missing"
    if column.kind == "category":
        return column.levels[int(value)] if 0 <= value < len(column.levels) else "never seen in training"
    if column.kind == "flag":
        return "yes" if value else "no"
    if column.kind == "date":
        return np.datetime64(math.floor(value), "D").item().isoformat()
    return _value(value)


def _values(values: np.ndarray) -> str:
    shown = ", ".join(number(value.item()) for value in values[:OUTPUTS])
    return shown + (", …" if len(values) > OUTPUTS else "")


def colour_of(split: str) -> str:
    """The style that gives an element the colour of a split."""
    return f"--of:var(--{split if split in LIGHT else 'soft'})"
