"""What became of the forecasts of a split, beside what came and beside the value of a season ago.

All of it is of the forecasts as `leadline predict` gives them, not of the network alone (hindsight.py). Of windows that
overlap, those are drawn whose values follow one another, so that every value is forecast once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.series_windows import Windows
from leadline.engine.forecast_scores import LEVEL, Judged, Score, Scores, interval_of, median_of, naive_in_words
from leadline.likelihoods.hindsight import Hindsight, apart_in, of_parts
from leadline.likelihoods.season_ago import season_law
from leadline.report import figures
from leadline.report.facts import Facts
from leadline.report.figures import PAD, blank, styled
from leadline.report.numbers import Answers, array, counts_note, coverage
from leadline.report.style import FULL, LIGHT
from leadline.report.words import count, escape, number, percent, shorten, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 240  # values that are drawn: more are a blot
WORST = 6  # forecasts that are drawn as the worst
FEW = 20  # windows that do not overlap, below which a figure says little


@dataclass(frozen=True, eq=False)
class Headline:
    """The top of the page: what is measured, its value, what stands beside it, and a sentence, in words."""

    name: str
    value: str
    beside: str
    sentence: str

    @classmethod
    def of(cls, facts: Facts, split: str) -> Headline:
        scores, inputs = _scores(facts, split), windows_of(facts)
        own, rival, past = scores.model, scores.naive, naive_in_words(scores.season)
        unit = " deviations of its series" if inputs.scaled else ""
        told = f"Forecasts of {inputs.roles.target} are off by {number(own.mae)}{unit} on average"
        if own.crps < rival.crps:
            told += f"; their CRPS is {percent(1 - own.crps / rival.crps)} lower than that of {past}"
        else:
            told += f"; {past} is as good a forecast, or better"
        if np.isfinite(own.coverage):
            told += f". Their 90 % intervals held {percent(own.coverage)} of the values"
        if scores.apart < FEW:
            told += f". With {counted(scores.apart, 'window')} that do not overlap, these figures are rough estimates"
        return cls(f"CRPS on the {split} split", number(own.crps), f"{number(rival.crps)} with {past}", f"{told}.")


def series(facts: Facts, split: str, draw: Callable[..., str]) -> str:
    """HTML of the section."""
    inputs, (model, naive), found = windows_of(facts), facts.judged, beside(facts, split)
    of = f" of {escape(inputs.roles.group)} {escape(found.name)}" if found.name else ""
    plate = draw(
        "forecasts", drawn(found, inputs, split),
        f"Forecasts{of} of {counted(inputs.horizon, 'step')}, one after the other, each from what was known before it. "
        "The band is the 90 % interval: nine values in ten should lie in it.", full=True,
    )  # fmt: skip
    worst = draw(
        "worst", worst_forecasts(facts, split),
        "The forecasts with the highest CRPS that do not overlap. On the left of the line are the last values before.",
        full=True,
    )  # fmt: skip
    held = _held(facts, split, draw)
    cards = [f'<div class="card wide">{plate}</div>', f'<div class="card{"" if held else " wide"}">']
    cards[-1] += f"{_table(_scores(facts, split))}</div>"
    cards += [f'<div class="card">{held}</div>'] if held else []
    if inputs.horizon > 1:
        ahead = draw(
            "steps", by_step(model, naive, inputs, split),
            "Each point is the mean over all windows of one step ahead.", full=True,
        )  # fmt: skip
        cards.append(f'<div class="card wide">{ahead}</div>')
    cards.append(f'<div class="card wide">{worst}</div>')
    return f'<div class="grid">{"".join(cards)}</div>'


def windows_of(facts: Facts) -> Windows:
    """The inputs of a run on series."""
    inputs = facts.data.inputs
    if not isinstance(inputs, Windows):
        raise TypeError(f"{type(inputs).__name__} are no windows of series")
    return inputs


def _scores(facts: Facts, split: str) -> Scores:
    return Scores.of(windows_of(facts), facts.data[split], facts.judged, LEVEL)


def _table(scores: Scores) -> str:
    """The scores, as the shell tells them."""

    def row(name: str, score: Score) -> list[str]:
        held = f'{percent(score.coverage)}<span class="range">{percent(score.low)} to {percent(score.high)}</span>'
        return [escape(name), number(score.crps), number(score.mae), number(score.mase), held]

    past = naive_in_words(scores.season)
    heads = ["forecasts", "CRPS", "MAE", "MASE", "held by 90 % intervals"]
    note = (
        f"{count(scores.rows, 'window')}, {number(scores.apart)} of which do not overlap. CRPS and MAE are in the unit "
        f"of {escape(scores.unit)}; MASE is the error beside that of {past} in training. Less is better for all three; "
        "of the intervals, 90 % is best."
    )
    if scores.followed is not None and scores.share is not None:
        note += (
            f" A forecast goes {percent(scores.followed)} of the way from {past} to a linear forecast, and from there "
            f"{percent(scores.share)} of the way to the network's, by how well each did on earlier windows."
        )
    body = table(heads, [row("of the model", scores.model), row(past, scores.naive)])
    return f'<h3>Beside {past}</h3>{body}<p class="soft small below">{note}</p>'


@styled
def by_step(model: Judged, naive: Judged, inputs: Windows, colour: str) -> Figure:
    """Mean error and coverage of each step ahead."""
    figure = blank(FULL, 3.3)
    left, right = figure.subplots(1, 2)
    ahead, unit = np.arange(1, inputs.horizon + 1), "deviations" if inputs.scaled else shorten(inputs.roles.target, 24)
    soft: dict[str, Any] = {"color": LIGHT["soft"], "ls": (0, (3, 2)), "lw": 1.1, "marker": "s", "ms": 3}
    own: dict[str, Any] = {"color": LIGHT[colour], "lw": 1.5, "marker": "o", "ms": 3.5}
    for ax, values in ((left, "away"), (right, "held")):
        ax.plot(ahead, array(getattr(naive, values).mean(0)), label=naive_in_words(inputs.season), **soft)
        ax.plot(ahead, array(getattr(model, values).mean(0)), label="forecast", **own)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("steps ahead")
        ax.margins(x=0.03)
    right.axhline(LEVEL, color=LIGHT["ink"], lw=0.9, label="promised")
    least = min(float(own.held.mean(0).nan_to_num(1).min()) for own in (model, naive))
    right.set_ylim(max(0, min(0.75, least - 0.1)), 1.01)
    figures.percent_axis(right.yaxis)
    for ax, title, y in (
        (left, "How far off", f"mean error ({unit})"),
        (right, "Held by 90 % intervals", "values inside (%)"),
    ):
        ax.set_ylabel(y)
        _headed(ax, title)
    left.set_ylim(bottom=0)
    return figure


def _headed(ax: Axes, title: str) -> None:
    """Title, and the legend between it and the axes."""
    ax.set_title(title, pad=PAD)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, frameon=False, borderaxespad=0.1)


def hindsight(facts: Facts, split: str, level: float) -> Hindsight:
    """What is known at the origin of each row of a split, for intervals of a level: as `leadline.forecast` has it."""
    data, inputs = facts.data, windows_of(facts)
    if split == "train":
        return Hindsight.none(len(data[split]))
    parts: list[str] = [name for name in ("val", "test") if name in facts.outputs and len(data[name])]
    parts = parts[: parts.index(split) + 1] if split in parts else [split]
    told = [facts.likelihood.prediction(facts.outputs[name]) for name in parts]
    return of_parts(inputs, told, [data[name] for name in parts], level).last(len(data[split]))


@dataclass(frozen=True, eq=False)
class Forecasts(Answers):
    """Answers of a run on series: its forecasts, weighed and paced, in place of what the network says.

    Args:
        known: what is known at the origin of each row, for intervals of a level.
    """

    known: Callable[[float], Hindsight]

    @classmethod
    def of(cls, facts: Facts, split: str) -> Forecasts:
        said = Answers.of(facts, split)
        return cls(said.y, said.prediction, said.nll, partial(hindsight, facts, split))

    def interval(self, level: float) -> tuple[np.ndarray, np.ndarray] | None:
        if super().interval(level) is None:
            return None
        known, (low, high) = self.known(level), self.prediction.interval(level)
        return _rows(known.end(self.prediction, low)), _rows(known.end(self.prediction, high))

    @property
    def network(self) -> Answers:
        """What the network alone says."""
        return Answers(self.y, self.prediction, self.nll)


def _rows(values: Tensor) -> np.ndarray:
    return array(values.reshape(len(values), -1))


def _held(facts: Facts, split: str, draw: Callable[..., str]) -> str:
    """How often intervals of every level held the truth, all steps ahead together."""
    answers, inputs = Forecasts.of(facts, split), windows_of(facts)
    observed = coverage(answers)
    if observed is None:
        return ""
    rows, names, note = apart_in(facts.data[split], inputs.horizon), ["forecasts"], ""
    observed = observed.mean(1, keepdims=True)
    alone = coverage(answers.network)
    if alone is not None and split != "train" and inputs.kind == "real":
        names, observed = [*names, "network"], np.hstack([observed, alone.mean(1, keepdims=True)])
        note = (
            " A forecast follows the network as far as the network has been right so far, and its interval is widened "
            "or narrowed by how many values earlier ones held. Dashed, with squares: intervals of the network alone."
        )
    return draw(
        "coverage", figures.coverage_curve(observed, rows, names, split),
        "An interval of 90 % should hold the truth 90 times in 100. Below the grey diagonal intervals are too narrow, "
        f"above it too wide; inside the band of the {counted(rows, 'window')} that do not overlap, the difference may "
        f"be chance. All steps ahead together.{counts_note(answers)}{note}",
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Told:
    """Some windows of a split, in the unit of the table.

    Args:
        values: what came, the median, the ends of its interval (nan where a family has none) and the value of a season
            ago, (5, n, H).
        shift, scale: of the series of each window, (n, 1).
    """

    values: np.ndarray
    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, facts: Facts, split: str, mine: Tensor) -> Told:
        """The windows of these numbers."""
        data, inputs = facts.data, windows_of(facts)
        rows, said = data[split], facts.likelihood.prediction(facts.outputs[split])
        shift, scale, _ = inputs.units(None if rows.group is None else rows.group[mine], len(mine))

        def measured(values: Tensor) -> np.ndarray:
            flat = values.detach().double().cpu().reshape(len(rows), -1)[mine]
            return array(inputs.as_measured(flat, rows.x[mine], shift, scale))

        known, (low, high) = hindsight(facts, split, LEVEL), interval_of(said, LEVEL)
        ends = known.moved(said, median_of(said)), known.end(said, low), known.end(said, high)
        law = season_law(inputs, data.train, rows).mode
        return cls(np.stack([measured(values) for values in (rows.y, *ends, law)]), shift, scale)


@dataclass(frozen=True, eq=False)
class Beside:
    """What is drawn, in the order of time.

    Args:
        moments: when each value was, (n,): days since 1970 where they are dates.
        values: as of `Told`, one forecast after the other, (5, n).
        name: of the series; empty where there is one.
    """

    moments: np.ndarray
    values: np.ndarray
    name: str = ""


def beside(facts: Facts, split: str) -> Beside:
    """The last forecasts of a split that do not overlap, of its first series."""
    rows, inputs = facts.data[split], windows_of(facts)
    code = 0 if rows.group is None else int(rows.group[0])
    mine = torch.arange(len(rows)) if rows.group is None else (rows.group == code).nonzero().flatten()
    mine = mine.flip(0)[:: inputs.horizon][: max(1, MOST // inputs.horizon)].flip(0)  # the last is among them
    told = Told.of(facts, split, mine)
    origins = rows.time[mine].tolist() if rows.time is not None else mine.tolist()
    name, clock = inputs.figures[code].name, inputs.clock
    meant = clock.day_of(name, np.array(origins))
    return Beside(
        np.concatenate([clock.later(float(origin), inputs.horizon, meant) for origin in origins]),
        told.values.reshape(5, -1),
        name,
    )


@styled
def drawn(found: Beside, inputs: Windows, colour: str) -> Figure:
    """What came as a line with points, forecasts as a line in a band, the season ago dashed."""
    figure = blank(FULL, 3.7)
    ax = figure.subplots()
    when: Any = found.moments
    if inputs.clock.dated:
        when = np.rint(found.moments * 86400).astype("datetime64[s]")
    came, predicted, low, high, naive = found.values
    many = inputs.horizon > 1
    for first in range(0, len(came), inputs.horizon):
        own = slice(first, first + inputs.horizon)
        label = lambda words: None if first else words  # noqa: B023, E731 - used in this turn alone
        at = (when[own], low[own], high[own])
        if many:
            ax.fill_between(*at, color=LIGHT[colour], alpha=0.18, lw=0, label=label("90 % interval"))
        else:
            ax.vlines(*at, color=LIGHT[colour], alpha=0.3, lw=3, label=label("90 % interval"))
        marks: dict[str, Any] = {} if many else {"marker": "_", "ls": "none"}
        dashes: dict[str, Any] = {"ls": (0, (3, 2))} if many else marks
        past = naive_in_words(inputs.season).removeprefix("the ")
        ax.plot(when[own], naive[own], color=LIGHT["soft"], lw=1.1, label=label(past), **dashes)
        ax.plot(when[own], predicted[own], color=LIGHT[colour], lw=1.6, label=label("forecast"), **marks)
    ax.plot(when, came, color=LIGHT["ink"], lw=0.8, marker="o", ms=2.4, label="what came")
    target, time = inputs.roles.target, inputs.roles.time
    of = f", {shorten(inputs.roles.group, 20)} {shorten(found.name, 20)}," if found.name and inputs.roles.group else ""
    _headed(ax, f"Forecasts of {shorten(target, 30)}{of} and what happened")
    ax.set(xlabel=shorten(time, 30) if time else "row", ylabel=shorten(target, 30))
    ax.margins(x=0.01)
    return figure


@styled
def worst_forecasts(facts: Facts, split: str) -> Figure:
    """The windows that were forecast worst, each with what the model read before."""
    rows, inputs = facts.data[split], windows_of(facts)
    mine = _worst(facts.judged[0].crps.mean(1), rows.group, inputs.horizon)
    told, when = Told.of(facts, split, mine), rows.time if rows.time is not None else torch.arange(len(rows))
    past = array(told.shift + told.scale * rows.x[mine, :, 0].double())
    counts = (rows.x[mine, :, -1].sum(1).long() - (inputs.horizon if inputs.looks_ahead else 0)).tolist()
    most = max(3 * inputs.horizon, 24)  # of what was read: more would leave no room for the forecast
    lines = -(-len(mine) // 3)
    figure = blank(FULL, 0.9 + 2.0 * lines)
    axes = figure.subplots(lines, 3, squeeze=False)
    for ax in axes.flat[len(mine) :]:
        ax.set_axis_off()
    ahead, (came, predicted, low, high, _) = np.arange(1, inputs.horizon + 1), told.values
    for k, (ax, own, read) in enumerate(zip(axes.flat, mine.tolist(), counts)):
        if inputs.horizon > 1:
            ax.fill_between(ahead, low[k], high[k], color=LIGHT[split], alpha=0.18, lw=0)
        else:
            ax.vlines(ahead, low[k], high[k], color=LIGHT[split], alpha=0.3, lw=3)
        first = max(0, read - most)
        ax.plot(np.arange(first + 1 - read, 1), past[k, first:read], color=LIGHT["soft"], lw=0.8)
        ax.plot(ahead, predicted[k], color=LIGHT[split], lw=1.5, marker="_" if inputs.horizon == 1 else "")
        ax.plot(ahead, came[k], color=LIGHT["ink"], lw=0.8, marker="o", ms=2)
        ax.axvline(0.5, color=LIGHT["line"], lw=1)
        ax.xaxis.get_major_locator().set_params(integer=True)
        name = "" if rows.group is None else f"{shorten(inputs.figures[int(rows.group[own])].name, 16)}, "
        ax.set_title(f"{name}after {inputs.clock.written(np.array([float(when[own])]))[0]}", fontsize=8.5)
        if k // 3 == lines - 1 or k + 3 >= len(mine):
            ax.set_xlabel("steps from the last value known")
        if k % 3 == 0:
            ax.set_ylabel(shorten(inputs.roles.target, 18))
    figure.suptitle("Worst forecasts", x=0.01, ha="left", fontweight="bold", fontsize=9.5)
    return figure


def _worst(loss: Tensor, group: Tensor | None, horizon: int) -> Tensor:
    """Numbers of the windows of the highest loss that do not overlap, the worst first.

    >>> _worst(torch.tensor([1.0, 5.0, 4.0, 2.0]), None, 2).tolist()
    [1, 3]
    """
    code = torch.zeros(len(loss), dtype=torch.int64) if group is None else group.cpu()
    place = torch.empty_like(code)  # among the windows of its own series
    for name in code.unique():
        place[code == name] = torch.arange(int((code == name).sum()))
    chosen: list[int] = []
    for own in loss.nan_to_num(torch.inf).argsort(descending=True, stable=True).tolist():
        if not any(code[own] == code[other] and abs(place[own] - place[other]) < horizon for other in chosen):
            chosen.append(own)
        if len(chosen) == WORST:
            break
    return torch.tensor(chosen)
