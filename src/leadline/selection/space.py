"""A space of settings: what each may be, and when it exists at all.

    space = {
        "lr": log(1e-4, 1e-1),                     # real, all orders of magnitude alike
        "hidden": choice((50,), (100, 100)),       # one of these
        "batch": integer(16, 256, log=True),       # whole, both ends legal
        "optimizer": choice("sgd", "adamw"),
        "momentum": uniform(0.5, 0.99).when(optimizer="sgd"),
    }

In words, as a shell writes them: log:1e-4:1e-1, choice:50:100,100, int:16:256, logint:16:256, uniform:0.5:0.99, and
uniform:0.5:0.99@optimizer=sgd for what exists only then. A list stands for a choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from leadline.config import plain
from leadline.errors import UserError
from leadline.names import suggest
from leadline.settings import given, real, whole


class Draws(Protocol):
    """What draws values: a trial of a study."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool) -> float: ...

    def suggest_int(self, name: str, low: int, high: int, *, log: bool) -> int: ...

    def suggest_categorical(self, name: str, choices: Any) -> Any: ...


@dataclass(frozen=True)
class Spec:
    """What one setting may be.

    Args:
        kind: "real", "whole" or "choice".
        low, high: the ends, both legal.
        log: every order of magnitude is as likely.
        values: of a choice.
        needs: other settings with the values at which this one exists; everywhere by default.
    """

    kind: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    values: tuple[Any, ...] = ()
    needs: tuple[tuple[str, tuple[Any, ...]], ...] = field(default=())

    def when(self, **others: Any) -> Spec:
        """The same, where other settings have a value, or one of a list.

        >>> uniform(0, 0.9).when(optimizer=["sgd", "nesterov"]).needs
        (('optimizer', ('sgd', 'nesterov')),)
        """
        wanted = tuple((name, tuple(v) if isinstance(v, list) else (v,)) for name, v in others.items())
        return replace(self, needs=(*self.needs, *wanted))

    @property
    def labels(self) -> list[Any]:
        """The values of a choice as a study can hold them."""
        return [value if value is None or isinstance(value, (bool, int, float, str)) else label(value)
                for value in self.values]  # fmt: skip

    def draw(self, name: str, trial: Draws) -> Any:
        """The trial's own value."""
        if self.kind == "real":
            return trial.suggest_float(name, self.low, self.high, log=self.log)
        if self.kind == "whole":
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return self.value_of(trial.suggest_categorical(name, self.labels))

    def value_of(self, stored: Any) -> Any:
        """A value out of what a study holds of it."""
        return self.values[self.labels.index(stored)] if self.kind == "choice" else stored

    def to_dict(self) -> dict[str, Any]:
        own = {"kind": self.kind, "needs": [[name, [label(v) for v in values]] for name, values in self.needs]}
        if self.kind == "choice":
            return {**own, "values": plain(self.labels)}
        return {**own, "low": self.low, "high": self.high, "log": self.log}


def uniform(low: float, high: float) -> Spec:
    """A real number from `low` to `high`, low < high, all alike.

    >>> uniform(0, 0.5).high
    0.5
    """
    return _range("real", real("low", low), real("high", high), False)


def log(low: float, high: float) -> Spec:
    """A real number from `low` to `high`, 0 < low < high, all orders of magnitude alike.

    >>> log(1e-4, 1e-1).log
    True
    """
    return _range("real", real("low", low, 0, above=True, usual=1e-4), real("high", high, 0, above=True), True)


def integer(low: int, high: int, *, log: bool = False) -> Spec:
    """A whole number from `low` to `high`, both legal, low < high; with `log`, 1 <= low.

    >>> integer(1, 8).kind
    'whole'
    """
    return _range("whole", whole("low", low, 1 if log else None), whole("high", high, None), log)


def choice(*values: Any) -> Spec:
    """One of these, at least two.

    >>> choice((50,), (100, 100)).labels
    ['50', '100,100']
    """
    values = tuple(tuple(v) if isinstance(v, list) else v for v in values)
    found = Spec("choice", values=values)
    if len(values) < 2 or len(set(map(str, found.labels))) < len(values):
        raise UserError("a choice must have two different values or more", got=given("values", values), do="Add one")
    return found


def _range(kind: str, low: float, high: float, log: bool) -> Spec:
    if not low < high:
        raise UserError("a range must go from low to high", got=f"{low:g} to {high:g}", do="Exchange its ends")
    return Spec(kind, low, high, log)


def label(value: Any) -> str:
    """A value in words: those of a list with commas between."""
    if isinstance(value, (list, tuple)):
        return ",".join(label(item) for item in value) if value else "none"
    return str(value)


def word(text: str) -> Any:
    """A value out of words: a whole number, a number, yes or no, none, text; with commas, several.

    >>> word("100,100"), word("1e-3"), word("none"), word("relu")
    ((100, 100), 0.001, None, 'relu')
    """
    if "," in text:
        return tuple(word(part) for part in text.split(",") if part)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"none": None, "yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)


_FORMS = {
    "log": "log:1e-4:1e-1",
    "uniform": "uniform:0:0.5",
    "int": "int:1:8",
    "logint": "logint:16:256",
    "choice": "choice:50:100:200",
}


def parse(
    text: str, read: Callable[[str], Any] = word, others: Mapping[str, Callable[[str], Any]] | None = None
) -> Spec:
    """A spec out of words.

    Args:
        read: of one value of a choice.
        others: the same for the settings that are named after an @.

    >>> parse("log:1e-4:1e-1") == log(1e-4, 1e-1), parse("choice:50:100,100").values
    (True, (50, (100, 100)))
    >>> parse("uniform:0.5:0.99@optimizer=sgd").needs
    (('optimizer', ('sgd',)),)
    """
    body, *conditions = text.split("@")
    kind, *words = body.split(":")
    if kind not in _FORMS:
        raise UserError("a space must be written as a known kind", got=repr(text), do=suggest(kind, _FORMS))
    if kind == "choice":
        found = choice(*(read(value) for value in words))
    else:
        numbers = [_number(value, kind, text) for value in words]
        if len(numbers) != 2:
            raise UserError(f"{kind} must be given its two ends", got=repr(text), do=f"Write {_FORMS[kind]}")
        if kind in ("log", "uniform"):
            found = log(*numbers) if kind == "log" else uniform(*numbers)
        else:
            found = integer(*numbers, log=kind == "logint")
    for condition in conditions:
        name, sign, values = condition.partition("=")
        if not sign or not values:
            raise UserError(
                "what stands after an @ must be a setting and its values", got=repr(text), do="Write @optimizer=sgd"
            )
        name = name.replace("-", "_")
        one = (others or {}).get(name, word)
        found = found.when(**{name: [one(value) for value in values.split(":")]})
    return found


def _number(text: str, kind: str, whole_text: str) -> Any:
    try:
        value = int(text) if kind in ("int", "logint") else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        what = "whole numbers" if kind in ("int", "logint") else "finite numbers"
        raise UserError(f"the ends of {kind} must be {what}", got=repr(whole_text), do=f"Write {_FORMS[kind]}")
    return value


class Space(Mapping[str, Spec]):
    """Specs by name, those that others need first.

    >>> list(Space({"momentum": uniform(0, 0.9).when(optimizer="sgd"), "optimizer": ["sgd", "adamw"]}))
    ['optimizer', 'momentum']
    """

    def __init__(self, specs: Mapping[str, Any]):
        if not isinstance(specs, Mapping) or not specs:
            raise UserError(
                "a space must hold what may vary, by name",
                got=given("space", specs),
                do='Pass {"lr": "log:1e-4:1e-1"}, say',
            )
        left = {str(name): _spec(name, spec) for name, spec in specs.items()}
        self.specs: dict[str, Spec] = {}
        while left:
            ready = [name for name, spec in left.items() if all(need in self.specs for need, _ in spec.needs)]
            if not ready:
                name, spec = next(iter(left.items()))
                absent = next(need for need, _ in spec.needs if need not in self.specs)
                raise UserError(
                    f"{name} must depend on settings of the space, and not in a circle",
                    got=f"{absent}, which {'depends on others that wait for it' if absent in left else 'is not in it'}",
                    do=suggest(absent, [other for other in specs if other != name]).rstrip(".") if specs else "",
                )
            for name in ready:
                self.specs[name] = left.pop(name)
                self._check_needs(name)

    def _check_needs(self, name: str) -> None:
        for need, values in self.specs[name].needs:
            other = self.specs[need]
            absent = [value for value in values if other.kind == "choice" and value not in other.values]
            if absent:
                raise UserError(
                    f"{name} must wait for a value that {need} can have",
                    got=f"{need}={label(absent[0])}",
                    do=f"{need} is one of {', '.join(label(value) for value in other.values)}",
                )

    def __getitem__(self, name: str) -> Spec:
        return self.specs[name]

    def __iter__(self):
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def draw(self, trial: Draws) -> dict[str, Any]:
        """A value for each setting that exists in this trial."""
        drawn: dict[str, Any] = {}
        for name, spec in self.specs.items():
            if all(need in drawn and drawn[need] in values for need, values in spec.needs):
                drawn[name] = spec.draw(name, trial)
        return drawn

    def values_of(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Values out of what a study holds of a trial."""
        return {name: self.specs[name].value_of(value) for name, value in stored.items() if name in self.specs}

    def to_dict(self) -> dict[str, Any]:
        return {name: spec.to_dict() for name, spec in sorted(self.specs.items())}


def _spec(name: str, spec: Any) -> Spec:
    if isinstance(spec, Spec):
        return spec
    if isinstance(spec, str):
        return parse(spec)
    if isinstance(spec, (list, tuple)):
        return choice(*spec)
    raise UserError(
        f"{name} must be a range or a choice",
        got=given(name, spec),
        do="Use ll.selection.log(1e-4, 1e-1), uniform, integer or choice, or the words of one: 'log:1e-4:1e-1'",
    )
