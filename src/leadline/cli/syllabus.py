"""Find where a section of a book lives in the library, and the claim that tests it. Without words, count the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.cli.flag import Flag, Kind
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.errors import UnknownName
from leadline.syllabus import Row, find, nearest, rows, sources

USAGE = "leadline syllabus [QUERY ...] [--all]"
EXAMPLES = (
    "leadline syllabus",
    "leadline syllabus linear regions",
    "leadline syllabus UDL 4.5.2",
    "leadline syllabus UA-188 --json",
)
MORE = "QUERY is an item's id, a section, or words in any order; spelling need not be exact."

_SHOWN = 10


def flags(argv: Sequence[str]) -> list[Flag]:
    return [Flag("all", Kind((bool,)), help=f"show every row, not the best {_SHOWN} alone", default=False)]


def run(line: Line, screen: Screen) -> int:
    everything, query = line.get("all", False), " ".join(line.words)
    if not query:
        return _overview(screen, everything)
    found = find(query)
    if not found:
        near = "; ".join(f"{row.id} {row.title}" for row in nearest(query))
        do = f"The nearest are {near}" if near else "Type an id, a section, or words with letters in them"
        raise UnknownName("the words must occur in the syllabus", got=repr(query), do=do)
    shown = found if everything else found[:_SHOWN]
    _show(shown, screen)
    if len(found) > len(shown):
        screen.say(f"and {len(found) - len(shown)} more: --all shows them")
    screen.answer({"query": query, "rows": [row.to_dict() for row in found]})
    return 0


def _overview(screen: Screen, everything: bool) -> int:
    """How much of each source is built, and with `everything` every row before that."""
    if everything:
        _show(rows(), screen)
        screen.say()
    counts: dict[str, dict[str, Any]] = {
        key: {"name": name, "rows": 0, "built": 0, "skipped": 0, "with_claim": 0} for key, name in sources().items()
    }
    for row in rows():
        count = counts[row.key]
        count["rows"] += 1
        count["built" if row.built else "skipped"] += 1
        count["with_claim"] += bool(row.claim)
    screen.table(
        ["source", "rows", "built", "skipped", "with a claim", "what it is"],
        [[key, c["rows"], c["built"], c["skipped"], c["with_claim"], c["name"]] for key, c in counts.items()],
    )
    built = sum(row.built for row in rows())
    screen.say(f"{len(rows())} rows: {built} built, {len(rows()) - built} skipped, each with its reason")
    answer = {"sources": counts, "built": built, "skipped": len(rows()) - built}
    screen.answer({**answer, "rows": [row.to_dict() for row in rows()]} if everything else answer)
    return 0


def _show(found: Sequence[Row], screen: Screen) -> None:
    """A line for what a row is, one for where it lives, one for its claim: side by side they would not fit."""
    table = []
    for row in found:
        table.append([row.id, row.source, row.title])
        table.append(["", "", row.where or f"skipped: {row.skipped}"])
        if row.claim:
            table.append(["", "", f"claim: {row.claim}"])
    screen.table(["id", "source", "title, where, claim"], table)
