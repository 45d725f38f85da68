"""Whole steps as one compiled graph, several a call; CUDA graphs where there is a GPU.

    step = update(φ, ∇_φ loss(φ, batch))     forward, backward and update in one graph

An optimisation that acts from outside: `Compiled` wraps a `Gradient` rule, moves the same parameters and the same
optimizer state, and hands back to it whatever does not fit (a ragged last batch). Deleting this file loses speed only.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Batch, Stacked
from leadline.layers import noise
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline
from leadline.optim.rule import Rule

#: least and most steps a call. A CPU call saves Python's part of a step; on a GPU it also saves the launches.
_STEPS = {"cpu": (8, 10), "cuda": (10, 40)}
#: auto: runs below this many steps stay eager without measuring, so that two such runs decide alike
_SHORT = 30_000
_COMPILE_SECONDS = 45.0
_SAVED_SECONDS = 250e-6  # what a small eager step spends in Python and dispatch, and a compiled one does not


def obstacle(rule: Rule, device: torch.device) -> str | None:
    """Why steps of this rule cannot be compiled here, or None."""
    if not isinstance(rule, Gradient):
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


def steps_together(full: int, least: int, most: int) -> int:
    """How many of an epoch's `full` batches to take together: as few as possible are left over, in large groups.

    >>> steps_together(40, 10, 40), steps_together(57, 10, 40), steps_together(2, 10, 40)
    (40, 19, 2)
    """
    if full <= most:
        return max(full, 1)
    return min(range(most, least - 1, -1), key=lambda size: full % size)


class Compiled(Rule):
    """Args:
    rule: the bound gradient rule whose steps are compiled.
    full: batches of full size an epoch.
    inductor: compile the step; otherwise only record it as a CUDA graph.
    """

    def __init__(self, rule: Gradient, device: torch.device, full: int, inductor: bool = True):
        self.rule, self.device, self.inductor = rule, device, inductor
        self.steps_per_call = steps_together(full, *_STEPS[device.type])
        self._calls: dict[tuple[int, int], Any] = {}
        self._made: Inline | None = None

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        self.rule.bind(model, likelihood, total_steps)

    def step(self, batch: Batch, index: int) -> Tensor:
        if self._made is not None:
            self._made.count += 1
        return self.rule.step(batch, index)

    @property
    def _inline(self) -> Inline:
        if self._made is None:
            self._made = Inline(self.rule.optimizer)
        return self._made

    def steps(self, batches: Sequence[Batch], index: int) -> Tensor:
        if self.device.type == "cpu" and len(batches) < self.steps_per_call:
            return super().steps(batches, index)
        size = (len(batches), batches.size if isinstance(batches, Stacked) else len(batches[0]))
        if size not in self._calls:
            self._calls[size] = self._prepare(batches)
        scalars = self._inline.scalars([self.rule.rate(index + k) for k in range(len(batches))])
        losses = self._calls[size](batches, torch.tensor(scalars, pin_memory=self.device.type == "cuda"))
        self._inline.counted(len(batches))
        return losses

    def rate(self, index: int) -> float:
        return self.rule.rate(index)

    def state(self) -> Any:
        return self.rule.state()

    def load_state(self, state: Any) -> None:
        self.rule.load_state(state)
        self._calls, self._made = {}, None  # the optimizer's tensors are new ones

    def _prepare(self, batches: Sequence[Batch]) -> Callable[[Sequence[Batch], Tensor], Tensor]:
        one = self._one_step()
        count = len(batches)

        def several(batch: Batch, scalars: Tensor) -> Tensor:
            return torch.stack([one(_row(batch, k), scalars[k]) for k in range(count)])

        if self.device.type == "cpu":
            compiled = torch.compile(several, fullgraph=True, dynamic=False)
            return lambda batches, scalars: compiled(_stack(batches), scalars)
        if self.inductor and count == self.steps_per_call:  # what is left over an epoch is not worth a compilation
            one = torch.compile(one, fullgraph=True, dynamic=False)
        return _Graph(several, batches, self._tensors())

    def _one_step(self) -> Callable[[Batch, Tensor], Tensor]:
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

    def __init__(self, several: Callable[[Batch, Tensor], Tensor], batches: Sequence[Batch], changed: list[Tensor]):
        self.batch = _map(_stack(batches), torch.clone)
        self.scalars = torch.zeros(len(batches), 3, device=batches[0].y.device)
        before = [t.detach().clone() for t in changed]
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
        with torch.no_grad():
            for t, old in zip(changed, before, strict=True):
                t.copy_(old)  # warming up moved them

    def __call__(self, batches: Sequence[Batch], scalars: Tensor) -> Tensor:
        new = _stack(batches)
        for name in _COLUMNS:
            if getattr(new, name) is not None:
                getattr(self.batch, name).copy_(getattr(new, name))
        self.scalars.copy_(scalars, non_blocking=True)
        self.graph.replay()
        return self.losses.clone()


_COLUMNS = ("x", "y", "weight", "keys")  # what a step reads of a batch


def _stack(batches: Sequence[Batch]) -> Batch:
    """What a step reads of K batches, as one of shape (K, B, …)."""
    if isinstance(batches, Stacked):
        return _map(batches.stacked(), lambda column: column)
    return _map(batches[0], lambda column: column[None])  # what is left over comes singly


def _row(batch: Batch, k: int) -> Batch:
    return _map(batch, lambda column: column[k])


def _map(batch: Batch, function: Callable[[Tensor], Tensor]) -> Batch:
    optional = {name: getattr(batch, name) for name in ("weight", "keys")}
    return Batch(
        function(batch.x), function(batch.y), **{n: None if c is None else function(c) for n, c in optional.items()}
    )
