"""What a network that learns reads of a large graph: words such as "neighbours(10, 10)" name the ways.

    hops               all nodes within as many steps as there are layers: exact
    neighbours(f, …)   f edges of each node, the last layer's first; one number serves all layers
    heavy(f, …)        the same, heavy edges more often
    layers(M)          M nodes a layer, the important ones more often
    walks(T, W)        the nodes that W random walks of T steps from each asked node meet, and all edges between them
    parts(P)           the parts, of P, that hold the asked nodes, and the edges inside and between them

All but the last two meet every sum on average. These two read a graph of its own and leave out the edges that lead out
of it, which is why parts are to cut few; rows that lie in the same part are asked together (`Sampling.ordered`).
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from leadline.data.blocks import inside, renumbered
from leadline.data.edges import Edges
from leadline.data.layer_sampling import layers
from leadline.data.neighbours import hops, neighbours
from leadline.data.partitions import partition
from leadline.data.walks import walks
from leadline.errors import UserError
from leadline.names import bracketed, lookup

Drawn = tuple[Tensor, tuple[Edges, ...]]


class Sampling(ABC):
    """A way to read some of a graph.

    Args:
        numbers: those in brackets.
    """

    name: ClassVar[str]
    #: how many numbers its word has, at least and at most
    takes: ClassVar[tuple[int, int]] = (1, 1)
    #: whether it draws from a key
    draws: ClassVar[bool] = True
    #: whether what is read is a graph of its own, of which all nodes are computed
    whole: ClassVar[bool] = False

    def __init__(self, *numbers: int):
        low, high = self.takes
        if not low <= len(numbers) <= high or any(n < 1 or n != int(n) for n in numbers):
            few = "no number" if high == 0 else "one whole number" if high == 1 else "whole numbers"
            raise UserError(
                f"batches {self.name} must have {few} in brackets" + (", each at least 1" if high else ""),
                got=f"{self.name}({', '.join(f'{n:g}' for n in numbers)})",
                do=f"Write {self.name}" + ("(10)" if high else ""),
            )
        self.numbers = tuple(map(int, numbers))

    @abstractmethod
    def __call__(self, edges: Edges, seeds: Tensor, num_layers: int, key: Tensor) -> Drawn:
        """The nodes that are read for `seeds`, these first, and the edges of each layer.

        Args:
            edges: of the whole graph.
            seeds: (B,), none of them twice.
            key: (1,), which says all that is drawn.
        """

    def check(self, num_layers: int) -> None:
        """Refuses numbers that do not suit so many layers."""

    def ordered(self, edges: Edges, nodes: Tensor, order: Tensor) -> Tensor:
        """The order of an epoch's rows, given one that is drawn at random.

        Args:
            nodes: that each row asks for.
        """
        return order

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.numbers))})" if self.numbers else self.name


class Hops(Sampling):
    """All of the neighbourhood.

    >>> path = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    >>> Hops()(path, torch.tensor([2]), 1, torch.tensor([0]))[0].tolist()
    [2, 1]
    """

    name, takes, draws = "hops", (0, 0), False

    def __call__(self, edges: Edges, seeds: Tensor, num_layers: int, key: Tensor) -> Drawn:
        return hops(edges, seeds, num_layers)


class Neighbours(Sampling):
    """A few edges of each node, drawn uniformly."""

    name, takes = "neighbours", (1, 99)

    def check(self, num_layers: int) -> None:
        _fan_outs(self, num_layers)

    def __call__(self, edges: Edges, seeds: Tensor, num_layers: int, key: Tensor) -> Drawn:
        return neighbours(edges, seeds, _fan_outs(self, num_layers), key)


class Heavy(Sampling):
    """A few edges of each node, heavy ones more often."""

    name, takes = "heavy", (1, 99)

    def check(self, num_layers: int) -> None:
        _fan_outs(self, num_layers)

    def __call__(self, edges: Edges, seeds: Tensor, num_layers: int, key: Tensor) -> Drawn:
        return neighbours(edges, seeds, _fan_outs(self, num_layers), key, weighted=True)


def _fan_outs(sampling: Sampling, num_layers: int) -> tuple[int, ...]:
    own = sampling.numbers * num_layers if len(sampling.numbers) == 1 else sampling.numbers
    if len(own) != num_layers:
        raise UserError(
            "batches must have one number for all layers, or one for each",
            got=f"{sampling} for {num_layers} layers",
            do=f"Write {sampling.name}({', '.join(['10'] * num_layers)})",
        )
    return own


class Layers(Sampling):
    """A few nodes of each layer."""

    name = "layers"

    def __call__(self, edges: Edges, seeds: Tensor, num_layers: int, key: Tensor) -> Drawn:
        return layers(edges, seeds, self.numbers[0], num_layers, key)


class Walks(Sampling):
    """The nodes that random walks meet, as a graph of its own.

    >>> path = Edges.of(torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    >>> nodes, [own] = Walks(2)(path, torch.tensor([3]), 1, torch.tensor([0]))
    >>> nodes.tolist(), own.pairs.tolist()
    ([3, 1, 2], [[2, 1], [0, 2]])
    """

    name, takes, whole = "walks", (1, 2), True

    def __call__(self, edges: Edges, seeds: Tensor, num_layers: int, key: Tensor) -> Drawn:
        met = walks(edges, seeds, self.numbers[0], self.numbers[1] if len(self.numbers) == 2 else 1, key)
        nodes, _ = renumbered(seeds, met.flatten(), edges.num_sources)
        return nodes, (inside(edges, nodes),) * num_layers


class Parts(Sampling):
    """The parts of a partition in which the asked nodes lie, as a graph of its own.

    >>> clique = torch.combinations(torch.arange(3)).T
    >>> two = Edges.of(torch.cat([clique, clique + 3, torch.tensor([[0], [3]])], 1), num_nodes=6, directed=False)
    >>> nodes, [own] = Parts(2)(two, torch.tensor([4]), 1, torch.tensor([0]))
    >>> nodes.tolist(), len(own)
    ([4, 3, 5], 6)
    >>> Parts(2).ordered(two, torch.arange(6), torch.tensor([5, 0, 3, 2, 4, 1])).tolist()
    [5, 3, 4, 0, 2, 1]
    """

    name, draws, whole = "parts", False, True

    def __init__(self, *numbers: int):
        super().__init__(*numbers)
        self._known: tuple[tuple[int, ...], Tensor] | None = None
        self._seen: weakref.ref[Edges] | None = None

    def of(self, edges: Edges) -> Tensor:
        """The part of each node; computed once."""
        if self._seen is None or self._seen() is not edges:
            mark = len(edges), edges.num_targets, int((edges.source * torch.arange(len(edges)).to(edges.source)).sum())
            if self._known is None or self._known[0] != mark:
                self._known = mark, partition(edges.map(Tensor.cpu), self.numbers[0])
            self._known = mark, self._known[1].to(edges.source.device)
            self._seen = weakref.ref(edges)
        return self._known[1]  # type: ignore[index]

    def __call__(self, edges: Edges, seeds: Tensor, num_layers: int, key: Tensor) -> Drawn:
        parts = self.of(edges)
        asked = torch.zeros(self.numbers[0], dtype=torch.bool, device=parts.device)
        asked[parts[seeds]] = True
        others = asked[parts]
        others[seeds] = False
        nodes = torch.cat([seeds, others.nonzero().flatten()])
        return nodes, (inside(edges, nodes),) * num_layers

    def ordered(self, edges: Edges, nodes: Tensor, order: Tensor) -> Tensor:
        """Part by part, these in the order of the first row of each."""
        own = self.of(edges)[nodes.to(edges.source.device)].to(order.device)[order]
        first = torch.full((self.numbers[0],), len(order), device=order.device)
        first = first.scatter_reduce(0, own, torch.arange(len(order), device=order.device), "amin")
        return order[first[own].argsort(stable=True)]


SAMPLINGS: dict[str, type[Sampling]] = {kind.name: kind for kind in (Hops, Neighbours, Heavy, Layers, Walks, Parts)}


def sampling(word: str) -> Sampling:
    """The way that a word names.

    >>> sampling("neighbours(10, 5)"), sampling("hops")
    (neighbours(10, 5), hops)
    """
    name, numbers = bracketed(word, "batches")
    return lookup(name, SAMPLINGS, "batches")(*numbers)  # type: ignore[arg-type]
