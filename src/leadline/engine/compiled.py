"""Whole steps as one compiled graph, several a call; CUDA graphs where there is a GPU.

    step = update(φ, ∇_φ loss(φ, batch))     forward, backward and update in one graph

An optimisation that acts from outside: `Compiled` wraps a `Gradient` rule, moves the same parameters and the same
optimizer state, and hands back to it whatever does not fit (a ragged last batch). Deleting this file loses speed only.

Steps are traced once, as a pure function of every tensor they read or change, and the trace goes straight to
inductor. torch.compile would stand between them at every call, and ask anew whether anything has changed.
"""

from __future__ import annotations

import gc
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.data import Batch, Stacked
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline
from leadline.optim.rule import Rule

#: steps a call, the preferred number first. More of them save Python's part of a step, and on a GPU the launches; on a
#: CPU they also take longer to compile
_STEPS = {"cpu": range(8, 13), "cuda": range(40, 9, -1)}
#: auto: runs below this many steps stay eager without measuring, so that two such runs decide alike
_SHORT = 30_000
_COMPILE_SECONDS = 20.0
_SAVED_SECONDS = 250e-6  # what a small eager step spends in Python and dispatch, and a compiled one does not

Tensors = tuple[Tensor, ...]


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


def choose(
    wish: str, rule: Rule, device: torch.device, steps: int, probe: Callable[[], object]
) -> tuple[str, str | None]:
    """on or off for a wish of on, off or auto; and what to say, where a wish cannot be met.

    Args:
        steps: of the whole run.
        probe: a forward and backward pass, to be timed.
    """
    if wish == "off":
        return "off", None
    reason = obstacle(rule, device)
    if reason is None and device.type == "cpu":
        reason = compiler_missing(device)
    if reason is not None:
        return "off", f"not compiled: {reason}" if wish == "on" else None
    if wish == "on":
        return "on", None
    if device.type == "cuda":
        return "on" if steps >= 1000 else "off", None  # a recorded graph alone pays within seconds
    if not worth_compiling(steps, float("inf")):
        return "off", None
    return "on" if worth_compiling(steps, min(_seconds(probe) for _ in range(5))) else "off", None


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def worth_compiling(total_steps: int, step_seconds: float) -> bool:
    """Whether compiling saves more time in this run than it takes.

    >>> worth_compiling(1_000, 0.001), worth_compiling(1_000_000, 0.001)
    (False, True)
    """
    saved = total_steps * min(0.5 * step_seconds, _SAVED_SECONDS + 0.1 * step_seconds)
    return total_steps >= _SHORT and saved > 1.5 * _COMPILE_SECONDS


def steps_together(full: int, sizes: Sequence[int]) -> int:
    """How many of an epoch's `full` batches to take together: so that as few as possible are left over.

    >>> steps_together(40, range(40, 9, -1)), steps_together(57, range(40, 9, -1)), steps_together(2, range(8, 13))
    (40, 19, 2)
    """
    fitting = [size for size in sizes if size <= full]
    return min(fitting, key=lambda size: full % size) if fitting else max(full, 1)


class Compiled(Rule):
    """Args:
    rule: the bound gradient rule whose steps are compiled.
    full: batches of full size an epoch.
    inductor: compile the step; otherwise only record it as a CUDA graph.
    """

    def __init__(self, rule: Gradient, device: torch.device, full: int, inductor: bool = True):
        self.rule, self.device, self.inductor = rule, device, inductor
        self.steps_per_call = steps_together(full, _STEPS[device.type])
        self._calls: dict[tuple[int, ...], Callable[..., Tensor]] = {}
        self._made: Inline | None = None
        self._failed = False

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
        if self._failed or (self.device.type == "cpu" and len(batches) < self.steps_per_call):
            return super().steps(batches, index)
        columns = _stack(batches)
        size = tuple(columns["y"].shape[:2])
        if size not in self._calls:
            try:
                self._calls[size] = self._prepare(columns)
            except Exception as error:  # whatever a model does that cannot be traced
                warnings.warn(f"steps are not compiled: {_first_line(error)}", stacklevel=2)
                self._failed = True
                return super().steps(batches, index)
        rates = [self.rule.rate(index + k) for k in range(len(batches))]
        losses = self._calls[size](*columns.values(), self._scalars(rates))
        self._inline.counted(len(batches))
        return losses

    def _scalars(self, rates: list[float]) -> Tensor:
        dtype = np.float64 if self._inline.parameters[0].dtype == torch.float64 else np.float32
        scalars = torch.from_numpy(np.array(self._inline.scalars(rates), dtype))
        return scalars.pin_memory() if self.device.type == "cuda" else scalars

    def rate(self, index: int) -> float:
        return self.rule.rate(index)

    def state(self) -> Any:
        return self.rule.state()

    def load_state(self, state: Any) -> None:
        self.rule.load_state(state)
        self._calls, self._made = {}, None  # the optimizer's tensors are new ones

    def _prepare(self, columns: dict[str, Tensor]) -> Callable[..., Tensor]:
        """A function (columns, scalars) that makes the steps, and returns their losses."""
        step = _Step(self.rule, self._inline, list(columns))
        held, count = step.held, len(columns["y"])
        inputs = (*columns.values(), self._scalars([0.0] * count).to(self.device))
        if self.device.type == "cpu":
            several = _compiled(lambda *flat: _several(step, len(held), flat), (*held, *inputs))
            return lambda *inputs: several(*held, *inputs)
        one: Callable[..., Tensor] = step
        if self.inductor and count == self.steps_per_call:  # what is left over an epoch is not worth a compilation
            one = _compiled(step, (*held, *(column[0] for column in inputs)))
        return _Graph(lambda *flat: _several(one, len(held), flat), held, inputs)


class _Step:
    """One step as a function of flat tensors: what it changes, what else the model holds, a batch, and scalars.

    Args:
        columns: which columns of a batch there are.
    """

    def __init__(self, rule: Gradient, inline: Inline, columns: Sequence[str]):
        self.objective, self.rule, self.columns = rule.objective, rule, columns
        self.update = inline.update()
        moved = {id(p) for p in inline.parameters}
        name_of = {id(p): name for name, p in self.objective.named_parameters()}
        self.names = [name_of[id(p)] for p in inline.parameters]
        self.buffers = dict(self.objective.named_buffers())
        self.fixed = {name: p for name, p in self.objective.named_parameters() if id(p) not in moved}
        self.slots = inline.slots
        self.held: Tensors = tuple(
            t.detach()
            for group in (inline.parameters, *self.slots, self.buffers.values(), self.fixed.values())
            for t in group
        )

    def __call__(self, *flat: Tensor) -> Tensor:
        rest = iter(flat)
        take = lambda like: [next(rest) for _ in like]  # noqa: E731
        parameters, slots = take(self.names), [take(slot) for slot in self.slots]
        buffers, fixed = (dict(zip(part, take(part), strict=True)) for part in (self.buffers, self.fixed))
        batch = Batch(**dict(zip(self.columns, take(self.columns), strict=True)))
        [scalars] = rest

        def loss(values: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            fresh = {name: b.clone() for name, b in buffers.items()}  # training may change them in place
            with self.rule.autocast(batch):
                return torch.func.functional_call(self.objective, (values, fresh, fixed), (batch,)), fresh

        with torch.no_grad():
            values = dict(zip(self.names, parameters, strict=True))
            gradients, (value, fresh) = torch.func.grad_and_value(loss, has_aux=True)(values)
            moves = [gradients[name] for name in self.names]
            if (clip := self.rule.settings.clip) is not None:
                norm = torch.stack([g.square().sum() for g in moves]).sum().sqrt()
                factor = (clip / (norm + 1e-6)).clamp(max=1.0)
                moves = [g * factor for g in moves]
            self.update(parameters, slots, moves, scalars)
            for name, b in buffers.items():
                b.copy_(fresh[name])
        return value


def _several(step: Callable[..., Tensor], held: int, flat: Tensors) -> Tensor:
    """Consecutive steps; beyond the first `held`, tensors have an axis more, that of the steps."""
    rows = zip(*(column.unbind() for column in flat[held:]), strict=True)
    return torch.stack([step(*flat[:held], *row) for row in rows])


_KNOWN: dict[Any, Callable[..., Tensor]] = {}  # of this process: a second run of the same shape starts at once


def _compiled(function: Callable[..., Tensor], inputs: Tensors) -> Callable[..., Tensor]:
    """`function` of flat tensors, through inductor. What it does must not depend on their values."""
    from torch import _inductor as inductor
    from torch.fx.experimental.proxy_tensor import make_fx

    trace = make_fx(lambda *flat: (function(*flat),), tracing_mode="fake", _allow_non_fake_inputs=True)
    graph = trace(*inputs)
    constants = any(node.op == "get_attr" for node in graph.graph.nodes)
    key = (
        None
        if constants
        else (
            str(graph.graph),
            tuple((t.shape, t.stride(), t.dtype, t.device) for t in inputs),
            torch.get_num_threads(),
            torch.get_float32_matmul_precision(),
        )
    )
    if key in _KNOWN:
        return _KNOWN[key]
    tupled: Any = inductor.compile(graph, list(inputs), options={"cpp_wrapper": inputs[0].device.type == "cpu"})
    compiled = lambda *flat: tupled(*flat)[0]  # noqa: E731
    gc.collect()  # a compiler leaves much behind: better now than between two steps
    if key is not None:
        _KNOWN[key] = compiled
    return compiled


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


class _Graph:
    """A recorded CUDA graph of several steps: inputs are copied into its own buffers, then it is replayed.

    Args:
        several: of `held` tensors, which it may change, and of `inputs`.
    """

    def __init__(self, several: Callable[..., Tensor], held: Tensors, inputs: Tensors):
        self.held, self.inputs = held, tuple(t.clone() for t in inputs)
        before = [t.clone() for t in held]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):  # libraries allocate their work space, the compiler compiles
                several(*held, *self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.losses = several(*held, *self.inputs)
        with torch.no_grad():
            for t, old in zip(held, before, strict=True):
                t.copy_(old)  # warming up moved them

    def __call__(self, *inputs: Tensor) -> Tensor:
        for own, new in zip(self.inputs, inputs, strict=True):
            own.copy_(new, non_blocking=True)
        self.graph.replay()
        return self.losses.clone()


_COLUMNS = ("x", "y", "weight", "keys")  # what a step reads of a batch


def _stack(batches: Sequence[Batch]) -> dict[str, Tensor]:
    """What a step reads of K batches, each of shape (K, B, …)."""
    if isinstance(batches, Stacked):
        rows = batches.columns
    else:
        [one] = batches  # what is left over comes singly
        rows = one.map(lambda column: column[None])
    columns = {name: getattr(rows, name) for name in _COLUMNS}
    return {name: column for name, column in columns.items() if column is not None}
