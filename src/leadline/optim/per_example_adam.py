"""Adam whose second moment adds up the squares of every example's own gradient, as it is sometimes printed.

    m <- β m + (1 - β) Σ_i w_i g_i,      m̃ = m / (1 - βᵗ)                                    (1)
    v <- γ v + (1 - γ) Σ_i (w_i g_i)²,   ṽ = v / (1 - γᵗ)                                    (2)
    φ <- φ - η m̃ / √(ṽ + ε)                                                                  (3)

Adam as everyone runs it squares the batch's gradient instead: (Σ g_i)². Where the examples of a batch agree, that is
larger by the size of the batch B, and eq. 3 moves √B times as far as Adam; where they cancel, Σ g_i² stays and eq. 3
moves less. So this one is slower the noisier a weight's gradient is. Gradients of single examples come by `vmap`.

Notation   g_i -> gradient of example i's loss;  η -> step_size;  β, γ -> beta, gamma;  ε -> eps, inside the root
Use it     ll.fit(model, data, rule=ll.optim.PerExampleAdam(step_size=1e-3))
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from leadline.data.data import Batch
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.descent import Descent, without_batch_norm
from leadline.settings import real

_CHUNK = 2**24  # numbers of single gradients at a time


class PerExampleAdam(Descent):
    """Args:
        step_size: η, above 0.
        beta, gamma: of the running means, each from 0 to below 1.
        eps: ε, above 0.

    >>> from leadline.likelihoods import Normal
    >>> model = nn.Linear(1, 1, bias=False)
    >>> rule = PerExampleAdam(step_size=0.1)
    >>> rule.bind(model, Normal(variance="fixed"), total_steps=200)
    >>> x = torch.tensor([[1.0], [2.0]])
    >>> losses = [rule.step(Batch(x, 3 * x[:, 0]), k) for k in range(200)]
    >>> abs(model.weight.item() - 3) < 0.05
    True
    """

    def __init__(self, step_size: float = 1e-3, beta: float = 0.9, gamma: float = 0.999, eps: float = 1e-8):
        self.step_size = real("step_size", step_size, 0, above=True, usual=1e-3)
        self.beta, self.gamma = real("beta", beta, 0, 1, usual=0.9), real("gamma", gamma, 0, 1, usual=0.999)
        self.eps = real("eps", eps, 0, above=True, usual=1e-8)

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        super().bind(model, likelihood, total_steps)
        without_batch_norm(self, model)
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]
        self.moves = 0

    def step(self, batch: Batch, index: int) -> Tensor:
        loss, sums, squares = self.moments(batch)
        self.moves += 1
        share, scale = 1 - self.beta**self.moves, 1 - self.gamma**self.moves
        with torch.no_grad():
            for p, m, v, total, square in zip(self.parameters, self.means, self.squares, sums, squares, strict=True):
                m.lerp_(total, 1 - self.beta)  # eq. 1
                v.lerp_(square, 1 - self.gamma)  # eq. 2
                p.addcdiv_(m, (v / scale + self.eps).sqrt(), value=-self.step_size / share)  # eq. 3
        return loss

    def moments(self, batch: Batch) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The batch's mean loss, Σ w_i g_i and Σ (w_i g_i)²."""
        named = {name: p.detach() for name, p in zip(self.names, self.parameters, strict=True)}
        buffers = dict(self.objective.named_buffers())
        columns = {name: getattr(batch, name) for name in ("x", "y", "keys") if getattr(batch, name) is not None}

        def row(values: dict[str, Tensor], one: dict[str, Tensor]) -> Tensor:
            rows = Batch(one["x"][None], one["y"][None], keys=one["keys"][None] if "keys" in one else None)
            return functional_call(self.objective, (values, buffers), (rows,))

        chunk = max(1, _CHUNK // sum(p.numel() for p in self.parameters))
        single = vmap(grad_and_value(row), (None, 0), randomness="different")
        w = torch.ones_like(batch.x.flatten(1)[:, 0]) if batch.weight is None else batch.weight
        sums, squares = ([torch.zeros_like(p) for p in self.parameters] for _ in range(2))
        total = torch.zeros((), dtype=w.dtype, device=w.device)
        for part in torch.arange(len(batch), device=w.device).split(chunk):
            gradients, losses = single(named, {name: column[part] for name, column in columns.items()})
            total += (losses.detach() * w[part]).sum()
            for k, name in enumerate(self.names):
                g = gradients[name].detach() * w[part].view(-1, *[1] * self.parameters[k].ndim)
                sums[k] += g.sum(0)
                squares[k] += g.square().sum(0)
        return total / w.sum(), sums, squares

    def rate(self, index: int) -> float:
        return self.step_size

    def state(self) -> Any:
        return {"means": list(self.means), "squares": list(self.squares), "moves": self.moves}

    def load_state(self, state: Any) -> None:
        device = self.parameters[0].device
        self.means, self.squares = ([t.to(device) for t in state[name]] for name in ("means", "squares"))
        self.moves = state["moves"]
