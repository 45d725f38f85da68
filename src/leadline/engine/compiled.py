"""Whole steps as one compiled graph, several a call; CUDA graphs where there is a GPU.

    step = update(φ, ∇_φ loss(φ, batch))     forward, backward and update in one graph; of large networks on a GPU the
                                             update by torch's own kernel, which needs no compiling

An optimisation that acts from outside: `Compiled` wraps a `Gradient` rule, moves the same parameters and the same
optimizer state, and hands back to it whatever does not fit (a ragged last batch). Deleting this file loses speed only.

Steps are traced once, as a pure function of every tensor they read or change, and the trace goes straight to
inductor. torch.compile would stand between them at every call, and ask anew whether anything has changed.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.data import Batch, Stacked
from leadline.engine.step import Recorded, Step, recording, several, through_inductor
from leadline.layers.kernels import has_triton
from leadline.layers.substitutes import substituted
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline
from leadline.optim.rule import Rule

#: steps a call, the preferred number first. More of them save Python's part of a step, and on a GPU the launches; on a
#: CPU they also take longer to compile
_STEPS = {"cpu": range(8, 13), "cuda": range(40, 9, -1)}
#: of the inputs of a call, and of the tensors of weights in all its steps: more take so long that a launch does not
#: count, and longer still to record
_CALL_BYTES, _CALL_TENSORS = 2**27, 400
#: of a call whose steps go through rows one place after another: each is many launches already
_CALL_ROWS = 4
#: of weights, up to which their update is compiled with the rest: of small networks launches count
_FEW_TENSORS = 32
#: auto: runs below this many steps stay eager without measuring, so that two such runs decide alike
_SHORT = 30_000
_COMPILE_SECONDS, _TENSORS = 20.0, 6  # of a network with so many tensors of weights; more take longer in proportion
_SAVED_SECONDS = 250e-6  # what a small eager step spends in Python and dispatch, and a compiled one does not
#: auto on a GPU: steps from which recording pays, which takes a second; what compiling saves of a recorded step; and
#: the seconds that compiling takes, in all and for each tensor of weights
_RECORDED, _SAVED_SHARE, _FIRST_SECONDS, _TENSOR_SECONDS = 200, 0.3, 4.0, 0.45


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
    if any(stack.dropout and stack.num_layers > 1 for stack in _stacks(rule)):
        return "torch draws the dropout between layers of its recurrent stacks by itself"
    if any(getattr(module, "varies", False) for module in rule.objective.modules()):
        return "how much of a graph is read depends on which rows are asked"
    return Inline.obstacle(rule.optimizer)


def whole_kernel(rule: Gradient) -> str | None:
    """Why steps of this rule can be recorded but not traced, or None."""
    kind = next((type(stack).__name__ for stack in _stacks(rule)), None)
    return None if kind is None else f"torch's kernel of {kind} is one call that a trace would take apart"


def _stacks(rule: Gradient) -> Iterator[nn.RNNBase]:
    return (module for module in rule.objective.modules() if isinstance(module, nn.RNNBase))


def unrolled(rule: Gradient) -> bool:
    """Whether a module says that a trace writes out its loop over the steps of a row: to compile it takes minutes."""
    return any(getattr(module, "unrolled", False) for module in rule.objective.modules())


def compiler_missing(device: torch.device) -> str | None:
    """Why torch.compile cannot work here, or None."""
    if device.type == "cpu":
        return None if shutil.which("g++") or shutil.which("clang++") else "no C++ compiler is installed"
    return None if has_triton() else "triton is not installed"


def choose(
    wish: str, rule: Rule, device: torch.device, steps: int, probe: Callable[[], object]
) -> tuple[str, str | None]:
    """on, record or off for a wish of those or auto; and what to say, where a wish cannot be met.

    Args:
        steps: of the whole run.
        probe: a forward and backward pass, to be timed.
    """
    if wish == "off":
        return "off", None
    reason = obstacle(rule, device)
    kernel = whole_kernel(cast(Gradient, rule)) if reason is None else None
    if reason is None and device.type == "cpu":
        reason = kernel or compiler_missing(device)
    if wish == "record" and device.type != "cuda":
        reason = f"device {device.type} has no recorded graphs"
    if reason is not None:
        return "off", f"not compiled: {reason}" if wish in ("on", "record") else None
    if kernel is not None and wish == "on":
        return "record", f"recorded, not compiled: {kernel}"
    if wish in ("on", "record"):
        return wish, None
    if kernel is not None or unrolled(cast(Gradient, rule)):
        return "record" if device.type == "cuda" and steps >= _RECORDED else "off", None
    if device.type == "cuda":
        return _on_a_gpu(cast(Gradient, rule), steps, probe), None
    tensors = len(cast(Gradient, rule).parameters)
    if not worth_compiling(steps, float("inf"), tensors):
        return "off", None
    return "on" if worth_compiling(steps, min(_seconds(probe) for _ in range(5)), tensors) else "off", None


def _on_a_gpu(rule: Gradient, steps: int, probe: Callable[[], object]) -> str:
    """off for short runs; on where compiling saves more than it takes of what a recorded step takes; else record."""
    if steps < _RECORDED:
        return "off"
    seconds = _FIRST_SECONDS + _TENSOR_SECONDS * len(rule.parameters)
    if compiler_missing(torch.device("cuda")) is not None or steps * _SAVED_SHARE < seconds / 10:
        return "record"  # not even steps of ten seconds would pay
    return "on" if steps * _SAVED_SHARE * replay_seconds(probe) > seconds else "record"


def replay_seconds(work: Callable[[], object]) -> float:
    """How long the device alone needs for some work: what it launches is recorded, then replayed."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(side)
    try:
        with recording() as graph:
            work()
    except RuntimeError:  # what waits for the device cannot be recorded
        return 0.0

    def again() -> None:
        graph.replay()
        torch.cuda.synchronize()

    again()
    return _seconds(again)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def worth_compiling(total_steps: int, step_seconds: float, tensors: int = _TENSORS) -> bool:
    """Whether compiling saves more time in this run than it takes.

    Args:
        tensors: of weights, with which the time of compiling grows.

    >>> worth_compiling(1_000, 0.001), worth_compiling(1_000_000, 0.001)
    (False, True)
    """
    saved = total_steps * min(0.5 * step_seconds, _SAVED_SECONDS + 0.1 * step_seconds)
    return total_steps >= _SHORT and saved > 1.5 * _COMPILE_SECONDS * max(1.0, tensors / _TENSORS)


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
    batch_bytes: of the inputs of a step.
    """

    by_gradient = True

    def __init__(self, rule: Gradient, device: torch.device, full: int, inductor: bool = True, batch_bytes: int = 0):
        self.rule, self.device, self.inductor = rule, device, inductor
        self.pure = whole_kernel(rule) is None
        most = min(_CALL_BYTES // max(1, batch_bytes), _CALL_TENSORS // max(1, len(rule.parameters)))
        most = most if self.pure else min(most, _CALL_ROWS)
        self.steps_per_call = min(steps_together(full, _STEPS[device.type]), max(1, most))
        self._calls: dict[tuple[int, ...], Callable[..., Tensor]] = {}
        self._made: Inline | None = None
        self._where: list[int] = []
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
        whole = len(batches) == self.steps_per_call and len(batches[0]) == self.rule.settings.batch
        if self._failed or (self.device.type == "cpu" and not whole):
            return super().steps(batches, index)
        columns = _stack(batches)
        size = tuple(columns["y"].shape[:2])
        self._look_where()
        if size not in self._calls:
            try:
                self._calls[size] = self._prepare(columns, compiling=whole and self.inductor)
            except Exception as error:  # whatever a model does that cannot be traced
                warnings.warn(f"steps are not compiled: {_first_line(error)}", stacklevel=2)
                self._failed = True
                return super().steps(batches, index)
        self.rule.begin(index)
        rates = [self.rule.rate(index + k) for k in range(len(batches))]
        losses = self._calls[size](*columns.values(), self._scalars(rates))
        self._inline.counted(len(batches))
        return losses

    def _look_where(self) -> None:
        """Weights that have moved to another place in memory are not those of any recording: torch moves those of its
        recurrent layers whenever a model is told where to be, even where it is already.
        """
        where = [] if self.pure else [p.data_ptr() for p in self._inline.parameters]
        if where != self._where:
            self._calls, self._where = {}, where

    def _scalars(self, rates: list[float]) -> Tensor:
        dtype = np.float64 if self._inline.parameters[0].dtype == torch.float64 else np.float32
        scalars = torch.from_numpy(self._inline.scalars(rates).astype(dtype))
        return scalars.pin_memory() if self.device.type == "cuda" else scalars

    def rate(self, index: int) -> float:
        return self.rule.rate(index)

    def state(self) -> Any:
        return self.rule.state()

    def load_state(self, state: Any) -> None:
        self.rule.load_state(state)
        self._calls, self._made = {}, None  # the optimizer's tensors are new ones

    def _prepare(self, columns: dict[str, Tensor], compiling: bool) -> Callable[..., Tensor]:
        """A function (columns, scalars) that makes the steps, and returns their losses.

        Args:
            compiling: what is left over an epoch is not worth it: it is recorded only.
        """
        step = Step(self.rule, self._inline, list(columns), together=not compiling, pure=self.pure)
        held, count = step.held, len(columns["y"])
        inputs = (*columns.values(), self._scalars([0.0] * count).to(self.device))
        if self.device.type == "cpu":
            together = through_inductor(lambda *flat: (several(step, len(held), flat),), (*held, *inputs))
            return lambda *inputs: together(*held, *inputs)[0]
        one: Callable[..., Tensor] = step
        if compiling:
            one = self._compiled(step, (*held, *(column[0] for column in inputs)))
        return Recorded(lambda *flat: several(one, len(held), flat), held, inputs)

    def _compiled(self, step: Step, inputs: tuple[Tensor, ...]) -> Callable[..., Tensor]:
        """A step through the compiler; of many tensors of weights their update, a third to a half of the graph, is left
        to torch's own kernel.
        """
        fused = self._inline.fused() if len(step.names) > _FEW_TENSORS else None
        if fused is None:
            whole = through_inductor(substituted(lambda *flat: (step(*flat),)), inputs)
            return lambda *flat: whole(*flat)[0]
        step.update = fused
        gradients = through_inductor(substituted(step.laid_gradients), inputs)

        def one(*flat: Tensor) -> Tensor:
            loss, *moves = gradients(*flat)
            step.move(flat, moves)
            return loss

        return one


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


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
