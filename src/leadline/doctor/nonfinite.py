"""Where did the first value come from that is not finite? Replays one step and follows it forward, then back.

Forward, each module and function is seen as it ends: the first whose inputs are finite and whose output is not is the
one. Back, each node of the autograd graph is seen as it ends, by the same test, and named by the module that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leadline.doctor.finding import Finding
from leadline.doctor.trace import Call, Trace
from leadline.doctor.words import some
from leadline.engine.untouched import untouched
from leadline.likelihoods.likelihood import Likelihood

# Functions that write -inf on purpose, as attention masks do.
_MASKS = ("masked_fill", "where", "full", "full_like", "fill", "new_full", "setitem", "triu", "tril")
# Functions with an edge beyond which there is no finite value or slope.
_ROOTS = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "acos", "asin", "atanh")
_RATIOS = ("div", "truediv", "rtruediv", "true_divide", "reciprocal", "norm", "linalgvectornorm", "std", "var")
_EDGES = _ROOTS + _RATIOS
# First weights are at most about one in size and trained ones rarely above ten: a thousand means that they ran away.
RUNAWAY = 1e3
#: when a model is looked at that no step has changed
BEFORE = "before the first step"
# Networks are started for inputs of about one; powers of ten thousand overflow within a few layers.
FAR_INPUT = 1e4


def locate(
    model: nn.Module,
    likelihood: Likelihood,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None = None,
    rows: Sequence[int] | Tensor | None = None,
    step: int = 0,
) -> Finding:
    """Replay the step whose loss or gradient was not finite, with the weights from before it, and name the culprit.

    The model runs in the mode it is in, so that a fault of dropout or batch statistics shows too; it is left as it was.

    Args:
        x, y, weight: the batch, x as the network reads it.
        rows: numbers of its rows in the source.
        step: number of the step, for the message.

    >>> class Log(nn.Module):
    ...     def forward(self, x):
    ...         return x.log()
    >>> from leadline.likelihoods import Normal
    >>> model = nn.Sequential(Log(), nn.Linear(1, 1))
    >>> finding = locate(model, Normal(), -torch.ones(2, 1), torch.zeros(2))
    >>> finding.code, finding.where
    ('non-finite-forward', '0 (Log), step 0')
    """
    when = f"step {step}"
    rows = list(range(len(x))) if rows is None else [int(row) for row in rows]
    found = weights_finding(when, model, likelihood) or _input(x, rows, when) or forward_finding(model, x, rows, when)
    return found or _loss_and_back(model, likelihood, x, y, weight, rows, when)


def forward_finding(model: nn.Module, x: Tensor, rows: Sequence[int], when: str) -> Finding | None:
    """The first module that turns finite inputs into values that are not; None where all stay finite."""
    suspects: list[Call] = []
    guilty: list[Call] = []

    def see(call: Call) -> None:
        if guilty or _finite(call.outputs) or not _finite(call.inputs):
            return
        # A function may hide a value that is not finite again (a mask before a softmax); a module's output is judged
        (suspects if call.op else guilty).append(call)

    with untouched(model), torch.no_grad(), Trace(model, see):
        model(x)
    if not guilty:
        return None
    call = guilty[0]
    inside = [
        s for s in suspects if s.op not in _MASKS and f"{s.path}.".startswith(f"{call.path}." if call.path else "")
    ]
    cause = inside[0] if inside else call
    output = next(out for out in call.outputs if not _finite((out,)))
    lost = [rows[i] for i in _rows_of(output, len(rows))]
    op = f" in {cause.op}" if cause.op and cause.op not in ("linear",) else ""
    found = f"{_count(output)}{op}, from inputs between {_range(cause.inputs)}" + (
        f"; rows {some(lost)}" if lost else ""
    )
    what = "this module turned finite inputs into values that are not finite"
    return Finding("non-finite-forward", "error", what, f"{call.name}, {when}", found, _remedy(model, x, cause.op))


def _loss_and_back(
    model: nn.Module, likelihood: Likelihood, x: Tensor, y: Tensor, weight: Tensor | None, rows: list[int], when: str
) -> Finding:
    weights = {f"model.{n}" if n in dict(likelihood.named_parameters()) else n: p for n, p in model.named_parameters()}
    weights |= {f"likelihood.{name}": p for name, p in likelihood.named_parameters()}
    weights = {name: p for name, p in weights.items() if p.requires_grad}
    makers: dict[Any, str] = {}  # node of the graph -> the module that made it

    def see(call: Call) -> None:
        for out in call.outputs:
            if out.grad_fn is not None:
                makers.setdefault(out.grad_fn, call.name)

    with untouched(model), untouched(likelihood), torch.enable_grad():
        with Trace(model, see):
            output = model(x)
        losses = likelihood.loss(output, y)
        wrong = (~losses.detach().reshape(len(losses), -1).isfinite()).any(1).nonzero().flatten().tolist()
        if wrong:
            outputs = output.detach().reshape(len(output), -1)[wrong[0]].tolist()
            found = (
                f"{len(wrong)} of {len(losses)} rows, the first row {rows[wrong[0]]}: "
                f"loss {losses[wrong[0]].item():g} for outputs {some(f'{value:.3g}' for value in outputs)} "
                f"and target {_target(y[wrong[0]])}"
            )
            what = "the loss of finite outputs is not finite"
            where = f"{type(likelihood).__name__}, {when}, rows {some(rows[i] for i in wrong)}"
            return Finding("non-finite-loss", "error", what, where, found, _remedy(model, x, "", y))
        w = torch.ones_like(losses) if weight is None else weight.to(losses.dtype)
        total = (losses * w).sum() / w.sum()
        faults = _watch_nodes(total, makers)
        gradients = torch.autograd.grad(total, list(weights.values()), allow_unused=True)
    spoilt = [name for name, g in zip(weights, gradients, strict=True) if g is not None and not _finite((g,))]
    if spoilt or faults:
        return _backward_finding(model, x, faults, spoilt, when)
    return _diverged(weights, gradients, float(total.detach()), when)


def _watch_nodes(total: Tensor, makers: dict[Any, str]) -> list[tuple[str, str, str]]:
    """Hook every node; the list fills, in backward order, with (module, function, evidence) of nodes at fault."""
    faults: list[tuple[str, str, str]] = []

    def hook_for(op: str, maker: str) -> Callable[..., None]:
        def hook(gradients_in, gradients_out):
            before, after = (
                tuple(g for g in gradients_out if g is not None),
                tuple(g for g in gradients_in if g is not None),
            )
            if _finite(before) and not _finite(after):
                lost = next(g for g in after if not _finite((g,)))
                faults.append((maker, op, f"{_count(lost)}, from gradients between {_range(before)}"))

        return hook

    # a node without a maker of its own was made inside the call that its consumer belongs to
    queue, seen = [(total.grad_fn, "the loss")], set()
    while queue:
        node, maker = queue.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        maker = makers.get(node, maker)
        node.register_hook(hook_for(node.name().split("Backward")[0], maker))
        queue += [(following, maker) for following, _ in node.next_functions]
    return faults


def _backward_finding(model: nn.Module, x: Tensor, faults: list, spoilt: list[str], when: str) -> Finding:
    what = "the gradient stopped being finite on its way back"
    touched = f"; it reached {some(spoilt)}" if spoilt else ""
    if not faults:
        where, found, op = f"{spoilt[0]}, {when}", f"the gradients of {some(spoilt)} are not finite", ""
        return Finding("non-finite-backward", "error", what, where, found, _remedy(model, x, op))
    maker, op, evidence = faults[0]
    found = f"{evidence}, through the slope of {op.lower()}{touched}"
    return Finding("non-finite-backward", "error", what, f"{maker}, {when}", found, _remedy(model, x, op.lower()))


def _diverged(weights: Mapping[str, Tensor], gradients: tuple[Tensor | None, ...], loss: float, when: str) -> Finding:
    largest = max(weights, key=lambda name: float(weights[name].detach().abs().max()), default="")
    size = float(weights[largest].detach().abs().max()) if largest else 0.0
    norm = sum(float(g.double().square().sum()) for g in gradients if g is not None) ** 0.5
    found = (
        f"loss {loss:.3g} and gradient norm {norm:.3g} are finite in a replay; the largest weight is {size:.3g}, "
        f"in {largest}"
    )
    do = "Lower the learning rate (try a tenth) or clip the gradient (clip=1.0)"
    return Finding("diverged", "error", "the update itself went out of bounds", when, found, do)


def weights_finding(when: str, model: nn.Module, likelihood: nn.Module | None = None) -> Finding | None:
    """The first weight that is not finite; None where all are."""
    for owner, module in (("", model), *((("likelihood.", likelihood),) if likelihood is not None else ())):
        for name, value in module.named_parameters():
            if not _finite((value.detach(),)):
                do = "Continue from an earlier checkpoint with a tenth of the learning rate"
                do = "Restore the weights from where they came" if when == BEFORE else do
                what = "a weight was not finite before the step"
                found = _count(value.detach())
                return Finding("non-finite-weights", "error", what, f"{owner}{name}, {when}", found, do)
    return None


def _input(x: Tensor, rows: list[int], when: str) -> Finding | None:
    if _finite((x,)):
        return None
    lost = [rows[i] for i in _rows_of(x, len(rows))]
    j = int((~x.flatten(1).isfinite()).any(0).nonzero()[0])
    what = "the network read a value that is not finite"
    where = f"rows {some(lost)}, column {j}, {when}"
    do = "Fill in missing values or leave these rows out"
    return Finding("non-finite-input", "error", what, where, _count(x), do)


def _remedy(model: nn.Module, x: Tensor, op: str, y: Tensor | None = None) -> str:
    size = max((float(p.detach().abs().max()) for p in model.parameters() if p.numel()), default=0.0)
    if size > RUNAWAY:
        return (
            f"The weights had already grown to {size:.2g}: lower the learning rate (try a tenth) or clip the gradient"
        )
    if x.is_floating_point() and float(x.abs().max()) > FAR_INPUT:
        return f"The inputs reach {float(x.abs().max()):.2g}: scale them to mean 0 and deviation 1"
    if op in _EDGES:
        return f"Keep the argument of {op} away from its edge: add a small constant (1e-6) or clamp it"
    if y is not None and y.is_floating_point() and not _finite((y,)):
        return "A target is not finite: fill it in or leave the row out"
    return "Lower the learning rate (try a tenth), clip the gradient, and scale the inputs"


def _finite(values: Sequence[Tensor]) -> bool:
    return all(not (v.is_floating_point() or v.is_complex()) or bool(v.detach().isfinite().all()) for v in values)


def _rows_of(value: Tensor, count: int) -> list[int]:
    if value.dim() == 0 or len(value) != count:
        return []
    return (~value.detach().reshape(count, -1).isfinite()).any(1).nonzero().flatten().tolist()


def _count(value: Tensor) -> str:
    value = value.detach()
    nan, inf = int(value.isnan().sum()), int(value.isinf().sum())
    kinds = " and ".join(f"{count} {kind}" for count, kind in ((nan, "nan"), (inf, "infinite")) if count)
    return f"{kinds} of {value.numel()} values"


def _range(values: Sequence[Tensor]) -> str:
    values = [v.detach().float() for v in values if v.is_floating_point() and v.numel()]
    if not values:
        return "none"
    return f"{min(float(v.min()) for v in values):.3g} and {max(float(v.max()) for v in values):.3g}"


def _target(y: Tensor) -> str:
    return some(f"{value:g}" for value in y.reshape(-1).tolist())
