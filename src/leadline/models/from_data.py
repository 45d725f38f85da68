"""What a constructor is told of the data, and the message where a model cannot read them.

    shape of a row     numbers, a series, a picture              ->  dim_input, channels, size
    `inputs.sizes`     tokens, sequences and sets, graphs        ->  those of its entries that the constructor has

Everything else of a constructor is its user's choice.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from leadline.data.data import Data
from leadline.errors import UserError

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


def choices(model_type: type[nn.Module]) -> dict[str, inspect.Parameter]:
    """The arguments of a model that its user chooses.

    >>> from leadline.models import Composed
    >>> [*choices(Composed)]
    ['hidden', 'dim_between', 'activation']
    """
    return {name: parameter for name, parameter in _arguments(model_type).items() if name not in FROM_DATA}


def told_by(data: Data, model_type: type[nn.Module]) -> dict[str, Any]:
    """What the inputs say of their rows, or the message that this model cannot learn from them."""
    _check_task(model_type.__name__, getattr(data.inputs, "task", None))
    told = data.inputs.sizes(tuple(data.train.x.shape[1:]))
    if "level" in _arguments(model_type) and "level" not in told:
        raise UserError(
            f"{model_type.__name__} must be given a graph",
            got=f"rows of shape {data.shape_input} without edges",
            do="Pass the edges: ll.data.graph(nodes, edges, target=…), or --edges FILE in a shell",
        )
    return told


def own_head(model_type: type[nn.Module], data: Data, dim_output: int, told: Mapping[str, Any]) -> dict[str, str]:
    """The head that answers the target, where a model has several."""
    kind = data.target.kind
    asked = "tags" if kind == "tokens" and dim_output != told.get("num_tokens") else kind
    head = getattr(model_type, "own_head", {}).get(asked)
    return {"head": head} if head else {}


def sizes_from(
    model_type: type[nn.Module], shape: Sequence[int], told: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a constructor is told of the rows: their number of values, channels and size, or their tokens.

    Args:
        shape: of a row as the network reads it.
        told: what the inputs say of rows of tokens.

    >>> from leadline.models import MLP, ConvNet1D, LeNet
    >>> sizes_from(MLP, (1, 28, 28)), sizes_from(LeNet, (1, 28, 28)), sizes_from(ConvNet1D, (40,))
    ({'dim_input': 784}, {'channels': 1, 'size': (28, 28)}, {'dim_input': 40, 'channels': 1})
    """
    wanted = _arguments(model_type)
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
    if "level" not in _arguments(model_type):
        raise UserError(
            f"{model_type.__name__} must be given rows of numbers",
            got="questions about a graph",
            do=f"Use {' or '.join(_asking('level'))}, which read graphs; or read the nodes without their edges, "
            "by ll.data.nodes_alone(data) or as a table",
        )
    return _asked(model_type, told)


def _of_steps(model_type: type[nn.Module], shape: Sequence[int], told: Mapping[str, Any]) -> dict[str, Any]:
    """What a model of sequences is told of rows of numbers: how many channels a step has."""
    if "channels" in told:
        return _asked(model_type, told)
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
        return _asked(model_type, told)
    if len(shape) == 2:
        return {"channels": shape[1]}
    raise UserError(
        f"{model_type.__name__} must be given sets: (members, numbers of each)",
        got=f"rows of shape {tuple(shape)}",
        do="Read them with ll.data.sets; MLP reads flat rows, ConvNet pictures",
    )


def _of_tokens(model_type: type[nn.Module], shape: Sequence[int], told: Mapping[str, Any]) -> dict[str, Any]:
    """What a model of tokens is told of them; what it must know and the rows do not say is the message's."""
    wanted, name = _arguments(model_type), model_type.__name__
    if "num_tokens" not in wanted:
        readers = ", ".join(_asking("num_tokens"))
        raise UserError(f"{name} must be given numbers", got="rows of tokens", do=f"Use {readers}, which read tokens")
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
        raise UserError(
            f"{name} must be given pairs of one vocabulary",
            got="sources with a tokenizer of their own",
            do=f"Use {' or '.join(_asking('num_source_tokens'))}, or leave target_kind out",
        )
    return _asked(model_type, told)


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


def _arguments(model_type: type[nn.Module]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(model_type).parameters


def _asked(model_type: type[nn.Module], told: Mapping[str, Any]) -> dict[str, Any]:
    """Of what the inputs say, that which the constructor asks for."""
    wanted = _arguments(model_type)
    return {arg: value for arg, value in told.items() if arg in wanted}


def _asking(argument: str) -> list[str]:
    """Names of the models whose constructor asks for something."""
    from leadline.models import MODELS  # which imports this module

    return [name for name, model_type in MODELS.items() if argument in _arguments(model_type)]
