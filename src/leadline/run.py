"""A run: a trained model with what it was trained on, how, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Data, Split
from leadline.data.graph_inputs import NewGraph
from leadline.data.inputs import Inputs
from leadline.data.target import Target
from leadline.doctor.finding import Finding
from leadline.engine.evaluation import Evaluation, assess, evaluate, outputs_of
from leadline.engine.feed import Feed, streams_of
from leadline.errors import DataError
from leadline.generation import Text, generate
from leadline.layers.held_graph import asked_of
from leadline.likelihoods import Likelihood, Prediction
from leadline.optim.rule import Rule
from leadline.settings import Settings


@dataclass(eq=False)
class Run:
    """What `fit` returns and `load` reads back.

    Args:
        model, likelihood: with the weights of the best epoch.
        data: as fitted; None for a run read back on a machine that does not have them.
        inputs, target, shape: how raw rows are read, what y is, and the shape of a raw row: what `predict` needs of
            the data.
        settings: with everything that was measured or derived filled in.
        history: one record an epoch.
        found: what the doctor said before and during the run.
        reason: finished, stopped early, interrupted, or diverged.
        best_epoch: whose weights these are; None where nothing was validated.
        folder: where the run is kept; None for a run in memory.
        seconds: of training.
        judge: what the doctor says of the finished run, asked when `findings` is first read.
        rule: what moved the parameters, with what it knows at the end; None for gradient descent, and for a run read
            back whose rule is of your own.
        scored: metrics and raw outputs by split, as the doctor saw them; for the report, which follows.
    """

    model: nn.Module
    likelihood: Likelihood
    data: Data | None
    settings: Settings
    inputs: Inputs
    target: Target
    shape: tuple[int, ...]
    history: list[dict[str, Any]] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)
    reason: str = "finished"
    best_epoch: int | None = None
    folder: Path | None = None
    seconds: float = 0.0
    judge: Callable[[Run], list[Finding]] | None = None
    rule: Rule | None = None
    scored: tuple[dict[str, Evaluation], dict[str, Tensor]] | None = None

    @property
    def findings(self) -> list[Finding]:
        """What the doctor said: before, during and after the run."""
        if self.judge is not None:
            judge, self.judge = self.judge, None
            self.found = [*self.found, *judge(self)]
        return self.found

    @property
    def report(self) -> Path | None:
        """The report's place, where one was written."""
        path = self.folder / "report.html" if self.folder else None
        return path if path is not None and path.exists() else None

    def outputs(self, split: str) -> Tensor:
        """The model's raw outputs for the rows of a split."""
        return self.raw(self.need_data()[split].x)

    def need_data(self) -> Data:
        """The data of the run, or the message that they are not here."""
        if self.data is None:
            raise DataError(
                "the data that the run was trained on must be there, unchanged, to evaluate it",
                got=f"none for {self.folder}: they are gone, or a file among them is new, gone or changed",
                do="Put them back where run.json says, as they were, or evaluate others with --data",
            )
        return self.data

    def evaluate(self, split: str = "test") -> Evaluation:
        """Metrics on a split, sample-weighted, each with a 95 % interval."""
        data = self.need_data()
        rows = data[split]
        if not len(rows):
            raise DataError(
                f"split {split} must have rows",
                got="none",
                do=f"Evaluate {' or '.join(name for name, _ in data.splits())}",
            )
        return self._assess(rows)

    def measure(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Evaluation:
        """Metrics on raw rows of the caller's; where the state is carried, rows that follow one another."""
        self.likelihood.check(y)
        return self._assess(Split(x, y, weight))

    def _assess(self, rows: Split) -> Evaluation:
        feed = self.feed(rows)
        if not self.settings.carry_state:
            return assess(self.model, self.likelihood, feed.in_order())
        feed.carry, feed.batch = True, streams_of(len(rows), self.settings.batch)
        return assess(self.model, self.likelihood, feed.in_streams(), streams=feed.batch)

    def feed(self, rows: Split) -> Feed:
        """Raw rows on the model's device, handed out as it reads them."""
        parameter = next(iter(self.model.parameters()), torch.zeros(()))
        return Feed(rows, self.inputs, len(rows), 0, parameter.device, parameter.dtype, keyed=False)

    def score(self, output: Tensor, y: Tensor, weight: Tensor | None = None) -> Evaluation:
        """Metrics of raw outputs against y."""
        y = y.to(output.device, output.dtype if y.is_floating_point() else None)
        return evaluate(self.likelihood, output, y, None if weight is None else weight.to(output.device))

    def predict(self, rows: Any) -> Prediction:
        """The distribution of y for raw rows: a tensor, an array, a data frame or a list of dicts; of a graph, names of
        its nodes, pairs of names, or a whole new graph.

        >>> import leadline as ll
        >>> data = ll.data.moons(num=60)
        >>> model = ll.models.MLP(2, (8,), 1)
        >>> run = ll.fit(model, data, epochs=1, progress=False)
        >>> len(run.predict([[0.0, 1.0], [1.0, 0.0]]))
        2
        """
        rows = self.inputs.brought(rows)
        with torch.no_grad(), asked_of(self.model, rows.graph if isinstance(rows, NewGraph) else None):
            x = self.inputs.read(rows)
            finite = torch.ones(len(x)) if self.inputs.late else self.inputs.encode(x).isfinite().flatten(1).all(1)
            broken = (finite == 0).nonzero().flatten()  # bytes are always finite
            if len(broken):
                raise DataError(
                    "rows must hold finite numbers",
                    got=f"{len(broken)} that do not, first row {int(broken[0])}",
                    do="Correct them",
                )
            return self.likelihood.prediction(self.raw(x))

    def generate(self, prompts: str | Sequence[str], most: int = 200, **options: Any) -> list[Text]:
        """Texts after beginnings, or translations: see `leadline.generation.generate` for the options."""
        return generate(self.model, self.inputs, prompts, most, **options)

    def raw(self, x: Tensor) -> Tensor:
        """The model's raw outputs for raw rows."""
        if not len(x):
            raise DataError("there must be rows to predict", got="none", do="Pass at least one row")
        return outputs_of(self.model, (b.x for b in self.feed(Split(x, torch.zeros(len(x)))).in_order()))

    def __repr__(self) -> str:
        where = f" in {self.folder}" if self.folder else ""
        name = self.data.name if self.data else "data that are not here"
        return f"Run({type(self.model).__name__} on {name}: {self.reason}{where})"
