"""Before the first step: what is wrong with the data, the model, or the two together."""

from __future__ import annotations

from torch import nn

from leadline.data.data import Data
from leadline.doctor.columns import check_columns
from leadline.doctor.finding import Finding
from leadline.doctor.first_weights import check_first_weights
from leadline.doctor.graphs import check_graph
from leadline.doctor.sight import check_sight
from leadline.doctor.splits import check_splits
from leadline.doctor.targets import check_targets
from leadline.doctor.texts import check_rows_of_text
from leadline.doctor.through_time import check_through_time
from leadline.doctor.wiring import check_wiring
from leadline.likelihoods.likelihood import Likelihood

#: what is no fault of patterns to be stored: a bit may be the same in all, few are many, and val holds them once more
_MEMORIES = ("constant-target", "constant-column", "small-val", "shared-rows")
_ORDER = {"error": 0, "warning": 1, "note": 2}


def before(model: nn.Module, data: Data, likelihood: Likelihood) -> list[Finding]:
    """What stands in the way of training `model` on `data`, worst first. Changes nothing.

    >>> import torch
    >>> from leadline.data.data import Split
    >>> from leadline.data.target import Target
    >>> from leadline.likelihoods import Bernoulli
    >>> x, y = torch.randn(90, 2), torch.arange(90) % 2
    >>> part = lambda a, b: Split(x[a:b], y[a:b])
    >>> data = Data(part(0, 30), part(30, 60), part(60, 90), Target("binary"))
    >>> print(before(nn.Sequential(nn.Linear(2, 1), nn.Sigmoid()), data, Bernoulli())[0].code)
    double-softmax
    """
    findings = check_targets(data, likelihood)
    target_fits = not any(f.severity == "error" and f.code != "one-class" for f in findings)
    findings += check_columns(data, target_fits=target_fits)
    findings += check_rows_of_text(data)
    if target_fits and data.target.kind != "tokens":  # rows of one long text; documents were kept apart
        findings += check_splits(data)
    if not any(f.code == "non-finite-input" for f in findings):
        wiring = check_wiring(model, data, likelihood, target_fits=target_fits)
        findings += [] if wiring else check_graph(model, data)
        findings += wiring or check_sight(model, data)
        # inputs of the wrong size would be blamed on the weights, and patterns are stored by rules without a gradient
        clear = target_fits and not wiring and not any(f.code in ("unscaled-input", "constant-nodes") for f in findings)
        if clear and data.target.kind != "signs":
            # what grows through time makes answers wild too, and is the cause
            findings += check_through_time(model, data, likelihood) or check_first_weights(model, data, likelihood)
    if data.target.kind == "signs":
        findings = [finding for finding in findings if finding.code not in _MEMORIES]
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])
