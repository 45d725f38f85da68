"""After the run: did the model learn, does it hold on rows it has not seen, and do its probabilities come true?

Each verdict compares with the simplest rival, a constant guess made from the training rows: the commonest class and
the classes' frequencies, or the mean of y.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.data import Data, Split
from leadline.data.series_windows import Windows
from leadline.doctor.calibration import check_calibration
from leadline.doctor.finding import Finding
from leadline.doctor.graphs import check_smoothed
from leadline.doctor.maps import check_maps
from leadline.doctor.texts import check_texts
from leadline.doctor.words import percent
from leadline.engine.evaluation import Evaluation
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.categorical import Categorical
from leadline.likelihoods.likelihood import Likelihood

# Of the distance between a constant guess and perfection, a model that has learned something covers more than this
# on the rows it trained on (for a real target: r² = 0.05).
LEARNED = 0.05
# Still falling: the last fifth of the run made more than this share of all progress (a steady fall makes 0.2). A fifth
# by the learning rate, not by the epochs: where a schedule has all but stopped the steps, a loss that stands still says
# nothing of the model.
STILL_FALLING = 0.1
# A model that has learned something but covers less than half of the distance was stopped on its way, if the last fifth
# made nearly the share of the progress that a steady fall makes.
HALF_WAY, STEADY = 0.5, 0.15
# A gap that matters: five points of accuracy, or errors a third larger. Clean problems with enough rows (digits,
# wine) stay below it even when every training row is learned by heart.
GAP_ACCURACY, GAP_RATIO = 0.05, 1.33
# … and by at least a twentieth of what a constant guess would miss: nobody minds 0.1 % against 0.2 %.
GAP_SPREAD = 0.05
# Standard errors of a gap, from the evaluations' intervals: chance gives one false alarm in 700.
SIGMAS = 3.0
# A clear rise of the validation nll: a tenth of what a constant guess would score, or for a density a quarter of a
# nat (each row has become 22 % less likely); and more than half of the interval that few rows leave open.
RISE_SHARE, RISE_NATS = 0.10, 0.25
# No better than a constant guess: within one part in a hundred of it.
NO_BETTER = 0.01


def after(
    history: Sequence[Mapping[str, Any]],
    evaluations: Mapping[str, Evaluation],
    data: Data,
    likelihood: Likelihood,
    outputs: Mapping[str, Tensor],
) -> list[Finding]:
    """Args:
        history: one record an epoch: `{"epoch", "step", "lr", "train": {"loss": …}, "val": {"nll": …}}`; val may lack.
        evaluations: split -> metrics of the weights that were kept.
        data: what was trained on.
        likelihood: as fitted.
        outputs: split -> the model's raw outputs.

    >>> from leadline.data.data import Split
    >>> from leadline.data.target import Target
    >>> from leadline.engine.evaluation import evaluate
    >>> y = torch.arange(200) % 2
    >>> split = Split(torch.randn(200, 2), y)
    >>> flat = torch.zeros(200, 1)  # logits that say nothing
    >>> data = Data(split, split, split, Target("binary"))
    >>> found = after([], {"train": evaluate(Bernoulli(), flat, y)}, data, Bernoulli(), {"train": flat})
    >>> [finding.code for finding in found]
    ['underfitting']
    """
    if data.target.spatial:
        return check_maps(evaluations, likelihood)
    if data.target.placed:
        return check_texts(history, evaluations, data, likelihood)
    findings = []
    rivals = {name: _Rival(data, name, likelihood) for name in evaluations if len(data[name])}
    if "train" in rivals:
        findings += _underfitting(history, evaluations["train"], rivals["train"])
        if findings:  # where all nodes have become alike, that is why
            findings = check_smoothed(data, outputs) or findings
    underfits = bool(findings)
    held_out = next((name for name in ("val", "test") if name in rivals), None)
    if held_out is not None:
        if not underfits:
            findings += _no_better(held_out, evaluations[held_out], rivals[held_out])
        if "train" in rivals:
            findings += _overfitting(held_out, history, evaluations, rivals)
    if "val" in rivals and "test" in rivals:
        findings += _selection(evaluations, rivals)
    if isinstance(data.inputs, Windows) and data.inputs.linear is not None:  # of which a forecast is a part
        findings = [replace(finding, where=f"{finding.where}, the network alone") for finding in findings]
    if not underfits:  # the probabilities of a model that has not learned are not what is wrong with it
        findings += check_calibration(data, likelihood, outputs)
    return findings


class _Rival:
    """A constant guess from the training rows, scored on one split.

    `covered` is the share of the distance from this guess to perfection that a model has made: 1 - error / error of the
    guess, for the nll of classes and the squared error of real targets; None where neither is defined.
    """

    def __init__(self, data: Data, name: str, likelihood: Likelihood):
        train, split = data.train, data[name]
        self.classes = isinstance(likelihood, (Bernoulli, Categorical))
        self.accuracy = self.share = self.nll = self.rmse = 0.0  # rmse 0: the family has none
        w, v = _weights(train), _weights(split)
        if self.classes:
            num_classes = getattr(likelihood, "num_classes", 2)
            counts = torch.bincount(train.y.long(), w, minlength=num_classes)
            p = (counts * len(train) + 1) / (
                len(train) + num_classes
            )  # one more of each, so that no class is impossible
            y = split.y.long()
            self.share = float(counts.max())  # of the commonest class, free of this split's noise
            self.accuracy = float((y == counts.argmax()).double() @ v)
            self.nll = float(-p.log()[y] @ v)
        elif split.y.is_floating_point():
            mean = w @ train.y.double().reshape(len(train), -1)
            error = v @ (split.y.double().reshape(len(split), -1) - mean).square()
            self.rmse = math.sqrt(float(error)) if len(error) == 1 else 1.0  # of several, in units of their deviation

    def covered(self, evaluation: Evaluation) -> float | None:
        if self.classes:
            by_accuracy = (evaluation["accuracy"] - self.accuracy) / max(1 - self.accuracy, 1e-9)
            return max(1 - evaluation["nll"] / self.nll, by_accuracy)  # a bold model may be right and still score ill
        if self.rmse and "rmse" in evaluation:
            return 1 - (evaluation["rmse"] / self.rmse) ** 2
        if self.rmse and math.isfinite(evaluation.get("r2", math.nan)):  # several outputs, each in a unit of its own
            return evaluation["r2"]
        return None

    def draws_level(self, evaluation: Evaluation) -> bool:
        """Whether the model is no better than the guess by any measure; accuracy must beat it by more than chance."""
        if self.classes:
            low, _ = evaluation.interval("accuracy")
            return low <= max(self.accuracy, self.share) and evaluation["nll"] > (1 - NO_BETTER) * self.nll
        covered = self.covered(evaluation)
        return covered is not None and covered <= NO_BETTER

    def wins(self, evaluation: Evaluation) -> bool:
        """Whether the guess is the better one by every measure."""
        if self.classes:
            _, high = evaluation.interval("accuracy")
            return high < self.accuracy and evaluation["nll"] > (1 + NO_BETTER) * self.nll
        covered = self.covered(evaluation)
        return covered is not None and covered < -NO_BETTER

    def words(self, evaluation: Evaluation) -> str:
        if self.classes:
            return (
                f"accuracy {evaluation['accuracy']:.3f} against {self.accuracy:.3f} of a constant guess, "
                f"nll {evaluation['nll']:.3g} against {self.nll:.3g}"
            )
        if "rmse" not in evaluation:
            return f"r2 {evaluation['r2']:.4g}, the mean over the outputs, against 0 of a constant guess"
        return f"rmse {evaluation['rmse']:.4g} against {self.rmse:.4g} of a constant guess"


def _weights(split: Split) -> Tensor:
    """Weights of the rows, which sum to one."""
    w = torch.ones(len(split), device=split.y.device) if split.weight is None else split.weight
    return w.double() / w.double().sum()


def _underfitting(history: Sequence[Mapping], train: Evaluation, rival: _Rival) -> list[Finding]:
    covered = rival.covered(train)
    records = [record for record in history if "loss" in record.get("train", {})]
    late = _last_fifth([record.get("lr") for record in records])
    falling = _still_falling([record["train"]["loss"] for record in records], late)
    half_way = covered is not None and covered < HALF_WAY and (falling or 0.0) > STEADY
    if covered is None or (covered >= LEARNED and not half_way):
        return []
    what = f"the model {_beside(covered)} a constant guess even on the rows it trained on"
    if covered >= LEARNED:
        what = "the model was still learning when the run ended"
    found = rival.words(train)
    last = f"the last {counted(late, 'epoch')} of {len(records)}, a fifth of the run by its learning rate"
    if falling is None:
        do = "Train for more epochs; then try a learning rate ten times larger and smaller, and a larger model"
    elif falling:
        found += f"; {percent(falling)} of the fall of the loss came in {last}"
        do = "Train for more epochs or raise the learning rate: the loss was still falling when the run ended"
        if late > len(records) // 4:
            do = "Train for more epochs or raise the learning rate: the schedule ended before the loss had flattened"
    else:
        found += f"; the loss has flattened in {last}"
        do = (
            "Try a learning rate ten times larger and smaller, then a larger model; check that x says something about y"
        )
    return [Finding("underfitting", "warning", what, "train split", found, do)]


def _beside(covered: float) -> str:
    """How a model that has not learned stands beside the guess, by the share of the way that it covers."""
    if covered < -NO_BETTER:
        return "is worse than"
    return "is no better than" if covered <= NO_BETTER else "barely beats"


def _last_fifth(rates: Sequence[float | None]) -> int:
    """How many of the last epochs had a fifth of the learning rate's sum; without rates, a fifth of the epochs."""
    known = [rate if rate is not None else 1.0 for rate in rates]
    if None in rates or not sum(known) > 0:
        known = [1.0] * len(known)
    shares = itertools.accumulate(reversed(known))
    return max(1, sum(share <= sum(known) / 5 * (1 + 1e-9) for share in shares))


def _still_falling(losses: list[float], late_epochs: int) -> float | None:
    """Share of the progress made in the last epochs, or 0 where it is too small to speak of; None if none can tell."""
    if len(losses) < 5 or not all(map(math.isfinite, losses)):
        return None
    late = losses[-min(late_epochs, len(losses) - 1) - 1] - losses[-1]
    whole = losses[0] - min(losses)
    share = late / whole if whole > 0 else 0.0
    return share if share > STILL_FALLING else 0.0


def _no_better(name: str, evaluation: Evaluation, rival: _Rival) -> list[Finding]:
    if not rival.draws_level(evaluation):
        return []
    found = rival.words(evaluation)
    if rival.classes:
        low, high = evaluation.interval("accuracy")
        found += f"; with so few rows ({evaluation.count}) the accuracy may be {low:.2f} to {high:.2f}"
    what = f"on {name} the model {'is worse than' if rival.wins(evaluation) else 'is no better than'} a constant guess"
    do = (
        "What it learned does not hold for new rows: use more rows, better columns or a simpler model; check that rows "
        "of x and y belong together"
    )
    return [Finding("no-better-than-constant", "warning", what, f"{name} split", found, do)]


def _overfitting(
    name: str, history: Sequence[Mapping], evaluations: Mapping[str, Evaluation], rivals: Mapping[str, _Rival]
) -> list[Finding]:
    what = "the model is much better on the rows it trained on than on others"
    do = "Add dropout or weight decay, or more of them, stop early (patience=10), shrink the model, or gather more rows"
    gap = _worse(evaluations["train"], evaluations[name], rivals[name])
    rise = _rise(history, evaluations[name], rivals[name]) if name == "val" else None
    risen = f"; val nll rose from {rise[1]:.3g} (epoch {rise[0]}) to {rise[2]:.3g}" if rise else ""
    if gap:
        return [Finding("overfitting", "warning", what, f"train and {name}", f"{gap('train', name)}{risen}", do)]
    if rise:
        epoch, best, last, kept_late = rise
        kept = evaluations[name]["nll"]
        # where the best weights were kept, the later epochs were wasted, but the model is not the worse for them
        severity = "warning" if kept_late else "note"
        what = "the model overfitted after its best epoch"
        found = f"val nll rose from {best:.3g} (epoch {epoch}) to {last:.3g}; the weights that were kept: {kept:.3g}"
        do = "Stop early (patience=10) or train for less"
        return [Finding("overfitting", severity, what, f"epoch {epoch}", found, do)]
    return []


def _worse(better: Evaluation, worse: Evaluation, rival: _Rival) -> Callable[[str, str], str] | None:
    """Words for a gap that matters and that chance does not explain, else None."""
    metric = "accuracy" if rival.classes else "rmse" if "rmse" in better else "r2"
    if metric not in better or metric not in worse:
        return None
    a, b = better[metric], worse[metric]
    noise = math.hypot(_standard_error(better, metric), _standard_error(worse, metric))
    if metric == "accuracy":
        matters, gap = a - b > GAP_ACCURACY, a - b
    elif metric == "r2":  # √(1 - r²) is the rmse in units of the deviation
        first, second = (math.sqrt(max(1 - r2, 0.0)) for r2 in (a, b))
        matters, gap = second > GAP_RATIO * first and second - first > GAP_SPREAD * rival.rmse, a - b
    else:
        matters, gap = b > GAP_RATIO * a and b - a > GAP_SPREAD * (rival.rmse or math.inf), b - a
    if not matters or not gap >= SIGMAS * noise:  # of a single row nothing is known
        return None
    low, high = worse.interval(metric)
    return lambda first, second: (
        f"{metric} {a:.4g} on {first} and {b:.4g} on {second} (95 % interval {low:.4g} to {high:.4g})"
    )


def _standard_error(evaluation: Evaluation, metric: str) -> float:
    low, high = evaluation.interval(metric)
    error = (high - low) / (2 * 1.96)
    if metric == "accuracy":  # all right or all wrong has no spread of its own: as if one more row were each
        p = (evaluation[metric] * evaluation.count + 1) / (evaluation.count + 2)
        error = max(error, math.sqrt(p * (1 - p) / evaluation.count))
    return error


def _rise(history: Sequence[Mapping], val: Evaluation, rival: _Rival) -> tuple[int, float, float, bool] | None:
    """Epoch and value of the best validation nll, the last value, and whether the weights kept are from the rise."""
    line = [(record["epoch"], record["val"]["nll"]) for record in history if "nll" in (record.get("val") or {})]
    line = [(epoch, nll) for epoch, nll in line if math.isfinite(nll)]
    if len(line) < 5:
        return None
    epoch, best = min(line, key=lambda item: item[1])
    last = sorted(nll for _, nll in line[-3:])[1]  # the median of three: one bad epoch is no trend
    low, high = val.interval("nll")
    margin = max(RISE_SHARE * rival.nll if rival.nll else RISE_NATS, (high - low) / 2)
    if last <= best + margin:
        return None
    kept = min(line, key=lambda item: abs(item[1] - val["nll"]))[0]
    return epoch, best, last, kept > epoch and val["nll"] > best + margin


def _selection(evaluations: Mapping[str, Evaluation], rivals: Mapping[str, _Rival]) -> list[Finding]:
    gap = _worse(evaluations["val"], evaluations["test"], rivals["test"])
    if not gap:
        return []
    what = "the test split is clearly worse than the validation split"
    do = (
        "Report the test result; if many settings were tried, they were chosen to fit val; if not, the two splits come "
        "from different sources"
    )
    return [Finding("test-worse-than-val", "warning", what, "val and test", gap("val", "test"), do)]
