"""How large may the learning rate be? A short run on a copy, its rate rising from step to step (Smith, 2017).

    η_k = low · (high / low)^{k / (n - 1)}                          rate of step k                                 (1)
    L_k = mean loss of some fixed rows after step k                 steps see batches, L always the same rows      (2)
    it ends when L_k > L_0 + 3 (L_0 - min L) + 4 e                  the loss runs away                             (3)
    proposed = rate of the steepest fall of L over log η            and at most a third of the rate at which       (4)
                                                                    L is least

At rates that are too low nothing happens, at those that are too high the loss rises; between them lies the fall. Where
no fall is larger than e, or the loss still falls at the end, or rises at once, there is no proposal, and the verdict
says why.

Notation   e -> standard error of L_0 over its rows, at least 0.5 % of it;  before (4) five neighbours are averaged
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from leadline.data.data import Data
from leadline.engine.feed import Feed
from leadline.errors import UserError
from leadline.layers.noise import draws_noise, example_keys, keyed
from leadline.lens.rows import family_of, rows_of
from leadline.lens.style import HUES, INK, PATH, SOFT, blank, label, short, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood
from leadline.optim.gradient import Gradient
from leadline.settings import Settings, given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS = 1000  # that L is measured on
_SEED = 1  # of their noise, always the same


@dataclass(frozen=True, eq=False)
class Rates(View):
    """The losses of a run whose rate rose.

    Args:
        rate, loss, smooth: of each step that was made, the loss on the fixed rows after it.
        before, error: loss on these rows before the first step, and its standard error.
        proposed: a learning rate to begin with, or None.
        verdict: why that one, or why none.
        ended: whether the loss ran away before the highest rate.
        optimizer: whose rate it is.
    """

    rate: np.ndarray
    loss: np.ndarray
    smooth: np.ndarray
    before: float
    error: float
    proposed: float | None
    verdict: str
    ended: bool
    optimizer: str

    @styled
    def plot(self) -> Figure:
        figure = blank(6.4, 3.9)
        ax = figure.subplots()
        ax.plot(self.rate, self.loss, ".", ms=3.5, color=SOFT, alpha=0.5, label="loss after a step")
        ax.plot(self.rate, self.smooth, color=HUES[0], label="smoothed")
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter(lambda value, _: "")
        if self.proposed is not None:
            height = float(np.interp(math.log(self.proposed), np.log(self.rate), self.smooth))
            ax.axvline(self.proposed, color=PATH, lw=1.0)
            ax.plot(
                self.proposed, height, "o", ms=6, color=PATH, mec="white", label=f"proposed: {short(self.proposed)}"
            )
        finite = self.smooth[np.isfinite(self.smooth)]
        if len(finite):
            low = float(finite.min())
            high = float(min(finite.max(), self.before + (self.before - low) + 4 * self.error))
            margin = 0.08 * (high - low) or 0.1
            ax.set_ylim(low - margin, high + margin)
        label(ax, "Which learning rate?", f"learning rate of {self.optimizer}, rising", "mean loss of a row", legend=3)
        words = figure.supxlabel(_wrapped(self.verdict), fontsize=8, color=SOFT if self.proposed is not None else INK)
        words.set_horizontalalignment("center")
        return figure


def _wrapped(text: str) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, 96))


def rates(
    model: nn.Module,
    data: Data,
    *,
    likelihood: Likelihood | str | None = None,
    optimizer: str = "adamw",
    low: float = 1e-6,
    high: float = 10.0,
    num: int = 100,
    batch: int = 64,
    seed: int = 0,
    **settings: Any,
) -> Rates:
    """Look for a learning rate on a copy of `model`; it and its weights stay as they are.

    Args:
        likelihood: a family or its name; None takes the target's.
        optimizer: the rule whose rate is looked for, by name.
        low, high: the first rate and the last, above 0, `high` above `low`.
        num: steps, at least 20.  batch: rows a step, at least 1.  seed: of the rows' order and of noise.
        settings: others that `fit` will have: momentum, weight_decay, clip.

    >>> import leadline as ll
    >>> data = ll.data.moons(num=200)
    >>> view = rates(ll.models.build("MLP", 2, 1, seed=0), data)
    >>> 1e-4 < view.proposed < 1
    True
    """
    if not isinstance(model, nn.Module) or not isinstance(data, Data):
        raise UserError(
            "rates takes a torch module and then Data",
            got=f"{type(model).__name__} and {type(data).__name__}",
            do="Write ll.lens.rates(model, data)",
        )
    low, high = real("low", low, 0, above=True, usual=1e-6), real("high", high, 0, above=True, usual=10.0)
    num, batch = whole("num", num, 20, usual=100), whole("batch", batch, usual=64)
    if high <= low:
        raise UserError("high must be above low", got=f"low={low:g}, {given('high', high)}", do="Leave both out")
    first = next((p for p in model.parameters() if p.requires_grad), None)
    if first is None:
        raise UserError("a model must have weights to learn", got=f"none in {type(model).__name__}", do="Unfreeze some")
    asked = Settings.make(
        optimizer=optimizer, lr=1.0, warmup=0.0, schedule="constant", batch=batch, seed=seed, **settings
    )
    at = [low * (high / low) ** (k / (num - 1)) for k in range(num)]  # eq. 1
    devices = [first.device] if first.is_cuda else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        twin = copy.deepcopy(model).train()
        family = copy.deepcopy(family_of(rows_of(data), likelihood)).to(first.device, first.dtype)
        feed = Feed(
            data.train, data.inputs, min(batch, len(data.train)), seed, first.device, first.dtype, draws_noise(twin)
        )
        rule = Gradient(asked, schedule=lambda step: at[min(step, num - 1)])
        rule.steps_per_epoch = feed.steps
        rule.bind(twin, family, num)
        probe = _Probe(rule, feed, seed)
        before, error = probe.loss()
        losses = _losses(rule, feed, probe, num, before, error) if math.isfinite(before) else []
    return _judged(np.array(at[: len(losses)]), np.array(losses), before, error, num, optimizer)


class _Probe:
    """The mean loss of fixed rows, with the same noise each time (2)."""

    def __init__(self, rule: Gradient, feed: Feed, seed: int):
        step = max(1, -(-len(feed) // _ROWS))
        index = torch.arange(0, len(feed), step, device=feed.device)
        keys = example_keys(seed, _SEED, index) if feed.keyed or feed.inputs.draws else None
        self.rule, self.weight = rule, None if feed.weight is None else feed.weight[index]
        self.x, self.y = feed.inputs.drawn(feed.read(feed.raw[::step]), feed.answers(len(feed), step), keys)
        self.keys = keys if feed.keyed else None

    @torch.no_grad()
    def loss(self) -> tuple[float, float]:
        """The mean, and its standard error."""
        objective = self.rule.objective
        devices = [self.y.device] if self.y.is_cuda else []
        with torch.random.fork_rng(devices=devices), keyed(self.keys):
            torch.manual_seed(_SEED)
            losses = objective.likelihood.loss(objective.model(self.x), self.y).double()
        w = torch.ones_like(losses) if self.weight is None else self.weight.double()
        mean = (losses * w).sum() / w.sum()
        error = ((losses - mean).square() * w).sum().div(w.sum()).div(max(1, len(losses) - 1)).sqrt()
        return float(mean), max(float(error), 0.005 * abs(float(mean)))


def _losses(rule: Gradient, feed: Feed, probe: _Probe, num: int, before: float, error: float) -> list[float]:
    """Until the last rate, or until the loss runs away (3)."""
    found: list[float] = []
    epoch = 0
    while True:
        for [batch] in feed.calls(epoch, 0, 1):
            rule.step(batch, len(found))
            found.append(probe.loss()[0])
            top = before + 3 * max(before - min(found), 0.0) + 4 * error
            if len(found) == num or not found[-1] <= top:
                return found
        epoch += 1


def _smoothed(loss: np.ndarray) -> np.ndarray:
    """Means over five neighbours, fewer at the ends."""
    return np.array([loss[max(0, k - 2) : k + 3].mean() for k in range(len(loss))])


def _judged(rate: np.ndarray, loss: np.ndarray, before: float, error: float, num: int, optimizer: str) -> Rates:
    ended = len(loss) < num or not np.isfinite(loss).all()
    whole_ = int(np.isfinite(loss).sum())
    smooth = np.full(len(loss), np.nan)
    smooth[:whole_] = _smoothed(loss[:whole_])

    def view(proposed: float | None, verdict: str) -> Rates:
        return Rates(rate, loss, smooth, before, error, proposed, verdict, ended, optimizer)

    if not math.isfinite(before):
        why = "the first loss is not finite, so no rate can help; look at the data and the first weights"
        return view(None, f"No proposal: {why}.")
    if whole_ <= num // 10:
        why = f"the loss diverged within {len(loss)} steps, at rates from {rate[0]:.2g} on; start lower, low="
        return view(None, f"No proposal: {why}.")
    least = int(smooth[:whole_].argmin())
    fall = before - float(smooth[least])
    if fall <= error:
        why = f"the loss fell by {max(fall, 0.0):.2g}, less than its uncertainty over the rows, {error:.2g}; "
        return view(None, f"No proposal: {why}take more steps, num=, and see that y depends on x.")
    if not ended and least >= num - 3:
        return view(None, f"No proposal: the loss still falls at the highest rate, {rate[-1]:.2g}; go higher, high=.")
    steepest = int(np.gradient(smooth[:whole_], np.log(rate[:whole_]))[: least + 1].argmin())
    proposed = float(f"{min(float(rate[steepest]), float(rate[least]) / 3):.2g}")  # eq. 4
    why = f"the loss falls most steeply near {rate[steepest]:.2g}, is least at {rate[least]:.2g}"
    rises = f" and is above its beginning again at {rate[-1]:.2g}" if loss[-1] > before else " and does not diverge"
    why += f" and diverges at {rate[-1]:.2g}" if ended else rises
    return view(proposed, f"Take {proposed:g}: {why}.")
