"""Whole steps as one compiled graph, several a call; CUDA graphs where there is a GPU.

    step = update(φ, ∇_φ loss(φ, batch))     forward, backward and update in one graph

An optimisation that acts from outside: `Compiled` wraps a `Gradient` rule, moves the same parameters and the same
optimizer state, and hands back to it whatever does not fit (a ragged last batch). Deleting this file loses speed only.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.layers import noise
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline
from leadline.optim.rule import Rule

_STEPS_CPU, _STEPS_GPU = 4, 20
#: auto: runs below this many steps stay eager without measuring, so that two such runs decide alike
_SHORT = 30_000
_COMPILE_SECONDS = 30.0
_SAVED_SECONDS = 250e-6  # what a small eager step spends in Python and dispatch, and a compiled one does not


def obstacle(rule: Rule, device: torch.device) -> str | None:
    """Why steps of this rule cannot be compiled here, or None."""
    if not isinstance(rule, Gradient) or rule.optimizer is None:
        return "the rule is not gradient descent"
    if rule.settings.accumulate > 1:
        return "gradients are accumulated"
    if rule.custom_schedule:
        return "the schedule is a torch object"
    if device.type not in ("cpu", "cuda"):
        return f"device {device.type}"
    return Inline.obstacle(rule.optimizer)


def compiler_missing(device: torch.device) -> str | None:
    """Why torch.compile cannot work here, or None."""
    if device.type == "cpu":
        return None if shutil.which("g++") or shutil.which("clang++") else "no C++ compiler is installed"
    try:
        import triton  # noqa: F401
    except ImportError:
        return "triton is not installed"
    return None


def worth_compiling(total_steps: int, step_seconds: float) -> bool:
    """Whether compiling saves more time in this run than it takes.

    >>> worth_compiling(1_000, 0.001), worth_compiling(1_000_000, 0.001)
    (False, True)
    """
    saved = total_steps * min(0.5 * step_seconds, _SAVED_SECONDS + 0.1 * step_seconds)
    return total_steps >= _SHORT and saved > 1.5 * _COMPILE_SECONDS


class Compiled(Rule):
    """Args:
        rule: the bound gradient rule whose steps are compiled.
        inductor: compile the step; otherwise only record it as a CUDA graph.
    """

    def __init__(self, rule: Gradient, device: torch.device, inductor: bool = True):
        self.rule, self.device, self.inductor = rule, device, inductor
        self.steps_per_call = _STEPS_GPU if device.type == "cuda" else _STEPS_CPU
        self._call: Any = None

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        self.rule.bind(model, likelihood, total_steps)

    def step(self, batch: Batch, index: int) -> Tensor:
        return self.rule.step(batch, index)

    def steps(self, batches: Sequence[Batch], index: int) -> Tensor:
        if len(batches) < self.steps_per_call:
            return super().steps(batches, index)
        stacked = _stack(batches)
        if self._call is None:
            self._inline = Inline(self.rule.optimizer)
            self._call = self._prepare(stacked)
        rates = [self.rule.rate(index + k) for k in range(len(batches))]
        scalars = torch.tensor(self._inline.scalars(rates))
        losses = self._call(stacked, scalars.to(self.device, non_blocking=True))
        self._inline.counted(len(batches))
        return losses

    def rate(self, index: int) -> float:
        return self.rule.rate(index)

    def state(self) -> Any:
        return self.rule.state()

    def load_state(self, state: Any) -> None:
        self.rule.load_state(state)
        self._call = None  # the optimizer's tensors are new ones

    def _prepare(self, example: Batch):
        one = self._one_step()
        count = self.steps_per_call

        def several(batch: Batch, scalars: Tensor) -> Tensor:
            return torch.stack([one(_row(batch, k), scalars[k]) for k in range(count)])

        if self.device.type == "cpu":
            return torch.compile(several, fullgraph=True, dynamic=False)
        if self.inductor:
            one = torch.compile(one, fullgraph=True, dynamic=False)
        return _Graph(several, example, count, self._tensors())

    def _one_step(self):
        joint = _Joint(self.rule.model, self.rule.likelihood)
        names = [name for name, p in joint.named_parameters() if p.requires_grad]
        parameters = self._inline.parameters
        buffers = {name: b for name, b in joint.named_buffers() if name.startswith("model.")}
        update, clip, rule = self._inline.update(), self.rule.settings.clip, self.rule

        def loss(values: dict[str, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
            fresh = {name: b.clone() for name, b in buffers.items()}  # training may change them in place
            with rule._autocast(batch):
                losses = torch.func.functional_call(joint, (values, fresh), (batch,))
            if batch.weight is None:
                return losses.mean(), fresh
            return (losses * batch.weight).sum() / batch.weight.sum(), fresh

        def one(batch: Batch, scalars: Tensor) -> Tensor:
            with torch.no_grad():
                values = dict(zip(names, parameters, strict=True))
                gradients, (value, fresh) = torch.func.grad_and_value(loss, has_aux=True)(values, batch)
                flat = [gradients[name] for name in names]
                if clip is not None:
                    norm = torch.stack([g.square().sum() for g in flat]).sum().sqrt()
                    factor = (clip / (norm + 1e-6)).clamp(max=1.0)
                    flat = [g * factor for g in flat]
                update(flat, scalars)
                for name, b in buffers.items():
                    b.copy_(fresh[name])
            return value

        return one

    def _tensors(self) -> list[Tensor]:
        """Every tensor that a step changes."""
        state = [t for entry in self.rule.optimizer.state.values() for t in entry.values() if isinstance(t, Tensor)]
        return [*self._inline.parameters, *state, *self.rule.model.buffers()]


class _Joint(nn.Module):
    def __init__(self, model: nn.Module, likelihood: Likelihood):
        super().__init__()
        self.model, self.likelihood = model, likelihood

    def forward(self, batch: Batch) -> Tensor:
        with noise.keyed(batch.keys):
            return self.likelihood.loss(self.model(batch.x), batch.y)


class _Graph:
    """A recorded CUDA graph of several steps: inputs are copied into its own buffers, then it is replayed."""

    def __init__(self, several, example: Batch, count: int, changed: list[Tensor]):
        self.batch = _map(example, torch.clone)
        self.scalars = torch.zeros(count, 3, device=example.y.device)
        before = [t.clone() for t in changed]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):  # libraries allocate their work space, the compiler compiles
                several(self.batch, self.scalars)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.losses = several(self.batch, self.scalars)
        for t, old in zip(changed, before, strict=True):
            t.copy_(old)  # warming up moved them

    def __call__(self, batch: Batch, scalars: Tensor) -> Tensor:
        for own, new in zip(_columns(self.batch), _columns(batch), strict=True):
            own.copy_(new)
        self.scalars.copy_(scalars)
        self.graph.replay()
        return self.losses.clone()


def _stack(batches: Sequence[Batch]) -> Batch:
    """(K, B, …) of K batches; consecutive views into one window are joined without copying."""
    join = lambda columns: None if columns[0] is None else torch.stack(columns)  # noqa: E731
    return Batch(
        *(join([getattr(batch, name) for batch in batches]) for name in ("x", "y", "weight", "example", "keys"))
    )


def _row(batch: Batch, k: int) -> Batch:
    return _map(batch, lambda column: column[k])


def _map(batch: Batch, function) -> Batch:
    return Batch(*(None if c is None else function(c) for c in _all_columns(batch)))


def _all_columns(batch: Batch) -> tuple[Tensor | None, ...]:
    return batch.x, batch.y, batch.weight, batch.example, batch.keys


def _columns(batch: Batch) -> list[Tensor]:
    return [column for column in _all_columns(batch) if column is not None]
