"""A thing's config is exactly its constructor's arguments: plain, JSON-able, enough to build it again."""

from __future__ import annotations

import inspect
from typing import Any


class Configured:
    """Mixin for classes whose constructor stores each argument under its own name.

    >>> class Scale(Configured):
    ...     def __init__(self, factor=2.0, axes=(0, 1)):
    ...         self.factor, self.axes = factor, axes
    >>> Scale(3.0).config
    {'factor': 3.0, 'axes': [0, 1]}
    """

    @property
    def config(self) -> dict[str, Any]:
        parameters = inspect.signature(type(self).__init__).parameters.values()
        names = [p.name for p in parameters if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        return {name: plain(getattr(self, name)) for name in names}


def plain(value: Any) -> Any:
    """`value` as JSON would hold it: tuples become lists, everything else must be plain already."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    raise TypeError(f"a config holds plain values, not {type(value).__name__}")
