"""GELU as GPT-2 computes it (Hendrycks and Gimpel, 2016).

½ z (1 + tanh(√(2/π) (z + 0.044715 z³)))        (1)   within 5e-4 of z·Φ(z)
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class TanhGELU(nn.Module):
    """Shapes     (...) -> (...)

    >>> import torch
    >>> TanhGELU()(torch.tensor([0.0, 1.0])).tolist()
    [0.0, 0.8411920070648193]
    """

    def forward(self, z: Tensor) -> Tensor:
        return F.gelu(z, approximate="tanh")
