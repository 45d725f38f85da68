"""Name what there is, one line each: models, data, likelihoods, rules, optimizers, schedules, runs of a folder."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leadline.cli.flag import Flag
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import extra_words
from leadline.data.account import counted
from leadline.names import lookup

USAGE = "leadline list [KIND] [--folder runs]"
EXAMPLES = (
    "leadline list",
    "leadline list data",
    "leadline list runs --folder experiments --json",
)
MORE = "KIND is models, data, likelihoods, rules, optimizers, schedules or runs; without it all are listed."


OWN = "… and your own: a .csv, .tsv, .parquet, .npz or .jsonl, a folder of pictures or of text, or MNIST's IDX files."


def flags(argv: Sequence[str]) -> list[Flag]:
    return [Flag("folder", help="the folder that holds the runs", default="runs")]


def run(line: Line, screen: Screen) -> int:
    extra_words("list", line.words, 1)
    folder = Path(line.get("folder", "runs"))
    if line.words:
        kinds = {name: maker for name, maker in KINDS.items() if maker is lookup(line.words[0], KINDS, "kind of thing")}
    else:
        kinds = KINDS
    found = {kind: maker(folder) for kind, maker in kinds.items()}
    for place, (kind, entries) in enumerate(found.items()):
        if place:
            screen.say()
        title = f"{kind}:" if len(found) > 1 else ""
        if entries:
            screen.table(["", ""], entries.items(), title)
        else:
            screen.say(f"{kind}: none in {folder}" if kind == "runs" else f"{kind}: none")
        if kind == "data":
            screen.say(OWN)
    screen.answer(found)
    return 0


def models(folder: Path) -> dict[str, str]:
    from leadline.models import MODELS

    return {name: first_sentence(model, name) for name, model in MODELS.items()}


def data(folder: Path) -> dict[str, str]:
    from leadline.data import SOURCES

    return {name: first_sentence(source, name) for name, source in SOURCES.items()}


def likelihoods(folder: Path) -> dict[str, str]:
    from leadline.likelihoods import LIKELIHOODS

    return {name: first_sentence(family, name) for name, family in LIKELIHOODS.items()}


def rules(folder: Path) -> dict[str, str]:
    from leadline.optim import RULES

    return {name: first_sentence(sys.modules[rule.__module__], name) for name, rule in RULES.items()}


def optimizers(folder: Path) -> dict[str, str]:
    """By what torch says of the class after each name."""
    import torch

    from leadline.optim.optimizers import optimizer
    from leadline.settings import CHOICES, Settings

    found = {}
    for name in CHOICES["optimizer"]:
        if name != "given":
            made = optimizer(Settings(optimizer=name), [torch.nn.Parameter(torch.zeros(1))])
            options = {"nesterov": ", with Nesterov momentum", "amsgrad": ", with AMSGrad's maximum"}
            form = "".join(words for option, words in options.items() if made.defaults.get(option))
            form += {True: ", as printed", False: ", exact", None: ""}[getattr(made, "printed", None)]
            what = first_sentence(type(made), type(made).__name__).removeprefix("Implements ")
            place = "torch" if type(made).__module__.startswith("torch.") else "leadline"
            found[name] = f"{place}.optim.{type(made).__name__}{form}: {what}"
    return found


def schedules(folder: Path) -> dict[str, str]:
    """By the equation that the module gives for each name."""
    from leadline.optim import schedules as module

    return {
        name: ", ".join(re.findall(rf"^\s+{name}\s+(.*?)\s*(?:\(\d+\))?$", module.__doc__ or "", re.M))
        for name in module.SCHEDULES
    }


def runs(folder: Path) -> dict[str, str]:
    """The runs in a folder, newest last, with how each ended."""
    from leadline.engine.record import Record
    from leadline.errors import RunError

    found = {}
    for path in sorted(folder.glob("*/run.json")):
        try:
            record = Record.open(path.parent)
            config, history = record.config, record.lines("metrics.jsonl")
        except RunError as error:
            found[str(path.parent)] = f"cannot be read: {error.got}"
            continue
        ended = config.get("ended") or "not finished"
        what = f"{config['model']['name']} on {config['data']['name']}"
        found[str(path.parent)] = f"{what}, {ended}, {counted(len(history), 'epoch')}"
    return found


KINDS: dict[str, Callable[[Path], dict[str, str]]] = {
    maker.__name__: maker for maker in (models, data, likelihoods, rules, optimizers, schedules, runs)
}


def first_sentence(thing: Any, name: str) -> str:
    """What a docstring begins with; where a class's begins with its arguments, its module's; without the name."""
    text = inspect.getdoc(thing) or ""
    if inspect.isclass(thing) and (not text or text.startswith("Args:")):
        text = inspect.cleandoc(sys.modules[thing.__module__].__doc__ or "")
    sentence = re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()))[0]
    return sentence.removeprefix(f"{name}: ").rstrip(".:")
