"""What a lens returns: a frozen record of numbers that can be drawn and written as JSON."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class View(ABC):
    """Numbers first, then a drawing. A concrete view is a frozen dataclass; its arrays cannot be written."""

    def __post_init__(self):
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @abstractmethod
    def plot(self) -> Figure:
        """A new matplotlib Figure; save it with `figure.savefig(path)`."""

    def to_dict(self) -> dict[str, Any]:
        """Every number of the view, as JSON holds them: lists, and None for what is not finite."""
        own = {field.name: _json(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"view": type(self).__name__, **own}


def _json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _json(value.tolist())
    if isinstance(value, np.generic):
        return _json(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _json(getattr(value, field.name)) for field in fields(value)}
    return value
