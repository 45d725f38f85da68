"""Blocks that torch.nn lacks: scalars in, one idea a file."""

from leadline.layers.actnorm import ActNorm
from leadline.layers.batch_statistics import BatchRenorm, GhostBatchNorm, exact_statistics
from leadline.layers.checkpointed import Checkpointed
from leadline.layers.drop_connect import DropConnect, SpatialDropout
from leadline.layers.dropout import Dropout
from leadline.layers.feature_norm import feature_norm
from leadline.layers.hard_concrete import HardConcrete, gated
from leadline.layers.highway import HighwayLayer
from leadline.layers.inception import Inception
from leadline.layers.normalisation import BatchNorm, ImageLayerNorm
from leadline.layers.ode import adjoint, integrate
from leadline.layers.pooling import LpPool, MaxBlurPool, MaxPoolDropout, Subsample
from leadline.layers.reparametrized import lipschitz, spectral_normed, weight_normed
from leadline.layers.residual_block import ResidualBlock, residual_stage
from leadline.layers.residual_units import BottleneckUnit, PlainUnit
from leadline.layers.separable import DepthwiseSeparable, RankOne
from leadline.layers.shake import ShakeDrop, ShakeShake
from leadline.layers.skip import Skip
from leadline.layers.stochastic_depth import DropBranch, drop_branches
from leadline.layers.true_convolution import TrueConvolution, spacing
from leadline.layers.unit_noise import AdditiveNoise, MultiplicativeNoise, RandomizedReLU
from leadline.layers.upsampling import SubPixel, shuffled

__all__ = [
    "ActNorm",
    "AdditiveNoise",
    "BatchNorm",
    "BatchRenorm",
    "BottleneckUnit",
    "Checkpointed",
    "DepthwiseSeparable",
    "DropBranch",
    "DropConnect",
    "Dropout",
    "GhostBatchNorm",
    "HardConcrete",
    "HighwayLayer",
    "ImageLayerNorm",
    "Inception",
    "LpPool",
    "MaxBlurPool",
    "MaxPoolDropout",
    "MultiplicativeNoise",
    "PlainUnit",
    "RandomizedReLU",
    "RankOne",
    "ResidualBlock",
    "ShakeDrop",
    "ShakeShake",
    "Skip",
    "SpatialDropout",
    "SubPixel",
    "Subsample",
    "TrueConvolution",
    "adjoint",
    "drop_branches",
    "exact_statistics",
    "feature_norm",
    "gated",
    "integrate",
    "lipschitz",
    "residual_stage",
    "shuffled",
    "spacing",
    "spectral_normed",
    "weight_normed",
]
