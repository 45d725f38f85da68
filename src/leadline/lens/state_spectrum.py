"""How a recurrent layer turns and stretches its state, and how many directions that state uses.

    U v = λ v                            eigenvalues of the matrices from state to state                        (1)
    J v = λ v,   J = ∂s_T/∂s_{T-1}       of the last step of each row: what the layer does there                (2)
    C = Σ (s - s̄)(s - s̄)ᵀ / n           covariance of the states of all rows and steps; its eigenvalues         (3)
    dimension = (Σ c_i)² / Σ c_i²        how many directions share the variance c, 1 to M                       (4)

A linear recurrence whose λ lie inside of the unit circle forgets what is below |λ|^k of 1 after k steps; on the circle
it keeps, beyond it grows. A layer that is not linear does so only as far as (2) says, where it is.

Notation   s the whole state, hidden units and cell of an LSTM; real and imaginary parts of a linear recurrent unit
Shapes     eigenvalues (n,) complex of each matrix;  step (B, M) complex;  variance (M,) of each layer, largest first
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.layers.deep_transition import DeepTransition
from leadline.layers.elman import Elman
from leadline.layers.gru import GRU
from leadline.layers.lecture_gru import LectureGRU
from leadline.layers.lecture_lstm import LectureLSTM
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.lstm import LSTM
from leadline.lens.at_rest import at_rest
from leadline.lens.recurrences import Reading, flat, readings
from leadline.lens.style import FULL, HUES, SOFT, blank, label, styled
from leadline.lens.tokens import read
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class LayerSpectrum:
    """Of one layer.

    Args:
        name: path of the layer.
        matrices: eq. 1 of each, by name, as real and imaginary parts (n, 2); none where a layer has no such matrix.
        step: eq. 2, (B, M, 2).
        variance: eq. 3, largest first, (M,).
    """

    name: str
    matrices: dict[str, np.ndarray]
    step: np.ndarray
    variance: np.ndarray

    @property
    def radius(self) -> dict[str, float]:
        """The largest |λ| of each matrix."""
        return {name: float(np.hypot(*pairs.T).max()) for name, pairs in self.matrices.items()}

    @property
    def dimension(self) -> float:
        """Eq. 4; 0 where the state never changes."""
        total = float(self.variance.sum())
        return total**2 / float((self.variance**2).sum()) if total > 0 else 0.0


@dataclass(frozen=True, eq=False)
class StateSpectrum(View):
    """Args:
    layers: in the order in which they read.
    """

    layers: tuple[LayerSpectrum, ...]

    @styled
    def plot(self) -> Figure:
        """A row for each layer: its matrices and its last steps in the unit circle, and the variance of its states."""
        figure = blank(FULL, 3.7 * len(self.layers))
        axes = figure.subplots(len(self.layers), 3, squeeze=False)
        for (left, middle, right), layer in zip(axes, self.layers):
            for hue, (name, pairs) in zip(HUES, layer.matrices.items()):
                left.plot(pairs[:, 0], pairs[:, 1], "o", ms=4, mew=0, alpha=0.7, color=hue, label=name)
            steps = layer.step.reshape(-1, 2)
            middle.plot(steps[:, 0], steps[:, 1], "o", ms=3, mew=0, alpha=0.4, color=HUES[0])
            _circle(left)
            _circle(middle)
            share = layer.variance / max(float(layer.variance.sum()), 1e-300)
            right.plot(
                np.arange(1, len(share) + 1), np.where(share > 1e-12, share, np.nan), "o-", ms=3, lw=1, color=HUES[0]
            )
            right.set_yscale("log")
            label(left, f"{layer.name}: matrices", "real part", "imaginary part", legend=2)
            label(middle, "Jacobian of the last step", "real part", "imaginary part")
            label(right, f"States fill {layer.dimension:.1f} directions", "direction", "share of the variance")
        return figure


def state_spectrum(model: Any, rows: Any = None, *, split: str = "val", num: int = 16) -> StateSpectrum:
    """Eigenvalues of each layer's recurrence, and of the covariance of its states. The model is left as it was.

    Args:
        model, rows, split: as of `fading`.
        num: rows at most.

    >>> layer = LRU(2, 3, radii=(0.8, 0.9))
    >>> [spectrum] = state_spectrum(layer, torch.randn(2, 30, 2)).layers
    >>> 0.8 <= spectrum.radius["λ"] <= 0.9
    True
    """
    seen = read(model, rows, split, whole("num", num))
    with at_rest(seen.model):
        return StateSpectrum(tuple(_of(reading) for reading in readings(seen)))


def _of(reading: Reading) -> LayerSpectrum:
    states = torch.stack([flat(state) for state in reading.states()[1:]], 1)[reading.has]  # (n, M)
    off = states - states.mean(0)
    variance = torch.linalg.eigvalsh(off.T @ off / max(len(off), 1)).flip(0).clamp(min=0)
    step = reading.jacobians(1)[0][:, 0]
    step = step[step.isfinite().flatten(1).all(1)]
    matrices = {name: _pairs(values) for name, values in _eigenvalues(reading.layer).items()}
    name = reading.name or type(reading.layer).__name__
    return LayerSpectrum(name, matrices, _pairs(torch.linalg.eigvals(step)), variance.numpy())


def _eigenvalues(layer: nn.Module) -> dict[str, Tensor]:
    """Eq. 1 of each matrix from state to state that a layer has."""
    if isinstance(layer, LRU):
        return {"λ": layer.eigenvalues}
    return {name: torch.linalg.eigvals(matrix) for name, matrix in _matrices(layer).items()}


def _matrices(layer: nn.Module) -> dict[str, Tensor]:
    if isinstance(layer, Elman):
        return {"recurrent": layer.kernel.weight_hh_l0}
    if isinstance(layer, LSTM):
        return dict(zip(("write", "keep", "candidate", "show"), layer.kernel.weight_hh_l0.chunk(4)))
    if isinstance(layer, GRU):
        return dict(zip(("reset", "keep", "candidate"), layer.kernel.weight_hh_l0.chunk(3)))
    if isinstance(layer, LectureLSTM):
        maps = {"write": layer.write, "keep": layer.forget, "candidate": layer.candidate, "show": layer.show}
        return {name: map_.weight[:, : layer.dim_output] for name, map_ in maps.items()}
    if isinstance(layer, LectureGRU):
        maps = {"reset": layer.reset, "keep": layer.keep, "candidate": layer.candidate}
        return {name: map_.weight[:, : layer.dim_output] for name, map_ in maps.items()}
    if isinstance(layer, DeepTransition):
        step = torch.eye(layer.dim_output, dtype=layer.read.weight.dtype)
        for map_ in layer.deeper:
            step = map_.weight @ step  # type: ignore[operator]
        return {"step": step if layer.shortcut is None else step + layer.shortcut.weight}
    return {}  # what a MinGRU or MinLSTM does to its state is its gates


def _pairs(values: Tensor) -> np.ndarray:
    return torch.view_as_real(values.detach().resolve_conj()).numpy()


def _circle(ax: Any) -> None:
    turn = np.linspace(0, 2 * np.pi, 200)
    ax.plot(np.cos(turn), np.sin(turn), color=SOFT, lw=0.9)
    ax.set_aspect("equal", adjustable="datalim")
