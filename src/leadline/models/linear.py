"""Linear model: one affine map, no hidden layer.

    output = Ω x + β        (1)

With a Normal likelihood this is linear regression, with Bernoulli logistic regression, with Categorical softmax
regression.

Notation   Ω -> map.weight,  β -> map.bias
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train wine --model Linear
"""

from __future__ import annotations

from torch import Tensor, nn

from leadline.config import Configured
from leadline.models.sizes import check_sizes


class Linear(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths, at least 1.

    >>> import torch
    >>> Linear(3, 2)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, dim_input: int, dim_output: int):
        super().__init__()
        check_sizes("Linear", dim_input=dim_input, dim_output=dim_output)
        self.dim_input, self.dim_output = dim_input, dim_output
        self.map = nn.Linear(dim_input, dim_output)

    @classmethod
    def tiny(cls) -> Linear:
        return cls(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x.flatten(1))  # eq. 1
