"""Gradient descent in its many forms: autograd, a torch optimizer, a schedule.

    g    = ∇_φ Σ_i w_i loss_i / Σ_i w_i        over the batch             (1)
    φ   <- optimizer(φ, clip(g), lr · schedule(step))                     (2)

Micro-batches add their parts of (1), each divided by the weight of the *whole* batch: so k of them give the gradient
of one batch exactly, however ragged the last one is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.layers.carried import Carried, carried_by
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.direct import Direct
from leadline.optim.objective import Objective
from leadline.optim.optimizers import optimizer as optimizer_by_name
from leadline.optim.rule import Rule
from leadline.optim.schedules import schedule as schedule_by_name
from leadline.optim.tape import Repeated, described, replayable
from leadline.regularize.regularizer import Regularizer
from leadline.settings import Settings

_MANY = 20  # steps of a run from which on a tape pays


class Gradient(Rule):
    """Args:
    settings: optimizer, lr, schedule, clip, accumulate, precision.
    optimizer: an optimizer over the model's parameters, in place of the named one.
    schedule: a torch scheduler on that optimizer (stepped once a step), or a function from the step's number to
        a factor on the learning rate, in place of the named one.
    regularizers: what acts on the loss, in order.
    """

    by_gradient = True

    def __init__(
        self,
        settings: Settings,
        optimizer: torch.optim.Optimizer | None = None,
        schedule: torch.optim.lr_scheduler.LRScheduler | Callable[[int], float] | None = None,
        regularizers: Sequence[Regularizer] = (),
    ):
        self.settings, self.regularizers = settings, tuple(regularizers)
        parted = [type(r).__name__ for r in self.regularizers if r.whole_batch]
        if parted and settings.accumulate > 1:
            raise UserError(
                f"all rows of a step are needed at once by {' and '.join(parted)}",
                got=f"accumulate={settings.accumulate}",
                do="Leave accumulate out, or the regulariser",
            )
        if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise UserError(
                "a schedule must depend on the step alone",
                got="ReduceLROnPlateau, which needs a metric",
                do="Use schedule='cosine', or stop early with patience=10",
            )
        self._given, self._schedule = optimizer, schedule
        self._scheduler = schedule if isinstance(schedule, torch.optim.lr_scheduler.LRScheduler) else None

    def bind(self, model: nn.Module, likelihood: Likelihood, total_steps: int) -> None:
        self.parameters = [p for p in (*model.parameters(), *likelihood.parameters()) if p.requires_grad]
        self.optimizer = self._given or optimizer_by_name(self.settings, self.parameters)
        self._closure = isinstance(self.optimizer, torch.optim.LBFGS) or getattr(self.optimizer, "needs_closure", False)
        carried = _carried(model, self.settings, self._closure) if self.settings.carry_state else None
        self.objective = Objective(model, likelihood, self.regularizers, carried)
        self._base = [group["lr"] for group in self.optimizer.param_groups]
        self._factor: Callable[[int], float] | None
        if self._schedule is None:
            named = self.settings.schedule, self.settings.warmup
            self._factor = schedule_by_name(*named, total_steps, self.steps_per_epoch)
        else:
            self._factor = None if self._scheduler is not None else cast(Callable[[int], float], self._schedule)
        self._apply = Direct(self.optimizer).step if Direct.fits(self.optimizer) else self.optimizer.step
        self._gradients: Repeated | None = None
        if total_steps >= _MANY and self.settings.accumulate == 1 and self.parameters and replayable([self.objective]):
            self._gradients = Repeated(self._loss_and_gradients)
            self._begun: Any = None

    @property
    def custom_schedule(self) -> bool:
        """Whether the learning rate is in the hands of a torch scheduler."""
        return self._scheduler is not None

    def step(self, batch: Batch, index: int) -> Tensor:
        self._set_rate(index)
        self.begin(index)
        if self._gradients is not None and index % self.steps_per_epoch == 0:
            self._look_again()
        if self._closure:
            loss = cast(Tensor, self.optimizer.step(cast(Any, lambda: self.backward(batch))))
        else:
            loss = self.backward(batch)
            self._apply()
        if self._scheduler is not None:
            self._scheduler.step()
        return loss.detach()

    def begin(self, index: int) -> None:
        """Before step `index`: states that are carried begin anew with each epoch."""
        if self.objective.carried is not None and index % self.steps_per_epoch == 0:
            self.objective.carried.restart()

    def backward(self, batch: Batch) -> Tensor:
        """Set the gradients of eq. 1, clipped; the batch's mean loss."""
        if self._gradients is not None:
            loss = self._replayed(batch)
        elif self.settings.accumulate == 1:
            self._forget()
            loss = self.loss(batch)
            loss.backward()
        else:
            self._forget()
            loss = torch.zeros((), device=batch.y.device)
            whole = len(batch) if batch.weight is None else batch.weight.sum()
            for part in batch.parts(self.settings.accumulate):
                share = self.loss(part, whole)  # eq. 1
                share.backward()
                loss = loss + share.detach()
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        return loss

    def _look_again(self) -> None:
        """Once an epoch: where the model is no longer what it was, steps run as they are written from now on."""
        now = described([self.objective])
        if self._begun is not None and now != self._begun:
            self._gradients = None
        self._begun = now

    def _forget(self) -> None:
        for p in self.parameters:
            p.grad = None

    def _replayed(self, batch: Batch) -> Tensor:
        """The gradients of eq. 1, unclipped, from a tape as soon as there is one."""
        loss, *gradients = self._gradients(*batch.columns())  # type: ignore[misc]
        for p, gradient in zip(self.parameters, gradients, strict=True):
            p.grad = gradient
        return cast(Tensor, loss)

    def _loss_and_gradients(self, *columns: Tensor | None) -> tuple[Tensor | None, ...]:
        loss = self.loss(Batch(*columns))  # type: ignore[arg-type]
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return loss.detach(), *(_laid_as(p, g) for p, g in zip(self.parameters, gradients, strict=True))

    def loss(self, batch: Batch, whole: Tensor | float | None = None) -> Tensor:
        """The batch's part of eq. 1, where `whole` is the weight of the batch that it is part of."""
        with self.autocast(batch):
            return self.objective.forward(batch, whole)  # straight to it: a module's call takes microseconds

    def autocast(self, batch: Batch) -> AbstractContextManager:
        if self.settings.precision == "bf16":
            return torch.autocast(batch.y.device.type, torch.bfloat16)
        return nullcontext()

    def rate(self, index: int) -> float:
        if self._factor is None:
            return float(self.optimizer.param_groups[0]["lr"])
        return float(self._base[0] * self._factor(index))

    def _set_rate(self, index: int) -> None:
        if self._factor is not None:
            factor = self._factor(index)
            for group, base in zip(self.optimizer.param_groups, self._base, strict=True):
                group["lr"] = base * factor

    def state(self) -> Any:
        state: dict[str, Any] = {"optimizer": self.optimizer.state_dict()["state"]}
        if self._scheduler is not None:
            plain = {k: v for k, v in self._scheduler.state_dict().items() if isinstance(v, (int, float, list))}
            state |= {"scheduler": plain, "groups": [_options(group) for group in self.optimizer.param_groups]}
        if self.objective.carried is not None:
            state["carried"] = dict(self.objective.carried.state_dict())
        return state

    def load_state(self, state: Any) -> None:
        groups = self.optimizer.state_dict()["param_groups"]
        entries = {int(index): entry for index, entry in state["optimizer"].items()}
        self.optimizer.load_state_dict({"state": entries, "param_groups": groups})
        self._apply = Direct(self.optimizer).step if Direct.fits(self.optimizer) else self.optimizer.step
        if self.objective.carried is not None:
            self.objective.carried.load_state_dict(state["carried"])  # in place
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state["scheduler"])
            for group, options in zip(self.optimizer.param_groups, state["groups"], strict=True):
                group.update(options)


def _carried(model: nn.Module, settings: Settings, again: bool) -> Carried:
    """First states of the rows of a batch, where all that a step does can go on from them.

    Args:
        again: whether the optimizer asks for the loss more than once a step.
    """
    if settings.accumulate > 1 or again:
        asked = f"accumulate={settings.accumulate}" if settings.accumulate > 1 else f"optimizer={settings.optimizer}"
        raise UserError(
            "states are carried by steps that read their rows once, all together", got=asked, do="Leave it out"
        )
    return carried_by(model, settings.batch)


def _laid_as(p: Tensor, gradient: Tensor | None) -> Tensor | None:
    """A gradient whose numbers lie in memory as its parameter's do: a fused update goes through both side by side."""
    if gradient is None or gradient.stride() == p.stride():
        return gradient
    return gradient.contiguous() if p.is_contiguous() else torch.empty_like(p).copy_(gradient)


def _options(group: dict[str, Any]) -> dict[str, Any]:
    """What a scheduler may have changed in a parameter group: rates, momenta, betas."""
    return {k: v for k, v in group.items() if isinstance(v, (int, float, list, tuple)) and k != "params"}
