"""How lenses draw: the report's ink, lines and type, and colours for what is neither train, val nor test.

Blue, vermillion and green mean train, val and test in a report and nothing else, so classes and units have hues of
their own here (Tol's bright set, told apart with any colour vision). Sizes run through viridis; signed values through a
map whose middle is the ground, and angles through one whose ends are one colour.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CARD, INK, SOFT, LINE = "#ffffff", "#1a2029", "#5a6675", "#dce1e8"
#: of classes, units and curves, in this order
HUES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#999933", "#882255", "#44aa99", "#777777")
LAYERS = (INK, "#d1495b", "#2f62c9", "#8a3a9b", "#b06a00")  # of joints, by depth, on any map
PATH = "#d1495b"  # a descent path, on any map
SEQUENTIAL, SIGNED, CYCLIC = "viridis", "RdBu_r", "twilight_shifted"
DASHED = (0, (4, 3))
FULL, HALF = 10.0, 4.75  # widths of a figure in inches
MANY = 600  # points of a scatter: more are a blot

MATPLOTLIB: dict[str, Any] = {
    "figure.facecolor": CARD,
    "axes.facecolor": "none",
    "savefig.facecolor": CARD,
    "savefig.dpi": 144,
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": INK,
    "text.parse_math": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.titlecolor": INK,
    "axes.labelcolor": SOFT,
    "axes.labelsize": 8.5,
    "axes.edgecolor": LINE,
    "axes.linewidth": 0.9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.4,
    "legend.borderaxespad": 0.0,
    "svg.fonttype": "none",
}


def styled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Drawn in this style, whatever style the user's session has set."""

    @wraps(function)
    def drawn(*args: Any, **kwargs: Any) -> Any:
        import matplotlib

        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(MATPLOTLIB)
            return function(*args, **kwargs)

    return drawn


def blank(width: float, height: float) -> Figure:
    """An empty figure that needs no window and no global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=144, layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.06, h_pad=0.05, wspace=0.05, hspace=0.04)
    return figure


def label(ax: Axes, title: str, x: str, y: str, legend: int = 0) -> None:
    """Title and axes' names; `legend` columns of legend below the title, outside of the data."""
    ax.set(xlabel=x, ylabel=y)
    ax.set_title(title)
    entries = len(ax.get_legend_handles_labels()[0])
    if legend and entries:
        _own_offset(ax, y)
        ax.set_title(title, pad=10 + 13 * math.ceil(entries / legend))
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.015), ncols=legend, labelcolor=SOFT)


def _own_offset(ax: Axes, y: str) -> None:
    """What matplotlib takes off the ticks of y, such as 1e8, goes into the axis' name: above it stands the legend."""
    from matplotlib.ticker import ScalarFormatter

    formatter = ax.yaxis.get_major_formatter()
    if not isinstance(formatter, ScalarFormatter):
        return
    formatter.set_locs(ax.get_yticks())
    told = formatter.get_offset()
    if told:
        ax.set_ylabel(f"{y} ({told if told[0] in '+-−' else f'× {told}'})")
        ax.yaxis.get_offset_text().set_visible(False)


def heat(
    ax: Axes, x: Any, y: Any, values: Any, name: str, signed: bool = False, angle: bool = False, **options: Any
) -> Any:
    """A heat map of `values[row of y, column of x]` with its colour bar; `signed` puts white at 0.

    Of an `angle` −π and π, which are one direction, have one colour.
    """
    import numpy as np

    if angle:
        options = {**options, "vmin": -math.pi, "vmax": math.pi}
    if signed:
        top = float(np.abs(values[np.isfinite(values)]).max(initial=0)) or 1.0
        options = {"vmin": -top, "vmax": top, **options}
    cmap = CYCLIC if angle else SIGNED if signed else SEQUENTIAL
    mesh = ax.pcolormesh(x, y, values, shading="gouraud", cmap=cmap, rasterized=True, **options)
    ax.grid(False)
    bar = colour_bar(ax, mesh, name)
    if angle:
        bar.set_ticks([-math.pi, 0, math.pi], labels=["−π", "0", "π"])
    return mesh


def colour_bar(ax: Axes | list[Axes], mesh: Any, name: str) -> Any:
    """The key to a map's colours, at the right of its axes."""
    figure: Any = (ax[0] if isinstance(ax, list) else ax).figure
    bar = figure.colorbar(mesh, ax=ax, pad=0.02, fraction=0.05, aspect=24)
    bar.outline.set_visible(False)
    bar.set_label(name)
    return bar


def some(values: Sequence[Any] | Any, most: int = MANY) -> Any:
    """At most `most` of the rows, evenly spread."""
    return values[:: max(1, -(-len(values) // most))]


def short(value: float) -> str:
    """A number for a label: 4 digits, a true minus sign.

    >>> short(-0.12345), short(3.0)
    ('−0.1235', '3')
    """
    return f"{value:.4g}".replace("-", "−")


def percent(part: float) -> str:
    """A part of a whole for a label; 100 and 0 are kept for all and nothing.

    >>> percent(0.966), percent(0.9996), percent(1.0)
    ('97 %', '99.96 %', '100 %')
    """
    digits = next((d for d in (0, 1, 2) if 0 < float(f"{100 * part:.{d}f}") < 100 or part in (0, 1)), 2)
    return f"{100 * part:.{digits}f} %"
