"""How a lens runs a model: at rest, and leaving no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leadline.engine.untouched import untouched
from leadline.errors import UserError
from leadline.settings import given


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode and draws no gradient; afterwards it and torch's random states are back.

    >>> net = nn.Sequential(nn.BatchNorm1d(2)).train()
    >>> with at_rest(net):
    ...     net.training
    False
    >>> net.training
    True
    """
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a torch module", got=given("model", model), do="Pass run.model, or the module")
    with untouched(model, training=False), torch.no_grad():
        yield


@contextmanager
def exactly(model: nn.Module) -> Iterator[Callable[[Tensor], Tensor]]:
    """The model as a function of float64 points, its own numbers widened and none of them changed.

    >>> with exactly(nn.Linear(1, 1)) as f:
    ...     f(torch.zeros(3, 1, dtype=torch.float64)).dtype
    torch.float64
    """
    with at_rest(model):
        state = {
            name: (t.detach().double() if t.is_floating_point() else t.detach()).cpu()
            for name, t in [*model.named_parameters(), *model.named_buffers()]
        }
        yield lambda x: functional_call(model, state, (x,))
