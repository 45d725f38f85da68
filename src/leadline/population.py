"""A population: many networks trained as one computation, each the run that it would be alone.

    population = ll.fit_many(model, data, ll.members(seed=range(10), lr=[1e-3, 1e-2]))
    population.evaluate("test")        mean, deviation and range over the members
    population[3]                      an ordinary run

Members may differ in any setting, in their data and in their architecture. Those that can move together do (see
leadline.engine.together): one architecture, likelihood, optimizer, batch and number of epochs. Others form further
groups, and a group of one, or of what cannot be batched, is fitted as `fit` does it.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

from leadline import doctor
from leadline.config import Configured
from leadline.data.account import counted
from leadline.data.data import Data
from leadline.engine import workers
from leadline.engine.compiled import compiler_missing
from leadline.engine.computing import Computing
from leadline.engine.device import cores, pick_device, pick_precision
from leadline.engine.evaluation import Evaluation
from leadline.engine.events import Listener
from leadline.engine.feed import Feed
from leadline.engine.interrupts import Interrupts
from leadline.engine.member import Member
from leadline.engine.together import Together
from leadline.errors import UserError
from leadline.layers.batch_statistics import BatchRenorm, GhostBatchNorm
from leadline.layers.held_graph import give_graph
from leadline.layers.noise import draws_noise
from leadline.likelihoods import Likelihood
from leadline.names import suggest
from leadline.optim import likelihood_of
from leadline.optim.inline import Inline
from leadline.progress import progress as progress_listener
from leadline.regularize import Regularizer, regularizers, words
from leadline.run import Run
from leadline.session import first_weights, judged
from leadline.settings import Settings, given
from leadline.verbs import fit, refuse

#: settings in which members of one computation may differ
OWN = ("seed", "lr", "weight_decay", "momentum", "init", "init_scale", "regularize", "patience")
#: what a member may have besides settings
MORE = ("data", "model", "label_noise")
_MOST_BYTES = 2**32  # of pictures that members share, which a single run would read as it goes
#: seconds of a run that are worth measuring a second thread, a trace, and the compiler's time
_LONG_SECONDS, _COMPILE_SECONDS = 1.0, 20.0


def members(**lists: Any) -> list[dict[str, Any]]:
    """Every combination of the values of these options; a single value stands for itself.

    >>> members(seed=range(2), lr=[0.1, 0.01])[:3]
    [{'seed': 0, 'lr': 0.1}, {'seed': 0, 'lr': 0.01}, {'seed': 1, 'lr': 0.1}]
    """
    values = [list(v) if isinstance(v, (list, tuple, range)) else [v] for v in lists.values()]
    return [dict(zip(lists, row, strict=True)) for row in itertools.product(*values)]


def fit_many(
    model: nn.Module | Callable[..., nn.Module],
    data: Data,
    members: Sequence[Mapping[str, Any]],
    *,
    likelihood: Likelihood | type[Likelihood] | str | None = None,
    regularize: Sequence[Regularizer | str] | Regularizer | str = (),
    progress: str | bool = "auto",
    listeners: Sequence[Listener] = (),
    **settings: Any,
) -> Population:
    """Train one network for each member; the runs, in the order of `members`.

    Member m equals `torch.manual_seed(seed); fit(model(), data, seed=seed, …)` with its own options, up to rounding;
    layers that draw from torch's generator, such as torch.nn.Dropout, draw other numbers.

    Args:
        model: a template that is built anew for each member, or a function that makes one.
        members: the options of each: any setting; `data`; `model`, a dict of the model's arguments; `label_noise`, the
            share of training labels that are switched to another class.
        likelihood: as for `fit`.
        regularize: of all members that do not name their own.
        progress: as for `fit`; with the deviation over members.
        settings: of all members that do not name their own; on a CPU `threads` is the most processes that members are
            dealt to, and by default there is one a core where the run is long enough.

    >>> import leadline as ll
    >>> net, data = ll.models.MLP(2, (8,), 1), ll.data.moons(num=90)
    >>> len(fit_many(net, data, ll.members(seed=range(3)), epochs=2, progress=False))
    3
    """
    start = time.monotonic()
    if isinstance(members, (str, Mapping)) or not isinstance(members, Iterable):
        do = "Pass ll.members(seed=range(5)), or a dictionary of settings for each"
        raise UserError("members must be a list of the options of each", got=given("members", members), do=do)
    members = list(members)
    if not all(isinstance(options, Mapping) for options in members):
        wrong = next(options for options in members if not isinstance(options, Mapping))
        raise UserError("a member must be a dictionary of options", got=f"{wrong!r:.60}", do="Pass {'seed': 0}, say")
    if not members:
        raise UserError("a population needs at least one member", got="none", do="Pass members=[{'seed': 0}]")
    acting = regularizers(regularize)  # type: ignore[arg-type]
    parts = [_Part.make(model, data, options, likelihood, acting, settings) for options in members]
    groups: dict[str, list[_Part]] = {}
    for part in parts:
        groups.setdefault(part.group(), []).append(part)
    for group in groups.values():
        inputs = group[0].data.inputs
        give_graph(group[0].model, inputs.graph, getattr(inputs, "level", None))
        refuse(doctor.before(group[0].model, group[0].data, group[0].likelihood))
    for group in groups.values():
        together = len(group) > 1 and group[0].obstacle() is None
        if not together or not _fit_together(group, progress, listeners):
            for part in group:
                part.run = part.alone()
    return Population([part.run for part in parts if part.run is not None], list(members), time.monotonic() - start)


class Population(Sequence[Run]):
    """Args:
    runs: of the members, in order; `population[k]` is one.
    members: the options that each was given.
    seconds: of training, all together.
    """

    def __init__(self, runs: Sequence[Run], members: Sequence[Mapping[str, Any]], seconds: float = 0.0):
        self.runs, self.members, self.seconds = list(runs), [dict(m) for m in members], seconds

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Population(self.runs[index], self.members[index], self.seconds)
        return self.runs[index]

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def evaluate(self, split: str = "test") -> Spread:
        """Metrics of every member on a split; their mean, deviation and range."""
        return Spread([run.evaluate(split) for run in self.runs])

    def best(self, split: str = "val") -> Run:
        """The member with the best headline metric on a split."""
        likelihood = self.runs[0].likelihood
        sign = 1 if likelihood.higher_is_better else -1
        scores = [sign * run.evaluate(split)[likelihood.headline] for run in self.runs]
        return self.runs[max(range(len(scores)), key=lambda k: (not math.isnan(scores[k]), scores[k]))]

    @property
    def reasons(self) -> dict[str, int]:
        """How many members ended for which reason."""
        found: dict[str, int] = {}
        for run in self.runs:
            found[run.reason] = found.get(run.reason, 0) + 1
        return found

    def __repr__(self) -> str:
        ends = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items())
        return f"Population({counted(len(self), 'run')} of {type(self.runs[0].model).__name__}: {ends})"


class Spread(Mapping[str, float]):
    """Metrics of many runs: a mapping from name to mean, with deviation and each run's value.

    >>> spread = Spread([Evaluation({"accuracy": a}, {}, 10) for a in (0.8, 0.9, 1.0)])
    >>> round(spread["accuracy"], 3), round(spread.std("accuracy"), 3), spread.values_of("accuracy")
    (0.9, 0.1, [0.8, 0.9, 1.0])
    """

    def __init__(self, evaluations: Sequence[Evaluation]):
        self.evaluations = list(evaluations)

    def values_of(self, name: str) -> list[float]:
        """One value a run."""
        return [evaluation[name] for evaluation in self.evaluations]

    def __getitem__(self, name: str) -> float:
        values = self.values_of(name)
        return sum(values) / len(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self.evaluations[0])

    def __len__(self) -> int:
        return len(self.evaluations[0])

    def std(self, name: str) -> float:
        """Standard deviation over the runs, of the runs as a sample; nan for one."""
        values, mean = self.values_of(name), self[name]
        if len(values) < 2:
            return math.nan
        return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))

    def interval(self, name: str) -> tuple[float, float]:
        """Ends of the 95 % interval of the mean over runs such as these (Student's t)."""
        half = _t95(len(self.evaluations) - 1) * self.std(name) / math.sqrt(len(self.evaluations))
        return self[name] - half, self[name] + half

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {self[name]:.4g} ± {self.std(name):.2g}" for name in self)
        return f"Spread({figures}; {counted(len(self.evaluations), 'run')})"


@dataclass(eq=False)
class _Part:
    """A member on its way to a run."""

    model: nn.Module
    data: Data
    likelihood: Likelihood
    regularizers: tuple[Regularizer, ...]
    settings: Settings
    run: Run | None = None

    @classmethod
    def make(
        cls,
        template: nn.Module | Callable[..., nn.Module],
        data: Data,
        options: Mapping[str, Any],
        likelihood: Likelihood | type[Likelihood] | str | None,
        acting: tuple[Regularizer, ...],
        common: Mapping[str, Any],
    ) -> _Part:
        known = [field.name for field in fields(Settings)]
        for name in options:
            if name not in (*known, *MORE):
                raise UserError(
                    "a member must be given settings, data, model or label_noise",
                    got=name,
                    do=suggest(name, [*known, *MORE]).rstrip("."),
                )
        own = {name: value for name, value in options.items() if name in known and name != "regularize"}
        if "regularize" in options:
            acting = regularizers(options["regularize"])
        settings = Settings.make(**{**common, **own, "regularize": words(acting)})
        if not isinstance(options.get("data", data), Data):
            raise UserError("data of a member must be Data", got=str(type(options["data"]).__name__), do="See ll.data")
        data = options.get("data", data)
        if options.get("label_noise"):
            from leadline.data.resample import label_noise

            data = label_noise(data, options["label_noise"], settings.seed)
        model = _built(template, options.get("model", {}), settings.seed)
        head = copy.deepcopy(likelihood_of(model, data.target, None, likelihood))
        first_weights(model, head, settings, data)
        return cls(model, data, head, tuple(copy.deepcopy(r) for r in acting), settings)

    def group(self) -> str:
        """Equal for members that can be one computation."""
        tensors = {**self.model.state_dict(), **dict(self.model.named_parameters())}
        config = dict(self.likelihood.config)
        if self.likelihood.unit_in_buffers:  # then a member's unit is a tensor among others
            config = {name: value for name, value in config.items() if name not in ("shift", "scale")}
        mixed = any(map(_mixes_rows, self.model.modules())) or any(r.whole_batch for r in self.regularizers)
        key = [
            type(self.model).__qualname__,
            str(self.model),  # with what layers say of themselves
            self.model.config if isinstance(self.model, Configured) else None,
            {name: [list(t.shape), str(t.dtype)] for name, t in tensors.items()},
            [name for name, p in self.model.named_parameters() if not p.requires_grad],
            type(self.likelihood).__qualname__,
            config,
            [type(r).__qualname__ for r in self.regularizers],
            {name: value for name, value in self.settings.config.items() if name not in OWN},
            bool(self.settings.momentum) if self.settings.optimizer in ("sgd", "nesterov") else None,
            [len(self.data.val) > 0, list(self.data.train.x.shape[1:]), list(self.data.train.y.shape[1:])],
            [str(self.data.train.y.dtype), self.data.train.weight is None],
            min(self.settings.batch, len(self.data.train)),
            len(self.data.train) if mixed else None,  # rows that fill a batch up would count in what it has in common
        ]
        return json.dumps(key, sort_keys=True)

    def obstacle(self) -> str | None:
        """Why members such as this one are fitted one by one, or None."""
        if self.settings.accumulate > 1:
            return "gradients are accumulated"
        if self.settings.recompute:
            return "activations are computed again"
        if self.settings.carry_state:
            return "states are carried from batch to batch"
        if self.settings.average != "none":
            return "weights are averaged"
        if self.settings.epoch_steps is not None:
            return "epochs are parts of passes"
        if self.settings.decay_on != "all":
            return "some weights decay and some do not"
        if self.settings.optimizer not in ("sgd", "nesterov", "adam", "adamw"):
            return f"{self.settings.optimizer} has no batched form"
        if type(self.likelihood).overall is not Likelihood.overall:
            return f"{self.likelihood.headline} is no mean over rows"
        rows = self.data.train
        if self.data.inputs.sizes(tuple(rows.x.shape[1:])):
            return "rows are tokens, or ask of a graph"
        if self.data.inputs.late and 4 * rows.x.numel() > _MOST_BYTES:
            return "the pictures, as numbers, would not fit in memory"
        return None

    def alone(self) -> Run:
        return fit(
            self.model,
            self.data,
            likelihood=self.likelihood,
            progress=False,
            **{**self.settings.config, "regularize": self.regularizers, "init": "own", "init_scale": 1.0},
        )


def _mixes_rows(module: nn.Module) -> bool:
    """Whether it may look at the rows of a batch together; of a user's own module nobody knows."""
    if isinstance(module, (nn.modules.batchnorm._BatchNorm, BatchRenorm, GhostBatchNorm)):
        return True
    return not type(module).__module__.startswith(("torch.nn.", "leadline."))


def _built(template: nn.Module | Callable[..., nn.Module], options: Mapping[str, Any], seed: int) -> nn.Module:
    """The member's own network with first weights of its own seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if isinstance(template, Configured) and isinstance(template, nn.Module):
            return type(template)(**{**template.config, **options})
        if not isinstance(template, nn.Module):
            return template(**options)
        if options:
            raise UserError(
                "members with a model of their own need a model of leadline, or a function that makes one",
                got=f"a {type(template).__name__} and {', '.join(options)}",
                do="Pass a function: fit_many(lambda width: …, data, …)",
            )
        model = copy.deepcopy(template)
        for module in model.modules():
            reset = getattr(module, "reset_parameters", None)
            if reset is not None:
                reset()
        return model


def _fit_together(group: list[_Part], progress: str | bool, listeners: Sequence[Listener]) -> bool:
    """One group as one computation; every part gets its run. Whether it can be done at all."""
    start = time.monotonic()
    first = group[0]
    device = pick_device(first.settings.device)
    precision = pick_precision(first.settings.precision, device, first.model)
    dtype = torch.float64 if precision == "float64" else torch.float32
    feeds: dict[tuple[int, bool], Feed] = {}

    def feed(part: _Part, split: str, settings: Settings) -> Feed | None:
        """Rows that members share are encoded once."""
        rows = part.data[split]
        if not len(rows):
            return None
        key = (id(part.data), split == "train")
        if key not in feeds:
            noisy = draws_noise(part.model) or any(r.draws_noise for r in part.regularizers)
            own = settings.batch, 0, device, dtype, noisy, settings.replacement
            feeds[key] = Feed(rows, part.data.inputs, *own, whole=True)
        found = copy.copy(feeds[key])
        found.seed = settings.seed
        return found

    members = []
    for part in group:
        batch = min(part.settings.batch, len(part.data.train))
        settings = part.settings.with_(precision=precision, batch=batch)
        part.model.to(device, dtype)
        part.likelihood.to(device, dtype)
        train, val = feed(part, "train", settings), feed(part, "val", settings)
        if train is None:
            raise RuntimeError("data always have training rows")
        own = [r.to(device, dtype) for r in part.regularizers]
        for regularizer in own:
            regularizer.meet(part.data.inputs, part.data.target)
        members.append(Member(part.model, part.likelihood, own, settings, train, val))
    reason = Inline.obstacle(members[0].rule.optimizer)
    if reason is not None:
        raise RuntimeError(f"not to be batched: {reason}")
    shown = progress_listener(progress, first.likelihood.headline)
    heard = [listener for listener in (shown, *listeners) if listener is not None]
    with Computing(members[0].settings, device):
        together = Together(members, device, False, heard)
        try:
            count, threads, compiled = _way(together, device, first.settings)
        except RuntimeError as error:  # of vmap: the model does what cannot be done for many at once
            reason = str(error).strip().splitlines()[0]
            warnings.warn(f"members are fitted one by one: {reason}", stacklevel=3)
            return False
        if compiled and count == 1:
            together = Together(members, device, True, heard)
        if device.type == "cpu":
            torch.set_num_threads(threads)
        for member in members:
            member.model.train()
        with Interrupts(together):  # one Ctrl-C ends all members after this epoch, and they are still runs
            if count > 1:
                workers.Workers(together, count, compiled).fit()
            else:
                together.fit()
    seconds = (time.monotonic() - start) / len(group)
    for part, member in zip(group, members, strict=True):
        part.run = Run(
            part.model,
            part.likelihood,
            part.data,
            member.settings.with_(threads=threads, compile="on" if compiled else "off"),
            part.data.inputs,
            part.data.target,
            tuple(part.data.train.x.shape[1:]),
            member.history,
            [],
            member.ended or "interrupted",
            member.best_epoch or None,
            None,
            seconds,
            judge=judged,
        )
    return True


def _way(together: Together, device: torch.device, settings: Settings) -> tuple[int, int, bool]:
    """Processes, threads of each, and whether steps are compiled: measured, unless they are settled."""
    steps = settings.epochs * together.plan.steps
    able = compiler_missing(device) is None and settings.compile != "off"
    if device.type != "cpu":
        return 1, torch.get_num_threads(), able and (settings.compile == "on" or steps >= 1000)
    most = workers.most_workers(len(together.members), settings.threads)
    first = settings.threads or 1
    took = {first: together.seconds(first)}
    # with a worker on each core, a second thread has nothing to run on
    if settings.threads is None and cores() > most and steps * took[1] > _LONG_SECONDS:
        took[cores()] = together.seconds(cores())
    threads = min(took, key=lambda count: took[count])
    seconds, count = steps * took[threads], 1
    if most > 1:
        alone = steps * (took[1] if 1 in took else together.seconds(1))
        if alone > workers.WORTH_SECONDS and alone / most < seconds:
            seconds, count, threads = alone / most, most, 1
    return count, threads, able and (settings.compile == "on" or seconds > _COMPILE_SECONDS)


def _t95(freedom: int) -> float:
    """Student's two-sided 95 % quantile, by its expansion in 1/freedom; exact values for the first few."""
    table = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
    if freedom < 1:
        return math.nan
    z = 1.959964
    return table.get(freedom, z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2))
