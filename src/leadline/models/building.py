"""A model by its name: sizes from the data, options from its user, first weights from a seed alone."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn

from leadline.data.data import Data
from leadline.errors import UnknownName
from leadline.layers.held_graph import give_graph
from leadline.layers.recurrent_layers import RECURRENT
from leadline.models.from_data import choices, own_head, sizes_from, told_by
from leadline.names import lookup, suggest
from leadline.settings import whole

#: what people call a model that has another name here
_FAMILIES = {"rnn": "Recurrent with cell elman", "cnn": "ConvNet", "seq2seq": "EncoderDecoder", "dnn": "MLP"}
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
    from leadline.models import MODELS  # which imports this module

    model_type = model_named(name)
    known = choices(model_type)
    _check_options(model_type, options, MODELS)
    parted = "num_heads" in known and "dim_head" not in known  # heads of a width of their own fit any dim
    if "dim" in options and parted and "num_heads" not in options:
        options = options | {"num_heads": heads_for(options["dim"], known["num_heads"].default)}
    seed = whole("seed", seed, 0, 2**63 - 1, usual=0)
    told: dict[str, Any] = {}
    data = dim_input if isinstance(dim_input, Data) else None
    if isinstance(dim_input, Data):
        told = told_by(dim_input, model_type)
        options, dim_input = own_head(model_type, dim_input, dim_output, told) | options, dim_input.shape_input
    shape = (dim_input,) if isinstance(dim_input, int) else tuple(dim_input)
    sizes = sizes_from(model_type, shape, told)
    if "dim_output" in inspect.signature(model_type).parameters:
        sizes["dim_output"] = dim_output
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_type(**{**sizes, **options})
    if data is not None:
        _begin_with(data, model, told)
    return model


def model_named(name: str) -> type[nn.Module]:
    """The class of the model called `name`; where a cell is named so, or a family, the message leads to the model.

    >>> model_named("gru")
    Traceback (most recent call last):
    leadline.errors.UnknownName: model must be a known name. Got model 'gru'. Take Recurrent with cell gru.
    """
    from leadline.models import MODELS  # which imports this module

    meant = {cell.replace("_", ""): f"Recurrent with cell {cell}" for cell in RECURRENT} | _FAMILIES
    plain = str(name).lower().replace("_", "").replace("-", "")
    if plain in meant:
        raise UnknownName("model must be a known name", got=f"model {name!r}", do=f"Take {meant[plain]}")
    return lookup(name, MODELS, "model")


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


def _check_options(
    model_type: type[nn.Module], options: Mapping[str, Any], models: Mapping[str, type[nn.Module]]
) -> None:
    """Refuses an option that the model does not have; the message names the models that have it, or a like one."""
    known = choices(model_type)
    for option in options:
        if option not in known:
            have = [name for name, other in models.items() if option in choices(other)]
            own = ", ".join(known) or "none of its own"
            raise UnknownName(
                f"{model_type.__name__} does not have this option",
                got=option + (f", an option of {' and '.join(have)}" if have else ""),
                do=f"{model_type.__name__} has {own}" if have or not known else suggest(option, known).rstrip("."),
            )


def _begin_with(data: Data, model: nn.Module, told: Mapping[str, Any]) -> None:
    """Give a new model the graph of its data, or the frequencies of their tokens."""
    give_graph(model, data.inputs.graph, getattr(data.inputs, "level", None))
    if data.target.dim == told.get("num_tokens") and hasattr(model, "begin_with"):
        rows = data.train.x[: max(1, _COUNTED // max(1, data.train.x.shape[1]))]
        cast(Any, model).begin_with(cast(Any, data.inputs).counts(rows, data.target.dim))
