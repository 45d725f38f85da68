"""fit → epoch → step. Everything else listens.

    for each epoch:   for each batch, in an order that is a pure function of (seed, epoch):   rule.step
                      validate;  keep the best weights;  stop early
    a value that is not finite rewinds the epoch to the step before it, so it never reaches the weights

The loop owns position, best weights and the decision to stop; it neither prints nor touches the disk.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.engine.evaluation import Evaluation, evaluate, outputs
from leadline.engine.events import EpochDone, Event, Listener, RunEnded, RunStarted, StepsDone
from leadline.engine.feed import Feed
from leadline.engine.packing import pack, unpack
from leadline.engine.state import State, copy, put, weights
from leadline.layers import noise
from leadline.likelihoods.likelihood import Likelihood
from leadline.optim.rule import Rule
from leadline.settings import Settings

_LOOK_SECONDS = 0.5  # between looks at the losses, each of which waits for the device
_DIVERGED = 100.0  # mean loss of an epoch over the first loss: no healthy run gets there


class NotFinite(Exception):
    """A step produced a value that is not finite; the loop stands just before it."""

    def __init__(self, step: int, batch: Batch, loss: float):
        super().__init__(f"step {step}: loss {loss}")
        self.step, self.batch, self.loss = step, batch, loss


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
        self.stop_asked = False

    def fit(self) -> State:
        """Train until the last epoch, an early stop, or a request to stop; the state at the end."""
        state = self.state
        self._say(RunStarted(self.settings.epochs, self.train.steps, state.step))
        self.model.train()
        while not state.ended and not self.stop_asked:
            self.epoch()
        if state.ended and state.best:
            put(weights(self.model, self.likelihood), state.best)
        self._say(RunEnded(state.epoch, state.step, state.ended or "interrupted"))
        return state

    def epoch(self) -> None:
        """The rest of the current epoch; returns early, between calls, when asked to stop."""
        state = self.state
        self._remember()
        looked = time.monotonic()
        first = state.step - state.epoch * self.train.steps
        for batches in self.train.calls(state.epoch, first, self.rule.steps_per_call):
            self.step(batches)
            if self.stop_asked and state.step < (state.epoch + 1) * self.train.steps:
                self._check_finite()
                return
            if time.monotonic() - looked > _LOOK_SECONDS:
                self._check_finite()
                looked = time.monotonic()
        self._check_finite()
        self._close_epoch()

    def step(self, batches: list[Batch]) -> None:
        """One call of the rule. Layers that draw from torch's generator find it seeded by (seed, step)."""
        state = self.state
        self._seed_torch()
        losses = self.rule.steps(batches, state.step)
        state.losses.append(losses)
        state.step += len(batches)
        self._say(StepsDone(state.epoch, state.step, losses))

    def advance_to(self, step: int) -> Batch:
        """Repeat steps, without validating, up to the call that holds `step`, then singly; that step's batch."""
        state = self.state
        while True:
            first = state.step - state.epoch * self.train.steps
            last_epoch = step // self.train.steps == state.epoch
            for batches in self.train.calls(state.epoch, first, self.rule.steps_per_call):
                if last_epoch and state.step + len(batches) > step:
                    for batch in batches:
                        self._seed_torch()
                        if state.step == step:
                            return batch
                        self.rule.step(batch, state.step)
                        state.step += 1
                self.step(batches)
            state.epoch, state.losses = state.epoch + 1, []

    def validate(self) -> Evaluation | None:
        """Metrics on the validation split."""
        if self.val is None:
            return None
        return evaluate(self.likelihood, outputs(self.model, self.val.x), self.val.y, self.val.weight)

    def _close_epoch(self) -> None:
        state, settings = self.state, self.settings
        losses = state.epoch_losses()
        mean = self._mean_loss(losses)
        state.first_loss = float(losses[0]) if state.first_loss is None else state.first_loss
        state.epoch += 1
        last = state.epoch == settings.epochs
        metrics, improved = {"train": {"loss": mean}}, False
        evaluation = self.validate() if state.epoch % settings.validate_every == 0 or last else None
        if evaluation is not None:
            metrics["val"] = dict(evaluation)
            improved = self._judge(evaluation)
        state.losses = []
        if not math.isfinite(mean) or mean > _DIVERGED * (abs(state.first_loss) + 1):
            state.ended = "diverged"
        elif settings.patience is not None and state.stale >= settings.patience:
            state.ended = "stopped early"
        elif last:
            state.ended = "finished"
        rate = self.rule.rate(state.step - 1)
        self._say(EpochDone(state.epoch, state.step, rate, metrics, improved, losses))

    def _judge(self, evaluation: Evaluation) -> bool:
        """Keep these weights if no earlier epoch scored higher; equal scores prefer the later epoch."""
        state = self.state
        score = evaluation[self.likelihood.headline] * (1 if self.likelihood.higher_is_better else -1)
        if math.isnan(score) or (state.best_score is not None and score < state.best_score):
            state.stale += 1
            return False
        state.stale = 0 if state.best_score is None or score > state.best_score else state.stale + 1
        state.best_score, state.best_epoch = score, state.epoch
        state.best = copy(weights(self.model, self.likelihood))
        return True

    def _mean_loss(self, losses: Tensor) -> float:
        """Sample-weighted mean over the epoch: a smaller last batch counts for less."""
        sizes = torch.full((len(losses),), float(self.train.batch), dtype=torch.float64, device=losses.device)
        if len(self.train) % self.train.batch:
            sizes[-1] = len(self.train) % self.train.batch
        return float((losses.double() * sizes).sum() / sizes.sum())

    def _remember(self) -> None:
        """Keep the state at the start of this stretch, to rewind to."""
        tensors, skeleton = pack(self.rule.state())
        self._good = (self.state.step, len(self.state.losses), copy(weights(self.model, self.likelihood)))
        self._good_rule = (copy(tensors), skeleton)

    def _check_finite(self) -> None:
        losses = self.state.epoch_losses()
        finite = torch.isfinite(losses)
        if bool(finite.all()) and all(bool(t.isfinite().all()) for t in self.model.parameters()):
            return
        bad = int((~finite).nonzero()[0]) if not bool(finite.all()) else len(losses)
        self._rewind(bad)

    def _rewind(self, bad: int) -> None:
        """Replay from the last good state up to the step that broke, one step at a time, and stand before it."""
        state = self.state
        step, kept, values = self._good
        put(weights(self.model, self.likelihood), values)
        self.rule.load_state(unpack(self._good_rule[1], copy(self._good_rule[0])))
        state.step, state.losses = step, state.losses[:kept]
        first = step - state.epoch * self.train.steps
        for batches in self.train.calls(state.epoch, first, 1):
            before = copy(weights(self.model, self.likelihood))
            tensors, skeleton = pack(self.rule.state())
            tensors = copy(tensors)
            self._seed_torch()
            loss = self.rule.steps(batches, state.step)
            broken = not bool(loss.isfinite().all()) or not all(
                bool(p.isfinite().all()) for p in self.model.parameters()
            )
            if broken or state.step - state.epoch * self.train.steps >= bad:
                put(weights(self.model, self.likelihood), before)
                self.rule.load_state(unpack(skeleton, tensors))
                state.ended = "diverged"
                raise NotFinite(state.step, batches[0], float(loss[0]))
            state.losses.append(loss)
            state.step += 1

    def _seed_torch(self) -> None:
        """Seed the generators of this run's device alone: torch.manual_seed visits every back end, for 1 ms a call."""
        seed = noise.mix_int(self.settings.seed, self.state.step, 1)
        torch.default_generator.manual_seed(seed)
        if self.train.y.is_cuda:
            torch.cuda.default_generators[self.train.y.device.index or 0].manual_seed(seed)

    def _say(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)
