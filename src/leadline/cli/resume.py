"""Go on with a run that was interrupted: the end is, bit for bit, that of a run that was not."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.cli.ending import finish
from leadline.cli.flag import Flag, Kind
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import need_run

USAGE = "leadline resume RUN [--no-report]"
EXAMPLES = (
    "leadline resume runs/2026-01-31-120000-mnist1d-MLP",
    "leadline resume runs/moons --json",
)


def flags(argv: Sequence[str]) -> list[Flag]:
    return [Flag("report", Kind((bool,)), help="write report.html at the end; by default as train was told")]


def run(line: Line, screen: Screen) -> int:
    folder = need_run("resume", line)
    import leadline as ll

    return finish(ll.resume(folder, with_report=line.get("report"), progress="running"), screen)
