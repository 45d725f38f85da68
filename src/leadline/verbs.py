"""fit, resume, load, replay: the verbs that train a model and bring a run back."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leadline import doctor
from leadline.data import inputs_from
from leadline.data import load as load_data
from leadline.data.data import Batch, Data
from leadline.data.inputs import Inputs
from leadline.data.target import Target
from leadline.doctor.finding import Finding
from leadline.engine import checkpoint
from leadline.engine.device import pick_device
from leadline.engine.events import Listener
from leadline.engine.keeper import newest, read_newest, restore
from leadline.engine.packing import unpack
from leadline.engine.record import Record
from leadline.errors import DataError, RunError, UserError
from leadline.layers.held_graph import give_graph
from leadline.likelihoods import LIKELIHOODS, Likelihood
from leadline.models import MODELS, lora
from leadline.names import lookup
from leadline.optim import RULES, Gradient, Rule, check_alone, likelihood_of, own_rule, rule_from, told
from leadline.regularize import Regularizer, regularizers, words
from leadline.run import Run
from leadline.session import Session, first_weights, row_numbers
from leadline.settings import Settings


def fit(
    model: nn.Module,
    data: Data,
    *,
    likelihood: Likelihood | type[Likelihood] | str | None = None,
    rule: Rule | type[Rule] | str | None = None,
    optimizer: str | torch.optim.Optimizer | None = None,
    schedule: str | torch.optim.lr_scheduler.LRScheduler | Callable[[int], float] | None = None,
    regularize: Sequence[Regularizer | str] | Regularizer | str = (),
    folder: str | Path | None = None,
    progress: str | bool = "auto",
    with_report: bool = True,
    listeners: Sequence[Listener] = (),
    findings: Sequence[Finding] | None = None,
    **settings: Any,
) -> Run:
    """Train `model` on `data`, in place, and return the run, with the weights of its best epoch.

    Args:
        likelihood: a family, its class or its name, or None for the one that the target picks.
        rule: how parameters move in place of gradient descent: a rule, its class, or a name in leadline.optim.RULES.
            None takes the one that the model is made for, where it has one and no optimizer is named.
        optimizer: a name, or a torch optimizer over the model's parameters.
        schedule: a name, a torch scheduler of that optimizer, or a function from the step to a factor.
        regularize: regularisers or their words, such as "l1(1e-4)", in order.
        folder: where to keep record, checkpoints and report; None keeps the run in memory.
        progress: "auto", "live", "log", "running" (without a last word) or "off".
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
    give_graph(model, data.inputs.graph, getattr(data.inputs, "level", None))
    given = dict(settings)
    for name, value in (("optimizer", optimizer), ("schedule", schedule)):
        if value is not None:
            given[name] = value if isinstance(value, str) else "given"
            _check_object(name, value)
    acting = regularizers(regularize)  # type: ignore[arg-type]
    asked = Settings.make(regularize=words(acting), **given)
    made_for = own_rule(model, data.target) if rule is None and optimizer is None else None
    wish = made_for if rule is None else rule
    mover = None if wish is None else rule_from(wish)
    by = None if mover is None else type(mover).__name__
    if by is not None:
        check_alone(by, {**given, **({"regularize": 0} if acting else {})}, type(model).__name__ if made_for else "")
    likelihood = likelihood_of(model, data.target, by, likelihood)
    if folder is not None:
        Record.check_free(folder)
    first_weights(model, likelihood, asked, data)
    if findings is None:
        findings = doctor.before(model, data, likelihood)
    refuse(findings)
    session = Session(
        model,
        data,
        likelihood,
        asked,
        mover,
        optimizer if isinstance(optimizer, torch.optim.Optimizer) else None,
        schedule if schedule is not None and not isinstance(schedule, str) else None,
        acting,
    )
    if folder is not None:
        config = {**session.config(), "report": with_report}
        session.keep(Record.create(folder, config, data.inputs.attachments()))
    if made_for and progress not in (False, "off"):
        print(told(model, made_for, likelihood, "optimizer='adamw'"), file=sys.stderr)
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
    regularize: Sequence[Regularizer] | None = None,
    progress: str | bool = "auto",
    with_report: bool | None = None,
    listeners: Sequence[Listener] = (),
) -> Run:
    """Go on with an unfinished run: the end is bit for bit that of the uninterrupted one.

    Whatever the run's record can name is rebuilt from it, a rule of `leadline.optim.RULES` too; a model, data, rule,
    optimizer or schedule of your own are to be given again. `with_report` is by default as it was to `fit`.
    """
    record = Record.open(folder)
    session = _reopen(record, model, data, likelihood, rule, optimizer, schedule, regularize)
    extra = session.go_back(record)
    if with_report is None:
        with_report = record.config.get("report", True)
    findings = [Finding(**entry) for entry in extra["findings"]]
    return session.train(findings, progress, with_report, listeners)


def load(folder: str | Path, *, model: nn.Module | None = None, data: Data | None = None) -> Run:
    """Read a run back, with the best weights of its newest checkpoint. Trains nothing, changes nothing.

    The history is all that was recorded, of a run that was killed too.

    Predicting needs the folder alone; evaluating also needs the data, which are read again where they still are.
    """
    return _read_back(Record.open(folder), model, data, search=True)


def load_to_ask(folder: str | Path) -> Run:
    """The same to write text or to predict rows: the text of a run on text is not read again, which may take long."""
    record = Record.open(folder)
    return _read_back(record, None, None, search=record.config["data"]["inputs"]["name"] != "Tokens")


def _read_back(record: Record, model: nn.Module | None, data: Data | None, search: bool) -> Run:
    """The run of a record.

    Args:
        search: whether data are read again where the run had them.
    """
    config = record.config
    model, likelihood = _rebuilt(config, model)
    tensors, plain = read_newest(record)
    rule = _remembered(record, model, likelihood, tensors, plain)
    for owner, module in (("model", model), ("likelihood", likelihood)):
        checkpoint.restore(module, checkpoint.of(owner, tensors.get("best", tensors["weights"])), owner)
    if data is not None:
        _same_data(config, data)
    elif search and config["data"]["recipe"] is not None:
        with contextlib.suppress(UserError):  # what is gone or has changed is not this run's data any more
            found = load_data(config["data"]["recipe"])
            _same_data(config, found)
            data = found
    inputs = _inputs_of(record)
    if data is not None and data.inputs.graph is not None:  # too large for a record, and unchanged
        inputs = data.inputs
    give_graph(model, inputs.graph)
    settings = Settings.make(**config["settings"])
    device = pick_device("auto")
    dtype = torch.float64 if settings.precision == "float64" else torch.float32
    return Run(
        model.to(device, dtype),
        likelihood.to(device, dtype),
        data,
        settings,
        inputs,
        Target.from_config(config["data"]["target"]),
        tuple(config["data"]["shape"]),
        record.lines("metrics.jsonl"),  # after the newest checkpoint too: it happened, until resume repeats it
        [Finding(**entry) for entry in record.findings()],
        plain["ended"] or config.get("ended") or "interrupted",
        plain["best_epoch"] or None,
        record.folder,
        sum(line["seconds"] for line in record.lines("timing.jsonl")),
        rule=rule,
    )


@dataclass(frozen=True, eq=False)
class Replay:
    """One step of a run, computed again: which rows, which loss, which gradients; of a rule without, its changes."""

    step: int
    epoch: int
    rows: list[int]
    loss: float
    lr: float
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]
    batch: Batch
    changes: dict[str, Tensor] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The step as plain values: gradients and changes by their norm, and by their size relative to the weights."""
        return {
            "step": self.step,
            "epoch": self.epoch,
            "rows": self.rows,
            "loss": self.loss,
            "lr": self.lr,
            "gradients": self._sizes(self.gradients),
            "changes": self._sizes(self.changes),
        }

    def _sizes(self, of: dict[str, Tensor]) -> dict[str, dict[str, float]]:
        ratio = lambda g, w: float(g / w) if w else (math.inf if g else 0.0)  # noqa: E731
        norms = {name: (g.norm(), self.weights[name].norm()) for name, g in of.items()}
        return {name: {"norm": float(g), "over_weight": ratio(g, w)} for name, (g, w) in norms.items()}


def replay(
    folder: str | Path,
    step: int,
    *,
    model: nn.Module | None = None,
    data: Data | None = None,
    likelihood: Likelihood | None = None,
    rule: Rule | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    schedule: Any = None,
    regularize: Sequence[Regularizer] | None = None,
) -> Replay:
    """Compute step number `step` (from 0) of a run again, exactly, and stop before its update.

    Goes back to the nearest checkpoint before it and repeats the steps in between; the run's folder is only read. As
    for `resume`, what was given to `fit` and is of your own is to be given again. A rule without gradients takes the
    step, and `changes` says by how much each parameter moved.
    """
    record = Record.open(folder)
    session = _reopen(record, model, data, likelihood, rule, optimizer, schedule, regularize)
    loop = session.loop
    total = loop.settings.epochs * loop.train.steps
    if record.config["ended"] in ("finished", "stopped early"):
        total = int(newest(record).name.removeprefix("step-"))
    if not 0 <= step < total:
        raise UserError(f"step must lie in 0 … {total - 1}", got=f"step {step}", do="Choose one of the run's steps")
    restore(loop, record, at_most=step)
    loop.state.ended = ""
    loop.learn()
    named = [*loop.model.named_parameters(), *((f"likelihood.{n}", p) for n, p in loop.likelihood.named_parameters())]
    mover = session.gradient
    with session.computing():
        batch = loop.advance_to(step)
        weights = {name: p.detach().clone() for name, p in named}
        loss = mover.backward(batch) if isinstance(mover, Gradient) else mover.step(batch, step)
    return Replay(
        step,
        loop.state.epoch,
        row_numbers(session.data, batch),
        float(loss.detach()),
        loop.rule.rate(step),
        {name: p.grad.detach().clone() for name, p in named if p.grad is not None},
        weights,
        batch,
        {} if isinstance(mover, Gradient) else {name: p.detach() - weights[name] for name, p in named},
    )


_OBJECTS: dict[str, tuple[tuple[type, ...], str]] = {
    "optimizer": ((torch.optim.Optimizer,), "adamw"),
    "schedule": ((torch.optim.lr_scheduler.LRScheduler, Callable), "cosine"),  # type: ignore[dict-item]
}


def _check_object(name: str, value: Any) -> None:
    kinds, usual = _OBJECTS[name]
    if not isinstance(value, (str, *kinds)):
        must = "a torch optimizer" if name == "optimizer" else "a torch scheduler, or a function of the step"
        raise UserError(
            f"{name} must be a name, or {must}", got=f"{name}={value!r}", do=f"Pass {name}={usual!r}, or leave it out"
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


def _reopen(
    record: Record,
    model: nn.Module | None,
    data: Data | None,
    likelihood: Likelihood | None = None,
    rule: Rule | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    schedule: Any = None,
    regularize: Sequence[Regularizer] | None = None,
) -> Session:
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
    give_graph(model, data.inputs.graph, getattr(data.inputs, "level", None))
    settings = Settings.make(**config["settings"])
    for name, value in (("optimizer", optimizer), ("schedule", schedule)):
        if getattr(settings, name) == "given" and value is None:
            raise RunError(f"a run with {name} of your own needs it again", got="none", do=f"Pass {name}=…")
    if "given" in settings.regularize and regularize is None:
        raise RunError("a run with regularisers of your own needs them again", got="none", do="Pass regularize=[…]")
    rule = _rule_of(config) if rule is None else rule_from(rule)
    if rule is None and _rule(config)["name"] != "Gradient":
        raise RunError(
            f"a run by {_rule(config)['name']} needs its rule again",
            got="none",
            do="In Python, pass rule=… as it was to fit",
        )
    return Session(model, data, likelihood or rebuilt, settings, rule, optimizer, schedule, regularize)


def _rule(config: dict[str, Any]) -> dict[str, Any]:
    """The rule's entry in run.json; older runs have its name alone."""
    entry = config["rule"]
    return entry if isinstance(entry, dict) else {"name": entry, "config": None}


def _rule_of(config: dict[str, Any]) -> Rule | None:
    """The rule that moved a run, built anew; None for gradient descent, and for a rule that the record cannot build."""
    entry = _rule(config)
    if entry["name"] == "Gradient" or entry["config"] is None:
        return None
    return lookup(entry["name"], RULES, "rule")(**entry["config"])


def _remembered(
    record: Record, model: nn.Module, likelihood: Likelihood, tensors: dict[str, Any], plain: dict[str, Any]
) -> Rule | None:
    """The run's rule with what it knew at the checkpoint, bound to the model; before its weights are put back."""
    rule, lines = _rule_of(record.config), record.lines("metrics.jsonl")
    if rule is None or not lines:
        return None
    rule.steps_per_epoch = lines[0]["step"] // lines[0]["epoch"]
    rule.bind(model, likelihood, record.config["settings"]["epochs"] * rule.steps_per_epoch)
    rule.load_state(unpack(plain["skeleton"], tensors["state"])["rule"])
    return rule


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
        if "lora" in config["model"]:
            lora(model, **config["model"]["lora"])
    return model, lookup(config["likelihood"]["name"], LIKELIHOODS, "likelihood")(**config["likelihood"]["config"])


def _inputs_of(record: Record) -> Inputs:
    """How the run reads raw rows; what is kept beside run.json for it must be whole."""
    own, attached = record.config["data"]["inputs"], record.attached()
    try:
        return inputs_from(own["name"], own["config"], attached)
    except DataError as error:
        if not attached:
            raise
        names = ", ".join(str(record.folder / Path(name).name) for name in own["attached"])
        raise RunError(
            f"a run must keep {names} as it was written", got=error.got, do="Restore it from a copy"
        ) from None


def _same_data(config: dict[str, Any], data: Data) -> None:
    expected = config["data"]["fingerprint"]
    if data.fingerprint != expected:
        raise RunError(
            "the data must be those that the run began with",
            got=f"{data.name} with fingerprint {data.fingerprint[:12]} instead of {expected[:12]}",
            do="Restore the data's file as it was, or train anew",
        )
