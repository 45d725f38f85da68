"""What is asked of a trained network here: a model, how its output is read, and how rows are read. A `Run` has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from leadline.data.inputs import Identity, Inputs
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.prediction import Prediction

_ROWS = 4096


class Trained(Protocol):
    """A run, or anything with these three."""

    model: nn.Module
    likelihood: Likelihood
    inputs: Inputs


@dataclass(eq=False)
class Member:
    """A trained model that is no run.

    >>> from leadline.likelihoods import Normal
    >>> answer(Member(nn.Linear(2, 1), Normal()), [[0.0, 1.0]]).mean.shape
    torch.Size([1])
    """

    model: nn.Module
    likelihood: Likelihood
    inputs: Inputs = field(default_factory=Identity)


def encoded(trained: Trained, rows: Any) -> Tensor:
    """Raw rows as the model reads them."""
    like = next(trained.model.parameters(), torch.zeros(()))
    return trained.inputs.encode(trained.inputs.read(rows).to(like.device)).to(like.dtype)


@contextmanager
def at_rest(model: nn.Module, awake: Callable[[nn.Module], bool] = lambda module: False) -> Iterator[None]:
    """Evaluation mode, but for the modules that are `awake`; afterwards all are as they were."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    for module, _ in modes:
        if awake(module):
            module.training = True
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@torch.no_grad()
def raw_outputs(model: nn.Module, x: Tensor) -> Tensor:
    """Of encoded rows, in evaluation mode."""
    with at_rest(model):
        return torch.cat([model(part) for part in x.split(_ROWS)])


@torch.no_grad()
def answer(trained: Trained, rows: Any) -> Prediction:
    """What it says of raw rows."""
    return trained.likelihood.prediction(raw_outputs(trained.model, encoded(trained, rows)))
