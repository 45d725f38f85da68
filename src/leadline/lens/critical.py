"""Where the loss of a small model is level: its minima, saddles and maxima.

    ∇L(φ*) = 0;   H = ∂²L/∂φ∂φᵀ at φ*                                                                    (1)
    minimum: all eigenvalues of H above 0      maximum: all below      saddle: some of each               (2)
    descend   φ <- φ - |H + μ|⁻¹ ∇L, from many starts: each ends in a minimum, or leaves the window        (3)
    root      φ <- φ - (H² + μ)⁻¹ H ∇L, from the same: ends where ∇L = 0, of any kind                      (4)

What both find is polished by Newton's method until a step is 1e-9 of the window. The starts are spread evenly
(Sobol), so that the list is complete for a loss that is smooth on their scale; nothing proves that it is. `share` is
the part of the starts from which descent (3) ends in a minimum: the size of its basin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, heat, label, short, styled
from leadline.lens.view import View
from leadline.lens.weight_loss import WeightLoss, grid_of, window_of
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 50  # weights: a Hessian of each start is built whole
_LOOKS = {"minimum": ("o", HUES[0]), "saddle": ("X", HUES[1]), "maximum": ("^", HUES[3]), "degenerate": ("s", SOFT)}


@dataclass(frozen=True, eq=False)
class CriticalPoints(View):
    """Critical points, minima first and the lowest of each kind first.

    Args:
        names: of the P weights.  window: (least, largest) of each.
        at: (n, P).  loss: (n,).  kinds: n words of eq. 2, or "degenerate" where an eigenvalue is 0.
        eigenvalues: (n, P), ascending.  share: (n,), part of the starts whose descent ends there.
        first, second, surface: of two weights, the loss on a grid, (second, first); else empty.
        x, curves: of one input, its values and the model's answer at each point, (n, num); else empty.
        rows, y: the rows that it is drawn with.
    """

    names: tuple[str, ...]
    window: tuple[tuple[float, float], ...]
    at: np.ndarray
    loss: np.ndarray
    kinds: tuple[str, ...]
    eigenvalues: np.ndarray
    share: np.ndarray
    first: np.ndarray
    second: np.ndarray
    surface: np.ndarray
    x: np.ndarray
    curves: np.ndarray
    rows: np.ndarray
    y: np.ndarray

    def of_kind(self, kind: str) -> np.ndarray:
        """The places of one kind, (k, P)."""
        return self.at[[word == kind for word in self.kinds]]

    @styled
    def plot(self) -> Figure:
        if not self.surface.size:
            figure = blank(FULL * 0.6, 3.8)
            self._ladder(figure.subplots())
            return figure
        shown = [k for k, kind in enumerate(self.kinds) if kind == "minimum"][:5]
        shown += [k for k, kind in enumerate(self.kinds) if kind == "saddle"][:1]
        if not self.curves.size or not shown:
            figure = blank(6.2, 5.0)
            self._map(figure.subplots(), [])
            return figure
        columns = -(-len(shown) // 3)
        figure = blank(FULL, 5.4)
        left, right = figure.subfigures(1, 2, width_ratios=[1.5, 0.55 * columns + 0.3])
        self._map(left.subplots(), shown)
        axes = right.subplots(-(-len(shown) // columns), columns, squeeze=False, sharex=True, sharey=True)
        for ax in axes.flat[len(shown) :]:
            ax.set_visible(False)
        for letter, (ax, k) in enumerate(zip(axes.flat, shown)):
            _, hue = _LOOKS[self.kinds[k]]
            ax.plot(self.rows, self.y, "o", ms=2.6, color=INK, alpha=0.55, mec="none")
            ax.plot(self.x, self.curves[k], color=hue)
            name = "best" if k == 0 and self.kinds[0] == "minimum" else self.kinds[k]
            label(ax, f"{chr(97 + letter)}  {name}: {short(self.loss[k])}", "", "")
        for ax in axes[-1]:
            ax.set_xlabel("x")
        for ax in axes[:, 0]:
            ax.set_ylabel("y")
        return figure

    def _map(self, ax: Axes, lettered: list[int]) -> None:
        heat(ax, self.first, self.second, self.surface, "mean loss of a row")
        ax.contour(self.first, self.second, self.surface, 14, colors="white", linewidths=0.5, alpha=0.5)
        for kind, (mark, hue) in _LOOKS.items():
            places = self.of_kind(kind)
            if len(places):
                words = f"{len(places)} {kind if len(places) == 1 else _plural(kind)}"
                ax.plot(*places.T, mark, ms=7, color=hue, mec="white", mew=0.9, ls="", label=words, zorder=4)
        if self.kinds and self.kinds[0] == "minimum":
            ax.plot(*self.at[0], "*", ms=15, color="white", mec=INK, mew=0.9, ls="", zorder=5,
                    label=f"lowest, loss {short(self.loss[0])}")  # fmt: skip
        for letter, k in enumerate(lettered):
            ax.annotate(chr(97 + letter), self.at[k], (6, 5), textcoords="offset points", color="white", weight="bold")
        ax.set(xlim=(self.first[0], self.first[-1]), ylim=(self.second[0], self.second[-1]))
        label(ax, "Where the loss is level", self.names[0], self.names[1], legend=3)

    def _ladder(self, ax: Axes) -> None:
        for kind, (mark, hue) in _LOOKS.items():
            chosen = [k for k, word in enumerate(self.kinds) if word == kind]
            below = (self.eigenvalues[chosen] < 0).sum(1)
            if chosen:
                ax.plot(below, self.loss[chosen], mark, color=hue, ls="", ms=6, alpha=0.8, label=_plural(kind))
        ax.xaxis.get_major_locator().set_params(integer=True)
        label(ax, "Where the loss is level", "directions that lead down", "mean loss of a row", legend=4)


def critical_points(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    penalty: Callable[[Tensor], Tensor] | None = None,
    window: Any = None,
    starts: int = 512,
    num: int = 81,
    split: str = "train",
    seed: int = 0,
) -> CriticalPoints:
    """Minima, saddles and maxima of the loss over all weights of a small model, within a window.

    Args:
        data, likelihood, split: as for `loss_surface`.
        penalty: a function of the flat weights that is added to the loss, as a regulariser does.
        window: one (least, largest) for each weight, in the order of the parameters; by default around the model's.
        starts: of the search, at least 1.  num: grid points a side of the drawing.  seed: of the starts.

    >>> import leadline as ll
    >>> line = ll.models.Linear(1, 1)
    >>> view = critical_points(line, ll.data.line(num=40), window=((-5, 5), (-5, 5)), starts=16, num=5)
    >>> view.kinds  # a line has one best fit and nothing else
    ('minimum',)
    """
    loss = WeightLoss(model, data, likelihood, split, penalty)
    if len(loss.centre) > MOST:
        raise UserError(
            f"critical_points needs a model of at most {MOST} weights",
            got=f"{len(loss.centre):,} of them",
            do="Look at a smaller model, or at ll.lens.loss_surface",
        )
    ends = window_of(window, loss.centre)
    low, high = torch.tensor(ends, dtype=torch.float64).T
    sobol = torch.quasirandom.SobolEngine(len(low), scramble=True, seed=whole("seed", seed, 0))
    phi = low + (high - low) * sobol.draw(whole("starts", starts), dtype=torch.float64)
    downhill = _descend(loss, phi, high - low)
    found = torch.cat([_polish(loss, downhill, high - low), _polish(loss, _root(loss, phi, high - low), high - low)])
    inside = ((found >= low) & (found <= high)).all(1)
    found = _apart(found[inside], high - low)
    values, curvature = loss.losses(found), torch.linalg.eigvalsh(loss.hessians(found))
    kinds = [_kind(row) for row in curvature]
    order = sorted(range(len(found)), key=lambda k: (list(_LOOKS).index(kinds[k]), float(values[k])))
    at = found[order]
    near = ((downhill[:, None] - at[None]) / (high - low)).norm(dim=2) < 1e-3 if len(at) else torch.zeros(1, 0)
    share = near.double().mean(0).numpy()
    first = second = surface = np.zeros(0)
    if len(ends) == 2:
        first_t, second_t, points = grid_of(ends, whole("num", num, 2))
        first, second = first_t.numpy(), second_t.numpy()
        surface = loss.losses(points).view(num, num).numpy()
    x, curves = _curves(loss, at)
    return CriticalPoints(
        loss.names, ends, at.numpy(), values[order].numpy(), tuple(kinds[k] for k in order),
        curvature[order].numpy(), share, first, second, surface, x, curves,
        *((loss.raw.flatten().numpy(), loss.y.flatten().numpy()) if x.size else (np.zeros(0), np.zeros(0))),
    )  # fmt: skip


def _descend(loss: WeightLoss, phi: Tensor, size: Tensor, steps: int = 150) -> Tensor:
    """Eq. 3 with μ raised where a step went up; lengths in units of the window."""

    def step(g: Tensor, h: Tensor, damping: Tensor) -> Tensor:
        lam, vectors = torch.linalg.eigh(h)
        scale = lam.abs().amax(1, keepdim=True).clamp(min=1e-30)
        along = (vectors.mT @ g[:, :, None])[:, :, 0] / (lam.abs() + damping[:, None] * scale)
        return (vectors @ along[:, :, None])[:, :, 0]

    return _walk(loss, phi, size, step, loss.losses, steps)


def _root(loss: WeightLoss, phi: Tensor, size: Tensor, steps: int = 60) -> Tensor:
    """Eq. 4 with μ raised where |∇L| grew."""

    def step(g: Tensor, h: Tensor, damping: Tensor) -> Tensor:
        square = h @ h
        scale = square.diagonal(dim1=1, dim2=2).amax(1).clamp(min=1e-300)
        ridge = (damping * scale)[:, None, None] * torch.eye(len(size)).double()
        return torch.linalg.solve(square + ridge, h @ g[:, :, None])[:, :, 0]

    return _walk(loss, phi, size, step, lambda at: (loss.gradients(at) * size).norm(dim=1), steps)


def _walk(loss: WeightLoss, phi: Tensor, size: Tensor, step: Any, height: Any, steps: int) -> Tensor:
    """Damped steps that lower `height`, from every start at once; those that are done, or far out, rest."""
    phi, middle = phi.clone(), phi.mean(0)
    damping, value = torch.full((len(phi),), 1e-2).double(), height(phi)
    moving = torch.ones(len(phi), dtype=torch.bool)
    for _ in range(steps):
        at = phi[moving]
        if not len(at):
            break
        way = step(loss.gradients(at) * size, loss.hessians(at) * size * size[:, None], damping[moving])
        way = way * (0.1 / way.norm(dim=1, keepdim=True).clamp(min=0.1))  # a tenth of the window at most
        tried = at - way * size
        after = height(tried)
        down = after <= value[moving]
        phi[moving] = torch.where(down[:, None], tried, at)
        value[moving] = torch.where(down, after, value[moving])
        damping[moving] = torch.where(down, damping[moving] / 4, damping[moving] * 8).clamp(min=1e-13)
        on = (way.norm(dim=1) > 1e-9) & (damping[moving] < 1e6)
        on &= ((phi[moving] - middle) / size).abs().amax(1) < 1.2
        moving[moving.clone()] = on
    return phi


def _polish(loss: WeightLoss, phi: Tensor, size: Tensor) -> Tensor:
    """Newton's method; only those that it leaves in place are kept, and those with no curvature at all are not."""
    for _ in range(6):
        g, h = loss.gradients(phi) * size, loss.hessians(phi) * size * size[:, None]
        step = (torch.linalg.pinv(h, hermitian=True, rtol=1e-13) @ g[:, :, None])[:, :, 0]
        kept = (step.norm(dim=1) < 1e-2) & step.isfinite().all(1) & (h.abs().amax((1, 2)) > 0)
        phi, step = phi[kept] - step[kept] * size, step[kept]
    return phi[step.norm(dim=1) < 1e-9]


def _apart(phi: Tensor, size: Tensor) -> Tensor:
    """One of each cluster of equal places."""
    chosen: list[Tensor] = []
    for row in phi:
        if all(float(((row - other) / size).norm()) > 1e-5 for other in chosen):
            chosen.append(row)
    return torch.stack(chosen) if chosen else phi[:0]


def _kind(eigenvalues: Tensor) -> str:
    """Eq. 2."""
    zero = 1e-10 * float(eigenvalues.abs().max())
    if bool((eigenvalues.abs() <= zero).any()):
        return "degenerate"
    if bool((eigenvalues > 0).all()):
        return "minimum"
    return "maximum" if bool((eigenvalues < 0).all()) else "saddle"


def _curves(loss: WeightLoss, at: Tensor) -> tuple[np.ndarray, np.ndarray]:
    if loss.raw.flatten(1).shape[1] != 1 or not loss.y.is_floating_point() or loss.y.ndim > 1 or not len(at):
        return np.zeros(0), np.zeros((0, 0))
    x = torch.linspace(float(loss.raw.min()), float(loss.raw.max()), 200)[:, None]
    shaped = loss.inputs.encode(x.view(200, *loss.raw.shape[1:]))
    curves = torch.stack([loss.output(phi, shaped)[:, 0] for phi in at])
    return x[:, 0].double().numpy(), curves.numpy()


def _plural(kind: str) -> str:
    return {"minimum": "minima", "maximum": "maxima"}.get(kind, f"{kind}s" if kind == "saddle" else kind)
