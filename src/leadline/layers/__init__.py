"""Blocks that torch.nn lacks: scalars in, one idea a file."""

from leadline.layers.actnorm import ActNorm
from leadline.layers.batch_statistics import BatchRenorm, GhostBatchNorm, exact_statistics
from leadline.layers.checkpointed import Checkpointed
from leadline.layers.drop_connect import DropConnect, SpatialDropout
from leadline.layers.dropout import Dropout
from leadline.layers.hard_concrete import HardConcrete, gated
from leadline.layers.reparametrized import lipschitz, spectral_normed, weight_normed
from leadline.layers.skip import Skip
from leadline.layers.unit_noise import AdditiveNoise, MultiplicativeNoise, RandomizedReLU

__all__ = [
    "ActNorm",
    "AdditiveNoise",
    "BatchRenorm",
    "Checkpointed",
    "DropConnect",
    "Dropout",
    "GhostBatchNorm",
    "HardConcrete",
    "MultiplicativeNoise",
    "RandomizedReLU",
    "Skip",
    "SpatialDropout",
    "exact_statistics",
    "gated",
    "lipschitz",
    "spectral_normed",
    "weight_normed",
]
