"""Cross-validation: K models, each judged on the part of the rows that it has not seen, trained as one population.

score = 1/K Σ_k score of model k on part k                                                        (1)
what it is worth: mean ± t(K - 1) · s · √(1/K + n_test / n_train)      (Nadeau and Bengio, 2003)  (2)

scores = ll.cross_validate(model, data, folds=10)
scores["accuracy"], scores.interval("accuracy")
scores.pooled                  every row by the model that has not seen it, as one split
scores.ensemble                the mean of the K predictions on rows that are in no fold
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from leadline.data.account import counted
from leadline.data.data import Data
from leadline.data.folds import folds as folds_of
from leadline.engine.evaluation import Evaluation
from leadline.engine.events import Listener
from leadline.errors import UserError
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, label, short, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood
from leadline.population import Population, Spread, fit_many
from leadline.regularize import Regularizer
from leadline.selection.averaged import averaged, pooled
from leadline.selection.paired import interval
from leadline.settings import Settings, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class CrossValidation(View, Mapping[str, float]):
    """A mapping from a metric's name to its mean over the folds.

    Args:
        population: the runs, fold by fold; `population[k].data` is the fold.
        scores: metrics of each run on its held-out part.
        pooled: metrics of all held-out rows together, each predicted once.
        ensemble: metrics of the mean prediction of all models on the rows of `data.test`; None where there are none.
        num, repeats: K, and how often the rows were cut anew.
        headline: the metric by which people judge this family; `higher_is_better` says how.
    """

    population: Population
    scores: Spread
    pooled: Evaluation
    ensemble: Evaluation | None
    num: int
    repeats: int
    headline: str
    higher_is_better: bool

    def __getitem__(self, name: str) -> float:
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def overlap(self) -> float:
        """n_test / n_train of eq. 2, the mean over the folds."""
        data = [run.need_data() for run in self.population]
        return float(np.mean([len(fold.test) / (len(fold.train) + len(fold.val)) for fold in data]))

    def std(self, name: str) -> float:
        """Standard deviation over the folds."""
        return self.scores.std(name)

    def interval(self, name: str) -> tuple[float, float]:
        """Ends of the 95 % interval of the score on rows such as these (eq. 2)."""
        return interval(self.scores.values_of(name), self.overlap)

    def out_of_fold(self) -> dict[str, np.ndarray]:
        """Every row with what was predicted for it: `row` in the source, `fold` from 1, `y`, `predicted`."""
        found: dict[str, list[np.ndarray]] = {"row": [], "fold": [], "y": [], "predicted": []}
        for k, run in enumerate(self.population.runs[: self.num]):
            rows, prediction = run.need_data().test, run.likelihood.prediction(run.outputs("test"))
            mode = run.target.discrete or not run.likelihood.has_density
            found["row"].append(np.array(rows.row_numbers(torch.arange(len(rows)))))
            found["fold"].append(np.full(len(rows), k + 1))
            found["y"].append(rows.y.numpy(force=True))
            found["predicted"].append((prediction.mode if mode else prediction.mean).numpy(force=True))
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def to_dict(self) -> dict[str, Any]:
        runs = self.population.runs
        return {
            "view": "CrossValidation",
            "folds": self.num,
            "repeats": self.repeats,
            "headline": self.headline,
            "mean": dict(self),
            "std": {name: self.std(name) for name in self},
            "interval": {name: list(self.interval(name)) for name in self},
            "pooled": dict(self.pooled),
            "pooled_interval": {name: list(self.pooled.interval(name)) for name in self.pooled},
            "ensemble": None if self.ensemble is None else dict(self.ensemble),
            "each": [
                {
                    "fold": k % self.num + 1,
                    "train": len(run.need_data().train),
                    "val": len(run.need_data().val),
                    "test": len(run.need_data().test),
                    "epochs": len(run.history),
                    "best_epoch": run.best_epoch,
                    "reason": run.reason,
                    "seed": run.settings.seed,
                    "metrics": dict(evaluation),
                }
                for k, (run, evaluation) in enumerate(zip(runs, self.scores.evaluations, strict=True))
            ],
            "seconds": self.population.seconds,
        }

    @styled
    def plot(self) -> Figure:
        figure = blank(FULL, 3.6)
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
        name = self.headline
        values = self.scores.values_of(name)
        low, high = self.interval(name)
        place = np.arange(1, len(values) + 1)
        spans = np.array([evaluation.interval(name) for evaluation in self.scores.evaluations])
        left.axhspan(low, high, color=HUES[0], alpha=0.13, lw=0, label="95 % interval of the mean")
        left.axhline(self[name], color=HUES[0], lw=1.3, label=f"mean {short(self[name])}")
        left.vlines(place, spans[:, 0], spans[:, 1], color=SOFT, lw=1.0)
        left.plot(place, values, "o", ms=5, color=INK, label="held-out part, with its rows' 95 %")
        left.set_xticks(place if len(place) <= 20 else place[:: -(-len(place) // 10)])
        label(left, f"{name} of {counted(len(values), 'model')}, each on rows that it has not seen", "fold", name, 3)
        self._learning(right)
        return figure

    def _learning(self, ax: Any) -> None:
        """Validation over the epochs, the middle half of the folds as a band."""
        curves = [
            {record["epoch"]: record["val"][self.headline] for record in run.history if "val" in record}
            for run in self.population
        ]
        epochs = sorted(set().union(*curves))
        if not epochs:
            ax.text(0.5, 0.5, "no rows to validate on", ha="center", va="center", color=SOFT, transform=ax.transAxes)
            label(ax, "While they learned", "epoch", self.headline)
            return
        rows = np.array([[curve.get(epoch, np.nan) for epoch in epochs] for curve in curves])
        few, middle, many = np.nanpercentile(rows, [25, 50, 75], axis=0)
        ax.fill_between(epochs, few, many, color=HUES[2], alpha=0.2, lw=0, label="middle half")
        ax.plot(epochs, middle, color=HUES[2], label="median")
        ends = np.nanpercentile(rows[:, len(epochs) // 10 :], [1, 99])  # the first epochs would squeeze all others
        room = 0.15 * (ends[1] - ends[0]) or 0.1
        ax.set_ylim(ends[0] - room, ends[1] + room)
        label(ax, "While they learned, on their validation rows", "epoch", self.headline, 2)

    def __repr__(self) -> str:
        low, high = self.interval(self.headline)
        told = f"{self.headline} {self[self.headline]:.4g}, 95 % {low:.4g} … {high:.4g}"
        again = f" × {self.repeats}" if self.repeats > 1 else ""
        return f"CrossValidation({told}; {self.num} folds{again})"


def cross_validate(
    model: nn.Module | Callable[..., nn.Module],
    data: Data,
    folds: int | Sequence[Data] = 10,
    *,
    repeats: int = 1,
    stratified: bool = True,
    groups: Any = None,
    val: float | None = None,
    split_seed: int = 0,
    likelihood: Likelihood | type[Likelihood] | str | None = None,
    regularize: Sequence[Regularizer | str] | Regularizer | str = (),
    progress: str | bool = "auto",
    listeners: Sequence[Listener] = (),
    **settings: Any,
) -> CrossValidation:
    """Train a model on each of K folds, as one population, and judge each on its held-out part.

    Args:
        model: a template that is built anew for each fold, or a function that makes one.
        data: whose rows that train and validate are cut; the mean prediction is judged on those that test.
        folds: K, at least 2; or the folds themselves, as `ll.data.folds` makes them.
        repeats: how often the rows are cut anew, at least 1; with first weights of another seed each time.
        stratified, groups, val, split_seed: how the rows are cut, as for `ll.data.folds`.
        likelihood, regularize, progress, listeners, settings: as for `fit_many`.

    >>> import leadline as ll
    >>> scores = cross_validate(ll.models.MLP(4, (8,), 3), ll.data.iris(), folds=3, epochs=5, progress=False)
    >>> len(scores.population), sorted(scores)
    (3, ['accuracy', 'nll'])
    """
    repeats = whole("repeats", repeats, 1, usual=1)
    seed = Settings.make(**settings).seed  # a slip in a setting is told before the rows are cut
    if data.target.placed:
        raise UserError(
            "cross-validation must have one answer for each row, to put the folds' answers together",
            got=f"{data.target}",
            do="Train on one split, or with several seeds",
        )
    if isinstance(folds, int):
        cut = lambda again: folds_of(  # noqa: E731
            data, folds, seed=split_seed + again, stratified=stratified, groups=groups, val=val
        )
        parts = [(fold, seed + again) for again in range(repeats) for fold in cut(again)]
        num = folds
    else:
        parts, num = [(fold, seed) for fold in folds], len(folds)
        if num < 2 or repeats > 1 or not all(isinstance(fold, Data) and len(fold.test) for fold, _ in parts):
            raise UserError(
                "folds of your own must be at least two Data with rows to test on, and are used once",
                got=f"{counted(num, 'fold')}, repeats={repeats}",
                do="Let ll.data.folds(data, 10) make them, or pass folds=10",
            )
    population = fit_many(
        model,
        data,
        [{"data": fold, "seed": own} for fold, own in parts],
        likelihood=likelihood,
        regularize=regularize,
        progress=progress,
        listeners=listeners,
        **settings,
    )
    return judged(population, data, num, repeats)


def judged(population: Population, data: Data, num: int, repeats: int = 1) -> CrossValidation:
    """The scores of runs that were trained on folds."""
    family = population[0].likelihood
    ensemble = averaged(population.runs, data) if len(data.test) else None
    scores, all_rows = population.evaluate("test"), pooled(population.runs[:num])
    return CrossValidation(
        population, scores, all_rows, ensemble, num, repeats, family.headline, family.higher_is_better
    )
