"""What a verb shows: tables by rich in a terminal, aligned text elsewhere; with --json one object ends the output."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leadline.doctor.finding import Finding
    from leadline.engine.evaluation import Evaluation

_FIGURE = re.compile(r"|-?[\d,.]+(e[+-]?\d+)?|nan|-?inf")
_WIDTH = 80  # where there is no terminal to ask


class Screen:
    """Words go to stdout, or to stderr where stdout is for a program (`as_json`, or a table of predictions)."""

    def __init__(self, as_json: bool = False):
        self.as_json = as_json
        self.stream = sys.stderr if as_json else sys.stdout

    def aside(self) -> None:
        """From here on words go to stderr."""
        self.stream = sys.stderr

    def say(self, text: str = "") -> None:
        """Lines, folded at the screen's width with the indent that they have."""
        for line in text.split("\n"):
            indent = " " * (len(line) - len(line.lstrip()))
            folded = textwrap.wrap(
                line.strip(), self.width, initial_indent=indent, subsequent_indent=indent + "    ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
            print("\n".join(folded), file=self.stream)

    def account(self, text: str, command: str = "") -> None:
        """What was read, and the command that shows the columns that the text leaves out."""
        self.say(text)
        if command:
            self.say("to list all columns:")
            self.command(command)

    def command(self, words: str) -> None:
        """A command to copy: never folded."""
        print(f"  {words}", file=self.stream)

    @property
    def width(self) -> int:
        return max(40, shutil.get_terminal_size((_WIDTH, 24)).columns if self.stream.isatty() else _WIDTH)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
        """Columns side by side; the last one is folded where it is too wide."""
        body = [[str(cell) for cell in row] for row in rows]
        if self.stream.isatty() and self._rich(header, body, title):
            return
        if title:
            print(title, file=self.stream)
        print(plain_table(header, body, self.width), file=self.stream)

    def _rich(self, header: Sequence[str], body: list[list[str]], title: str) -> bool:
        try:
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            return False
        table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
        for place, name in enumerate(header):
            table.add_column(name, justify="right" if _is_figures(body, place) else "left", overflow="fold")
        for row in body:
            table.add_row(*(Text(cell) for cell in row))  # as text: a name in [brackets] is no markup
        Console(file=self.stream, highlight=False).print(table)
        return True

    def findings(self, findings: Sequence[Finding]) -> None:
        """What the doctor says, one paragraph each."""
        for finding in findings:
            self.say(str(finding))

    def metrics(self, evaluations: dict[str, Evaluation], title: str = "") -> None:
        """Metrics by split, each with its 95 % interval."""
        rows: list[list[Any]] = []
        for split, evaluation in evaluations.items():
            for name in evaluation.main:
                low, high = evaluation.interval(name)
                whose = ("", "") if rows and rows[-1][-1] == split else (split, evaluation.count)
                rows.append([*whose, name, figure(evaluation[name]), _between(low, high), split])
        self.table(["split", "rows", "metric", "value", "95 % interval"], [row[:-1] for row in rows], title)

    def answer(self, values: dict[str, Any]) -> None:
        """The object that ends the output of --json."""
        if self.as_json:
            sys.stderr.flush()
            print(json.dumps(finite(values), ensure_ascii=False), flush=True)


def _between(low: float, high: float) -> str:
    """An interval; one row has none."""
    return "" if math.isnan(low) and math.isnan(high) else f"{figure(low)} … {figure(high)}"


def figure(value: float) -> str:
    """A number as a reader wants it.

    >>> figure(3), figure(0.123456), figure(13010.7), figure(1e-9), figure(2e12)
    ('3', '0.1235', '13,011', '1e-09', '2e+12')
    """
    if isinstance(value, int):
        return str(value)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def plain_table(header: Sequence[str], body: Sequence[Sequence[str]], width: int = _WIDTH) -> str:
    """Aligned text, at most `width` wide where the last column can be folded to that.

    >>> print(plain_table(["layer", "weights"], [["map", "12"], ["head", "8"]]))
    layer  weights
    map         12
    head         8
    """
    rows = [list(header), *map(list, body)] if any(header) else [list(row) for row in body]
    if not rows:
        return ""
    count = len(rows[0])
    widths = [max(len(row[place]) for row in rows) for place in range(count)]
    room = width - sum(widths[:-1]) - 2 * (count - 1)
    figures = [_is_figures(body, place) for place in range(count)]
    lines = []
    for row in rows:
        cells = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(row[:-1], widths, figures)]
        start = "".join(f"{cell}  " for cell in cells)
        last = row[-1].rjust(widths[-1]) if figures[-1] else row[-1]
        parts = [last] if len(last) <= room or room < 20 else textwrap.wrap(last, room, break_on_hyphens=False)
        lines.append((start + parts[0]).rstrip())
        lines += [" " * len(start) + part for part in parts[1:]]
    return "\n".join(lines)


def _is_figures(body: Sequence[Sequence[str]], place: int) -> bool:
    return bool(body) and all(_FIGURE.fullmatch(row[place]) for row in body)


def finite(value: Any) -> Any:
    """`value` as JSON can hold it: what is not finite becomes null, a path its text."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
