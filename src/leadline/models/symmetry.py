"""What can be done to a network's weights without changing its function.

    permute   a hidden layer's units in another order: rows of Ω_k and β_k, columns of Ω_{k+1}                       (1)
    rescale   unit d in by c > 0, out by 1/c, where a[c z] = c a[z]  (relu, leaky_relu, prelu, identity)             (2)
    flip      unit d in by -1, out by -1, where a[-z] = -a[z]        (tanh, sin, identity)                           (3)
    fold      batch normalisation into the map before it: Ω <- s Ω, β <- s (β - mean) + shift, s = gain / deviation  (4)

So no minimum of a network's loss is alone: D units have D! orders, and each ReLU a half-line of scales. Every operation
returns a changed copy; a function is kept to rounding, and by `fold` in evaluation mode.

Notation   Ω_k, β_k -> chain(net).maps[k]; layer k, from 0, is the hidden layer after map k
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.sine import Sine
from leadline.models.chain import chain
from leadline.models.mlp import MLP
from leadline.settings import whole

Network = TypeVar("Network", bound=nn.Module)

_HOMOGENEOUS = (nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.Identity)
_ODD = (nn.Tanh, Sine, nn.Identity)


def permute(network: Network, layer: int, order: Sequence[int] | Tensor) -> Network:
    """Eq. 1: the unit that was number order[d] becomes number d.

    >>> from leadline.models import Shallow
    >>> net = Shallow(1, 3, 1)
    >>> permute(net, 0, [2, 0, 1])["theta10"] == net["theta30"]
    True
    """
    made, before, _, after = _around(network, layer)
    index = torch.as_tensor(order, device=before.weight.device)
    if sorted(index.tolist()) != list(range(before.out_features)):
        raise UserError(
            f"order must hold each of the units 0 … {before.out_features - 1} once",
            got=f"order={index.tolist()}",
            do="Pass torch.randperm of their number",
        )
    with torch.no_grad():
        before.weight.copy_(before.weight[index])
        if before.bias is not None:
            before.bias.copy_(before.bias[index])
        after.weight.copy_(after.weight[:, index])
    return made


def rescale(network: Network, layer: int, factor: float | Sequence[float] | Tensor) -> Network:
    """Eq. 2, with one factor for each unit of the layer, or one for all.

    >>> from leadline.models import Shallow
    >>> net = Shallow(1, 3, 1)
    >>> rescale(net, 0, 4.0)["phi1"] == net["phi1"] / 4
    True
    """
    return _scaled(network, layer, factor, _HOMOGENEOUS, "a[c z] = c a[z]")


def flip(network: Network, layer: int, units: Sequence[int]) -> Network:
    """Eq. 3 for the units whose numbers are given.

    >>> from leadline.models import Shallow
    >>> net = Shallow(1, 3, 1, activation="tanh")
    >>> flip(net, 0, [0])["phi1"] == -net["phi1"]
    True
    """
    _, before, _, _ = _around(network, layer)
    signs = torch.ones(before.out_features)
    for unit in units:
        signs[whole("unit", unit, 0, before.out_features - 1)] = -1.0
    return _scaled(network, layer, signs, _ODD, "a[-z] = -a[z]")


@torch.no_grad()
def fold(network: MLP) -> MLP:
    """Eq. 4 in every layer: the network without its batch normalisation, as it is in evaluation mode.

    >>> fold(MLP(3, (4,), 2, norm="batch")).norm
    'none'
    """
    if not isinstance(network, MLP) or network.norm.lower() != "batch":
        got = f"norm={network.norm!r}" if isinstance(network, MLP) else f"a {type(network).__name__}"
        raise UserError("fold takes an MLP with batch normalisation", got=got, do="Pass MLP(…, norm='batch')")
    with torch.random.fork_rng(devices=[]):
        made = MLP(**{**network.config, "norm": "none"}).to(network.head.weight)
    made.head.load_state_dict(network.head.state_dict())
    for old, new in zip(cast(list[Any], network.layers), cast(list[Any], made.layers), strict=True):
        norm, map_ = copy.deepcopy(old.norm).double(), copy.deepcopy(old.map).double()
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        new.map.weight.copy_(scale[:, None] * map_.weight)
        new.map.bias.copy_(scale * (map_.bias - norm.running_mean) + norm.bias)
        new.activation.load_state_dict(old.activation.state_dict())
    return made.train(network.training)


def _scaled(
    network: Network, layer: int, factor: float | Sequence[float] | Tensor, kinds: tuple[type, ...], law: str
) -> Network:
    made, before, a, after = _around(network, layer)
    if not isinstance(a, kinds):
        raise UserError(
            f"the activation must obey {law}",
            got=type(a).__name__,
            do=f"It holds for {', '.join(kind.__name__ for kind in kinds)}",
        )
    c = torch.as_tensor(factor, dtype=before.weight.dtype, device=before.weight.device)
    allowed = (c > 0) if kinds is _HOMOGENEOUS else (c.abs() == 1)
    if c.shape not in ((), (before.out_features,)) or not bool((allowed & c.isfinite()).all()):
        raise UserError(
            f"factors must be above 0, one for all or one for each of {before.out_features} units",
            got=f"{c.tolist()}",
            do="Pass positive numbers",
        )
    c = c.expand(before.out_features)
    with torch.no_grad():
        before.weight.mul_(c[:, None])
        if before.bias is not None:
            before.bias.mul_(c)
        after.weight.div_(c)
    return made


def _around(network: Network, layer: int) -> tuple[Network, nn.Linear, nn.Module, nn.Linear]:
    """A copy of the network, with the map before a hidden layer, its activation, and the map after it."""
    made = copy.deepcopy(network)
    links = chain(made)
    if not links.hidden:
        raise UserError("the network must have a hidden layer", got="none", do="Pass a Shallow network or an MLP")
    layer = whole("layer", layer, 0, len(links.hidden) - 1)
    before, a, after = links.maps[layer], links.activations[layer], links.maps[layer + 1]
    alike = all(parameter.numel() == 1 for parameter in a.parameters())
    if after.in_features != before.out_features or not alike:
        raise UserError(
            "all units of the layer must have the same activation, one output each",
            got=f"{a}",
            do="Choose relu or another activation without parameters of each unit",
        )
    return made, before, a, after
