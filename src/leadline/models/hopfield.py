"""Hopfield network: memories as minima of an energy (Hopfield, 1982).

    E(s)  = -½ sᵀ W s + bᵀ s                                   (1)
    h     = W s - b                                            (2)   the field on each unit
    s_i  <- +1 where h_i >= 0, else -1                         (3)   one i at a time: E never rises
    W     = (1/n) Σ_t ξ_t ξ_tᵀ,  W_ii = 0                      (4)   Hebb

Notation   W -> weight / n, kept as n W so that Hebb's counts are whole and a tie is a tie;  b -> bias;  ξ_t -> a
           pattern;  n -> dim_input
Paper      states are -1 and +1 here, 0 and 1 there; a tie goes to +1. All units at once (synchronous) may fall into
           a cycle of two states; one at a time never does. While training, h is that of x itself: descending the
           loss of Signs on x = y is then pseudo-likelihood, the other way to fill the memory
Shapes     x (B, n), read by its sign -> h of eq. 2 where (3) came to rest, (B, n). Its sign is the answer
Train it   leadline train patterns --model Hopfield
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from leadline.config import Configured
from leadline.errors import ShapeError, UserError
from leadline.layers.settling import Recall, settle
from leadline.layers.signs import check_signs, read_signs, signs
from leadline.models.sizes import check_sizes
from leadline.names import lookup
from leadline.settings import whole

MODES = {"asynchronous": "asynchronous", "synchronous": "synchronous"}
_BLOCK = 64  # units whose fields are computed by one matrix product; what they do to each other is added singly


class Hopfield(nn.Module, Configured):
    """Args:
        dim_input: units n, at least 1.
        dim_output: the same again; None takes it from dim_input.
        mode: "asynchronous", one unit after the other, or "synchronous", all at once.
        max_sweeps: most sweeps over all units before a state counts as unsettled, at least 1.
        order_seed: of the order of asynchronous updates.

    >>> net = Hopfield(4)
    >>> net.store(torch.tensor([[1.0, -1.0, 1.0, -1.0]]))
    >>> net.recall(torch.tensor([[1.0, 1.0, 1.0, -1.0]])).state.tolist()
    [[1.0, -1.0, 1.0, -1.0]]
    """

    #: the rule that it is made for, by the kind of target; y of another kind is learned by gradient descent
    own_rule: ClassVar[dict[str, str]] = {"signs": "Hebb"}

    def __init__(
        self,
        dim_input: int,
        dim_output: int | None = None,
        mode: str = "asynchronous",
        max_sweeps: int = 100,
        order_seed: int = 0,
    ):
        super().__init__()
        dim_output = dim_input if dim_output is None else dim_output
        check_sizes("Hopfield", dim_input=dim_input, dim_output=dim_output, max_sweeps=max_sweeps)
        if dim_output != dim_input:
            raise ShapeError(
                "Hopfield: what goes in must come out, unit by unit",
                got=f"dim_input={dim_input} and dim_output={dim_output}",
                do=f"Pass dim_output={dim_input}, or leave it out",
            )
        self.dim_input, self.dim_output, self.mode = dim_input, dim_output, lookup(mode, MODES, "mode")
        self.max_sweeps, self.order_seed = max_sweeps, whole("order_seed", order_seed, 0, 2**63 - 1, usual=0)
        self.weight = nn.Parameter(torch.zeros(dim_input, dim_input))
        self.bias = nn.Parameter(torch.zeros(dim_input))

    @classmethod
    def tiny(cls) -> Hopfield:
        return cls(4)

    @classmethod
    def of(cls, W: Tensor, b: Tensor | None = None, **options: object) -> Hopfield:
        """The network of given couplings: square, symmetric, with a diagonal of zeros."""
        W = torch.as_tensor(W, dtype=torch.get_default_dtype())
        if W.dim() != 2 or W.shape[0] != W.shape[1]:
            raise ShapeError(
                "Hopfield: couplings must be a square matrix, one row and one column a unit",
                got=f"shape {tuple(W.shape)}",
                do="Pass (n, n) numbers",
            )
        for holds, what, do in (
            (torch.allclose(W, W.T), "couplings must be symmetric, or no energy falls", "Pass (W + W.T) / 2"),
            (not bool(W.diagonal().any()), "no unit may be coupled to itself", "Call W.fill_diagonal_(0)"),
        ):
            if not holds:
                off = W - W.T if "symmetric" in what else W.diagonal()
                raise UserError(f"Hopfield: {what}", got=f"entries off by up to {float(off.abs().max()):.3g}", do=do)
        net = cls(len(W), **options)  # type: ignore[arg-type]
        if b is not None and torch.as_tensor(b).shape != (len(W),):
            raise ShapeError(
                "Hopfield: b must hold one number a unit",
                got=f"shape {tuple(torch.as_tensor(b).shape)}",
                do="Correct it",
            )
        with torch.no_grad():
            net.weight.copy_(W * len(W))
            if b is not None:
                net.bias.copy_(torch.as_tensor(b))
        return net

    @property
    def coupling(self) -> Tensor:
        """W of eq. 1, (n, n)."""
        return self._symmetric() / self.dim_input

    def forward(self, x: Tensor) -> Tensor:
        s = read_signs("Hopfield", x.flatten(1))
        if self.training:
            return self.field(s)
        with torch.no_grad():
            found = self._settle(s)
        return self.field(found.state) if torch.is_grad_enabled() else found.field

    @torch.no_grad()
    def store(self, patterns: Tensor) -> None:
        """Add patterns (P, n) of -1 and +1 to the couplings, by eq. 4."""
        patterns = check_signs("Hopfield", patterns, self.dim_input).to(self.weight)
        self.weight.addmm_(patterns.T, patterns)
        self.weight.fill_diagonal_(0)

    def field(self, state: Tensor) -> Tensor:
        """Eq. 2 for states (B, n)."""
        return state @ self._symmetric() / self.dim_input - self.bias

    def energy(self, state: Tensor) -> Tensor:
        """Eq. 1 for states (B, n), shape (B,)."""
        return -((state @ self._symmetric()) * state).sum(-1) / (2 * self.dim_input) + state @ self.bias

    @torch.no_grad()
    def recall(self, state: Tensor, mode: str | None = None, trace: bool = False) -> Recall:
        """Let states (B, n) of -1 and +1 come to rest by eq. 3.

        Args:
            state: where to begin.
            mode: in place of the network's own.
            trace: also keep the energy before the first and after every sweep.
        """
        state = check_signs("Hopfield", state, self.dim_input).to(self.weight)
        return self._settle(state, lookup(mode or self.mode, MODES, "mode"), trace)

    def _settle(self, s: Tensor, mode: str | None = None, trace: bool = False) -> Recall:
        sweep = self._one_by_one if (mode or self.mode) == "asynchronous" else self._together
        return settle(s, sweep, self.energy, self.max_sweeps, trace)

    def _symmetric(self) -> Tensor:
        """n W. Its gradient is symmetric with an empty diagonal, so W stays so whatever optimizer moves it."""
        if not torch.is_grad_enabled():
            return self.weight
        both = self.weight + self.weight.T
        return (both - both.diagonal().diag_embed()) / 2

    def _together(self, s: Tensor, sweep: int) -> tuple[Tensor, Tensor]:
        h = torch.addmm(self.bias, s, self.weight, beta=-self.dim_input)
        return signs(h), h.div_(self.dim_input)

    def _one_by_one(self, s: Tensor, sweep: int) -> tuple[Tensor, Tensor]:
        """Exact eq. 3, a block of units at a time: the block's fields by one product, then what its flips change."""
        generator = torch.Generator().manual_seed(self.order_seed)
        order = torch.randperm(self.dim_input, generator=generator).to(s.device)
        state = s.T.clone(memory_format=torch.contiguous_format)  # (n, B)
        h = torch.empty_like(state)
        for units in order.split(_BLOCK):
            rows = self.weight.index_select(0, units)  # W is symmetric: rows are columns
            own = state.index_select(0, units)
            f = torch.addmm(self.bias[units, None], rows, state, beta=-self.dim_input)  # n h: whole numbers, if W's are
            wrong = (signs(f) != own).any(1).nonzero()
            if len(wrong):
                among = rows.index_select(1, units)
                for k in range(int(wrong[0]), len(units)):
                    moved = signs(f[k]) - own[k]
                    own[k] += moved
                    f[k + 1 :].addr_(among[k + 1 :, k], moved)
                state.index_copy_(0, units, own)
            h.index_copy_(0, units, f)
        return state.T.contiguous(), h.T.div(self.dim_input)
