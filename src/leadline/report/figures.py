"""The figures of the page: numbers in, a matplotlib Figure out; no HTML, no global state, no window.

`svg` and `png` turn a figure into text for the page and bytes for a file.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.report.numbers import LEVELS, Reliability, some
from leadline.report.style import FULL, HALF, LIGHT, MATPLOTLIB
from leadline.report.words import number, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 900  # of a scatter: more are a blot, and make the page heavy
CELLS = 12  # classes up to which a matrix shows its counts
PAD = 23  # points between a title and its axes: room for one line of legend
_IN_UNITS = ("rmse", "mae", "pinball", "distance")  # headline metrics; the others are shares
LABELS = 25  # classes up to which a matrix names its rows


def styled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Drawn in our style, whatever style the user's session has set."""

    @wraps(function)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        import matplotlib

        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")  # names in scripts a PNG's font lacks
            warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(MATPLOTLIB)
            return function(*args, **kwargs)

    return drawn


def blank(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05, wspace=0.05, hspace=0.04)
    return figure


@styled
def learning(history: Sequence[dict[str, Any]], best_epoch: int | None, metric: str, per: str = "row") -> Figure:
    """Training loss and validation nll by epoch over a strip of the learning rate; beside them the headline metric."""
    epochs = [line["epoch"] for line in history]
    both = metric != "nll" and any(np.isfinite(_column(history, split, metric)).any() for split in ("train", "val"))
    figure = blank(FULL, 3.7)
    if both:
        axes = figure.subplot_mosaic([["loss", "metric"], ["lr", "metric"]], height_ratios=[4.6, 1])
    else:
        axes = figure.subplot_mosaic([["loss"], ["lr"]], height_ratios=[4.6, 1])
    density = any("nll" in (line.get("val") or {"nll": 0}) for line in history)
    val = _column(history, "val", "nll" if density else "loss")
    drawn = _curves(axes["loss"], epochs, {"train": _column(history, "train", "loss"), "val": val})
    _logarithmic(axes["loss"], drawn)
    _title(axes["loss"], "Loss by epoch", x="", y=f"loss (nats per {per})" if density else "loss", legend=None)
    if both:
        part, unit = metric == "accuracy", " (unit of y)" if metric in _IN_UNITS else ""
        drawn = _curves(axes["metric"], epochs, {split: _column(history, split, metric) for split in ("train", "val")})
        if part:
            percent_axis(axes["metric"].yaxis)
        else:
            _logarithmic(axes["metric"], drawn)
        _title(
            axes["metric"],
            f"{metric[:1].upper()}{metric[1:]} by epoch",
            x="epoch",
            y=metric + (" (% of rows)" if part else unit),
        )
    for name in ("loss", "metric") if both else ("loss",):
        if best_epoch is not None:
            axes[name].axvline(best_epoch, color=LIGHT["soft"], lw=1, ls=(0, (4, 3)), label=f"best epoch {best_epoch}")
        if axes[name].get_legend_handles_labels()[0]:
            _legend(axes[name])
    rate = np.array([_float(line.get("lr")) for line in history])
    axes["lr"].fill_between(epochs, rate, color=LIGHT["soft"], alpha=0.25, lw=0)
    axes["lr"].plot(epochs, rate, color=LIGHT["soft"], lw=1.1, **(_marker(epochs) if len(epochs) == 1 else {}))
    axes["lr"].set(xlabel="epoch", ylabel="learning\nrate", ylim=(0, 1.15 * np.nan_to_num(rate).max() or 1))
    axes["lr"].yaxis.get_major_locator().set_params(nbins=2)
    axes["lr"].yaxis.set_major_formatter(_short_tick)
    pad = max((max(epochs) - min(epochs)) * 0.02, 0.5 if len(epochs) == 1 else 0)
    for name, ax in axes.items():
        ax.set_xlim(min(epochs) - pad, max(epochs) + pad)
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if name == "loss":
            ax.tick_params(labelbottom=False)
    return figure


@styled
def confusion_matrix(counts: np.ndarray, classes: Sequence[str], colour: str) -> Figure:
    """Rows are the true classes; the fuller a cell, the larger its part of the row. `colour` is right, purple wrong."""
    from matplotlib.colors import to_rgb

    size = len(classes)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    strength = share**0.6  # so that a mistake of a few per cent is seen
    cells = np.empty((size, size, 4))
    cells[...] = (*to_rgb(LIGHT["miss"]), 0)
    cells[np.arange(size), np.arange(size), :3] = to_rgb(LIGHT[colour])
    cells[..., 3] = strength
    figure = blank(HALF, HALF)
    ax = figure.subplots()
    ax.imshow(cells, interpolation="none", aspect="equal")
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(size > CELLS)
    if size <= CELLS:
        edges = np.arange(size + 1) - 0.5
        ax.hlines(edges, -0.5, size - 0.5, color=LIGHT["line"], lw=0.7)
        ax.vlines(edges, -0.5, size - 0.5, color=LIGHT["line"], lw=0.7)
        for i, j in np.argwhere(counts > 0):
            colour = "#fefefe" if strength[i, j] > 0.62 else LIGHT["ink"]
            text = number(int(counts[i, j]))
            fit = min(9.5, 9.5 * 3.6 / len(text), 8.5 * 12 / size)
            ax.text(j, i, text, ha="center", va="center", color=colour, size=max(fit, 5))
    if size <= LABELS:
        names = [shorten(name, 14) for name in classes]
        if len(set(names)) < size:  # cut to the same letters: the code tells them apart
            names = [f"{code} {shorten(name, 11)}" for code, name in enumerate(classes)]
        slanted = max(map(len, names)) * size > 36
        ax.set_xticks(
            range(size),
            names,
            rotation=50 if slanted else 0,
            ha="right" if slanted else "center",
            rotation_mode="anchor",
        )
        ax.set_yticks(range(size), names)
        for label in (*ax.get_xticklabels(), *ax.get_yticklabels()):
            label.set_fontsize(8 if size <= CELLS else 6.5)
    how = "" if size <= LABELS else " (code)"
    _title(ax, "Which class is taken for which", x=f"predicted class{how}", y=f"true class{how}", legend=None)
    return figure


@styled
def reliability_diagram(bins: Reliability, binary: str | None, colour: str) -> Figure:
    """Confidence against how often it was right; `binary` names the class whose probability it is, if there is one."""
    figure = blank(HALF, HALF)
    top, low = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    top.plot([0, 1], [0, 1], color=LIGHT["soft"], lw=1, ls=(0, (4, 3)), label="perfect")
    whiskers = np.abs(np.stack([bins.frequency - bins.low, bins.high - bins.frequency]))
    top.errorbar(
        bins.confidence, bins.frequency, whiskers, fmt="o-", ms=4.5, color=LIGHT[colour], elinewidth=1, lw=1.3,
        label="observed, 95 % interval",
    )  # fmt: skip
    top.set(xlim=(-0.01, 1.01), ylim=(-0.02, 1.02))
    low.bar(bins.left, bins.rows, bins.width * 0.9, align="edge", color=LIGHT[colour], alpha=0.55, lw=0)
    for axis in (top.yaxis, low.xaxis):
        percent_axis(axis)
    low.yaxis.get_major_locator().set_params(nbins=2, integer=True)
    what = f"“{shorten(binary, 16)}”" if binary is not None else ""
    observed = f"rows that are {what}" if binary is not None else "right answers"
    _title(top, f"Is the stated probability true?  ECE {number(bins.ece, 3)}", x="", y=f"{observed} (%)")
    low.set(
        xlabel=f"predicted probability of {what} (%)" if binary is not None else "probability of the answer (%)",
        ylabel="rows",
    )
    return figure


@styled
def predicted_against_true(
    y: np.ndarray, mean: np.ndarray, ends: tuple[np.ndarray, np.ndarray] | None, names: Sequence[str], colour: str
) -> Figure:
    """Each row's prediction, with its 90 % interval, over the true value; one panel an output. Arrays are (B, K)."""
    width = y.shape[1]
    figure = blank(HALF, HALF) if width == 1 else blank(FULL, 3.2 if width > 2 else 4.6)
    for k, ax in enumerate(figure.subplots(1, width, squeeze=False)[0]):
        use = np.isfinite(y[:, k]) & np.isfinite(mean[:, k])
        shown = np.flatnonzero(use)
        shown = shown[some(len(shown), POINTS // width)]
        t, m = y[shown, k], mean[shown, k]
        if ends is not None:
            low, high = ends[0][shown, k], ends[1][shown, k]
            gap = np.full_like(t, np.nan)  # one path with breaks is a tenth of the size of a path a row
            ax.plot(
                np.stack([t, t, gap], 1).ravel(), np.stack([low, high, gap], 1).ravel(),
                color=LIGHT[colour], alpha=0.2, lw=1, solid_capstyle="butt", label="90 % interval",
            )  # fmt: skip
        ax.plot(t, m, "o", ms=2.8, color=LIGHT[colour], alpha=0.75, mew=0, label="row")
        if len(t):
            span = np.array([min(t.min(), m.min()), max(t.max(), m.max())])
            ax.plot(span, span, color=LIGHT["soft"], lw=1, ls=(0, (4, 3)), label="perfect")
        name = shorten(names[k], 22 if width < 3 else 13)
        title = "Predicted against true" if width == 1 else name
        _title(
            ax,
            title,
            x=f"true {name}",
            y=f"predicted {name}" if width == 1 else ("predicted" if k == 0 else ""),
            legend=3 if k == 0 else None,
        )
        ax.set_title(title, pad=PAD)  # level with the first, which has the legend
        _few_ticks(ax, 6 if width < 3 else 4)
    return figure


@styled
def coverage_curve(observed: np.ndarray, rows: int, names: Sequence[str], colour: str) -> Figure:
    """How often y lay in the interval of each level. `observed` is (levels, K)."""
    figure = blank(HALF, HALF)
    ax = figure.subplots()
    level = np.array(LEVELS)
    p = np.linspace(0, 1, 101)
    chance = 1.96 * np.sqrt(p * (1 - p) / max(rows, 1))
    ax.fill_between(
        p,
        np.clip(p - chance, 0, 1),
        np.clip(p + chance, 0, 1),
        color=LIGHT["soft"],
        alpha=0.16,
        lw=0,
        label="chance, 95 %",
    )
    ax.plot([0, 1], [0, 1], color=LIGHT["soft"], lw=1, label="perfect")
    dashes = ["-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (5, 1.5, 1.5, 1.5))]
    for k in range(observed.shape[1]):
        label = "observed" if observed.shape[1] == 1 else shorten(names[k], 12)
        ax.plot(
            level,
            observed[:, k],
            ls=dashes[k % 4],
            marker="os^D"[k % 4],
            ms=4,
            color=LIGHT[colour],
            lw=1.3,
            label=label,
        )
    ax.set(xlim=(0, 1), ylim=(-0.01, 1.01))
    percent_axis(ax.xaxis)
    percent_axis(ax.yaxis)
    of = f" of {shorten(names[0], 22)}" if observed.shape[1] == 1 else ""
    stated = f"stated level of the interval{of} (%)"
    _title(ax, "Do the intervals hold what they promise?", x=stated, y="rows inside it (%)")
    return figure


@styled
def residuals(y: np.ndarray, mean: np.ndarray, names: Sequence[str], colour: str) -> Figure:
    """How the misses are spread, and whether they depend on what was predicted; a column an output."""
    width = y.shape[1]
    if width == 1:
        figure = blank(FULL, 3.3)
        pairs = [figure.subplots(1, 2)]
    else:
        figure = blank(FULL, 4.8)
        pairs = list(figure.subplots(2, width, squeeze=False).T)
    for k, (spread, against) in enumerate(pairs):
        use = np.isfinite(y[:, k]) & np.isfinite(mean[:, k])
        miss, said = (y - mean)[use, k], mean[use, k]
        _histogram(spread, miss, colour)
        spread.axvline(0, color=LIGHT["soft"], lw=1, ls=(0, (4, 3)))
        shown = some(len(miss), POINTS // width)
        against.axhline(0, color=LIGHT["soft"], lw=1, ls=(0, (4, 3)))
        against.plot(said[shown], miss[shown], "o", ms=2.8, color=LIGHT[colour], alpha=0.6, mew=0)
        name = shorten(names[k], 22 if width < 3 else 13)
        first = width == 1 or k == 0
        _title(
            spread,
            "How far off, and to which side" if width == 1 else f"Residuals of {name}",
            x=f"residual of {name}: true − predicted" if width == 1 else "true − predicted",
            y="rows" if first else "",
            legend=None,
        )
        _title(
            against,
            "Residuals against the prediction" if width == 1 else "",
            x=f"predicted {name}",
            y="true − predicted" if first else "",
            legend=None,
        )
        for ax in (spread, against):
            _few_ticks(ax, 7 if width == 1 else 4)
    return figure


@styled
def losses(nll: np.ndarray, colour: str) -> Figure:
    """How the loss is spread over the rows."""
    figure = blank(FULL, 3.0)
    ax = figure.subplots()
    nll = nll[np.isfinite(nll)]
    _histogram(ax, nll, colour)
    if len(nll):
        ax.axvline(nll.mean(), color=LIGHT["ink"], lw=1, ls=(0, (4, 3)), label=f"mean {number(float(nll.mean()))}")
    _title(
        ax,
        "How well single rows are explained",
        x="negative log-likelihood of a row (nats)",
        y="rows",
        legend=1 if len(nll) else None,
    )
    return figure


@styled
def svg(figure: Figure, name: str) -> str:
    """Inline SVG without any address in it; ids begin with `name`, colours of the palette are CSS variables."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    _settle(figure)
    matplotlib.rcParams["svg.hashsalt"] = name  # equal figures give equal text
    stream = io.StringIO()
    figure.patch.set_visible(False)  # the card behind it is the page's
    FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None, "Creator": None})
    figure.patch.set_visible(True)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.S)
    text = (
        re.sub(r'\s(xmlns(:\w+)?|version|width|height)="[^"]*"', "", text[: text.index(">")]) + text[text.index(">") :]
    )
    variables = {colour: f"var(--{variable})" for variable, colour in LIGHT.items()}

    def adapt(tag: re.Match[str]) -> str:
        inside = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{name}-", tag[0])
        inside = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--font)", inside)
        return re.sub(r"(?<=: )#[0-9a-f]{6}", lambda colour: variables.get(colour[0], colour[0]), inside)

    text = re.sub(r"<[^>]*>", adapt, text)  # tags alone: what a user wrote stands between them
    return re.sub(r"\n\s*", "\n", text).strip()


@styled
def png(figure: Figure) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    _settle(figure)
    stream = io.BytesIO()
    figure.set_dpi(144)
    FigureCanvasAgg(figure).print_png(stream, metadata={"Software": None})
    return stream.getvalue()


def _settle(figure: Figure) -> None:
    """Solve the layout once, not at every drawing: it costs as much as they do."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        FigureCanvasAgg(figure)
        engine.execute(figure)
        figure.set_layout_engine("none")


def _curves(ax: Axes, epochs: Sequence[int], series: dict[str, np.ndarray]) -> np.ndarray:
    """A line a split; the values that were drawn."""
    drawn = []
    for split, values in series.items():
        there = np.isfinite(values)
        if there.any():
            x = np.asarray(epochs)[there]
            ax.plot(x, values[there], color=LIGHT[split], label=split, **_marker(x))
            drawn.append(values[there])
    return np.concatenate(drawn) if drawn else np.array([])


def _histogram(ax: Axes, values: np.ndarray, colour: str) -> None:
    if len(values):
        bins = int(np.clip(2 * len(values) ** 0.4, 5, 60))
        span = (values.min(), values.max())
        if not span[1] - span[0] > 1e-9 * max(abs(span[0]), abs(span[1]), 1e-300):  # all equal, or as good as
            span = (span[0] - 0.5, span[1] + 0.5)
        ax.hist(values, bins, range=span, color=LIGHT[colour], alpha=0.75, rwidth=0.94, lw=0)
    ax.yaxis.get_major_locator().set_params(integer=True)


def _title(ax: Axes, title: str, *, x: str, y: str, legend: int | None = 3) -> None:
    """Title, and below it a legend of so many columns, outside of the data."""
    ax.set(xlabel=x, ylabel=y)
    if title:
        ax.set_title(title)
    if legend:
        _legend(ax, legend)


def _legend(ax: Axes, columns: int = 3) -> None:
    ax.set_title(ax.get_title(loc="left"), pad=PAD)
    entries = len(ax.get_legend_handles_labels()[0])
    if entries > columns:
        ax.set_title(ax.get_title(loc="left"), pad=PAD + 13 * (math.ceil(entries / columns) - 1))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.015), ncols=columns, labelcolor=LIGHT["soft"])


def _logarithmic(ax: Axes, values: np.ndarray) -> None:
    """A logarithmic axis where the values span two decades or more."""
    if len(values) and values.min() > 0 and values.max() / values.min() >= 100:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def percent_axis(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: f"{round(100 * value, 6):g}")


def _few_ticks(ax: Axes, most: int) -> None:
    for axis in (ax.xaxis, ax.yaxis):
        axis.get_major_locator().set_params(nbins=most)
        axis.set_major_formatter(_short_tick)


def _short_tick(value: float, _: Any) -> str:
    if abs(value) >= 1e4:
        return next(
            f"{value / unit:g}{letter}"
            for unit, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
            if abs(value) >= unit
        ).replace("-", "−")
    return f"{value:g}".replace("-", "−")


def _marker(x: Sequence[Any]) -> dict[str, Any]:
    """Dots where there are too few points for a line to show them."""
    return {"marker": "o", "markersize": 3.5} if len(x) <= 20 else {}


def _column(history: Sequence[dict[str, Any]], split: str, metric: str) -> np.ndarray:
    return np.array([_float((line.get(split) or {}).get(metric)) for line in history])


def _float(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")
