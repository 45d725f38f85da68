"""What is said of a run that translates: BLEU, chrF and errors beside a translation memory's, and a few sentences."""

from __future__ import annotations

from typing import Any

from leadline.cli.screen import Screen
from leadline.data.data import Split
from leadline.errors import UserError
from leadline.run import Run
from leadline.text.translation import Errors, Quality
from leadline.translation import scores, translates

_FEW = 3  # sentences that are shown
AT_THE_END = 500  # sentences that are translated after a training


def translated(run: Run, split: str, screen: Screen, rows: Split | None = None) -> dict[str, Any]:
    """What the answer says more of a run of pairs; nothing of any other.

    Args:
        split: its name.
        rows: in place of it, of a file called so.
    """
    return _told(run, split, screen, rows, None) if translates(run) else {}


def translated_at_the_end(run: Run, split: str, screen: Screen) -> dict[str, Any]:
    """The same of some hundred sentences after a training, which a missing package does not spoil."""
    if not translates(run):
        return {}
    screen.say()
    try:
        return _told(run, split, screen, None, AT_THE_END)
    except UserError as error:
        screen.say(f"no translations are scored: {error}")
        return {}


def _told(run: Run, split: str, screen: Screen, rows: Split | None, most: int | None) -> dict[str, Any]:
    found = scores(run, split if rows is None else rows, most=most)
    part = "" if len(found.sources) == found.rows else f", {len(found.sources):,} of {found.rows:,} sentences"
    few = "" if len(found.asked) == len(found.sources) else f", of {len(found.asked):,}"
    screen.table(
        ("translations", "BLEU", "chrF", "not exact", "wrong symbols"),
        [
            ("of the model", *_figures(found.model, found.model_errors)),
            (f"of the nearest sentence known{few}", *_figures(found.memory, found.memory_errors)),
        ],
        title=f"beam search on {split}{part}",
    )
    for example in found.examples(_FEW):
        screen.say(f"\n  source      {example['source']}")
        screen.say(f"  reference   {example['reference']}")
        screen.say(f"  model       {example['translation']}")
        screen.say(f"  memory      {example['remembered']}")
    return {"translation": found.to_dict(_FEW)}


def _figures(quality: Quality, errors: Errors) -> tuple[str, ...]:
    return f"{quality.bleu:.1f}", f"{quality.chrf:.1f}", f"{errors.inexact:.1%}", f"{errors.symbols:.1%}"
