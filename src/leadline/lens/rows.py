"""The rows that a lens looks at: a split of Data, a Split, or a pair (x, y)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from leadline.data.data import Data, Split
from leadline.data.inputs import Identity, Inputs
from leadline.data.target import DISCRETE, Target
from leadline.errors import DataError, UserError
from leadline.likelihoods import LIKELIHOODS, Likelihood, likelihood_for
from leadline.likelihoods.regions import UNLABELLED
from leadline.names import lookup
from leadline.settings import given

Loss = Callable[[Tensor, Tensor], Tensor]

_MOST_CLASSES = 2**16  # larger codes than this are none


@runtime_checkable
class Fitted(Protocol):
    """A run, as far as a lens reads it."""

    model: nn.Module
    likelihood: Likelihood

    def need_data(self) -> Data: ...


@dataclass(frozen=True, eq=False)
class Rows:
    """Raw rows with what reads them."""

    raw: Tensor
    y: Tensor
    weight: Tensor | None
    inputs: Inputs
    target: Target | None

    def encoded(self, model: nn.Module) -> Tensor:
        """What the network reads, on its device and in its precision."""
        return fit_to(model, self.inputs.encode(self.raw))


def rows_of(data: Any, split: str = "train") -> Rows:
    """The rows of a split of Data; a Split or a pair (x, y) is taken as the network's own inputs."""
    if isinstance(data, Data):
        part = data[split]
        if not len(part):
            raise DataError(f"split {split} must have rows", got="none", do="Look at split='train'")
        return Rows(part.x, part.y, part.weight, data.inputs, data.target)
    if isinstance(data, (tuple, list)) and len(data) == 2:
        data = Split(*(torch.as_tensor(part) for part in data))
    if isinstance(data, Split):
        return Rows(data.x, data.y, data.weight, Identity(), None)
    raise UserError("data must be Data, a Split or a pair (x, y)", got=given("data", data), do="Pass run.data")


def asked(
    model: nn.Module | Fitted, data: Any, split: str, likelihood: Likelihood | str | None
) -> tuple[nn.Module, Rows, Likelihood]:
    """Module, rows and likelihood: of a run its own, where no others are given."""
    if isinstance(model, Fitted):
        data = model.need_data() if data is None else data
        likelihood = model.likelihood if likelihood is None else likelihood
        model = model.model
    if not isinstance(model, nn.Module):
        raise UserError("a lens looks at a run or a torch module", got=given("model", model), do="Pass run")
    if data is None:
        raise UserError("a module must come with data", got="data=None", do="Pass data, or a run, which has its own")
    rows = rows_of(data, split)
    return model, rows, family_of(rows, likelihood)


def loss_of(rows: Rows, likelihood: Likelihood | str | Loss | None) -> Loss:
    """The loss of each row as a function of output and y; the target picks it where none is given."""
    if isinstance(likelihood, Likelihood):
        return likelihood.loss
    if callable(likelihood):
        return likelihood
    return family_of(rows, likelihood).loss


def family_of(rows: Rows, likelihood: Likelihood | str | None) -> Likelihood:
    """The likelihood: as given, or the one that the target picks; by name for a pair, whose y tells the rest."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if rows.target is not None:
        return likelihood_for(rows.target, likelihood)
    if likelihood is None:
        raise UserError(
            "a pair (x, y) must come with a likelihood",
            got="no target that could pick one",
            do='Pass likelihood="Categorical", say, or run.likelihood, or Data instead of the pair',
        )
    kind = lookup(likelihood, LIKELIHOODS, "likelihood").kinds[0]
    if kind in ("signs", "ranking", "several"):
        raise UserError(
            f"{likelihood} must be told more than y shows",
            got="its name and a pair (x, y)",
            do="Pass likelihood=run.likelihood, or Data instead of the pair",
        )
    family = likelihood_for(_target(rows.y, kind), likelihood)
    family.check(rows.y)
    return family


def _target(y: Tensor, kind: str) -> Target:
    """What y is, in the unit in which it stands; classes and points are named by their numbers."""
    count = 0
    if kind == "points":
        count = y.shape[1]
    elif kind == "boxes":
        count = _classes(y[..., 0], 1)
    elif kind == "pixels":
        count = _classes(y[y != UNLABELLED], 2)
    elif kind in DISCRETE:
        count = _classes(y, 2)
    dim = y.shape[1] if y.dim() == 2 and not count else 1
    return Target(kind, classes=tuple(map(str, range(count))), dim=dim, shift=(0.0,) * dim, scale=(1.0,) * dim)


def _classes(codes: Tensor, least: int) -> int:
    """How many classes there are, by their largest code; what is no code is for the likelihood to refuse."""
    whole = codes.nan_to_num(0).clamp(0, _MOST_CLASSES)
    return max(least, int(whole.max()) + 1) if codes.numel() else least


def fit_to(model: nn.Module, x: Tensor) -> Tensor:
    """x on the model's device, and in its precision where x is not whole numbers."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    if parameter is None:
        return x
    return x.to(parameter.device, parameter.dtype if x.is_floating_point() else None)
