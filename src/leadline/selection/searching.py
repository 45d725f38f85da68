"""Search over settings: train many, keep what validates best, look at what mattered.

    found = ll.search(model, data, {"lr": "log:1e-4:1e-1", "hidden": [(50,), (100,), (200,)]}, trials=64)
    found.best            the setting
    found.run             its run; found.run.evaluate("test") once, at the very end
    found.plot()          history, what mattered, and the score against each setting

    random      every trial by itself                                       (Bergstra and Bengio, 2012)
    tpe         Pr(setting | good) against Pr(setting | bad)                (Bergstra et al., 2011)
    gp          a Gaussian process over settings, expected improvement      (Snoek et al., 2012)
    forest      a random forest in its place                                (SMAC; Hutter et al., 2011)
    bandit      Thompson's choice among the values of each choice
    hyperband   random, many for few epochs, the best for more              (Li et al., 2016)
    bohb        the same with proposals by tpe                              (Falkner et al., 2018)

Trials are asked for in batches and trained as populations: those that differ in learning rate, decay, momentum, seed,
first weights or strength of a regulariser are one computation; those of different sizes are a few.
"""

from __future__ import annotations

import inspect
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from leadline.config import Configured
from leadline.data.account import counted
from leadline.data.data import Data
from leadline.data.folds import folds as folds_of
from leadline.errors import UnknownName, UserError
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, label, short, styled
from leadline.lens.view import View
from leadline.likelihoods import Likelihood
from leadline.names import lookup, suggest
from leadline.optim import likelihood_of
from leadline.population import MORE, Population, fit_many
from leadline.regularize import Regularizer, regularizers, words
from leadline.run import Run
from leadline.selection.cross_validation import CrossValidation, judged
from leadline.selection.rungs import Rung, planned
from leadline.selection.space import Space
from leadline.selection.space import label as in_words
from leadline.settings import Settings, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from leadline.selection.study import Study

#: how settings are proposed, and whether they pass rungs
METHODS: dict[str, tuple[str, bool]] = {
    "tpe": ("tpe", False),
    "random": ("random", False),
    "gp": ("gp", False),
    "forest": ("forest", False),
    "bandit": ("bandit", False),
    "hyperband": ("random", True),
    "bohb": ("tpe", True),
}
TOGETHER = 16  # trials of a batch: more are faster, fewer learn more from those before


@dataclass(frozen=True)
class Tried:
    """One trial.

    Args:
        number: in the order of the study.
        values: its setting.
        score: on validation rows; None where there is none.
        state: finished, stopped at a rung, diverged, failed, or running.
        epochs, seconds: of its training.
    """

    number: int
    values: dict[str, Any]
    score: float | None
    state: str
    epochs: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Search(View):
    """What a search found.

    Args:
        trials: all of the study, those of other processes among them.
        metric: what the score is; `higher_is_better` says how.
        names: of what was searched.
        method: how settings were proposed.
        seconds: of this call.
    """

    trials: tuple[Tried, ...]
    metric: str
    higher_is_better: bool
    names: tuple[str, ...]
    method: str
    seconds: float
    logs: tuple[str, ...] = ()
    _weighed: Callable[[], dict[str, float]] = field(default=dict, repr=False)
    _kept: dict[int, list[Run]] = field(default_factory=dict, repr=False)
    _fit: Callable[[dict[str, Any]], Population] | None = field(default=None, repr=False)
    _judge: Callable[[Population], CrossValidation] | None = field(default=None, repr=False)

    @cached_property
    def top(self) -> Tried:
        """The trial with the best score among those that were trained to their end."""
        done = [trial for trial in self.trials if trial.state == "finished" and trial.score is not None]
        if not done:
            raise UserError(
                "a search needs a finished trial to have a best one",
                got=f"{counted(len(self.trials), 'trial')}, none finished",
                do="Search on, or look at found.trials: rates that are too high diverge",
            )
        sign = 1 if self.higher_is_better else -1
        return max(done, key=lambda trial: (sign * float(trial.score or 0.0), -trial.number))

    @cached_property
    def importances(self) -> dict[str, float]:
        """Share of the scores' variance that each setting explains (fANOVA); of those that are in every trial."""
        return self._weighed()

    @property
    def best(self) -> dict[str, Any]:
        """The setting of the best trial."""
        return self.top.values

    @property
    def score(self) -> float:
        """Of the best trial, on validation rows: it was chosen for it, so it flatters."""
        return float(self.top.score or 0.0)

    @cached_property
    def scores(self) -> CrossValidation | None:
        """The cross-validation of the best trial, with its fold ensemble; None for a search on one split."""
        if self._judge is None:
            return None
        return self._judge(self._population())

    @cached_property
    def run(self) -> Run:
        """The run of the best trial: as it was found, or trained again where another process found it.

        Of a search over folds, the run of the first fold; `scores` has them all.
        """
        return self._population()[0]

    def _population(self) -> Population:
        if self.top.number not in self._kept:
            if self._fit is None:
                raise RuntimeError("a search knows how to train a setting")
            self._kept[self.top.number] = self._fit(self.best).runs
        return Population(self._kept[self.top.number], [self.best] * len(self._kept[self.top.number]))

    def to_dict(self) -> dict[str, Any]:
        return {
            "view": "Search",
            "method": self.method,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "best": {name: _json(value) for name, value in self.best.items()},
            "score": self.score,
            "importances": self.importances,
            "trials": [
                {**vars(trial), "values": {name: _json(value) for name, value in trial.values.items()}}
                for trial in self.trials
            ],
            "seconds": self.seconds,
        }

    @styled
    def plot(self) -> Figure:
        shown = list(self.importances) + [name for name in self.names if name not in self.importances]
        shown = shown[:6]
        columns = 3
        rows = 1 + -(-len(shown) // columns)
        figure = blank(FULL, 2.7 * rows + 0.2)
        grid = figure.add_gridspec(rows, columns)
        self._history(figure.add_subplot(grid[0, :2]))
        self._mattered(figure.add_subplot(grid[0, 2]))
        for place, name in enumerate(shown):
            self._slice(figure.add_subplot(grid[1 + place // columns, place % columns]), name)
        return figure

    def _scored(self) -> list[Tried]:
        return [trial for trial in self.trials if trial.score is not None]

    def _limits(self) -> tuple[float, float]:
        """Of the axis of scores: the worst tenth of the trials may lie outside."""
        scores = np.array([trial.score for trial in self._scored()], dtype=float)
        low, high = np.percentile(scores, [10, 100] if self.higher_is_better else [0, 90])
        room = 0.12 * (high - low) or 0.05 * abs(high) or 0.1
        return float(low - room), float(high + room)

    def _points(self, ax: Any, x: Any, trials: Sequence[Tried]) -> None:
        low, high = self._limits()
        for state, marker, colour, name in (
            ("stopped", "o", SOFT, "stopped at a rung"),
            ("finished", "o", HUES[0], "finished"),
        ):
            mine = [k for k, trial in enumerate(trials) if trial.state == state]
            if not mine:
                continue
            y = np.clip([float(trials[k].score or 0.0) for k in mine], low, high)
            ax.plot([x[k] for k in mine], y, marker, ms=4.5, color=colour, alpha=0.75, mew=0, label=name)
        top = next((k for k, trial in enumerate(trials) if trial.number == self.top.number), None)
        if top is not None:
            ax.plot(x[top], self.score, "*", ms=12, color=HUES[1], mec=INK, mew=0.7, label="best")
        ax.set_ylim(low, high)

    def _history(self, ax: Any) -> None:
        trials = self._scored()
        numbers = [trial.number + 1 for trial in trials]
        self._points(ax, numbers, trials)
        keep = np.maximum if self.higher_is_better else np.minimum
        done = [trial for trial in trials if trial.state == "finished"]
        if done:
            best = keep.accumulate([float(trial.score or 0.0) for trial in done])
            ax.step(
                [trial.number + 1 for trial in done], best, where="post", color=HUES[0], lw=1.2, label="best so far"
            )
        lost = len(self.trials) - len(trials)
        more = f"; {lost} without a score" if lost else ""
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        label(ax, f"{counted(len(self.trials), 'trial')} by {self.method}{more}", "trial", f"val {self.metric}", 4)

    def _mattered(self, ax: Any) -> None:
        names = list(self.importances)[:8][::-1]
        if not names:
            ax.text(0.5, 0.5, "too few trials to tell", ha="center", va="center", color=SOFT, transform=ax.transAxes)
        ax.barh(range(len(names)), [self.importances[name] for name in names], color=HUES[5], height=0.6)
        ax.set_yticks(range(len(names)), names)
        ax.grid(False, axis="y")
        ax.set_xlim(0, 1)
        label(ax, "What mattered", "share of the variance explained", "")

    def _slice(self, ax: Any, name: str) -> None:
        from matplotlib.ticker import LogLocator, NullLocator

        trials = [trial for trial in self._scored() if name in trial.values]
        values = [trial.values[name] for trial in trials]
        numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        few = len(set(values))
        if numbers and (few > 6 or few == len(values) > 1):  # out of a range; of a choice values come again
            self._points(ax, values, trials)
            if name in self.logs:
                ax.set_xscale("log")
                ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=6))
                ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
                ax.xaxis.set_minor_locator(NullLocator())
        else:
            known = list(dict.fromkeys(sorted((in_words(v) for v in values), key=lambda v: (len(v), v))))
            spread = np.random.default_rng(0).uniform(-0.18, 0.18, len(values))
            self._points(ax, [known.index(in_words(v)) + s for v, s in zip(values, spread, strict=True)], trials)
            ax.set_xticks(range(len(known)), known)
            ax.set_xlim(-0.6, len(known) - 0.4)
            ax.grid(False, axis="x")
        label(ax, "", name, f"val {self.metric}")

    def __repr__(self) -> str:
        setting = ", ".join(f"{name} {_told(value)}" for name, value in self.best.items())
        return f"Search({self.metric} {self.score:.4g} with {setting}; {counted(len(self.trials), 'trial')})"


def search(
    model: nn.Module | Callable[..., nn.Module],
    data: Data,
    space: Mapping[str, Any],
    *,
    trials: int = 64,
    method: str = "tpe",
    folds: int = 0,
    together: int = TOGETHER,
    storage: str | Path | None = None,
    search_seed: int = 0,
    likelihood: Likelihood | type[Likelihood] | str | None = None,
    regularize: Sequence[Regularizer | str] | Regularizer | str = (),
    progress: str | bool = "auto",
    **settings: Any,
) -> Search:
    """Train `trials` settings out of a space, as populations; what was found.

    Args:
        model: a template that is built anew for each trial, or a function that makes one.
        data: trials are judged by the headline metric on its validation rows, or, with `folds`, by its mean over folds.
        space: settings of `fit` and arguments of the model, each with a range or a choice (leadline.selection.space).
        trials: of the whole study, at least 1; those that a storage holds already count.
        method: a name in leadline.selection.METHODS.
        folds: 0 for the data's own validation rows, or K of at least 2.
        together: trials that are asked for at once, at least 1.
        storage: a file that other processes may share and a later call goes on with: .db for SQLite, else lines of
            JSON; or the address of a database. None keeps the trials in memory.
        search_seed: of the proposals, at least 0; `seed` is that of the networks.
        likelihood, regularize, settings: of all trials, as for `fit_many`.
        progress: a line for each batch; False for none.

    >>> import leadline as ll
    >>> found = search(ll.models.MLP(2, (8,), 1), ll.data.moons(num=120), {"lr": "log:1e-4:1e-1"}, trials=4,
    ...                method="random", epochs=3, progress=False)
    >>> len(found.trials), sorted(found.best)
    (4, ['lr'])
    """
    try:
        from leadline.selection.study import Study
    except ImportError:
        raise UserError(
            "a search needs optuna, which must be installed",
            got="no module called optuna",
            do="Run: pip install optuna",
        ) from None
    start = time.monotonic()
    proposals, rungs = lookup(method, METHODS, "method")
    method = next(name for name in METHODS if name.lower() == method.lower())
    trials, together = whole("trials", trials, usual=64), whole("together", together, usual=TOGETHER)
    whole("search_seed", search_seed, 0, usual=0)
    found = Space(space)
    if rungs and "epochs" in found:
        raise UserError(
            f"{method} decides how many epochs a trial has", got="epochs in the space", do="Pass epochs=27, the most"
        )
    work = _Work(model, data, found, folds, likelihood, regularizers(regularize), settings)  # type: ignore[arg-type]
    study = Study(found, proposals, search_seed, work.higher, storage, work.about(method))
    shown = progress is not False and progress != "off"
    kept: dict[int, list[Run]] = {}
    with study.living():
        plan = _batches(trials - study.done(), together, work.settings.epochs, rungs)
        for steps in plan:
            study.revive()
            asked = study.ask(steps[0].settings, trials)
            if not asked:
                break
            _climb(study, work, asked, steps, kept, "running" if shown else False)
            if shown:
                _say(study, work, trials)
        while (asked := study.ask(together, trials)) or study.revive():  # settings of the dead, queued again
            _climb(study, work, asked, [Rung(together, work.settings.epochs)], kept, "running" if shown else False)
    return Search(
        tuple(_tried(trial, found) for trial in study.trials if trial.params),
        work.metric,
        work.higher,
        tuple(found),
        method,
        time.monotonic() - start,
        tuple(name for name, spec in found.items() if spec.log),
        study.importances,
        kept,
        lambda values: work.fit([values], work.settings.epochs, False),
        work.judge if folds else None,
    )


class _Work:
    """How settings become runs and scores."""

    def __init__(
        self,
        model: nn.Module | Callable[..., nn.Module],
        data: Data,
        space: Space,
        folds: int,
        likelihood: Any,
        acting: tuple[Regularizer, ...],
        settings: dict[str, Any],
    ):
        self.model, self.data, self.space, self.likelihood, self.acting = model, data, space, likelihood, acting
        self.given = settings
        self.settings = Settings.make(**settings)
        self.own = _arguments(model)
        known = [f.name for f in fields(Settings)] + [name for name in MORE if name == "label_noise"]
        for name in space:
            if name not in known and name not in self.own:
                raise UnknownName(
                    "what is searched must be a setting or an argument of the model",
                    got=name,
                    do=suggest(name, [*known, *self.own]).rstrip("."),
                )
            if name in settings and name not in self.own:
                raise UserError(
                    f"{name} must be searched or given", got=f"{name}={settings[name]!r} beside its range",
                    do="Leave one of them out",
                )  # fmt: skip
        self.known = known
        self.folds = folds_of(data, folds) if folds else [data]
        self.split = "test" if folds else "val"
        if not len(self.folds[0][self.split]):
            raise UserError(
                "a search needs rows to validate on", got="none", do="Read the data with val=0.15, or pass folds=5"
            )
        family = likelihood_of(model, data.target, None, likelihood)  # type: ignore[arg-type]
        self.metric, self.higher = family.headline, family.higher_is_better

    def about(self, method: str) -> dict[str, Any]:
        """What whoever joins must have in common."""
        config = self.model.config if isinstance(self.model, Configured) else str(type(self.model).__name__)
        return {
            "space": self.space.to_dict(),
            "data": self.data.fingerprint,
            "model": {"name": type(self.model).__name__, "config": config},
            "settings": {**self.settings.config, "regularize": list(words(self.acting))},
            "folds": len(self.folds) if self.split == "test" else 0,
            "metric": self.metric,
            "rungs": METHODS[method][1],
        }

    def fit(self, drawn: Sequence[dict[str, Any]], epochs: int, progress: str | bool) -> Population:
        """A run for each setting and fold, setting by setting."""
        members = []
        for values in drawn:
            own = {name: value for name, value in values.items() if name in self.known}
            options = {name: self._argument(name, value) for name, value in values.items() if name not in self.known}
            own.setdefault("epochs", epochs)
            members += [{**own, **({"model": options} if options else {}), "data": fold} for fold in self.folds]
        common = {name: value for name, value in self.given.items() if name != "epochs"}
        return fit_many(
            self.model, self.data, members, likelihood=self.likelihood, regularize=self.acting, progress=progress,
            **common,
        )  # fmt: skip

    def _argument(self, name: str, value: Any) -> Any:
        """A number where the model has a list, such as its hidden layers, is a list of one."""
        config: dict[str, Any] = self.model.config if isinstance(self.model, Configured) else {}
        return (value,) if isinstance(config.get(name), list) and not isinstance(value, tuple) else value

    def score(self, runs: Sequence[Run]) -> float | None:
        """The mean over the folds; None where a run diverged."""
        found = [run.evaluate(self.split)[self.metric] for run in runs]
        if any(run.reason == "diverged" for run in runs) or not all(map(math.isfinite, found)):
            return None
        return sum(found) / len(found)

    def judge(self, population: Population) -> CrossValidation:
        return judged(population, self.data, len(self.folds))


def _arguments(model: nn.Module | Callable[..., nn.Module]) -> list[str]:
    """What the model can be built with, besides what the data decide."""
    if isinstance(model, nn.Module) and not isinstance(model, Configured):
        return []
    function = type(model) if isinstance(model, nn.Module) else model
    return [name for name in inspect.signature(function).parameters if name not in ("self", "dim_input", "dim_output")]


def _batches(trials: int, together: int, epochs: int, rungs: bool) -> list[list[Rung]]:
    if rungs:
        return list(planned(trials, epochs))
    return [[Rung(min(together, trials - at), epochs)] for at in range(0, max(trials, 0), together)]


def _climb(
    study: Study,
    work: _Work,
    asked: list[tuple[Any, dict[str, Any]]],
    rungs: Sequence[Rung],
    kept: dict[int, list[Run]],
    progress: str | bool,
) -> None:
    """Train the settings of a batch, rung by rung, and tell the study how each ended."""
    going = asked
    try:
        for place, rung in enumerate(rungs):
            if not going:
                return
            last = place + 1 == len(rungs)
            population = work.fit([values for _, values in going], rung.epochs, progress)
            count, seconds = len(work.folds), population.seconds / len(going)
            runs = {trial.number: population.runs[k * count : (k + 1) * count] for k, (trial, _) in enumerate(going)}
            scores = {trial.number: work.score(runs[trial.number]) for trial, _ in going}
            sign = 1 if work.higher else -1
            rank = {number: -math.inf if score is None else sign * score for number, score in scores.items()}
            ranked = sorted(going, key=lambda one: rank[one[0].number], reverse=True)
            on = (
                []
                if last
                else [one for one in ranked[: rungs[place + 1].settings] if scores[one[0].number] is not None]
            )
            going_on = {trial.number for trial, _ in on}
            for trial, _ in going:
                score = scores[trial.number]
                if trial.number in going_on:
                    study.report(trial, float(score or 0.0), rung.epochs)
                else:
                    epochs = len(runs[trial.number][0].history)
                    study.tell(trial, score, seconds, epochs, stopped=not last)
            if last and ranked and scores[ranked[0][0].number] is not None:
                number = ranked[0][0].number
                before = [k for k in kept if k != number]
                if all(sign * float(scores[number] or 0) > sign * float(_score_of(study, k)) for k in before):
                    kept.clear()
                    kept[number] = runs[number]
            going = [one for one in going if one[0].number in going_on]
    except BaseException:
        study.fail([trial for trial, _ in going])
        raise


def _score_of(study: Study, number: int) -> float:
    """The score of a finished trial."""
    return float(next(trial.value for trial in study.trials if trial.number == number) or 0.0)


def _tried(trial: Any, space: Space) -> Tried:
    state = {"COMPLETE": "finished", "PRUNED": "stopped", "FAIL": "failed", "RUNNING": "running", "WAITING": "waiting"}
    told = "diverged" if trial.user_attrs.get("diverged") else state[trial.state.name]
    score = trial.value
    if score is None and trial.intermediate_values:
        score = trial.intermediate_values[max(trial.intermediate_values)]
    attrs = trial.user_attrs
    values = space.values_of(trial.params)
    return Tried(trial.number, values, score, told, int(attrs.get("epochs", 0)), float(attrs.get("seconds", 0.0)))


def _say(study: Study, work: _Work, total: int) -> None:
    done = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    if not done:
        return
    top = (max if work.higher else min)(done, key=lambda trial: float(trial.value or 0.0))
    setting = ", ".join(f"{name} {_told(value)}" for name, value in work.space.values_of(top.params).items())
    best = f"best val {work.metric} {short(float(top.value or 0.0))} with {setting}"
    print(f"{study.done()}/{total} trials  {best}", file=sys.stderr, flush=True)


def _told(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else in_words(value)


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
