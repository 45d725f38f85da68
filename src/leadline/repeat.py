"""The command and the Python that repeat a run, from its config alone."""

from __future__ import annotations

import inspect
import shlex
from typing import Any

from leadline.data import options_of
from leadline.data import source as source_named
from leadline.data.target import Target
from leadline.flags import RESERVED, shell_words
from leadline.likelihoods import LIKELIHOODS, likelihood_for
from leadline.likelihoods import choices as likelihood_choices
from leadline.models import MODELS, choices
from leadline.models.lora import ATTENTION
from leadline.optim import OBJECTS, RULES, own_rule
from leadline.optim import choices as rule_choices
from leadline.settings import Settings

#: settings that the run resolved by measuring: pinned, so that a repetition decides alike
_PINNED = ("threads", "compile", "precision")


def changed_settings(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the defaults, those that were measured, and an optimizer named against a rule."""
    defaults = Settings().config
    if _by_gradient_all_the_same(config):
        defaults["optimizer"] = ""
    return {
        name: value
        for name, value in config["settings"].items()
        if name != "device" and (name in _PINNED or value != defaults[name])
    }


def command(config: dict[str, Any]) -> str:
    """The shell command that repeats a run; empty where its data or model cannot be named in a shell."""
    recipe, model = config["data"]["recipe"], config["model"]
    settings, (family, usual) = config["settings"], _family(config)
    if recipe is None or model["config"] is None or "given" in (settings["optimizer"], settings["schedule"]):
        return ""
    if (not usual and not _nameable(config)) or not _flagged(model):
        return ""
    rule, rule_options = _rule(config)
    if rule_options is None:
        return ""
    options = options_of(recipe)
    words = ["leadline train", shlex.quote(str(options.pop("path", recipe["source"])))]
    chosen = _chosen(model)
    options_of_families = {option for family in LIKELIHOODS.values() for option in likelihood_choices(family)}
    options_of_rules = {option for rule_type in RULES.values() for option in rule_choices(rule_type)}
    own = set(choices(MODELS[model["name"]]))
    taken = set(Settings().config) | own | options_of_families | options_of_rules | RESERVED
    words += [shell_words(name, value, taken) for name, value in _unusual(recipe["source"], options).items()]
    words += [shell_words("from", model["begun_from"])] if "begun_from" in model else []
    words += [shell_words("lora", model["lora"]["rank"])] if "lora" in model else []
    words += [f"--model {model['name']}", *(shell_words(name, value) for name, value in chosen.items())]
    words += [f"--likelihood {family}"] if family else []
    words += [shell_words(name, value) for name, value in _unusual_family(config).items()]
    words += [f"--rule {rule}"] if rule else []
    words += [shell_words(name, value) for name, value in rule_options.items()]
    words += [shell_words(name, value) for name, value in changed_settings(config).items()]
    return " ".join(word for word in words if word)


def python(config: dict[str, Any]) -> str:
    """The Python that repeats a run, as far as it can be named."""
    recipe, model = config["data"]["recipe"], config["model"]
    lines = ["import leadline as ll", ""]
    if recipe is None:
        lines += ["data = …  # arrays in memory: build them as before"]
    else:
        options = options_of(recipe)
        source = options.pop("path", recipe["source"])
        unusual = _unusual(recipe["source"], options)
        lines += [f"data = ll.data.load({', '.join([repr(source), *(f'{k}={v!r}' for k, v in unusual.items())])})"]
    seed = config["settings"]["seed"]
    if model["config"] is None:
        lines += [f"model = …  # {model['name']}, built as before"]
    else:
        chosen = "".join(f", {name}={value!r}" for name, value in _chosen(model).items())
        dim_output = config["likelihood"]["config"].get("num_tokens") or model["config"]["dim_output"]
        if "begun_from" in model:
            lines += ["from leadline.interop.beginning import beginning"]
            begun = f"model, _ = beginning({model['begun_from']!r}).build"
            lines += [f"{begun}(data, {dim_output}, {seed}{chosen})"]
        else:
            name, read = model["name"], _read(config)
            lines += [f'model = ll.models.build("{name}", {read}, {dim_output}, seed={seed}{chosen})']
        if "lora" in model:
            told = ", ".join(f"{name}={value!r}" for name, value in model["lora"].items())
            lines += [f"model = ll.models.lora(model, {told}, seed={seed})"]
    given = {name: value for name, value in changed_settings(config).items() if value != "given"}
    family, usual = _family(config)
    words = [f"likelihood={family!r}"] if family else []
    if not usual:
        written = ", ".join(f"{name}={value!r}" for name, value in config["likelihood"]["config"].items())
        words = [f"likelihood=ll.likelihoods.{config['likelihood']['name']}({written})"]
    rule, rule_options = _rule(config)
    if rule and rule_options is None:
        lines += [f"rule = …  # {rule}, built as before"]
    if rule:
        written = ", ".join(f"{name}={value!r}" for name, value in (rule_options or {}).items())
        words += ["rule=rule" if rule_options is None else f"rule=ll.optim.{rule}({written})"]
    words += [f"{name}={value!r}" for name, value in given.items()]
    lines += [f"run = ll.fit({', '.join(['model', 'data', *words])})"]
    lines += ['print(run.evaluate("test"))']
    return "\n".join(lines)


def _flagged(model: dict[str, Any]) -> bool:
    """Whether flags can say how the model was adapted: from a folder, beside its attention, with a factor of 1."""
    made = model.get("lora")
    if made is None:
        return True
    return "begun_from" in model and made["alpha"] == made["rank"] and made["where"] == list(ATTENTION)


def _read(config: dict[str, Any]) -> str:
    """What a model is told of the rows: how many numbers they are, the shape of a picture, or all of the data."""
    if config["data"]["inputs"].get("attached") or config["data"]["inputs"]["name"] in ("GraphInputs", "Sets"):
        return "data"
    return str(config["model"]["config"].get("dim_input") or "data.shape_input")


def _family(config: dict[str, Any]) -> tuple[str, bool]:
    """The likelihood's name where it is not the target's own choice, and whether a name is enough to say it."""
    target, made = Target.from_config(config["data"]["target"]), config["likelihood"]
    default = likelihood_for(target)
    name = "" if made["name"] == type(default).__name__ else made["name"]
    return name, likelihood_for(target, name or None).config == made["config"]


def _rule(config: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The rule's name, empty for gradient descent, and its options off the defaults; None where they cannot be told."""
    entry = config["rule"] if isinstance(config["rule"], dict) else {"name": config["rule"], "config": None}
    name, made = entry["name"], entry["config"]
    if name == "Gradient":
        return "", {}
    if made is None or any(made.get(option) is not None for option in OBJECTS):
        return name, None
    known = rule_choices(RULES[name])
    return name, {option: made[option] for option in known if made[option] != known[option].default}


def _by_gradient_all_the_same(config: dict[str, Any]) -> bool:
    """Whether the model has a rule of its own, and gradient descent was asked for."""
    model = MODELS.get(config["model"]["name"])
    target = Target.from_config(config["data"]["target"])
    return not _rule(config)[0] and model is not None and own_rule(model, target) is not None


def _unusual_family(config: dict[str, Any]) -> dict[str, Any]:
    """The likelihood's options that differ from those that its target would pick."""
    made = config["likelihood"]
    return {
        name: made["config"][name]
        for name, parameter in likelihood_choices(LIKELIHOODS[made["name"]]).items()
        if made["config"][name] != _plain(parameter.default)
    }


def _nameable(config: dict[str, Any]) -> bool:
    """Whether its name and the options that a user chooses say all of the likelihood."""
    target, made = Target.from_config(config["data"]["target"]), config["likelihood"]
    return likelihood_for(target, made["name"], **_unusual_family(config)).config == made["config"]


def _chosen(model: dict[str, Any]) -> dict[str, Any]:
    """The model's options that differ from its defaults."""
    return {
        name: model["config"][name]
        for name, parameter in choices(MODELS[model["name"]]).items()
        if model["config"][name] != _plain(parameter.default)
    }


def _unusual(source: str, options: dict[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(source_named(source)).parameters
    return {
        name: value
        for name, value in options.items()
        if name not in parameters or value != _plain(parameters[name].default)
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
