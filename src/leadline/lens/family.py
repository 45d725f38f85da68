"""A family of functions: what one network computes for several choices of its parameters.

    y = f[x, φ]          one curve over x for each φ                                                         (1)

With a likelihood the curves are means or probabilities: a logistic unit, say, grows sharper with the length of its
weights.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UserError
from leadline.lens.answers import answer_of
from leadline.lens.at_rest import at_rest
from leadline.lens.joints import end_of
from leadline.lens.style import FULL, HUES, INK, SEQUENTIAL, blank, label, short, styled
from leadline.lens.view import View
from leadline.lens.weights import weight_at
from leadline.likelihoods import Likelihood
from leadline.models import Shallow
from leadline.settings import given, real, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Family(View):
    """Curves of one network.

    Args:
        choices: the parameters that each curve sets, by name; a whole tensor as its length.
        words: what a legend says of each.
        x: the input, or the place on the line from `low` (0) to `high` (1), (num,); `scalar` tells which.
        values: (curves, num, K), outputs, or with a likelihood means or probabilities.
        names: of the K.
    """

    choices: tuple[dict[str, float], ...]
    words: tuple[str, ...]
    x: np.ndarray
    scalar: bool
    values: np.ndarray
    names: tuple[str, ...]

    @styled
    def plot(self) -> Figure:
        import matplotlib

        shown = min(self.values.shape[2], 4)
        figure = blank(min(FULL, 2.0 + 4.6 * shown), 3.9)
        axes = figure.subplots(1, shown, squeeze=False)[0]
        map_ = matplotlib.colormaps[SEQUENTIAL]
        many = len(self.words)
        for k, ax in enumerate(axes):
            for j, word in enumerate(self.words):
                hue = HUES[j] if many <= 5 else map_(0.9 * j / max(many - 1, 1))
                ax.plot(
                    self.x, self.values[j, :, k], color=hue, label=word if many <= 8 or j in (0, many - 1) else None
                )
            title = f"One network, {many} choices of its parameters"
            label(
                ax,
                title if shown == 1 else self.names[k],
                "x" if self.scalar else "place on the line",
                self.names[k],
                2,
            )
            ax.set_xlim(self.x[0], self.x[-1])
            ax.axhline(0, color=INK, lw=0.5, alpha=0.4, zorder=0)
        return figure


def family(
    model: nn.Module,
    choices: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[float]],
    low: Any = -1.0,
    high: Any = 1.0,
    *,
    likelihood: Likelihood | None = None,
    num: int = 401,
) -> Family:
    """Curves of `model` for several choices of its parameters, which it keeps as they are.

    Args:
        choices: a list, one mapping for each curve, from names to values: single weights such as "map.weight[0, 0]",
            names of `Shallow` such as "phi0", or whole tensors by the name of their parameter. Or one weight with a
            list of values.
        low, high: two numbers for one input, or two points of any input space and the line between them.
        likelihood: draws means, or probabilities of classes, instead of raw outputs.
        num: points of a curve.

    >>> view = family(nn.Linear(1, 1), {"weight[0, 0]": [0.5, 1.0, 2.0]})
    >>> view.words, (view.values[:, -1, 0] - view.values[:, 0, 0]).round(5).tolist()  # over a length of 2
    (('weight[0, 0] = 0.5', 'weight[0, 0] = 1', 'weight[0, 0] = 2'), [1.0, 2.0, 4.0])
    """
    num, chosen = whole("num", num, 2, usual=401), _choices(choices)
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a torch module", got=given("model", model), do="Pass run.model, or the module")
    start, end = end_of("low", low), end_of("high", high)
    if start.shape != end.shape or (start == end).all():
        raise UserError(
            "low and high must be two ends of a line",
            got=f"{given('low', low)} and {given('high', high)}",
            do="Pass two numbers, or two points of one shape",
        )
    scalar = start.size == 1
    along = np.linspace(0.0, 1.0, num).reshape(num, *[1] * start.ndim)
    points = torch.tensor(start + along * (end - start))
    values: list[np.ndarray] = []
    names: tuple[str, ...] = ()
    with at_rest(model):
        for choice in chosen:
            try:
                out = _with(model, choice)(points).flatten(1)
            except RuntimeError as error:
                raise ShapeError(
                    "the model must take points of the given shape",
                    got=f"points of shape {tuple(start.shape)}, and from the model: {str(error).splitlines()[0]}",
                    do="Pass low and high as points of the model's input space",
                ) from None
            names, said = _said(out, likelihood)
            values.append(said)
    x = np.linspace(start.item(), end.item(), num) if scalar else np.linspace(0, 1, num)
    flat = tuple({k: _number(v) for k, v in choice.items()} for choice in chosen)
    return Family(
        flat, tuple(_word(choice, k) for k, choice in enumerate(chosen, 1)), x, scalar, np.stack(values), names
    )


def _choices(choices: Any) -> list[dict[str, Any]]:
    if isinstance(choices, Mapping) and len(choices) == 1:
        name, values = next(iter(choices.items()))
        if isinstance(values, (list, tuple, range, np.ndarray)) and len(values):
            return [{str(name): value} for value in values]
    if isinstance(choices, (list, tuple)) and choices and all(isinstance(c, Mapping) and c for c in choices):
        return [{str(name): value for name, value in choice.items()} for choice in choices]
    raise UserError(
        "choices must be a list of parameters by name, or one name with a list of values",
        got=given("choices", choices),
        do='Write [{"phi0": 0.1}, {"phi0": 0.5}], or {"phi0": [0.1, 0.5]}',
    )


def _with(model: nn.Module, choice: dict[str, Any]) -> nn.Module:
    """The network with the parameters of a choice, in float64; a copy."""
    other = copy.deepcopy(model).cpu().double()
    known = dict(other.named_parameters())
    for name, value in choice.items():
        if isinstance(other, Shallow) and name in other.names:
            other.set({name: value})
        elif name in known and np.ndim(value):
            wanted = torch.as_tensor(value, dtype=torch.float64)
            if wanted.shape != known[name].shape:
                raise ShapeError(
                    f"{name} must have shape {tuple(known[name].shape)}",
                    got=f"shape {tuple(wanted.shape)}",
                    do="Pass a tensor of that shape",
                )
            known[name].copy_(wanted)
        else:
            place, at = weight_at(other, name)
            known[place][at] = real(name, value)
    return other


def _said(out: Tensor, likelihood: Likelihood | None) -> tuple[tuple[str, ...], np.ndarray]:
    if likelihood is None:
        count = out.shape[1]
        return (("output",) if count == 1 else tuple(f"output {k + 1}" for k in range(count))), out.cpu().numpy()
    answer = answer_of(likelihood.prediction(out.float()))
    if answer.kind != "classes":
        return ("predicted mean",), answer.mean[:, None]
    p = answer.probabilities
    if p.shape[1] == 2:
        return ("probability of 1",), p[:, 1:]
    return tuple(f"probability of class {c}" for c in range(p.shape[1])), p


def _number(value: Any) -> float:
    return float(np.linalg.norm(np.asarray(value, dtype=float))) if np.ndim(value) else float(value)


def _word(choice: dict[str, Any], k: int) -> str:
    parts = [
        f"|{name}| = {short(_number(value))}" if np.ndim(value) else f"{name} = {short(float(value))}"
        for name, value in choice.items()
    ]
    return ", ".join(parts) if len(parts) <= 2 else f"choice {k}"
