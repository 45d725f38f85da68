"""Search over settings: many trials, trained as populations; what was best, and what mattered."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leadline.cli import offered, recipe, usual
from leadline.cli.flag import Flag, Kind
from leadline.cli.folded import check_rows
from leadline.cli.line import Line
from leadline.cli.screen import Screen, figure, finite
from leadline.cli.train import fresh_folder
from leadline.cli.words import extra_words
from leadline.data.account import counted
from leadline.errors import UserError
from leadline.flags import flag_name, shell_words

USAGE = "leadline search SOURCE --space NAME=RANGE ... [flags]"
EXAMPLES = (
    "leadline search mnist1d --space lr=log:1e-4:1e-1 hidden=choice:50:100,100",
    "leadline search cars.csv --target price --space lr=log:1e-4:1e-1 --folds 5",
    "leadline search moons --space batch=logint:8:64 --trials 32 --storage s.db",
)
MORE = (
    "A RANGE is log:LOW:HIGH, uniform:LOW:HIGH, int:LOW:HIGH, logint:LOW:HIGH or choice:A:B:C, where commas make a "
    "list (100,100). @NAME=VALUE after it searches it only where NAME has that value: "
    "momentum=uniform:0.5:0.99@optimizer=sgd. Names are those of the flags of settings and model. The same command "
    "with the same --storage continues a search, or joins one that runs; finished trials are kept."
)

OWN = (
    Flag(
        "space",
        Kind((str,), many=True, named=True),
        help="the flags to search over, and the range of each",
        group="the search",
    ),
    Flag("trials", Kind((int,)), help="how many trials the whole search runs", default=64, group="the search"),
    Flag(
        "method",
        help="tpe, random, gp, forest or bandit; hyperband and bohb stop poor trials early",
        default="tpe",
        group="the search",
    ),
    Flag(
        "folds",
        Kind((int,), optional=True),
        help="judge each trial by its mean over this many folds",
        group="the search",
    ),
    Flag("together", Kind((int,)), help="how many trials are trained at once", default=16, group="the search"),
    Flag(
        "storage",
        help="file that keeps the trials: SQLite if it ends in .db, else JSON lines; or a database",
        group="the search",
    ),
    Flag("search_seed", Kind((int,)), help="seed for the proposed trials", default=0, group="the search"),
    Flag("folder", help="where figure and table are kept, by default runs/<time>-<data>-search", group="the search"),
)


def flags(argv: Sequence[str]) -> list[Flag]:
    what = offered.find_source(argv, OWN)
    kind = usual.model_type(argv, what)
    data = offered.data_flags(what, kind, argv)
    family = offered.likelihood_flags(offered.likelihood_name(argv))
    return [*offered.choice_flags(), *OWN, *offered.model_flags(kind), *family, *data, *offered.setting_flags()]


def arranged(argv: Sequence[str]) -> list[str]:
    return offered.arranged(argv, OWN)


explain = offered.explain


def run(line: Line, screen: Screen) -> int:
    import leadline as ll

    what = recipe.need_source("search", line.words[0] if line.words else None)
    extra_words("search", line.words, 1)
    named = [f"--model={line.get('model')}"] if line.get("model") is not None else []
    kind = usual.model_type(named, what)
    searched = {flag.option: flag for flag in (*offered.setting_flags(), *offered.model_flags(kind))}
    space = spaces(line.get("space") or {}, searched)
    check_rows(line, what)
    made = recipe.make(what, line)
    if made.rule is not None:
        raise UserError(
            "a search needs a model that learns by gradient descent",
            got=f"{type(made.model).__name__}, which learns by {type(made.rule).__name__}",
            do="Add --optimizer adamw",
        )
    folder = Path(line.get("folder") or fresh_folder(made.data.name, "search"))
    storage = line.get("storage") or str(folder / "trials.jsonl")
    screen.say(
        f"trials are kept in {storage}; the same command with --storage {shlex.quote(storage)} continues the search"
    )
    screen.stream.flush()
    given = {name: line.get(name) for name in ("trials", "method", "folds", "together", "search_seed")}
    # what suits the data gives way to a range; what the line says itself does not
    settings = {k: v for k, v in made.settings.items() if k not in space or ("setting", k) in line.values}
    found = ll.search(
        made.model,
        made.data,
        space,
        storage=storage,
        likelihood=made.likelihood,
        **{name: value for name, value in given.items() if value is not None},
        **settings,
    )
    folder.mkdir(parents=True, exist_ok=True)
    answer = found.to_dict()
    command = train_command(what, line, found.best, flags([what, f"--model={kind.__name__}"]))
    test = dict(found.scores.ensemble or {}) if found.scores else dict(found.run.evaluate("test")) if len(
        made.data.test
    ) else {}  # fmt: skip
    (folder / "search.json").write_text(json.dumps(finite(answer), ensure_ascii=False, indent=1) + "\n", "utf-8")
    found.plot().savefig(folder / "search.png")
    _tell(found, test, screen)
    screen.say(f"kept in {shlex.quote(str(folder))}: search.json, search.png; trials in {storage}")
    screen.say("to train the best:")
    screen.command(command)
    screen.answer({"folder": folder, "storage": storage, "command": command, "test": test, **answer})
    return 0


def _tell(found: Any, test: dict[str, float], screen: Screen) -> None:
    ended = [trial for trial in found.trials if trial.score is not None]
    sign = 1 if found.higher_is_better else -1
    finished = [trial for trial in ended if trial.state == "finished"]
    rows = [
        [trial.number + 1, figure(trial.score), trial.epochs, *(_cell(trial.values.get(name)) for name in found.names)]
        for trial in sorted(finished, key=lambda trial: -sign * trial.score)[:8]
    ]
    screen.say()
    screen.table(["trial", f"val {found.metric}", "epochs", *found.names], rows, title="the best trials")
    screen.say()
    if found.importances:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in found.importances.items())
        screen.say(f"what mattered, as shares of the variance of the scores: {shares}")
    states: dict[str, int] = {}
    for trial in found.trials:
        states[trial.state] = states.get(trial.state, 0) + 1
    told = ", ".join(f"{count} {state}" for state, count in states.items())
    screen.say(f"{counted(len(found.trials), 'trial')} ({told}), {found.seconds:.1f} s in this process")
    if test:
        whose = "mean prediction of the best's folds" if found.scores else "best"
        screen.say(f"the {whose} on test rows: " + ", ".join(f"{name} {figure(v)}" for name, v in test.items()))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return (
        figure(value)
        if isinstance(value, float)
        else " ".join(map(str, value))
        if isinstance(value, tuple)
        else str(value)
    )


def spaces(texts: dict[str, str], known: dict[str, Flag]) -> dict[str, Any]:
    """What `--space` says, its choices read as the flags of that name read them."""
    from leadline.selection.space import parse, word

    if not texts:
        raise UserError(
            "a search needs something to search over",
            got="no --space",
            do="Write for example --space lr=log:1e-4:1e-1; `leadline search --help` shows the forms",
        )
    reader = lambda flag: lambda text: flag.read([text])  # noqa: E731
    read = {option: reader(flag) for option, flag in known.items()}
    return {
        (option := name.replace("-", "_")): parse(text, read.get(option, word), read) for name, text in texts.items()
    }


def train_command(what: str, line: Line, best: dict[str, Any], known: Sequence[Flag]) -> str:
    """The line that trains one setting."""
    names = {(flag.owner, flag.option): flag.name for flag in known}
    kept = {key: value for key, value in line.values.items() if key[0] != "verb" or key[1] in ("model", "likelihood")}
    for option, value in best.items():
        kept[("model" if ("model", option) in names else "setting", option)] = value
    words = ["leadline train", shlex.quote(what)]
    for (owner, option), value in kept.items():
        own = names.get((owner, option), flag_name(option))
        text = shell_words(option, value)
        words.append(text.replace(flag_name(option), own, 1) if text else "")
    return " ".join(word for word in words if word)
