"""L0: a fixed cost for every weight, or unit, that is not 0, in expectation over gates (Louizos et al., 2018).

    loss + λ Σ_gates P(z > 0)        (1)   the gates of `leadline.layers.gated`

The count of weights that are not 0 has no slope; with random gates its expectation has one. A model without gates has
nothing to count, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.hard_concrete import HardConcrete
from leadline.regularize.penalty import Penalty


class L0(Penalty):
    """Args:
        strength: λ of eq. 1, at least 0.

    >>> import torch
    >>> from leadline.layers import gated
    >>> model = gated(nn.Sequential(nn.Linear(3, 2)), start=0.5)
    >>> round(L0(0.5).objective(torch.tensor(1.0), model, 1.0).item(), 2)  # 1 + 0.5 · 6 gates · 0.83
    3.5
    """

    def __init__(self, strength: float = 1e-3):
        super().__init__(strength)

    def sizes(self, model: nn.Module) -> Iterable[Tensor]:
        gates = [module for module in model.modules() if isinstance(module, HardConcrete)]
        if not gates:
            raise UserError("L0 must have gates to count", got="a model without", do="Train ll.layers.gated(model)")
        return (gate.expected() for gate in gates)  # eq. 1
