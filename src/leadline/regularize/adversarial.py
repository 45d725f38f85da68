"""Adversarial training: rows are moved a little, each the way that hurts most (Goodfellow et al., 2015).

    x~ = x + ε sign ∇_x loss(x)                              (1)   the fast gradient sign
    loss <- (1 - part) · loss(x) + part · loss(x~)           (2)

Each step costs a second and a third pass. ε is in the unit of what the network reads: 1 is a deviation where inputs are
standardized.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.func import grad

from leadline.regularize.again import Again, mean_loss
from leadline.regularize.regularizer import Score
from leadline.regularize.strength import hold


class Adversarial(Again):
    """Args:
        size: ε of eq. 1, at least 0.
        part: of eq. 2, 0 <= part <= 1.

    >>> import leadline as ll
    >>> run = ll.fit(ll.models.MLP(2, (8,), 1), ll.data.moons(num=90), epochs=1, regularize="adversarial(0.1)",
    ...              progress=False)
    >>> run.settings.regularize
    ('adversarial(0.1, 0.5)',)
    """

    name = "adversarial"
    mechanism = "more effective data"
    moves_rows = True
    size: float
    part: float
    _size: Tensor
    _part: Tensor

    def __init__(self, size: float = 0.1, part: float = 0.5):
        super().__init__()
        hold(self, "size", size)
        hold(self, "part", part, 0, most=1)

    def objective(self, loss: Tensor, model: nn.Module, share: Tensor | float) -> Tensor:
        score, batch = self.seen()
        at = lambda x: mean_loss(score, batch, model, x, {})  # noqa: E731
        moved = batch.x + self._size.to(batch.x.dtype) * grad(at)(batch.x.detach()).detach().sign()  # eq. 1
        part = self._part.to(loss.dtype)
        return (1 - part) * loss + part * share * at(moved)  # eq. 2


def worst_case(model: nn.Module, score: Score, x: Tensor, y: Tensor, size: float) -> Tensor:
    """Inputs moved by eq. 1: rows on which to look at a trained model.

    Args:
        score: of (output, y) to the loss of each row, such as `likelihood.loss`.
        x: as the network reads it.

    >>> import torch
    >>> from leadline.likelihoods import Normal
    >>> model = nn.Linear(2, 1)
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> (worst_case(model, Normal("fixed").loss, torch.zeros(1, 2), torch.tensor([-9.0]), 0.1)).tolist()
    [[0.10000000149011612, -0.10000000149011612]]
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        return x + size * grad(lambda at: score(model(at), y).mean())(x).sign()
    finally:
        for module, mode in modes:
            module.training = mode
