"""The vectors that tell a transformer where a token stands, as a picture of places by entries (Vaswani et al., 2017).

    P_{n,j} = entry j of what is added to a token at place n                                     (1)
    along(d) = mean over n of P_n · P_{n+d}                                                      (2)

Of sinusoids the first columns change from place to place and the last ones hardly at all, and (2) is the same for every
n: it falls with the distance, though not at every step. Learned vectors begin as noise; what structure they have, they
were taught.

Notation   P -> vectors;  places n = 0 … T-1, entries j = 0 … D-1
Shapes     vectors (T, D);  along (T,)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
from leadline.lens.position_similarity import learned_places
from leadline.lens.style import FULL, INK, SIGNED, blank, colour_bar, label, styled
from leadline.lens.view import View
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PLACES = 64  # of sinusoids, which have no last place


@dataclass(frozen=True, eq=False)
class PositionVectors(View):
    """What places are told by.

    Args:
        vectors: eq. 1, (T, D).
        along: eq. 2, of d = 0 … T - 1.
    """

    vectors: np.ndarray
    along: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.6)
        left, right = figure.subplots(1, 2)
        top = float(np.abs(self.vectors).max()) or 1.0
        mesh = left.imshow(
            self.vectors, cmap=SIGNED, vmin=-top, vmax=top, interpolation="nearest", aspect="auto", origin="lower"
        )
        left.grid(False)
        colour_bar(left, mesh, "value")
        label(left, "What is added to a token", "entry", "place")
        shown = len(self.along) - len(self.along) // 4  # few pairs are far apart
        right.plot(np.arange(shown), self.along[:shown], color=INK, lw=1.2)
        label(right, "Products of two places", "places apart", "mean product")
        return figure


def position_vectors(model: nn.Module | Tensor, length: int | None = None) -> PositionVectors:
    """The vectors of places and their products. The model is left as it was.

    Args:
        model: one with places that are added to its tokens, learned or sinusoidal; or such a layer; or vectors (T, D).
        length: first places that are shown; all that were learned by default, and 64 of sinusoids.

    >>> from leadline.layers import SinusoidalPositions
    >>> position_vectors(SinusoidalPositions(128)).along[:3].round(1).tolist()
    [64.0, 62.1, 57.4]
    """
    e = _places(model, length).detach().double().cpu().numpy()
    if len(e) < 2:
        raise UserError("there must be at least two places", got=str(len(e)), do="Take more places")
    products = e @ e.T
    return PositionVectors(e, np.array([np.diagonal(products, d).mean() for d in range(len(e))]))  # eq. 2


def _places(model: nn.Module | Tensor, length: int | None) -> Tensor:
    """Eq. 1."""
    layer = model if isinstance(model, Tensor | SinusoidalPositions) else getattr(model, "place", model)
    if isinstance(layer, SinusoidalPositions):
        return sinusoids(torch.arange(whole("length", _PLACES if length is None else length)), layer.dim)
    if isinstance(layer, Tensor | LearnedPositions):
        learned = layer if isinstance(layer, Tensor) else layer.weight
    else:
        learned = learned_places(layer)
    learned = learned.reshape(-1, learned.shape[-1])
    if length is not None and whole("length", length) > len(learned):
        raise UserError(
            "length must be no more than the places that there are",
            got=f"{given('length', length)} of {len(learned)} places",
            do="Leave it out",
        )
    return learned[:length]
