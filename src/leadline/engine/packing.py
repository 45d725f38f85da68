"""Nested state as tensors plus JSON: what a checkpoint can hold without pickle."""

from __future__ import annotations

from typing import Any

from torch import Tensor

_TENSOR = "§tensor"


def pack(value: Any, prefix: str = "") -> tuple[dict[str, Tensor], Any]:
    """Split nested dicts and lists into named tensors and a plain skeleton that refers to them.

    >>> import torch
    >>> tensors, skeleton = pack({"a": [torch.ones(1), 2]})
    >>> sorted(tensors), skeleton
    (['a.0'], {'a': [{'§tensor': 'a.0'}, 2]})
    """
    tensors: dict[str, Tensor] = {}

    def walk(item: Any, path: str) -> Any:
        if isinstance(item, Tensor):
            tensors[path] = item.detach()
            return {_TENSOR: path}
        if isinstance(item, dict):
            return {str(key): walk(child, f"{path}.{key}" if path else str(key)) for key, child in item.items()}
        if isinstance(item, (list, tuple)):
            return [walk(child, f"{path}.{index}" if path else str(index)) for index, child in enumerate(item)]
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        raise TypeError(f"state at {path!r} must be a tensor or a plain value, not {type(item).__name__}")

    skeleton = walk(value, prefix)
    return tensors, skeleton


def unpack(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `pack`; keys of dicts come back as strings, tuples as lists."""
    if isinstance(skeleton, dict):
        if set(skeleton) == {_TENSOR}:
            return tensors[skeleton[_TENSOR]]
        return {key: unpack(child, tensors) for key, child in skeleton.items()}
    if isinstance(skeleton, list):
        return [unpack(child, tensors) for child in skeleton]
    return skeleton
