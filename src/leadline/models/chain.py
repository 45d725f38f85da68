"""A feed-forward network as what it is: affine maps with activations between them.

    y = map_K ∘ a_K ∘ map_{K-1} ∘ … ∘ a_1 ∘ map_0        (1)

What works on a `Chain` works on every network that is one: Linear, Shallow, Composed, MLP without normalisation and
skips, and any nn.Sequential of linear maps and activations. Dropout is left out: a chain is the network in
evaluation mode.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.activation import ACTIVATIONS
from leadline.layers.dropout import Dropout
from leadline.models.composed import Composed, _Network
from leadline.models.linear import Linear
from leadline.models.mlp import MLP
from leadline.models.shallow import Shallow


@dataclass(frozen=True)
class Chain:
    """Args:
    maps: the affine maps of eq. 1, first to last; the network's own modules, not copies.
    activations: what stands between them, one fewer.
    """

    maps: tuple[nn.Linear, ...]
    activations: tuple[nn.Module, ...]

    def __call__(self, x: Tensor) -> Tensor:
        h = self.maps[0](x.flatten(1))
        for a, map_ in zip(self.activations, self.maps[1:], strict=True):
            h = map_(a(h))  # eq. 1
        return h

    @property
    def dim_input(self) -> int:
        return self.maps[0].in_features

    @property
    def hidden(self) -> tuple[int, ...]:
        """Width of each hidden layer."""
        return tuple(map_.out_features for map_ in self.maps[:-1])

    @property
    def dim_output(self) -> int:
        return self.maps[-1].out_features


def chain(model: nn.Module) -> Chain:
    """The maps and activations of a network.

    >>> chain(MLP(4, (6, 5), 3)).hidden
    (6, 5)
    """
    maps: list[nn.Linear] = []
    activations: list[nn.Module] = []
    for part in _parts(model):
        if isinstance(part, nn.Linear):
            if len(activations) < len(maps):
                activations.append(nn.Identity())  # two maps with nothing between them
            maps.append(part)
        elif isinstance(part, nn.Identity) and len(activations) == len(maps):
            continue
        elif len(activations) + 1 == len(maps):
            activations.append(part)
        else:
            raise _refused(model, f"two activations in a row, or one before the first map ({type(part).__name__})")
    if not maps or len(activations) == len(maps):
        raise _refused(model, "no affine map at its end")
    return Chain(tuple(maps), tuple(activations))


def _parts(model: nn.Module) -> Iterable[nn.Module]:
    """Maps and activations in the order in which they act."""
    if isinstance(model, Linear):
        yield model.map
    elif isinstance(model, Shallow):
        yield from (model.inner, model.nonlinearity, model.outer)
    elif isinstance(model, Composed):
        for network in cast(Iterable[_Network], model.networks):
            yield from (network.inner, network.nonlinearity, network.outer)
    elif isinstance(model, MLP):
        for layer in model.layers:
            if layer.norm is not None or layer.skip:
                raise _refused(model, "a skip" if layer.skip else "a normalisation")
            yield from (layer.map, layer.activation)
        yield model.head
    elif isinstance(model, (nn.Sequential, nn.ModuleList)):
        for part in model:
            yield from _parts(part)
    elif isinstance(model, (nn.Linear, *ACTIVATIONS.values())):
        yield model
    elif not isinstance(model, (nn.Flatten, nn.Dropout, Dropout)):
        raise _refused(model, f"a {type(model).__name__}")


def _refused(model: nn.Module, got: str) -> UserError:
    return UserError(
        "the network must be affine maps with activations between them",
        got=f"{got} in {type(model).__name__}",
        do="Use Shallow, Composed, nn.Sequential, or MLP with norm='none' and residual=False",
    )
