"""An average over the weights of a run, which is validated, kept and handed over in place of the newest ones.

    ema(d)    φ̄ <- d φ̄ + (1 - d) φ          after every step, from φ̄ = φ at the first                        (1)
    swa(s)    φ̄ <- φ̄ + (φ - φ̄) / n          after every epoch from share s of the run on, n = 1, 2, …         (2)

Weights of single steps scatter around the valley's floor; their mean lies nearer to it (Polyak, 1990; Izmailov et al.,
2018). The run itself goes on from φ: averaging never changes its way.

Means and variances that batch normalisation keeps belong to φ, not to φ̄: before φ̄ is used they are measured anew, with
all other layers at rest, on the training rows in their own order.

Several compiled steps that are one call are seen by (1) at their end, with d to the power of their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from leadline.engine.feed import Feed
from leadline.engine.state import copy, put, weights
from leadline.errors import UserError
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.rule import Rule
from leadline.settings import Settings, numbered

_ROWS = 20_000  # are enough for means and variances


class Average:
    """Args:
    settings: its `average` is ema or swa.
    train: the rows that batch normalisation is measured on.
    """

    def __init__(self, model: nn.Module, likelihood: Likelihood, settings: Settings, train: Feed):
        self.model, self.likelihood, self.train = model, likelihood, train
        self.kind, (self.number,) = numbered("average", settings.average)
        self.begins = math.ceil(self.number * settings.epochs)  # epochs after which (2) begins; the last is always in
        self.count = 0
        self.values: dict[str, Tensor] = {}
        self._ready: dict[str, Tensor] | None = None
        self._norms = [
            module
            for module in model.modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None
        ]

    def stepped(self, steps: int) -> None:
        """Some steps are done."""
        if self.kind == "ema":
            self._mix(1 - self.number**steps)  # eq. 1

    def epoch_done(self, epoch: int, last: bool) -> bool:
        """An epoch is over, its number from 1; whether (2) began with it."""
        if self.kind != "swa" or not (epoch > self.begins or last):
            return False
        self._mix(1 / (self.count + 1))  # eq. 2
        return self.count == 1

    @torch.no_grad()
    def _mix(self, share: float) -> None:
        named = self._parameters()
        if not self.count:
            self.values = {name: p.detach().clone() for name, p in named.items()}
        else:
            torch._foreach_lerp_([self.values[name] for name in named], [p.detach() for p in named.values()], share)
        self.count += 1
        self._ready = None

    def _parameters(self) -> dict[str, Tensor]:
        return {
            **{f"model.{name}": p for name, p in self.model.named_parameters(remove_duplicate=False)},
            **{f"likelihood.{name}": p for name, p in self.likelihood.named_parameters(remove_duplicate=False)},
        }

    def weights(self) -> dict[str, Tensor]:
        """Parameters and buffers of both, those of the average; copies. The newest while there is none."""
        now = weights(self.model, self.likelihood)
        if not self.count:
            return copy(now)
        if self._ready is None:
            kept = copy(now)
            put(now, {**now, **self.values})
            if self._norms:
                self._measure()
            self._ready = copy(now)
            put(now, kept)
        return self._ready

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model and the likelihood hold the average."""
        now = weights(self.model, self.likelihood)
        average = self.weights()
        kept = copy(now)
        put(now, average)
        try:
            yield
        finally:
            put(now, kept)

    @torch.no_grad()
    def _measure(self) -> None:
        """The model's batch norms on training rows, over whole batches; it is put into no other mode."""
        modes = [(module, module.training) for module in self.model.modules()]
        momenta = [(norm, norm.momentum) for norm in self._norms]
        self.model.eval()
        for norm in self._norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over batches
            norm.train()
        try:
            count = min(_ROWS, len(self.train))
            whole = max(1, count // self.train.batch)  # a smaller one at the end would count as much as the others
            for rows in self.train.raw[:count].tensor_split(whole):
                self.model(self.train.read(rows))
        finally:
            for norm, momentum in momenta:
                norm.momentum = momentum
            for module, mode in modes:
                module.training = mode

    def state(self) -> Any:
        return {"count": self.count, "values": dict(self.values)}

    def load_state(self, state: Any) -> None:
        device = self.train.device
        self.count = state["count"]
        self.values = {name: tensor.to(device) for name, tensor in state["values"].items()}
        self._ready = None


def average_for(
    model: nn.Module, likelihood: Likelihood, settings: Settings, train: Feed, rule: Rule
) -> Average | None:
    """What the settings ask for; None is no averaging."""
    if settings.average == "none":
        return None
    if rule.latest_is_best:
        raise UserError(
            "an average needs a rule that goes down the loss step by step",
            got=f"average={settings.average!r} and {type(rule).__name__}, whose last weights are its answer",
            do="Leave average out, or the rule",
        )
    return Average(model, likelihood, settings, train)
