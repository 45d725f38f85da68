"""One gradient step as a pure function of every tensor that it reads or changes, and what runs such a function fast.

    step(φ, memory, buffers, fixed, batch, numbers) -> loss         changes the first three in place

A trace of it is a plain list of tensor operations. It can be run as it is, through inductor, or recorded as a CUDA
graph. Where a model has kernels that no trace may enter, the step is no function of its weights but moves those of the
model itself, as they are; this can be recorded too.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from leadline.data.data import Batch
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline

Tensors = tuple[Tensor, ...]


class Step:
    """One step as a function of flat tensors: what it changes, what else the model holds, a batch, and scalars.

    Args:
        columns: which columns of a batch there are.
        together: move all weights by a few large kernels, where no compiler joins the many small ones.
        pure: whether gradients are a function of the tensors passed; else they are of `held`, whatever is passed.
    """

    def __init__(
        self, rule: Gradient, inline: Inline, columns: Sequence[str], together: bool = False, pure: bool = True
    ):
        self.objective, self.rule, self.columns, self.together = rule.objective, rule, columns, together
        self.update, self.pure = inline.together() if together else inline.update(), pure
        self.own = inline.parameters
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
        value, *moves = self.gradients(*flat)
        self.move(flat, moves)
        return value

    def gradients(self, *flat: Tensor) -> Tensors:
        """The loss, and the gradient of each parameter, clipped; buffers become what training makes of them."""
        rest = iter(flat)
        take = lambda like: [next(rest) for _ in like]  # noqa: E731
        parameters, _ = take(self.names), [take(slot) for slot in self.slots]
        buffers, fixed = (dict(zip(part, take(part), strict=True)) for part in (self.buffers, self.fixed))
        batch = Batch(**dict(zip(self.columns, take(self.columns), strict=True)))

        with torch.no_grad():
            if self.pure:
                value, moves = self._gradients(batch, parameters, buffers, fixed)
            else:
                value, moves = self._own_gradients(batch)
            if (clip := self.rule.settings.clip) is not None:
                moves = self._clipped(moves, clip)
        return value, *moves

    def laid_gradients(self, *flat: Tensor) -> Tensors:
        """The same, each laid in memory as its parameter is: a kernel goes through both side by side."""
        value, *moves = self.gradients(*flat)
        pairs = zip(flat[: len(self.names)], moves, strict=True)
        return value, *(g if g.stride() == p.stride() else torch.empty_like(p).copy_(g) for p, g in pairs)

    def move(self, flat: Tensors, gradients: Sequence[Tensor]) -> None:
        """Update parameters and memory, which come first of the flat tensors, by the scalars, which come last."""
        count = len(self.names)
        parameters, *slots = (list(flat[k * count : (k + 1) * count]) for k in range(1 + len(self.slots)))
        with torch.no_grad():
            self.update(parameters, slots, list(gradients), flat[-1])

    def _gradients(
        self, batch: Batch, parameters: list[Tensor], buffers: dict[str, Tensor], fixed: dict[str, Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Loss and gradients of these tensors; buffers change as training changes them."""

        def loss(values: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            fresh = {name: b.clone() for name, b in buffers.items()}  # training may change them in place
            with self.rule.autocast(batch):
                return torch.func.functional_call(self.objective, (values, fresh, fixed), (batch,)), fresh

        values = dict(zip(self.names, parameters, strict=True))
        gradients, (value, fresh) = torch.func.grad_and_value(loss, has_aux=True)(values)
        self._keep(buffers, fresh)
        return value, [gradients[name] for name in self.names]

    @torch.enable_grad()
    def _own_gradients(self, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Loss and gradients of the model's own weights."""
        value = self.rule.loss(batch)
        return value.detach(), list(torch.autograd.grad(value, self.own, materialize_grads=True))

    def _clipped(self, moves: list[Tensor], clip: float) -> list[Tensor]:
        if self.together:
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(moves)))
            return list(torch._foreach_mul(moves, (clip / (norm + 1e-6)).clamp(max=1.0)))
        norm = torch.stack([g.square().sum() for g in moves]).sum().sqrt()
        factor = (clip / (norm + 1e-6)).clamp(max=1.0)
        return [g * factor for g in moves]

    def _keep(self, buffers: dict[str, Tensor], fresh: dict[str, Tensor]) -> None:
        """Put what training made of the buffers into them."""
        if self.together and buffers:
            torch._foreach_copy_(list(buffers.values()), [fresh[name] for name in buffers])
            return
        for name, b in buffers.items():
            b.copy_(fresh[name])


def several(step: Callable[..., Tensor], held: int, flat: Tensors) -> Tensor:
    """Consecutive steps; beyond the first `held`, tensors have an axis more, that of the steps."""
    rows = zip(*(column.unbind() for column in flat[held:]), strict=True)
    return torch.stack([step(*flat[:held], *row) for row in rows])


_KNOWN: dict[Any, Callable[..., Tensors]] = {}  # of this process: a second run of the same shape starts at once


def traced(function: Callable[..., Tensors], inputs: Tensors) -> torch.fx.GraphModule:
    """`function` of flat tensors as a list of tensor operations. What it does must not depend on their values."""
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)


def through_inductor(function: Callable[..., Tensors], inputs: Tensors) -> Callable[..., Tensors]:
    """The trace of `function`, compiled."""
    from torch import _inductor as inductor

    graph = traced(function, inputs)
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
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "TensorFloat32")  # float32 was asked for, and is what is computed
        compiled: Any = inductor.compile(graph, list(inputs), options={"cpp_wrapper": inputs[0].device.type == "cpu"})
    gc.collect()  # a compiler leaves much behind: better now than between two steps
    if key is not None:
        _KNOWN[key] = compiled
    return compiled


@contextmanager
def recording() -> Iterator[torch.cuda.CUDAGraph]:
    """A CUDA graph of what is launched here, while other threads go on pinning memory.

    A recording that fails leaves torch's generator believing that it is still recorded, so that the next random number
    of the program would be refused: it then gets a new inside, with the numbers it had.
    """
    graph, generator = torch.cuda.CUDAGraph(), torch.cuda.default_generators[torch.cuda.current_device()]
    numbers = generator.get_state()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            yield graph
    except BaseException:
        generator.graphsafe_set_state(torch.Generator(generator.device).graphsafe_get_state())
        generator.set_state(numbers)
        raise


class Recorded:
    """A recorded CUDA graph of several steps: inputs are copied into its own buffers, then it is replayed.

    Args:
        several: of `held` tensors, which it may change, and of `inputs`.
    """

    def __init__(self, several: Callable[..., Tensor], held: Tensors, inputs: Tensors):
        self.held, self.inputs = held, tuple(t.clone() for t in inputs)
        before = [t.clone() for t in held]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in range(2):  # libraries allocate their work space, the compiler compiles
                    several(*held, *self.inputs)
            torch.cuda.current_stream().wait_stream(side)
            gc.collect()  # what autograd remembers of a weight stays on its stream as long as any graph of it is alive
            with recording() as self.graph:
                self.losses = several(*held, *self.inputs)
        finally:  # warming up moved them, also where steps cannot be recorded and go on one by one
            torch.cuda.current_stream().wait_stream(side)
            with torch.no_grad():
                for t, old in zip(held, before, strict=True):
                    t.copy_(old)

    def __call__(self, *inputs: Tensor) -> Tensor:
        for own, new in zip(self.inputs, inputs, strict=True):
            own.copy_(new, non_blocking=True)
        self.graph.replay()
        return self.losses.clone()
