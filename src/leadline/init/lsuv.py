"""Layer-sequential unit variance: orthogonal weights, scaled by what they make of rows (Mishkin and Matas, 2016).

    W_k = Q_k,   β_k = 0
    W_k <- W_k √(v / Var[W_k h_{k-1}])        k = 1, 2, … in the order of execution          (1)

Var is over all rows and units of the batch, v is 1 if left out. With a bias of 0 the variance is exactly quadratic in
W_k, so one division does what the paper repeats until it is close; and since h_k follows from the scaled W_k, one pass
through the model does all of them. A map that is used several times is scaled by its first use; one that answers every
row alike is left as it is. Attention and recurrent layers compute inside of torch and stay orthogonal.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from leadline.init.maps import Map, maps
from leadline.init.orthogonal import orthogonal


def lsuv(model: nn.Module, generator: torch.Generator | None, x: Tensor, variance: float = 1.0) -> None:
    """
    >>> net = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5))
    >>> x = torch.randn(200, 20)
    >>> lsuv(net, torch.Generator().manual_seed(0), x)
    >>> round(net(x).var(correction=0).item(), 4)
    1.0
    """
    orthogonal(model, generator)
    waiting: dict[nn.Module, Map] = {
        one.module: one for one in maps(model) if isinstance(one.module, (nn.Linear, nn.modules.conv._ConvNd))
    }
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    handles = [module.register_forward_hook(_scaling(waiting, variance)) for module in waiting]
    try:
        model.eval()
        for module, _ in modes:  # a normalisation by batch does its work on this batch too
            module.training = isinstance(module, nn.modules.batchnorm._BatchNorm) and len(x) > 1
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes:
            module.training = mode
        for buffer, kept in buffers:
            buffer.copy_(kept)


def _scaling(waiting: dict[nn.Module, Map], variance: float) -> Any:
    def hook(module: nn.Module, args: Any, out: Tensor) -> Tensor | None:
        one = waiting.pop(module, None)
        size = float(out.double().var(correction=0)) if one is not None else 0.0
        if one is None or not 0 < size < float("inf"):
            return None
        factor = (variance / size) ** 0.5
        one.scale(factor)
        return out * factor  # eq. 1

    return hook
