"""What a line means where it does not say: which source reads a path, which model is trained, with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from leadline.cli.line import peek
from leadline.data import AS_TEXT, READ_AS, SOURCES, find_task, is_path, reader_by
from leadline.data.data import Data
from leadline.data.graph_inputs import GraphInputs
from leadline.data.images import PLACES
from leadline.data.pictures import Pictures
from leadline.data.sequence_inputs import Sequences
from leadline.data.series_windows import Windows
from leadline.data.set_inputs import Sets
from leadline.data.tagged_rows import holds_sentences
from leadline.data.text_rows import TAGGED, holds_pairs
from leadline.data.tokens import Tokens
from leadline.flags import shell_words
from leadline.interop.beginning import beginning
from leadline.models import model_named

DEFAULT_MODEL = "MLP"
#: what is trained on pictures where nobody names a model, by what is asked of them
PICTURE_MODELS = {"pixels": "UNet", "boxes": "GridDetector", "points": "Hourglass"}
PICTURE_MODEL = "ConvNet"
#: and on text
TEXT_MODELS = {"next": "GPT", "pairs": "Transformer", **dict.fromkeys(("masked", "classes", "tags", "spans"), "BERT")}
#: and on series and sequences
STEP_MODEL = "Recurrent"
#: and on graphs
GRAPH_MODEL = "GCN"
GRAPHS = ("graph", "karate", "communities", "random_graphs", "molecules")
#: and on sets, of points and of others
POINT_MODEL, SET_MODEL = "PointNet", "DeepSets"
_GRAPH_DECAY = 5e-4
#: of a GPT without a GPU: a million weights in place of eleven, which would take a CPU hours
_SMALL_GPT = {"dim": 128, "num_layers": 4, "num_heads": 4}
_SAMPLED, _STEPS = 1024, 800  # rows a step and steps, where a part of a graph is read for each


def model_type(argv: Sequence[str], what: str | None = None) -> type[nn.Module]:
    """The model that `--model` names, that `--from` holds, or that SOURCE is trained with by default."""
    folder = peek(argv, "--from")
    named = peek(argv, "--model") or (beginning(folder).name if folder else None)
    return model_named(named or default_model(what, peek(argv, "--task"), argv))


def default_model(what: str | None, task: str | None = None, argv: Sequence[str] = ()) -> str:
    """What is trained on SOURCE where nobody names a model; no data are read for it."""
    if what is not None and reader(what, argv) == "text":
        listed = holds_sentences(what, peek(argv, "--text"), peek(argv, "--target"))
        usual = "tags" if what.lower().endswith(TAGGED) or listed else "pairs" if _reads_pairs(what, argv) else "next"
        asked = "pairs" if peek(argv, "--source") else "classes" if peek(argv, "--target") else usual
        return TEXT_MODELS.get(task or asked, TEXT_MODELS["next"])
    if what is not None and reader(what, argv) in ("sets", "solids"):
        return POINT_MODEL if what == "solids" or peek(argv, "--coordinates") not in (None, "0") else SET_MODEL
    if what is not None and reader(what, argv) in ("series", "sequences"):
        return STEP_MODEL
    if what is not None and reader(what, argv) in GRAPHS:
        return graph_model(peek(argv, "--relation") is not None, "--directed" in argv)
    if what == "scenes":
        return PICTURE_MODELS.get(task or "pixels", PICTURE_MODEL)
    if what is None or reader(what) not in ("images", "idx"):
        return DEFAULT_MODEL
    if not Path(what).is_dir():
        return PICTURE_MODEL
    named = next((kind for option, kind in PLACES.items() if peek(argv, f"--{option}")), task)
    return PICTURE_MODELS.get(named or ("labels" if peek(argv, "--target") else find_task(what)), PICTURE_MODEL)


def default_for(data: Data) -> str:
    """The same, of data that have been read."""
    if isinstance(data.inputs, Tokens):
        return TEXT_MODELS[data.inputs.task]
    if isinstance(data.inputs, Sets):
        return POINT_MODEL if data.inputs.coordinates else SET_MODEL
    if isinstance(data.inputs, (Windows, Sequences)):
        return STEP_MODEL
    if isinstance(data.inputs, GraphInputs):
        return graph_model(len(data.inputs.relations) > 1, data.inputs.roles.directed)
    if not isinstance(data.inputs, Pictures):
        return DEFAULT_MODEL
    return PICTURE_MODELS.get(data.target.kind, PICTURE_MODEL)


def graph_model(related: bool, directed: bool) -> str:
    """What is trained on a graph: one that tells kinds of edges apart where there are some, and not GCN, whose layers
    are of edges without a direction, where they have one.

    >>> graph_model(False, False), graph_model(False, True), graph_model(True, True)
    ('GCN', 'GraphSAGE', 'RelationalGCN')
    """
    return "RelationalGCN" if related else "GraphSAGE" if directed else GRAPH_MODEL


def usual_settings(data: Data) -> dict[str, Any]:
    """Settings that suit the data, where nobody names others: pictures are many, and each takes long.

    Epochs are such that about 400,000 pictures are seen, from 8 to 60. Pictures are moved a little, and where places
    matter also mirrored and changed in colour; classes may be letters, which a mirror makes into others.

    Of text about six million tokens are seen, in 1 to 30 epochs, with gradients clipped and the decay on matrices
    alone, as language models are trained. Of series and sequences about 300,000 rows are seen, in 10 to 60 epochs; a
    series has few windows, so that the rate is high. Of sets about 50,000 are seen, in 10 to 100 epochs.

    Of nodes and pairs of nodes all are asked in one step, since each needs the whole graph, for 200 steps; where a word
    says what a batch reads of it, 1,024 of them, or a quarter, for about 800 steps, in 10 to 200 epochs. Graphs come in
    batches, for about 20,000 of them, in 30 to 200 epochs.
    """
    if isinstance(data.inputs, Sets):
        return {"epochs": max(10, min(100, round(5e4 / len(data.train)))), "batch": 32, "clip": 1.0}
    if isinstance(data.inputs, GraphInputs):
        count, own = len(data.train), {"lr": 1e-2, "weight_decay": _GRAPH_DECAY}
        if data.inputs.level == "graph":
            return {"epochs": max(30, min(200, round(20_000 / count))), "batch": 32, **own}
        if data.inputs.graph is not None and data.inputs.graph.batches is not None:
            batch = min(_SAMPLED, max(1, count // 4))
            return {"epochs": max(10, min(200, round(_STEPS * batch / count))), "batch": batch, **own}
        return {"epochs": 200, "batch": count, **own}
    if isinstance(data.inputs, Tokens):
        count, length = data.train.x.shape
        epochs = max(1, min(30, round(6e6 / max(1, count * length))))
        batch = max(8, min(64, 16_384 // length, count // 20))
        return {"epochs": epochs, "batch": batch, "lr": 1e-3, "clip": 1.0, "decay_on": "matrices"}
    if isinstance(data.inputs, (Windows, Sequences)):
        epochs = max(10, min(60, round(3e5 / len(data.train))))
        return {"epochs": epochs, "clip": 1.0, **({"lr": 1e-2} if isinstance(data.inputs, Windows) else {})}
    if not isinstance(data.inputs, Pictures):
        return {}
    count, side = len(data.train), min(data.inputs.size)
    words: tuple[str, ...] = ("affine(10, 0.1, 0.2)", "colour(0.2, 0.2, 0.2)")
    if data.target.kind in ("pixels", "boxes"):
        words = ("flip", *words)
    elif data.target.kind != "points":
        words = (f"crop({max(1, side // 14)})",)
    epochs, batch = max(8, min(60, round(400_000 / count))), 128 if count >= 4000 else 32
    return {"epochs": epochs, "batch": batch, "regularize": words}


def usual_sizes(model: str, device: torch.device, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The size of a new model where nobody names any part of it, and its own would not suit the device.

    >>> usual_sizes("GPT", torch.device("cpu"), {"p_drop": 0.0}), usual_sizes("GPT", torch.device("cpu"), {"dim": 64})
    ({'dim': 128, 'num_layers': 4, 'num_heads': 4}, {})
    """
    named = not {*_SMALL_GPT, "dim_hidden"}.isdisjoint(chosen)
    return dict(_SMALL_GPT) if model == "GPT" and device.type == "cpu" and not named else {}


def told_settings(usual: dict[str, Any], chosen: dict[str, Any]) -> str:
    """What was chosen for pictures or text, where nobody named it."""
    words = [shell_words(name, value) for name, value in usual.items() if name not in chosen]
    what = "these pictures" if "regularize" in usual else "this text" if "decay_on" in usual else "these rows"
    what = "this graph" if usual.get("weight_decay") == _GRAPH_DECAY else what
    return f"for {what}, by default: {' '.join(words)}" if words else ""


def _reads_pairs(what: str, argv: Sequence[str]) -> bool:
    return peek(argv, "--text") is None and holds_pairs(what)


def reader(what: str, argv: Sequence[str] = ()) -> str:
    """The source that reads SOURCE: its own name, or for a path the one that reads such files."""
    return read_by(what, {word: peek(argv, f"--{word}") for word in (*READ_AS, *AS_TEXT, "target")})


def read_by(what: str, options: Mapping[str, Any]) -> str:
    """The same, by the options that are given to the data."""
    is_named = what in SOURCES or not (is_path(what) or Path(what).is_dir())
    return what if is_named else reader_by(what, options)
