"""Layers and wiring: one short file a model, no model imports another. `MODELS` is the list of them all."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn

from leadline.data.data import Data
from leadline.errors import UnknownName, UserError
from leadline.layers.held_graph import give_graph
from leadline.models.alexnet import AlexNet
from leadline.models.as_dense import as_dense, dense_matrix, tied
from leadline.models.bert import BERT
from leadline.models.boolean import Boolean
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

#: what models of text can learn, by the tasks of `leadline.data.text`
TEXT_TASKS = {
    "GPT": ("next",),
    "BERT": ("masked", "classes", "tags", "spans"),
    "Transformer": ("pairs",),
    "T5": ("pairs",),
    "EncoderDecoder": ("pairs",),
    "Recurrent": ("next", "classes", "tags"),
}

#: what `build` fills in from the data; everything else of a constructor is the user's to choose
FROM_DATA = (
    *("dim_input", "dim_output", "channels", "channels_first", "size"),
    *("num_tokens", "num_source_tokens", "length", "len_source", "pad", "start", "end", "sep"),
    *("level", "dim_edge", "num_relations", "num_kinds"),
    *("coordinates", "typical"),
)


_COUNTED = 2**22  # tokens, which tell how frequent each is


def build(
    name: str, dim_input: int | Sequence[int] | Data, dim_output: int, seed: int = 0, **options: Any
) -> nn.Module:
    """The model called `name`, with first weights drawn from `seed` alone.

    Args:
        dim_input: numbers a row, or the shape of a row, (channels, rows, columns) of a picture; or the data themselves,
            which also tell what their tokens are.

    >>> build("mlp", 4, 3, hidden=(8,)).config["hidden"]
    [8]
    >>> build("ConvNet", (1, 28, 28), 10).config["channels"]
    1
    """
    model_type = lookup(name, MODELS, "model")
    known = choices(model_type)
    for option in options:
        if option not in known:
            have = [other for other, kind in MODELS.items() if option in choices(kind)]
            own = ", ".join(known) or "none of its own"
            raise UnknownName(
                f"{model_type.__name__} does not have this option",
                got=option + (f", an option of {' and '.join(have)}" if have else ""),
                do=f"{model_type.__name__} has {own}" if have or not known else suggest(option, known).rstrip("."),
            )
    parted = "num_heads" in known and "dim_head" not in known  # heads of a width of their own fit any dim
    if "dim" in options and parted and "num_heads" not in options:
        options = options | {"num_heads": heads_for(options["dim"], known["num_heads"].default)}
    seed = whole("seed", seed, 0, 2**63 - 1, usual=0)
    told: dict[str, Any] = {}
    data = dim_input if isinstance(dim_input, Data) else None
    if isinstance(dim_input, Data):
        _check_task(model_type.__name__, getattr(dim_input.inputs, "task", None))
        kind, told = dim_input.target.kind, dim_input.inputs.sizes(tuple(dim_input.train.x.shape[1:]))
        asked = "tags" if kind == "tokens" and dim_output != told.get("num_tokens") else kind
        head = getattr(model_type, "own_head", {}).get(asked)
        options, dim_input = ({"head": head} if head else {}) | options, dim_input.shape_input
        if "level" in inspect.signature(model_type).parameters and "level" not in told:
            raise UserError(
                f"{model_type.__name__} must be given a graph",
                got=f"rows of shape {tuple(dim_input)} without edges",
                do="Pass the edges: ll.data.graph(nodes, edges, target=…), or --edges FILE in a shell",
            )
    shape = (dim_input,) if isinstance(dim_input, int) else tuple(dim_input)
    sizes = sizes_from(model_type, shape, told)
    if "dim_output" in inspect.signature(model_type).parameters:
        sizes["dim_output"] = dim_output
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_type(**{**sizes, **options})
    if data is not None:
        give_graph(model, data.inputs.graph, getattr(data.inputs, "level", None))
    if data is not None and data.target.dim == told.get("num_tokens") and hasattr(model, "begin_with"):
        rows = data.train.x[: max(1, _COUNTED // max(1, data.train.x.shape[1]))]
        cast(Any, model).begin_with(cast(Any, data.inputs).counts(rows, data.target.dim))
    return model


def heads_for(dim: Any, usual: Any) -> Any:
    """How many heads, where the width is chosen and they are not: the usual number, or the nearest that leaves each an
    even width, or one.

    >>> heads_for(384, 6), heads_for(32, 6), heads_for(30, 4), heads_for(97, 4)
    (6, 4, 3, 1)
    """
    if not isinstance(dim, int) or isinstance(dim, bool) or dim < 1 or not isinstance(usual, int):
        return usual  # the model itself says what is wrong
    if dim % usual == 0:
        return usual
    some = range(1, min(dim, 2 * usual))  # one is nearer than what comes after them
    return min((1, *(heads for heads in some if dim % (2 * heads) == 0)), key=lambda heads: abs(heads - usual))


def _check_task(name: str, task: str | None) -> None:
    """Refuses a model of text for what it cannot learn: one that sees the words after a place would copy the next."""
    own = TEXT_TASKS.get(name)
    if own is None or task is None or task in own:
        return
    fitting = [other for other, tasks in TEXT_TASKS.items() if task in tasks]
    raise UserError(
        f"{name} must be given text for {' or '.join(own)}",
        got=f"text for {task}",
        do=f"Use {' or '.join(fitting)}" if fitting else "Use another model",
    )


def sizes_from(
    model_type: type[nn.Module], shape: Sequence[int], told: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a constructor is told of the rows: their number of values, channels and size, or their tokens.

    Args:
        shape: of a row as the network reads it.
        told: what the inputs say of rows of tokens.

    >>> sizes_from(MLP, (1, 28, 28)), sizes_from(LeNet, (1, 28, 28)), sizes_from(ConvNet1D, (40,))
    ({'dim_input': 784}, {'channels': 1, 'size': (28, 28)}, {'dim_input': 40, 'channels': 1})
    """
    wanted = inspect.signature(model_type).parameters
    told = told or {}
    if "level" in told:
        return _of_graph(model_type, told)
    if "num_tokens" in told or ("num_tokens" in wanted and "channels" not in wanted):
        return _of_tokens(model_type, shape, told)
    if "num_tokens" in wanted:  # it reads sequences of numbers as well
        return _of_steps(model_type, shape, told)
    if getattr(model_type, "reads_sets", False):
        return _of_sets(model_type, shape, told)
    if "channels" not in wanted:
        return {"dim_input": math.prod(shape)}
    if "channels" in told:  # steps before channels, and a last one that says which steps are there
        raise UserError(
            f"{model_type.__name__} must be given rows of equal lengths",
            got="sequences or sets, of which some are padded",
            do="Use Recurrent, or MLP; of sets DeepSets, PointNet or SetTransformer",
        )
    if "dim_input" in wanted:  # a series, with or without channels
        if len(shape) in (1, 2):
            return {"dim_input": shape[-1], "channels": shape[0] if len(shape) == 2 else 1}
        must, do = "series: (length,) or (channels, length)", "ConvNet or ResNet, which read pictures"
    else:
        if len(shape) in (3, 4):
            return {"channels": shape[0]} | ({"size": tuple(shape[1:])} if "size" in wanted else {})
        must, do = "pictures: (channels, rows, columns)", "MLP, or ConvNet1D for a series"
    raise UserError(f"{model_type.__name__} must be given {must}", got=f"rows of shape {tuple(shape)}", do=f"Use {do}")


def _of_graph(model_type: type[nn.Module], told: Mapping[str, Any]) -> dict[str, Any]:
    """What a model of graphs is told: numbers of a node and of an edge, kinds of edges, and what is asked for."""
    wanted = inspect.signature(model_type).parameters
    if "level" not in wanted:
        readers = [other for other, kind in MODELS.items() if "level" in inspect.signature(kind).parameters]
        raise UserError(
            f"{model_type.__name__} must be given rows of numbers",
            got="questions about a graph",
            do=f"Use {' or '.join(readers)}, which read graphs; or read the nodes without their edges, "
            "by ll.data.nodes_alone(data) or as a table",
        )
    return {arg: value for arg, value in told.items() if arg in wanted}


def _of_steps(model_type: type[nn.Module], shape: Sequence[int], told: Mapping[str, Any]) -> dict[str, Any]:
    """What a model of sequences is told of rows of numbers: how many channels a step has."""
    if "channels" in told:
        return {arg: value for arg, value in told.items() if arg in inspect.signature(model_type).parameters}
    if len(shape) in (1, 2):  # a series, with or without channels before its steps
        return {"channels": shape[0], "channels_first": True} if len(shape) == 2 else {"channels": 1}
    raise UserError(
        f"{model_type.__name__} must be given tokens, or series: (length,) or (channels, length)",
        got=f"rows of shape {tuple(shape)}",
        do="Use ConvNet or ResNet, which read pictures",
    )


def _of_sets(model_type: type[nn.Module], shape: Sequence[int], told: Mapping[str, Any]) -> dict[str, Any]:
    """What a model of sets is told of them: how many numbers a member has."""
    if "channels" in told:
        return {arg: value for arg, value in told.items() if arg in inspect.signature(model_type).parameters}
    if len(shape) == 2:
        return {"channels": shape[1]}
    raise UserError(
        f"{model_type.__name__} must be given sets: (members, numbers of each)",
        got=f"rows of shape {tuple(shape)}",
        do="Read them with ll.data.sets; MLP reads flat rows, ConvNet pictures",
    )


def _of_tokens(model_type: type[nn.Module], shape: Sequence[int], told: Mapping[str, Any]) -> dict[str, Any]:
    """What a model of tokens is told of them; what it must know and the rows do not say is the message's."""
    wanted = inspect.signature(model_type).parameters
    name = model_type.__name__
    if "num_tokens" not in wanted:
        readers = [other for other, kind in MODELS.items() if "num_tokens" in inspect.signature(kind).parameters]
        raise UserError(
            f"{name} must be given numbers", got="rows of tokens", do=f"Use {', '.join(readers)}, which read tokens"
        )
    needed = [arg for arg in FROM_DATA if arg in wanted and wanted[arg].default is inspect.Parameter.empty]
    lost = [arg for arg in needed if arg not in told and arg != "dim_output"]
    if lost and not told:
        text = f'Name a file or folder of text in a shell; in Python, write build("{name}", ll.data.text(…), …)'
        pictures = "In Python, pass rows = ll.data.colours(pictures), as docs/vision-transformers.md shows, to "
        pictures += f'build("{name}", rows, …). A shell trains pictures with ViT, Swin, DaViT or ConvNet'
        raise UserError(
            f"{name} must be given rows of tokens",
            got=f"{'pictures' if len(shape) == 3 else 'rows of numbers'} of shape {tuple(shape)}",
            do=pictures if len(shape) == 3 else text,
        )
    if lost:
        got = {"len_source": "a text without a source to translate"}.get(lost[0], f"rows that do not say {lost[0]}")
        raise UserError(f"{name} must be given {' and '.join(lost)}", got=got, do="Use a model for this task")
    if "num_source_tokens" in told and "num_source_tokens" not in wanted:
        fitting = [other for other, kind in MODELS.items() if "num_source_tokens" in inspect.signature(kind).parameters]
        raise UserError(
            f"{name} must be given pairs of one vocabulary",
            got="sources with a tokenizer of their own",
            do=f"Use {' or '.join(fitting)}, or leave target_kind out",
        )
    return {arg: value for arg, value in told.items() if arg in wanted}


def choices(model_type: type[nn.Module]) -> dict[str, inspect.Parameter]:
    """The arguments of a model that its user chooses."""
    parameters = inspect.signature(model_type).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in FROM_DATA}


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
    "GPT",
    "MLP",
    "MODELS",
    "T5",
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
    "identity",
    "interpolant",
    "inverse",
    "kind",
    "load_named",
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
    "smoothest",
    "stages",
    "thaw",
    "tied",
    "torchvision_names",
    "transfer",
    "version_space",
]
