"""Layers and wiring: one short file a model, no model imports another. `MODELS` is the list of them all."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from leadline.errors import UnknownName
from leadline.models.boolean import Boolean
from leadline.models.capacity import capacity, capacity_without_errors, crosstalk, flip_probability
from leadline.models.circuit import Circuit, Unit, circuit_of
from leadline.models.composed import Composed
from leadline.models.constructed import folding, identity, interpolant, narrow, orthants, sawtooth
from leadline.models.dense_memory import DenseMemory
from leadline.models.dichotomies import count_dichotomies, cover, estimate_share, share_separable
from leadline.models.equation import equations
from leadline.models.fixed_joints import FixedJoints, smoothest
from leadline.models.fusion import compose, fuse
from leadline.models.gabor import Gabor
from leadline.models.hopfield import Hopfield
from leadline.models.inverse import inverse
from leadline.models.kinds import kind
from leadline.models.linear import Linear
from leadline.models.mlp import MLP
from leadline.models.modern_hopfield import ModernHopfield
from leadline.models.perceptron import Perceptron
from leadline.models.polynomial import Polynomial
from leadline.models.pruning import prune
from leadline.models.residual import Residual
from leadline.models.separability import novikoff, separable, separate, version_space
from leadline.models.shallow import Shallow
from leadline.models.symmetry import flip, fold, permute, rescale
from leadline.models.transfer import freeze, transfer
from leadline.names import lookup, suggest
from leadline.settings import whole

MODELS: dict[str, type[nn.Module]] = {
    "Linear": Linear,
    "MLP": MLP,
    "Boolean": Boolean,
    "Perceptron": Perceptron,
    "Hopfield": Hopfield,
    "DenseMemory": DenseMemory,
    "ModernHopfield": ModernHopfield,
    "Shallow": Shallow,
    "Composed": Composed,
    "Residual": Residual,
    "Polynomial": Polynomial,
    "Gabor": Gabor,
    "FixedJoints": FixedJoints,
}

#: what `build` fills in from the data; everything else of a constructor is the user's to choose
FROM_DATA = ("dim_input", "dim_output")


def build(name: str, dim_input: int, dim_output: int, seed: int = 0, **options: Any) -> nn.Module:
    """The model called `name`, with first weights drawn from `seed` alone.

    >>> build("mlp", 4, 3, hidden=(8,)).config["hidden"]
    [8]
    """
    model_type = lookup(name, MODELS, "model")
    known = choices(model_type)
    for option in options:
        if option not in known:
            have = [other for other, kind in MODELS.items() if option in choices(kind)]
            own = ", ".join(known) or "none of its own"
            raise UnknownName(
                f"{model_type.__name__} must be given options that it has",
                got=option + (f", an option of {' and '.join(have)}" if have else ""),
                do=f"{model_type.__name__} has {own}" if have or not known else suggest(option, known).rstrip("."),
            )
    seed = whole("seed", seed, 0, 2**63 - 1, usual=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_type(dim_input=dim_input, dim_output=dim_output, **options)


def choices(model_type: type[nn.Module]) -> dict[str, inspect.Parameter]:
    """The arguments of a model that its user chooses."""
    parameters = inspect.signature(model_type).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in FROM_DATA}


__all__ = [
    "MLP",
    "MODELS",
    "Boolean",
    "Circuit",
    "Composed",
    "DenseMemory",
    "FixedJoints",
    "Gabor",
    "Hopfield",
    "Linear",
    "ModernHopfield",
    "Perceptron",
    "Polynomial",
    "Residual",
    "Shallow",
    "Unit",
    "build",
    "capacity",
    "capacity_without_errors",
    "choices",
    "circuit_of",
    "compose",
    "count_dichotomies",
    "cover",
    "crosstalk",
    "equations",
    "estimate_share",
    "flip",
    "flip_probability",
    "fold",
    "folding",
    "freeze",
    "fuse",
    "identity",
    "interpolant",
    "inverse",
    "kind",
    "narrow",
    "novikoff",
    "orthants",
    "permute",
    "prune",
    "rescale",
    "sawtooth",
    "separable",
    "separate",
    "share_separable",
    "smoothest",
    "transfer",
    "version_space",
]
