"""A network drawn as a graph, with its equations written out.

A module is run on one row and listened to: linear maps, activations, norms and sums become equations in the order in
which they are computed, whatever the module's own wiring.

    h₁ = relu[β₁ + Ω₁ x]
    y  = β₂ + Ω₂ h₁

Symbols    x input, h_k hidden layers, y output, Ω_k and β_k weights and biases of the k-th linear map
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.calls import Call, Listening
from leadline.lens.rows import fit_to
from leadline.lens.style import CARD, HUES, INK, LINE, SOFT, blank, label, styled
from leadline.lens.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNITS = 10  # a layer of at most so many is drawn unit by unit
_SHOWN = 5  # units drawn of a wider one
_SAME = {
    *("flatten", "reshape", "view", "view_as", "dropout", "alpha_dropout", "feature_dropout", "contiguous", "to"),
    *("float", "double", "clone", "detach", "unflatten", "type_as", "identity"),
}  # fmt: skip
_QUIET = {"dim", "size", "get", "is_floating_point", "ones", "zeros", "tensor", "as_tensor", "empty"}
_SMALL = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_GREEK = {
    "Ω": r"\boldsymbol{\Omega}",
    "β": r"\boldsymbol{\beta}",
    "x": r"\mathbf{x}",
    "h": r"\mathbf{h}",
    "y": r"\mathbf{y}",
}


@dataclass(frozen=True)
class Map:
    """One linear map: which layer it reads, which it makes, its size, and its parameters' names in the module."""

    source: str
    makes: str
    dim_input: int
    dim_output: int
    bias: bool
    weight: str


@dataclass(frozen=True)
class Layer:
    """A row of units: its symbol, its width, and what was done last to make it."""

    symbol: str
    width: int
    by: str


@dataclass(frozen=True, eq=False)
class Flow(View):
    """A network as layers, maps and equations.

    Args:
        layers: input, hidden layers, output.
        maps: the linear maps between them.
        skips: pairs of layers that are joined by a sum.
        equations: one a layer, in plain text.
        units: one a unit, with numbers, where every layer has at most 10 units.
        num_parameters: of the module.
        weights: each map's weights, (dim_output, dim_input), for maps of at most 10 units a side; None otherwise.
    """

    layers: tuple[Layer, ...]
    maps: tuple[Map, ...]
    skips: tuple[tuple[str, str], ...]
    equations: tuple[str, ...]
    units: tuple[str, ...]
    num_parameters: int
    weights: tuple[np.ndarray | None, ...]

    @property
    def text(self) -> str:
        """The equations, with the sizes of what they hold."""
        sizes = [f"{_omega(k)} ({m.dim_output}, {m.dim_input})" for k, m in enumerate(self.maps, 1)]
        return "\n".join([*self.equations, "with " + ", ".join(sizes), f"{self.num_parameters:,} parameters"])

    @property
    def latex(self) -> str:
        """The equations for a paper, in an aligned environment."""
        lines = [_tex(line) for line in self.equations]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    @styled
    def plot(self) -> Figure:
        """Units as circles (a wide layer by its first and last), weights as lines: red above 0, blue below."""
        place = {layer.symbol: (k, _heights(layer.width)) for k, layer in enumerate(self.layers)}
        top = max(float(heights.max()) for _, heights in place.values())
        equations = list(self.equations) if len(self.equations) <= 12 else [*self.equations[:11], "…"]
        upper, lower = 0.38 * (2 * top + 1) + (1.0 if self.skips else 0.7), 0.2 * len(equations) + 0.2
        width = max(1.5 * len(self.layers) + 0.4, 4.5, 0.085 * max(map(len, equations)) + 0.5)
        figure = blank(width, upper + lower + 0.4)
        ax, words = figure.subplots(2, 1, height_ratios=[upper, lower])
        for one, values in zip(self.maps, self.weights, strict=True):
            _lines(ax, place[one.source], place[one.makes], values)
        for a, b in self.skips:
            _arc(ax, place[a], place[b])
        for layer in self.layers:
            _units(ax, place[layer.symbol], layer, -top - 0.85)
        if any(values is not None for values in self.weights):
            ax.plot([], [], color=HUES[1], lw=2, label="weight above 0")
            ax.plot([], [], color=HUES[0], lw=2, label="below 0 (the thicker, the larger)")
        title = f"{' – '.join(str(layer.width) for layer in self.layers)}, {self.num_parameters:,} parameters"
        label(ax, title, "", "", legend=2)
        ax.set(xlim=(-0.4, len(self.layers) - 0.6), ylim=(-top - 1.2, top + (1.5 if self.skips else 0.5)))
        for part in (ax, words):
            part.axis("off")
        for k, line in enumerate(equations):
            words.text(
                0, 1 - (k + 0.5) / len(equations), line, va="center", size=9, family="DejaVu Sans Mono", color=INK,
                transform=words.transAxes,
            )  # fmt: skip
        return figure


def flow(model: nn.Module, x: Any = None) -> Flow:
    """The graph and the equations of `model`.

    Args:
        x: an input row or batch, where the module does not begin with a linear map.

    >>> print(flow(nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1))).text)
    h₁ = relu[β₁ + Ω₁ x]
    y = β₂ + Ω₂ h₁
    with Ω₁ (3, 1), Ω₂ (1, 3)
    10 parameters
    """
    if not isinstance(model, nn.Module):
        with at_rest(model):
            pass
    start = _start(model, x)
    names = {id(p): name for name, p in model.named_parameters()}
    with at_rest(model), Listening() as heard:
        out = model(start)
    writer = _Writer(start, names)
    for call in heard.calls:
        writer.read(call)
    if not isinstance(out, Tensor) or id(out) not in writer.of:
        raise UserError(
            "a module must return one tensor that is made from its input", got=type(out).__name__, do="Wrap its forward"
        )
    return writer.finish(out, sum(p.numel() for p in model.parameters()))


def _start(model: nn.Module, x: Any) -> Tensor:
    if x is not None:
        row = torch.as_tensor(x)
        return fit_to(model, row if row.ndim > 1 else row[None])
    first = next((m for m in model.modules() if isinstance(m, nn.Linear)), None)
    size = getattr(model, "dim_input", None) or (first.in_features if first is not None else None)
    if size is None:
        raise UserError(
            "flow must know what the model reads",
            got=f"{type(model).__name__} without a linear map",
            do="Pass x=, a row",
        )
    return fit_to(model, torch.zeros(1, size))


@dataclass(frozen=True)
class _Said:
    """What a tensor is, in words: an expression, what was done last, and the layers that it adds as they are."""

    text: str
    by: str = "linear"
    adds: tuple[str, ...] = ()


_SYMBOL = re.compile(r"[xh][₀-₉]*")


class _Writer:
    """Calls in, equations out. An expression becomes a layer, with a symbol, when a linear map reads it."""

    def __init__(self, start: Tensor, names: dict[int, str]):
        self.names = names
        self.of: dict[int, _Said] = {id(start): _Said("x", "input")}
        self.keep: list[Any] = [start]  # an id is only good while its tensor lives
        self.layers = [Layer("x", start[0].numel(), "input")]
        self.lines: list[tuple[str, str]] = []
        self.maps: list[tuple[str, str, Call]] = []  # source layer, expression, call
        self.skips: list[tuple[str, str]] = []

    def read(self, call: Call) -> None:
        self.keep += [call, call.out]
        given = [
            a for arg in (*call.args, *call.kwargs.values()) for a in (arg if isinstance(arg, (list, tuple)) else [arg])
        ]
        live = [a for a in given if isinstance(a, Tensor) and id(a) in self.of]
        if not live or call.name in _QUIET:
            return
        said = [self.of[id(a)] for a in live]
        words = [one.text for one in said]
        if call.name in _SAME:
            made = said[0]
        elif call.name == "linear":
            source, k = self._layer(live[0]), len(self.maps) + 1
            text = f"{_omega(k)} {source}" if call.option(2, "bias") is None else f"β{_sub(k)} + {_omega(k)} {source}"
            self.maps.append((source, text, call))
            made = _Said(text)
        elif call.name in ("add", "radd", "iadd") and len(live) == 2:
            made = _Said(" + ".join(words), said[1].by, tuple(w for w in words if _SYMBOL.fullmatch(w)))
        else:
            name = call.name.replace("_norm", "norm")
            made = _Said(f"{name}[{', '.join(words)}]", said[0].by if name.endswith("norm") else name)
        self.of[id(call.out)] = made

    def _layer(self, tensor: Tensor) -> str:
        """The symbol of what a map reads; an expression gets one now."""
        said = self.of[id(tensor)]
        if _SYMBOL.fullmatch(said.text):
            return said.text
        symbol = f"h{_sub(len(self.lines) + 1)}"
        self._line(symbol, said, tensor)
        for key, other in self.of.items():  # the tensor itself, and its reshaped selves
            if other is said:
                self.of[key] = _Said(symbol, said.by)
        return symbol

    def _line(self, symbol: str, said: _Said, tensor: Tensor) -> None:
        self.lines.append((symbol, said.text))
        self.layers.append(Layer(symbol, tensor[0].numel(), said.by))
        self.skips += [(source, symbol) for source in said.adds]

    def finish(self, out: Tensor, num_parameters: int) -> Flow:
        self._line("y", self.of[id(out)], out)
        maps, weights = [], []
        for source, text, call in self.maps:
            makes = next((symbol for symbol, line in self.lines if text in line), "y")
            weight = call.option(1, "weight")
            size = tuple(weight.shape)
            name = self.names.get(id(weight), "")
            maps.append(Map(source, makes, size[1], size[0], call.option(2, "bias") is not None, name))
            weights.append(weight.detach().double().cpu().numpy().copy() if max(size) <= _UNITS else None)
        units = self._units() if max(layer.width for layer in self.layers) <= _UNITS else ()
        lines = tuple(f"{symbol} = {line}" for symbol, line in self.lines)
        return Flow(
            tuple(self.layers), tuple(maps), tuple(self.skips), lines, units, num_parameters, tuple(weights)
        )  # fmt: skip

    def _units(self) -> tuple[str, ...]:
        """Each unit with its numbers, where a layer is made of one linear map."""
        width = {layer.symbol: layer.width for layer in self.layers}
        found = []
        for symbol, line in self.lines:
            inside = [(source, text, call) for source, text, call in self.maps if text in line]
            if len(inside) != 1:
                continue
            source, text, call = inside[0]
            weight, bias = call.option(1, "weight").tolist(), call.option(2, "bias")
            offsets = bias.tolist() if bias is not None else [0.0] * len(weight)
            for j, row in enumerate(weight):
                terms = [f"{'−' if w < 0 else '+'} {abs(w):.3g} {_unit(source, i, width)}" for i, w in enumerate(row)]
                affine = f"{offsets[j]:.3g} {' '.join(terms)}".replace("-", "−")
                found.append(f"{_unit(symbol, j, width)} = {line.replace(text, affine)}")
        return tuple(found)


def _unit(symbol: str, place: int, width: dict[str, int]) -> str:
    """The name of one unit: x₂ of an input, h₁,₂ of a hidden layer; a layer of one unit needs no number."""
    if width[symbol] == 1:
        return symbol
    return f"{symbol},{_sub(place + 1)}" if symbol.startswith("h") else f"{symbol}{_sub(place + 1)}"


def _sub(k: int) -> str:
    return str(k).translate(_SMALL)


def _omega(k: int) -> str:
    return f"Ω{_sub(k)}"


def _tex(line: str) -> str:
    plain = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
    line = re.sub(r"([a-z0-9_]{2,})\[", lambda m: rf"\mathrm{{{m[1]}}}[".replace("_", r"\_"), line)
    line = re.sub(
        r"(?<![A-Za-z\\{])([Ωβxhy])([₀-₉]*)(?![A-Za-z])",
        lambda m: _GREEK[m[1]] + (f"_{{{m[2].translate(plain)}}}" if m[2] else ""),
        line,
    )
    return line.replace("[", r"\bigl[").replace("]", r"\bigr]").replace(" = ", " &= ", 1)


def _heights(width: int) -> np.ndarray:
    """Where the units of a layer stand, the first on top; of a wide one the first few, a gap, and the last."""
    if width <= _UNITS:
        return (width - 1) / 2 - np.arange(width, dtype=float)
    places = np.append(np.arange(_SHOWN - 1, dtype=float), _SHOWN + 0.5)
    return places[-1] / 2 - places


def _lines(ax: Axes, source: Any, makes: Any, values: np.ndarray | None) -> None:
    from matplotlib.collections import LineCollection

    (a, left), (b, right) = source, makes
    pairs = [(i, j) for j in range(len(right)) for i in range(len(left))]
    segments = [[(a, left[i]), (b, right[j])] for i, j in pairs]
    if values is not None and values.shape == (len(right), len(left)):
        size = float(np.abs(values).max()) or 1.0
        colours = [HUES[1] if values[j, i] > 0 else HUES[0] for i, j in pairs]
        widths = [0.4 + 2.0 * abs(float(values[j, i])) / size for i, j in pairs]
    else:
        colours, widths = [LINE], [0.8]
    ax.add_collection(LineCollection(segments, colors=colours, linewidths=widths, zorder=1, alpha=0.85))


def _arc(ax: Axes, source: Any, makes: Any) -> None:
    """A skip connection, over the heads of the layers between."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    (a, left), (b, right) = source, makes
    low, high = left.max() + 0.35, right.max() + 0.35
    path = Path(
        [(a, low), (a + 0.2, max(low, high) + 1.1), (b - 0.2, max(low, high) + 1.1), (b, high)],
        [Path.MOVETO, *[Path.CURVE4] * 3],
    )
    arrow = FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=9, color=SOFT, lw=1.1, zorder=1, clip_on=False)
    ax.add_patch(arrow)
    ax.text((a + b) / 2, max(low, high) + 0.83, "+", ha="center", va="center", size=10, color=SOFT,
            bbox={"facecolor": CARD, "edgecolor": "none", "pad": 0.5})  # fmt: skip


def _units(ax: Axes, place: Any, layer: Layer, below: float) -> None:
    column, heights = place
    ax.scatter(np.full(len(heights), column), heights, 260, color=CARD, edgecolors=INK, linewidths=1.2, zorder=2)
    numbers = [*range(1, len(heights)), layer.width] if layer.width > 1 else [""]
    for number, height in zip(numbers, heights, strict=True):
        text = str(number)
        ax.text(column, height, text, ha="center", va="center", size=7 if len(text) < 3 else 5.5, color=SOFT, zorder=3)
    if layer.width > _UNITS:
        middle = float(heights[-2:].mean())
        ax.text(column, middle, "⋮", ha="center", va="center", size=14, color=SOFT, zorder=3)
    words = layer.symbol + ("" if layer.by in ("input", "linear") else f", {layer.by}")
    ax.text(column, below, words, ha="center", va="center", size=9, color=INK)
