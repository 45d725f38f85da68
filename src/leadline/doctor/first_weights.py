"""Are the first weights fit to learn from? A few rows go down and back before the first step.

A network that is badly drawn can look like one that does not learn: the doctor says so before the time is spent. What
is judged, and from which numbers on, stands in `leadline.engine.soundness`; `leadline.lens.depth` shows every layer.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from leadline.data.data import Data
from leadline.doctor.finding import Finding
from leadline.engine.sounding import by_batch, sound
from leadline.engine.soundness import Fault, faults
from leadline.engine.untouched import untouched
from leadline.likelihoods.likelihood import Likelihood

PROBE_ROWS = 64

_SAID: dict[str, tuple[str, str, str]] = {
    "dead": (
        "dead-units",
        "most units of this layer are zero for every example from the start",
        "Start with biases of 0 and weights of mean 0 (init='he'), scale the inputs, or use leaky_relu",
    ),
    "saturated": (
        "saturated-units",
        "most activations of this layer lie where the function is flat from the start",
        "Start with smaller weights (init='glorot'), and scale the inputs to deviation 1",
    ),
    "vanishing": (
        "vanishing-gradient",
        "hardly any gradient reaches the first layer from the start",
        "Start with larger weights (init='he' for relu, 'orthogonal' for tanh), or add norm='layer' or residual=True",
    ),
    "exploding": (
        "exploding-gradient",
        "the gradient grows out of bounds on its way to the first layer from the start",
        "Start with smaller weights (init='he' for relu, 'glorot' for tanh), or add normalisation (norm='layer')",
    ),
    "lost": (
        "vanishing-signal",
        "all rows look alike to the last layer",
        "Start with larger weights and biases of 0 (init='he' or 'lsuv'), use fewer layers, or add residual=True",
    ),
    "wild": (
        "wild-start",
        "the first answers are far too large",
        "Start with smaller weights (init='he'): otherwise the first steps only shrink them",
    ),
    "alike": (
        "equal-units",
        "the units of a layer start equal, so they get the same gradient and stay equal",
        "Draw the weights at random (init='he'); only the last layer, or the end of a residual branch, may start at 0",
    ),
}


def check_first_weights(model: nn.Module, data: Data, likelihood: Likelihood) -> list[Finding]:
    """Findings about the weights that training would begin with; the model is bit for bit as before."""
    if len(data.train) < 2 or not any(p.requires_grad for p in model.parameters()):
        return []
    rows = torch.arange(data.few(PROBE_ROWS))
    weight = next(model.parameters())
    x, y = (column.to(weight.device) for column in data.asked(rows))
    if x.is_floating_point() and weight.is_floating_point():
        x = x.to(weight.dtype)
    with untouched(model, training=False):
        by_batch(model)
        seen = sound(model, x, y, likelihood.loss)
    if seen.output is None or not math.isfinite(seen.loss):
        return []
    if not likelihood.loss_is_nll:  # smoothed labels would hold it against a trained model that it is sure
        with torch.no_grad():
            scores = (likelihood.measures(o, y)["nll"].double() for o in (seen.output, torch.zeros_like(seen.output)))
            seen.loss, seen.empty = (float(score.mean()) for score in scores)
    return [_finding(fault) for fault in faults(seen)[:1]]


def _finding(fault: Fault) -> Finding:
    code, what, do = _SAID[fault.kind]
    return Finding(code, "warning", what, f"{fault.where}, before the first step", fault.evidence, do)
