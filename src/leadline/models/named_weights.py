"""Weights under torchvision's names, for the models here that compute the same.

    AlexNet(layout="2014")     alexnet
    VGG                        vgg11, 13, 16, 19 (norm=False) and vgg11_bn … (norm=True)
    ResNet(order="post")       resnet18, 34, 50, 101, 152
    ResNeXt                    resnext50_32x4d, resnext101_32x8d, resnext101_64x4d
    WideResNet                 wide_resnet50_2, wide_resnet101_2
    DenseNet                   densenet121, 161, 169, 201

Every tensor must find its place and every place its tensor: a model with another number of classes, or a state with
another prefix, is refused by name, and nothing is loaded. Read weights from a file with `safetensors.torch.load_file`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.models.alexnet import AlexNet
from leadline.models.densenet import DenseNet
from leadline.models.resnet import ResNet
from leadline.models.resnext import ResNeXt
from leadline.models.vgg import VGG
from leadline.models.wide_resnet import WideResNet
from leadline.settings import given

#: patterns of our names, and what stands for them there
Renames = tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]

_RESIDUAL: Renames = (
    (r"^enter\.conv\.", "conv1."),
    (r"^enter\.norm\.", "bn1."),
    (r"^head\.", "fc."),
    (r"\.branch\.conv(\d)\.", r".conv\1."),
    (r"\.branch\.norm(\d)\.", r".bn\1."),
    (r"\.skip\.conv\.", ".downsample.0."),
    (r"\.skip\.norm\.", ".downsample.1."),
    (r"^body\.(\d+)\.", lambda stage: f"layer{int(stage[1]) + 1}."),
)
_DENSE: Renames = (  # body holds stages at 0, 2, 4 … and what stands between them at 1, 3 …
    (r"^enter\.(conv|norm)\.", r"features.\g<1>0."),
    (r"^leave\.norm\.", "features.norm5."),
    (r"^head\.", "classifier."),
    (r"\.layers\.(\d+)\.", lambda layer: f".denselayer{int(layer[1]) + 1}."),
    (r"^body\.(\d*[02468])\.", lambda stage: f"features.denseblock{int(stage[1]) // 2 + 1}."),
    (r"^body\.(\d*[13579])\.", lambda between: f"features.transition{int(between[1]) // 2 + 1}."),
)
RENAMES: dict[type[nn.Module], Renames] = {
    AlexNet: (),
    VGG: (),
    ResNet: _RESIDUAL,
    ResNeXt: _RESIDUAL,
    WideResNet: _RESIDUAL,
    DenseNet: _DENSE,
}


def torchvision_names(model: nn.Module) -> dict[str, str]:
    """Our name of each tensor of a model -> torchvision's.

    >>> from leadline.models import ResNet
    >>> with torch.device("meta"):
    ...     model = ResNet(3, 1000, depth=18)
    >>> torchvision_names(model)["body.1.0.skip.conv.weight"]
    'layer2.0.downsample.0.weight'
    """
    renames = RENAMES.get(type(model))
    if renames is None:
        known = ", ".join(kind.__name__ for kind in RENAMES)
        raise UserError(
            "named weights are known for models of torchvision", got=type(model).__name__, do=f"Pass one of {known}"
        )
    if getattr(model, "order", "post") == "pre" or not _same_layout(model):
        raise UserError(
            "the model must be one that torchvision has too",
            got=f"{type(model).__name__} with {_told(model)}",
            do="Build it with the sizes of the literature, for pictures of 224 x 224",
        )
    return {name: _renamed(name, renames) for name in model.state_dict()}


def load_named(model: nn.Module, state: Mapping[str, Tensor]) -> nn.Module:
    """Copy tensors under torchvision's names into `model`, in place, and return it.

    Args:
        state: what `state_dict()` of torchvision's model holds.

    >>> from leadline.models import AlexNet
    >>> model = AlexNet(3, 10, width=0.1, hidden=8)
    >>> load_named(model, {name: torch.zeros_like(t) for name, t in model.state_dict().items()}) is model
    True
    """
    names, own = torchvision_names(model), model.state_dict()
    if not isinstance(state, Mapping):
        raise UserError(
            "state must hold tensors under their names",
            got=given("state", state),
            do='Pass model.state_dict(), or what safetensors.torch.load_file("weights.safetensors") returns',
        )
    wrong = [name for name, value in state.items() if not isinstance(value, Tensor)]
    if wrong:
        raise UserError(
            "every value of the state must be a tensor",
            got=f"{given(str(wrong[0]), state[wrong[0]])}" + (f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""),
            do='Pass the part that holds the weights, such as saved["state_dict"]'
            if any(isinstance(state[name], Mapping) for name in wrong)
            else "Pass torch.as_tensor of them",
        )
    missing = [theirs for theirs in names.values() if theirs not in state]
    counters = ".num_batches_tracked"  # states of before 2018 have none; it is not read
    missing = [name for name in missing if not name.endswith(counters)]
    spare = sorted(set(state) - set(names.values()))
    if missing or spare:
        told = [f"no {_listed(missing)}"] if missing else []
        told += [f"{_listed(spare)}, which {type(model).__name__} has not"] if spare else []
        raise UnknownName(
            f"the state must hold the tensors of this {type(model).__name__}, under torchvision's names",
            got=", and ".join(told),
            do="Build the model with the depth and the options of the one that was saved",
        )
    for ours, theirs in names.items():
        if theirs in state and state[theirs].shape != own[ours].shape:
            raise ShapeError(
                f"{theirs} must have the shape that the model has, {tuple(own[ours].shape)}",
                got=str(tuple(state[theirs].shape)),
                do="Build the model with as many classes, load, and then call leadline.models.transfer"
                if theirs.startswith(("fc.", "classifier."))
                else "Build the model with the width and the channels of the one that was saved",
            )
    with torch.no_grad():
        for ours, theirs in names.items():
            if theirs in state:
                own[ours].copy_(state[theirs])
    return model


def _renamed(name: str, renames: Renames) -> str:
    for pattern, theirs in renames:
        name = re.sub(pattern, theirs, name)
    return name


def _same_layout(model: nn.Module) -> bool:
    if isinstance(model, AlexNet):
        return model.layout == "2014" and model.num_groups == 1
    if isinstance(model, ResNet):
        return model.depth <= 152 and model.skip == "projection" and "pool" in dict(model.enter.named_children())
    if isinstance(model, (ResNeXt, WideResNet)):
        return "pool" in dict(model.enter.named_children())
    return not isinstance(model, DenseNet) or ("pool" in dict(model.enter.named_children()) and model.bottleneck)


def _told(model: nn.Module) -> str:
    names = [name for name in ("layout", "num_groups", "depth", "order", "skip", "stem") if hasattr(model, name)]
    return ", ".join(f"{name}={getattr(model, name)!r}" for name in names)


def _listed(names: Iterable[str]) -> str:
    first = list(names)
    return ", ".join(first[:3]) + (f" and {len(first) - 3} more" if len(first) > 3 else "")
