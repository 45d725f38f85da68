"""Transfer: what a network has learned on one task as the beginning of another.

    trunk of the first model, copied  ->  a new last map with first weights of its own                       (1)

The trunk can be held still (`freeze`), trained on, or pulled back to where it was (`leadline.regularize.Pull`).
"""

from __future__ import annotations

import copy
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.settings import whole

Network = TypeVar("Network", bound=nn.Module)


def freeze(model: Network, *patterns: str, frozen: bool = True) -> Network:
    """Hold the parameters whose names match a pattern still, in place; with frozen=False, set them free.

    Args:
        patterns: such as "layers.*"; none matches all.

    >>> from leadline.models import MLP
    >>> model = freeze(MLP(3, (5,), 2), "layers.*")
    >>> [name for name, p in model.named_parameters() if p.requires_grad]
    ['head.weight', 'head.bias']
    """
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UserError(
                "a pattern must match some parameter", got=f"{pattern!r}", do=f"Names are {', '.join(names)}"
            )
    for name, p in model.named_parameters():
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns):
            p.requires_grad_(not frozen)
    return model


def transfer(model: Network, dim_output: int, frozen: bool = False) -> Network:
    """A copy of the model whose last linear map is new, with `dim_output` outputs (1).

    Args:
        frozen: hold everything but the new map still.

    >>> import torch
    >>> from leadline.models import MLP
    >>> made = transfer(MLP(3, (5,), 2), 7, frozen=True)
    >>> made.config["dim_output"], made(torch.zeros(1, 3)).shape
    (7, torch.Size([1, 7]))
    """
    whole("dim_output", dim_output)
    maps = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not maps or not maps[-1]:
        raise UserError(
            "a model must have a trunk and a last linear map to be transferred",
            got=f"{type(model).__name__} with {len(maps)} linear maps",
            do="Pass an MLP, or a module whose last map is an nn.Linear",
        )
    last = maps[-1]
    if isinstance(model, Configured) and "dim_output" in model.config:
        made = type(model)(**{**model.config, "dim_output": dim_output})
        state = made.state_dict()
        kept = {name: t for name, t in model.state_dict().items() if not name.startswith(f"{last}.")}
        made.load_state_dict({**state, **kept})
    else:
        made = copy.deepcopy(model)
        old = made.get_submodule(last)
        made.set_submodule(last, nn.Linear(old.in_features, dim_output, bias=old.bias is not None))  # type: ignore[arg-type]
    made = made.to(next(model.parameters())).train(model.training)
    return freeze(freeze(made), f"{last}.*", frozen=False) if frozen else made
