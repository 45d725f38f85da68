"""Does the model take these inputs, and does what comes out fit the likelihood?

A few rows are sent through the model in evaluation mode. The last operation is read off the autograd graph, so that it
is known whether it was a module, a function or a method.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.data.data import Data
from leadline.doctor.columns import sample_rows
from leadline.doctor.finding import Finding
from leadline.doctor.nonfinite import BEFORE, forward_finding, weights_finding
from leadline.doctor.trace import Call, Trace
from leadline.doctor.words import percent
from leadline.engine.untouched import untouched
from leadline.errors import ShapeError, UserError
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.categorical import Categorical
from leadline.likelihoods.likelihood import Likelihood
from leadline.likelihoods.normal import Normal

# Enough rows that chance cannot make them all sum to one, few enough to cost nothing.
PROBE_ROWS = 32
# Steps that only rearrange an output, after which the last real operation stands.
_REARRANGE = ("View", "Reshape", "Squeeze", "Unsqueeze", "ToCopy", "Clone", "Alias", "Slice", "Transpose", "TBackward",
              "Permute", "Contiguous")  # fmt: skip
# A target out of reach is a matter of taste below this share, since a bell curve reaches everywhere with some error.
OUT_OF_REACH = 0.01


def check_wiring(model: nn.Module, data: Data, likelihood: Likelihood, *, target_fits: bool) -> list[Finding]:
    """Args:
    target_fits: whether y may be compared with the output.
    """
    findings = []
    weights = list(model.parameters())
    if not any(weight.requires_grad for weight in weights):
        found = f"{sum(w.numel() for w in weights)} parameters, all frozen" if weights else "no parameters at all"
        do = "Unfreeze some by requires_grad_(True), or use a model that has weights"
        what = "a model must have something to train"
        findings.append(Finding("no-trainable-parameters", "error", what, type(model).__name__, found, do))
    rows = torch.arange(data.few(PROBE_ROWS))
    x, y = data.asked(rows)
    if weights:
        x, y = x.to(weights[0].device), y.to(weights[0].device)
        if x.is_floating_point() and weights[0].is_floating_point():
            x = x.to(weights[0].dtype)
    calls: list[Call] = []
    with untouched(model, training=False), torch.enable_grad():
        trace = Trace(model, lambda call: None if call.op else calls.append(call))
        try:
            with trace:
                output = model(x)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            return [*findings, _refused(model, x, calls, trace, error)]
    if not isinstance(output, Tensor):
        found = f"a {type(output).__name__}"
        do = "Let forward return the parameters of the distribution and nothing else"
        what = "a model must return one tensor"
        return [*findings, Finding("output-shape", "error", what, type(model).__name__, found, do)]
    last = _last_operation(output)
    leaves = [call for call in calls if any(out is output for out in call.outputs)]
    where, output = leaves[0].name if leaves else "the model's output", output.detach()
    if not bool(output.sum().isfinite()):
        culprit = weights_finding(BEFORE, model)
        culprit = culprit or forward_finding(model, x, rows=data.train.row_numbers(rows), when=BEFORE)
        if culprit is not None:
            return [*findings, culprit]
    if target_fits:
        try:
            likelihood.check_output(output, y)
        except ShapeError as error:
            return [*findings, Finding("output-shape", "error", error.must, where, error.got, error.do)]
    return findings + _ending(output, last, where, data, likelihood, target_fits)


def _refused(model: nn.Module, x: Tensor, calls: list[Call], trace: Trace, error: Exception) -> Finding:
    chain = [call for call in calls if call.path and not _has_children(model, call.path)][-6:]
    steps = ", then ".join(
        f"{call.path} ({call.kind}) {_shapes(call.inputs)} -> {_shapes(call.outputs)}" for call in chain
    )
    path, module, inputs = trace.stack[-1] if trace.stack else ("", model, (x,))
    where = f"{path or 'the model'} ({type(module).__name__})"
    if isinstance(error, UserError) and not isinstance(error, ShapeError):  # a layer that says itself what it needs
        return Finding("model-input", "error", error.must, where, error.got, error.do)
    reason = str(error).strip().split("\n")[0].rstrip(".")
    found = f"{where} got {_shapes(inputs)}: {reason}" + (f". The layers before it: {steps}" if steps else "")
    do = error.do if isinstance(error, UserError) else _fit(module, inputs)
    return Finding("model-input", "error", "the model cannot take these inputs", where, found, do)


def _fit(module: nn.Module, inputs: tuple[Tensor, ...]) -> str:
    if isinstance(module, nn.Linear) and inputs:
        width = inputs[0].shape[-1] if inputs[0].dim() else 0
        if width != module.in_features:
            return f"This layer was made for {module.in_features} inputs: make it for {width}"
    if isinstance(module, nn.modules.conv._ConvNd) and inputs:
        return (
            f"This layer was made for {module.in_channels} channels in a tensor of {module.weight.dim()} axes "
            "(batch, channels, then space): reshape the input or change in_channels"
        )
    if isinstance(module, nn.Embedding) and inputs and inputs[0].numel() and not inputs[0].is_floating_point():
        low, high = (int(end) for end in inputs[0].aminmax())
        if low < 0 or high >= module.num_embeddings:
            return (
                f"This layer has {module.num_embeddings} tokens, but the rows hold {low} to {high}: build it for them"
            )
    return "Make the output of each layer as wide as the input of the next, starting from the shape of one row of x"


def _shapes(tensors: tuple[Tensor, ...]) -> str:
    return " and ".join(str(tuple(t.shape)) for t in tensors) or "no tensor"


def _has_children(model: nn.Module, path: str) -> bool:
    return next(model.get_submodule(path).children(), None) is not None


def _ending(output: Tensor, last: str, where: str, data: Data, likelihood: Likelihood, fits: bool) -> list[Finding]:
    if isinstance(likelihood, (Bernoulli, Categorical)):
        squashing = last if last in ("softmax", "sigmoid", "logsoftmax") else _sums_to_one(output, likelihood)
        if squashing:
            return [_double(squashing, where, output, likelihood)]
    if last == "relu" and isinstance(likelihood, (Bernoulli, Categorical, Normal)):
        what = "the model's last step cuts off negative outputs"
        need = "a value below the mean" if isinstance(likelihood, Normal) else "a small probability"
        found = f"the smallest of {output.numel()} outputs is {float(output.min()):.3g}: it can never predict {need}"
        return [Finding("relu-output", "warning", what, where, found, "Remove the ReLU after the last layer")]
    if last in ("sigmoid", "tanh") and isinstance(likelihood, Normal) and fits:
        return _bounded(last, where, data, likelihood)
    return []


def _last_operation(output: Tensor) -> str:
    node = output.grad_fn
    while node is not None and node.name().startswith(_REARRANGE) and node.next_functions:
        node = node.next_functions[0][0]
    return "" if node is None else node.name().split("Backward")[0].lower()


def _sums_to_one(output: Tensor, likelihood: Likelihood) -> str:
    if isinstance(likelihood, Bernoulli) or len(output) < 2:
        return ""
    sums = output.sum(1)
    varied = bool((output != output[:1]).any())
    return "softmax" if varied and bool((output >= 0).all() and ((sums - 1).abs() < 1e-4).all()) else ""


def _double(squashing: str, where: str, output: Tensor, likelihood: Likelihood) -> Finding:
    family = type(likelihood).__name__
    own = "sigmoid" if isinstance(likelihood, Bernoulli) else "softmax"
    what = f"the model ends in a {squashing}, and {family} applies {own} to its output again"
    low, high = float(output.min()), float(output.max())
    if squashing == "logsoftmax":  # softmax(logsoftmax(z)) = softmax(z): wasted work, but the same loss
        found = f"outputs from {low:.3g} to {high:.3g}: the loss is the same, but the work is done twice"
        return Finding("double-softmax", "note", what, where, found, "Remove it: return the logits")
    found = f"outputs from {low:.3g} to {high:.3g}: used as logits, they cannot give a probability near 0 or 1"
    return Finding("double-softmax", "error", what, where, found, "Remove it: return the logits")


def _bounded(last: str, where: str, data: Data, likelihood: Normal) -> list[Finding]:
    rows = sample_rows(data.train.y)
    y = (data.train.y if rows is None else data.train.y[rows]).double().reshape(-1, likelihood.dim)
    unit = (y - y.new_tensor(likelihood.shift)) / y.new_tensor(likelihood.scale)
    low = 0.0 if last == "sigmoid" else -1.0
    lost = float(((unit < low) | (unit > 1)).any(1).double().mean())
    if lost <= OUT_OF_REACH:
        return []
    found = f"a {last} gives {low:g} to 1 in units of the target, and {percent(lost)} of the targets lie outside"
    return [
        Finding(
            "bounded-output",
            "warning",
            "the model's last step cannot reach some targets",
            where,
            found,
            f"Remove the {last} after the last layer",
        )
    ]
