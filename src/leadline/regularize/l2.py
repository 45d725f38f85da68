"""L2: the sum of squared weights, as a term of the loss (Tikhonov; ridge regression where the model is linear).

    loss + λ Σ_j φ_j²,   gradient 2λ φ        (1)   weights only, not biases

Not weight decay, which shrinks weights beside the gradient step and not through it: φ <- (1 - lr · d) φ - step. For
plain gradient descent the two agree at d = 2λ; for Adam, whose steps are scaled, they do not, and the decay of
`weight_decay` is the one that AdamW was named for. The most probable weights under a normal prior of deviation s are
those of λ = 1 / (2 s² I) for a mean loss over I rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from leadline.regularize.penalty import Penalty
from leadline.regularize.strength import weights_of


class L2(Penalty):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> import torch
    >>> model = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(model.weight, 3.0)
    >>> L2(0.5).objective(torch.tensor(1.0), model, 1.0).item()  # 1 + 0.5 · (9 + 9)
    10.0
    """

    name = "l2"

    def sizes(self, model: nn.Module) -> Iterable[Tensor]:
        return (w.square().sum() for w in weights_of(model))  # eq. 1
