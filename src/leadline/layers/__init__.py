"""Blocks that torch.nn lacks: scalars in, one idea a file."""

from leadline.layers.actnorm import ActNorm
from leadline.layers.additive_attention import AdditiveAttention, BilinearAttention, DotAttention
from leadline.layers.alibi import ALiBi
from leadline.layers.attend import attend
from leadline.layers.attention import CrossAttention, SelfAttention
from leadline.layers.attention_free import AttentionFree
from leadline.layers.batch_statistics import BatchRenorm, GhostBatchNorm, exact_statistics
from leadline.layers.bidirectional import Bidirectional
from leadline.layers.cache import Cache
from leadline.layers.channel_attention import ChannelAttention
from leadline.layers.checkpointed import Checkpointed, recomputed
from leadline.layers.compressed_attention import CompressedAttention
from leadline.layers.cross_covariance import CrossCovariance
from leadline.layers.deep_transition import DeepTransition
from leadline.layers.drop_connect import DropConnect, SpatialDropout
from leadline.layers.dropout import Dropout
from leadline.layers.dynamic_convolution import DynamicConvolution
from leadline.layers.edge_updates import EdgeUpdate
from leadline.layers.elman import Elman
from leadline.layers.equivariant import Equivariant
from leadline.layers.feature_norm import feature_norm
from leadline.layers.feed_forward import FeedForward
from leadline.layers.fixed_point import FixedPoint
from leadline.layers.graph_attention import GraphAttention
from leadline.layers.graph_convolution import GraphConvolution
from leadline.layers.graph_filters import PolynomialFilter, SpectralFilter
from leadline.layers.graph_head import GraphHead
from leadline.layers.graph_isomorphism import IsomorphismLayer
from leadline.layers.graph_norm import GraphNorm, PairNorm
from leadline.layers.graph_sage import SageLayer
from leadline.layers.graph_stack import GraphStack
from leadline.layers.graph_transformer import GraphTransformerBlock
from leadline.layers.gru import GRU
from leadline.layers.hard_concrete import HardConcrete, gated
from leadline.layers.hashed_attention import HashedAttention
from leadline.layers.held_graph import HeldGraph
from leadline.layers.highway import HighwayLayer
from leadline.layers.inception import Inception
from leadline.layers.kernel_attention import KernelAttention
from leadline.layers.kernel_smoother import KernelSmoother
from leadline.layers.lecture_gru import LectureGRU
from leadline.layers.lecture_lstm import LectureLSTM
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.low_rank_attention import LowRankAttention
from leadline.layers.low_rank_update import LowRankUpdate
from leadline.layers.lstm import LSTM
from leadline.layers.masked_softmax import masked_softmax
from leadline.layers.message_passing import MessagePassing
from leadline.layers.min_gru import MinGRU
from leadline.layers.min_lstm import MinLSTM
from leadline.layers.node_dropout import NodeDropout
from leadline.layers.normalisation import BatchNorm, ImageLayerNorm
from leadline.layers.ode import adjoint, integrate
from leadline.layers.patches import Merging, Patches
from leadline.layers.placed_attention import PlacedAttention, UntiedAttention
from leadline.layers.point_transform import PointTransform
from leadline.layers.pooling import LpPool, MaxBlurPool, MaxPoolDropout, Subsample
from leadline.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
from leadline.layers.relational import RelationalConvolution
from leadline.layers.relative_attention import RelativeAttention
from leadline.layers.relative_buckets import BucketBias
from leadline.layers.reparametrized import lipschitz, spectral_normed, weight_normed
from leadline.layers.residual_block import ResidualBlock, residual_stage
from leadline.layers.residual_units import BottleneckUnit, PlainUnit
from leadline.layers.rotary import Rotary
from leadline.layers.separable import DepthwiseSeparable, RankOne
from leadline.layers.sequence_norm import SequenceNorm
from leadline.layers.set_attention import InducedAttention, PooledByAttention, SetAttention
from leadline.layers.set_pool import SetPool
from leadline.layers.shake import ShakeDrop, ShakeShake
from leadline.layers.skip import Skip
from leadline.layers.spatial_gate import SpatialGate
from leadline.layers.stochastic_depth import DropBranch, drop_branches
from leadline.layers.sublayer import Sublayer
from leadline.layers.synthesizer import Synthesizer
from leadline.layers.true_convolution import TrueConvolution, spacing
from leadline.layers.unit_noise import AdditiveNoise, MultiplicativeNoise, RandomizedReLU
from leadline.layers.upsampling import SubPixel, shuffled
from leadline.layers.window_attention import WindowAttention

__all__ = [
    "EdgeUpdate",
    "FixedPoint",
    "GraphAttention",
    "GraphConvolution",
    "PolynomialFilter",
    "SpectralFilter",
    "GraphHead",
    "IsomorphismLayer",
    "GraphNorm",
    "PairNorm",
    "SageLayer",
    "GraphStack",
    "GraphTransformerBlock",
    "HeldGraph",
    "MessagePassing",
    "NodeDropout",
    "RelationalConvolution",
    "GRU",
    "LRU",
    "LSTM",
    "ALiBi",
    "ActNorm",
    "AdditiveAttention",
    "AdditiveNoise",
    "AttentionFree",
    "BatchNorm",
    "BatchRenorm",
    "Bidirectional",
    "BilinearAttention",
    "BottleneckUnit",
    "BucketBias",
    "Cache",
    "ChannelAttention",
    "Checkpointed",
    "CompressedAttention",
    "CrossAttention",
    "CrossCovariance",
    "DeepTransition",
    "DepthwiseSeparable",
    "DotAttention",
    "DropBranch",
    "DropConnect",
    "Dropout",
    "DynamicConvolution",
    "Elman",
    "Equivariant",
    "FeedForward",
    "GhostBatchNorm",
    "HardConcrete",
    "HashedAttention",
    "HighwayLayer",
    "ImageLayerNorm",
    "InducedAttention",
    "Inception",
    "KernelAttention",
    "KernelSmoother",
    "LearnedPositions",
    "LectureGRU",
    "LectureLSTM",
    "LowRankAttention",
    "LowRankUpdate",
    "LpPool",
    "MaxBlurPool",
    "MaxPoolDropout",
    "Merging",
    "MinGRU",
    "MinLSTM",
    "MultiplicativeNoise",
    "Patches",
    "PlacedAttention",
    "PlainUnit",
    "PointTransform",
    "PooledByAttention",
    "RandomizedReLU",
    "RankOne",
    "RelativeAttention",
    "ResidualBlock",
    "Rotary",
    "SelfAttention",
    "SequenceNorm",
    "SetAttention",
    "SetPool",
    "ShakeDrop",
    "ShakeShake",
    "SinusoidalPositions",
    "Skip",
    "SpatialDropout",
    "SpatialGate",
    "SubPixel",
    "Sublayer",
    "Subsample",
    "Synthesizer",
    "TrueConvolution",
    "UntiedAttention",
    "WindowAttention",
    "adjoint",
    "attend",
    "drop_branches",
    "exact_statistics",
    "feature_norm",
    "gated",
    "integrate",
    "lipschitz",
    "masked_softmax",
    "recomputed",
    "residual_stage",
    "shuffled",
    "sinusoids",
    "spacing",
    "spectral_normed",
    "weight_normed",
]
