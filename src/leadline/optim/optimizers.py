"""Optimizers by name: torch's own, each with the implementation that is fastest where the weights lie, and ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from leadline.names import lookup
from leadline.optim.averaged_momentum import AveragedMomentum
from leadline.optim.entropy_descent import EntropyDescent
from leadline.optim.look_ahead import LookAhead
from leadline.optim.muon import Muon
from leadline.optim.printed_adam import PrintedAdam
from leadline.optim.sharpness_aware import SharpnessAware
from leadline.optim.sign_descent import SignDescent
from leadline.optim.swats import SWATS
from leadline.optim.yogi import Yogi
from leadline.settings import Settings

_WHOLE = ("muon", "lbfgs")  # which part the parameters themselves, or cannot


def _grouped(parameters: list[nn.Parameter]) -> list[Any]:
    """Matrices and kernels, which decay, and the rest, biases and scales, which do not."""
    wide, rest = ([p for p in parameters if (p.dim() > 1) == many] for many in (True, False))
    groups: list[Any] = [{"params": wide}, {"params": rest, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def optimizer(settings: Settings, parameters: Iterable[Any]) -> torch.optim.Optimizer:
    """The optimizer that the settings name."""
    every = list(parameters)
    lr, decay, momentum = settings.lr, settings.weight_decay, settings.momentum
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda") for p in every)
    parameters = every if settings.decay_on == "all" or settings.optimizer in _WHOLE else _grouped(every)
    o = torch.optim
    table = {
        "sgd": lambda: o.SGD(parameters, lr, momentum=momentum, weight_decay=decay, fused=fused),
        "nesterov": lambda: o.SGD(
            parameters, lr, momentum=momentum, weight_decay=decay, nesterov=momentum > 0, fused=fused
        ),
        "adam": lambda: o.Adam(parameters, lr, weight_decay=decay, fused=fused),
        "adamw": lambda: o.AdamW(parameters, lr, weight_decay=decay, fused=fused),
        "amsgrad": lambda: o.Adam(parameters, lr, weight_decay=decay, amsgrad=True),
        "nadam": lambda: o.NAdam(parameters, lr, weight_decay=decay, decoupled_weight_decay=True),
        "radam": lambda: o.RAdam(parameters, lr, weight_decay=decay, decoupled_weight_decay=True),
        "rmsprop": lambda: o.RMSprop(parameters, lr, momentum=momentum, weight_decay=decay),
        "adagrad": lambda: o.Adagrad(parameters, lr, weight_decay=decay),
        "adadelta": lambda: o.Adadelta(parameters, lr, weight_decay=decay),
        "muon": lambda: Muon(parameters, lr, momentum, decay),
        "yogi": lambda: Yogi(parameters, lr, weight_decay=decay),
        "swats": lambda: SWATS(parameters, lr, (momentum, 0.999), weight_decay=decay),
        "averaged": lambda: AveragedMomentum(parameters, lr, momentum, decay),
        "nesterov_printed": lambda: LookAhead(parameters, lr, momentum, printed=True, weight_decay=decay),
        "nesterov_ahead": lambda: LookAhead(parameters, lr, momentum, printed=False, weight_decay=decay),
        "sign": lambda: SignDescent(parameters, lr, weight_decay=decay),
        "adam_printed": lambda: PrintedAdam(parameters, lr, weight_decay=decay),
        "sam": lambda: SharpnessAware(parameters, lr, momentum, weight_decay=decay),
        "entropy": lambda: EntropyDescent(parameters, lr, weight_decay=decay),
        "lbfgs": lambda: o.LBFGS(parameters, lr, max_iter=10, line_search_fn="strong_wolfe"),
    }
    return lookup(settings.optimizer, table, "optimizer")()
