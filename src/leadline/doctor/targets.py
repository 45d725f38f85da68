"""Is y what the likelihood scores, and are its classes there to be learned?"""

from __future__ import annotations

import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.data import Data, Split
from leadline.data.target import SEVERAL
from leadline.doctor.finding import Finding
from leadline.doctor.words import percent, some
from leadline.errors import ShapeError, UserError
from leadline.likelihoods.bernoulli import Bernoulli
from leadline.likelihoods.likelihood import Likelihood

# At 20 rows of one class for each of another, always saying the common one scores 95 %: accuracy alone misleads.
IMBALANCE = 20
# Of the deviation: rounding of one part in a hundred is seen in the third digit of an error, one in ten spoils it.
BLURRED, LOST = 0.01, 0.1
EPSILON = 2.0**-23


def check_targets(data: Data, likelihood: Likelihood) -> list[Finding]:
    """Errors first: shape, type, range and finiteness of y in each split. Then what its classes look like."""
    findings = []
    for name, split in data.splits():
        findings += _weights(name, split)
        findings += _values(name, split, likelihood)
    if any(finding.severity == "error" for finding in findings):
        return findings
    if data.target.placed:
        return []
    return _classes(data) if data.target.discrete else _resolution(data) or _constant(data)


def _values(name: str, split: Split, likelihood: Likelihood) -> list[Finding]:
    where = f"{name} split"
    try:
        likelihood.check(split.y)
    except ShapeError as error:
        return [Finding("target-shape", "error", error.must, where, error.got, error.do)]
    except UserError as error:
        wrong = _outside(split.y, likelihood)
        if wrong is None or not len(wrong):
            return [Finding("target-type", "error", error.must, where, error.got, error.do)]
        codes, rows = split.y[wrong].unique().tolist(), split.row_numbers(wrong)
        found = f"{len(wrong)} outside: {some(f'{code:g}' for code in codes)} in rows {some(rows)}"
        return [Finding("label-range", "error", error.must, where, found, error.do)]
    if split.y.is_floating_point() and not bool(split.y.sum().isfinite()):
        wrong = (~split.y.reshape(len(split), -1).isfinite()).any(1).nonzero().flatten()
        if len(wrong):
            found = f"{len(wrong)} of {len(split)} are nan or infinite, in rows {some(split.row_numbers(wrong))}"
            do = "Leave these rows out, or fill in what was measured"
            return [Finding("non-finite-target", "error", "every target must be a finite number", where, found, do)]
    return []


def _outside(y: Tensor, likelihood: Likelihood) -> Tensor | None:
    """Rows whose code is no class; None where the family has no codes or y is of another kind altogether."""
    num_classes = 2 if isinstance(likelihood, Bernoulli) else getattr(likelihood, "num_classes", None)
    if num_classes is None or y.dim() != 1:
        return None
    return ((y < 0) | (y >= num_classes)).nonzero().flatten()


def _resolution(data: Data) -> list[Finding]:
    """Whether float32, in which targets are kept, can tell the values of y apart."""
    target = data.target
    if target.kind not in ("real", "positive", SEVERAL) or len(data.train) < 2:  # of one row no deviation is known
        return []
    findings = []
    for name, shift, scale in zip(target.names, target.shift, target.scale, strict=True):
        step = abs(shift) * EPSILON
        if step <= BLURRED * scale:
            continue
        severity = "error" if step > LOST * scale else "warning"
        findings.append(
            Finding(
                "target-resolution",
                severity,
                f"the target {name} must vary by more than single precision can tell",
                "train split",
                f"values near {shift:.6g} with a deviation of {scale:.3g}, kept in steps of {step:.2g}",
                f"Predict its distance from a round number: {name} {'-' if shift > 0 else '+'} {_round(abs(shift)):g}",
            )
        )
    return findings


def _round(value: float) -> float:
    return float(f"{value:.2g}")


def _weights(name: str, split: Split) -> list[Finding]:
    if split.weight is None:
        return []
    wrong = (~(split.weight.isfinite() & (split.weight >= 0))).nonzero()[:, 0].unique()
    if not len(wrong):
        return []
    found = (
        f"{split.weight[wrong[0]].reshape(-1)[0].item():g} in row {split.row_numbers(wrong[:1])[0]}, {len(wrong)} such"
    )
    return [
        Finding(
            "bad-weight",
            "error",
            "the weight of an example must be a number of at least 0",
            f"{name} split",
            found,
            "Give the row weight 0 to leave it out",
        )
    ]


def _classes(data: Data) -> list[Finding]:
    findings = []
    num_classes = max(len(data.target.classes), *(int(split.y.max()) + 1 for _, split in data.splits()))
    counts = {name: torch.bincount(split.y.long(), minlength=num_classes) for name, split in data.splits()}
    train = counts["train"]
    present = train > 0
    names = data.target.classes if len(data.target.classes) == num_classes else tuple(map(str, range(num_classes)))
    if int(present.sum()) == 1 and len(data.train) > 1:
        only = names[int(train.argmax())]
        findings.append(
            Finding(
                "one-class",
                "error",
                "the training split must hold at least two classes",
                "train split",
                f"all {len(data.train)} rows are {only!r}",
                "Split again so that each class is in each split",
            )
        )
        return findings
    for name in ("val", "test"):
        lost = ((counts[name] > 0) & ~present).nonzero().flatten().tolist() if name in counts else []
        if lost:
            found = some(
                f"{names[c]!r} ({counted(int(counts[name][c]), 'row')} of {name}, none of train)" for c in lost
            )
            findings.append(
                Finding(
                    "class-missing",
                    "warning",
                    "a class is tested that was never trained",
                    f"{name} split",
                    found,
                    "Split again so that each class is in each split, or leave the class out",
                )
            )
    rare, common = int(train[present].min()), int(train.max())
    if common >= IMBALANCE * rare:
        least = names[int(torch.where(present, train, train.max() + 1).argmin())]
        most, share = names[int(train.argmax())], percent(common / len(data.train))
        found = f"{counted(common, 'row')} of {most!r} ({share}), {rare} of {least!r}"
        findings.append(
            Finding(
                "class-imbalance",
                "note",
                "some classes are much rarer than others",
                "train split",
                found,
                "Judge by nll and the rates of each class, not by accuracy alone",
            )
        )
    return findings


def _constant(data: Data) -> list[Finding]:
    y = data.train.y.reshape(len(data.train), -1)
    still = (y == y[:1]).all(0)
    if len(y) < 2 or not bool(still.any()):
        return []
    j = int(still.long().argmax())
    found = f"{y[0, j].item():g} in all {len(y)} rows"
    return [
        Finding(
            "constant-target",
            "warning",
            "the target never changes, so there is nothing to predict",
            "train split",
            found,
            "Check that the right column is the target",
        )
    ]
