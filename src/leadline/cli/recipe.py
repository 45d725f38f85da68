"""What a command line asks for, made: data, likelihood, model, rule, settings. `train`, `doctor` and `show` share it.

Which flags there are depends on the source and the model, so both are looked up before the line is parsed.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from leadline import init
from leadline.cli.flag import Flag, field_docs, flags_of, kind_of
from leadline.cli.line import Line, first_word, is_flag, peek
from leadline.data import SOURCES, find_task, is_path, load, reader_of, source
from leadline.data.data import Data
from leadline.data.folder import no_pictures, survey
from leadline.data.graph_inputs import GraphInputs
from leadline.data.pictures import Pictures
from leadline.data.sequence_inputs import Sequences
from leadline.data.series_windows import Windows
from leadline.data.set_inputs import Sets
from leadline.data.table import ENDINGS
from leadline.data.tokens import Tokens
from leadline.errors import DataError, UnknownName, UserError
from leadline.flags import RESERVED, shell_words
from leadline.interop.beginning import Beginning, beginning
from leadline.likelihoods import DEFAULTS, FROM_TARGET, LIKELIHOODS, Likelihood
from leadline.likelihoods import choices as likelihood_choices
from leadline.models import FROM_DATA, MODELS, build, lora
from leadline.names import lookup
from leadline.optim import OBJECTS, RULES, Rule, check_alone, likelihood_of, own_rule, rule_from, told
from leadline.optim import choices as rule_choices
from leadline.regularize import regularizers
from leadline.settings import Settings, whole

DEFAULT_MODEL = "MLP"
#: what is trained on pictures where nobody names a model, by what is asked of them
PICTURE_MODELS = {"pixels": "UNet", "boxes": "GridDetector", "points": "Hourglass"}
PICTURE_MODEL = "ConvNet"
#: and on text
TEXT_MODELS = {"next": "GPT", "pairs": "Transformer", **dict.fromkeys(("masked", "classes", "tags", "spans"), "BERT")}
#: and on series and sequences
STEP_MODEL = "Recurrent"
#: and on graphs
GRAPH_MODEL = "GCN"
GRAPHS = ("graph", "karate", "communities", "random_graphs", "molecules")
#: and on sets, of points and of others
POINT_MODEL, SET_MODEL = "PointNet", "DeepSets"
WORDED = ("text", "source", "task")  # options that make a table one of text
#: options that make a file one of series, of sequences or of sets
STEPPED = {"horizon": "series", "sequence": "sequences", "field": "sequences", "set": "sets", "coordinates": "sets"}
#: and one of graphs
JOINED = {"edges": "graph", "ends": "graph", "level": "graph"}
FINE_LR = 1e-4  # for weights that have learned already
LOW_RANK_LR = 1e-3  # for updates beside them
MOST_COLUMNS = 12  # of which train and doctor tell
_GRAPH_DECAY = 5e-4
_SAMPLED, _STEPS = 1024, 800  # rows a step and steps, where a part of a graph is read for each
_FEW = 2  # families that a heading of --help names


@dataclass(frozen=True, eq=False)
class Made:
    """Everything that a run is fitted from; `note` tells of a rule that nobody named."""

    data: Data
    likelihood: Likelihood
    model: nn.Module
    settings: dict[str, Any]
    rule: Rule | None = None
    note: str = ""


def model_type(argv: Sequence[str], what: str | None = None) -> type[nn.Module]:
    """The model that `--model` names, that `--from` holds, or that SOURCE is trained with by default."""
    folder = peek(argv, "--from")
    named = peek(argv, "--model") or (beginning(folder).name if folder else None)
    return lookup(named or default_model(what, peek(argv, "--task"), argv), MODELS, "model")


def default_model(what: str | None, task: str | None = None, argv: Sequence[str] = ()) -> str:
    """What is trained on SOURCE where nobody names a model; no data are read for it."""
    if what is not None and reader(what, argv) == "text":
        asked = "pairs" if peek(argv, "--source") else "classes" if peek(argv, "--text") else "next"
        return TEXT_MODELS.get(task or asked, TEXT_MODELS["next"])
    if what is not None and reader(what, argv) in ("sets", "solids"):
        return POINT_MODEL if what == "solids" or peek(argv, "--coordinates") not in (None, "0") else SET_MODEL
    if what is not None and reader(what, argv) in STEPPED.values():
        return STEP_MODEL
    if what is not None and reader(what, argv) in GRAPHS:
        return graph_model(peek(argv, "--relation") is not None, "--directed" in argv)
    if what == "scenes":
        return PICTURE_MODELS.get(task or "pixels", PICTURE_MODEL)
    if what is None or reader(what) not in ("images", "idx"):
        return DEFAULT_MODEL
    path = Path(what)
    return PICTURE_MODELS.get(find_task(path) if path.is_dir() else "classes", PICTURE_MODEL)


def default_for(data: Data) -> str:
    """The same, of data that have been read."""
    if isinstance(data.inputs, Tokens):
        return TEXT_MODELS[data.inputs.task]
    if isinstance(data.inputs, Sets):
        return POINT_MODEL if data.inputs.coordinates else SET_MODEL
    if isinstance(data.inputs, (Windows, Sequences)):
        return STEP_MODEL
    if isinstance(data.inputs, GraphInputs):
        return graph_model(len(data.inputs.relations) > 1, data.inputs.roles.directed)
    if not isinstance(data.inputs, Pictures):
        return DEFAULT_MODEL
    return PICTURE_MODELS.get(data.target.kind, PICTURE_MODEL)


def graph_model(related: bool, directed: bool) -> str:
    """What is trained on a graph: one that tells kinds of edges apart where there are some, and not GCN, whose layers
    are of edges without a direction, where they have one.

    >>> graph_model(False, False), graph_model(False, True), graph_model(True, True)
    ('GCN', 'GraphSAGE', 'RelationalGCN')
    """
    return "RelationalGCN" if related else "GraphSAGE" if directed else GRAPH_MODEL


def usual_settings(data: Data) -> dict[str, Any]:
    """Settings that suit the data, where nobody names others: pictures are many, and each takes long.

    Epochs are such that about 400,000 pictures are seen, from 8 to 60. Pictures are moved a little, and where places
    matter also mirrored and changed in colour; classes may be letters, which a mirror makes into others.

    Of text about six million tokens are seen, in 1 to 30 epochs, with gradients clipped and the decay on matrices
    alone, as language models are trained. Of series and sequences about 300,000 rows are seen, in 10 to 60 epochs; a
    series has few windows, so that the rate is high. Of sets about 50,000 are seen, in 10 to 100 epochs.

    Of nodes and pairs of nodes all are asked in one step, since each needs the whole graph, for 200 steps; where a word
    says what a batch reads of it, 1,024 of them, or a quarter, for about 800 steps, in 10 to 200 epochs. Graphs come in
    batches, for about 20,000 of them, in 30 to 200 epochs.
    """
    if isinstance(data.inputs, Sets):
        return {"epochs": max(10, min(100, round(5e4 / len(data.train)))), "batch": 32, "clip": 1.0}
    if isinstance(data.inputs, GraphInputs):
        count, own = len(data.train), {"lr": 1e-2, "weight_decay": _GRAPH_DECAY}
        if data.inputs.level == "graph":
            return {"epochs": max(30, min(200, round(20_000 / count))), "batch": 32, **own}
        if data.inputs.graph is not None and data.inputs.graph.batches is not None:
            batch = min(_SAMPLED, max(1, count // 4))
            return {"epochs": max(10, min(200, round(_STEPS * batch / count))), "batch": batch, **own}
        return {"epochs": 200, "batch": count, **own}
    if isinstance(data.inputs, Tokens):
        count, length = data.train.x.shape
        epochs = max(1, min(30, round(6e6 / max(1, count * length))))
        batch = max(8, min(64, 16_384 // length, count // 20))
        return {"epochs": epochs, "batch": batch, "lr": 1e-3, "clip": 1.0, "decay_on": "matrices"}
    if isinstance(data.inputs, (Windows, Sequences)):
        epochs = max(10, min(60, round(3e5 / len(data.train))))
        return {"epochs": epochs, "clip": 1.0, **({"lr": 1e-2} if isinstance(data.inputs, Windows) else {})}
    if not isinstance(data.inputs, Pictures):
        return {}
    count, side = len(data.train), min(data.inputs.size)
    words: tuple[str, ...] = ("affine(10, 0.1, 0.2)", "colour(0.2, 0.2, 0.2)")
    if data.target.kind in ("pixels", "boxes"):
        words = ("flip", *words)
    elif data.target.kind != "points":
        words = (f"crop({max(1, side // 14)})",)
    epochs, batch = max(8, min(60, round(400_000 / count))), 128 if count >= 4000 else 32
    return {"epochs": epochs, "batch": batch, "regularize": words}


def told_settings(usual: dict[str, Any], chosen: dict[str, Any]) -> str:
    """What was chosen for pictures or text, where nobody named it."""
    words = [shell_words(name, value) for name, value in usual.items() if name not in chosen]
    what = "these pictures" if "regularize" in usual else "this text" if "decay_on" in usual else "these rows"
    what = "this graph" if usual.get("weight_decay") == _GRAPH_DECAY else what
    return f"for {what}, where nothing else is said: {' '.join(words)}" if words else ""


def reader(what: str, argv: Sequence[str] = ()) -> str:
    """The source that reads SOURCE: its own name, or for a path the one that reads such files.

    A table is text where the line names columns of it; so is a folder that has pictures too, where the words in it are
    asked for.
    """
    said = (*WORDED, *STEPPED, *JOINED)
    return read_by(what, {word: peek(argv, f"--{word}") for word in said if peek(argv, f"--{word}")})


def read_by(what: str, options: Mapping[str, Any]) -> str:
    """The same, by the options that are given to the data."""
    name = what if what in SOURCES else reader_of(what) if is_path(what) or Path(what).is_dir() else what
    stepped = [source for word, source in (*JOINED.items(), *STEPPED.items()) if options.get(word) is not None]
    if stepped and name != what:
        return stepped[0]
    if name == "images" and options.get("task") in ("next", "masked"):
        return "text"
    return "text" if name == "table" and any(word in options for word in WORDED) else name


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
    help_ = f"how it learns, in place of gradient descent: {known}; by default as the model is made for"
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
    usual = f"by default {DEFAULT_MODEL}, for pictures {PICTURE_MODEL}, or as their masks, boxes or points ask, "
    usual += f"for text {TEXT_MODELS['next']}, or as its task asks, for series and sequences {STEP_MODEL}, "
    usual += f"for sets {SET_MODEL}, or {POINT_MODEL} where they have coordinates, for graphs {GRAPH_MODEL}, or as the "
    usual += "direction and the kinds of their edges ask"
    return [
        Flag("model", help=f"what is trained: {models}; {usual}", group="what is trained"),
        Flag("likelihood", help=f"{families}; by default as the target asks", group="what is trained"),
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
    is_table = what is not None and reader(what, argv) == "table" and is_path(what) and Path(what).is_file()

    def reason(flag: str) -> UserError | None:
        if peek(argv, "--model") is None and what is not None:
            _need_place(what)
        if is_table and flag in of_text:
            return UnknownName(
                "a table must be read as text for a flag of text",
                got=f"{flag}, and no column of text",
                do="Name one: --text COLUMN, --source COLUMN, or --task pairs for two columns without names",
            )
        stepped = [first for first, own in of_steps.items() if flag in own]
        if is_table and stepped:
            return UnknownName(
                "a table must be read as series, sequences, sets or a graph for a flag of theirs",
                got=f"{flag} without {' or '.join(first.split()[0] for first in stepped)}",
                do=f"Add {' or '.join(stepped)}, or leave {flag} out",
            )
        for kind, (name, flags) in chosen.items():
            have = [other for other in flags if flag in (word for own in flags[other] for word in own.spellings)]
            if have:
                own = ", ".join(own.name for own in flags[name]) or "no options of its own"
                return UnknownName(
                    f"{kind} {name} must be given flags that it has",
                    got=f"{flag}, which {name} does not have",
                    do=f"{name} has {own}; {flag} is of --{kind} {' or '.join(have)}",
                )
        have = [name for name, flags in of_rules.items() if flag in (own.name for own in flags)]
        if have:
            return UnknownName(
                "a flag of a rule must come with the rule", got=flag, do=f"It is of `train --rule {' or '.join(have)}`"
            )
        return None

    return reason


def _need_place(what: str) -> None:
    """Refuses a path where nothing is, or a folder with nothing to read: which flags there are follows from it."""
    path = Path(what).expanduser()
    if is_path(what) and not path.exists():
        raise DataError("SOURCE must be a file or a folder that is there", got=f"no {what}", do="Check its name")
    if path.is_dir() and reader(what) == "images":
        folder = survey(path)
        if not folder.pictures:
            raise no_pictures(folder)


def columns_shown(data: Data, what: str, options: dict[str, Any]) -> tuple[str, str]:
    """The account with the first columns of a wide table, and the command that shows them all, where some are left."""
    if len(data.account.columns) <= MOST_COLUMNS + 1:
        return str(data.account), ""
    taken = {flag.option for flag in data_flags(what, MODELS[DEFAULT_MODEL]) if flag.name.startswith("--data-")}
    words = [shell_words(option, value, taken) for option, value in options.items()]
    command = " ".join(["leadline show data", shlex.quote(what), *filter(None, words)])
    return data.account.told(MOST_COLUMNS), command


def need_source(verb: str, what: str | None) -> str:
    """SOURCE, or the message that it is missing."""
    if what is None:
        some = ", ".join([*SOURCES][:6])
        raise UserError(
            f"leadline {verb} must be told which data, right after the verb",
            got="no SOURCE",
            do=f"Name a file such as cars.csv, or one of {some} …: `leadline list data` shows them all",
        )
    return what


def make_data(what: str, options: dict[str, Any]) -> Data:
    """The data of a source or a file."""
    name = read_by(what, options)
    if name == what:
        return load(what, **options)
    if name in ("table", "series") and "target" not in options:
        from leadline.data.table import read_rows

        names = list(read_rows(what, bad_rows="refuse").columns)
        more = f" … ({len(names)} in all)" if len(names) > 20 else ""
        texts = ""
        if name == "table":
            texts = "; where words are to be learned, also --text with one, or, for two columns of translations, "
            texts += "--task pairs alone"
        raise DataError(
            f"a table needs --target, the column to predict, and {what} must have it",
            got="no --target",
            do=f"Add --target with one of its columns: {', '.join(names[:20])}{more}{texts}",
        )
    return load(name, path=Path(what), **options)


def make(what: str, line: Line, data: Data | None = None) -> Made:
    """Data, likelihood, model and settings that the line asks for."""
    settings = line.of("setting")
    checked = Settings.make(**settings)  # before data are read: a slip in a flag should not cost the wait
    init.named(checked.init)
    regularizers(checked.regularize)
    if line.get("model") is not None:
        lookup(line.get("model"), MODELS, "model")
    rule = rule_from(line.get("rule"), **line.of("rule")) if line.get("rule") is not None else None
    if rule is not None:
        check_alone(type(rule).__name__, settings)
    family = line.get("likelihood")
    if family is not None:
        lookup(family, LIKELIHOODS, "likelihood")
    begun = begun_from(line)
    data = data or make_data(what, {**_tokenizer_of(begun, what, line.of("data")), **line.of("data")})
    name = line.get("model") or (begun.name if begun else default_for(data))
    model_class = lookup(name, MODELS, "model")
    usual = usual_settings(data)
    if rule is not None:  # what is of gradient descent alone was not asked for
        usual = {name: value for name, value in usual.items() if name in ("epochs", "batch", "regularize")}
    rank = line.get("lora")
    slow = {"lr": FINE_LR if rank is None else LOW_RANK_LR} if begun and "lr" not in settings else {}
    pictures = told_settings(usual, {**slow, **settings})
    settings = {**usual, **slow, **settings}
    made_for = own_rule(model_class, data.target) if rule is None and "optimizer" not in settings else None
    if made_for is not None:
        check_alone(made_for, settings, model_class.__name__)
        rule = rule_from(made_for, **line.of("rule"))
    by = None if rule is None else type(rule).__name__
    likelihood = likelihood_of(model_class, data.target, by, family, **line.of("likelihood"))
    note = told(model_class, made_for, likelihood, "--optimizer adamw") if made_for else pictures
    if begun is None:
        model = build(name, data, likelihood.dim_output, seed=checked.seed, **line.of("model"))
    else:
        model, filled = begun.build(data, likelihood.dim_output, checked.seed, **line.of("model"))
        if rank is not None:
            lora(model, rank, moving=filled.new, seed=checked.seed)
        lr = f"; {shell_words('lr', settings['lr'])}, where nothing else is said" if slow else ""
        note = "\n".join(filter(None, [f"{name} begun from {begun.path}: {filled}{lr}", note]))
    return Made(data, likelihood, model, settings, rule, note)


def begun_from(line: Line) -> Beginning | None:
    """What `--from` names, if the rest of the line goes with it."""
    if line.get("from") is None:
        if line.get("lora") is not None:
            raise UserError("--lora teaches a model that has learned", got="no --from", do="Name one by --from FOLDER")
        return None
    found, settings = beginning(line.get("from")), line.of("setting")
    if line.get("lora") is not None:
        whole("lora", line.get("lora"), usual=8)
    named = line.get("model")
    if named is not None and lookup(named, MODELS, "model").__name__ != found.name:
        raise UserError(
            "--model must be the one that --from holds",
            got=f"{named}, where it holds a {found.name}",
            do="Leave it out",
        )
    for option, usual in (("init", "own"), ("init_scale", 1.0)):
        if settings.get(option, usual) != usual:
            raise UserError(
                f"--{option.replace('_', '-')} draws first weights, and --from brings them",
                got=f"{settings[option]} beside --from {found.path}",
                do="Leave one of them out",
            )
    if line.get("folds") is not None:
        raise UserError("folds begin from first weights", got="--folds beside --from", do="Leave one of them out")
    return found


def _tokenizer_of(begun: Beginning | None, what: str, options: dict[str, Any]) -> dict[str, Any]:
    """Text is cut as it was for the weights that a model begins from."""
    if "tokenizer" not in inspect.signature(source(read_by(what, options))).parameters:
        return {}
    given = options.get("tokenizer") or (begun.tokenizer if begun else None)
    for name in ("kind", "num_tokens", "target_kind") if given else ():
        if options.get(name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UserError(
                f"{flag} is of a tokenizer that is trained", got=f"{flag} beside {given}", do="Leave one of them out"
            )
    if begun is None or options.get("tokenizer"):
        return {}
    if begun.tokenizer is None and "num_tokens" in begun.config:
        raise DataError(
            "weights that read text must come with the tokenizer that they were trained with",
            got=f"no tokenizer.json in {begun.path}",
            do="Put it there, as AutoTokenizer's save_pretrained does, or name its file with --tokenizer",
        )
    if begun.source_tokenizer is not None:
        return {"tokenizer": str(begun.source_tokenizer), "target_tokenizer": str(begun.tokenizer)}
    return {"tokenizer": str(begun.tokenizer)} if begun.tokenizer else {}
