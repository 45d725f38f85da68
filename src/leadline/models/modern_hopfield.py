"""Modern Hopfield network: continuous states, and one update is attention (Ramsauer et al., 2020).

    p       = softmax_t(β k_tᵀ s)                                               (1)
    s      <- Σ_t p_t k_t                                                       (2)
    output  = Σ_t p_t v_t        at the last update                             (3)
    E(s)    = -(1/β) log Σ_t exp(β k_tᵀ s) + ½ sᵀs                              (4)   never rises under (2)

Notation   k_t, v_t -> keys[t], values[t], t below `stored`;  β -> beta, 1 / √n unless it is given;  n -> dim_input
Paper      there memories answer with themselves, v_t = k_t; as there, E is up to a constant
Shapes     x (B, n) -> (B, dim_output)
Train it   leadline train patterns --model ModernHopfield stores; leadline train wine --model ModernHopfield descends
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.data.account import counted
from leadline.errors import ShapeError, UserError
from leadline.models.sizes import check_sizes
from leadline.settings import real


class ModernHopfield(nn.Module, Configured):
    """Args:
        dim_input, dim_output: widths of a key and of a value, at least 1.
        num_patterns: room for so many memories, at least 1; random ones stand there until some are stored.
        beta: how sharply (1) chooses, above 0; None is 1 / √dim_input, that of attention.
        num_updates: how often (1) is computed, at least 1.

    >>> net = ModernHopfield(2, 2, num_patterns=2, beta=8.0)
    >>> net.store(torch.eye(2))
    >>> net(torch.tensor([[0.9, 0.2]])).round(decimals=2).tolist()
    [[1.0, 0.0]]
    """

    #: the rule that it is made for, by the kind of target; y of another kind is learned by gradient descent
    own_rule: ClassVar[dict[str, str]] = {"signs": "Hebb"}
    stored: Tensor

    def __init__(
        self, dim_input: int, dim_output: int, num_patterns: int = 64, beta: float | None = None, num_updates: int = 1
    ):
        super().__init__()
        check_sizes("ModernHopfield", dim_input=dim_input, dim_output=dim_output, num_patterns=num_patterns)
        check_sizes("ModernHopfield", num_updates=num_updates)
        self.dim_input, self.dim_output, self.num_patterns = dim_input, dim_output, num_patterns
        self.beta = dim_input**-0.5 if beta is None else real("beta", beta, 0, above=True, usual=1.0)
        self.num_updates = num_updates
        self.keys = nn.Parameter(torch.randn(num_patterns, dim_input))
        self.values = nn.Parameter(torch.randn(num_patterns, dim_output))
        self.register_buffer("stored", torch.zeros((), dtype=torch.int64))

    @classmethod
    def tiny(cls) -> ModernHopfield:
        return cls(4, 3, num_patterns=5, num_updates=2)

    def forward(self, x: Tensor) -> Tensor:
        s = x.flatten(1)
        for _ in range(self.num_updates - 1):
            s = self.update(s)
        return self.attention(s) @ self._used(self.values)  # eq. 3

    def attention(self, state: Tensor) -> Tensor:
        """Eq. 1 for states (B, n), shape (B, memories)."""
        return (self.beta * state @ self._used(self.keys).T).softmax(-1)

    def update(self, state: Tensor) -> Tensor:
        """Eq. 2 for states (B, n)."""
        return self.attention(state) @ self._used(self.keys)

    def energy(self, state: Tensor) -> Tensor:
        """Eq. 4 for states (B, n), shape (B,)."""
        scores = self.beta * state @ self._used(self.keys).T
        return -scores.logsumexp(-1) / self.beta + state.square().sum(-1) / 2

    @torch.no_grad()
    def store(self, keys: Tensor, values: Tensor | None = None) -> None:
        """Put keys (P, n) and their values (P, dim_output) into the room that is left; keys answer with themselves."""
        values = keys if values is None else values
        for name, rows, width in (("keys", keys, self.dim_input), ("values", values, self.dim_output)):
            if rows.dim() != 2 or rows.shape != (len(keys), width):
                raise ShapeError(
                    f"ModernHopfield: {name} must be rows of {counted(width, 'number')}",
                    got=f"shape {tuple(rows.shape)}",
                    do=f"Pass shape ({len(keys)}, {width})",
                )
        begin, end = int(self.stored), int(self.stored) + len(keys)
        if end > self.num_patterns:
            raise UserError(
                "ModernHopfield: there must be room for what is stored",
                got=f"{end} patterns for num_patterns={self.num_patterns}",
                do=f"Build it with num_patterns={end}",
            )
        self.keys[begin:end], self.values[begin:end] = keys.to(self.keys), values.to(self.values)
        self.stored.fill_(end)

    def _used(self, rows: Tensor) -> Tensor:
        return rows[: int(self.stored)] if int(self.stored) else rows
