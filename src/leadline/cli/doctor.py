"""Say what is wrong: with data and a model before they are trained, or with a run, from its record.

Exit code 1 when something of severity error is found, else 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from leadline.cli import offered, recipe, usual
from leadline.cli.flag import Flag
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import extra_words
from leadline.data import find_task
from leadline.doctor.finding import Finding
from leadline.errors import UserError

USAGE = "leadline doctor SOURCE [flags]   or   leadline doctor RUN"
EXAMPLES = (
    "leadline doctor cars.csv --target price",
    "leadline doctor mnist1d --model MLP --hidden 100 --label-noise 0.1",
    "leadline doctor photos/",
    "leadline doctor runs/first --json",
)
MORE = "Data and model take the flags that `leadline train` takes; nothing is trained."


def flags(argv: Sequence[str]) -> list[Flag]:
    what = offered.find_source(argv, ())
    if what is not None and is_run(what):
        return []
    kind = usual.model_type(argv, what)
    family = offered.likelihood_flags(offered.likelihood_name(argv))
    return [*offered.choice_flags(), *offered.model_flags(kind), *family, *offered.data_flags(what, kind, argv)]


arranged = offered.arranged


def explain(argv: Sequence[str]) -> Callable[[str], UserError | None]:
    what = offered.find_source(argv, ())
    return (lambda name: None) if what is not None and is_run(what) else offered.explain(argv)


def run(line: Line, screen: Screen) -> int:
    what = recipe.need_source("doctor", line.words[0] if line.words else None)
    extra_words("doctor", line.words, 1)
    findings = recorded(Path(what)) if is_run(what) else before(what, line, screen)
    screen.findings(findings)
    if not findings:
        screen.say("nothing wrong found")
    screen.answer({"source": what, "findings": [finding.to_dict() for finding in findings]})
    return int(any(finding.severity == "error" for finding in findings))


def is_run(what: str) -> bool:
    """Whether the word names a run's folder rather than data."""
    folder = Path(what)
    if not folder.is_dir() or (folder / "run.json").exists():
        return folder.is_dir()
    return find_task(folder) == "none" and usual.reader(what) not in ("idx", "text")


def recorded(folder: Path) -> list[Finding]:
    """What was found while the run trained, as its folder tells."""
    from leadline.engine.record import Record

    return [Finding(**entry) for entry in Record.open(folder).findings()]


def before(what: str, line: Line, screen: Screen) -> list[Finding]:
    """What stands in the way of training."""
    import leadline as ll

    made = recipe.make(what, line)
    screen.account(*offered.columns_shown(made.data, what, line.of("data")))
    return ll.doctor.before(made.model, made.data, made.likelihood)
