"""fit → epoch → step. Everything else listens.

    for each epoch:   for each batch, in an order that is a pure function of (seed, epoch):   rule.step
                      validate;  keep the best weights;  stop early
    at the end:       with the best weights, settle how far y strays from the output
    a value that is not finite rewinds the epoch to the step before it, so it never reaches the weights

The loop owns position, best weights and the decision to stop; it neither prints nor touches the disk.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leadline.data.data import Batch
from leadline.engine.average import average_for
from leadline.engine.computing import mixed
from leadline.engine.evaluation import Evaluation, assess, outputs_of
from leadline.engine.events import EpochDone, Event, Listener, RunEnded, RunStarted, StepsDone
from leadline.engine.feed import Feed
from leadline.engine.packing import pack, unpack
from leadline.engine.spread import settle_spread
from leadline.engine.state import State, copy, put, weights
from leadline.layers import noise
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.rule import Rule
from leadline.settings import Settings

_LOOK_SECONDS, _LOOK_SHARE = 0.5, 0.01  # least time between looks at the losses, and the most of it that they may take
DIVERGED = 100.0  # mean loss of an epoch over the first loss: no healthy run gets there
_ROWS = 20_000  # of a split are enough to settle a few numbers


class NotFinite(Exception):
    """A step produced a value that is not finite; the loop stands just before it."""

    def __init__(self, step: int, batch: Batch, loss: float):
        super().__init__(f"step {step}: loss {loss}")
        self.step, self.batch, self.loss = step, batch, loss


class Arriving:
    """Losses on their way to the host: asked whether they have come, or waited for."""

    def __init__(self, losses: Tensor):
        self.values, self.event = losses, None
        if losses.is_cuda:
            self.values = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=True)
            self.values.copy_(losses, non_blocking=True)
            self.event = torch.cuda.Event()
            self.event.record()

    def here(self) -> bool:
        return self.event is None or self.event.query()

    def read(self) -> Tensor:
        if self.event is not None:
            self.event.synchronize()
        return self.values


class Loop:
    """Args:
    train, val: the splits as fed to the network; `val` may be None.
    rule: bound to `model` and `likelihood`.
    state: where to begin; a fresh one begins at the beginning.
    listeners: called with every event, in order.
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        train: Feed,
        val: Feed | None,
        rule: Rule,
        settings: Settings,
        state: State | None = None,
        listeners: Iterable[Listener] = (),
    ):
        self.model, self.likelihood, self.train, self.val = model, likelihood, train, val
        self.rule, self.settings = rule, settings
        self.state = state or State()
        self.listeners = tuple(listeners)
        self.average = average_for(model, likelihood, settings, train, rule)
        self.stop_asked = False
        self._good: tuple[int, int, dict[str, Tensor], dict[str, Tensor], Any] | None = None
        self._looked, self._pause = 0.0, _LOOK_SECONDS
        self._unsettled: deque[tuple[int, int, Arriving]] = deque()  # epochs that are over but not announced

    def fit(self) -> State:
        """Train until the last epoch, an early stop, or a request to stop; the state at the end."""
        state = self.state
        self._say(RunStarted(self.settings.epochs, self.train.steps, state.step))
        self.learn()
        while not state.ended and not self.stop_asked:
            self.epoch()
        if state.ended and state.best:
            put(weights(self.model, self.likelihood), state.best)
            self._settle_spread()
        elif state.ended and self.average is not None:
            put(weights(self.model, self.likelihood), self.average.weights())
        self._say(RunEnded(state.epoch, state.step, state.ended or "interrupted"))
        return state

    def learn(self) -> None:
        """Put the model into training mode, but for normalisations whose weights are held still: their statistics are
        as much part of what was learned before.
        """
        self.model.train()
        for norm in (module for module in self.model.modules() if isinstance(module, _BatchNorm)):
            if norm.affine and not any(p.requires_grad for p in norm.parameters()):
                norm.eval()

    def _settle_spread(self) -> None:
        """With the kept weights, where a rule that goes step by step may have left it on its way."""
        if self.rule.by_gradient and settled(self.model, self.likelihood, self.train, self.val):
            self.state.best = copy(weights(self.model, self.likelihood))

    def epoch(self) -> None:
        """The rest of the current epoch; returns early, between calls, when asked to stop."""
        state = self.state
        if self._good is None:
            self._remember()
        for batches in self._calls():
            self.step(batches)
            if self.stop_asked and state.step < (state.epoch + 1) * self.train.steps:
                self._check_finite()
                return
            if time.monotonic() - self._looked > self._pause:
                self.settle()
                begun = time.monotonic()
                self._check_finite()
                self._remember()
                self._pause = max(_LOOK_SECONDS, (self._looked - begun) / _LOOK_SHARE)
        self._close_epoch()

    def step(self, batches: Sequence[Batch]) -> None:
        """One call of the rule."""
        state = self.state
        losses = self._move(batches)
        state.losses.append(losses)
        state.step += len(batches)
        if self.average is not None:
            self.average.stepped(len(batches))
        self._say(StepsDone(state.epoch, state.step, losses))

    def advance_to(self, step: int) -> Batch:
        """Repeat steps in silence, without validating, until `step` is next; its batch."""
        state = self.state
        while True:
            target = step if step // self.train.steps == state.epoch else (state.epoch + 1) * self.train.steps
            for batches in self._calls():
                if state.step + len(batches) <= target:
                    self._move(batches)
                    state.step += len(batches)
                    continue
                for batch in batches:
                    self._seed_torch()
                    if state.step == step:
                        return batch
                    self.rule.step(batch, state.step)
                    state.step += 1
            state.epoch, state.losses = state.epoch + 1, []

    def _calls(self) -> Iterator[Sequence[Batch]]:
        first = self.state.step - self.state.epoch * self.train.steps
        return self.train.calls(self.state.epoch, first, self.rule.steps_per_call)

    def _move(self, batches: Sequence[Batch]) -> Tensor:
        self._seed_torch()
        return self.rule.steps(batches, self.state.step)

    def validate(self) -> Evaluation | None:
        """Metrics on the validation split."""
        if self.val is None:
            return None
        averaged = nullcontext() if self.average is None else self.average.in_place()
        with averaged, mixed(self.settings.precision, self.val.device):
            if self.settings.carry_state:
                return assess(self.model, self.likelihood, self.val.in_streams(), spans=False, streams=self.val.batch)
            return assess(self.model, self.likelihood, self.val.in_order(), spans=False)

    def _close_epoch(self) -> None:
        """The epoch is over. On a GPU, one that is not validated is settled when its losses have come by themselves."""
        state, settings = self.state, self.settings
        last = state.epoch + 1 == settings.epochs or self.rule.finished
        if self.average is not None and self.average.epoch_done(state.epoch + 1, last):
            state.best_score, state.best_epoch, state.stale = None, 0, 0  # the best is among the averages
        validating = self.val is not None and ((state.epoch + 1) % settings.validate_every == 0 or last)
        self._unsettled.append((state.epoch + 1, state.step, Arriving(state.epoch_losses())))
        evaluation = self.validate() if validating else None
        if last or (evaluation is not None and not math.isfinite(evaluation.get("nll", 0.0))):
            self._check_finite()
        state.epoch, state.losses = state.epoch + 1, []
        self.settle(evaluation, wait=validating or last or self.stop_asked)

    def settle(self, evaluation: Evaluation | None = None, wait: bool = True) -> None:
        """Read the losses of the epochs that are over, decide what follows from them, and announce the epochs.

        Args:
            evaluation: of the last of them.
            wait: for losses that are still on their way from the device.
        """
        state, settings = self.state, self.settings
        while self._unsettled and (wait or self._unsettled[0][2].here()):
            epoch, step, arriving = self._unsettled.popleft()
            losses = arriving.read()
            mean = self._mean_loss(losses, epoch - 1)
            if not math.isfinite(mean):
                self._rewind(epoch - 1)
            state.first_loss = float(losses[0]) if state.first_loss is None else state.first_loss
            metrics, improved = {"train": {"loss": mean}}, False
            if evaluation is not None and epoch == state.epoch:
                metrics["val"] = dict(evaluation)
                improved = self._judge(evaluation)
            if mean > DIVERGED * (abs(state.first_loss) + 1):
                state.ended = "diverged"
            elif settings.patience is not None and state.stale >= settings.patience:
                state.ended = "stopped early"
            elif epoch == settings.epochs or (self.rule.finished and not self._unsettled):
                state.ended = "finished"
            self._say(EpochDone(epoch, step, self.rule.rate(step - 1), metrics, improved, losses))

    def _judge(self, evaluation: Evaluation) -> bool:
        """Keep these weights if no earlier epoch scored higher, or if the rule wants its last ones; equal scores prefer
        the later epoch."""
        state = self.state
        score = evaluation[self.likelihood.headline] * (1 if self.likelihood.higher_is_better else -1)
        if math.isnan(score) and self.likelihood.headline == "r2":  # y that does not vary has none
            score = -evaluation.get("nll", math.nan)
        worse = state.best_score is not None and score < state.best_score
        if math.isnan(score) or (worse and not self.rule.latest_is_best):
            state.stale += 1
            return False
        state.stale = 0 if state.best_score is None or score > state.best_score else state.stale + 1
        state.best_score, state.best_epoch = score, state.epoch
        state.best = copy(weights(self.model, self.likelihood)) if self.average is None else self.average.weights()
        return True

    def _mean_loss(self, losses: Tensor, epoch: int) -> float:
        """Sample-weighted mean over the epoch: a batch counts by the weight of its rows."""
        return float(losses.double() @ self.train.shares(epoch))

    def _remember(self) -> None:
        """Keep this state to rewind to, should a value stop being finite."""
        tensors, skeleton = pack(self.rule.state())
        values = copy(weights(self.model, self.likelihood))
        self._good = (self.state.step, self.state.epoch, values, copy(tensors), skeleton)
        self._looked = time.monotonic()

    def _check_finite(self) -> None:
        values = [self.state.epoch_losses(), *self.model.parameters(), *self.likelihood.parameters()]
        if not bool(torch.stack([value.isfinite().all() for value in values]).all()):
            self._rewind(self.state.epoch)

    def _rewind(self, broken_epoch: int) -> NoReturn:
        """Go back to the last good state, repeat up to the step that broke, and stand just before it."""
        state = self.state
        if self._good is None:
            raise RuntimeError("the loop has a state only from its first step on")
        step, state.epoch, good, tensors, skeleton = self._good
        self._restore(good, tensors, skeleton)
        state.step, state.losses, state.ended = step, [], "diverged"
        self._unsettled.clear()
        start = max(step, broken_epoch * self.train.steps)
        while True:  # the first step whose loss or update is not finite, one by one from the broken epoch's start on
            batch = self.advance_to(start)
            before = copy(weights(self.model, self.likelihood))
            tensors, skeleton = pack(self.rule.state())
            tensors = copy(tensors)
            loss = self.rule.step(batch, state.step)
            values = (loss, *self.model.parameters(), *self.likelihood.parameters())
            if not all(bool(v.isfinite().all()) for v in values) or self._past(start):
                self._restore(before, tensors, skeleton)
                raise NotFinite(state.step, batch, float(loss))
            state.step = start = start + 1
            if start % self.train.steps == 0:
                state.epoch += 1

    def _past(self, step: int) -> bool:
        """Whether this is the run's last step: compiled steps may overflow where single ones do not."""
        return step == self.settings.epochs * self.train.steps - 1

    def _restore(self, values: dict[str, Tensor], tensors: dict[str, Tensor], skeleton: Any) -> None:
        put(weights(self.model, self.likelihood), values)
        self.rule.load_state(unpack(skeleton, copy(tensors)))

    def _seed_torch(self) -> None:
        """Layers that draw from torch's generators find them seeded by (seed, step).

        Those of this run's device alone: torch.manual_seed visits every back end, which takes longer than a step.
        """
        seed = noise.mix_int(self.settings.seed, self.state.step, 1)
        torch.default_generator.manual_seed(seed)
        if self.train.device.type == "cuda":
            torch.cuda.default_generators[self.train.device.index or 0].manual_seed(seed)

    def _say(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


def settled(model: nn.Module, likelihood: Likelihood, train: Feed, val: Feed | None) -> bool:
    """Settle how far y strays from the output, where the likelihood learns that at all; whether it does."""
    if val is None or not likelihood.spread:
        return False
    rows, known = (
        (outputs_of(model, (b.x for b in feed.in_order(_ROWS))), feed.answers(_ROWS), _weights(feed)[:_ROWS])
        for feed in (val, train)
    )
    settle_spread(likelihood, rows, known)
    return True


def _weights(feed: Feed) -> Tensor:
    """One a row; 1 where the rows have none."""
    return torch.ones(len(feed), device=feed.device) if feed.weight is None else feed.weight
