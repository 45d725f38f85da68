"""Distillation: a student learns what a teacher answers, not only what is written down (Hinton et al., 2015).

    soft  = -Σ_c p_c log q_c,   p = softmax(F / T),  q = softmax(G / T)                (1)   F teacher, G student
    ∂soft / ∂G = (q - p) / T                                                           (2)
    loss <- (1 - part) · loss + part · T² · soft                                       (3)   T² undoes the 1/T² of (2)

A temperature T above 1 softens a teacher that is too sure: which wrong classes are less wrong is what it has to tell.
"""

from __future__ import annotations

import copy
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.regularize.regularizer import Regularizer, Score
from leadline.regularize.strength import hold


class Distillation(Regularizer):
    """Args:
        teacher: a model or a run of one; copied and held still. It reads what the student reads.
        temperature: T, at least 1e-3.
        part: of the loss that comes from the teacher, 0 <= part <= 1.

    >>> import leadline as ll
    >>> data = ll.data.blobs(num=90)
    >>> teacher = ll.fit(ll.models.MLP(2, (16,), 3), data, epochs=2, progress=False)
    >>> run = ll.fit(ll.models.Linear(2, 3), data, epochs=1, regularize=Distillation(teacher, 2.0), progress=False)
    >>> run.settings.regularize
    ('given',)
    """

    mechanism = "combined models"
    temperature: float
    part: float
    _temperature: Tensor
    _part: Tensor

    def __init__(self, teacher: Any, temperature: float = 2.0, part: float = 0.5):
        super().__init__()
        model = teacher if isinstance(teacher, nn.Module) else getattr(teacher, "model", None)
        if not isinstance(model, nn.Module):
            raise UserError("teacher must be a model or a run", got=type(teacher).__name__, do="Pass run or run.model")
        self.teacher = copy.deepcopy(model).requires_grad_(False).eval()
        hold(self, "temperature", temperature, 1e-3)
        hold(self, "part", part, 0, most=1)

    def train(self, mode: bool = True) -> Distillation:
        super().train(mode)
        self.teacher.eval()  # whatever happens around it
        return self

    def score(self, inner: Score, batch: Batch) -> Score:
        taught = self.teacher(batch.x).detach()

        def softened(output: Tensor, y: Tensor) -> Tensor:
            own = inner(output, y)
            part, T = self._part.to(own.dtype), self._temperature.to(own.dtype)  # noqa: N806
            return (1 - part) * own + part * T.square() * soft_loss(output, taught, T)  # eq. 3

        return softened


def soft_loss(student: Tensor, teacher: Tensor, temperature: float | Tensor) -> Tensor:
    """Eq. 1 of each row; one output a row is the logit of yes.

    >>> import torch
    >>> round(float(soft_loss(torch.zeros(1, 4), torch.zeros(1, 4), 3.0)), 4)  # log 4
    1.3863
    """
    if student.shape[-1] == 1:
        p, z = (teacher / temperature).sigmoid(), student / temperature
        return (F.softplus(z) - p * z).squeeze(-1)
    p = (teacher / temperature).softmax(-1)
    return -(p * (student / temperature).log_softmax(-1)).sum(-1)
