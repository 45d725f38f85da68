"""How far back a recurrent layer is felt: the derivative of its last state with respect to one, or to an input, before.

    ∂s_T/∂s_{T-k} = J_T J_{T-1} ⋯ J_{T-k+1},     J_t = ∂s_t/∂s_{t-1}                                        (1)
    ∂s_T/∂x_{T-k} = ∂s_T/∂s_{T-k} · ∂s_{T-k}/∂x_{T-k}                                                        (2)
    ‖(1)‖ <= (α σ₁(U))^k                   Elman; of a deeper step Π_j α σ₁(U_j), + σ₁(S) of its shortcut    (3)
    ‖(1)‖  = |λ|_max^k                     of a linear recurrent unit                                        (4)

Where (3) falls the past must fade. That it grows does not say that gradients explode. Gated layers have no bound of
their weights alone: what they keep they decide row by row, and it is measured.

Notation   s the whole state, hidden units and cell of an LSTM;  T a row's last step;  k the lag;  ‖·‖ the largest
           singular value;  α the steepest slope of the activation
Shapes     state, read (L, B, K + 1) for L layers, B rows and lags 0 … K
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.layers.deep_transition import DeepTransition
from leadline.layers.elman import Elman
from leadline.layers.linear_recurrent_unit import LRU
from leadline.lens.at_rest import at_rest
from leadline.lens.recurrences import Reading, readings
from leadline.lens.style import DASHED, FULL, HUES, blank, label, styled
from leadline.lens.tokens import read
from leadline.lens.view import View
from leadline.settings import real, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: activation -> its steepest slope, where that is known for all of its inputs
_STEEPEST: dict[type[nn.Module], float] = {
    nn.Tanh: 1.0, nn.ReLU: 1.0, nn.Identity: 1.0, nn.Softplus: 1.0, nn.Sigmoid: 0.25,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Fading(View):
    """What is left of a step, lag by lag.

    Args:
        names: paths of the layers; lags: 0 … K.
        state: norm of (1); read: norm of (2); nan where a row is shorter.
        bound: (3) or (4), (L, K + 1); nan where the weights give none.
    """

    names: tuple[str, ...]
    lags: np.ndarray
    state: np.ndarray
    read: np.ndarray
    bound: np.ndarray

    @property
    def rate(self) -> np.ndarray:
        """The factor a step by which a layer's state fades, as a geometric mean over lags and rows, (L,)."""
        found = []
        for norms in self.state:
            at = np.isfinite(norms) & (self.lags > 0)
            with np.errstate(divide="ignore"):
                slopes = np.log(norms[at]) / np.broadcast_to(self.lags, norms.shape)[at]
            found.append(math.exp(slopes.mean()) if len(slopes) else math.nan)
        return np.array(found)

    def horizon(self, share: float = 0.01) -> list[int | None]:
        """Of each layer the lag from which on less than `share` of a state is left, in the mean; None if that is never.

        Args:
            share: above 0 and below 1.
        """
        real("share", share, 0, 1, usual=0.01)
        found: list[int | None] = []
        for norms in self._middle(self.state):
            above = np.flatnonzero(norms >= share)
            last = int(above[-1]) if len(above) else -1
            found.append(None if last + 1 >= np.isfinite(norms).sum() else last + 1)
        return found

    @styled
    def plot(self) -> Figure:
        """Means over rows, from the least to the largest of them, and the bound of each layer dashed."""
        figure = blank(FULL, 3.8)
        left, right = figure.subplots(1, 2)
        self._draw(left, self.state, bounded=True)
        self._draw(right, self.read)
        label(
            left,
            "Influence of an earlier state on the last",
            "lag k (steps)",
            "‖∂s(T) / ∂s(T−k)‖",
            legend=2,
        )
        label(
            right,
            "Influence of an earlier input",
            "lag k (steps)",
            "‖∂s(T) / ∂x(T−k)‖",
            legend=2,
        )
        return figure

    def _draw(self, ax: Axes, norms: np.ndarray, bounded: bool = False) -> None:
        middle = self._middle(norms)
        for k, name in enumerate(self.names):
            hue = HUES[k % len(HUES)]
            shown = np.where(norms[k] > 0, norms[k], np.nan)
            some = np.isfinite(shown).any(0)
            ax.fill_between(
                self.lags[some], np.nanmin(shown[:, some], 0), np.nanmax(shown[:, some], 0), color=hue, alpha=0.15, lw=0
            )
            ax.plot(self.lags, np.where(middle[k] > 0, middle[k], np.nan), color=hue, lw=1.6, label=name)
            if bounded and np.isfinite(self.bound[k]).all():
                ax.plot(self.lags, self.bound[k], color=hue, lw=1.1, ls=DASHED, label=f"bound of {name}")
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, high * 1e-24), high)  # below, there is nothing left that any number format would hold

    def _middle(self, norms: np.ndarray) -> np.ndarray:
        """Geometric means over the rows that are long enough, (L, K + 1)."""
        there = np.isfinite(norms)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(there, np.log(np.where(there, norms, 1.0)), 0.0)
            return np.exp(logs.sum(1) / there.sum(1))


def fading(model: Any, rows: Any = None, *, most: int = 100, split: str = "val", num: int = 4) -> Fading:
    """What the last state of each recurrent layer keeps of what was before. The model is left as it was.

    Args:
        model: a run, or any module with recurrent layers; torch's nn.RNN, nn.LSTM and nn.GRU too.
        rows: Data, texts where a run is given, tokens (B, T), or numbers as the network reads them; a run has its own.
        most: largest lag, at least 1; a shorter row has fewer.
        num: rows at most.

    >>> from leadline.layers import Elman
    >>> layer = Elman(2, 3)
    >>> view = fading(layer, torch.randn(1, 9, 2))
    >>> view.state.shape, bool((view.state[0, 0] <= view.bound[0] + 1e-9).all())
    ((1, 1, 10), True)
    """
    whole("most", most)
    seen = read(model, rows, split, whole("num", num))
    with at_rest(seen.model):
        heard = readings(seen)
        longest = min(most, max(reading.x.shape[1] for reading in heard))
        both = [_norms(reading, longest) for reading in heard]
    bounds = [[_bound(reading.layer) ** k for k in range(longest + 1)] for reading in heard]
    state, into = (torch.stack([one[k] for one in both]).numpy() for k in range(2))
    names = tuple(reading.name or type(reading.layer).__name__ for reading in heard)
    return Fading(names, np.arange(longest + 1), state, into, np.array(bounds))


def _norms(reading: Reading, most: int) -> tuple[Tensor, Tensor]:
    """Norms of eqs. 1 and 2, (B, most + 1) each."""
    states, reads = reading.jacobians(most + 1)
    num, have, size, _ = states.shape
    by_state = states.new_full((num, most + 1), math.nan)
    by_read = by_state.clone()
    product = torch.eye(size, dtype=states.dtype).expand(num, size, size)
    by_state[:, 0] = 1.0
    for k in range(have):
        by_read[:, k] = _largest(product @ reads[:, k])
        product = product @ states[:, k]
        if k < most:
            by_state[:, k + 1] = _largest(product)
    return by_state, by_read


def _largest(matrices: Tensor) -> Tensor:
    """The largest singular value of each, (B,); nan where a number is nan."""
    sound = matrices.isfinite().flatten(1).all(1)
    found = torch.linalg.matrix_norm(matrices.nan_to_num(0.0), 2)
    return found.masked_fill(~sound, math.nan)


def _bound(layer: nn.Module) -> float:
    """The factor a step of eqs. 3 and 4; nan where the weights give none."""
    if isinstance(layer, Elman):
        return _sigma(layer.kernel.weight_hh_l0)
    if isinstance(layer, LRU):
        return float(layer.eigenvalues.abs().max())
    if isinstance(layer, DeepTransition):
        alpha = _STEEPEST.get(type(layer.activation), math.nan)
        maps: list[Any] = list(layer.deeper)
        step = float(np.prod([alpha * _sigma(map_.weight) for map_ in maps]))
        return step + (0.0 if layer.shortcut is None else _sigma(layer.shortcut.weight))
    return math.nan


def _sigma(weight: Tensor) -> float:
    return float(torch.linalg.matrix_norm(weight.detach(), 2))
