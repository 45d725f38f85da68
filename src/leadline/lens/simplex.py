"""Predicted probabilities of three classes as points of a triangle.

    (p_1, p_2, p_3),  p_k >= 0,  Σ_k p_k = 1          a triangle: each corner is one class for sure          (1)
    place = Σ_k p_k corner_k                                                                                 (2)

The lines from the middle of the triangle to the middles of its sides part it into the answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from leadline.engine.evaluation import outputs
from leadline.errors import UserError
from leadline.lens.answers import answer_of
from leadline.lens.at_rest import at_rest
from leadline.lens.rows import Fitted, asked
from leadline.lens.style import HUES, INK, LINE, SOFT, blank, percent, some, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)]])


@dataclass(frozen=True, eq=False)
class Simplex(View):
    """Rows in the triangle of their class probabilities.

    Args:
        classes: the three.  target: the name of y.
        probabilities: of each row, (n, 3).  points: eq. 2, (n, 2).
        y: the true classes.  wrong: whether the likeliest class is another.
    """

    classes: tuple[str, ...]
    target: str
    probabilities: np.ndarray
    points: np.ndarray
    y: np.ndarray
    wrong: np.ndarray

    @styled
    def plot(self) -> Figure:
        figure = blank(5.6, 5.4)
        ax = figure.subplots()
        for share in (0.25, 0.5, 0.75):
            for k in range(3):
                a, b = (share * CORNERS[k] + (1 - share) * CORNERS[(k + turn) % 3] for turn in (1, 2))
                ax.plot(*np.stack([a, b]).T, color=LINE, lw=0.7, zorder=0)
            ax.text(*((1 - share) * CORNERS[0] + share * CORNERS[1] - [0, 0.03]), f"{share:g}", fontsize=7,
                    color=SOFT, ha="center", va="top")  # fmt: skip
        ax.plot(*CORNERS[[0, 1, 2, 0]].T, color=SOFT, lw=1)
        middle = CORNERS.mean(0)
        for k in range(3):
            side = (CORNERS[k] + CORNERS[(k + 1) % 3]) / 2
            ax.plot(*np.stack([middle, side]).T, color=INK, lw=1.1, label="boundary of the answers" if k == 0 else None)
        shown = some(np.arange(len(self.y)))
        x, y, wrong = self.points[shown], self.y[shown], self.wrong[shown]
        for c in range(3):
            own = y == c
            ax.plot(*x[own].T, "o", ms=4, color=HUES[c], mec="white", mew=0.5, alpha=0.85, label=self.classes[c])
        if wrong.any():
            ax.plot(*x[wrong].T, "o", ms=7.5, mfc="none", mec=INK, mew=0.8, label="wrong answer")
        for c, (word, lift) in enumerate(zip(self.classes, (-0.075, -0.075, 0.025), strict=True)):
            ax.text(*(CORNERS[c] + [0, lift]), f"{word} for sure", ha="center", va="bottom" if lift > 0 else "top",
                    color=HUES[c], weight="bold")  # fmt: skip
        ax.set(xlim=(-0.13, 1.13), ylim=(-0.15, 1.0), aspect="equal", xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        ax.grid(False)
        title = f"Predicted probabilities of {self.target}: {percent(1 - float(self.wrong.mean()))} right"
        ax.set_title(title, pad=36)
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, labelcolor=SOFT)
        return figure


def simplex(
    model: nn.Module | Fitted, data: Any = None, *, likelihood: Likelihood | str | None = None, split: str = "train"
) -> Simplex:
    """Rows of three classes by their predicted probabilities.

    Args:
        model: a run, or a module with data.
        data: Data, or with a likelihood a Split or a pair (x, y); of a run, None is its own.

    >>> import leadline as ll
    >>> view = simplex(ll.models.build("Linear", 4, 3), ll.data.iris())
    >>> view.points.shape == (len(view.y), 2), bool(np.allclose(view.probabilities.sum(1), 1))
    (True, True)
    """
    module, rows, family = asked(model, data, split, likelihood)
    with at_rest(module):
        out = outputs(module, rows.encoded(module))
        family.check_output(out, rows.y)
        answer = answer_of(family.prediction(out))
        if answer.kind != "classes" or rows.y.dim() != 1 or answer.probabilities.shape[1] != 3:
            count = f"{answer.probabilities.shape[1]} classes" if answer.kind == "classes" else answer.kind
            raise UserError(
                "a simplex needs probabilities of three classes",
                got=f"{count} of {type(family).__name__}",
                do="Look at ll.lens.boundary or ll.lens.curve instead",
            )
        p = answer.probabilities
    y = rows.y.long().cpu().numpy()
    target = rows.target
    classes = target.classes if target is not None and target.classes else tuple(f"class {c}" for c in range(3))
    return Simplex(classes, target.name if target else "y", p, p @ CORNERS, y, p.argmax(1) != y)
