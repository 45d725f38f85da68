"""What a reader of series is told: a line on each column, and how windows and parts were made."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.data.account import counted
from leadline.data.cells import Table, Text
from leadline.data.series_rows import Series
from leadline.data.series_windows import Windows


def column_lines(inputs: Windows) -> list[str]:
    """A line on each column that is used."""
    roles = inputs.roles
    lines = [f"{roles.target}: {inputs.kind}, the target: {counted(inputs.horizon, 'value')} after each window"]
    if roles.time is not None:
        places = "".join(f", place in the {cycle}" for cycle in inputs.cycles)
        lines.append(f"{roles.time}: the time, a step is {inputs.clock.step()}{places}")
    if roles.group is not None:
        lines.append(f"{roles.group}: the group, {counted(len(inputs.figures), 'series', 'series')}")
    lines += [f"{name}: number, read up to the moment of the forecast" for name in roles.past]
    for columns, how in ((inputs.known, "known ahead"), (inputs.static, "the same at all steps")):
        lines += [f"{column.line()}, {how}" for column in columns.columns]
    return lines


def comma_lines(table: Table, inputs: Windows) -> list[str]:
    """What commas in numbers are taken for, where there are some."""
    if inputs.comma:
        return ["decimals are written with a comma"]
    read = ((name, table.columns[name]) for name in (inputs.roles.target, *inputs.roles.past))
    grouped = [(name, cells) for name, cells in read if isinstance(cells, Text) and cells.contains(",")]
    return [
        f"{name}: {word} is read as {word.replace(',', '')}; if a decimal sign is meant, write a point"
        for name, cells in grouped
        if (word := next((word for word in cells.distinct()[0] if word and "," in word), ""))
    ]


def made_lines(inputs: Windows, kept: Sequence[Series], cuts: tuple[int, int], step: int) -> list[str]:
    """How windows and parts were made."""
    lines = [f"windows of {counted(inputs.window, 'step')}" + (f", every {step} steps" if step > 1 else "")]
    longest = max(kept, key=lambda one: one.begin + len(one))
    ends = [longest.begin, *cuts, longest.begin + len(longest)]
    begun = [(word, cut) for word, cut, end in zip(("validated", "tested"), cuts, ends[2:]) if ends[0] <= cut < end]
    if inputs.roles.time is not None and begun:
        moments = inputs.clock.written(longest.moments[[cut - longest.begin for _, cut in begun]])
        lines.append(", ".join(f"{word} from {moment} on" for (word, _), moment in zip(begun, moments)))
    if inputs.moving:
        lines.append(f"the level drifts: y is what is added to the mean of the last {counted(inputs.season, 'step')}")
    if inputs.own_unit:
        lines.append(f"swings grow and shrink: y is in units of the deviation of its {counted(inputs.window, 'step')}")
    if inputs.scaled:
        lines.append("y and its metrics are in deviations of each series from its mean in the training part")
    return lines
