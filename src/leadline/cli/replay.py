"""Compute one step of a run again, exactly, and show its rows, its loss and the gradient of each parameter.

A rule without gradients takes the step: shown is by how much it moved each parameter.
"""

from __future__ import annotations

from collections.abc import Sequence

from leadline.cli.flag import Flag, Kind
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import need_run
from leadline.errors import UserError

USAGE = "leadline replay RUN --step N"
EXAMPLES = (
    "leadline replay runs/first --step 0",
    "leadline replay runs/first --step 400 --json",
)


def flags(argv: Sequence[str]) -> list[Flag]:
    return [Flag("step", Kind((int,)), help="number of the step, counted from 0")]


def run(line: Line, screen: Screen) -> int:
    folder = need_run("replay", line)
    step = line.get("step")
    if step is None:
        raise UserError("leadline replay needs a step", got="no --step", do="Add one, such as --step 0")
    import leadline as ll

    seen = ll.replay(folder, step).to_dict()
    screen.say(
        f"step {seen['step']} of epoch {seen['epoch'] + 1}: loss {seen['loss']:.6g}, learning rate {seen['lr']:.4g}"
    )
    screen.say(f"rows of the source: {', '.join(map(str, seen['rows']))}")
    screen.say()
    what, found = ("gradient", seen["gradients"]) if seen["gradients"] else ("change", seen["changes"])
    rows = [[name, f"{of['norm']:.4g}", f"{of['over_weight']:.4g}"] for name, of in found.items()]
    screen.table(["parameter", f"norm of {what}", "over norm of weight"], rows)
    screen.answer(seen)
    return 0
