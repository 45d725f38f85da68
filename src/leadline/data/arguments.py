"""What a caller passes to a source, held against the source's own signature: a slip is a message, not a traceback."""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from leadline.errors import UnknownName, UserError
from leadline.names import suggest
from leadline.settings import given, real, whole

P = ParamSpec("P")
R = TypeVar("R")

_MOST_SEED = 2**63 - 1  # what torch's generator takes


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, with its arguments checked by name and by annotation before it is called.

    >>> @checked
    ... def waves(*, num: int = 10, height: float = 1.0) -> str:
    ...     return f"{num} waves of {height}"
    >>> waves(num=3)
    '3 waves of 1.0'
    >>> waves(num="a")
    Traceback (most recent call last):
    leadline.errors.UserError: num must be a whole number. Got num='a' (text). A usual value is num=10.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(**arguments(function, args, kwargs))  # type: ignore[call-arg]

    return call


def arguments(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, those left out included; numbers of numpy become Python's."""
    signature, name = inspect.signature(function), function.__name__
    known = signature.parameters
    for option in kwargs:
        if option not in known:
            others = [key for key in known if key != "path"]
            raise UnknownName(
                f"an option of {name} must be one of its arguments", got=option, do=suggest(option, others).rstrip(".")
            )
    by_place = [key for key, p in known.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_place):
        first = next((key for key in known if key not in by_place), "option")
        raise UserError(
            f"{name} takes its options by name",
            got=f"{len(args) - len(by_place)} without a name",
            do=f"Write {name}({'…, ' if by_place else ''}{first}=…)",
        )
    twice = [key for key in by_place[: len(args)] if key in kwargs]
    if twice:
        raise UserError(f"{name} takes {twice[0]} once", got=f"{twice[0]} by place and by name", do="Keep one")
    absent = [
        key
        for key, p in known.items()
        if p.default is p.empty and key not in kwargs and key not in by_place[: len(args)]
    ]
    if absent:
        raise UserError(
            f"{name} needs {' and '.join(absent)}",
            got="none",
            do="Name the column to predict: target=…" if "target" in absent else "Pass it",
        )
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    hints = _hints(function)
    return {
        key: _fitting(key, value, hints.get(key, Any), known[key].default) for key, value in bound.arguments.items()
    }


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(function)


def _fitting(name: str, value: Any, annotation: Any, default: Any) -> Any:
    """`value` as its annotation wants it; an annotation that is not one of the few below lets everything pass."""
    usual = default if isinstance(default, (int, float)) and not isinstance(default, bool) else None
    kinds = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    if value is None and type(None) in kinds:
        return None
    listed = next((kind for kind in kinds if typing.get_origin(kind) is Sequence), None)
    if str in kinds and listed is not None:  # one word or several: a list of one is that one
        if isinstance(value, str):
            return value
        if not isinstance(value, (list, tuple)) or not value or not all(isinstance(word, str) for word in value):
            raise UserError(
                f"{name} must be text, or a list of words", got=given(name, value), do=f'Write {name}="…", in quotes'
            )
        return value[0] if len(value) == 1 else tuple(value)
    several = listed is not None and isinstance(value, (list, tuple))
    annotation = listed if several else next((kind for kind in kinds if kind is not type(None)), Any)
    if annotation is int:
        return whole(name, value, None, _MOST_SEED if name.endswith("seed") else None, usual=usual)
    if annotation is float:
        return real(name, value, usual=usual)
    if annotation is bool:
        if not isinstance(value, (bool, np.bool_)):
            raise UserError(f"{name} must be True or False", got=given(name, value), do=f"Leave it out for {default}")
        return bool(value)
    if annotation is str:
        if not isinstance(value, (str, os.PathLike) if len(kinds) > 1 else str):
            raise UserError(f"{name} must be text", got=given(name, value), do=_word_for(name, value))
        return value
    if typing.get_origin(annotation) in (tuple, Sequence):
        return _several(name, value, typing.get_args(annotation))
    return value


def _several(name: str, value: Any, inner: tuple[Any, ...]) -> tuple[Any, ...]:
    """A list: one word stands for a list of itself."""
    values = (value,) if isinstance(value, str) and inner[0] is str else value
    try:
        if isinstance(values, (str, Mapping)):
            raise TypeError
        values = tuple(values)
    except TypeError:
        what = {str: "words", int: "whole numbers", float: "numbers"}.get(inner[0], "values")
        raise UserError(f"{name} must be a list of {what}", got=given(name, value), do=f"Write {name}=[…]") from None
    if inner[0] in (int, float):
        return tuple(_fitting(f"{name}[{k}]", item, inner[0], None) for k, item in enumerate(values))
    if Ellipsis not in inner and len(inner) > 1 and len(values) != len(inner):
        raise UserError(
            f"{name} must hold {len(inner)} things", got=f"{len(values)}", do="Pass both x and y, as (x, y)"
        )
    return values


def _word_for(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], str):
        return f'Write {name}="{value[0]}"'
    return f'Write it in quotes, as {name}="…"'
