"""fit, resume, load, replay: the engine composed with record, progress, doctor and report."""

from __future__ import annotations

import contextlib
import copy
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from leadline import doctor, report
from leadline.config import Configured
from leadline.data import inputs_from
from leadline.data import load as load_data
from leadline.data.data import Batch, Data
from leadline.data.target import Target
from leadline.doctor.finding import Finding
from leadline.engine import checkpoint
from leadline.engine.compiled import Compiled, compiler_missing, obstacle, worth_compiling
from leadline.engine.device import pick_device, pick_precision, pick_threads
from leadline.engine.evaluation import Evaluation
from leadline.engine.events import EpochDone, Event, Listener, RunEnded
from leadline.engine.feed import Feed
from leadline.engine.interrupts import Interrupts
from leadline.engine.keeper import Keeper, newest, read_newest, restore
from leadline.engine.loop import Loop, NotFinite
from leadline.engine.record import Record
from leadline.errors import DivergedError, RunError, UserError
from leadline.layers.noise import draws_noise, keyed
from leadline.likelihoods import LIKELIHOODS, Likelihood, likelihood_for
from leadline.models import MODELS
from leadline.names import lookup
from leadline.optim import Gradient, Rule
from leadline.progress import progress as progress_listener
from leadline.repeat import command, python
from leadline.run import Run
from leadline.settings import Settings
from leadline.version import VERSION

_PROBE_ROWS = 128


def fit(
    model: nn.Module,
    data: Data,
    *,
    likelihood: Likelihood | str | None = None,
    rule: Rule | None = None,
    optimizer: str | torch.optim.Optimizer | None = None,
    schedule: str | torch.optim.lr_scheduler.LRScheduler | Callable[[int], float] | None = None,
    folder: str | Path | None = None,
    progress: str | bool = "auto",
    with_report: bool = True,
    listeners: Sequence[Listener] = (),
    findings: Sequence[Finding] | None = None,
    **settings: Any,
) -> Run:
    """Train `model` on `data`, in place, and return the run, with the weights of its best epoch.

    Args:
        likelihood: a family, its name, or None for the one that the target picks.
        rule: how parameters move, in place of gradient descent.
        optimizer: a name, or a torch optimizer over the model's parameters.
        schedule: a name, a torch scheduler of that optimizer, or a function from the step to a factor.
        folder: where to keep record, checkpoints and report; None keeps the run in memory.
        progress: "auto", "live", "log" or "off".
        with_report: write report.html at the end, where there is a folder.
        listeners: called with every event of the loop.
        findings: what `doctor.before` said, where it was asked already.
        settings: the fields of `leadline.settings.Settings`.

    >>> import leadline as ll
    >>> run = ll.fit(ll.models.Linear(2, 1), ll.data.moons(num=90), epochs=3, progress=False)
    >>> sorted(run.evaluate("test"))
    ['accuracy', 'nll']
    """
    if not isinstance(model, nn.Module) or not isinstance(data, Data):
        raise UserError(
            "fit takes a torch module and then Data",
            got=f"{type(model).__name__} and {type(data).__name__}",
            do="Write ll.fit(model, data), with data from ll.data.arrays(x, y), ll.data.table(…) or a named source",
        )
    if likelihood is None or isinstance(likelihood, str):
        likelihood = likelihood_for(data.target, likelihood)
    given = dict(settings)
    for name, value in (("optimizer", optimizer), ("schedule", schedule)):
        if value is not None:
            given[name] = value if isinstance(value, str) else "given"
    asked = Settings.make(**given)
    if folder is not None:
        Record.check_free(folder)
    if findings is None:
        findings = doctor.before(model, data, likelihood)
    refuse(findings)
    session = _Session(
        model,
        data,
        likelihood,
        asked,
        rule,
        optimizer if isinstance(optimizer, torch.optim.Optimizer) else None,
        schedule if schedule is not None and not isinstance(schedule, str) else None,
    )
    if folder is not None:
        session.keep(Record.create(folder, session.config()))
    return session.train(list(findings), progress, with_report, listeners)


def resume(
    folder: str | Path,
    *,
    model: nn.Module | None = None,
    data: Data | None = None,
    likelihood: Likelihood | None = None,
    rule: Rule | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    schedule: Any = None,
    progress: str | bool = "auto",
    with_report: bool = True,
    listeners: Sequence[Listener] = (),
) -> Run:
    """Go on with an unfinished run: the end is bit for bit that of the uninterrupted one.

    Whatever the run's record can name is rebuilt from it; a model, data, rule, optimizer or schedule that were given as
    objects are to be given again.
    """
    record = Record.open(folder)
    session = _reopen(record, model, data, likelihood, rule, optimizer, schedule)
    extra = session.go_back(record)
    findings = [Finding(**entry) for entry in extra["findings"]]
    return session.train(findings, progress, with_report, listeners)


def load(folder: str | Path, *, model: nn.Module | None = None, data: Data | None = None) -> Run:
    """Read a run back, with the best weights so far. Trains nothing, changes nothing.

    Predicting needs the folder alone; evaluating also needs the data, which are read again where they still are.
    """
    record = Record.open(folder)
    config = record.config
    model, likelihood = _rebuilt(config, model)
    tensors, plain = read_newest(record)
    for owner, module in (("model", model), ("likelihood", likelihood)):
        checkpoint.restore(module, checkpoint.of(owner, tensors.get("best", tensors["weights"])), owner)
    if data is not None:
        _same_data(config, data)
    elif config["data"]["recipe"] is not None:
        with contextlib.suppress(UserError):  # what is gone or has changed is not this run's data any more
            found = load_data(config["data"]["recipe"])
            _same_data(config, found)
            data = found
    settings = Settings.make(**config["settings"])
    device = pick_device("auto")
    dtype = torch.float64 if settings.precision == "float64" else torch.float32
    return Run(
        model.to(device, dtype),
        likelihood.to(device, dtype),
        data,
        settings,
        inputs_from(config["data"]["inputs"]["name"], config["data"]["inputs"]["config"]),
        Target.from_config(config["data"]["target"]),
        tuple(config["data"]["shape"]),
        [line for line in record.lines("metrics.jsonl") if line["step"] <= plain["step"]],
        [Finding(**entry) for entry in record.findings()],
        plain["ended"] or config.get("ended") or "interrupted",
        plain["best_epoch"] or None,
        record.folder,
        sum(line["seconds"] for line in record.lines("timing.jsonl")),
    )


@dataclass(frozen=True, eq=False)
class Replay:
    """One step of a run, computed again: which rows, which loss, which gradients."""

    step: int
    epoch: int
    rows: list[int]
    loss: float
    lr: float
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]
    batch: Batch

    def to_dict(self) -> dict[str, Any]:
        """The step as plain values: gradients by their norm, and by their size relative to the weights."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "rows": self.rows,
            "loss": self.loss,
            "lr": self.lr,
            "gradients": {
                name: {"norm": float(g.norm()), "over_weight": float(g.norm() / self.weights[name].norm().clamp(1e-12))}
                for name, g in self.gradients.items()
            },
        }


def replay(folder: str | Path, step: int, *, model: nn.Module | None = None, data: Data | None = None) -> Replay:
    """Compute step number `step` (from 0) of a run again, exactly, and stop before its update.

    Goes back to the nearest checkpoint before it and repeats the steps in between; the run's folder is only read.
    """
    record = Record.open(folder)
    session = _reopen(record, model, data)
    loop = session.loop
    total = loop.settings.epochs * loop.train.steps
    if record.config["ended"] in ("finished", "stopped early"):
        total = int(newest(record).name.removeprefix("step-"))
    if not 0 <= step < total:
        raise UserError(f"step must lie in 0 … {total - 1}", got=f"step {step}", do="Choose one of the run's steps")
    if not isinstance(session.gradient, Gradient):
        raise UserError("replay needs gradients", got=f"a run by {type(loop.rule).__name__}", do="Inspect its state")
    restore(loop, record, at_most=step)
    loop.state.ended = ""
    loop.model.train()
    with session.computing():
        batch = loop.advance_to(step)
        loss = session.gradient.backward(batch)
    named = [*loop.model.named_parameters(), *((f"likelihood.{n}", p) for n, p in loop.likelihood.named_parameters())]
    return Replay(
        step,
        loop.state.epoch,
        _row_numbers(session.data, batch),
        float(loss.detach()),
        loop.rule.rate(step),
        {name: p.grad.detach().clone() for name, p in named if p.grad is not None},
        {name: p.detach().clone() for name, p in named},
        batch,
    )


def refuse(findings: Sequence[Finding]) -> None:
    """Raise the first finding that forbids a run."""
    for finding in findings:
        if finding.severity == "error":
            raise UserError(
                f"{finding.what[0].upper()}{finding.what[1:]} ({finding.where})",
                got=finding.evidence,
                do=finding.remedy,
            )


class _Session:
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
    ):
        self.device = pick_device(settings.device)
        precision = pick_precision(settings.precision, self.device, model)
        dtype = torch.float64 if precision == "float64" else torch.float32
        self.data = data
        self.model, self.likelihood = model.to(self.device, dtype), likelihood.to(self.device, dtype)
        _check_rows(model, settings, len(data.train), len(data.val))
        keyed_rows = draws_noise(model)
        feed = lambda split: Feed(split, data.inputs, settings.batch, settings.seed, self.device, dtype, keyed_rows)  # noqa: E731
        train, val = feed(data.train), feed(data.val) if len(data.val) else None
        settings = settings.with_(precision=precision, batch=min(settings.batch, len(train)))
        train.batch = settings.batch
        steps = settings.epochs * train.steps
        self.notes: list[str] = []
        probe = lambda: _probe(self.model, self.likelihood, train)  # noqa: E731
        settings = settings.with_(threads=pick_threads(settings.threads, self.device, model, settings.batch, probe))
        self.gradient = rule or Gradient(settings, optimizer, schedule)
        self.gradient.bind(self.model, self.likelihood, steps)
        self.settings = settings
        self.settings = settings.with_(compile=self._compile_choice(train, steps))
        rule = self.gradient
        if self.settings.compile == "on" and isinstance(rule, Gradient):
            rule = Compiled(rule, self.device, train.full, inductor=compiler_missing(self.device) is None)
        self.loop = Loop(self.model, self.likelihood, train, val, rule, self.settings)
        self.watch = doctor.Watch(self.model, self.likelihood, *self._probe_rows(train))
        self.history: list[dict[str, Any]] = []
        self.record: Record | None = None
        self.keeper: Keeper | None = None
        self.seconds = 0.0

    def _probe_rows(self, train: Feed) -> tuple[Tensor, Tensor, list[int]]:
        count = min(_PROBE_ROWS, len(train))
        return train.x[:count], train.y[:count], self.data.train.row_numbers(torch.arange(count))

    def _compile_choice(self, train: Feed, steps: int) -> str:
        """on or off; a wish that cannot be met is said, not failed."""
        wish = self.settings.compile
        if wish == "off":
            return "off"
        reason = obstacle(self.gradient, self.device)
        if reason is None and self.device.type == "cpu":
            reason = compiler_missing(self.device)
        if reason is not None:
            if wish == "on":
                self.notes.append(f"not compiled: {reason}")
            return "off"
        if wish == "on":
            return "on"
        if self.device.type == "cuda":
            return "on" if steps >= 1000 else "off"  # a recorded graph alone pays within seconds
        if not worth_compiling(steps, float("inf")):
            return "off"
        seconds = min(_timed(lambda: _probe(self.model, self.likelihood, train)) for _ in range(5))
        return "on" if worth_compiling(steps, seconds) else "off"

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
                "inputs": {"name": type(data.inputs).__name__, "config": data.inputs.config},
                "target": data.target.config,
            },
            "model": {
                "name": type(model).__name__,
                "config": model.config if isinstance(model, Configured) and type(model) in MODELS.values() else None,
                "parameters": sum(p.numel() for p in model.parameters()),
            },
            "likelihood": {
                "name": type(self.likelihood).__name__,
                "config": self.likelihood.config,
            },
            "settings": self.settings.config,
            "rule": type(self.gradient).__name__,
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

    def use(self, tensors: dict[str, Tensor]) -> None:
        """Put these weights into model and likelihood."""
        from leadline.engine.state import put, weights

        put(weights(self.model, self.likelihood), tensors)

    def computing(self) -> _Computing:
        return _Computing(self.settings, self.device)

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
        self.seconds += time.monotonic() - start
        if state.ended == "diverged":
            losses = [line["train"]["loss"] for line in self.history]
            self._end("diverged", [*before, *self.watch.findings])
            raise DivergedError(
                "the loss must not run away",
                got=f"a mean loss of {losses[-1]:.3g} in epoch {state.epoch} after {state.first_loss:.3g} at the start",
                do=f"Lower the learning rate (it was {self.settings.lr:g}), or clip the gradient",
            )
        reason = state.ended or "interrupted"
        run = self.run([*before, *self.watch.findings], reason)
        if state.ended:
            run.judge = _judged
        if self.record is not None:
            self._end(reason, run.findings)
            if with_report and state.ended:
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
        rows = _row_numbers(self.data, batch)
        with keyed(batch.keys):
            finding = doctor.locate(self.model, self.likelihood, batch.x, batch.y, batch.weight, rows, broken.step)
        for listener in loop.listeners:
            if listener not in (self.keeper, self.watch):
                listener(RunEnded(loop.state.epoch, broken.step, "diverged"))
        self._end("diverged", [*self.before, *self.watch.findings, finding])
        raise DivergedError(
            f"{finding.what[0].upper()}{finding.what[1:]} ({finding.where})", got=finding.evidence, do=finding.remedy
        ) from None


class _Computing:
    """The run's thread count, matrix precision and generators; put back afterwards as the caller had them."""

    def __init__(self, settings: Settings, device: torch.device):
        self.threads = settings.threads if device.type == "cpu" else None
        self.tf32 = settings.precision == "tf32"
        self.rng = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])

    def __enter__(self) -> None:
        self.before = torch.get_num_threads(), torch.get_float32_matmul_precision()
        self.rng.__enter__()
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        torch.set_float32_matmul_precision("high" if self.tf32 else "highest")

    def __exit__(self, *error: Any) -> None:
        torch.set_num_threads(self.before[0])
        torch.set_float32_matmul_precision(self.before[1])
        self.rng.__exit__(*error)


def _scored(run: Run) -> tuple[dict[str, Evaluation], dict[str, Tensor]]:
    """Metrics and raw outputs of every split."""
    data = run.need_data()
    outputs = {name: run.outputs(name) for name, _ in data.splits()}
    return {name: run.score(out, data[name].y, data[name].weight) for name, out in outputs.items()}, outputs


def _judged(run: Run) -> list[Finding]:
    """What the doctor says of a finished run."""
    evaluations, outputs = _scored(run)
    return doctor.after(run.history, evaluations, run.need_data(), run.likelihood, outputs)


def facts(run: Run, config: dict[str, Any]) -> report.Facts:
    """Everything that the report of a run tells."""
    data = run.need_data()
    evaluations, outputs = _scored(run)
    return report.Facts(
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
    )


def _reopen(
    record: Record,
    model: nn.Module | None,
    data: Data | None,
    likelihood: Likelihood | None = None,
    rule: Rule | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    schedule: Any = None,
) -> _Session:
    """Rebuild a run's parts from its config, with those that the caller holds."""
    config = record.config
    if data is None:
        if config["data"]["recipe"] is None:
            raise RunError(
                "a run on arrays in memory needs its data again", got="none", do="Pass data=… as it was to fit"
            )
        data = load_data(config["data"]["recipe"])
    _same_data(config, data)
    model, rebuilt = _rebuilt(config, model)
    settings = Settings.make(**config["settings"])
    for name, value in (("optimizer", optimizer), ("schedule", schedule)):
        if getattr(settings, name) == "given" and value is None:
            raise RunError(f"a run with {name} of your own needs it again", got="none", do=f"Pass {name}=…")
    if config["rule"] != "Gradient" and rule is None:
        raise RunError(f"a run by {config['rule']} needs its rule again", got="none", do="Pass rule=…")
    return _Session(model, data, likelihood or rebuilt, settings, rule, optimizer, schedule)


def _rebuilt(config: dict[str, Any], model: nn.Module | None) -> tuple[nn.Module, Likelihood]:
    """The run's model, unless the caller holds it, and its likelihood."""
    if model is None:
        if config["model"]["config"] is None:
            raise RunError(
                "a run of a model of your own needs the model again",
                got=f"no {config['model']['name']}",
                do="Pass model=… built as it was for fit",
            )
        model = lookup(config["model"]["name"], MODELS, "model")(**config["model"]["config"])
    return model, lookup(config["likelihood"]["name"], LIKELIHOODS, "likelihood")(**config["likelihood"]["config"])


def _same_data(config: dict[str, Any], data: Data) -> None:
    expected = config["data"]["fingerprint"]
    if data.fingerprint != expected:
        raise RunError(
            "the data must be those that the run began with",
            got=f"{data.name} with fingerprint {data.fingerprint[:12]} instead of {expected[:12]}",
            do="Restore the data's file as it was, or train anew",
        )


def _probe(model: nn.Module, likelihood: Likelihood, train: Feed) -> None:
    """One forward and backward pass on copies, for timing."""
    twin, head = copy.deepcopy(model), copy.deepcopy(likelihood)
    head.loss(twin(train.x[: train.batch]), train.y[: train.batch]).mean().backward()


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


def _row_numbers(data: Data, batch: Batch) -> list[int]:
    """Where the rows of a batch stand in the source."""
    return [] if batch.example is None else data.train.row_numbers(batch.example.cpu())


def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
