"""Look at a model, at data, at the training loop, or at a run.

A model is shown for inputs and outputs of --dim-input and --dim-output, or for those that --data asks for.
"""

from __future__ import annotations

import inspect
import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leadline.cli import offered, recipe, usual
from leadline.cli.flag import Flag, Kind
from leadline.cli.line import Line, first_word, peek
from leadline.cli.screen import Screen, figure
from leadline.cli.words import extra_words
from leadline.data.account import counted
from leadline.data.data import Data
from leadline.data.target import SEVERAL, Target
from leadline.data.tokens import NOTHING
from leadline.errors import RunError, UserError
from leadline.models import build, model_named
from leadline.names import lookup

USAGE = "leadline show model MODEL | data SOURCE | loop | run DIR [flags]"
EXAMPLES = (
    "leadline show model MLP --hidden 100 100 --data mnist1d",
    "leadline show data cars.csv --target price",
    "leadline show loop",
    "leadline show run runs/first",
)
MORE = "`leadline show model MLP --help` and `leadline show data moons --help` show the flags of each."

_HOLDERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)  # which may hold nothing

SIZES = (
    Flag(
        "dim_input",
        Kind((int,), many=True),
        help="without --data: numbers in a row, or channels, rows and columns of a picture, or members of a set and "
        "numbers of each; by default 40, 3 32 32, or 64 3",
    ),
    Flag("dim_output", Kind((int,)), help="without --data: outputs of the network", default=10),
    Flag("data", help="build the model for the rows of this source or file"),
)


def flags(argv: Sequence[str]) -> list[Flag]:
    topic, rest = (argv[0], argv[1:]) if argv else ("", ())
    if topic == "model":
        kind = model_named(first_word(rest, SIZES) or usual.DEFAULT_MODEL)
        return [*SIZES, *offered.model_flags(kind), *offered.data_flags(peek(rest, "--data"), kind, rest)]
    if topic == "data":
        kind = model_named(usual.DEFAULT_MODEL)
        return offered.data_flags(first_word(rest, offered.data_flags("table.csv", kind)), kind, rest)
    return []


def run(line: Line, screen: Screen) -> int:
    if not line.words:
        raise UserError(
            "leadline show needs to know what to show", got="nothing", do=f"Name one of {', '.join(TOPICS)}"
        )
    show = lookup(line.words[0], TOPICS, "what to show")
    extra_words("show", line.words, 1 if show is show_loop else 2)
    screen.answer(show(line.words[1] if line.words[1:] else None, line, screen))
    return 0


def show_model(name: str | None, line: Line, screen: Screen) -> dict[str, Any]:
    """The model's own weights, every module with weights or a rule of its own, and how many parameters each has."""
    source = line.get("data")
    if source is not None:
        from leadline.likelihoods import likelihood_for

        data = recipe.make_data(source, line.of("data"))
        read: Data | tuple[int, ...] = data
        shape, dim_output = data.shape_input, likelihood_for(data.target).dim_output
        name = name or usual.default_for(data)
    else:
        kind = model_named(name or usual.DEFAULT_MODEL)
        reads = inspect.signature(kind).parameters
        if "num_tokens" in reads and line.get("dim_input") is None:
            raise UserError(
                f"{name} reads tokens or steps, so its sizes depend on data",
                got="no --data",
                do=f"Name data: leadline show model {name} --data FILE, and the flags that train needs for it",
            )
        some = (40,) if "dim_input" in reads else (64, 3) if getattr(kind, "reads_sets", False) else (3, 32, 32)
        read = shape = tuple(line.get("dim_input") or some)
        dim_output = line.get("dim_output", 10)
    model = build(name or usual.DEFAULT_MODEL, read, dim_output, **line.of("model"))
    layers = [
        {"name": path, "type": type(module).__name__, "weights": _shapes(module), "parameters": _own_count(module)}
        for path, module in model.named_modules()
        if path and (_shapes(module) or not (list(module.children()) or isinstance(module, _HOLDERS)))
    ]
    total = sum(parameter.numel() for parameter in model.parameters())
    said = counted(shape[0], "number") if len(shape) == 1 else _by(shape)
    screen.say(f"{type(model).__name__}: {said} in, {dim_output} out")
    rows = [
        [layer["name"], layer["type"], " ".join(map(_by, layer["weights"].values())), f"{layer['parameters']:,}"]
        for layer in layers
    ]
    own = _shapes(model)
    if own:
        screen.table(["parameter", "weights", "parameters"], [[k, _by(v), f"{math.prod(v):,}"] for k, v in own.items()])
    if rows or not own:
        screen.table(["layer", "type", "weights", "parameters"], rows)
    screen.say(f"parameters in all: {total:,}")
    name = type(model).__name__
    return {"model": name, "config": model.config, "weights": own, "layers": layers, "parameters": total}


def _shapes(module: nn.Module) -> dict[str, list[int]]:
    return {name: list(parameter.shape) for name, parameter in module.named_parameters(recurse=False)}


def _own_count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters(recurse=False))


def _by(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def show_data(what: str | None, line: Line, screen: Screen) -> dict[str, Any]:
    """The account, the splits, the inputs, and what is to be predicted."""
    data = recipe.make_data(recipe.need_source("show data", what), line.of("data"))
    screen.say(str(data.account))
    screen.say()
    if not data.account.columns:
        screen.say(f"target: {data.target}")
        screen.say(f"columns: {', '.join(data.inputs.names) or 'without names'}")
    screen.say(f"a row: {_by(data.train.x.shape[1:])} raw, {counted(data.dim_input, 'number')} for the network")
    screen.say()
    splits = _splits(data, screen)
    return {
        "data": data.name,
        "rows": {"read": data.account.read, "used": data.account.used},
        "target": data.target.config,
        "inputs": {"columns": list(data.inputs.names), "dim": data.dim_input},
        "splits": {name: {"rows": len(data[name]), **of} for name, of in splits.items()},
        "fingerprint": data.fingerprint,
    }


def _splits(data: Data, screen: Screen) -> dict[str, dict[str, Any]]:
    """Figures of y by split; of several columns, by column: one may be in metres, one in kilograms."""
    target = data.target
    if target.dim == 1 or target.kind not in ("real", SEVERAL):  # the places of a ranking are of one kind
        figures = {name: _figures(target, split.y) for name, split in data.splits()}
        _print_figures(data, figures, "", screen)
        return figures
    found: dict[str, dict[str, Any]] = {name: {} for name, _ in data.splits()}
    for k, column in enumerate(target.names):
        own = target.columns[k] if target.columns else Target(target.kind, column)
        figures = {name: _figures(own, split.y[:, k]) for name, split in data.splits()}
        if k:
            screen.say()
        _print_figures(data, figures, f"{column}:", screen)
        for name, of in figures.items():
            found[name][column] = of
    return found


def _print_figures(data: Data, figures: dict[str, dict[str, float]], title: str, screen: Screen) -> None:
    header = ["split", "rows", *next(iter(figures.values()))]
    if len(header) > 8:  # many classes: a row each
        body = [[key, *(figure(of[key]) for of in figures.values())] for key in header[2:]]
        screen.table(["", *figures], [["rows", *(len(data[name]) for name in figures)], *body], title)
    else:
        cells = [[name, len(data[name]), *map(figure, of.values())] for name, of in figures.items()]
        screen.table(header, cells, title)


def _figures(target: Target, y: Tensor) -> dict[str, float]:
    """How often each class occurs (of pixels, their share), how often each point is seen, how many tokens are asked for
    and how many an answer has, or where numbers lie.
    """
    if target.kind == "pixels":
        counts = torch.bincount(y.flatten(), minlength=256)[: len(target.classes)]
        return dict(zip(target.classes, (counts / counts.sum()).tolist(), strict=True))
    if target.kind == "boxes":
        return {name: int((y[..., 0] == code).sum()) for code, name in enumerate(target.classes)}
    if target.kind == "points":
        return {name: int((y[:, j, 2] > 0).sum()) for j, name in enumerate(target.classes)}
    if target.kind == "tokens":
        asked = y != NOTHING
        if not target.classes:
            return {"tokens": int(asked.sum()), "a row": float(asked.sum(-1).double().mean())}
        return {name: int((y == code).sum()) for code, name in enumerate(target.classes)}
    if target.kind == "span":
        lengths = (y[:, 1] - y[:, 0] + 1).double()
        return {"tokens an answer": float(lengths.mean()), "most": int(lengths.max())}
    if target.discrete:
        classes = target.classes or ("0", "1")
        return {name: int((y == code).sum()) for code, name in enumerate(classes)}
    y = y.double()
    spread = float(y.std(unbiased=False))
    return {"least": float(y.min()), "mean": float(y.mean()), "most": float(y.max()), "deviation": spread}


def show_loop(name: str | None, line: Line, screen: Screen) -> dict[str, Any]:
    """The loop as its own docstrings tell it, and what listens: asked of a loop that has just run."""
    from leadline.cli.listeners import listeners_of_a_run
    from leadline.engine import events, loop

    outline = {
        step.__name__: _sentence(step) for step in (loop.Loop.fit, loop.Loop.epoch, loop.Loop.step, loop.Loop.validate)
    }
    said = {event.__name__: _sentence(event) for event in events.Event.__args__}
    listening = listeners_of_a_run()
    screen.say("\n\n".join((loop.__doc__ or "").split("\n\n")[:2]))
    for title, entries in (("steps", outline), ("events", said), ("listeners, in the order of their calls", listening)):
        screen.say()
        screen.table(["", ""], entries.items(), f"{title}:")
    return {"loop": outline, "events": said, "listeners": listening}


def _sentence(thing: Any) -> str:
    from leadline.cli.list import first_sentence

    return first_sentence(thing, thing.__name__)


def show_run(folder: str | None, line: Line, screen: Screen) -> dict[str, Any]:
    """What was asked for, the last metrics, the checkpoints. Reads the record; loads neither model nor data."""
    from leadline.engine import checkpoint
    from leadline.engine.record import Record

    if folder is None:
        raise RunError(
            "leadline show run needs the folder of a run", got="no DIR", do="`leadline list runs` shows them"
        )
    record = Record.open(folder)
    config, history = record.config, record.lines("metrics.jsonl")
    checkpoints = [path.name for path in checkpoint.steps(record.checkpoints)]
    screen.say(
        f"{folder}: {config['name']}, {config['ended'] or 'not finished'} after {counted(len(history), 'epoch')}"
    )
    shown = ("created", "device", "data", "model", "likelihood", "rule", "settings")
    rows = [[f"{part}.{key}" if key else part, value] for part in shown for key, value in _flat(config.get(part))]
    screen.table(["", ""], rows)
    if history:
        last = history[-1]
        screen.say()
        figures = [
            [split, name, figure(value)]
            for split in ("train", "val")
            for name, value in last.get(split, {}).items()
            if value is not None
        ]
        screen.table(["split", "metric", "value"], figures, f"epoch {last['epoch']}, step {last['step']}:")
    screen.say()
    screen.say(f"checkpoints: {', '.join(checkpoints) or 'none'}")
    if not config["ended"] or config["ended"] == "interrupted":
        screen.say("to go on:")
        screen.command(f"leadline resume {shlex.quote(folder)}")
    report = Path(folder, "report.html")
    return {
        "run": folder,
        "config": config,
        "epochs": len(history),
        "last": history[-1] if history else None,
        "checkpoints": checkpoints,
        "report": report if report.exists() else None,
    }


def _flat(value: Any) -> list[tuple[str, str]]:
    """A part of the config as rows: short values as they are, long ones as their beginning."""
    items = value.items() if isinstance(value, dict) else [("", value)]
    found = []
    for key, item in items:
        text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        found.append((key, text if len(text) <= 200 else text[:199] + "…"))
    return found


TOPICS = {"model": show_model, "data": show_data, "loop": show_loop, "run": show_run}
