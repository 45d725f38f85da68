"""The curvature of the loss: eigenvalues of its Hessian, for any module and any likelihood.

    H = ∂²L / ∂φ ∂φᵀ                                       over the weights that learn, P of them                  (1)
    ρ(λ) = (1/P) Σ_i δ(λ - λ_i)                            its spectral density                                    (2)
    tr H = E[vᵀ H v],   v_j = ±1 at random                 Hutchinson's estimate, with its standard error          (3)

Small networks are solved: H is built column by column, and every eigenvalue is exact. Of larger ones Lanczos' method
gives the outermost eigenvalues, each with the length of its residual, and (2) by quadrature: neither needs H itself.
A negative eigenvalue says that the weights are not at a minimum; descent is stable below a step of 2 / λ_max.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.lens.at_rest import at_rest
from leadline.lens.lanczos import Product, Ritz, lanczos
from leadline.lens.landscape import Landscape
from leadline.lens.style import HUES, INK, SOFT, blank, label, percent, short, styled
from leadline.lens.view import View
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: weights up to which H itself is built: 2,000² numbers, and a few seconds
EXACT = 2000
#: of a bell curve that stands for one eigenvalue in the drawing, as a part of the range
_WIDTH = 0.005


@dataclass(frozen=True, eq=False)
class Hessian(View):
    """Eigenvalues of the Hessian.

    Args:
        parameters: P, those that learn.  exact: whether H was built and solved.
        values, weights: places and masses of the density (2), which add up to 1: all eigenvalues with mass 1/P where
            exact, points of the quadrature where not.
        largest, smallest: the outermost eigenvalues, largest first and smallest first; `residuals` (2, number of
            them) the lengths of |Hv - λv|, largest in the first row: no eigenvalue is further away than that.
        trace, trace_error: of H, and the standard error where it is estimated (3).
        loss, gradient: the mean loss and the length of its gradient at these weights.
    """

    parameters: int
    exact: bool
    values: np.ndarray
    weights: np.ndarray
    largest: np.ndarray
    smallest: np.ndarray
    residuals: np.ndarray
    trace: float
    trace_error: float
    loss: float
    gradient: float

    @property
    def negative(self) -> float:
        """Share of the eigenvalues that are clearly below 0: by more than 0.1 % of the largest size."""
        least = 1e-3 * float(np.abs(self.values).max())
        return float(self.weights[self.values < -least].sum())

    @property
    def edge(self) -> float:
        """The largest stable step of plain gradient descent, 2 / λ_max; infinite where nothing curves upwards."""
        top = float(self.largest[0])
        return 2 / top if top > 0 else float("inf")

    def moment(self, power: int) -> float:
        """∫ λ^power ρ(λ) dλ; of power 1 it is the trace over P.

        >>> square = lambda output, y: (output[:, 0] - y) ** 2 / 2
        >>> view = hessian(nn.Linear(1, 1), (torch.tensor([[0.0], [2.0]]), torch.zeros(2)), likelihood=square)
        >>> round(view.moment(1), 4), round(view.trace, 4)  # the mean of x² and of 1
        (1.5, 3.0)
        """
        return float((self.weights * self.values**power).sum())

    def density(self, num: int = 801) -> tuple[np.ndarray, np.ndarray]:
        """Places, and eq. 2 with each eigenvalue as a narrow bell curve."""
        low, high = float(self.values.min()), float(self.values.max())
        width = _WIDTH * ((high - low) or abs(high) or 1.0)
        at = np.linspace(low - 6 * width, high + 6 * width, num)
        bells = np.exp(-0.5 * ((at[:, None] - self.values) / width) ** 2) / (width * np.sqrt(2 * np.pi))
        return at, bells @ self.weights

    @styled
    def plot(self) -> Figure:
        figure = blank(6.6, 3.6)
        ax = figure.subplots()
        at, density = self.density()
        ax.fill_between(at, density, 1e-300, color=HUES[0], alpha=0.18, lw=0)
        ax.plot(at, density, color=HUES[0], label="spectral density")
        floor = 0.3 * float(self.weights[self.weights > 1e-8].min()) * float(density.max())
        ax.set(yscale="log", ylim=(floor, 4 * float(density.max())), xlim=(at[0], at[-1]))
        ax.axvline(0, color=SOFT, lw=0.8)
        ends = np.concatenate([self.largest, self.smallest])
        ax.plot(
            ends, np.full(len(ends), floor), "|", ms=11, mew=1.4, color=INK, clip_on=False,
            label=f"{len(self.largest)} largest, {len(self.smallest)} smallest eigenvalues",
        )  # fmt: skip
        how = "all" if self.exact else "by Lanczos' method:"
        error = f" ± {short(self.trace_error)}" if self.trace_error else ""
        title = (
            f"Hessian of {self.parameters:,} weights, {how} eigenvalues {short(self.smallest[0])} to "
            f"{short(self.largest[0])}\n"
            f"trace {short(self.trace)}{error}, {percent(self.negative)} of them clearly below 0"
        )
        label(ax, title, "eigenvalue λ (loss per weight²)", "density of eigenvalues", legend=2)
        return figure


def hessian(
    model: nn.Module,
    data: Any,
    *,
    likelihood: Any = None,
    split: str = "train",
    most: int = 2000,
    extremes: int = 5,
    steps: int = 80,
    probes: int = 4,
    seed: int = 0,
) -> Hessian:
    """The spectrum of the Hessian of the mean loss at the model's weights.

    Args:
        data: Data, a Split, or a pair (x, y) of the network's own inputs.
        likelihood: a family, or a function of (output, y) that gives a loss a row; None takes the target's.
        most: rows of the split, evenly spread.
        extremes: how many of the largest and of the smallest eigenvalues to name, at least 1.
        steps: of Lanczos' method, at least 2; each costs two backward passes and one vector of memory.
        probes: random start vectors, at least 2; the error of density and trace falls with their square root.
        seed: of the probes. Steps, probes and seed are not used for up to 2,000 weights, which are solved.

    >>> from leadline.data import moons
    >>> view = hessian(nn.Linear(2, 1), moons(num=60))
    >>> view.exact, len(view.values), bool(view.smallest[0] > 0)  # logistic regression: a bowl
    (True, 3, True)
    """
    extremes, steps, probes = whole("extremes", extremes), whole("steps", steps, 2), whole("probes", probes, 2)
    with at_rest(model):
        landscape = Landscape(model, data, likelihood, split, most)
        learns = landscape.learns
        count = int(learns.sum())
        if not count:
            raise UserError(
                "some weights must learn for the loss to curve over them",
                got=f"none of {len(learns):,} with requires_grad",
                do="Unfreeze them with model.requires_grad_(True)",
            )
        product = curvature(landscape)
        g = landscape.gradient(landscape.centre)
        told = (landscape.moved(torch.zeros_like(landscape.centre)), float((learns * g).norm()))
        if count <= EXACT:
            return _solved(product, learns, extremes, told)
        return _sounded(product, learns, extremes, steps, probes, seed, told)


def curvature(landscape: Landscape) -> Product:
    """v ↦ H v at the model's own weights; frozen ones neither move nor answer."""
    product, learns = landscape.curvature(landscape.centre), landscape.learns
    return lambda v: learns * product(learns * v)


def _solved(product: Product, learns: Tensor, extremes: int, told: tuple[float, float]) -> Hessian:
    places = learns.nonzero()[:, 0]
    columns = []
    unit = torch.zeros_like(learns)
    for place in places.tolist():
        unit[place] = 1
        columns.append(product(unit)[places])
        unit[place] = 0
    matrix = torch.stack(columns).double().cpu()
    matrix = (matrix + matrix.T) / 2
    values, vectors = torch.linalg.eigh(matrix)
    wrong = (matrix @ vectors - vectors * values).norm(dim=0)
    k = min(extremes, len(values))
    residuals = np.stack([wrong.flip(0)[:k].numpy(), wrong[:k].numpy()])
    found = values.numpy()
    return Hessian(
        len(found), True, found, np.full(len(found), 1 / len(found)), found[::-1][:k].copy(), found[:k].copy(),
        residuals, float(matrix.trace()), 0.0, *told,
    )  # fmt: skip


def _sounded(
    product: Product, learns: Tensor, extremes: int, steps: int, probes: int, seed: int, told: tuple[float, float]
) -> Hessian:
    generator = torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1, usual=0))
    count, found = int(learns.sum()), list[Ritz]()
    for _ in range(probes):
        signs = 2 * torch.randint(2, learns.shape, generator=generator).to(learns.device) - 1
        found.append(lanczos(product, signs * learns, steps, extremes))
    traces = torch.tensor([count * ritz.first for ritz in found], dtype=torch.float64)
    k = min(extremes, *(len(ritz.values) for ritz in found))
    # every θ lies inside the range of the eigenvalues: the outermost of the probes are the best
    top, low = max(found, key=lambda r: float(r.values[-1])), min(found, key=lambda r: float(r.values[0]))
    ends = ((top.values.flip(0), top.top), (low.values, low.low))
    # measured, since what Lanczos says of them does not know of rounding
    residuals = [
        [float((product(v) - value * v).norm()) for value, v in zip(values.tolist()[:k], vectors[:k], strict=True)]
        for values, vectors in ends
    ]
    return Hessian(
        count, False,
        torch.cat([r.values for r in found]).numpy(), torch.cat([r.weights for r in found]).numpy() / probes,
        top.values.flip(0)[:k].numpy(), low.values[:k].numpy(), np.array(residuals),
        float(traces.mean()), float(traces.std()) / probes**0.5, *told,
    )  # fmt: skip
