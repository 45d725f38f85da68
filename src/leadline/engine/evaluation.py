"""Sample-weighted metrics of a model on a split, each with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn

from leadline.data.account import counted
from leadline.data.data import Batch
from leadline.layers.carried import carried_by
from leadline.layers.held_graph import HeldGraph
from leadline.likelihoods.likelihood import Likelihood

_DRAWS = 400
_REDRAWS = 50  # of rows, for metrics of all rows together
_OF_A_CLASS = "iou_"
ROWS = 4096  # that are computed together, at most
_BYTES = {"cuda": 2**28, "cpu": 2**23}  # of their inputs and answers; on a CPU results beyond a cache cost page faults


class Evaluation(Mapping[str, float]):
    """Metric name → value, with `interval(name)` at 95 %.

    >>> evaluation = Evaluation({"accuracy": 0.9}, {"accuracy": (0.85, 0.95)}, count=100)
    >>> evaluation["accuracy"], evaluation.interval("accuracy")
    (0.9, (0.85, 0.95))
    """

    def __init__(self, values: dict[str, float], intervals: dict[str, tuple[float, float]], count: int):
        self._values, self._intervals, self.count = values, intervals, count

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def interval(self, name: str) -> tuple[float, float]:
        """Ends of the 95 % confidence interval, the rows taken as a sample."""
        return self._intervals[name]

    @property
    def main(self) -> list[str]:
        """Names of the metrics but those of single classes, of which there may be many."""
        return [name for name in self if not name.startswith(_OF_A_CLASS)]

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {self[name]:.4g}" for name in self.main)
        return f"Evaluation({figures}; {counted(self.count, 'row')})"


def rows_together(row_bytes: int, device: torch.device) -> int:
    """How many rows of inputs are computed together when nothing is learned.

    >>> rows_together(4 * 40, torch.device("cpu")), rows_together(4 * 3 * 224 * 224, torch.device("cpu"))
    (4096, 13)
    """
    return max(1, min(ROWS, _BYTES.get(device.type, _BYTES["cpu"]) // max(row_bytes, 1)))


@contextmanager
def resting(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode; afterwards every module is in the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def outputs(model: nn.Module, x: Tensor, batch: int | None = None) -> Tensor:
    """The model's output for every row, in evaluation mode, which is restored to what it was."""
    at_once = any(isinstance(module, HeldGraph) and module.level != "graph" for module in model.modules())
    rows = batch or (len(x) if at_once else rows_together(x[:1].numel() * x.element_size(), x.device))
    return outputs_of(model, x.split(rows) if len(x) > rows else [x])


@torch.no_grad()
def outputs_of(model: nn.Module, parts: Iterable[Tensor]) -> Tensor:
    """The same for rows that come in parts."""
    with resting(model):
        found = [model(x) for x in parts]
    return found[0] if len(found) == 1 else torch.cat(found)


@torch.no_grad()
def assess(
    model: nn.Module,
    likelihood: Likelihood,
    batches: Iterable[Batch],
    *,
    spans: bool = True,
    streams: int | None = None,
) -> Evaluation:
    """Metrics of a model on rows, which are never all in memory at once.

    Args:
        spans: whether metrics of all rows together get an interval, for which they are computed many times.
        streams: rows of a batch, each of which goes on from that of the batch before; None where rows are on their own.
    """
    carried = None if streams is None else carried_by(model, streams)
    measures, tallies, weights = _Rows(), _Rows(), _Rows()
    with resting(model):
        for batch in batches:
            with nullcontext() if carried is None else carried.on(len(batch)):
                output = model(batch.x)
            output = output if output.dtype.itemsize >= 4 else output.float()
            measures.add(likelihood.measures(output, batch.y))
            tallies.add(likelihood.tallies(output, batch.y))
            weights.add({} if batch.weight is None else {"weight": batch.weight})
    return summed_up(likelihood, measures.all(), tallies.all(), weights.all().get("weight"), spans)


class _Rows:
    """What was found of rows, a batch after another.

    Of many batches a little each is kept, while answers a thousand times as large come and go. Where the little lay
    between them, the memory of a process would grow by the large: so it stands in room of its own, which doubles.

    >>> rows = _Rows()
    >>> for k in range(3):
    ...     rows.add({"right": torch.tensor([k, k])})
    >>> rows.all()
    {'right': tensor([0, 0, 1, 1, 2, 2])}
    """

    def __init__(self) -> None:
        self.room: dict[str, Tensor] = {}
        self.count = 0

    def add(self, batch: dict[str, Tensor]) -> None:
        end = self.count + max(map(len, batch.values()), default=0)
        for name, part in batch.items():
            held = self.room.setdefault(name, part)
            if end > len(held):
                self.room[name] = part.new_empty(2 * end, *part.shape[1:])
                self.room[name][: self.count] = held[: self.count]
            if self.room[name] is not part:
                self.room[name][self.count : end] = part
        self.count = end

    def all(self) -> dict[str, Tensor]:
        return {name: held[: self.count] for name, held in self.room.items()}


@torch.no_grad()
def evaluate(likelihood: Likelihood, output: Tensor, y: Tensor, weight: Tensor | None = None) -> Evaluation:
    """Metrics of `output` against `y`; `weight` is one number per row."""
    return summed_up(likelihood, likelihood.measures(output, y), likelihood.tallies(output, y), weight)


class Summary(Protocol):
    """What makes metrics of measures and tallies: a likelihood, or something in its place."""

    def summary(self, means: dict[str, float]) -> dict[str, float]: ...

    def overall(self, tallies: dict[str, Tensor]) -> dict[str, float]: ...


def summed_up(
    likelihood: Summary,
    measured: dict[str, Tensor],
    tallies: dict[str, Tensor],
    weight: Tensor | None,
    with_spans: bool = True,
) -> Evaluation:
    """Metrics out of what was measured of each row."""
    measures = {name: value.double() for name, value in measured.items()}
    some = next(iter(measures.values()))
    count = len(some)
    w = torch.ones(count, dtype=torch.float64, device=some.device) if weight is None else weight.double()
    total, spread = w.sum(), w.square().sum()
    stacked = torch.stack(list(measures.values()))  # (M, B)
    means = (stacked * w).sum(1) / total
    variances = ((stacked - means[:, None]).square() * w).sum(1) / total
    errors = (variances * spread).sqrt() / total  # of the weighted mean
    mean = dict(zip(measures, means.tolist(), strict=True))
    values = likelihood.summary(mean)
    half = {name: 1.96 * error for name, error in zip(measures, errors.tolist(), strict=True)}
    shares = {name for name, row in zip(measures, stacked, strict=True) if bool(((row == 0) | (row == 1)).all())}
    centred = (stacked - means[:, None]) * w
    covariance = centred @ centred.T / total**2  # of the weighted means
    positive = {name for name, row in zip(measures, stacked, strict=True) if bool((row >= 0).all())}
    spans = _spans(likelihood, mean, covariance.cpu(), positive)
    bounded = likelihood.shares if isinstance(likelihood, Likelihood) else ()
    intervals = {}
    for name, value in values.items():
        if count < 2:
            intervals[name] = (math.nan, math.nan)
        elif name in shares:
            intervals[name] = wilson(value, float(total * total / spread))
        elif name in half and (value == mean[name] or name not in spans):  # and no function of other means
            low, high = value - half[name], value + half[name]
            intervals[name] = (max(low, 0.0), min(high, 1.0)) if name in bounded else (low, high)
        else:
            intervals[name] = spans[name]
    overall = likelihood.overall(tallies) if tallies else {}
    intervals |= dict.fromkeys(overall, (math.nan, math.nan))
    if overall and with_spans and count > 1:
        intervals |= _redrawn(likelihood, tallies, overall)
    return Evaluation({**values, **overall}, intervals, count)


def _redrawn(
    likelihood: Summary, tallies: dict[str, Tensor], overall: dict[str, float]
) -> dict[str, tuple[float, float]]:
    """95 % spans of metrics of all rows together: over rows drawn anew with replacement."""
    count, device = len(next(iter(tallies.values()))), next(iter(tallies.values())).device
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for _ in range(_REDRAWS):
        rows = torch.randint(count, (count,), generator=generator).to(device)
        drawn.append(likelihood.overall({name: column[rows] for name, column in tallies.items()}))
    return {name: _ends([draw[name] for draw in drawn]) for name in overall}


def _spans(
    likelihood: Summary, mean: dict[str, float], covariance: Tensor, positive: set[str]
) -> dict[str, tuple[float, float]]:
    """95 % spans of metrics that are functions of several means: over means drawn from their joint normal law."""
    if set(likelihood.summary(mean)) <= set(mean):
        return {}
    if not bool(covariance.isfinite().all()):
        return dict.fromkeys(likelihood.summary(mean), (math.nan, math.nan))
    unit = covariance.diagonal().clamp(min=0).sqrt()  # of each mean, or one in large units would drown the others
    divisor = torch.where(unit > 0, unit, 1.0)  # and what is the same in all rows does not move
    values, vectors = torch.linalg.eigh(covariance / divisor / divisor[:, None])
    root = unit[:, None] * vectors * values.clamp(min=0).sqrt()
    draws = torch.randn(_DRAWS, len(mean), dtype=torch.float64, generator=torch.Generator().manual_seed(0)) @ root.T
    found: dict[str, list[float]] = {}
    for draw in (draws + torch.tensor(list(mean.values()), dtype=torch.float64)).tolist():
        moved = {n: max(v, 0.0) if n in positive else v for n, v in zip(mean, draw, strict=True)}
        for name, value in likelihood.summary(moved).items():
            found.setdefault(name, []).append(value)
    return {name: _ends(drawn) for name, drawn in found.items()}


def _ends(drawn: list[float]) -> tuple[float, float]:
    """Ends of the middle 95 % of what is finite."""
    finite = torch.tensor([v for v in drawn if math.isfinite(v)] or [math.nan], dtype=torch.float64)
    low, high = torch.quantile(finite, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return low, high


def wilson(share: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of `count` rows: honest for few rows and for shares near 0 and 1.

    >>> [round(end, 3) for end in wilson(1.0, 5)]
    [0.566, 1.0]
    >>> wilson(0.0, 48)[0]  # never beyond the share, however it is rounded
    0.0
    """
    z2 = 1.96**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = 1.96 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return min(max(centre - half, 0.0), share), max(min(centre + half, 1.0), share)
