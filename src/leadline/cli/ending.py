"""How a run that was trained or resumed is told: reason, metrics, best epoch, what to do next; and its exit code."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.cli.forecasts import beside_naive, shown, whose
from leadline.cli.screen import Screen
from leadline.cli.translated import translated_at_the_end
from leadline.data.account import counted
from leadline.data.graph_inputs import GraphInputs
from leadline.data.pictures import Pictures
from leadline.data.sequence_inputs import Sequences
from leadline.data.series_windows import Windows
from leadline.data.tokens import Tokens
from leadline.doctor.finding import Finding
from leadline.run import Run

INTERRUPTED = 130


def finish(run: Run, screen: Screen, said: Sequence[Finding] = ()) -> int:
    """Tell how the run ended; `said` are the findings that were shown before it began."""
    folder = shlex.quote(str(run.folder))
    if run.reason == "interrupted":
        screen.say(f"Interrupted after {counted(len(run.history), 'epoch')}. Nothing is lost; to go on:")
        screen.command(f"leadline resume {folder}")
        screen.answer(answer(run, {}))
        return INTERRUPTED
    evaluations = run.scored[0] if run.scored else {name: run.evaluate(name) for name, _ in run.need_data().splits()}
    screen.findings([finding for finding in run.findings if finding not in said])
    screen.say()
    screen.metrics(shown(run, evaluations), whose(run))
    last = next(reversed(evaluations), "")
    more = beside_naive(run, last, screen) | translated_at_the_end(run, last, screen) if evaluations else {}
    screen.say()
    epochs = counted(len(run.history), "epoch")
    screen.say(f"{run.reason} after {epochs}, {run.seconds:.1f} s; {_best(run)}")
    if run.report:
        screen.say(f"report: {run.report}")
    screen.say("next:")
    for words in next_steps(run, folder):
        screen.command(words)
    screen.answer(answer(run, evaluations) | more)
    return 0


def answer(run: Run, evaluations: dict[str, Any]) -> dict[str, Any]:
    """The run as --json tells it."""
    return {
        "run": run.folder,
        "reason": run.reason,
        "best_epoch": run.best_epoch,
        "seconds": round(run.seconds, 3),
        "metrics": {split: dict(evaluation) for split, evaluation in evaluations.items()},
        "intervals": {
            split: {name: evaluation.interval(name) for name in evaluation} for split, evaluation in evaluations.items()
        },
        "findings": [finding.to_dict() for finding in run.findings],
        "report": run.report,
    }


def next_steps(run: Run, folder: str) -> list[str]:
    """Commands worth trying on this run."""
    rows = "photos/" if isinstance(run.inputs, Pictures) else "rows.csv"
    writes = []
    if isinstance(run.inputs, Windows):
        rows = "so-far.csv"
    if isinstance(run.inputs, Sequences) and run.inputs.sequence is None:  # each of them whole, in such a file
        rows = f"rows{Path(recipe['options']['path']).suffix}" if (recipe := run.need_data().recipe) else rows
    if isinstance(run.inputs, GraphInputs):
        known = "one-hot" in run.inputs.roles.features  # nodes of this graph alone
        one = {"node": "nodes.csv", "edge": "pairs.csv", "graph": "graphs.csv"}[run.inputs.level]
        rows = one if known else "nodes.csv --edges edges.csv"
    if isinstance(run.inputs, Tokens):
        rows = "questions.csv" if run.inputs.task == "spans" else "lines.txt"
        writes = [f"leadline generate {folder} --prompt '…'"] if run.inputs.task in ("next", "pairs") else []
    return [*writes, f"leadline predict {folder} {rows}", f"leadline evaluate {folder}", f"leadline show run {folder}"]


def _best(run: Run) -> str:
    if run.best_epoch is None and run.data is not None and len(run.data.val):
        return "the validation rows judged no epoch: the weights are those of the last"
    if run.best_epoch is None:
        return "no validation rows: the weights are those of the last epoch"
    return f"the weights are those of epoch {run.best_epoch}, the best on the validation rows"
