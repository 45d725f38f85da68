"""Dense associative memory: a steeper energy, hence more memories (Krotov & Hopfield, 2016; Demircigil et al., 2017).

    E(s)  = -(n/k) Σ_t (ξ_tᵀ s / n)^k                          (1)   growth="power", k -> power
    E(s)  = -log Σ_t exp(ξ_tᵀ s)                               (2)   growth="exponential"
    h_i   = ½ [E(s with s_i = -1) - E(s with s_i = +1)]        (3)
    s_i  <- +1 where h_i >= 0, else -1                         (4)   one i at a time: E never rises

With k = 2, (3) is the field of a Hopfield network with Hebb's couplings.

Notation   ξ_t -> patterns[t], t below `stored`;  n -> dim_input
Paper      (2) is the logarithm of Demircigil's sum: it orders all states as theirs does, and cannot overflow.
           While training, h is that of x itself
Shapes     x (B, n), read by its sign -> h of eq. 3 where (4) came to rest, (B, n). Its sign is the answer
Train it   leadline train patterns --num 300 --model DenseMemory --num-patterns 300
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
GROWTHS = {"power": "power", "exponential": "exponential"}


class DenseMemory(nn.Module, Configured):
    """Args:
        dim_input: units n, at least 1.
        dim_output: the same again; None takes it from dim_input.
        num_patterns: room for so many memories, at least 1; random ones stand there until some are stored.
        growth: "power" (1) or "exponential" (2).
        power: k of eq. 1, at least 2.
        mode: "asynchronous", one unit after the other, or "synchronous", all at once.
        max_sweeps: most sweeps over all units before a state counts as unsettled, at least 1.
        order_seed: of the order of asynchronous updates.

    >>> memory = DenseMemory(4, num_patterns=1, power=3)
    >>> memory.store(torch.tensor([[1.0, -1.0, 1.0, -1.0]]))
    >>> memory.recall(torch.tensor([[1.0, 1.0, 1.0, -1.0]])).state.tolist()
    [[1.0, -1.0, 1.0, -1.0]]
    """

    #: the rule that it is made for, by the kind of target; y of another kind is learned by gradient descent
    own_rule: ClassVar[dict[str, str]] = {"signs": "Hebb"}
    stored: Tensor

    def __init__(
        self,
        dim_input: int,
        dim_output: int | None = None,
        num_patterns: int = 100,
        growth: str = "power",
        power: int = 3,
        mode: str = "asynchronous",
        max_sweeps: int = 100,
        order_seed: int = 0,
    ):
        super().__init__()
        dim_output = dim_input if dim_output is None else dim_output
        check_sizes("DenseMemory", dim_input=dim_input, dim_output=dim_output, num_patterns=num_patterns)
        check_sizes("DenseMemory", max_sweeps=max_sweeps)
        if dim_output != dim_input:
            raise ShapeError(
                "DenseMemory: what goes in must come out, unit by unit",
                got=f"dim_input={dim_input} and dim_output={dim_output}",
                do=f"Pass dim_output={dim_input}, or leave it out",
            )
        self.dim_input, self.dim_output, self.num_patterns = dim_input, dim_output, num_patterns
        self.growth, self.power = lookup(growth, GROWTHS, "growth"), whole("power", power, 2, usual=3)
        self.mode, self.max_sweeps = lookup(mode, MODES, "mode"), max_sweeps
        self.order_seed = whole("order_seed", order_seed, 0, 2**63 - 1, usual=0)
        self.patterns = nn.Parameter(signs(torch.randn(num_patterns, dim_input)))
        self.register_buffer("stored", torch.zeros((), dtype=torch.int64))

    @classmethod
    def tiny(cls) -> DenseMemory:
        return cls(4, num_patterns=3)

    def forward(self, x: Tensor) -> Tensor:
        s = read_signs("DenseMemory", x.flatten(1))
        if self.training:
            return self.field(s)
        with torch.no_grad():
            found = self._settle(s)
        return self.field(found.state) if torch.is_grad_enabled() else found.field

    @torch.no_grad()
    def store(self, patterns: Tensor) -> None:
        """Put patterns (P, n) of -1 and +1 into the room that is left."""
        patterns = check_signs("DenseMemory", patterns, self.dim_input)
        begin, end = int(self.stored), int(self.stored) + len(patterns)
        if end > self.num_patterns:
            raise UserError(
                "DenseMemory: there must be room for what is stored",
                got=f"{end} patterns for num_patterns={self.num_patterns}",
                do=f"Build it with num_patterns={end}",
            )
        self.patterns[begin:end] = patterns.to(self.patterns)
        self.stored.fill_(end)

    @property
    def memories(self) -> Tensor:
        """What is stored, (P, n); before the first, the random ones."""
        return self.patterns[: int(self.stored)] if int(self.stored) else self.patterns

    def energy(self, state: Tensor) -> Tensor:
        """Eq. 1 or 2 for states (B, n), shape (B,)."""
        z = state @ self.memories.T
        if self.growth == "exponential":
            return -z.logsumexp(-1)
        n, k = self.dim_input, self.power
        return -n / k * (z / n).pow(k).sum(-1)

    def field(self, state: Tensor) -> Tensor:
        """Eq. 3 for states (B, n): every overlap moves by 2 at most, so three values of it serve all units."""
        xi = self.memories
        z = state @ xi.T  # (B, P)
        if self.growth == "power":
            n, k = self.dim_input, self.power
            here, up, down = ((z + shift).div(n).pow(k) for shift in (0, 2, -2))
            stay = (here - (up + down) / 2).sum(-1, keepdim=True)
            return n / (2 * k) * (state * stay + (up - down) / 2 @ xi)
        # exp(z ∓ 2) = exp(z) (cosh 2 ∓ sinh 2): shares of the largest term, so that none overflows
        share = z.softmax(-1)
        flipped = COSH * share.sum(-1, keepdim=True) - SINH * state * (share @ xi)
        return -state * flipped.clamp(min=torch.finfo(z.dtype).tiny).log() / 2

    @torch.no_grad()
    def recall(self, state: Tensor, mode: str | None = None, trace: bool = False) -> Recall:
        """Let states (B, n) of -1 and +1 come to rest by eq. 4; the arguments are those of `Hopfield.recall`."""
        state = check_signs("DenseMemory", state, self.dim_input).to(self.patterns)
        return self._settle(state, lookup(mode or self.mode, MODES, "mode"), trace)

    def _settle(self, s: Tensor, mode: str | None = None, trace: bool = False) -> Recall:
        sweep = self._one_by_one if (mode or self.mode) == "asynchronous" else self._together
        return settle(s, sweep, self.energy, self.max_sweeps, trace)

    def _together(self, s: Tensor, sweep: int) -> tuple[Tensor, Tensor]:
        h = self.field(s)
        return signs(h), h

    def _one_by_one(self, s: Tensor, sweep: int) -> tuple[Tensor, Tensor]:
        xi, n, k = self.memories, self.dim_input, self.power
        state, z = s.T.clone(memory_format=torch.contiguous_format), s @ xi.T
        h = torch.empty_like(state)
        order = torch.randperm(n, generator=torch.Generator().manual_seed(self.order_seed)).tolist()
        for i in order:
            rest = z - state[i, :, None] * xi[:, i]  # (B, P), without unit i
            up, down = rest + xi[:, i], rest - xi[:, i]
            if self.growth == "power":
                h[i] = n / (2 * k) * (up.div(n).pow(k) - down.div(n).pow(k)).sum(-1)
            else:
                h[i] = (up.logsumexp(-1) - down.logsumexp(-1)) / 2
            moved = signs(h[i]) - state[i]
            state[i] += moved
            z += moved[:, None] * xi[:, i]
        return state.T.contiguous(), h.T.contiguous()


COSH, SINH = 3.7621956910836314, 3.626860407847019  # of 2
