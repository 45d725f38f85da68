"""Train a model on your own table, pictures or text, or on a named source, and leave a run folder with a report."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from torch import nn

from leadline.cli import folded, offered, recipe, usual
from leadline.cli.ending import finish
from leadline.cli.flag import Flag, Kind
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import extra_words
from leadline.session import first_weights
from leadline.settings import Settings
from leadline.verbs import refuse

USAGE = "leadline train SOURCE [flags]"
EXAMPLES = (
    "leadline train mnist1d --model MLP --hidden 100 100 --epochs 30",
    "leadline train cars.csv --target price --drop id name --folds 10",
    "leadline train photos/",
    "leadline train sales.csv --target sales --time date --horizon 12",
    "leadline train nodes.csv --edges edges.csv --target label",
    "leadline train reviews.csv --text review --target stars --from bert-base/",
)
MORE = (
    "SOURCE is a name that `leadline list data` shows, a .csv, .tsv or .parquet file, a folder of pictures (what can "
    "be learned from it, classes, masks or boxes, is found out), or a file or folder of text. A table is read as text "
    "with --text or --source COLUMN, as the nodes of a graph with --edges FILE, as time series with --horizon STEPS, "
    "as sequences with --sequence COLUMN, and as sets with --set COLUMN; a folder or .npz is read as clouds of points "
    "with --coordinates NUMBER. Which flags there are for the data depends on SOURCE: "
    "`leadline train mnist1d --help` shows those of mnist1d."
)

OWN = (
    Flag(
        "from",
        help="start from the weights in the folder of a run or of Hugging Face, by default from random weights: model "
        "and sizes are as there, the head is new, and text is split by the tokenizer in that folder",
        group="what is trained",
    ),
    Flag(
        "lora",
        Kind((int,), optional=True),
        help="with --from: train only low-rank updates of this rank beside the attention's maps, and the new head; all "
        "other weights stay as they are",
        group="what is trained",
    ),
    Flag("folder", help="where the run is kept, by default runs/<time>-<data>-<model>", group="the run"),
    Flag("report", Kind((bool,)), help="write report.html at the end", default=True, group="the run"),
    Flag(
        "folds",
        Kind((int,), optional=True),
        help="cross-validate: train once for each of this many folds of the training and validation rows; folds keep "
        "classes in proportion, groups together and times in order",
        group="the run",
    ),
)


def flags(argv: Sequence[str]) -> list[Flag]:
    what = offered.find_source(argv, OWN)
    kind = usual.model_type(argv, what)
    data = offered.data_flags(what, kind, argv)
    family = offered.likelihood_flags(offered.likelihood_name(argv))
    rule, *of_rule = offered.rule_flags(argv, what)
    of_model = offered.model_flags(kind)
    return [*offered.choice_flags(), rule, *OWN, *of_model, *family, *of_rule, *data, *offered.setting_flags()]


def arranged(argv: Sequence[str]) -> list[str]:
    return offered.arranged(argv, OWN)


explain = offered.explain


def run(line: Line, screen: Screen) -> int:
    import leadline as ll

    what = recipe.need_source("train", line.words[0] if line.words else None)
    extra_words("train", line.words, 1)
    if line.get("folds") is not None:
        folded.check(line, what)
    made = recipe.make(what, line)
    screen.account(*offered.columns_shown(made.data, what, line.of("data")))
    folder = line.get("folder") or fresh_folder(made.data.name, type(made.model).__name__)
    before = ll.doctor.before(_as_begun(made), made.data, made.likelihood)
    refuse(before)
    screen.findings(before)
    if line.get("folds") is not None:
        return folded.run(made, line, Path(folder), screen)
    if made.note:
        screen.say(made.note)
    screen.say(f"run folder: {folder}")
    screen.stream.flush()
    fitted = ll.fit(
        made.model,
        made.data,
        likelihood=made.likelihood,
        rule=made.rule,
        folder=folder,
        progress="running",
        findings=before,
        with_report=line.get("report", True),
        **made.settings,
    )
    return finish(fitted, screen, said=before)


def _as_begun(made: recipe.Made) -> nn.Module:
    """The model with the first weights that it will begin from."""
    model = copy.deepcopy(made.model)
    first_weights(model, made.likelihood, Settings.make(**made.settings), made.data)
    return model


def fresh_folder(data: str, model: str, now: datetime | None = None) -> Path:
    """runs/<time>-<data>-<model>, with a number after it where that is taken."""
    name = f"{now or datetime.now():%Y-%m-%d-%H%M%S}-{_in_a_path(data)}-{model}"
    candidates: Any = (Path("runs", name + (f"-{count}" if count > 1 else "")) for count in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


def _in_a_path(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
