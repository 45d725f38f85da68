"""How a made-up set becomes `Data`: a generator draws arrays, `generator` does the rest for all of them.

It checks the settings that they share, splits the rows by the same seed (classes evenly), fits `Standardize` where x
is not of unit scale, and writes the recipe, so that a generator holds its formula and nothing else.

>>> @generator
... def doubled(*, num: int = 20, noise: float = 0.1, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
...     rng = np.random.default_rng(seed)
...     x = rng.uniform(0, 5, num)
...     return Drawn(x, 2 * x + noise * rng.standard_normal(num))
>>> doubled(num=40)
Data(doubled: train 26, val 6, test 8; x (1,); y y: real)
>>> doubled(num=40).recipe["options"]
{'num': 40, 'noise': 0.1, 'seed': 0, 'val': 0.15, 'test': 0.2}
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec

import numpy as np
import torch

from leadline.config import plain
from leadline.data.account import Account
from leadline.data.arguments import arguments
from leadline.data.data import Data, Split
from leadline.data.inputs import Identity, Inputs, Standardize
from leadline.data.outcome import with_figures
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import UserError

P = ParamSpec("P")

#: least value of a setting, and whether that value itself is allowed; settings not named here may be any number
LEAST: dict[str, tuple[float, bool]] = {
    "num": (4, True),
    "seed": (0, True),
    "noise": (0, True),
    "num_classes": (2, True),
    "num_arms": (2, True),
    "num_cells": (2, True),
    "dim_input": (1, True),
    "dim_output": (1, True),
    "ratio": (1, True),
    "separation": (0, True),
    "loss": (0, True),
    "margin": (0, False),
    "radius": (0, False),
    "sharpness": (0, False),
    "concentration": (0, False),
    "steadiness": (0, False),
    "busiest": (0, False),
}


#: what a setting means, wherever a generator has it and says no more of it
MEANING: dict[str, str] = {
    "num": "rows in all",
    "noise": "how strong the noise is, 0 for none",
    "seed": "of the rows that are drawn and of their split",
    "val": "part of the rows that validates, from 0 to below 1",
    "test": "part of the rows that tests, from 0 to below 1; val and test together stay below 1",
    "num_classes": "how many classes",
    "num_arms": "how many arms, a class each",
    "num_cells": "cells on each side of the board",
    "dim_input": "numbers a row",
    "dim_output": "numbers to predict",
    "ratio": "how many times as often the commonest class occurs as the rarest",
    "separation": "distance between neighbouring centres",
    "loss": "sum of the squared errors that the best line leaves",
    "margin": "least distance of a point from the line that separates the classes, below radius",
    "radius": "largest distance of a point from the origin",
    "sharpness": "how sure the classes are: the probabilities go to 0 and 1 as it grows",
    "concentration": "how closely the values gather around their mean",
    "steadiness": "how closely the speeds gather around their mean",
    "busiest": "people a minute in the busiest place and hour",
    "inner": "radius of the inner circle, between 0 and 1",
    "turns": "how often an arm winds around the centre, any number",
    "slope": "of the line, any number",
    "intercept": "where the line meets x = 0, any number",
    "weights": "slope for each column of x, any numbers: as many columns as weights",
    "shift": "of the wave, any number",
    "frequency": "of the wave, any number",
    "width": "part of [0, 1] without rows, from 0 to below 1",
}


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a generator draws.

    Args:
        x: (num,) or (num, columns).
        y: (num,) or (num, outputs); codes for classes.
        kind, classes, name: of the target.
        columns: names of the columns of x.
        unit: x is of unit scale already, and is read as it is.
    """

    x: np.ndarray
    y: np.ndarray
    kind: str = "real"
    classes: tuple[str, ...] = ()
    name: str = "y"
    columns: tuple[str, ...] = ()
    unit: bool = False


def generator(draw: Callable[P, Drawn]) -> Callable[P, Data]:
    """The source that checks its settings, calls `draw`, and answers with `Data`.

    `draw` takes keywords alone, each with a default, `seed`, `val` and `test` among them.
    """
    signature = inspect.signature(draw)

    @functools.wraps(draw)
    def source(*args: P.args, **kwargs: P.kwargs) -> Data:
        given = arguments(draw, args, kwargs)
        options = {name: plain(value) for name, value in given.items()}
        check_settings(options)
        return _data(draw.__name__, draw(**given), options)  # type: ignore[call-arg]

    source.__signature__ = signature.replace(return_annotation="Data")  # type: ignore[attr-defined]
    lines = [f"    {name}: {meaning(name)}." for name in signature.parameters if name in MEANING]
    source.__doc__ = "\n".join([inspect.getdoc(draw) or "", "", "Args:", *lines])
    return source


def meaning(name: str) -> str:
    """What a setting means, with its least value.

    >>> meaning("num"), meaning("radius")
    ('rows in all, at least 4', 'largest distance of a point from the origin, more than 0')
    """
    if name not in LEAST or name == "noise":
        return MEANING[name]
    least, allowed = LEAST[name]
    return f"{MEANING[name]}, {'at least' if allowed else 'more than'} {least:g}"


def balanced(rng: np.random.Generator, num: int, num_classes: int) -> np.ndarray:
    """`num` class codes in random order, each class as often as any other, to within one."""
    if num < num_classes:
        raise UserError(
            "num must give every class a row",
            got=f"num={num} for {num_classes} classes",
            do=f"Pass num={10 * num_classes}",
        )
    return rng.permutation(np.arange(num) % num_classes)


def check_settings(options: Mapping[str, Any]) -> None:
    """Refuse numbers that are not finite or that lie below their least value."""
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if not math.isfinite(value):
            raise UserError(f"{name} must be a finite number", got=f"{name}={value}", do="Leave it out for the default")
        least, allowed = LEAST.get(name, (-math.inf, True))
        if value < least or (value == least and not allowed):
            must = f"{name} must be {'at least' if allowed else 'more than'} {least}"
            raise UserError(must, got=f"{name}={value}", do="Leave it out for the default")


def _target(drawn: Drawn) -> Target:
    """What is drawn, before its figures are known; several outputs have a name each."""
    outputs, names = np.shape(drawn.y)[1:], drawn.name.split(", ")
    if outputs != (len(names),):
        return Target(drawn.kind, drawn.name)
    return Target.of(*(Target(drawn.kind, name) for name in names))


def _data(name: str, drawn: Drawn, options: dict[str, Any]) -> Data:
    x = torch.from_numpy(np.asarray(drawn.x, dtype=np.float32).reshape(len(drawn.x), -1))
    discrete = drawn.kind in ("binary", "classes", "ordered")
    y = torch.from_numpy(np.asarray(drawn.y, dtype=np.int64 if discrete else np.float32))
    rows = split_indices(
        len(x), val=options["val"], test=options["test"], seed=options["seed"], stratify=y if discrete else None
    )
    train, val, test = (Split(x[index], y[index], rows=index) for index in rows)
    if drawn.kind in ("real", "positive", "count", "proportion"):
        target = with_figures(_target(drawn), train.y)
    else:
        target = Target(drawn.kind, drawn.name, classes=drawn.classes)
    columns = drawn.columns or (("x",) if x.shape[1] == 1 else tuple(f"x{i}" for i in range(1, x.shape[1] + 1)))
    inputs: Inputs = Identity(columns) if drawn.unit else Standardize.fit(train.x, columns)
    recipe = {"source": name, "options": options}
    account = Account(f"{name} generator", read=len(x))
    return Data(train, val, test, target, inputs, name=name, recipe=recipe, account=account)
