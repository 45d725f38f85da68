"""What a report tells of: everything about a finished run, handed over once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from leadline.data.data import Data
from leadline.data.series_windows import Windows
from leadline.doctor.finding import Finding
from leadline.engine.evaluation import Evaluation
from leadline.engine.forecast_scores import Judged, judged
from leadline.likelihoods.joint import Joint
from leadline.likelihoods.likelihood import Likelihood


@dataclass(frozen=True, eq=False)
class Facts:
    """Args:
    title: heading of the page.
    config: content of run.json; shown as it is, whatever it holds.
    history: one line an epoch: `{"epoch": 1, "step": 63, "lr": 0.003, "train": {"loss": …}, "val": {"nll": …}}`.
    best_epoch: the epoch whose weights were kept.
    evaluations: metrics by split.
    data, likelihood: what was fitted, and to what.
    outputs: raw model outputs by split.
    findings: what the doctor says.
    command, python: the shell command and the Python that repeat the run.
    seconds: how long it took.
    account: what became of the rows of the source, in words.
    model: as trained, where examples of what it does are shown.
    """

    title: str
    config: dict[str, Any]
    history: list[dict[str, Any]]
    best_epoch: int | None
    evaluations: dict[str, Evaluation]
    data: Data
    likelihood: Likelihood
    outputs: dict[str, Tensor]
    findings: list[Finding] = field(default_factory=list)
    command: str = ""
    python: str = ""
    seconds: float = 0.0
    account: str = ""
    model: nn.Module | None = None

    @property
    def split(self) -> str | None:
        """The split that the page judges by: test, or else val, or else train; None where nothing was evaluated."""
        for name in ("test", "val", "train"):
            if name in self.evaluations and name in self.outputs and len(self.data[name]):
                return name
        return None

    @cached_property
    def judged(self) -> tuple[Judged, Judged]:
        """Of a run on series: every forecast of `split`, and every value of a season ago."""
        inputs, split = self.data.inputs, self.split
        if not isinstance(inputs, Windows) or split is None:
            raise TypeError(f"{type(inputs).__name__} are no windows of series that were evaluated")
        return judged(inputs, self.data, split, lambda name: self.likelihood.prediction(self.outputs[name]))

    def of_column(self, k: int) -> Facts:
        """What can be told of one column alone, where the target has several and a family for each."""
        joint = self.likelihood
        if not isinstance(joint, Joint):
            raise TypeError(f"{type(joint).__name__} has no part of its own for each column")
        name, evaluations = joint.names[k], {}
        for split, found in self.evaluations.items():
            own = {key.removesuffix(f"_{name}"): key for key in found if joint.column_of(key) == name}
            values = {metric: found[key] for metric, key in own.items()}
            evaluations[split] = Evaluation(values, {m: found.interval(key) for m, key in own.items()}, found.count)
        return replace(
            self,
            data=self.data.of_column(k),
            likelihood=joint.each[k],
            outputs={split: joint.parts(output)[k] for split, output in self.outputs.items()},
            evaluations=evaluations,
        )

    def headline(self, split: str) -> str:
        """The metric by which people judge this likelihood, or nll where a split has no such figure."""
        return self.likelihood.headline if self.likelihood.headline in self.evaluations[split] else "nll"
