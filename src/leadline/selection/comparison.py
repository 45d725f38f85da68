"""Is one model better than another? Both are trained on the same folds or seeds, and the differences are judged.

d_j = score of the second in fold j - score of the first in fold j                            (1)

ll.compare(ll.cross_validate(small, data), ll.cross_validate(large, data))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.data.account import counted
from leadline.errors import UserError
from leadline.lens.style import DASHED, FULL, HUES, INK, blank, label, short, styled
from leadline.lens.view import View
from leadline.names import lookup
from leadline.population import Population
from leadline.selection.cross_validation import CrossValidation
from leadline.selection.paired import interval, p_of_permutations, p_of_signs, p_of_t

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Comparison(View):
    """Two models, pair by pair.

    Args:
        metric: what is compared; `higher_is_better` says how.
        first, second: scores, one a pair.
        mean: of the differences, second - first; `low` and `high` its 95 % interval (leadline.selection.paired, eq. 1).
        t, p_t: Student's t with the correction for shared training rows, and its p.
        p_sign, p_permutation: of the signs of the differences, and of all their changes of sign.
    """

    metric: str
    higher_is_better: bool
    first: np.ndarray
    second: np.ndarray
    mean: float
    low: float
    high: float
    t: float
    p_t: float
    p_sign: float
    p_permutation: float

    @property
    def verdict(self) -> str:
        """In words, at the level of 5 % of the corrected t."""
        if not self.p_t < 0.05:
            return f"no difference in {self.metric} that {counted(len(self.first), 'pair')} can tell from chance"
        better = (self.mean > 0) == self.higher_is_better
        return f"the {'second' if better else 'first'} is better in {self.metric}"

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.6)
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
        place = np.arange(1, len(self.first) + 1)
        left.vlines(place, self.first, self.second, color=INK, lw=0.9, alpha=0.5)
        left.plot(place, self.first, "o", ms=5, color=HUES[0], label="first")
        left.plot(place, self.second, "s", ms=5, color=HUES[1], label="second")
        left.set_xticks(place if len(place) <= 20 else place[:: -(-len(place) // 10)])
        label(left, f"{self.metric}, pair by pair", "fold or seed", self.metric, 2)
        right.axvline(0, color=INK, lw=1.0, ls=DASHED)
        right.plot(self.second - self.first, np.linspace(0.25, 0.75, len(place)), "o", ms=4, color=HUES[5], alpha=0.7)
        right.errorbar(
            self.mean, 1.0, xerr=[[self.mean - self.low], [self.high - self.mean]], fmt="D", ms=6, color=INK, capsize=4
        )
        right.set(ylim=(0, 1.25), yticks=[0.5, 1.0], yticklabels=["each", "mean,\n95 %"])
        told = f"p {short(self.p_t)} (t), {short(self.p_sign)} (signs), {short(self.p_permutation)} (permutations)"
        label(right, f"Second − first: {short(self.mean)}", f"difference in {self.metric}\n{told}", "")
        return figure

    def __repr__(self) -> str:
        span = f"{self.mean:.4g}, 95 % {self.low:.4g} … {self.high:.4g}"
        return f"Comparison({self.metric}: second - first {span}; p {self.p_t:.3g}; {self.verdict})"


def compare(
    first: CrossValidation | Population,
    second: CrossValidation | Population,
    metric: str | None = None,
    split: str = "test",
) -> Comparison:
    """Two models over the same folds, or two populations over the same members, such as seeds.

    Args:
        metric: by default the one by which people judge the first's family.
        split: of populations; folds are compared on their held-out parts.

    >>> import leadline as ll
    >>> folds = ll.data.folds(ll.data.iris(), 3)
    >>> scores = lambda width: ll.cross_validate(ll.models.MLP(4, (width,), 3), ll.data.iris(), folds, epochs=3,
    ...                                          progress=False)
    >>> len(compare(scores(4), scores(8)).first)
    3
    """
    for one in (first, second):
        if not isinstance(one, (CrossValidation, Population)):
            raise UserError(
                "compare takes two cross-validations, or two populations",
                got=type(one).__name__,
                do="Pass what ll.cross_validate or ll.fit_many returned",
            )
    folded = isinstance(first, CrossValidation)
    runs = [one.population.runs if isinstance(one, CrossValidation) else one.runs for one in (first, second)]
    if folded != isinstance(second, CrossValidation) or len(runs[0]) != len(runs[1]) or len(runs[0]) < 2:
        raise UserError(
            "both must be of one kind, with as many runs, at least two",
            got=f"{first!r} and {second!r}",
            do="Train both on the same folds, or over the same seeds",
        )
    for k, (a, b) in enumerate(zip(*runs, strict=True)):
        rows, others = a.need_data()["test" if folded else split], b.need_data()["test" if folded else split]
        same_rows = (rows.rows is None or others.rows is None) or rows.rows.tolist() == others.rows.tolist()
        if len(rows) != len(others) or not same_rows or not bool((rows.y == others.y).all()):
            raise UserError(
                "both must be judged on the same rows, pair by pair",
                got=f"other rows in pair {k + 1}",
                do="Pass the same folds=… (or split_seed) to both",
            )
    spreads = [one.scores if isinstance(one, CrossValidation) else one.evaluate(split) for one in (first, second)]
    family = runs[0][0].likelihood
    metric = family.headline if metric is None else metric
    known = {name: name for name in spreads[0] if name in spreads[1]}
    metric = lookup(metric, known, "metric of both")
    a, b = (np.array(spread.values_of(metric)) for spread in spreads)
    overlap = first.overlap if isinstance(first, CrossValidation) else 0.0
    differences = (b - a).tolist()
    low, high = interval(differences, overlap)
    t, p_t = p_of_t(differences, overlap)
    higher = family.higher_is_better if metric == family.headline else metric in ("accuracy", "r2")
    return Comparison(
        metric, higher, a, b, float(np.mean(differences)), low, high, t, p_t,
        p_of_signs(differences), p_of_permutations(differences),
    )  # fmt: skip
