"""Perceptron: a threshold on an affine map (Rosenblatt, 1958).

    output = wᵀ x + b                                          (1)
    answer = sgn(output),  sgn(0) = 0                          (2)   0 is no answer, hence a mistake
    γ(x,y) = y (wᵀ x + b) / |w|                                (3)   distance to the plane, positive on the right side

Notation   w -> weight, one row a unit;  b -> bias;  y -> -1 or +1
Paper      first weights are 0. Likelihoods read (1); `decide` is (2). `optim.PerceptronRule` is Rosenblatt's rule
Shapes     x (B, dim_input) -> (B, dim_output); further axes of x are flattened
Train it   leadline train separable --model Perceptron
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.config import Configured
from leadline.models.sizes import check_sizes


class Perceptron(nn.Module, Configured):
    """Args:
        dim_input: numbers a row, at least 1.
        dim_output: threshold units side by side, at least 1; Rosenblatt's rule moves a single one.
        bias: whether the plane may lie off the origin.

    >>> Perceptron(2).decide(torch.ones(1, 2)).tolist()  # nothing learned, no answer
    [[0.0]]
    """

    #: the rule and the likelihood that it is made for, by the kind of target; others are learned by gradient descent
    own_rule: ClassVar[dict[str, str]] = {"binary": "PerceptronRule"}
    own_likelihood: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "binary": ("Margin", {"surrogate": "perceptron"})
    }

    def __init__(self, dim_input: int, dim_output: int = 1, bias: bool = True):
        super().__init__()
        check_sizes("Perceptron", dim_input=dim_input, dim_output=dim_output)
        self.dim_input, self.dim_output = dim_input, dim_output
        self.weight = nn.Parameter(torch.zeros(dim_output, dim_input))
        self.bias = nn.Parameter(torch.zeros(dim_output)) if bias else None

    @property
    def config(self) -> dict[str, object]:
        return {"dim_input": self.dim_input, "dim_output": self.dim_output, "bias": self.bias is not None}

    @classmethod
    def tiny(cls) -> Perceptron:
        return cls(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.flatten(1), self.weight, self.bias)  # eq. 1

    def decide(self, x: Tensor) -> Tensor:
        """Eq. 2 of each row: -1, 0 or +1."""
        return torch.sign(self(x))

    def margins(self, x: Tensor, y: Tensor) -> Tensor:
        """Eq. 3 of each row and unit, y (B,) or (B, dim_output) of -1 and +1."""
        score = self(x)
        return y.to(score).view(len(score), -1) * score / self.weight.norm(dim=1)
