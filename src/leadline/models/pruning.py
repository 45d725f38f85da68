"""Take out hidden units that say nothing, and leave the function as it is.

    no weights in     unit d answers a[β_d] to every input: its part Ω'_d a[β_d] goes into the next bias         (1)
    no weights out    unit d is not heard: it goes                                                               (2)

Both hold to rounding. With a threshold, weights of at most that length count as none, and the function moves a little.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from leadline.errors import UserError
from leadline.layers.activation import widening
from leadline.models.mlp import MLP
from leadline.settings import real


@torch.no_grad()
def prune(model: MLP, below: float = 0.0) -> MLP:
    """A smaller network of the same function (1, 2); a layer keeps one unit at least.

    Args:
        model: without normalisation and residual layers, of an activation that keeps the number of units.
        below: largest length of a unit's weights, in or out, at which it goes, at least 0.

    >>> model = MLP(3, (5, 4), 2)
    >>> _ = model.layers[0].map.weight.data[:2].zero_(), model.layers[1].map.weight.data[:, 4].zero_()
    >>> small, x = prune(model.eval()), torch.randn(6, 3)
    >>> small.hidden, torch.allclose(small(x), model(x), atol=1e-6)
    ((2, 4), True)
    """
    real("below", below, 0)
    if not isinstance(model, MLP) or model.norm != "none" or model.residual or _widened(model):
        raise UserError(
            "prune takes an MLP without normalisation, residual layers and crelu",
            got=type(model).__name__ + (f" with {model.config}" if isinstance(model, MLP) else ""),
            do="Fold batch normalisation in with ll.models.fold first",
        )
    maps = cast(list[nn.Linear], [*(layer.map for layer in model.layers), model.head])
    weights, biases = [m.weight.clone() for m in maps], [m.bias.clone() for m in maps]
    again = True
    while again:  # a unit that goes may leave one before it unheard
        again = False
        for k, layer in enumerate(model.layers):
            incoming, outgoing = weights[k].norm(dim=1), weights[k + 1].norm(dim=0)
            going = (incoming <= below) | (outgoing <= below)
            going = _leave_one(going, incoming * outgoing)
            if bool(going.any()):
                said = layer.activation(biases[k][going])  # type: ignore[operator]
                biases[k + 1] += weights[k + 1][:, going] @ said  # eq. 1
                weights[k], biases[k] = weights[k][~going], biases[k][~going]
                weights[k + 1] = weights[k + 1][:, ~going]
                again = True
    small = MLP(**{**model.config, "hidden": [len(bias) for bias in biases[:-1]]}).to(maps[0].weight)
    for layer, old in zip(small.layers, model.layers, strict=True):
        layer.activation.load_state_dict(old.activation.state_dict())  # type: ignore[union-attr]
    for m, weight, bias in zip([*(layer.map for layer in small.layers), small.head], weights, biases, strict=True):
        m.weight.copy_(weight)  # type: ignore[union-attr, operator]
        m.bias.copy_(bias)  # type: ignore[union-attr, operator]
    return small.train(model.training)


def _leave_one(going: Tensor, size: Tensor) -> Tensor:
    if bool(going.all()):
        going = going.clone()
        going[size.argmax()] = False
    return going


def _widened(model: MLP) -> bool:
    return any(widening(layer.activation) != 1 for layer in model.layers)  # type: ignore[arg-type]
