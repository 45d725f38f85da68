"""What `evaluate` says of a run that translates: BLEU and chrF beside a translation memory, and a few sentences."""

from __future__ import annotations

from typing import Any

from leadline.cli.screen import Screen
from leadline.run import Run
from leadline.translation import scores, translates

_FEW = 3  # sentences that are shown


def translated(run: Run, split: str, screen: Screen) -> dict[str, Any]:
    """What the answer says more of a run of pairs; nothing of any other."""
    if not translates(run):
        return {}
    found = scores(run, split)
    part = "" if len(found.sources) == found.rows else f", {len(found.sources):,} of {found.rows:,} sentences"
    screen.table(
        ("translations", "BLEU", "chrF"),
        [
            ("of the model", f"{found.model.bleu:.1f}", f"{found.model.chrf:.1f}"),
            ("of the nearest sentence known", f"{found.memory.bleu:.1f}", f"{found.memory.chrf:.1f}"),
        ],
        title=f"beam search on {split}{part}",
    )
    for row in range(min(_FEW, len(found.sources))):
        screen.say(f"\n  source      {found.sources[row]}")
        screen.say(f"  reference   {found.references[row]}")
        screen.say(f"  model       {found.translations[row]}")
        screen.say(f"  memory      {found.remembered[row]}")
    return {"translation": found.to_dict(_FEW)}
