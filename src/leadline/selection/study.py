"""A study: trials in a storage that several processes may share, on Optuna.

A trial is proposed from (seed, its number, what is finished), so a search with one seed is the same search every time,
one that goes on proposes no setting twice, and processes that share a storage propose different ones.

A process that is killed leaves trials that nobody computes. Each process says every few seconds that it lives; whoever
joins marks the trials of the dead as failed and queues their settings again.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from leadline.errors import RunError
from leadline.selection.proposals import Arms, by_forest, drawn
from leadline.selection.space import Space
from leadline.settings import Settings

NAME = "leadline"
_BEAT, _DEAD = 10.0, 60.0  # seconds between signs of life, and after which a process counts as dead
_STARTING = 10  # trials at random before a model of the scores is asked


class Study:
    """Args:
    space: what is searched.
    method: how settings are proposed: random, tpe, gp, forest or bandit.
    seed: of the proposals.
    higher: whether more of the score is better.
    storage: a file, an address of a database, or None for memory.
    about: what must be the same for all who join: data, model, settings, space.
    """

    def __init__(
        self, space: Space, method: str, seed: int, higher: bool, storage: str | Path | None, about: dict[str, Any]
    ):
        self.space = space
        with _quiet():
            self._study = optuna.create_study(
                study_name=NAME,
                storage=_storage(storage),
                sampler=_sampler(space, method, seed),
                direction="maximize" if higher else "minimize",
                load_if_exists=True,
            )
            self._same(about, storage)
        self.me = f"{socket.gethostname()}:{os.getpid()}:{time.time_ns()}"

    def _same(self, about: dict[str, Any], storage: Any) -> None:
        known = self._study.user_attrs.get("about")
        if known is None:
            self._study.set_user_attr("about", about)
            return
        if "settings" in known:  # one that was stored before a setting existed had what is usual now
            known = {**known, "settings": {**Settings().config, **known["settings"]}}
        other = [name for name in about if known.get(name) != about[name]]
        if other:
            raise RunError(
                "a search that goes on, or is shared, must be the one that began",
                got=f"{storage} with another {', '.join(other)}",
                do=f"Repeat the call as it was ({other[0]} was {known.get(other[0])}), or name another storage",
            )

    @property
    def trials(self) -> list[FrozenTrial]:
        with _quiet():
            return self._study.get_trials(deepcopy=False)

    def done(self) -> int:
        """Trials that have come to an end of their own."""
        return sum(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in self.trials)

    def revive(self) -> int:
        """Mark the trials of dead processes as failed and queue their settings again; how many there were."""
        alive = {who: at for who, at in self._study.user_attrs.items() if who.startswith("alive ")}
        queued = {trial.user_attrs.get("again") for trial in self.trials}
        count = 0
        for trial in self.trials:
            by = str(trial.user_attrs.get("by", ""))
            if trial.state is not TrialState.RUNNING or by == self.me or _lives(by, alive.get(f"alive {by}")):
                continue
            with _quiet():
                try:
                    self._study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
                except optuna.exceptions.UpdateFinishedTrialError:  # another process came first, in between
                    continue
                if trial.params and trial.number not in queued:
                    self._study.enqueue_trial(trial.params, user_attrs={"again": trial.number})
            count += 1
        return count

    def ask(self, most: int, total: int) -> list[tuple[Trial, dict[str, Any]]]:
        """Up to `most` trials, so long as there are not `total` without these, each with its setting."""
        found: list[tuple[Trial, dict[str, Any]]] = []
        with _quiet():
            while len(found) < most:
                taken = [t for t in self.trials if t.state is not TrialState.FAIL and t.state is not TrialState.WAITING]
                if len(taken) >= total:
                    break
                trial = self._study.ask()
                trial.set_user_attr("by", self.me)
                earlier = [t for t in self.trials if t.number < trial.number]
                spent = sum(t.state not in (TrialState.FAIL, TrialState.WAITING) for t in earlier)
                if spent >= total:  # another process was faster
                    self._study.tell(trial, state=TrialState.FAIL)
                    break
                found.append((trial, self.space.draw(trial)))
        return found

    def report(self, trial: Trial, score: float, epochs: int) -> None:
        """The score of a trial after some epochs, on its way."""
        with _quiet():
            trial.report(score, epochs)

    def tell(self, trial: Trial, score: float | None, seconds: float, epochs: int, stopped: bool = False) -> None:
        """The end of a trial: its score, or None where it diverged; `stopped` before its last rung."""
        with _quiet():
            trial.set_user_attr("seconds", seconds)
            trial.set_user_attr("epochs", epochs)
            if score is None:  # pruned without a score ranks below all others, so that its neighbours are avoided
                trial.set_user_attr("diverged", True)
                self._study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
            elif stopped:
                trial.report(score, epochs)
                self._study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
            else:
                self._study.tell(trial, score, skip_if_finished=True)

    def fail(self, trials: Sequence[Trial]) -> None:
        """Give trials up."""
        with _quiet():
            for trial in trials:
                self._study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)

    def importances(self) -> dict[str, float]:
        """Share of the scores' variance that each setting explains, by fANOVA; of those that every trial has."""
        finished = [t for t in self.trials if t.state is TrialState.COMPLETE]
        if len(finished) < 4 or len({t.value for t in finished}) < 2:
            return {}
        with _quiet():
            evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
            try:
                found = optuna.importance.get_param_importances(self._study, evaluator=evaluator)
                return {name: float(share) for name, share in found.items()}
            except (RuntimeError, ValueError):  # no setting is in all of them, or none varies
                return {}

    @contextmanager
    def living(self) -> Iterator[None]:
        """Say every few seconds that this process lives."""
        over = threading.Event()
        self._study.set_user_attr(f"alive {self.me}", time.time())

        def beat() -> None:
            while not over.wait(_BEAT):
                self._study.set_user_attr(f"alive {self.me}", time.time())

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _lives(who: str, seen: Any) -> bool:
    """Whether a process is there: asked of the system on this machine, else judged by its last sign of life."""
    host, _, rest = who.partition(":")
    number = rest.split(":")[0]
    if host == socket.gethostname() and number.isdigit():
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
    return isinstance(seen, (int, float)) and time.time() - seen < _DEAD


def _storage(storage: str | Path | None) -> Any:
    if storage is None:
        return None
    text = str(storage)
    if "://" in text:
        return text
    path = Path(text)
    if path.is_dir():
        raise RunError("storage must be a file", got=f"{text}, a folder", do=f"Name a file in it: {text}/search.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".db", ".sqlite", ".sqlite3"):
        return f"sqlite:///{path}"
    backend = JournalFileBackend(text, lock_obj=JournalFileOpenLock(text))
    try:
        return optuna.storages.JournalStorage(backend)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            "storage must be a search that was stored, or a new file",
            got=f"{text}, which is neither ({error})",
            do="Name another file",
        ) from None


def _sampler(space: Space, method: str, seed: int) -> BaseSampler:
    own: dict[str, Callable[[int], BaseSampler]] = {
        "random": lambda s: RandomSampler(seed=s),
        "tpe": lambda s: TPESampler(
            seed=s, n_startup_trials=_STARTING, multivariate=True, group=True, constant_liar=True,
            warn_independent_sampling=False,
        ),
        "gp": lambda s: GPSampler(seed=s, n_startup_trials=_STARTING, warn_independent_sampling=False),
    }  # fmt: skip
    if method in own:
        return _Numbered(own[method], seed)
    return _Proposed(space, method, seed)


def _mixed(seed: int, number: int) -> int:
    return (seed * 1_000_003 + number * 7919 + 12345) % (2**31 - 1)


class _Numbered(BaseSampler):
    """A sampler that is made anew for each trial, with a seed of the trial's number."""

    def __init__(self, make: Callable[[int], BaseSampler], seed: int):
        self.make, self.seed, self.own = make, seed, make(seed)

    def infer_relative_search_space(self, study: Any, trial: FrozenTrial) -> dict[str, Any]:
        with _quiet():
            self.own = self.make(_mixed(self.seed, trial.number))
            return self.own.infer_relative_search_space(study, trial)

    def sample_relative(self, study: Any, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        return self.own.sample_relative(study, trial, search_space)

    def sample_independent(self, study: Any, trial: FrozenTrial, param_name: str, param_distribution: Any) -> Any:
        return self.own.sample_independent(study, trial, param_name, param_distribution)


class _Proposed(BaseSampler):
    """A sampler out of leadline.selection.proposals: a whole setting for each trial."""

    def __init__(self, space: Space, method: str, seed: int):
        self.space, self.method, self.seed = space, method, seed
        self.stored: dict[str, Any] = {}

    def infer_relative_search_space(self, study: Any, trial: FrozenTrial) -> dict[str, Any]:
        import numpy as np

        seed = _mixed(self.seed, trial.number)
        sign = 1 if study.direction == optuna.study.StudyDirection.MAXIMIZE else -1
        others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number]
        scores = {t.number: _score(t) for t in others}
        worst = min((sign * score for score in scores.values() if score is not None), default=0.0)
        over = (TrialState.COMPLETE, TrialState.PRUNED)
        value = lambda score: worst if score is None else sign * score  # noqa: E731 - one that diverged is the worst
        tried = [(t.params, value(scores[t.number])) for t in others if t.state in over]
        waiting = [t.params for t in others if t.state is TrialState.RUNNING and t.params]
        if self.method == "forest":
            self.stored = by_forest(self.space, tried, waiting, seed)
        else:
            self.stored = drawn(self.space, Arms(np.random.default_rng(seed), tried))
        return {}

    def sample_relative(self, study: Any, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        return {}

    def sample_independent(self, study: Any, trial: FrozenTrial, param_name: str, param_distribution: Any) -> Any:
        return self.stored[param_name]


def _score(trial: FrozenTrial) -> float | None:
    if trial.value is not None:
        return trial.value
    return trial.intermediate_values[max(trial.intermediate_values)] if trial.intermediate_values else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna's log and its notes on what is new in it are not for our users."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            optuna.logging.set_verbosity(level)
