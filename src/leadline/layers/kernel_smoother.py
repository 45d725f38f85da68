"""The Nadaraya-Watson estimator: attention without anything to train (Nadaraya, 1964; Watson, 1964).

    f(q) = Σ_j α(q, k_j) v_j / Σ_j α(q, k_j)                                                 (1)

    gaussian      exp(-r²/2)           triangular      max(0, 1 - r)
    boxcar        1 where r <= 1       epanechnikov    max(0, 1 - r²)         r = ‖(q - k) / width‖

Keys are the inputs of known examples and values their answers: numbers for regression, one-hot classes for
classification. A query that no kernel reaches gets 0. With the gaussian kernel (1) is softmax attention of the scores
q · k / width² - ‖k‖² / (2 width²): dot-product attention, where all keys are equally long.

Shapes     q (…, T, K);  k (…, S, K);  v (…, S, K');  out (…, T, K')
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leadline.names import lookup
from leadline.settings import real

KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "gaussian": lambda r2: (-r2 / 2).exp(),
    "boxcar": lambda r2: (r2 <= 1).to(r2.dtype),
    "triangular": lambda r2: (1 - r2.clamp(min=1e-30).sqrt()).clamp(min=0),  # a root has no derivative at 0
    "epanechnikov": lambda r2: (1 - r2).clamp(min=0),
}


class KernelSmoother(nn.Module):
    """Args:
        kernel: gaussian, boxcar, triangular or epanechnikov.
        width: of the kernel, above 0; a number, or one for each coordinate of a key.

    >>> k, v = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [10.0]])
    >>> KernelSmoother("boxcar", 0.6)(torch.tensor([[0.1], [0.5]]), k, v).tolist()
    [[0.0], [5.0]]
    """

    width: Tensor

    def __init__(self, kernel: str = "gaussian", width: float | tuple[float, ...] = 1.0):
        super().__init__()
        self.kernel = lookup(kernel, KERNELS, "kernel")
        widths = width if isinstance(width, tuple) else (width,)
        self.register_buffer("width", torch.tensor([float(real("width", one, 0, above=True)) for one in widths]))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.weights(q, k) @ v  # eq. 1

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """α of each pair, divided by its sum over the keys, (…, T, S)."""
        apart = (q[..., :, None, :] - k[..., None, :, :]) / self.width  # (…, T, S, K)
        r2 = apart.square().sum(-1)
        if self.kernel is KERNELS["gaussian"]:
            return (-r2 / 2).softmax(-1)  # the same, also where every key is so far that exp(-r²/2) rounds to 0
        alpha = self.kernel(r2)
        total = alpha.sum(-1, keepdim=True)
        return alpha / torch.where(total > 0, total, 1.0)
