"""The ledger: every claim that was run, with what was expected, what was measured, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from leadline.claims.claim import FAILS, HOLDS, Outcome
from leadline.data.account import counted
from leadline.version import VERSION


def rows(outcome: Outcome) -> list[list[str]]:
    """A line for each check of a claim; name and verdict stand on its first."""
    checks = outcome.evidence.checks
    return [
        [
            outcome.claim.name if place == 0 else "",
            outcome.verdict if place == 0 else "",
            check.expected,
            number(check.measured),
            check.what,
        ]
        for place, check in enumerate(checks)
    ]


def count(outcomes: Sequence[Outcome]) -> str:
    """The line that ends a ledger.

    >>> count([])
    '0 claims: 0 hold, 0 do not; 0 differ from the record'
    """
    held = sum(outcome.verdict == HOLDS for outcome in outcomes)
    failed = sum(outcome.verdict == FAILS for outcome in outcomes)
    news = sum(outcome.news for outcome in outcomes)
    return f"{counted(len(outcomes), 'claim')}: {held} hold, {failed} do not; {news} differ from the record"


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The ledger as a page."""
    day = datetime.now(UTC).date().isoformat()
    setting = "full" if all(outcome.full for outcome in outcomes) else "quick"
    lines = [
        "# The ledger of claims",
        "",
        f"Written by `leadline claims --all{' --full' if setting == 'full' else ''} --log`, version {VERSION}, {day}.",
        "",
        "| claim | what is measured | expected | measured | verdict |",
        "|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        for name, verdict, expected, measured, what in rows(outcome):
            lines.append(f"| {name} | {what} | {expected} | {measured} | {verdict} |")
    lines += ["", f"{count(outcomes)}.", "", "## What is claimed, and by whom", ""]
    for outcome in outcomes:
        claim = outcome.claim
        misprint = f" Misprint: {claim.misprint}." if claim.misprint else ""
        lines.append(f"- **{claim.name}**: {claim.statement} ({claim.source}).{misprint}")
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    """A measured number for a table.

    >>> number(64.0), number(0.123456)
    ('64', '0.1235')
    """
    whole = value == value and abs(value) < 1e15 and value == int(value)
    return f"{value:,.0f}" if whole else f"{value:.4g}"
