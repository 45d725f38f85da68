"""How fast a network's output can change with its input: a bound from above, and what is seen from below.

    |f(a) - f(b)| <= L |a - b|                       L the least such number                                       (1)
    L <= Π_k c_k · Π_k |Ω_k|                         c_k largest slope of an activation, |Ω| spectral norm         (2)
    L >= max_i |∂f/∂x (x_i)|                         spectral norm of the Jacobian at any input                    (3)
    L >= max |f(x_i) - f(x_j)| / |x_i - x_j|         slope between any two inputs                                  (4)

(2) multiplies worst cases that need not meet, and is looser with each layer; (3) and (4) say by how much at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from leadline.errors import UserError
from leadline.layers.sine import Sine
from leadline.lens.at_rest import at_rest
from leadline.lens.rows import fit_to, rows_of
from leadline.lens.style import DASHED, HALF, HUES, INK, blank, label, short, styled
from leadline.lens.view import View
from leadline.models.chain import chain
from leadline.settings import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: c of eq. 2, rounded up
_STEEPEST: dict[type[nn.Module], float] = {
    nn.Identity: 1.0, nn.ReLU: 1.0, nn.Tanh: 1.0, nn.Sigmoid: 0.25, nn.Softplus: 1.0, Sine: 1.0,
    nn.GELU: 1.13, nn.SiLU: 1.09985, nn.SELU: 1.75810, nn.Hardswish: 1.5,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Lipschitz(View):
    """Args:
    norms: spectral norm of each affine map; `slopes` the c of each activation. Both empty for a network that is no
        chain of the two.
    bound: eq. 2; infinite where there is none.
    jacobians: eq. 3 at each row.
    seen: the larger of (3) and (4): no Lipschitz constant is below it.
    """

    norms: np.ndarray
    slopes: np.ndarray
    bound: float
    jacobians: np.ndarray
    seen: float

    @styled
    def plot(self) -> Figure:
        figure = blank(HALF * 1.25, 3.3)
        ax = figure.subplots()
        bins = np.geomspace(
            max(float(self.jacobians.min()), 1e-12), max(float(self.jacobians.max()), 2e-12) * 1.0001, 30
        )
        ax.hist(self.jacobians, bins, color=HUES[0], alpha=0.85)
        ax.axvline(self.seen, color=INK, lw=1.2, label=f"largest seen {short(self.seen)}")
        if np.isfinite(self.bound):
            ax.axvline(self.bound, color=HUES[1], lw=1.4, ls=DASHED, label=f"bound {short(self.bound)}")
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter("")
        names = " × ".join(short(float(value)) for value in self.norms) if 0 < len(self.norms) <= 5 else ""
        steep = float(np.prod(self.slopes))
        names += f", activations {short(steep)}" if names and steep != 1 else ""
        title = f"Norms of the maps {names}" if names else f"{len(self.norms)} maps" if len(self.norms) else "No bound"
        label(ax, f"Change of output per change of input\n{title}", "size of the Jacobian at a row", "rows", 2)
        return figure


def lipschitz(model: nn.Module, data: Any, *, split: str = "train", most: int = 300, seed: int = 0) -> Lipschitz:
    """The Lipschitz constant of a network's raw outputs between its two bounds.

    Args:
        data: Data, a Split or a pair (x, y), or inputs of the network.
        most: rows to differentiate at, evenly spread.
        seed: of the pairs of eq. 4.

    >>> net = nn.Linear(2, 1)
    >>> view = lipschitz(net, torch.randn(5, 2))
    >>> bool(np.allclose([view.bound, view.seen], net.weight.norm().item()))  # of a linear map all three are one
    True
    """
    most = whole("most", most, 2)
    with at_rest(model):
        x = fit_to(model, data) if isinstance(data, torch.Tensor) else rows_of(data, split).encoded(model)
        x = x[:: max(1, -(-len(x) // most))].detach()
        if len(x) < 2:
            raise UserError("there must be two rows", got=f"{len(x)}", do="Pass more")
        norms, slopes = _chain(model)
        with torch.enable_grad():
            one = lambda row: model(row[None])[0].flatten()  # noqa: E731
            jacobian = torch.stack([torch.autograd.functional.jacobian(one, row) for row in x])
        sizes = torch.linalg.matrix_norm(jacobian.flatten(2).double(), ord=2).cpu()
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(whole("seed", seed, 0, 2**63 - 1)))
        other = order.roll(1).to(x.device)
        order = order.to(x.device)
        output = model(x).flatten(1).double()
        apart = (x[order] - x[other]).flatten(1).double().norm(dim=1)
        changed = (output[order] - output[other]).norm(dim=1)
        steepest = float((changed / apart)[apart > 0].max()) if bool((apart > 0).any()) else 0.0
    bound = float(np.prod(norms) * np.prod(slopes)) if len(norms) else float("inf")
    return Lipschitz(norms, slopes, bound, sizes.numpy(), max(float(sizes.max()), steepest))


def _chain(model: nn.Module) -> tuple[np.ndarray, np.ndarray]:
    """Norms and slopes of eq. 2, where the model is a chain of maps and activations whose slope is known."""
    try:
        links = chain(model)
    except UserError:
        return np.zeros(0), np.zeros(0)
    slopes = []
    for a in links.activations:
        if isinstance(a, nn.LeakyReLU):
            slope = max(1.0, abs(a.negative_slope))
        elif isinstance(a, nn.PReLU):
            slope = max(1.0, float(a.weight.abs().max()))
        elif isinstance(a, nn.ELU):
            slope = max(1.0, abs(a.alpha))
        elif type(a) in _STEEPEST:
            slope = _STEEPEST[type(a)]
        else:
            return np.zeros(0), np.zeros(0)
        slopes.append(slope)
    norms = [float(torch.linalg.matrix_norm(map_.weight.detach().double(), ord=2)) for map_ in links.maps]
    return np.array(norms), np.array(slopes)
