"""Run claims of the literature and say which hold: figure, numbers, verdict. Without a name, list them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from leadline.cli.flag import Flag, Kind
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.data.account import counted
from leadline.errors import UserError
from leadline.names import lookup

USAGE = "leadline claims [NAME ...] [--all] [--full]"
EXAMPLES = (
    "leadline claims",
    "leadline claims hopfield-capacity --full",
    "leadline claims --all",
)
MORE = "Exit code 1 says that a verdict differs from the one on record."


def flags(argv: Sequence[str]) -> list[Flag]:
    return [
        Flag("all", Kind((bool,)), help="run every claim", default=False),
        Flag("full", Kind((bool,)), help="the full setting, instead of the quick one", default=False),
        Flag(
            "folder", help="where figures are written; with --all none are written unless it is given", default="claims"
        ),
        Flag("log", help="write the ledger to this file, as Markdown"),
    ]


def run(line: Line, screen: Screen) -> int:
    from leadline.claims import CLAIMS, ledger

    everything, full = line.get("all", False), line.get("full", False)
    if everything and line.words:
        raise UserError("leadline claims takes names or --all", got="both", do="Leave one of them out")
    if not everything and not line.words:
        screen.table(
            ["claim", "on record", "what is claimed"], [[c.name, c.on_record, c.statement] for c in CLAIMS.values()]
        )
        screen.answer({name: claim.statement for name, claim in CLAIMS.items()})
        return 0
    chosen = list(CLAIMS.values()) if everything else [lookup(word, CLAIMS, "claim") for word in line.words]
    folder = line.get("folder", None if everything else "claims")
    outcomes = []
    for place, claim in enumerate(chosen, 1):
        print(f"claim {place} of {len(chosen)}: {claim.name}", file=sys.stderr, flush=True)
        outcome = claim.run(full)
        outcomes.append(outcome)
        if folder is not None:
            path = Path(folder, f"{claim.name}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            outcome.evidence.view.plot().savefig(path)
            screen.say(f"figure: {path}")
    table = [row for outcome in outcomes for row in ledger.rows(outcome)]
    screen.table(["claim", "verdict", "expected", "measured", "what is measured"], table)
    for outcome in outcomes:
        if outcome.news:
            screen.say(f"{outcome.claim.name}: {outcome.verdict}; on record: {outcome.claim.on_record}")
    if line.get("log"):
        Path(line.get("log")).write_text(ledger.markdown(outcomes), encoding="utf-8")
    seconds = sum(outcome.seconds for outcome in outcomes)
    screen.say(f"{ledger.count(outcomes)}; {seconds:.1f} s")
    screen.answer({"claims": [outcome.to_dict() for outcome in outcomes], "count": counted(len(outcomes), "claim")})
    return int(any(outcome.news for outcome in outcomes))
