"""One process's work on a run: settings resolved, parts built and bound, the loop run, the outcome recorded."""

from __future__ import annotations

import copy
import platform
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor, nn

from leadline import doctor
from leadline.config import Configured
from leadline.data.data import Batch, Data, Split
from leadline.data.tokens import Tokens
from leadline.doctor.finding import Finding
from leadline.engine.compiled import Compiled, choose, compiler_missing
from leadline.engine.computing import Computing, mixed
from leadline.engine.device import pick_device, pick_precision, pick_threads, place
from leadline.engine.evaluation import Evaluation
from leadline.engine.events import EpochDone, Event, Listener, RunEnded
from leadline.engine.feed import Feed, streams_of
from leadline.engine.interrupts import Interrupts
from leadline.engine.keeper import Keeper, restore
from leadline.engine.loop import Loop, NotFinite
from leadline.engine.record import Record
from leadline.errors import DivergedError, UserError
from leadline.layers.noise import draws_noise, keyed, mix_int
from leadline.likelihoods import Likelihood
from leadline.models import MODELS
from leadline.models.checkpointed import checkpointed, is_checkpointed
from leadline.optim import RULES, Gradient, Rule
from leadline.progress import progress as progress_listener
from leadline.regularize import Regularizer, regularizers
from leadline.repeat import command, python
from leadline.run import Run
from leadline.settings import Settings
from leadline.version import VERSION

if TYPE_CHECKING:
    from leadline.report.facts import Facts

_PROBE_ROWS, _PROBE_BYTES, _FEWEST = 128, 2**22, 8  # that the doctor looks at during a run: at most, and at least
_JUDGED = 10_000  # answers of training rows that are judged at the end, of pictures and texts
_LEAST = 500  # such rows, however many answers each has
_SHOWN = 24  # pictures of each split that a report may draw


class Session:
    """One process's work on a run: everything is resolved and built here, once, then trained."""

    def __init__(
        self,
        model: nn.Module,
        data: Data,
        likelihood: Likelihood,
        settings: Settings,
        rule: Rule | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        schedule: Any = None,
        regularize: Sequence[Regularizer] | None = None,
    ):
        self.device = pick_device(settings.device)
        precision = pick_precision(settings.precision, self.device, model)
        dtype = torch.float64 if precision == "float64" else torch.float32
        self.data = data
        self.model, self.likelihood = place(model, self.device, dtype), likelihood.to(self.device, dtype)
        _check_rows(model, settings, len(data.train), len(data.val))
        if settings.carry_state:
            _check_carried(data, settings, rule)
        if settings.epoch_steps is not None:
            _check_parts(settings, rule)
        self.again = settings.recompute and not is_checkpointed(model)
        if self.again:  # before anything is measured: it may be what makes a step fit into memory
            checkpointed(model)
        if regularize is None:
            regularize = regularizers(settings.regularize)
        keyed_rows = draws_noise(model) or any(r.draws_noise for r in regularize)

        def feed(split: Split, most_steps: int | None = None) -> Feed:
            own = settings.batch, settings.seed, self.device, dtype, keyed_rows, settings.replacement
            return Feed(split, data.inputs, *own, carry=settings.carry_state, most_steps=most_steps)

        train, val = feed(data.train, settings.epoch_steps), feed(data.val) if len(data.val) else None
        settings = settings.with_(precision=precision, batch=min(settings.batch, len(train)))
        train.batch = settings.batch
        if val is not None and settings.carry_state:
            val.batch = streams_of(len(val), settings.batch)
        steps = settings.epochs * train.steps
        probe = _Probe(model, likelihood, train, precision)
        regularize = [r.to(self.device, dtype) for r in regularize]
        for regularizer in regularize:
            regularizer.meet(data.inputs, data.target)
        settings = settings.with_(threads=pick_threads(settings.threads, self.device, model, probe.x, probe))
        self.gradient = rule or Gradient(settings, optimizer, schedule, regularize)
        self.gradient.steps_per_epoch = train.steps
        self.gradient.bind(self.model, self.likelihood, steps)
        choice, note = choose(settings.compile, self.gradient, self.device, steps, probe)
        self.notes: list[str] = [note] if note else []
        self.settings = settings.with_(compile=choice)
        rule = self.gradient
        if self.settings.compile in ("on", "record") and isinstance(rule, Gradient):
            inductor = self.settings.compile == "on" and compiler_missing(self.device) is None
            rule = Compiled(rule, self.device, train.full, inductor, train.row_bytes * settings.batch)
        self.loop = Loop(self.model, self.likelihood, train, val, rule, self.settings)
        self.watch = doctor.Watch(self.model, self.likelihood, *self._probe_rows(train), settings.precision)
        self.history: list[dict[str, Any]] = []
        self.record: Record | None = None
        self.keeper: Keeper | None = None
        self.seconds = 0.0

    def _probe_rows(self, train: Feed) -> tuple[Tensor, Tensor, list[int]]:
        bytes_a_row = train.row_bytes + self.data.inputs.room(tuple(train.raw.shape[1:]))
        count = min(_PROBE_ROWS, len(train), max(_FEWEST, _PROBE_BYTES // bytes_a_row))
        rows = train.first(count)
        return rows.x, rows.y, self.data.train.row_numbers(torch.arange(count))

    def config(self) -> dict[str, Any]:
        """The content of run.json."""
        data, model = self.data, self.model
        return {
            "name": f"{data.name}-{type(model).__name__}",
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {
                "leadline": VERSION,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": numpy.__version__,
                "platform": platform.platform(),
            },
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else str(self.device),
            "data": {
                "name": data.name,
                "recipe": data.recipe,
                "fingerprint": data.fingerprint,
                "sizes": {name: len(split) for name, split in data.splits()},
                "shape": list(data.train.x.shape[1:]),
                "inputs": {
                    "name": type(data.inputs).__name__,
                    "config": _without(data.inputs.config, data.inputs.attachments()),
                    "attached": sorted(data.inputs.attachments()),
                },
                "target": data.target.config,
            },
            "model": {
                "name": type(model).__name__,
                "config": model.config if isinstance(model, Configured) and type(model) in MODELS.values() else None,
                "parameters": sum(p.numel() for p in model.parameters()),
                **({"begun_from": model.begun_from} if hasattr(model, "begun_from") else {}),
                **({"lora": model.lora} if hasattr(model, "lora") else {}),
            },
            "likelihood": {
                "name": type(self.likelihood).__name__,
                "config": self.likelihood.config,
            },
            "settings": self.settings.config,
            "rule": {"name": type(self.gradient).__name__, "config": _rule_config(self.gradient)},
            "notes": self.notes,
            "ended": "",
        }

    def keep(self, record: Record) -> None:
        """Write this run to a folder from here on."""
        record.lock()
        self.record = record
        self.keeper = Keeper(record, lambda: {"watch": self.watch.state(), "findings": self._found()})
        self.keeper.loop = self.loop

    def _found(self) -> list[dict[str, Any]]:
        return [finding.to_dict() for finding in self.before]

    def go_back(self, record: Record) -> dict[str, Any]:
        """Stand where the last checkpoint of `record` left the run."""
        record.lock()
        try:
            extra = restore(self.loop, record)
        except UserError:
            record.unlock()
            raise
        self.keep(record)
        self.history = record.cut("metrics.jsonl", self.loop.state.step)
        self.watch.load_state(extra["watch"])
        return extra

    def computing(self) -> Computing:
        return Computing(self.settings, self.device)

    def train(
        self, before: list[Finding], progress: str | bool, with_report: bool, listeners: Sequence[Listener]
    ) -> Run:
        """Fit to the end, then judge, record and report."""
        self.before = before
        shown = progress_listener(progress, self.likelihood.headline)
        own: list[Listener | None] = [self._listen, self.watch, self.keeper, shown, *listeners]
        self.loop.listeners = tuple(listener for listener in own if listener is not None)
        start = time.monotonic()
        try:
            with self.computing(), Interrupts(self.loop):
                state = self.loop.fit()
        except NotFinite as broken:
            self._diverged(broken)
        finally:
            if self.record is not None:
                self.record.unlock()
            if self.again:
                checkpointed(self.model, None)
        self.seconds += time.monotonic() - start
        if state.ended == "diverged":
            losses = [line["train"]["loss"] for line in self.history]
            self._end("diverged", [*before, *self.watch.findings])
            raise DivergedError(
                "the loss must not diverge",
                got=f"a mean loss of {losses[-1]:.3g} in epoch {state.epoch} after {state.first_loss:.3g} at the start",
                do=f"Lower the learning rate (it was {self.settings.lr:g}), or clip the gradient",
            )
        reason = state.ended or "interrupted"
        run = self.run([*before, *self.watch.findings], reason)
        if state.ended:
            run.judge = judged
        if self.record is not None:
            self._end(reason, run.findings)
            if with_report and state.ended:
                from leadline import report  # its figures are not needed before

                with self.record.writing():
                    report.write(facts(run, self.record.config), self.record.folder / "report.html")
        return run

    def run(self, findings: list[Finding], reason: str) -> Run:
        state = self.loop.state
        if self.record is not None:
            self.seconds = max(self.seconds, sum(line["seconds"] for line in self.record.lines("timing.jsonl")))
        return Run(
            self.model,
            self.likelihood,
            self.data,
            self.settings,
            self.data.inputs,
            self.data.target,
            tuple(self.data.train.x.shape[1:]),
            self.history,
            findings,
            reason,
            state.best_epoch or None,
            self.record.folder if self.record else None,
            self.seconds,
            rule=None if isinstance(self.gradient, Gradient) else self.gradient,
        )

    def _listen(self, event: Event) -> None:
        if isinstance(event, EpochDone):
            self.history.append({"epoch": event.epoch, "step": event.step, "lr": event.lr, **event.metrics})

    def _end(self, reason: str, findings: list[Finding]) -> None:
        if self.record is not None:
            self.record.write_findings([finding.to_dict() for finding in findings])
            self.record.update(ended=reason)

    def _diverged(self, broken: NotFinite) -> None:
        """Say which value broke, where and by which rows; the weights are those before that step."""
        batch, loop = broken.batch, self.loop
        rows = row_numbers(self.data, batch)
        autocast = self.gradient.autocast(batch) if isinstance(self.gradient, Gradient) else nullcontext()
        carried = self.gradient.objective.carried if isinstance(self.gradient, Gradient) else None
        with keyed(batch.keys), autocast, nullcontext() if carried is None else carried.on(len(batch)):
            finding = doctor.locate(self.model, self.likelihood, batch.x, batch.y, batch.weight, rows, broken.step)
        for listener in loop.listeners:
            if listener not in (self.keeper, self.watch):
                listener(RunEnded(loop.state.epoch, broken.step, "diverged"))
        self._end("diverged", [*self.before, *self.watch.findings, finding])
        raise DivergedError(
            f"{finding.what[0].upper()}{finding.what[1:]} ({finding.where})", got=finding.evidence, do=finding.remedy
        ) from None


def _scored(run: Run) -> tuple[dict[str, Evaluation], dict[str, Tensor]]:
    """Metrics and raw outputs of every split; of pictures and texts, whose training split may be long, of some of its
    rows: a row of text has an answer at every place.

    Outputs that are maps are too large to be kept: those of a few rows are there to be drawn.
    """
    data = run.need_data()
    if not data.inputs.late:
        outputs = {name: run.outputs(name) for name, _ in data.splits()}
        return {name: run.score(out, data[name].y, data[name].weight) for name, out in outputs.items()}, outputs
    held = {name: split for name, split in data.splits() if name != "train"}
    most = max(_LEAST, _JUDGED // max(1, data.train.y[:1].numel()))
    some = {"train": _some(data.train, most, run.settings.carry_state), **held}
    evaluations = {name: run.measure(split.x, split.y, split.weight) for name, split in some.items()}
    drawn = {name: split.x[:_SHOWN] if data.target.placed else split.x for name, split in held.items()}
    return evaluations, {name: run.raw(x) for name, x in drawn.items()}


def _some(split: Split, most: int, first: bool = False) -> Split:
    """At most so many rows, evenly spaced, or the first ones."""
    if len(split) <= most:
        return split
    return split.take(torch.arange(most) if first else torch.linspace(0, len(split) - 1, most).long())


def judged(run: Run) -> list[Finding]:
    """What the doctor says of a finished run."""
    evaluations, outputs = found = _scored(run)
    run.scored = found if run.folder is not None else None  # for its report
    return doctor.after(run.history, evaluations, run.need_data(), run.likelihood, outputs)


def facts(run: Run, config: dict[str, Any]) -> Facts:
    """Everything that the report of a run tells."""
    from leadline.report.facts import Facts

    data = run.need_data()
    evaluations, outputs = run.scored or _scored(run)
    return Facts(
        title=f"{type(run.model).__name__} on {data.name}",
        config=config,
        data=data,
        likelihood=run.likelihood,
        history=run.history,
        best_epoch=run.best_epoch,
        evaluations=evaluations,
        outputs=outputs,
        findings=run.findings,
        command=command(config),
        python=python(config),
        seconds=run.seconds,
        account=str(data.account),
        model=run.model,
    )


def _rule_config(rule: Rule) -> dict[str, Any] | None:
    """What builds the rule again; gradient descent is in the settings, and None is a rule of the user's own."""
    if isinstance(rule, Gradient):
        return {}
    return rule.config if isinstance(rule, Configured) and type(rule) in RULES.values() else None


def _without(config: dict[str, Any], attached: dict[str, str]) -> dict[str, Any]:
    """A config without the texts that have files of their own."""
    kept = {name.partition(".")[0] for name in attached}
    return {name: value for name, value in config.items() if name not in kept}


def row_numbers(data: Data, batch: Batch) -> list[int]:
    """Where the rows of a batch stand in the source."""
    return [] if batch.example is None else data.train.row_numbers(batch.example.cpu())


def _check_rows(model: nn.Module, settings: Settings, train: int, val: int) -> None:
    """What batch normalisation and early stopping need of the rows."""
    if settings.patience is not None and not val:
        raise UserError("patience needs validation rows", got="a validation split of none", do="Pass val=0.15")
    normalised = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    batch = min(settings.batch, train)
    tail = train % batch
    for rows in {batch, tail + batch if tail == 1 else tail} - {0}:
        size = -(-rows // settings.accumulate)
        if normalised and (size == 1 or rows % size == 1):
            raise UserError(
                "batch normalisation needs at least 2 rows at a time",
                got=f"{train} rows in batches of {batch}, {settings.accumulate} micro-batches each: one has 1 row",
                do="Change batch or accumulate, or use norm='layer'",
            )


def _check_carried(data: Data, settings: Settings, rule: Rule | None) -> None:
    """What carrying states needs of the data and of the other settings."""
    if not isinstance(data.inputs, Tokens) or data.inputs.task != "next":
        what = f"task {data.inputs.task}" if isinstance(data.inputs, Tokens) else f"{data.target} of {data.name}"
        raise UserError("carry_state needs the task next", got=what, do="Leave carry_state out")
    if settings.replacement or rule is not None:
        got = "replacement=True" if settings.replacement else f"rule {type(rule).__name__}"
        raise UserError("carry_state needs gradient descent on rows in their order", got=got, do="Leave it out")


def _check_parts(settings: Settings, rule: Rule | None) -> None:
    """What goes by passes cannot do with parts of them."""
    if settings.carry_state or rule is not None:
        got = "carry_state=True" if settings.carry_state else f"rule {type(rule).__name__}"
        raise UserError("epoch_steps needs gradient descent on shuffled rows", got=got, do="Leave epoch_steps out")


def first_weights(model: nn.Module, likelihood: Likelihood, settings: Settings, data: Data) -> None:
    """Draw the first weights anew where the settings ask for it."""
    if settings.init != "own":
        from leadline.init import initialise

        x, y = data.inputs.encode(data.train.x[:_PROBE_ROWS]), data.train.y[:_PROBE_ROWS]
        loss = lambda output, y: likelihood.loss(output, y).mean()  # noqa: E731
        generator = torch.Generator().manual_seed(mix_int(settings.seed, 2))
        dtype = next((p.dtype for p in model.parameters()), torch.float32)
        initialise(model, settings.init, generator, (x.to(dtype), y), loss)
    if settings.init_scale != 1:
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() > 1:
                    p.mul_(settings.init_scale)


class _Probe:
    """A forward and backward pass on copies, for timing."""

    def __init__(self, model: nn.Module, likelihood: Likelihood, train: Feed, precision: str):
        self.model, self.likelihood, self.train, self.precision = model, likelihood, train, precision

    @cached_property
    def rows(self) -> Batch:
        return self.train.first(self.train.batch)

    @property
    def x(self) -> Tensor:
        return self.rows.x

    @cached_property
    def _twins(self) -> tuple[nn.Module, Likelihood]:
        return copy.deepcopy(self.model), copy.deepcopy(self.likelihood)

    def __call__(self) -> None:
        twin, head = self._twins
        with mixed(self.precision, self.train.device):
            loss = head.loss(twin(self.x), self.rows.y).mean()
        loss.backward()
