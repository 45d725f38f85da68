"""Blocks that torch.nn lacks: scalars in, one idea a file."""

from leadline.layers.actnorm import ActNorm
from leadline.layers.batch_statistics import BatchRenorm, GhostBatchNorm, exact_statistics
from leadline.layers.checkpointed import Checkpointed
from leadline.layers.drop_connect import DropConnect, SpatialDropout
from leadline.layers.dropout import Dropout
from leadline.layers.hard_concrete import HardConcrete, gated
from leadline.layers.inception import Inception
from leadline.layers.normalisation import BatchNorm, ImageLayerNorm
from leadline.layers.pooling import LpPool, MaxBlurPool, MaxPoolDropout, Subsample
from leadline.layers.reparametrized import lipschitz, spectral_normed, weight_normed
from leadline.layers.separable import DepthwiseSeparable, RankOne
from leadline.layers.skip import Skip
from leadline.layers.true_convolution import TrueConvolution, spacing
from leadline.layers.unit_noise import AdditiveNoise, MultiplicativeNoise, RandomizedReLU
from leadline.layers.upsampling import SubPixel, shuffled

__all__ = [
    "ActNorm",
    "AdditiveNoise",
    "BatchNorm",
    "BatchRenorm",
    "Checkpointed",
    "DepthwiseSeparable",
    "DropConnect",
    "Dropout",
    "GhostBatchNorm",
    "HardConcrete",
    "ImageLayerNorm",
    "Inception",
    "LpPool",
    "MaxBlurPool",
    "MaxPoolDropout",
    "MultiplicativeNoise",
    "RandomizedReLU",
    "RankOne",
    "Skip",
    "SpatialDropout",
    "SubPixel",
    "Subsample",
    "TrueConvolution",
    "exact_statistics",
    "gated",
    "lipschitz",
    "shuffled",
    "spacing",
    "spectral_normed",
    "weight_normed",
]
