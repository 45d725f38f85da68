"""Compose networks, and fuse what has been composed into one deep network.

    y = β' + Ω' (β + Ω h)  =  (β' + Ω' β) + (Ω' Ω) h        (1)   two maps with nothing between them are one

With one value in the middle Ω' Ω is an outer product, a matrix of rank one: the composition of two shallow networks is
a deep network with few of its freedoms.
"""

from __future__ import annotations

import torch
from torch import nn

from leadline.errors import UserError
from leadline.layers.activation import name_of, widening
from leadline.models.chain import Chain, chain
from leadline.models.composed import Composed
from leadline.models.mlp import MLP


def compose(*networks: nn.Module) -> Composed:
    """The network that applies `networks` in turn, the first one first; their weights are copied.

    Each is a network of one hidden layer, all with the same activation, and all hand over equally many values.

    >>> from leadline.models import sawtooth
    >>> net = compose(sawtooth(3), sawtooth(3))
    >>> net(torch.tensor([[0.0], [1 / 36]]).double()).flatten().round(decimals=6).abs().tolist()
    [0.0, 1.0]
    """
    if not networks:
        raise UserError("compose needs networks", got="none", do="Pass at least one, the first to act first")
    chains = [chain(network) for network in networks]
    names = [_activation_name(c, network) for c, network in zip(chains, networks, strict=True)]
    for k, (c, name) in enumerate(zip(chains, names, strict=True)):
        if len(c.maps) != 2:
            raise UserError(
                "compose takes networks of one hidden layer",
                got=f"{len(c.maps) - 1} in network {k + 1}",
                do="Compose Shallow networks, or chain deep ones with nn.Sequential and fuse that",
            )
        if name != names[0]:
            raise UserError("all networks must have one activation", got=f"{names[0]} and {name}", do="Agree on one")
        if k and chains[k - 1].dim_output != c.dim_input:
            raise UserError(
                "a network must read what the one before it gives",
                got=f"{chains[k - 1].dim_output} outputs of network {k} and {c.dim_input} inputs of network {k + 1}",
                do="Give both the same number",
            )
    between = {c.dim_input for c in chains[1:]} or {1}
    if len(between) > 1:
        raise UserError(
            "all networks must hand over equally many values", got=f"{sorted(between)}", do="Use nn.Sequential and fuse"
        )
    with torch.random.fork_rng(devices=[]):
        made = Composed(
            chains[0].dim_input, [c.hidden[0] for c in chains], chains[-1].dim_output, between.pop(), names[0]
        )
    _copy([m for c in chains for m in c.maps], chain(made), [a for c in chains for a in c.activations])
    return made


def fuse(network: nn.Module) -> MLP:
    """The same function as one deep network, in which no map follows another without an activation between them (1).

    >>> from leadline.models import Shallow
    >>> net = fuse(compose(Shallow(1, 3, 1), Shallow(1, 3, 1)))
    >>> net.hidden, int(torch.linalg.matrix_rank(net.layers[1].map.weight))
    ((3, 3), 1)
    """
    c = chain(network)
    maps: list[nn.Linear] = [c.maps[0]]
    activations: list[nn.Module] = []
    for a, after in zip(c.activations, c.maps[1:], strict=True):
        if isinstance(a, nn.Identity):
            maps[-1] = _product(maps[-1], after)
        else:
            activations.append(a)
            maps.append(after)
    name = _activation_name(Chain(tuple(maps), tuple(activations)), network)
    with torch.random.fork_rng(devices=[]):
        made = MLP(c.dim_input, [m.out_features for m in maps[:-1]], c.dim_output, activation=name, p_drop=0.0)
    _copy(maps, chain(made), activations)
    return made.train(network.training)


@torch.no_grad()
def _product(first: nn.Linear, second: nn.Linear) -> nn.Linear:
    """Eq. 1, in float64."""
    made = nn.utils.skip_init(nn.Linear, first.in_features, second.out_features).to(first.weight)
    weight = second.weight.double()
    made.weight.copy_(weight @ first.weight.double())
    bias = made.bias.new_zeros(second.out_features, dtype=torch.float64)
    if first.bias is not None:
        bias += weight @ first.bias.double()
    made.bias.copy_(bias if second.bias is None else bias + second.bias.double())
    return made


@torch.no_grad()
def _copy(maps: list[nn.Linear], target: Chain, activations: list[nn.Module]) -> None:
    """Write maps, and what activations have learned, into a chain of the same sizes."""
    for source, place in zip(maps, target.maps, strict=True):
        place.to(source.weight)
        place.weight.copy_(source.weight)
        place.bias.zero_() if source.bias is None else place.bias.copy_(source.bias)
    own = [a for a in target.activations if not isinstance(a, nn.Identity)]
    for learned, a in zip(activations, own, strict=False):
        a.to(maps[0].weight).load_state_dict(learned.state_dict())


def _activation_name(c: Chain, network: nn.Module) -> str:
    """The name under which all activations of the chain are registered."""
    stated = getattr(network, "activation", None)
    found = {name_of(a) for a in c.activations if not isinstance(a, nn.Identity)}
    if any(widening(a) != 1 for a in c.activations):
        raise UserError("activations must keep the number of units", got="crelu", do="Choose another activation")
    if len(found) > 1 or None in found:
        raise UserError(
            "all activations must be one of leadline.layers.activation.ACTIVATIONS",
            got=", ".join(sorted(str(name) for name in found)),
            do="Use the same one in every layer",
        )
    return str(stated) if isinstance(stated, str) else next(iter(found), None) or "identity"
