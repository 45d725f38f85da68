"""Families of models that Hugging Face's transformers has too. What is known of one is in a file of its own:

    MODEL                  our class
    config_of(theirs)      our constructor's arguments, of their config.json
    hf_config_of(model)    their config.json, of our model
    names(model)           our name of each tensor -> theirs, several of theirs to stack, or a `Place`
    READ                   their classes that can be read

and, where there is need of it,

    PREFIX, HEAD           with which names of their trunk, and of our head, begin
    SPARE                  patterns of their names that say nothing new
    ALIASES                a tensor that may be missing -> one like it
    tied(model)            a tensor that a model of ours has once -> the one whose numbers it must hold
    renamed(name, config)  older names -> those of today
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from leadline.errors import UnknownName
from leadline.interop.place import Place, place_of

#: "model_type" of a config.json -> our class, and the module that knows this family
FAMILIES = {
    "bert": ("BERT", "leadline.interop.bert"),
    "gpt2": ("GPT", "leadline.interop.gpt2"),
    "vit": ("ViT", "leadline.interop.vit"),
    "swin": ("Swin", "leadline.interop.swin"),
    "t5": ("T5", "leadline.interop.t5"),
}


def family_named(config: Mapping[str, Any], path: Path) -> ModuleType:
    """The module that knows the family of a config.json.

    >>> family_named({"model_type": "gpt2"}, Path("gpt2")).MODEL.__name__
    'GPT'
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnknownName(
            "model_type in config.json must be of a family that is known here",
            got=f"{kind!r} in {path}",
            do=f"Known are {', '.join(FAMILIES)}",
        )
    return import_module(FAMILIES[kind][1])


def family_of(model: nn.Module) -> ModuleType:
    """The module that knows the family of a model of ours.

    >>> from leadline.models import ViT
    >>> family_of(ViT.tiny()).__name__
    'leadline.interop.vit'
    """
    for name, module in FAMILIES.values():
        if type(model).__name__ == name:
            return import_module(module)
    known = ", ".join(name for name, _ in FAMILIES.values())
    raise UnknownName(
        "the model must be of a family that Hugging Face has too", got=type(model).__name__, do=f"Known are {known}"
    )


def prefix_of(family: ModuleType) -> str:
    """With which their names of a trunk begin.

    >>> prefix_of(family_named({"model_type": "gpt2"}, Path("gpt2")))
    'transformer.'
    """
    return getattr(family, "PREFIX", "")


def head_of(family: ModuleType) -> tuple[str, ...]:
    """With which names the tensors of a head of ours begin."""
    return tuple(getattr(family, "HEAD", ("head.",)))


def places_of(family: ModuleType, model: nn.Module) -> dict[str, Place]:
    """Our name of each tensor of a model -> its place in their file."""
    return {name: place_of(given) for name, given in family.names(model).items()}
