"""Layers and wiring: one short file a model, no model imports another. `MODELS` is the list of them all,
from which `build` makes one by its name.
"""

from __future__ import annotations

from torch import nn

from leadline.models.alexnet import AlexNet
from leadline.models.as_dense import as_dense, dense_matrix, tied
from leadline.models.bert import BERT
from leadline.models.boolean import Boolean
from leadline.models.building import build, heads_for, model_named
from leadline.models.capacity import capacity, capacity_without_errors, crosstalk, flip_probability
from leadline.models.cheb_net import ChebNet
from leadline.models.checkpointed import checkpointed
from leadline.models.circuit import Circuit, Unit, circuit_of
from leadline.models.composed import Composed
from leadline.models.constructed import folding, identity, interpolant, narrow, orthants, sawtooth
from leadline.models.conv_net import ConvNet
from leadline.models.conv_net_1d import ConvNet1D
from leadline.models.davit import DaViT
from leadline.models.deep_sets import DeepSets
from leadline.models.dense_memory import DenseMemory
from leadline.models.dense_twin import dense_twin
from leadline.models.densenet import DenseNet
from leadline.models.dichotomies import count_dichotomies, cover, estimate_share, share_separable
from leadline.models.edge_network import EdgeNetwork
from leadline.models.encoder_decoder import EncoderDecoder
from leadline.models.equation import equations
from leadline.models.fixed_joints import FixedJoints, smoothest
from leadline.models.from_data import FROM_DATA, TEXT_TASKS, choices, sizes_from
from leadline.models.fusion import compose, fuse
from leadline.models.gabor import Gabor
from leadline.models.gat import GAT
from leadline.models.gcn import GCN
from leadline.models.gin import GIN
from leadline.models.gpt import GPT
from leadline.models.graph_sage import GraphSAGE
from leadline.models.graph_transformer import GraphTransformer
from leadline.models.grid_detector import GridDetector
from leadline.models.highway import Highway
from leadline.models.hopfield import Hopfield
from leadline.models.hourglass import Hourglass
from leadline.models.image_gpt import ImageGPT
from leadline.models.inverse import inverse
from leadline.models.kinds import kind
from leadline.models.lenet import LeNet
from leadline.models.linear import Linear
from leadline.models.lora import lora, merged
from leadline.models.message_net import MessageNet
from leadline.models.mlp import MLP
from leadline.models.modern_hopfield import ModernHopfield
from leadline.models.named_weights import load_named, torchvision_names
from leadline.models.network_in_network import NetworkInNetwork
from leadline.models.neural_ode import NeuralODE
from leadline.models.norm_free import NormFree
from leadline.models.perceptron import Perceptron
from leadline.models.point_net import PointNet
from leadline.models.polynomial import Polynomial
from leadline.models.pruning import prune
from leadline.models.recurrent import Recurrent
from leadline.models.recursive_graph_net import RecursiveGraphNet
from leadline.models.relational_gcn import RelationalGCN
from leadline.models.residual import Residual
from leadline.models.resnet import ResNet
from leadline.models.resnext import ResNeXt
from leadline.models.segmenter import Segmenter
from leadline.models.separability import novikoff, separable, separate, version_space
from leadline.models.set_transformer import SetTransformer
from leadline.models.shake_resnet import ShakeResNet
from leadline.models.shallow import Shallow
from leadline.models.stochastic_depth import StochasticDepth
from leadline.models.swin import Swin
from leadline.models.symmetry import flip, fold, permute, rescale
from leadline.models.t5 import T5
from leadline.models.transfer import freeze, stages, thaw, transfer
from leadline.models.transformer import Transformer
from leadline.models.u_net import UNet
from leadline.models.vgg import VGG
from leadline.models.vit import ViT
from leadline.models.wide_resnet import WideResNet

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
    "Highway": Highway,
    "StochasticDepth": StochasticDepth,
    "ShakeResNet": ShakeResNet,
    "NormFree": NormFree,
    "NeuralODE": NeuralODE,
    "UNet": UNet,
    "Segmenter": Segmenter,
    "Hourglass": Hourglass,
    "GridDetector": GridDetector,
    "ConvNet1D": ConvNet1D,
    "ConvNet": ConvNet,
    "LeNet": LeNet,
    "AlexNet": AlexNet,
    "VGG": VGG,
    "NetworkInNetwork": NetworkInNetwork,
    "ResNet": ResNet,
    "WideResNet": WideResNet,
    "ResNeXt": ResNeXt,
    "DenseNet": DenseNet,
    "ViT": ViT,
    "Swin": Swin,
    "DaViT": DaViT,
    "ImageGPT": ImageGPT,
    "BERT": BERT,
    "GPT": GPT,
    "Transformer": Transformer,
    "T5": T5,
    "Recurrent": Recurrent,
    "EncoderDecoder": EncoderDecoder,
    "GCN": GCN,
    "GraphSAGE": GraphSAGE,
    "GAT": GAT,
    "GIN": GIN,
    "ChebNet": ChebNet,
    "MessageNet": MessageNet,
    "EdgeNetwork": EdgeNetwork,
    "RelationalGCN": RelationalGCN,
    "RecursiveGraphNet": RecursiveGraphNet,
    "GraphTransformer": GraphTransformer,
    "DeepSets": DeepSets,
    "PointNet": PointNet,
    "SetTransformer": SetTransformer,
}

__all__ = [
    "BERT",
    "GCN",
    "GraphSAGE",
    "GAT",
    "GIN",
    "ChebNet",
    "MessageNet",
    "EdgeNetwork",
    "RelationalGCN",
    "RecursiveGraphNet",
    "GraphTransformer",
    "FROM_DATA",
    "GPT",
    "MLP",
    "MODELS",
    "T5",
    "TEXT_TASKS",
    "VGG",
    "AlexNet",
    "Boolean",
    "Circuit",
    "Composed",
    "ConvNet",
    "ConvNet1D",
    "DaViT",
    "DeepSets",
    "DenseMemory",
    "DenseNet",
    "EncoderDecoder",
    "FixedJoints",
    "Gabor",
    "GridDetector",
    "Highway",
    "Hopfield",
    "Hourglass",
    "ImageGPT",
    "LeNet",
    "Linear",
    "ModernHopfield",
    "NetworkInNetwork",
    "NeuralODE",
    "NormFree",
    "Perceptron",
    "PointNet",
    "Polynomial",
    "Recurrent",
    "ResNeXt",
    "ResNet",
    "Residual",
    "Segmenter",
    "SetTransformer",
    "ShakeResNet",
    "Shallow",
    "StochasticDepth",
    "Swin",
    "Transformer",
    "UNet",
    "Unit",
    "ViT",
    "WideResNet",
    "as_dense",
    "build",
    "capacity",
    "capacity_without_errors",
    "checkpointed",
    "choices",
    "circuit_of",
    "compose",
    "count_dichotomies",
    "cover",
    "crosstalk",
    "dense_matrix",
    "dense_twin",
    "equations",
    "estimate_share",
    "flip",
    "flip_probability",
    "fold",
    "folding",
    "freeze",
    "fuse",
    "heads_for",
    "identity",
    "interpolant",
    "inverse",
    "kind",
    "load_named",
    "model_named",
    "lora",
    "merged",
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
    "sizes_from",
    "smoothest",
    "stages",
    "thaw",
    "tied",
    "torchvision_names",
    "transfer",
    "version_space",
]
