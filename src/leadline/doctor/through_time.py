"""How much of the loss's gradient reaches the early steps of a row, in every recurrent layer.

    g_t    = |∂loss / ∂x_t|              x_t what a layer reads at step t of a row                          (1)
    ratio  = largest g_t of the first half of a row / largest of its second half                            (2)
    felt   = steps back from the last one with g_t > 0 to the first one with g_t above a millionth of all   (3)

Where answers come from every step, as where a mean over steps is taken or each step asks for the next, (2) stays near 1
whatever the layer forgets: early steps have losses of their own. Where the last state alone answers, (2) falls or grows
with the product of the slopes from step to step, as `leadline.lens.fading` shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Data
from leadline.doctor.finding import Finding
from leadline.engine.soundness import FAR, TRAINED
from leadline.engine.untouched import untouched
from leadline.layers.deep_transition import DeepTransition
from leadline.layers.elman import Elman
from leadline.layers.recurrent_layers import RECURRENT
from leadline.likelihoods.likelihood import Likelihood

# Of fewer steps, any layer's first ones are felt; and what is called long ago must be some steps ago.
LONG = 20
# Float32 adds two numbers a million apart with one digit of the smaller left: what early steps have to say is lost in
# what late ones say, under any one learning rate.
FADED = 1e-6
# A gradient that is clipped to one size keeps of the late steps a ten-thousandth: a run learns from what is longest
# ago alone, and without clipping one step of it undoes the others.
GROWN = 1e4

PROBE_ROWS = 32

_KINDS = tuple(RECURRENT.values())
_PLAIN = (Elman, DeepTransition, nn.RNN)


@dataclass(frozen=True)
class Reach:
    """How the gradient of one layer runs through time.

    Args:
        path, kind: of the layer; plain: whether it has no gates.
        steps: of its rows, in the middle.
        ratio: eq. 2; felt: eq. 3, both in the middle of the rows.
    """

    path: str
    kind: str
    plain: bool
    steps: int
    ratio: float
    felt: int

    @property
    def name(self) -> str:
        return f"{self.path or 'the model'} ({self.kind})"

    @property
    def faded(self) -> bool:
        return self.ratio < FADED

    @property
    def grown(self) -> bool:
        return self.ratio > GROWN


Heard = list[tuple[str, nn.Module, Tensor]]


def is_recurrent(model: nn.Module) -> bool:
    """Whether it has a layer that reads steps one after the other.

    >>> is_recurrent(nn.Linear(1, 1)), is_recurrent(nn.Sequential(nn.GRU(1, 1)))
    (False, True)
    """
    return any(isinstance(part, (*_KINDS, nn.RNNBase)) for part in model.modules())


@contextmanager
def listened(model: nn.Module) -> Iterator[Heard]:
    """Inside, what recurrent layers read is kept in the list, as something that a gradient can be asked for."""
    heard: Heard = []
    handles = []
    parts = dict(model.named_modules())
    for path, part in parts.items():
        owner = parts.get(path.rpartition(".")[0]) if path else None
        if isinstance(part, _KINDS) or (isinstance(part, nn.RNNBase) and not isinstance(owner, _KINDS)):
            handles.append(part.register_forward_pre_hook(_keep(heard, path)))
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


def _keep(heard: Heard, path: str) -> Any:
    def hook(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        x = args[0] if args else None
        if not isinstance(x, Tensor) or x.dim() != 3 or not x.is_floating_point():
            return None
        x = x if x.requires_grad else x.detach().requires_grad_()
        heard.append((path, module, x))
        return (x, *args[1:])

    return hook


def reaches(heard: Heard, gradients: Sequence[Tensor | None]) -> list[Reach]:
    """Eqs. 2 and 3 of each layer that reads rows of at least `LONG` steps.

    >>> x = torch.zeros(1, 30, 1)
    >>> slope = 0.5 ** torch.arange(29.0, -1, -1).view(1, 30, 1)
    >>> [found] = reaches([("read", nn.GRU(1, 1, batch_first=True), x)], [slope])
    >>> found.faded, found.felt
    (False, 20)
    """
    found = []
    for (path, module, _), gradient in zip(heard, gradients, strict=True):
        if gradient is None:
            continue
        timed = isinstance(module, nn.RNNBase) and not module.batch_first
        sizes = (gradient.transpose(0, 1) if timed else gradient).detach().double().norm(dim=-1).cpu()  # eq. 1, (B, T)
        rows = [row for row in map(_row, sizes.nan_to_num(torch.inf, torch.inf)) if row is not None]
        if not rows or 2 * len(rows) < len(sizes):
            continue
        steps, ratio, felt = (torch.tensor(column, dtype=torch.float64).median() for column in zip(*rows, strict=True))
        plain = isinstance(module, _PLAIN)
        found.append(Reach(path, type(module).__name__, plain, int(steps), float(ratio), int(felt)))
    return found


def _row(g: Tensor) -> tuple[int, float, int] | None:
    """Steps, eq. 2 and eq. 3 of a row; what fills it at its end has no gradient. None of a short one, and of one in
    which late steps have an infinite gradient already.
    """
    there = g.nonzero().flatten()
    steps = int(there[-1]) + 1 if len(there) else 0
    if steps < LONG:
        return None
    early, late = float(g[: steps // 2].max()), float(g[steps // 2 : steps].max())
    if math.isinf(late):
        return None
    felt = steps - int((g >= FADED * g.max()).nonzero()[0])
    return steps, early / late if late > 0 else float("inf"), felt


def check_through_time(model: nn.Module, data: Data, likelihood: Likelihood) -> list[Finding]:
    """Whether the first weights of a recurrent layer let early steps be felt; the model is bit for bit as before.

    Layers with gates may learn to keep: of those, only growth is named before the first step.
    """
    if len(data.train) < 2 or not is_recurrent(model) or not any(p.requires_grad for p in model.parameters()):
        return []
    weight = next(model.parameters())
    x, y = (column.to(weight.device) for column in data.asked(torch.arange(data.few(PROBE_ROWS))))
    x = x.to(weight.dtype) if x.is_floating_point() and weight.is_floating_point() else x
    # cuDNN's recurrent layers have no backward pass in evaluation mode; torch's own have
    with untouched(model, training=False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        with listened(model) as heard:
            output = model(x)
            loss = likelihood.loss(output, y).mean()
        if not heard or not loss.requires_grad or not bool(loss.isfinite()):
            return []
        gradients = torch.autograd.grad(loss, [part for *_, part in heard], allow_unused=True)
    with torch.no_grad():  # smoothed labels would hold it against a trained model that it is sure
        scored = likelihood.loss if likelihood.loss_is_nll else lambda o, y: likelihood.measures(o, y)["nll"]
        now, empty = (float(scored(o, y).double().mean()) for o in (output.detach(), torch.zeros_like(output)))
    if empty - now > TRAINED:  # these are no first weights
        return []
    found = reaches(heard, gradients)
    grown = [reach for reach in found if reach.grown]
    if grown:
        return [exploding(max(grown, key=lambda reach: reach.ratio), "before the first step")]
    faded = [reach for reach in found if reach.plain and reach.ratio < 1 / FAR]
    return [vanishing(min(faded, key=lambda reach: reach.ratio), "before the first step")] if faded else []


def vanishing(reach: Reach, when: str, severity: str = "warning") -> Finding:
    """What is said where early steps are not felt."""
    return Finding(
        "vanishing-recurrence",
        severity,
        f"what happened more than {reach.felt} steps ago has no influence on the loss",
        f"{reach.name}, {when}",
        f"rows have {reach.steps} steps, and the gradient at those of the first half is {reach.ratio:.1g} times that "
        "of the second half",
        _KEEP if reach.plain else _KEEP_OPEN,
    )


def exploding(reach: Reach, when: str) -> Finding:
    """What is said where the gradient grows from step to step."""
    return Finding(
        "exploding-recurrence",
        "warning",
        "the gradient grows from step to step on its way back through time",
        f"{reach.name}, {when}",
        f"rows have {reach.steps} steps, and the gradient at those of the first half is {reach.ratio:.1g} times that "
        "of the second half",
        "Start with smaller recurrent weights (their largest singular value near 1), use cell='lstm' or 'gru', or clip "
        "the gradient (clip=1.0)",
    )


_KEEP = (
    "Use cell='lstm', 'gru' or 'lru', average the states of all steps (pool='mean'), or start with orthogonal "
    "recurrent weights; if only the last steps matter, shorter rows learn the same in less time"
)
_KEEP_OPEN = (
    "Start with open keep gates (a bias near the logarithm of the number of steps), use cell='lru', or average the "
    "states of all steps (pool='mean'); if only the last steps matter, shorter rows learn the same in less time"
)
