"""A lens leaves no trace: modes, buffers and random states are as before, whatever happens inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leadline.errors import UserError
from leadline.settings import given


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode and draws no gradient; afterwards it and torch's random states are back.

    >>> net = nn.Sequential(nn.BatchNorm1d(2)).train()
    >>> with untouched(net):
    ...     net.training
    False
    >>> net.training
    True
    """
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a torch module", got=given("model", model), do="Pass run.model, or the module")
    modes = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    devices = {p.device for p in model.parameters() if p.is_cuda}
    with torch.random.fork_rng(devices=list(devices)), torch.no_grad():
        try:
            model.eval()
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            for module, name, buffer, kept in buffers:
                if not torch.equal(buffer, kept):
                    buffer.copy_(kept)
                module._buffers[name] = buffer


@contextmanager
def exactly(model: nn.Module) -> Iterator[Callable[[Tensor], Tensor]]:
    """The model as a function of float64 points, its own numbers widened and none of them changed.

    >>> with exactly(nn.Linear(1, 1)) as f:
    ...     f(torch.zeros(3, 1, dtype=torch.float64)).dtype
    torch.float64
    """
    with untouched(model):
        state = {
            name: (t.detach().double() if t.is_floating_point() else t.detach()).cpu()
            for name, t in [*model.named_parameters(), *model.named_buffers()]
        }
        yield lambda x: functional_call(model, state, (x,))
