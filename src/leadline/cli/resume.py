"""Go on with a run that was interrupted: the end is, bit for bit, that of a run that was not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.cli.ending import finish
from leadline.cli.flag import Flag, Kind
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import need_run
from leadline.errors import DataError, UserError

if TYPE_CHECKING:
    from leadline.data.data import Data

USAGE = "leadline resume RUN [--data PLACE] [--no-report]"
EXAMPLES = (
    "leadline resume runs/2026-01-31-120000-mnist1d-MLP",
    "leadline resume runs/moons --json",
    "leadline resume runs/cars --data /new/place/cars.csv",
)


def flags(argv: Sequence[str]) -> list[Flag]:
    return [
        Flag("data", help="where the run's data are now, if they have moved; they must be the same data"),
        Flag("report", Kind((bool,)), help="write report.html at the end; by default as with train"),
    ]


def run(line: Line, screen: Screen) -> int:
    folder = need_run("resume", line)
    import leadline as ll

    if line.get("data") is None:
        _need_place(folder)
    data = None if line.get("data") is None else _moved(folder, line.get("data"))
    return finish(ll.resume(folder, data=data, with_report=line.get("report"), progress="running"), screen)


def _need_place(folder: Path) -> None:
    """Refuses where the run's data are no longer where they were."""
    from leadline.engine.record import Record

    recipe = Record.open(folder).config["data"]["recipe"]
    path = recipe["options"].get("path") if recipe else None
    if path is not None and not Path(path).expanduser().exists():
        do = f"Put them back, or say where they are now: leadline resume {shlex.quote(str(folder))} --data PLACE"
        raise DataError("the data of the run must be where they were", got=f"no {path}", do=do)


def _moved(folder: Path, place: str) -> Data:
    """The data of a run, read from another place as they were from theirs."""
    from leadline.data import load
    from leadline.engine.record import Record

    recipe = Record.open(folder).config["data"]["recipe"]
    if recipe is None or "path" not in recipe["options"]:
        source = "arrays in memory" if recipe is None else recipe["source"]
        raise UserError(
            "--data needs a run whose data are in a file or a folder",
            got=f"a run on {source}",
            do="Leave --data out" if recipe else "Pass data=… to ll.resume in Python",
        )
    others = {name: old for name in ("edges", "graphs") if (old := recipe["options"].get(name))}  # files of a graph
    beside = {name: Path(place).parent / Path(old).name for name, old in others.items()}
    moved = {name: str(file) for name, file in beside.items() if file.exists()}
    return load(recipe, path=place, **moved)
