"""Look at a model and leave no trace: modes, buffers and random states are as before, whatever happens inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def untouched(model: nn.Module, *, training: bool | None = None) -> Iterator[None]:
    """Inside, the model may run; afterwards its modes, buffers and torch's random states are what they were.

    Parameters and their `.grad` are safe as long as the inside asks for gradients by `torch.autograd.grad`.

    Args:
        training: the mode to run in; None keeps each module's own.

    >>> net = nn.Sequential(nn.BatchNorm1d(2))
    >>> with untouched(net):
    ...     _ = net(torch.ones(3, 2) * 5)
    >>> net[0].running_mean.tolist()
    [0.0, 0.0]
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    devices = {p.device for p in model.parameters() if p.is_cuda}
    with torch.random.fork_rng(devices=list(devices)):
        try:
            if training is not None:
                model.train(training)
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            with torch.no_grad():
                for module, name, buffer, kept in buffers:
                    if not torch.equal(buffer, kept):
                        buffer.copy_(kept)
                    module._buffers[name] = buffer
