"""First weights: drawn for any module from outside, by name, with biases of 0.

    own                              the model's own, as it was built (torch's default: uniform, σ² = 1 / 3 fan_in)
    normal(v), uniform(v)            one variance v for every weight
    lecun, glorot, he(a)             variance by the fans: `leadline.init.scaled`; also …_uniform
    he_out(a), he_mean               He's for the backward pass, and for a middle way
    orthogonal(g), delta_orthogonal(g)   matrices and kernels that keep lengths: `leadline.init.orthogonal`
    lsuv(v)                          scaled layer by layer on a batch: `leadline.init.lsuv`
    fixup, skipinit(a)               residual branches that begin as nothing: `leadline.init.fixup`
    gradinit(η)                      factors learned so that the first step helps most: `leadline.init.gradinit`

A number in brackets is optional. `leadline.lens.depth` shows what a draw does to the signal and to the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.init.branches import Branch, branches
from leadline.init.fixup import fixup, skipinit
from leadline.init.gradinit import gradinit
from leadline.init.lsuv import lsuv
from leadline.init.maps import Map, maps
from leadline.init.orthogonal import delta_orthogonal, orthogonal
from leadline.init.scaled import (
    glorot,
    glorot_uniform,
    he,
    he_mean,
    he_out,
    he_uniform,
    lecun,
    lecun_uniform,
    normal,
    uniform,
)
from leadline.names import bracketed, lookup


@dataclass(frozen=True)
class Init:
    """Args:
    draw: the function that overwrites the weights.
    number: the argument that a number in brackets sets, and its least value; "" where none is taken.
    above: whether the least value itself is outside.
    reads: what it must be given beside the model: "x", "y", "loss".
    """

    draw: Callable[..., None]
    number: str = ""
    least: float = 0.0
    above: bool = False
    reads: tuple[str, ...] = ()


INITS: dict[str, Init] = {
    "own": Init(lambda model, generator: None),
    "normal": Init(normal, "variance"),
    "uniform": Init(uniform, "variance"),
    "lecun": Init(lecun),
    "lecun_uniform": Init(lecun_uniform),
    "glorot": Init(glorot),
    "glorot_uniform": Init(glorot_uniform),
    "he": Init(he, "slope"),
    "he_uniform": Init(he_uniform, "slope"),
    "he_out": Init(he_out, "slope"),
    "he_mean": Init(he_mean),
    "orthogonal": Init(orthogonal, "gain", above=True),
    "delta_orthogonal": Init(delta_orthogonal, "gain", above=True),
    "lsuv": Init(lsuv, "variance", above=True, reads=("x",)),
    "fixup": Init(fixup),
    "skipinit": Init(skipinit, "scale"),
    "gradinit": Init(gradinit, "lr", above=True, reads=("x", "y", "loss")),
}


def initialise(
    model: nn.Module,
    name: str,
    generator: torch.Generator | None = None,
    batch: Batch | tuple[Tensor, Tensor] | Tensor | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> nn.Module:
    """Overwrite the first weights of `model` and return it.

    Args:
        name: in `INITS`, with an optional number in brackets: "he", "he(0.2)", "normal(0.02)".
        generator: of the draws; None takes torch's own. One of the CPU gives the same weights on every device.
        batch: rows for what reads data: a Batch, a pair (x, y), or x alone, as the network reads them.
        loss: of output and y, for what reads the loss; a likelihood's `loss`.

    >>> net = initialise(nn.Linear(50, 50), "orthogonal", torch.Generator().manual_seed(1))
    >>> round(float(torch.linalg.matrix_norm(net.weight.detach(), 2)), 4), net.bias.abs().max().item()
    (1.0, 0.0)
    """
    word, init, number = named(name)
    given: dict[str, Any] = {"loss": loss}
    if isinstance(batch, Batch):
        given |= {"x": batch.x, "y": batch.y}
    elif isinstance(batch, (tuple, list)):
        given |= dict(zip(("x", "y"), batch, strict=False))
    elif batch is not None:
        given |= {"x": batch}
    missing = [what for what in init.reads if given.get(what) is None]
    if missing:
        raise UserError(
            f"{word} must be given {', '.join(init.reads)}: it reads data",
            got=f"no {' and no '.join(missing)}",
            do="Pass batch=(x, y)" + (" and loss=likelihood.loss" if "loss" in init.reads else ""),
        )
    init.draw(model, generator=generator, **{what: given[what] for what in init.reads}, **number)
    return model


def named(name: str) -> tuple[str, Init, dict[str, float]]:
    """A name with its optional number, taken apart and checked.

    >>> named("he(0.2)")[0], named("he(0.2)")[2]
    ('he', {'slope': 0.2})
    """
    word, numbers = bracketed(name, "init")
    init = lookup(word, INITS, "init")
    word = next(known for known, entry in INITS.items() if entry is init)
    if not numbers:
        return word, init, {}
    taking = [known for known, entry in INITS.items() if entry.number]
    if not init.number or len(numbers) > 1:
        raise UserError(
            f"init {word} takes {'one number' if init.number else 'no number'}",
            got=f"init {name!r}",
            do=f"Write {word}(0.5)" if init.number else f"Write {word}; a number is taken by {', '.join(taking)}",
        )
    [value] = numbers
    if value < init.least or (init.above and value == init.least):
        legal = f"above {init.least:g}" if init.above else f"of at least {init.least:g}"
        raise UserError(
            f"init {word} needs a number {legal} in its brackets ({init.number})",
            got=f"init {name!r}",
            do=f"Write {word}, or {word}(0.5)",
        )
    return word, init, {init.number: value}


__all__ = [
    "INITS",
    "Branch",
    "Init",
    "Map",
    "branches",
    "delta_orthogonal",
    "fixup",
    "glorot",
    "glorot_uniform",
    "gradinit",
    "he",
    "he_mean",
    "he_out",
    "he_uniform",
    "initialise",
    "lecun",
    "lecun_uniform",
    "lsuv",
    "maps",
    "named",
    "normal",
    "orthogonal",
    "skipinit",
    "uniform",
]
