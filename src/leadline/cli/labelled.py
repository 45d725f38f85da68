"""Pictures of one's own with what is known of each, by the codes of a run, so that it can be measured on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from leadline.data.data import Split
from leadline.data.pictures import Pictures
from leadline.data.target import Target
from leadline.errors import DataError

if TYPE_CHECKING:
    from leadline.run import Run

_NAMED = 5  # unknown classes that are named


def labelled(trained: Run, what: str) -> Split:
    """The pictures of a folder with what is known of each, as the run reads them and by its own codes."""
    import leadline as ll

    inputs, target = cast(Pictures, trained.inputs), trained.target
    options: dict[str, Any] = {"size": inputs.size, "colour": {1: "grey", 3: "rgb"}[inputs.channels]}
    if target.kind in ("pixels", "boxes"):
        options["task"] = target.kind
    data = ll.data.load(what, **options, fit=inputs.fit, val=0.0, test=0.0, cache=False)
    if data.target.kind != target.kind:
        raise DataError(
            "the pictures must be labelled like those that the run was trained on",
            got=f"{what}, of which {data.target} is known, for a run on {target}",
            do="Name a folder of the same kind",
        )
    parts = [split for _, split in data.splits()]
    x, y = (torch.cat([getattr(part, name) for part in parts]) for name in ("x", "y"))
    return Split(x, _recoded(y, data.target, target))


def _recoded(y: Tensor, own: Target, trained: Target) -> Tensor:
    """Codes of the folder's classes as codes of the run's."""
    if not own.classes:
        return y
    codes = trained.encode(own.classes) if trained.discrete else codes_of(own.classes, trained.classes)
    if own.kind == "boxes":
        there = y[..., :1] >= 0
        return torch.cat(
            [torch.where(there, codes[y[..., :1].clamp(min=0).long()].to(y.dtype), y[..., :1]), y[..., 1:]], -1
        )
    if own.kind == "pixels":
        table = torch.full((256,), 255, dtype=torch.uint8)
        table[: len(codes)] = codes.to(torch.uint8)
        return table[y.long()]
    return codes[y]


def codes_of(names: Sequence[str], known: Sequence[str]) -> Tensor:
    """Where names stand among those that a model was trained on."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(
            "classes must be those that the model was trained on",
            got=", ".join(unknown[:_NAMED]),
            do=f"Use {', '.join(known[:10])}",
        )
    return torch.tensor([known.index(name) for name in names])
