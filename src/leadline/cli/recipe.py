"""What a command line asks for, made: data, likelihood, model, rule, settings. `train`, `doctor`, `search` and `show`
share it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from leadline import init
from leadline.cli.line import Line
from leadline.cli.usual import default_for, read_by, told_settings, usual_settings, usual_sizes
from leadline.data import SOURCES, load, source
from leadline.data.data import Data
from leadline.data.text import USUAL_LENGTH
from leadline.engine.device import pick_device
from leadline.errors import DataError, UserError
from leadline.flags import shell_words
from leadline.interop.beginning import Beginning, beginning
from leadline.likelihoods import LIKELIHOODS, Likelihood
from leadline.models import build, lora, model_named
from leadline.names import lookup
from leadline.optim import Rule, check_alone, likelihood_of, own_rule, rule_from, told
from leadline.regularize import regularizers
from leadline.settings import Settings, whole

FINE_LR = 1e-4  # for weights that have learned already
LOW_RANK_LR = 1e-3  # for updates beside them


@dataclass(frozen=True, eq=False)
class Made:
    """Everything that a run is fitted from; `note` tells of a rule that nobody named."""

    data: Data
    likelihood: Likelihood
    model: nn.Module
    settings: dict[str, Any]
    rule: Rule | None = None
    note: str = ""


def need_source(verb: str, what: str | None) -> str:
    """SOURCE, or the message that it is missing."""
    if what is None:
        some = ", ".join([*SOURCES][:6])
        raise UserError(
            f"leadline {verb} needs data, right after the verb",
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
            texts = ". To learn from text, add --text with a column too; for translations, --source and --target, or "
            texts += "--task pairs where two columns have no names; for a word and its tag in each line, --task tags"
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
        model_named(line.get("model"))
    rule = rule_from(line.get("rule"), **line.of("rule")) if line.get("rule") is not None else None
    if rule is not None:
        check_alone(type(rule).__name__, settings)
    family = line.get("likelihood")
    if family is not None:
        lookup(family, LIKELIHOODS, "likelihood")
    begun = begun_from(line)
    data = data or make_data(what, {**_text_of(begun, what, line.of("data")), **line.of("data")})
    name = line.get("model") or (begun.name if begun else default_for(data))
    model_class = model_named(name)
    usual = usual_settings(data)
    if rule is not None:  # what is of gradient descent alone was not asked for
        usual = {name: value for name, value in usual.items() if name in ("epochs", "batch", "regularize")}
    rank = line.get("lora")
    slow = {"lr": FINE_LR if rank is None else LOW_RANK_LR} if begun and "lr" not in settings else {}
    sizes = usual_sizes(model_class.__name__, pick_device(checked.device), line.of("model")) if begun is None else {}
    by_default = told_settings({**sizes, **usual}, {**slow, **settings})
    settings = {**usual, **slow, **settings}
    made_for = own_rule(model_class, data.target) if rule is None and "optimizer" not in settings else None
    if made_for is not None:
        check_alone(made_for, settings, model_class.__name__)
        rule = rule_from(made_for, **line.of("rule"))
    by = None if rule is None else type(rule).__name__
    likelihood = likelihood_of(model_class, data.target, by, family, **line.of("likelihood"))
    note = told(model_class, made_for, likelihood, "--optimizer adamw") if made_for else by_default
    if begun is None:
        model = build(name, data, likelihood.dim_output, seed=checked.seed, **sizes, **line.of("model"))
    else:
        model, filled = begun.build(data, likelihood.dim_output, checked.seed, **line.of("model"))
        if rank is not None:
            lora(model, rank, moving=filled.new, seed=checked.seed)
        lr = f"; by default {shell_words('lr', settings['lr'])}" if slow else ""
        note = "\n".join(filter(None, [f"{name} starts from {begun.path}: {filled}{lr}", note]))
    return Made(data, likelihood, model, settings, rule, note)


def begun_from(line: Line) -> Beginning | None:
    """What `--from` names, if the rest of the line goes with it."""
    if line.get("from") is None:
        if line.get("lora") is not None:
            raise UserError("--lora needs a trained model", got="no --from", do="Name its folder with --from FOLDER")
        return None
    found, settings = beginning(line.get("from")), line.of("setting")
    if line.get("lora") is not None:
        whole("lora", line.get("lora"), usual=8)
    named = line.get("model")
    if named is not None and model_named(named).__name__ != found.name:
        raise UserError(
            "--model must be the model in the folder of --from",
            got=f"--model {named}, and a {found.name} in the folder",
            do="Leave it out",
        )
    for option, usual in (("init", "own"), ("init_scale", 1.0)):
        if settings.get(option, usual) != usual:
            raise UserError(
                f"--{option.replace('_', '-')} is for random first weights, and --from reads them from a folder",
                got=f"{settings[option]} beside --from {found.path}",
                do="Leave one of them out",
            )
    if line.get("folds") is not None:
        raise UserError(
            "folds train from random first weights", got="--folds beside --from", do="Leave one of them out"
        )
    return found


def _text_of(begun: Beginning | None, what: str, options: dict[str, Any]) -> dict[str, Any]:
    """Text is cut as it was for the weights that a model begins from, into rows for which they have positions."""
    if "tokenizer" not in inspect.signature(source(read_by(what, options))).parameters:
        return {}
    longest = begun.config.get("length") if begun and "len_source" not in begun.config else None
    length = {"length": longest} if longest and longest < USUAL_LENGTH else {}
    return _tokenizer_of(begun, options) | length


def _tokenizer_of(begun: Beginning | None, options: dict[str, Any]) -> dict[str, Any]:
    given = options.get("tokenizer") or (begun.tokenizer if begun else None)
    for name in ("kind", "num_tokens", "target_kind") if given else ():
        if options.get(name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UserError(
                f"{flag} is for a tokenizer that is trained here",
                got=f"{flag} beside the tokenizer {given}",
                do="Leave one of them out",
            )
    if begun is None or options.get("tokenizer"):
        return {}
    if begun.tokenizer is None and "num_tokens" in begun.config:
        raise DataError(
            "the weights of a model of text need the tokenizer that they were trained with",
            got=f"no tokenizer.json in {begun.path}",
            do="Put it there, as AutoTokenizer's save_pretrained does, or name its file with --tokenizer",
        )
    if begun.source_tokenizer is not None:
        return {"tokenizer": str(begun.source_tokenizer), "target_tokenizer": str(begun.tokenizer)}
    return {"tokenizer": str(begun.tokenizer)} if begun.tokenizer else {}
