"""Boolean functions of n inputs, learned row by row of their truth table, and circuits that give the same answers.

    output = v_r,   r = Σ_i 2^{n-i} [x_i > 0]               (1)   a vote for each of the 2^n rows of bits
    circuit: the OR of ANDs that is 1 where v_r > 0         (2)   threshold units, `leadline.models.circuit`

Notation   v -> votes: above 0 for yes; the sizes are log-odds where y is Bernoulli. [x > 0] reads 0 and 1, -1 and +1,
           and standardized bits alike
Shapes     x (B, dim_input) -> (B, dim_output)
Train it   leadline train xor --model Boolean, by the rule Votes
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError, UserError
from leadline.models.circuit import MOST_INPUTS, Circuit, circuit_of
from leadline.models.sizes import check_sizes


class Boolean(nn.Module, Configured):
    """Args:
        dim_input: n, from 1 to 12.
        dim_output: number of functions.

    >>> net = Boolean(2)
    >>> _ = net.votes.data.copy_(torch.tensor([[-1.0], [1.0], [1.0], [-1.0]]))
    >>> print(net.circuit())  # exclusive or
    h1 = [x2 - x1 >= 1]
    h2 = [x1 - x2 >= 1]
    y1 = [h1 + h2 >= 1]
    """

    #: the rule that it is made for, by the kind of target; y of another kind is learned by gradient descent
    own_rule: ClassVar[dict[str, str]] = {"binary": "Votes"}

    def __init__(self, dim_input: int, dim_output: int = 1):
        super().__init__()
        check_sizes("Boolean", dim_input=dim_input, dim_output=dim_output)
        if dim_input > MOST_INPUTS:
            raise UserError(
                f"Boolean: a truth table has at most {MOST_INPUTS} inputs",
                got=f"dim_input={dim_input}",
                do="Leave columns out, or use MLP",
            )
        self.dim_input, self.dim_output = dim_input, dim_output
        self.votes = nn.Parameter(torch.zeros(2**dim_input, dim_output))

    @classmethod
    def tiny(cls) -> Boolean:
        return cls(2)

    def row(self, x: Tensor) -> Tensor:
        """r of eq. 1, (B,)."""
        bits = x.flatten(1) > 0
        if bits.shape[1] != self.dim_input:
            raise ShapeError(
                f"Boolean: rows must hold {self.dim_input} bits",
                got=f"shape {tuple(x.shape)}",
                do=f"Pass shape (B, {self.dim_input})",
            )
        return bits.long() @ (2 ** torch.arange(self.dim_input - 1, -1, -1, device=x.device))

    def forward(self, x: Tensor) -> Tensor:
        return self.votes[self.row(x)]  # eq. 1

    def circuit(self, output: int = 0) -> Circuit:
        """Eq. 2 of one function; rows without a vote are 0."""
        return circuit_of((self.votes[:, output].detach() > 0).long().cpu())
