"""Transfer: what a network has learned on one task as the beginning of another.

    trunk of the first model, copied  ->  a new last map with first weights of its own                       (1)

The trunk can be held still (`freeze`), set free stage by stage from its end (`thaw`), trained on, or pulled back to
where it was (`leadline.regularize.Pull`).
"""

from __future__ import annotations

import copy
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

from torch import nn

from leadline.config import Configured
from leadline.errors import UserError
from leadline.settings import whole

Network = TypeVar("Network", bound=nn.Module)


def freeze(model: Network, *patterns: str, frozen: bool = True) -> Network:
    """Hold the parameters whose names match a pattern still, in place; with frozen=False, set them free.

    While `fit` trains, a batch normalisation whose weights are held still keeps its statistics too.

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


def thaw(model: Network, num: int = 1) -> Network:
    """Set the last `num` stages free and hold all before them still, in place: what was learned first moves last.

    A stage is a part of the model that holds weights, in the order in which it was built; a part that is a list of
    others, such as the body of a ResNet, is as many stages as it has.

    Args:
        num: stages counted from the end, from 0 (nothing moves) up; more than there are sets all free.

    >>> from leadline.models import ResNet
    >>> model = thaw(ResNet(3, 10, depth=20), 2)
    >>> sorted({name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad})
    ['body', 'head']
    """
    whole("num", num, 0)
    names = stages(model)
    freeze(model)
    for name in names[max(0, len(names) - num) :] if num else []:
        model.get_submodule(name).requires_grad_(True)
    return model


def stages(model: nn.Module) -> list[str]:
    """Names of the parts of a model that hold weights, from its input to its output.

    >>> from leadline.models import ResNet
    >>> stages(ResNet(3, 10, depth=20))
    ['enter', 'body.0', 'body.1', 'body.2', 'head']
    """
    found = []
    for name, part in model.named_children():
        inner = [f"{name}.{key}" for key, child in part.named_children() if _weighs(child)]
        nested = isinstance(part, (nn.ModuleList, nn.Sequential)) and all(
            isinstance(part.get_submodule(key.split(".", 1)[1]), nn.Sequential) for key in inner
        )
        found += inner if nested and len(inner) > 1 else [name] if _weighs(part) else []
    return found


def _weighs(part: nn.Module) -> bool:
    return any(True for _ in part.parameters())


def transfer(model: Network, dim_output: int, frozen: bool = False) -> Network:
    """A copy of the model whose last map, linear or a convolution, is new, with `dim_output` outputs (1).

    Args:
        frozen: hold everything but the new map still.

    >>> import torch
    >>> from leadline.models import MLP
    >>> made = transfer(MLP(3, (5,), 2), 7, frozen=True)
    >>> made.config["dim_output"], made(torch.zeros(1, 3)).shape
    (7, torch.Size([1, 7]))
    """
    whole("dim_output", dim_output)
    if isinstance(model, Configured) and "dim_output" in model.config:
        made, heads = _rebuilt(model, dim_output)
    else:
        made, heads = _replaced(model, dim_output)
    made = made.to(next(model.parameters())).train(model.training)
    return freeze(freeze(made), *heads, frozen=False) if frozen else made


def _rebuilt(model: Network, dim_output: int) -> tuple[Network, list[str]]:
    """A model of another number of outputs with the old weights, and the names of those that are new.

    New is what depends on the number of outputs: that is found out by building the model with one more.
    """
    config = cast(Configured, model).config
    made = type(model)(**{**config, "dim_output": dim_output})
    wider = type(model)(**{**config, "dim_output": dim_output + 1}).state_dict()
    state, old = made.state_dict(), model.state_dict()
    heads = [name for name, t in state.items() if wider[name].shape != t.shape]
    owners = {name.rpartition(".")[0] for name in heads}
    kept = {name: t for name, t in old.items() if name.rpartition(".")[0] not in owners}
    made.load_state_dict({**state, **kept})
    return made, [name for name, _ in made.named_parameters() if name.rpartition(".")[0] in owners]


_MAPS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def _replaced(model: Network, dim_output: int) -> tuple[Network, list[str]]:
    """A copy with a new last map, and the names of its weights."""
    maps = [name for name, module in model.named_modules() if isinstance(module, _MAPS)]
    if not maps or not maps[-1]:
        raise UserError(
            "a model must have a trunk and a last map to be transferred",
            got=f"{type(model).__name__} with {len(maps)} maps",
            do="Pass a module whose last map is an nn.Linear or a convolution",
        )
    made = copy.deepcopy(model)
    old = made.get_submodule(maps[-1])
    if isinstance(old, nn.Linear):
        new: nn.Module = nn.Linear(old.in_features, dim_output, bias=old.bias is not None)
    else:
        conv = cast(Any, old)
        sizes = (conv.kernel_size, conv.stride, conv.padding, conv.dilation)
        new = type(conv)(conv.in_channels, dim_output, *sizes, bias=conv.bias is not None)
    made.set_submodule(maps[-1], new)
    return made, [f"{maps[-1]}.*"]
