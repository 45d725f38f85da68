"""A listener that looks into the model while it trains: rarely, cheaply, and without touching it.

It looks after epochs 1, 2, 4, 8, 16 …: trouble begins early, and a thousand epochs cost ten looks. What it accuses must
show in two looks in a row, because a model passes through odd places on its way.

    change per step  r_W = |W_end - W_begin| / (|W_end| · steps of the epoch)        (1)

(1) is estimated from 256 values of each weight matrix, which gives it within about 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leadline.doctor.finding import Finding
from leadline.doctor.look import Look, look
from leadline.doctor.spikes import Spikes
from leadline.doctor.through_time import exploding as exploding_in_time
from leadline.doctor.through_time import vanishing as vanishing_in_time
from leadline.doctor.words import percent, some
from leadline.engine.events import EpochDone, Event, RunEnded, RunStarted
from leadline.likelihoods.likelihood import Likelihood

# Where all inputs are positive, half of the units are dead from the draw on, and such nets learn: half is worth a
# record, and three quarters are more than the draw explains.
DEAD_NOTE, DEAD_WARNING = 0.5, 0.75
# In layers of fewer units that many deaths are an accident; a layer that is all dead is named at any width.
DEAD_UNITS = 16
# Half of all activations on the flat ends: as far as learning goes, half of the layer is switched off.
SATURATED_SHARE = 0.5
# Float32 adds two numbers a million apart with one digit of the smaller left: a first layer that gets a millionth of
# the last one's gradient stands still under any one learning rate.
GRADIENT_RATIO = 1e6
# A good step changes weights by a thousandth. At a tenth a step, ten steps write a new network; and over an epoch of
# many steps, back and forth, a quarter of the weights' size is as much as large steps leave behind …
LARGE_CHANGE, LARGE_TOTAL = 0.1, 0.25
# … which is a fault where it leads nowhere: the loss stays this share above that of the very first step.
ABOVE_START = 0.05
# A matrix that moves by less than this over the whole run is still the random draw that it began as …
SMALL_TOTAL = 1e-3
# … and where the length of the run is not known: ten thousand steps of this size are a thousandth.
SMALL_CHANGE = 1e-7
# The loss has "not fallen" when it lost less than a hundredth.
FALLEN = 0.01
SAMPLE = 256


class Watch:
    """Args:
        model: the model in training.
        likelihood: its likelihood.
        x, y: a probe of training rows, x as the network reads it; 128 to 512 rows are right.
        rows: their numbers in the source, for messages.
        precision: in which the model trains.

    `findings` grows as epochs end. Epochs are counted from 1.

    >>> from leadline.likelihoods import Normal
    >>> net = nn.Linear(2, 1)
    >>> watch = Watch(net, Normal(), torch.randn(64, 2), torch.randn(64))
    >>> watch(RunStarted(epochs=1, steps_per_epoch=4))
    >>> watch(EpochDone(1, 4, 0.1, {"train": {"loss": 1.0}}, True, losses=torch.ones(4)))
    >>> [finding.code for finding in watch.findings]  # nothing moved, but one look proves nothing
    []
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: Likelihood,
        x: Tensor,
        y: Tensor,
        rows: Sequence[int] | Tensor | None = None,
        precision: str = "float32",
    ):
        self.model, self.likelihood, self.x, self.y = model, likelihood, x, y
        self.rows, self.precision = rows, precision
        self.findings: list[Finding] = []
        self._spikes = Spikes()
        self._streaks: dict[str, int] = {}
        self._weights: dict[str, list[float]] = {}  # values sampled where the epoch to be looked at began
        self._step = 0  # of that sample
        self._first_loss: float | None = None  # mean of the first epoch
        self._start: float | None = None  # of the very first step
        self._planned: int | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._planned = event.epochs * event.steps_per_epoch
            if not self._weights:
                self._sample(event.step)
        elif isinstance(event, EpochDone):
            self._epoch(event)
        elif isinstance(event, RunEnded) and event.reason != "interrupted":  # an interrupted run goes on elsewhere
            self._say(*self._spikes.end())

    def _epoch(self, event: EpochDone) -> None:
        losses = event.losses.detach().reshape(-1).tolist()
        self._say(*self._spikes.feed(losses, event.step))
        loss = event.metrics.get("train", {}).get("loss")
        if loss is None and losses:
            loss = sum(losses) / len(losses)
        if self._first_loss is None:
            self._first_loss, self._start = loss, losses[0] if losses else None
        if _power_of_two(event.epoch):
            seen = look(self.model, self.likelihood, self.x, self.y, self.precision)
            fallen = _fallen(self._first_loss, loss)
            self._activations(seen, event.epoch, fallen)
            self._gradients(seen, event.epoch)
            self._through_time(seen, event.epoch, fallen)
            self._changes(event, loss, fallen=fallen)
        if _power_of_two(event.epoch + 1):
            self._sample(event.step)

    def _activations(self, seen: Look, epoch: int, fallen: bool) -> None:
        for layer, (share, units) in seen.dead.items():
            wide = units >= DEAD_UNITS or share == 1
            noted = self._twice(f"half dead {layer}", share > DEAD_NOTE and wide)
            warned = self._twice(f"dead {layer}", share > DEAD_WARNING and wide)
            if warned or noted:
                count = f"{round(share * units)} of {units} units ({percent(share)})"
                found = f"{count} are zero for all {len(self.y)} probe rows"
                self._say(
                    Finding(
                        "dead-units",
                        "warning" if warned else "note",
                        "most units of this layer are zero for every example",
                        f"{layer}, epoch {epoch}",
                        found,
                        "Lower the learning rate, scale the inputs, or use leaky_relu: a dead unit does not learn",
                    )
                )
        for layer, share in seen.saturated.items():
            # later on, a net that has learned may well be sure of itself: then only one that has not is ill
            ill = share > SATURATED_SHARE and (epoch <= 2 or not fallen)
            if self._twice(f"saturated {layer}", ill):
                found = f"{percent(share)} of its activations lie where the slope is below 1 % of the steepest"
                self._say(
                    Finding(
                        "saturated-units",
                        "warning",
                        "most activations of this layer lie where the function is flat",
                        f"{layer}, epoch {epoch}",
                        found,
                        "Scale the inputs to deviation 1, start with smaller weights, or lower the learning rate",
                    )
                )

    def _gradients(self, seen: Look, epoch: int) -> None:
        if self._twice("disconnected", bool(seen.disconnected)):
            count = len(seen.disconnected)
            self._say(
                Finding(
                    "disconnected-parameters",
                    "warning",
                    "some parameters have no influence on the loss",
                    some(seen.disconnected),
                    f"no gradient reaches {count} of the model's trainable tensors",
                    "Use them in forward (look for a detach or a layer that is never called), or freeze or remove them",
                )
            )
        names = list(seen.gradients)
        first, last = (seen.gradients[names[0]], seen.gradients[names[-1]]) if len(names) > 1 else (1.0, 1.0)
        comparable = last > 0 and first < float("inf")
        blocked = any(share == 1 for share, _ in seen.dead.values())  # a dead layer stops it too, and is named already
        vanishing = comparable and first < last / GRADIENT_RATIO and (first > 0 or not blocked)
        in_time = any(reach.grown for reach in seen.through_time)  # it grows there, and is named there
        exploding = comparable and first > last * GRADIENT_RATIO and not in_time
        for code, ill, what, do in (
            ("vanishing-gradient", vanishing, "hardly any gradient reaches the first layer",
             "Use relu instead of sigmoid or tanh, add normalisation (norm='layer') or residual=True"),
            ("exploding-gradient", exploding, "the gradient grows out of bounds on its way to the first layer",
             "Start with smaller weights, add normalisation (norm='layer'), or clip the gradient (clip=1.0)"),
        ):  # fmt: skip
            if self._twice(code, ill):
                found = f"{first:.2g} in {names[0]} against {last:.2g} in {names[-1]}, ratio {first / last:.1g}"
                self._say(Finding(code, "warning", what, f"{names[0]}, epoch {epoch}", found, do))

    def _through_time(self, seen: Look, epoch: int, fallen: bool) -> None:
        when = f"epoch {epoch}"
        for reach in seen.through_time:
            if self._twice(f"exploding in time {reach.path}", reach.grown):
                self._say(exploding_in_time(reach, when))
            # where the loss falls, what happened long ago may not matter: that is worth a record
            warned = self._twice(f"vanishing in time {reach.path}", reach.faded and not fallen and epoch > 1)
            noted = self._twice(f"half vanishing in time {reach.path}", reach.faded)
            if warned or noted:
                self._say(vanishing_in_time(reach, when, "warning" if warned else "note"))

    def _changes(self, event: EpochDone, loss: float | None, *, fallen: bool) -> None:
        steps = event.step - self._step
        now = self._values() if self._weights and steps > 0 else {}
        rates = {}
        for name, values in now.items():
            if name in self._weights:
                begin, end = torch.tensor(self._weights[name], dtype=torch.float64), torch.tensor(values).double()
                rates[name] = float((end - begin).norm() / end.norm().clamp(min=1e-30)) / steps  # eq. 1
        if not rates:
            return
        fastest = max(rates, key=lambda name: rates[name])
        rate = rates[fastest]
        start = self._start
        lost = loss is not None and start is not None and loss - start > ABOVE_START * abs(start)
        large = rate > LARGE_CHANGE or rate * steps > LARGE_TOTAL
        if self._twice("large", large and lost and event.epoch > 1):
            found = (
                f"it changed by {percent(rate * steps)} of its size in {steps} steps (0.1 % a step is usual), and the "
                f"loss is {loss:.3g}, above the {start:.3g} it began with"
            )
            self._say(
                Finding(
                    "large-updates",
                    "warning",
                    "each step rewrites the weights instead of adjusting them",
                    f"{fastest}, epoch {event.epoch}",
                    found,
                    "Lower the learning rate (try a hundredth)",
                )
            )
        left = SMALL_TOTAL / self._planned if self._planned else SMALL_CHANGE
        explained = any(
            count for key, count in self._streaks.items() if not key.startswith(("small", "half", "vanishing in"))
        )
        if self._twice("small", rate < max(left, SMALL_CHANGE) and not fallen and not explained):
            found = (
                f"even {fastest}, the fastest, changes by {rate:.1g} of its size each step, and the loss has not fallen"
            )
            self._say(
                Finding(
                    "small-updates",
                    "warning",
                    "the weights hardly move",
                    f"{fastest}, epoch {event.epoch}",
                    found,
                    "Raise the learning rate (a usual one for adamw is 0.003), and check that the model is not frozen",
                )
            )

    def _values(self) -> dict[str, list[float]]:
        values = {}
        for name, p in self.model.named_parameters():
            if p.requires_grad and p.dim() > 1:
                flat = p.detach().reshape(-1)
                stride = (flat.numel() // SAMPLE) | 1  # odd, so as not to walk down a single column
                at = torch.arange(min(SAMPLE, flat.numel()), device=flat.device) * stride % flat.numel()
                values[name] = flat[at].tolist()
        return values

    def _sample(self, step: int) -> None:
        self._weights, self._step = self._values(), step

    def _twice(self, key: str, ill: bool) -> bool:
        """Whether the second look in a row finds `key` ill (the third and later say nothing new)."""
        self._streaks[key] = self._streaks.get(key, 0) + 1 if ill else 0
        return self._streaks[key] == 2

    def _say(self, *findings: Finding) -> None:
        for finding in findings:
            place = finding.where.rpartition(", epoch")[0]
            same = lambda f: (f.code, f.severity, f.where.rpartition(", epoch")[0])  # noqa: E731
            if not place or same(finding) not in map(same, self.findings):
                self.findings.append(finding)

    def state(self) -> dict[str, Any]:
        """All that a resumed run needs to go on as if nothing had happened; plain enough for JSON."""
        return {
            "findings": [finding.to_dict() for finding in self.findings],
            "spikes": self._spikes.state(),
            "streaks": dict(self._streaks),
            "weights": {name: list(values) for name, values in self._weights.items()},
            "step": self._step,
            "first_loss": self._first_loss,
            "start": self._start,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.findings = [Finding(**finding) for finding in state["findings"]]
        self._spikes.load_state(state["spikes"])
        self._streaks, self._step = dict(state["streaks"]), state["step"]
        self._weights = {name: list(values) for name, values in state["weights"].items()}
        self._first_loss, self._start = state["first_loss"], state["start"]


def _power_of_two(epoch: int) -> bool:
    return epoch > 0 and epoch & (epoch - 1) == 0


def _fallen(first: float | None, now: float | None) -> bool:
    if first is None or now is None:
        return False
    return first - now > FALLEN * abs(first)
