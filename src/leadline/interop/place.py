"""Where a tensor of ours stands in a file of someone else's, and how it is laid out there.

    ours = read(theirs_1, …, theirs_k)          theirs = write(ours)          read(*write(w)) = w        (1)

Most tensors are the same in both, one to one. Queries, keys and values of ours are one matrix, theirs often three,
which are stacked along the first axis; and some libraries keep the transpose of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Place:
    """Args:
    names: of their tensors, one or several.
    read: from these, in this order, to ours (1).
    write: from ours to as many of theirs.
    """

    names: tuple[str, ...]
    read: Callable[..., Tensor]
    write: Callable[[Tensor], tuple[Tensor, ...]]


#: what a family may give for a tensor of ours: their name, names to stack, or a place
Names = dict[str, str | tuple[str, ...] | Place]


def stacked(*names: str) -> Place:
    """Tensors of equal shape, one below the other.

    >>> place = stacked("query", "key")
    >>> place.read(torch.zeros(2, 3), torch.ones(2, 3)).shape, [part.shape for part in place.write(torch.zeros(4, 3))]
    (torch.Size([4, 3]), [torch.Size([2, 3]), torch.Size([2, 3])])
    """
    return Place(names, lambda *parts: torch.cat(parts), lambda whole: whole.chunk(len(names)))


def transposed(name: str) -> Place:
    """A matrix that is kept with its axes exchanged.

    >>> transposed("c_fc.weight").read(torch.zeros(2, 3)).shape
    torch.Size([3, 2])
    """
    return Place((name,), lambda theirs: theirs.T, lambda ours: (ours.T,))


def reshaped(name: str, ours: tuple[int, ...], theirs: tuple[int, ...]) -> Place:
    """A tensor of the same numbers in another shape.

    >>> reshaped("projection.weight", (8, 48), (8, 3, 4, 4)).read(torch.zeros(8, 3, 4, 4)).shape
    torch.Size([8, 48])
    """
    return Place((name,), lambda found: found.reshape(ours), lambda own: (own.reshape(theirs),))


def affine(ours: str, theirs: str) -> Names:
    """The weight and the bias of a map, or of a normalisation.

    >>> affine("head", "classifier")
    {'head.weight': 'classifier.weight', 'head.bias': 'classifier.bias'}
    """
    return {f"{ours}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}


def query_key_value(ours: str, theirs: str) -> Names:
    """The three maps of attention, one of ours.

    >>> query_key_value("attention", "layer.0.self")["attention.query_key_value.bias"]
    ('layer.0.self.query.bias', 'layer.0.self.key.bias', 'layer.0.self.value.bias')
    """
    parts = ("query", "key", "value")
    return {
        f"{ours}.query_key_value.{kind}": tuple(f"{theirs}.{part}.{kind}" for part in parts)
        for kind in ("weight", "bias")
    }


def place_of(given: str | tuple[str, ...] | Place) -> Place:
    """What a family gave, as a place: a name is one to one, a tuple is stacked.

    >>> place_of("cls.bias").names, place_of(("query", "key")).names
    (('cls.bias',), ('query', 'key'))
    """
    if isinstance(given, Place):
        return given
    return stacked(given) if isinstance(given, str) else stacked(*given)
