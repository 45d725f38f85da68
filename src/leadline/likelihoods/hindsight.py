"""Forecasts that have learned from how earlier ones ended: how far to follow the network, and how wide to be.

    a     = s + v (b - s)                        from the value of a season ago to the linear forecast,            (1)
    c     = a + w (m - a)                        and on to the network: what is forecast at o                      (2)
    x_o   = Σ_j j p(j),   j = 0, 0.1 … 1         each of the shares v, w and q, by the N values known at o         (3)
    p(j)  ∝ e^{-λj} (n μ + Σ |ε_j| / H)^{-(n + N/H)} Π k^{-j/H}
    v       λ = 0,  ε_j = (y - s - j (b - s)) / ρ,  without the product                                            (4)
    w       λ = n,  ε_j = (y - a - j (m - a)) / ρ,  without the product
    e     = u (y - c) / (end - m)                an error in units of its own spread, ±1.645 at the ends           (5)
    q       λ = n,  ε_j = e k^{-j}                                                                                 (6)
    f_o   = (n H μ + Σ' |e k^{-q}|) / (μ (n H + N'))      how much further than they said, by their sizes          (7)
    r_o²  = (n H + Σ' (e k^{-q})²) / (n H + N')           and by their squares
    V'    = c + f k^q (V - m)                    the law that is forecast: the network's, moved and stretched      (8)
    t_o   = t_ν(level) / t_∞(level)              of Student's law, ν = n + N' / H: r is known by so many windows   (9)
    g_o   = g_{o-1} + η (missed - (1 - level))   missed: the share of H intervals for v_o that do not hold it     (10)
    ends' = c + r k^q t e^g (ends - m)           the interval of a level                                          (11)

Sums are over what lies after the training part and is known at o: only values that have come by the origin of a
forecast have a part in it. In Σ' and the number N' they fade: what became known 100 steps before o, or 4 H where that
is more, counts half. A share is the mean of what it may be, each as likely as it makes the errors that came, where they
follow Laplace's law of a scale that nobody knows: (3) is the integral over it, with n values of the usual size put
before all others. Errors count by their size, not by its square, so that one storm does not outweigh what is told every
day; windows that overlap count as the H-th part of one each. By (4) each forecaster is followed as far as it has been
right on values that it did not learn from. Until they speak, forecasts go half of the way to the linear one
(series_linear.py), and by e^{-λj} a fifth of the way from there to that of the network: a network can say anything, and
the same values have chosen its epoch. Where neither has told more than the value of a season ago, that is what is
forecast. The spread that a network learns is that of the rows that it learned from. By (6) laws are wider where the
steps of a window are longer than those of training, and narrower where they are shorter, as far as these have told how
far values stray: there is more to fear in a storm than in the calm after it, and next to nothing where a series has
come to rest. By (7) they are besides as wide as they have missed of late: laws by the size of errors, which is what a
CRPS counts, and intervals by their squares, for it is the large errors that leave those. By (9) intervals are wider
while few windows have told so. By (10) intervals grow with every value outside of them and shrink a little with every
one inside, so that over a long time they hold the share that they promise, whatever the series does (Gibbs and Candès,
2021). A score of V' is one of V:

    CRPS(V', y) = f k^q CRPS(V, m + (y - c) / (f k^q))                                                            (12)

Notation   m -> median and ends -> interval of V, what the network says;  b -> linear forecast;  s -> value of a season
           ago;  ρ -> how far b strays in training;  k -> how far the steps of the window go, beside those of training;
           H -> horizon;  u = 1.645, the 95 % quantile of the standard normal;  μ = √(2/π), its mean size;  n = 4;
           η = 0.1.  The value of a season ago does not fade, and its f is r: it is the simplest
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from leadline.data.data import Split
from leadline.data.series_windows import Windows
from leadline.errors import UserError
from leadline.likelihoods.crps import crps
from leadline.likelihoods.prediction import Prediction

_LEVEL, _U = 0.9, 1.6448536  # of the ends of eq. 5
_USUAL = 4.0  # n
_SIZE = math.sqrt(2 / math.pi)  # μ
_SHARES = torch.linspace(0, 1, 11, dtype=torch.float64)  # j
_PACE = 0.1  # η
_HALF, _HORIZONS = 100, 4  # steps after which an error counts half in eq. 7; horizons, where those are longer


@dataclass(frozen=True, eq=False)
class Hindsight:
    """What is known at the origin of each row, in float64.

    Args:
        v, w, f: of eqs. 1 and 2, and f k^q of eq. 8, (N, 1).
        g: logarithm of r t e^g / f (eqs. 7, 9, 10), (N, 1).
        a: eq. 1, (N, H); None where a law is followed all the way.
    """

    v: Tensor
    w: Tensor
    f: Tensor
    g: Tensor
    a: Tensor | None = None

    @classmethod
    def none(cls, count: int) -> Hindsight:
        """Laws that stay as they are."""
        one = torch.ones(count, 1, dtype=torch.float64)
        return cls(one, one, one, torch.zeros_like(one))

    def last(self, count: int) -> Hindsight:
        """That of the last rows."""
        rows = slice(len(self.w) - count, None)
        kept = (own if own is None else own[rows] for own in (self.v, self.w, self.f, self.g, self.a))
        return Hindsight(*kept)  # type: ignore[arg-type]

    @property
    def still(self) -> bool:
        """Whether laws stay as they are."""
        followed = self.a is None or bool((self.w == 1).all())
        return followed and bool((self.f == 1).all() and (self.g == 0).all())

    def moved(self, prediction: Prediction, value: Tensor) -> Tensor:
        """A quantile or mean of V as one of V' (eq. 8), (N, H)."""
        return self._from_centre(prediction, value, self.f)

    def end(self, prediction: Prediction, value: Tensor) -> Tensor:
        """An end of an interval (eq. 11), (N, H)."""
        return self._from_centre(prediction, value, self.f * self.g.exp())

    def crps(self, prediction: Prediction, y: Tensor) -> Tensor:
        """CRPS of V' at y (eq. 12), (N, H)."""
        median = prediction.quantile(0.5)
        m, f = _flat(median), self.f.to(median.device)
        moved = m + (_flat(y).to(m.device) - self._centre(m)) / f
        return f * _flat(crps(prediction, moved.reshape(median.shape).to(median.dtype)))

    def _from_centre(self, prediction: Prediction, value: Tensor, wide: Tensor) -> Tensor:
        if self.still:
            return value
        m = _flat(prediction.quantile(0.5))
        return self._centre(m) + wide.to(m.device) * (_flat(value) - m)

    def _centre(self, m: Tensor) -> Tensor:
        """Eq. 2."""
        a = m if self.a is None else self.a.to(m.device)
        return a + self.w.to(m.device) * (m - a)


def of_parts(
    inputs: Windows, predictions: Sequence[Prediction], parts: Sequence[Split], level: float, weighed: bool = True
) -> Hindsight:
    """What is known at each row of parts that follow one another in time.

    Args:
        predictions: of each part.
        level: of the intervals that are told.
        weighed: whether the laws are those of a network, to be weighed against the linear forecast.
    """
    found = [_told(inputs, law, part, level, weighed) for law, part in zip(predictions, parts, strict=True)]
    told = [own for own in found if own is not None]
    if len(told) < len(found):
        return Hindsight.none(sum(map(len, parts)))
    joined = _Told(*(torch.cat(columns) for columns in zip(*told)))
    codes = [torch.zeros(len(part), dtype=torch.int64) if part.group is None else part.group.cpu() for part in parts]
    code, known = torch.cat(codes), torch.empty(len(joined.y), 5, dtype=torch.float64)
    for name in code.unique().tolist():
        own = _Told(*(column[code == name] for column in joined))
        known[code == name] = learned(own, level, fading=weighed)[:-1]
    v, w, q, f, g = known.split(1, 1)
    a = joined.s + v * (joined.b - joined.s) if weighed and inputs.linear is not None else None
    return Hindsight(v, w, f * joined.k[:, :1] ** q, g, a)


def at_end(inputs: Windows, law: Prediction | None, rows: Split, level: float) -> Tensor:
    """v, w, q, f and log r t e^g / f after the last value of a series, (1, 5). Where nothing has come, nothing speaks
    against the network.

    Args:
        law: of the rows that were not learned from; None where there are none.
    """
    told = None if law is None else _told(inputs, law, rows, level, True)
    return torch.tensor([[1.0, 1.0, 0.0, 1.0, 0.0]], dtype=torch.float64) if told is None else learned(told, level)[-1:]


def apart_in(rows: Split, horizon: int) -> int:
    """Windows of a split whose values do not overlap, of all series."""
    counts = [len(rows)] if rows.group is None else torch.bincount(rows.group).tolist()
    return sum((count + horizon - 1) // horizon for count in counts if count)


class _Told(NamedTuple):
    """What was said of y, all (N, H), in float64."""

    y: Tensor
    m: Tensor
    s: Tensor
    b: Tensor
    rho: Tensor
    k: Tensor
    low: Tensor  # ends of eq. 5
    high: Tensor
    least: Tensor  # ends of the level
    most: Tensor


def _told(inputs: Windows, law: Prediction, rows: Split, level: float, weighed: bool) -> _Told | None:
    """None of counts and of what must stay positive, and of families that know a few quantiles alone."""
    if inputs.kind != "real" or law.whole or law.positive:
        return None
    try:
        tails = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2, (1 - level) / 2, (1 + level) / 2
        m, *ends = (_flat(law.quantile(q)).cpu() for q in (0.5, *tails))
    except UserError:
        return None
    line = inputs.by_line(rows.x, rows.group) if weighed else None
    one = torch.ones_like(m)
    return _Told(_flat(rows.y).cpu(), m, *(line or (m, m, one, one)), *ends)


def learned(told: _Told, level: float, fading: bool = True) -> Tensor:
    """v, w, q, f and log r t e^g / f at each of the N origins of one series in the order of time, and after the last
    value: (N + 1, 5).

    Of two origins with H or more between them in this order there are as many steps between them in time, or more: no
    error counts before it is known.

    Args:
        fading: of eq. 7; otherwise its sums forget nothing, and f is r.
    """
    from scipy.special import ndtri, stdtrit

    y, m, s, b, rho, k = told[:6]
    v = _share(lambda j: (y - s - j * (b - s)) / rho, 0.0)  # eq. 4
    a = s + v[:-1] * (b - s)
    w = _share(lambda j: (y - a - j * (m - a)) / rho, _USUAL)
    away = y - a - w[:-1] * (m - a)
    e = _U * away / torch.where(away < 0, m - told.low, told.high - m).clamp(min=1e-12)  # eq. 5
    q = _share(lambda j: e * k**-j, _USUAL, k)  # eq. 6
    keep = 0.5 ** (1 / max(_HALF, _HORIZONS * y.shape[1])) if fading else 1.0
    sizes = (e * k ** -q[:-1]).abs()
    usual, every = _USUAL * y.shape[1], _known(torch.ones_like(y), keep)
    r = ((usual + _known(sizes.square(), keep)) / (usual + every)).sqrt()  # eq. 7
    f = (usual + _known(sizes, keep) / _SIZE) / (usual + every) if fading else r
    reach = torch.where(away < 0, m - told.least, told.most - m).clamp(min=1e-12) * k ** q[:-1]
    windows = _USUAL + every / y.shape[1]
    t = torch.from_numpy(stdtrit(windows.numpy(), (1 + level) / 2) / ndtri((1 + level) / 2))  # eq. 9
    g = _paced((away.abs() / reach / (r * t)[:-1]).log(), level)
    return torch.cat([v, w, q, f, g + (r * t / f).log()], 1)


def _share(missed: Callable[[float], Tensor], against: float, k: Tensor | None = None) -> Tensor:
    """How far to go (eq. 3), (N + 1, 1).

    Args:
        missed: ε of a share, (N, H).
        against: λ.
        k: of eq. 6, (N, H).
    """
    far = [missed(float(j)).abs() for j in _SHARES]
    H = far[0].shape[1]
    windows = _USUAL + _known(torch.ones_like(far[0])) / H
    told = -windows * torch.cat([_USUAL * _SIZE + _known(own) / H for own in far], 1).log() - against * _SHARES
    if k is not None:
        told = told - _SHARES * _known(k.log()) / H
    return told.softmax(1) @ _SHARES[:, None]


def _known(values: Tensor, keep: float = 1.0) -> Tensor:
    """The sum of values (N, H) of N origins that is known at each of them, and after the last value: (N + 1, 1).

    Args:
        keep: of the sum, from step to step.

    >>> _known(torch.ones(3, 1).double(), 0.5).flatten().tolist()
    [0.0, 1.0, 1.5, 1.75]
    """
    N, H = values.shape
    new = torch.zeros(N + H, dtype=torch.float64)
    for h in range(1, H + 1):  # what is h steps ahead is known h origins later
        new[h : h + N] += values[:, h - 1]
    total = new.cumsum(0)
    if keep < 1:
        total = torch.tensor(
            list(itertools.accumulate(new.tolist(), lambda sum, one: keep * sum + one)), dtype=torch.float64
        )
    at = torch.cat([torch.arange(N), torch.tensor([N + H - 1])])  # after the last value all are known
    return total[at, None]


def _paced(beyond: Tensor, level: float) -> Tensor:
    """g (eq. 10) at each of N origins, and after the last value, (N + 1, 1).

    Args:
        beyond: logarithm of how wide an interval must have been to hold its value, (N, H).

    >>> _paced(torch.tensor([[-1.0], [2.0], [-1.0]]), 0.9).flatten().round(decimals=2).tolist()
    [0.0, -0.01, 0.08, 0.07]
    """
    N, H = beyond.shape
    own = beyond.tolist()
    g = [0.0] * (N + H)
    for o in range(1, N + H):  # the value at o was forecast h steps ahead at the origin o - h
        ended = [own[o - h][h - 1] > g[o - h] for h in range(1, H + 1) if 0 <= o - h < N]
        g[o] = g[o - 1] + _PACE * (sum(ended) - (1 - level) * len(ended)) / H
    return torch.tensor([*g[:N], g[N + H - 1]], dtype=torch.float64)[:, None]


def _flat(values: Tensor) -> Tensor:
    return values.double().reshape(len(values), -1)
