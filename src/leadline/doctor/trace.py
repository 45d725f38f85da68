"""Follow one forward pass: every module and every torch function it calls, in the order in which they finish.

Works on models never seen before: modules are followed by hooks, functions such as `torch.relu` or `x.log()` by a
function mode, so that an activation is seen whether it is a module or a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Call:
    """Args:
    path: of the module that ran, or in which the function was called; "" is the model itself.
    kind: class of that module.
    op: name of the function, or "" where the module itself ended.
    inputs, outputs: the tensors among its arguments and results.
    """

    path: str
    kind: str
    op: str
    inputs: tuple[Tensor, ...] = field(repr=False)
    outputs: tuple[Tensor, ...] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.path or 'the model'} ({self.kind})"


class Trace(TorchFunctionMode):
    """Calls `see` with each `Call` while the model runs inside `with`.

    After an error inside the model, `stack[-1]` is the innermost module that had begun and not ended.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> seen = []
    >>> with Trace(net, lambda call: seen.append((call.path, call.kind, call.op))):
    ...     _ = net(torch.zeros(1, 2))
    >>> seen[:2], seen[-1]
    ([('0', 'Linear', 'linear'), ('0', 'Linear', '')], ('', 'Sequential', ''))
    """

    def __init__(self, model: nn.Module, see: Callable[[Call], None]):
        super().__init__()
        self.model, self.see = model, see
        self.stack: list[tuple[str, nn.Module, tuple[Tensor, ...]]] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Trace:
        for path, module in self.model.named_modules():
            self._handles.append(module.register_forward_pre_hook(self._begin(path), with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._end(path), with_kwargs=True))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _begin(self, path: str) -> Callable[..., None]:
        def hook(module, args, kwargs):
            self.stack.append((path, module, tuple(tensors((args, kwargs)))))

        return hook

    def _end(self, path: str) -> Callable[..., None]:
        def hook(module, args, kwargs, output):
            _, _, inputs = self.stack.pop()
            self.see(Call(path, type(module).__name__, "", inputs, tuple(tensors(output))))

        return hook

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if self.stack:  # what runs outside of the model is not its doing
            outputs = tuple(tensors(result))
            if outputs:
                path, module, _ = self.stack[-1]
                op = getattr(func, "__name__", str(func)).strip("_")
                self.see(Call(path, type(module).__name__, op, tuple(tensors((args, kwargs))), outputs))
        return result


def tensors(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
