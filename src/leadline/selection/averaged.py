"""Metrics of predictions that come from several models.

    pooled      every row is predicted by the one model that has not seen it                            (1)
    averaged    p(y | x) = 1/K Σ_k p_k(y | x),   the mean of the models' predictions                    (2)

Models of different folds measure y in units of their own. Errors are put into those of the first before r2 is taken, so
that it is the r2 of all rows together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from leadline.data.data import Data
from leadline.data.folds import as_seen
from leadline.engine.evaluation import Evaluation, summed_up
from leadline.errors import UserError
from leadline.likelihoods import Likelihood
from leadline.likelihoods.values import error_summary, errors
from leadline.run import Run


@torch.no_grad()
def pooled(runs: Sequence[Run]) -> Evaluation:
    """Eq. 1: metrics of the held-out rows of all runs, as one split."""
    parts, weights = [], []
    for run in runs:
        rows = run.need_data().test
        output = run.outputs("test")
        y = rows.y.to(output.device, output.dtype if rows.y.is_floating_point() else None)
        measures = {name: value.double().cpu() for name, value in run.likelihood.measures(output, y).items()}
        parts.append(_in_unit_of(runs[0].likelihood, run.likelihood, measures))
        weights.append(torch.ones(len(rows)) if rows.weight is None else rows.weight)
    measures = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    weight = None if all(run.need_data().test.weight is None for run in runs) else torch.cat(weights)
    return summed_up(runs[0].likelihood, measures, {}, weight)


@torch.no_grad()
def averaged(runs: Sequence[Run], data: Data, split: str = "test") -> Evaluation | None:
    """Eq. 2: metrics of the mean prediction on rows that no run has seen; None for a target without a mean."""
    rows, likelihood = data[split], runs[0].likelihood
    kind = data.target.kind
    if kind not in ("real", "positive", "count", "proportion", "binary", "classes", "ordered"):
        return None
    points, chances = [], []
    for run in runs:
        prediction = run.predict(as_seen(run.need_data(), rows.x))
        y = rows.y.to(prediction.mode.device)
        try:
            points.append(prediction.probabilities if data.target.discrete else prediction.mean)  # type: ignore[attr-defined]
            if likelihood.has_density:
                chances.append(prediction.log_prob(y).reshape(len(y), -1).sum(1).double().cpu())
        except UserError:  # a loss that is no distribution has no mean to average
            return None
    point, y = torch.stack(points).double().mean(0).cpu(), rows.y
    measures: dict[str, Tensor] = {}
    if chances:
        measures["nll"] = math.log(len(chances)) - torch.stack(chances).logsumexp(0)
    if data.target.discrete:
        measures["accuracy"] = (point.argmax(-1) == y).double()
        return summed_up(_Errors(), measures, {}, rows.weight)
    dim = data.target.dim
    shift, scale = (torch.tensor(figure, dtype=torch.float64) for figure in (data.target.shift, data.target.scale))
    names = data.target.names if dim > 1 else ()
    measures |= errors(point.view(-1, dim), y.double().view(-1, dim), shift, scale, names)
    return summed_up(_Errors(names), measures, {}, rows.weight)


class _Errors:
    """What makes metrics of the errors of a mean prediction, whatever family it is a mean of."""

    def __init__(self, names: Sequence[str] = ()):
        self.names = names

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        if "accuracy" in means:
            return means
        own = {"nll": means["nll"]} if "nll" in means else {}
        return {**own, **error_summary(means, self.names)}

    def overall(self, tallies: dict[str, Tensor]) -> dict[str, float]:
        return {}


def _in_unit_of(first: Likelihood, own: Likelihood, measures: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Measures of y in the unit of `first`; those without a unit stay as they are."""
    found = dict(measures)
    if not own.unit_in_buffers:
        return found
    units = [(likelihood.get_buffer("_shift"), likelihood.get_buffer("_scale")) for likelihood in (first, own)]
    for k in range(len(units[0][0])):
        (shift, scale), (own_shift, own_scale) = ((float(s[k]), float(c[k])) for s, c in units)
        for of in [name.removeprefix("centred") for name in measures if name.startswith("centred")]:
            names = getattr(own, "names", ())
            if of and of.removeprefix("_") != names[k]:
                continue
            found[f"scaled_error{of}"] = measures[f"scaled_error{of}"] * (own_scale / scale) ** 2
            found[f"centred{of}"] = (measures[f"centred{of}"] * own_scale + own_shift - shift) / scale
            found[f"square{of}"] = found[f"centred{of}"].square()
    return found
