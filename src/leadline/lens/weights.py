"""One weight of a module by name and place, written like "map.weight[0, 1]"."""

from __future__ import annotations

import re

from torch import nn

from leadline.errors import UserError
from leadline.names import suggest

_PLACE = re.compile(r"(?P<name>[\w.]+?)\s*(\[(?P<index>[\d,\s]*)\])?")


def weight_at(model: nn.Module, written: str) -> tuple[str, tuple[int, ...]]:
    """Name and place of one weight.

    >>> weight_at(nn.Linear(2, 1), "weight[0, 1]")
    ('weight', (0, 1))
    """
    known = dict(model.named_parameters())
    match = _PLACE.fullmatch(str(written).strip())
    if match is None or match["name"] not in known:
        name = match["name"] if match else str(written)
        raise UserError(
            "a parameter must be one of the model's, with its place", got=repr(written), do=suggest(name, known)
        )
    index = tuple(int(k) for k in (match["index"] or "").split(",") if k.strip())
    shape = known[match["name"]].shape
    if len(index) != len(shape) or any(k >= n for k, n in zip(index, shape, strict=True)):
        raise UserError(
            f"{match['name']} of shape {tuple(shape)} must be named with a place in it",
            got=repr(written),
            do=f"Write {match['name']}[{', '.join('0' for _ in shape)}]",
        )
    return match["name"], index
