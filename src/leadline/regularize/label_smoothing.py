"""Label smoothing: what is asked for is a distribution over the classes, not the one that is written down.

    loss_i = Σ_c q_c loss(output_i, c)                                                         (1)
    q = (1 - ρ) on the true class, ρ / (C - 1) on each of the others         LabelSmoothing    (2)
    q = Π e_y, column y of a matrix whose columns add up to 1                Confusion         (3)

torch and `Categorical(label_smoothing=ε)` spread ε over all C classes, the true one too: ε = ρ C / (C - 1) is the same
smoothing. The two add up: with this regulariser, give the likelihood label_smoothing=0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.regularize.classes import loss_of_each, num_classes
from leadline.regularize.regularizer import Regularizer, Score
from leadline.regularize.strength import hold


class LabelSmoothing(Regularizer):
    """Args:
        mass: ρ of eq. 2 on the classes that are not true, 0 <= mass < 1.

    >>> from leadline.likelihoods import Categorical
    >>> batch = Batch(torch.zeros(1, 1), torch.tensor([0]))
    >>> own = LabelSmoothing(0.1).score(Categorical(5).loss, batch)
    >>> output = torch.tensor([[2.0, 0.0, 0.0, 0.0, 0.0]])
    >>> bool(torch.isclose(own(output, batch.y), Categorical(5, label_smoothing=0.125).loss(output, batch.y)))
    True
    """

    name = "label_smoothing"
    mechanism = "smoother function"
    mass: float
    _mass: Tensor

    def __init__(self, mass: float = 0.1):
        super().__init__()
        hold(self, "mass", mass, 0, 1)

    def score(self, inner: Score, batch: Batch) -> Score:
        def smoothed(output: Tensor, y: Tensor) -> Tensor:
            count = num_classes(output, y, "label_smoothing")
            own = inner(output, y)
            mass = self._mass.to(own.dtype)
            others = (loss_of_each(inner, output, y, count).sum(-1) - own) / (count - 1)
            return (1 - mass) * own + mass * others  # eq. 1, 2

        return smoothed


class Confusion(Regularizer):
    """Args:
        matrix: Π of eq. 3, C × C: column y holds what to ask for where y is written down; columns add up to 1.

    >>> from leadline.likelihoods import Categorical
    >>> batch = Batch(torch.zeros(1, 1), torch.tensor([1]))
    >>> score = Confusion([[1.0, 0.5], [0.0, 0.5]]).score(Categorical(2).loss, batch)
    >>> round(float(score(torch.tensor([[3.0, 0.0]]), batch.y)), 4)  # ½ 0.0486 + ½ 3.0486
    1.5486
    """

    mechanism = "smoother function"
    _matrix: Tensor

    def __init__(self, matrix: Sequence[Sequence[float]] | Tensor):
        super().__init__()
        made = torch.as_tensor(matrix, dtype=torch.float64)
        if (
            made.dim() != 2
            or made.shape[0] != made.shape[1]
            or not bool((made >= 0).all() and ((made.sum(0) - 1).abs() < 1e-6).all())
        ):
            raise UserError(
                "matrix must be square, without negative numbers, and each of its columns must add up to 1",
                got=f"shape {tuple(made.shape)}"
                + (f" with columns that add up to {made.sum(0).tolist()}" if made.dim() == 2 else ""),
                do="Divide each column by its sum",
            )
        self.matrix = made.tolist()
        self.register_buffer("_matrix", made, persistent=False)

    def score(self, inner: Score, batch: Batch) -> Score:
        def smoothed(output: Tensor, y: Tensor) -> Tensor:
            count = num_classes(output, y, "Confusion")
            if count != len(self.matrix):
                raise UserError(
                    "matrix must have a row for each class", got=f"{len(self.matrix)} for {count}", do="Pass as many"
                )
            each = loss_of_each(inner, output, y, count)
            return (self._matrix.to(each.dtype).T[y] * each).sum(-1)  # eq. 1, 3

        return smoothed
