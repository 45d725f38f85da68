"""Do probabilities come true as often as they say? The doctor's word on the numbers of `likelihoods.calibration`.

The calibration error of classes is compared with what it would be if the probabilities were true, the coverage of 90 %
intervals with its binomial error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from leadline.data.data import Data
from leadline.data.series_windows import Windows
from leadline.doctor.finding import Finding
from leadline.doctor.words import percent
from leadline.errors import UserError
from leadline.likelihoods.angles import TURN
from leadline.likelihoods.bernoulli import BernoulliPrediction
from leadline.likelihoods.calibration import choices, error_by_chance, expected_error
from leadline.likelihoods.classes import ClassPrediction
from leadline.likelihoods.hindsight import apart_in, of_parts
from leadline.likelihoods.joint import Joint
from leadline.likelihoods.likelihood import Likelihood

# Confidence that is ten points too high on average misleads whoever acts on it; five are worth a record. Too much
# caution is recorded only: it goes away with training, and costs less than false confidence.
ECE_WARNING, ECE_NOTE = 0.10, 0.05
LEVEL = 0.90
# Five points of coverage: residuals that are merely not quite bell-shaped stay within.
COVERAGE_GAP = 0.05
# Standard errors: one false alarm in 30,000 honest models.
SIGMAS = 4.0
MOST_ROWS = 20_000
#: of families whose mean says how wide they are: nothing to learn, and another family
WIDER = {
    "Poisson": "Use the likelihood NegativeBinomial, which learns the spread of counts; Poisson's variance is its mean",
    "Exponential": "Use the likelihood Gamma, which learns its deviation; Exponential's deviation is its mean",
}
_MEASURED = ("real", "positive", "proportion", "count", "angle")


@torch.no_grad()
def check_calibration(data: Data, likelihood: Likelihood, outputs: Mapping[str, Tensor]) -> list[Finding]:
    """Judged on test, or on val where there is no test: probabilities on training rows are always too bold. Of series
    the forecasts are judged, which a network is but a part of.
    """
    name = next((n for n in ("test", "val") if n in outputs and len(outputs[n])), None)
    if name is None:
        return []
    if isinstance(likelihood, Joint) and data.target.columns:
        parts, findings = likelihood.parts(outputs[name]), []
        for k, head in enumerate(likelihood.each):
            found = check_calibration(data.of_column(k), head, {name: parts[k]})
            findings += [replace(finding, where=f"{finding.where}, {likelihood.names[k]}") for finding in found]
        return findings
    if not likelihood.has_density:
        return []
    if isinstance(data.inputs, Windows) and data.inputs.kind == "real":
        return _forecasts(data, data.inputs, likelihood, outputs, name)
    output, y = outputs[name].detach(), data[name].y
    output, y = output[:MOST_ROWS], y[:MOST_ROWS].to(output.device)
    prediction = likelihood.prediction(output)
    if isinstance(prediction, (BernoulliPrediction, ClassPrediction)):
        return _classes(name, prediction.probabilities, y)
    if data.target.kind in _MEASURED:
        try:
            return _coverage(name, likelihood, prediction.interval(LEVEL), y, data.target.kind)
        except UserError:  # a family that has no such interval, as quantiles have none beyond their levels
            return []
    return []


def _forecasts(
    data: Data, inputs: Windows, likelihood: Likelihood, outputs: Mapping[str, Tensor], name: str
) -> list[Finding]:
    parts = [part for part in ("val", "test") if part in outputs and len(data[part])]
    parts = parts[: parts.index(name) + 1]
    said = [likelihood.prediction(outputs[part].detach()) for part in parts]
    try:
        known = of_parts(inputs, said, [data[part] for part in parts], LEVEL).last(len(data[name]))
        ends = [known.end(said[-1], end).cpu() for end in said[-1].interval(LEVEL)]
    except UserError:
        return []
    y = data[name].y.cpu()
    low, high = (end.reshape(y.shape)[:MOST_ROWS] for end in ends)
    return _coverage(name, likelihood, (low, high), y[:MOST_ROWS], "real", apart_in(data[name], inputs.horizon))


def _classes(name: str, probabilities: Tensor, y: Tensor) -> list[Finding]:
    generator = torch.Generator().manual_seed(0)
    confidence, correct = choices(probabilities, y, generator)
    error = float(expected_error(confidence, correct))
    if error < ECE_NOTE:
        return []
    by_chance = float(
        error_by_chance(confidence, generator).max()
    )  # the worst of 200: one honest model in 201 exceeds it
    if error <= by_chance:
        return []
    accuracy, mean = float(correct.double().mean()), float(confidence.mean())
    bold = mean > accuracy
    what = f"the model is {'overconfident' if bold else 'underconfident'}"
    found = (
        f"it gives its answers {percent(mean)} probability on average, and {percent(accuracy)} are right; calibration "
        f"error {error:.3f}, where chance explains up to {by_chance:.3f}"
    )
    do = (
        "Stop early, add weight decay or label smoothing, or divide the logits by a temperature fitted on val"
        if bold
        else "Lower label smoothing, dropout or weight decay, train longer, or fit a temperature on val"
    )
    severity = "warning" if bold and error >= ECE_WARNING else "note"
    return [Finding("miscalibrated", severity, what, f"{name} split", found, do)]


def _coverage(
    name: str, likelihood: Likelihood, ends: tuple[Tensor, Tensor], y: Tensor, kind: str, apart: int | None = None
) -> list[Finding]:
    """Args:
    apart: rows that do not overlap, where some do.
    """
    low, high = (end.view_as(y) for end in ends)
    if kind == "angle":  # in the turn of its arc
        y = y + TURN * (((low + high) / 2 - y) / TURN).round()
    inside = ((y >= low) & (y <= high)).double()
    coverage, count = float(inside.mean()), inside.shape[0]
    allowed = max(COVERAGE_GAP, SIGMAS * math.sqrt(LEVEL * (1 - LEVEL) / (apart or count)))
    if abs(coverage - LEVEL) <= allowed or (kind == "count" and coverage > LEVEL):  # whole ends hold at least so many
        return []
    what = f"the {percent(LEVEL)} intervals are too {'narrow' if coverage < LEVEL else 'wide'}"
    found = f"{percent(coverage)} of {count} targets lie inside"
    fixed = getattr(likelihood, "variance", None) == "fixed"
    # least squares makes no promise about its intervals, and those that are too wide harm nobody
    severity = "note" if fixed or coverage > LEVEL else "warning"
    do = (
        "Let the variance be learned (variance='learned', or 'input' where it changes with x)"
        if fixed
        else WIDER[type(likelihood).__name__]
        if coverage < LEVEL and type(likelihood).__name__ in WIDER
        else "Stop early or regularise: the variance was learned on training rows that the model fits too closely"
        if coverage < LEVEL
        else "Let the variance depend on x (variance='input'), or train longer"
    )
    return [Finding("interval-coverage", severity, what, f"{name} split", found, do)]
