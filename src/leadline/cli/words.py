"""The words that stand beside a verb's flags: how many there may be, and what they must be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leadline.cli.line import Line
from leadline.errors import RunError, UserError


def extra_words(verb: str, words: Sequence[str], most: int) -> None:
    """Refuse words beyond those that a verb takes."""
    if len(words) > most:
        raise UserError(
            f"leadline {verb} takes {most} word{'' if most == 1 else 's'} besides its flags",
            got=", ".join(repr(word) for word in words[:6]),
            do=f"Quote a name that has spaces in it; `leadline {verb} --help` shows the form",
        )


def need_run(verb: str, line: Line, words: int = 1) -> Path:
    """The run's folder, which is the first word; the verb takes `words` of them."""
    if not line.words:
        raise RunError(
            f"leadline {verb} needs the folder of a run",
            got="no RUN",
            do="Name its folder, such as runs/first: `leadline list runs` shows them",
        )
    extra_words(verb, line.words, words)
    return Path(line.words[0])
