"""torch's optimizers by name, each with the implementation that is fastest where the weights lie."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from leadline.names import lookup
from leadline.settings import Settings


def optimizer(settings: Settings, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer that the settings name."""
    parameters = list(parameters)
    lr, decay, momentum = settings.lr, settings.weight_decay, settings.momentum
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in parameters)
    o = torch.optim
    table = {
        "sgd": lambda: o.SGD(parameters, lr, momentum=momentum, weight_decay=decay, fused=fused),
        "nesterov": lambda: o.SGD(
            parameters, lr, momentum=momentum, weight_decay=decay, nesterov=momentum > 0, fused=fused
        ),
        "adam": lambda: o.Adam(parameters, lr, weight_decay=decay, fused=fused),
        "adamw": lambda: o.AdamW(parameters, lr, weight_decay=decay, fused=fused),
        "rmsprop": lambda: o.RMSprop(parameters, lr, momentum=momentum, weight_decay=decay),
        "adagrad": lambda: o.Adagrad(parameters, lr, weight_decay=decay),
        "nadam": lambda: o.NAdam(parameters, lr, weight_decay=decay, decoupled_weight_decay=True),
        "radam": lambda: o.RAdam(parameters, lr, weight_decay=decay, decoupled_weight_decay=True),
        "lbfgs": lambda: o.LBFGS(parameters, lr, max_iter=10, line_search_fn="strong_wolfe"),
    }
    return lookup(settings.optimizer, table, "optimizer")()
