"""The flags that a line may have: of data, model, likelihood, rule and settings. `train`, `doctor`, `search` and `show`
share them.

Which there are depends on the source and the model, so both are looked up before the line is parsed.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import nn

from leadline.cli.flag import Flag, field_docs, flags_of, kind_of
from leadline.cli.line import first_word, is_flag, peek
from leadline.cli.usual import (
    DEFAULT_MODEL,
    GRAPH_MODEL,
    PICTURE_MODEL,
    POINT_MODEL,
    SET_MODEL,
    STEP_MODEL,
    TEXT_MODELS,
    model_type,
    reader,
)
from leadline.data import is_path, source
from leadline.data.data import Data
from leadline.data.folder import no_pictures, survey
from leadline.data.table import ENDINGS, check_file
from leadline.errors import DataError, UnknownName, UserError
from leadline.flags import RESERVED, shell_words
from leadline.likelihoods import DEFAULTS, FROM_TARGET, LIKELIHOODS
from leadline.likelihoods import choices as likelihood_choices
from leadline.models import FROM_DATA, MODELS
from leadline.names import lookup
from leadline.optim import OBJECTS, RULES, Rule
from leadline.optim import choices as rule_choices
from leadline.settings import Settings

MOST_COLUMNS = 12  # of which train and doctor tell
_FEW = 2  # families that a heading of --help names


def likelihood_name(argv: Sequence[str]) -> str | None:
    """What `--likelihood` names."""
    return peek(argv, "--likelihood")


def model_flags(kind: type[nn.Module]) -> list[Flag]:
    """The options that a user of the model chooses."""
    return flags_of(kind, "model", group=f"model {kind.__name__}", skip=FROM_DATA)


def likelihood_flags(name: str | None) -> list[Flag]:
    """The options that a user of the named likelihood chooses; of every target's default where the target picks it."""
    defaults = [LIKELIHOODS[default] for default in dict.fromkeys(DEFAULTS.values())]
    families = defaults if name is None else [lookup(name, LIKELIHOODS, "likelihood")]
    owners: dict[str, list[str]] = {}
    found: dict[str, Flag] = {}
    for family in families:
        usual = likelihood_choices(family)
        for flag in flags_of(family, "likelihood", group="", skip=FROM_TARGET):
            owners.setdefault(flag.option, []).append(family.__name__)
            found.setdefault(flag.option, replace(flag, default=usual[flag.option].default))
    heading = lambda names: " or ".join(names) if len(names) <= _FEW else f"{names[0]} and others"  # noqa: E731
    return [replace(flag, group=f"likelihood {heading(owners[option])}") for option, flag in found.items()]


def rule_flags(argv: Sequence[str], what: str | None = None) -> list[Flag]:
    """`--rule`, and the options of the rule that it names, or that the model is made for."""
    name, kind = peek(argv, "--rule"), model_type(argv, what)
    if name is not None:
        chosen = [lookup(name, RULES, "rule")]
    else:
        own = getattr(kind, "own_rule", {}) if peek(argv, "--optimizer") is None else {}
        chosen = [RULES[rule] for rule in dict.fromkeys(own.values())]
    known = ", ".join(RULES)
    help_ = f"how the model learns instead of gradient descent: {known}; by default the one that the model is made for"
    flag = Flag("rule", help=help_, group="what is trained")
    return [flag, *(own for rule in chosen for own in _options_of(rule))]


def _options_of(rule: type[Rule]) -> list[Flag]:
    return flags_of(rule, "rule", group=f"rule {rule.__name__}", skip=OBJECTS)


def setting_flags() -> list[Flag]:
    """The fields of `Settings`."""
    docs, parameters = field_docs(Settings), inspect.signature(Settings, eval_str=True).parameters
    return [
        Flag(name, kind_of(p.annotation, p.default), "setting", docs.get(name, ""), p.default, group="settings")
        for name, p in parameters.items()
    ]


def data_flags(what: str | None, kind: type[nn.Module], argv: Sequence[str] = ()) -> list[Flag]:
    """The options of a source; none where it is not known yet. Those that collide are told apart by `data-`."""
    if what is None:
        return []
    others = (*setting_flags(), *model_flags(kind), *likelihood_flags(None))
    of_rules = {option for rule in RULES.values() for option in rule_choices(rule)}
    taken = {flag.option for flag in others} | of_rules | RESERVED
    name = reader(what, argv)
    heading = {"text": "data of text", "table": "data of a table", "images": "data of a folder of pictures"}
    heading |= {"series": "data of series", "sequences": "data of sequences", "graph": "data of a graph"}
    heading |= {"sets": "data of sets"}
    return flags_of(source(name), "data", group=heading.get(name, f"data {name}"), skip=("path",), taken=taken)


def choice_flags() -> list[Flag]:
    """What names a model and a likelihood."""
    models, families = ", ".join(MODELS), ", ".join(LIKELIHOODS)
    usual = (
        f"by default {DEFAULT_MODEL} for a table, {PICTURE_MODEL} for pictures (others for masks, boxes and points), "
    )
    usual += f"{TEXT_MODELS['next']} for text (others by its task), {STEP_MODEL} for series and sequences, "
    usual += (
        f"{SET_MODEL} for sets, {POINT_MODEL} for points, and {GRAPH_MODEL} for graphs (others by the direction and "
    )
    usual += "kinds of their edges)"
    return [
        Flag("model", help=f"the network: {models}; {usual}", group="what is trained"),
        Flag(
            "likelihood",
            help=f"distribution of the target, which gives the loss: {families}; by default chosen by the target",
            group="what is trained",
        ),
    ]


def find_source(argv: Sequence[str], own: Sequence[Flag]) -> str | None:
    """SOURCE, wherever it stands on the line."""
    return first_word(argv, _all_flags(argv, own))


def _all_flags(argv: Sequence[str], own: Sequence[Flag]) -> list[Flag]:
    """Every flag that a line for a table may have."""
    kind = model_type(argv)
    known = [*own, *choice_flags(), *model_flags(kind), *likelihood_flags(likelihood_name(argv)), *setting_flags()]
    return [*known, *rule_flags(argv), *data_flags("table.csv", kind)]


def arranged(argv: Sequence[str], own: Sequence[Flag] = ()) -> list[str]:
    """`argv` with SOURCE in front, where a flag that takes several words has swallowed it: --target price cars.csv."""
    argv = list(argv)
    if find_source(argv, own) is not None:
        return argv
    one_word = {flag.name for flag in _all_flags(argv, own) if not flag.kind.many and not flag.kind.switch}
    for place, word in enumerate(argv):
        if word.lower().endswith(ENDINGS) and not is_flag(word) and argv[place - 1] not in one_word:
            return [word, *argv[:place], *argv[place + 1 :]]
    return argv


def explain(argv: Sequence[str]) -> Callable[[str], UserError | None]:
    """What to say of a flag that another model, likelihood or rule has."""
    what = find_source(argv, ())
    chosen: dict[str, tuple[str, dict[str, list[Flag]]]] = {
        "model": (model_type(argv, what).__name__, {name: model_flags(kind) for name, kind in MODELS.items()})
    }
    family = likelihood_name(argv)
    if family is not None:
        name = lookup(family, LIKELIHOODS, "likelihood").__name__
        chosen["likelihood"] = (name, {other: likelihood_flags(other) for other in LIKELIHOODS})
    rule = peek(argv, "--rule") or next(iter(getattr(model_type(argv), "own_rule", {}).values()), None)
    of_rules = {other: _options_of(kind) for other, kind in RULES.items()}
    if rule is not None and peek(argv, "--optimizer") is None:
        chosen["rule"] = (lookup(rule, RULES, "rule").__name__, of_rules)

    of_text = {own.name for own in flags_of(source("text"), "data", group="", skip=("path",))}
    of_steps = {
        first: {own.name for own in flags_of(source(kind), "data", group="", skip=("path",))}
        for first, kind in (
            ("--horizon STEPS", "series"),
            ("--sequence COLUMN", "sequences"),
            ("--set COLUMN", "sets"),
            ("--edges FILE", "graph"),
        )
    }
    readings = ("series", "sequences", "sets", "graph")
    is_table = what is not None and reader(what, argv) == "table" and is_path(what) and Path(what).is_file()

    def reason(flag: str) -> UserError | None:
        if peek(argv, "--model") is None and what is not None:
            _need_place(what)
        if is_table and flag in of_text:
            return UnknownName(
                "this flag needs a table that is read as text",
                got=f"{flag}, and no column of text",
                do="Name the column: --text COLUMN, --source COLUMN, or --task pairs for two columns without names",
            )
        stepped = [first for first, own in of_steps.items() if flag in own]
        if what is not None and reader(what, argv) in readings and stepped and is_path(what):
            return UnknownName(
                "a table is read in one way: as series, sequences, sets or a graph, each with flags of its own",
                got=f"{flag} where it is read as {'a ' * (reader(what, argv) == 'graph')}{reader(what, argv)}",
                do=f"Leave {flag} out, or what asks for that reading",
            )
        if is_table and stepped:
            return UnknownName(
                "this flag needs a table that is read as series, sequences, sets or a graph",
                got=f"{flag} without {' or '.join(first.split()[0] for first in stepped)}",
                do=f"Add {' or '.join(stepped)}, or leave {flag} out",
            )
        for kind, (name, flags) in chosen.items():
            have = [other for other in flags if flag in (word for own in flags[other] for word in own.spellings)]
            if have:
                own = ", ".join(own.name for own in flags[name]) or "no options of its own"
                return UnknownName(
                    f"{kind} {name} does not have this flag",
                    got=flag,
                    do=f"{name} has {own}; {flag} is for --{kind} {' or '.join(have)}",
                )
        have = [name for name, flags in of_rules.items() if flag in (own.name for own in flags)]
        if have:
            return UnknownName(
                "a flag of a rule needs --rule", got=f"{flag} without its rule", do=f"Add --rule {' or '.join(have)}"
            )
        if is_table:
            others = {own for flags in of_steps.values() for own in flags}
            close = get_close_matches(flag, [*others, *(own.name for own in _all_flags(argv, ()))], n=1, cutoff=0.85)
            if close and close[0] in others:
                return UnknownName("a flag must be known", got=flag, do=f"Did you mean {close[0]}?")
        return None

    return reason


def _need_place(what: str) -> None:
    """Refuses a path where nothing is, or nothing that can be read: which flags there are follows from it."""
    path = Path(what).expanduser()
    if is_path(what) and not path.exists():
        raise DataError("SOURCE must be a file or a folder that exists", got=f"no {what}", do="Check its name")
    if path.is_dir() and reader(what) == "images":
        folder = survey(path)
        if not folder.pictures:
            raise no_pictures(folder)
    if path.is_file() and is_path(what) and reader(what) == "table":
        check_file(path)


def columns_shown(data: Data, what: str, options: dict[str, Any]) -> tuple[str, str]:
    """The account with the first columns of a wide table, and the command that shows them all, where some are left."""
    if len(data.account.columns) <= MOST_COLUMNS + 1:
        return str(data.account), ""
    taken = {flag.option for flag in data_flags(what, MODELS[DEFAULT_MODEL]) if flag.name.startswith("--data-")}
    words = [shell_words(option, value, taken) for option, value in options.items()]
    command = " ".join(["leadline show data", shlex.quote(what), *filter(None, words)])
    return data.account.told(MOST_COLUMNS), command
