"""Signal and gradient through depth: one report for any module (figure 7.4 of Prince's book, and more).

    forward     q_k = E z_k²             z_k the output of the k-th map that is called                          (1)
    backward    g_k = E (∂loss_row / ∂z_k)²                                                                     (2)
    theory      q_{k+1} = D_k σ_k² c q_k + β_k²,   g_k = D_{k+1} σ_k² c g_{k+1},   c = (1 + a²)/2               (3)

(3) is drawn where the module is a chain of linear maps with ReLUs (a = 0), leaky ReLUs of slope a or nothing (a = 1)
between them; σ_k² and β_k² are the mean squares of its weights and biases, D_k its widths. Second moments and not
variances are what (3) follows. Over many layers they leave single precision: 50 layers of 100 units with σ² = 1 end at
10^85, with 0.001 at 10^-65. So the pass is made in double precision, on a copy, unless the model's own is asked for.
Single draws stray from the expectation by more the deeper they are; `draws` of an initialiser are averaged.

Notation   D_k, σ_k², c -> `leadline.reference.first_weights`, which has (3) in plain numbers
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.engine.sounding import Level, Loss, Sounding, by_batch, sound
from leadline.engine.soundness import faults
from leadline.engine.untouched import untouched
from leadline.errors import UserError
from leadline.init import initialise
from leadline.lens.rows import Fitted, fit_to, loss_of, rows_of
from leadline.lens.style import DASHED, FULL, HUES, INK, SOFT, blank, label, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WORDS = {
    "dead": "dead",
    "saturated": "saturated",
    "vanishing": "vanishing",
    "lost": "vanishing",
    "exploding": "exploding",
    "wild": "mis-initialised",
    "alike": "mis-initialised",
}
_NAMED = 12  # layers up to which the axis has their paths


@dataclass(frozen=True, eq=False)
class Depth(View):
    """What goes through a model.

    Args:
        names: paths of the maps, in the order in which they are called.
        forward, backward: eq. 1 and 2, means over the draws, (L,); `forwards` and `backwards` of each draw, (draws, L).
        variance: of z, about its mean over rows and units, (L,).
        theory_forward, theory_backward: eq. 3, (L,); nan where it does not apply.
        dead, saturated: shares of units and of activations, (L,); nan where no such activation follows.
        ratio: |gradient of the weight| over |weight|, (L,); of the mean loss.
        lost: values that are not finite, forward and backward, (L,).
        input: second moment of what the model reads.
        verdict: healthy, vanishing, exploding, dead, saturated or mis-initialised; `where` and `evidence` say why.
    """

    names: tuple[str, ...]
    forward: np.ndarray
    backward: np.ndarray
    forwards: np.ndarray
    backwards: np.ndarray
    variance: np.ndarray
    theory_forward: np.ndarray
    theory_backward: np.ndarray
    dead: np.ndarray
    saturated: np.ndarray
    ratio: np.ndarray
    lost: np.ndarray
    input: float
    verdict: str
    where: str
    evidence: str

    def __str__(self) -> str:
        head = f"{'layer':<24}{'forward':>10}{'variance':>10}{'backward':>10}{'dead':>7}{'flat':>7}{'|g|/|W|':>10}"
        lines = [head]
        for k, name in enumerate(self.names):
            sizes = "".join(f"{v[k]:>10.2g}" for v in (self.forward, self.variance, self.backward))
            shares = "".join("      –" if np.isnan(v[k]) else f"{v[k]:>7.0%}" for v in (self.dead, self.saturated))
            lost = f"  {self.lost[k]:.0f} values not finite" if self.lost[k] else ""
            lines.append(f"{name[-24:]:<24}{sizes}{shares}{self.ratio[k]:>10.2g}{lost}")
        return "\n".join([*lines, self.text])

    @property
    def text(self) -> str:
        """The verdict in one sentence."""
        return self.verdict if not self.where else f"{self.verdict}: {self.where}: {self.evidence}"

    @styled
    def plot(self) -> Figure:
        shares = {"dead": self.dead, "saturated": self.saturated}
        shares = {name: values for name, values in shares.items() if not np.isnan(values).all()}
        figure = blank(FULL * 0.72, 5.2 if shares else 3.8)
        rows = figure.subplots(1 + bool(shares), 1, sharex=True, height_ratios=[3, 1] if shares else [1], squeeze=False)
        top: Axes = rows[0, 0]
        at = np.arange(1, len(self.names) + 1)
        for hue, name, mean, each, theory in (
            (HUES[0], "forward: second moment of z", self.forward, self.forwards, self.theory_forward),
            (HUES[1], "backward: second moment of ∂loss/∂z", self.backward, self.backwards, self.theory_backward),
        ):
            dots = "o-" if len(at) <= 60 else "-"
            top.plot(at, _positive(mean), dots, ms=3, lw=1.4, color=hue, label=name)
            if len(each) > 1:
                low, high = (np.nanquantile(_positive(each), part, axis=0) for part in (0.1, 0.9))
                words = f"middle 80 % of {len(each)} draws" if hue == HUES[0] else None  # one entry for both
                top.fill_between(at, low, high, color=hue, alpha=0.15, lw=0, label=words)
            if not np.isnan(theory).all():
                words = "theory" if hue == HUES[0] else None
                top.plot(at, _positive(theory), ls=DASHED, lw=1.2, color=INK, label=words)
        top.set_yscale("log")
        top.yaxis.set_minor_formatter("")
        label(top, f"Signal and gradient through depth: {self.verdict}", "", "mean square", legend=2)
        if shares:
            below: Axes = rows[1, 0]
            for (name, values), hue in zip(shares.items(), (SOFT, HUES[5]), strict=False):
                below.plot(at, 100 * values, "o-", ms=3, lw=1.2, color=hue, label=f"{name} {_OF[name]}")
            below.set_ylim(-4, 104)
            label(below, "", "", "share, %", legend=2)
        last: Axes = rows[-1, 0]
        if len(at) <= _NAMED:
            last.set_xticks(at, [name if len(name) <= 18 else "…" + name[-17:] for name in self.names], rotation=25)
            for tick in last.get_xticklabels():
                tick.set_horizontalalignment("right")
        last.set_xlabel("map, in the order of execution")
        return figure


_OF = {"dead": "units", "saturated": "activations"}


def depth(
    model: nn.Module | Fitted,
    data: Any = None,
    likelihood: Likelihood | str | Loss | None = None,
    *,
    split: str = "train",
    num: int = 256,
    init: str | None = None,
    draws: int = 1,
    seed: int = 0,
    exact: bool = True,
) -> Depth:
    """What a model does to signal and gradient on their way through it. The model is left as it was.

    Args:
        data: Data, a Split, a pair (x, y), or x alone, as the network reads it: the loss is then ½ Σ output².
        likelihood: of y; the target picks it where none is given.
        num: rows at most, at least 2.
        init: a name in `leadline.init.INITS`: looks at copies with such first weights in place of the model's own.
        draws: of `init`, averaged, at least 1.
        seed: of the first draw; each next one counts up.
        exact: compute in double precision; False takes the model's own.

    >>> net = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1))
    >>> view = depth(net, torch.randn(64, 100), init="he", draws=20)
    >>> view.verdict, view.names, bool(1.5 < view.forward[1] < 2.5)
    ('healthy', ('0', '2', '4'), True)
    """
    module, x, y, loss = _asked(model, data, likelihood, split, whole("num", num, 2, usual=256))
    draws = whole("draws", draws, 1, usual=10)
    if init is None and draws > 1:
        raise UserError("draws are draws of an initialiser", got=f"draws={draws}, init=None", do="Pass init='he'")
    each = []
    with untouched(module, training=False):
        for turn in range(draws):
            one = module
            if init is not None:
                one = copy.deepcopy(module)
                initialise(one, init, torch.Generator().manual_seed(seed + turn), (x, y), loss)
            by_batch(one)
            each.append(_sound(one, x, y, loss, exact))
    return _view(each)


def _asked(model: Any, data: Any, likelihood: Any, split: str, num: int) -> tuple[nn.Module, Tensor, Tensor, Loss]:
    if isinstance(model, Fitted):
        data = model.need_data() if data is None else data
        likelihood = model.likelihood if likelihood is None else likelihood
        model = model.model
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a run or a torch module", got=given("model", model), do="Pass run")
    if isinstance(data, Tensor):
        x = fit_to(model, data[:num])
        return model, x, torch.zeros(len(x)), lambda out, _: out.flatten(1).square().sum(1) / 2
    if data is None:
        raise UserError("a module must come with rows", got="data=None", do="Pass Data, a pair (x, y), or x alone")
    rows = rows_of(data, split)
    loss = loss_of(rows, likelihood)
    x = rows.encoded(model)[:num]
    return model, x, rows.y[:num].to(x.device), loss


def _sound(model: nn.Module, x: Tensor, y: Tensor, loss: Loss, exact: bool) -> Sounding:
    if not exact:
        return sound(model, x, y, loss)
    wide = lambda t: t.detach().double() if t.is_floating_point() else t.detach().clone()  # noqa: E731
    state = {name: wide(p).requires_grad_(p.is_floating_point()) for name, p in model.named_parameters()}
    state |= {name: wide(b) for name, b in model.named_buffers()}
    if isinstance(owner := getattr(loss, "__self__", None), Likelihood):
        loss = copy.deepcopy(owner).double().loss
    return sound(model, wide(x), wide(y), loss, state)


def _view(each: Sequence[Sounding]) -> Depth:
    levels = [one.levels for one in each]
    if not levels[0]:
        raise UserError(
            "depth follows maps with weights", got="a model that calls none", do="Look at a network that has some"
        )
    of = lambda what: np.array([[getattr(level, what) for level in row] for row in levels], dtype=float)  # noqa: E731
    moments, gradients = of("moment"), of("gradient")
    averages = {what: of(what).mean(0) for what in ("moment", "gradient", "dead", "saturated", "power")}
    mean = [
        replace(level, **{what: float(values[k]) for what, values in averages.items()})  # type: ignore[arg-type]
        for k, level in enumerate(levels[0])
    ]
    sizes = {what: float(np.mean([getattr(one, what) for one in each])) for what in ("input", "told", "loss", "empty")}
    read = tuple(np.mean([one.read for one in each], axis=0).tolist())
    whole_ = replace(each[0], levels=mean, read=(read[0], read[1]), output=None, **sizes)  # type: ignore[arg-type]
    found = faults(whole_)
    nothing = np.full(len(mean), np.nan)
    forward, backward = _theory(mean, whole_.input) if whole_.plain else (nothing, nothing)
    with np.errstate(invalid="ignore", over="ignore"):
        variance = (moments - of("mean") ** 2).mean(0)
    lost = of("lost").sum(0)
    verdict, where, evidence = "healthy", "", ""
    if lost.any():
        first = int(lost.argmax())
        verdict, where, evidence = "exploding", mean[first].path, f"{lost[first]:.0f} values are not finite"
    elif found:
        verdict, where, evidence = _WORDS[found[0].kind], found[0].where, found[0].evidence
    return Depth(
        tuple(level.path for level in mean),
        moments.mean(0),
        gradients.mean(0),
        moments,
        gradients,
        variance,
        forward,
        backward,
        of("dead").mean(0),
        of("saturated").mean(0),
        of("ratio").mean(0),
        lost,
        whole_.input,
        verdict,
        where,
        evidence,
    )


def _theory(levels: Sequence[Level], moment: float) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 3, from what the model reads down, and from the last map's gradient back."""
    keeps = [(1 + level.slope**2) / 2 if level.bends else 1.0 for level in levels]
    forward, reads = [], moment
    for level, c in zip(levels, keeps, strict=True):
        q = level.fans[0] * level.power * reads + level.bias
        forward.append(q)
        reads = c * q
    backward = [levels[-1].gradient]
    for level, c in zip(levels[:0:-1], keeps[-2::-1], strict=True):
        backward.append(level.fans[1] * level.power * c * backward[-1])
    return np.array(forward), np.array(backward[::-1])


def _positive(values: np.ndarray) -> np.ndarray:
    """What a logarithmic axis can show."""
    return np.where((values > 0) & np.isfinite(values), values, math.nan)
