"""What the gates of recurrent layers do: how open they are through time, and how often a unit's is shut or wide open.

    keep     how much of a state stays              f of an LSTM, u of a GRU, 1 where nothing is forgotten    (1)
    write    how much of what is new comes in       i of an LSTM; 1 - u of a GRU, and not listed              (2)
    show     how much of the cell is seen           o of an LSTM                                              (3)
    reset    how much of the state a candidate sees r of a GRU                                                (4)

    shut_u = share of steps with gate < 0.1,   open_u = share with gate > 0.9      (Karpathy et al., 2015)   (5)

A gate in between leaks: after k steps of keep = 0.5 there is 2^-k left. A gate that is always shut or always open has
stopped choosing, and its gradient is small.

Notation   as in the layers' equations; MinLSTM has f and i as forget and write, and f / (f + i) as keep
Shapes     mean, spread, shut, open (T,) of each gate;  unit_shut, unit_open (units,)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.gru import GRU
from leadline.layers.lecture_gru import LectureGRU
from leadline.layers.lecture_lstm import LectureLSTM
from leadline.layers.lstm import LSTM
from leadline.layers.min_gru import MinGRU
from leadline.layers.min_lstm import MinLSTM
from leadline.lens.at_rest import at_rest
from leadline.lens.recurrences import Reading, readings
from leadline.lens.style import HUES, SOFT, blank, label, styled
from leadline.lens.tokens import read
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHUT, OPEN = 0.1, 0.9


@dataclass(frozen=True, eq=False)
class Gate(View):
    """One gate of one layer, over rows.

    Args:
        layer: path of the layer; name: keep, write, show, reset or forget.
        mean, spread: over rows and units at each step, (T,), spread the standard deviation; nan where no row has it.
        shut, open: share of all that are below 0.1 and above 0.9, at each step.
        unit_shut, unit_open: eq. 5, of each unit.
    """

    layer: str
    name: str
    mean: np.ndarray
    spread: np.ndarray
    shut: np.ndarray
    open: np.ndarray
    unit_shut: np.ndarray
    unit_open: np.ndarray

    @property
    def saturated(self) -> float:
        """Share of all values that are shut or open."""
        return float(self.unit_shut.mean() + self.unit_open.mean())

    @styled
    def plot(self) -> Figure:
        return _drawn((self,))


@dataclass(frozen=True, eq=False)
class Gates(View):
    """The gates of a model.

    Args:
        gates: in the order of the layers.
    """

    gates: tuple[Gate, ...]

    def of(self, layer: str, name: str) -> Gate:
        """One gate by its layer and name."""
        for gate in self.gates:
            if (gate.layer, gate.name) == (layer, name):
                return gate
        known = ", ".join(f"{gate.layer} {gate.name}" for gate in self.gates)
        raise UserError("a gate must be one of the model's", got=f"{layer} {name}", do=f"Ask for one of {known}")

    @styled
    def plot(self) -> Figure:
        """A row for each layer: means through time with their spread, and units by how often they are shut and open."""
        return _drawn(self.gates)


def gates(model: Any, rows: Any = None, *, split: str = "val", num: int = 32) -> Gates:
    """How open the gates of every recurrent layer are on some rows. The model is left as it was.

    Args:
        model, rows, split: as of `fading`.
        num: rows at most.

    >>> view = gates(LSTM(2, 3), torch.zeros(1, 5, 2))
    >>> [gate.name for gate in view.gates], view.gates[0].mean.shape
    (['write', 'keep', 'show'], (5,))
    """
    seen = read(model, rows, split, whole("num", num))
    with at_rest(seen.model):
        heard = [reading for reading in readings(seen) if isinstance(reading.layer, tuple(_GATES))]
        found = [gate for reading in heard for gate in _of(reading)]
    if not found:
        raise UserError(
            "the model must have recurrent layers with gates",
            got=f"{type(seen.model).__name__}, whose recurrent layers have none",
            do="Take cell='lstm' or 'gru', say; fading shows what other layers keep",
        )
    return Gates(tuple(found))


def _of(reading: Reading) -> list[Gate]:
    states = reading.states()[:-1]
    before = tuple(torch.stack(parts, 1) for parts in zip(*states, strict=True))  # (B, T, ·) each
    values = _GATES[type(reading.layer)](reading.layer, reading.x, before)
    return [_numbers(reading.name or type(reading.layer).__name__, name, v, reading.has) for name, v in values.items()]


def _numbers(layer: str, name: str, values: Tensor, has: Tensor) -> Gate:
    gate, at = values.numpy(), has.numpy()[..., None]
    gone = np.where(at, gate, np.nan)
    some = np.asarray(at.any(0))[:, 0]
    through = np.full((4, gate.shape[1]), np.nan)
    for k, part in enumerate((gone, gone, np.where(at, gate < SHUT, np.nan), np.where(at, gate > OPEN, np.nan))):
        through[k, some] = (np.nanstd if k == 1 else np.nanmean)(part[:, some], axis=(0, 2))
    mean, spread, shut, wide = through
    kept = gate[at[..., 0]]  # (steps that are there, units)
    return Gate(layer, name, mean, spread, shut, wide, (kept < SHUT).mean(0), (kept > OPEN).mean(0))


# ── the gates of each layer, from what it reads and the state before ──

Before = tuple[Tensor, ...]


def _lstm(layer: Any, x: Tensor, before: Before) -> dict[str, Tensor]:
    i, f, _, o = (_read(layer, x) + _kept(layer, before[0])).chunk(4, -1)
    return {"write": i.sigmoid(), "keep": f.sigmoid(), "show": o.sigmoid()}


def _gru(layer: Any, x: Tensor, before: Before) -> dict[str, Tensor]:
    r, u, _ = (_read(layer, x) + _kept(layer, before[0])).chunk(3, -1)
    return {"reset": r.sigmoid(), "keep": u.sigmoid()}


def _read(layer: Any, x: Tensor) -> Tensor:
    kernel = layer.kernel
    return F.linear(x, kernel.weight_ih_l0, kernel.bias_ih_l0 if kernel.bias else None)


def _kept(layer: Any, h: Tensor) -> Tensor:
    kernel = layer.kernel
    return F.linear(h, kernel.weight_hh_l0, kernel.bias_hh_l0 if kernel.bias else None)


def _lecture(*names: tuple[str, str]) -> Callable[[Any, Tensor, Before], dict[str, Tensor]]:
    def found(layer: Any, x: Tensor, before: Before) -> dict[str, Tensor]:
        both = torch.cat([before[0], x], -1)
        return {name: getattr(layer, map_)(both).sigmoid() for name, map_ in names}

    return found


def _min_gru(layer: Any, x: Tensor, before: Before) -> dict[str, Tensor]:
    return {"keep": layer.gate_value(x).chunk(2, -1)[0].sigmoid()}


def _min_lstm(layer: Any, x: Tensor, before: Before) -> dict[str, Tensor]:
    f, i, _ = layer.gates_value(x).chunk(3, -1)
    return {"forget": f.sigmoid(), "write": i.sigmoid(), "keep": (F.logsigmoid(f) - F.logsigmoid(i)).sigmoid()}


_GATES: dict[type[nn.Module], Callable[[Any, Tensor, Before], dict[str, Tensor]]] = {
    LSTM: _lstm,
    GRU: _gru,
    LectureLSTM: _lecture(("write", "write"), ("keep", "forget"), ("show", "show")),
    LectureGRU: _lecture(("reset", "reset"), ("keep", "keep")),
    MinGRU: _min_gru,
    MinLSTM: _min_lstm,
}


def _drawn(found: tuple[Gate, ...]) -> Figure:
    layers = list(dict.fromkeys(gate.layer for gate in found))
    figure = blank(9.0, 3.3 * len(layers))
    axes = figure.subplots(len(layers), 2, squeeze=False, width_ratios=(2, 1))
    for (left, right), layer in zip(axes, layers):
        for hue, gate in zip(HUES, (gate for gate in found if gate.layer == layer)):
            steps = np.arange(1, len(gate.mean) + 1)
            left.fill_between(steps, gate.mean - gate.spread, gate.mean + gate.spread, color=hue, alpha=0.15, lw=0)
            left.plot(steps, gate.mean, color=hue, label=gate.name)
            right.plot(gate.unit_shut, gate.unit_open, "o", ms=4, color=hue, alpha=0.6, mew=0, clip_on=False)
        left.set_ylim(0, 1)
        left.xaxis.get_major_locator().set_params(integer=True)
        right.plot([0, 1], [1, 0], color=SOFT, lw=0.8, ls=":")
        right.set(xlim=(0, 1), ylim=(0, 1))
        label(left, f"{layer}: how open its gates are", "step", "mean and deviation", legend=4)
        label(right, "One dot per unit", f"share of steps below {SHUT}", f"share of steps above {OPEN}")
    return figure
