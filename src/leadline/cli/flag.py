"""Flags: made from signatures, so that the command line knows what Python knows, by the same names.

    def table(path, target, drop: Sequence[str] = (), val: float = 0.15)      →      --target, --drop, --val

A flag's words are read by its annotation: a sequence takes several (`--hidden 100 100`, or `100,100`), a truth value is
`--residual` or `--no-residual`. The word none stands for None, or for an empty list of numbers or of regularisers.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from leadline.errors import UserError
from leadline.flags import flag_name

_WORDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "yes or no", str: "text", Path: "a path"}
_TRUTH = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True)
class Kind:
    """What the words of a flag become.

    Args:
        scalars: what one word may be, tried in the order int, float, bool, text.
        many: several words make a tuple; with `named`, each is `key=value` and they make a dictionary.
        optional: the word none is allowed.
        again: the flag may come several times, with one word each, commas included, and they make a tuple.
    """

    scalars: tuple[type, ...] = (str,)
    many: bool = False
    named: bool = False
    optional: bool = False
    again: bool = False

    @property
    def switch(self) -> bool:
        """Whether the flag stands alone: `--residual`, `--no-residual`."""
        return self.scalars == (bool,) and not self.many

    def __str__(self) -> str:
        text = " or ".join(_WORDS[scalar] for scalar in self.scalars)
        text = f"a list, each {text}" if self.many else text
        return f"{text} (or none)" if self.optional else text


def kind_of(annotation: Any, default: Any = None) -> Kind:
    """The kind that an annotation asks for; where it says nothing, that of the default.

    >>> print(kind_of(Sequence[int]), "|", kind_of(float | None), "|", kind_of(inspect.Parameter.empty, 3))
    a list, each a whole number | a number (or none) | a whole number
    """
    if annotation in (inspect.Parameter.empty, Any, None):
        many = isinstance(default, (list, tuple))
        known = type(default[0] if many and default else default)
        return Kind((known if known in _WORDS else str,), many, optional=default is None)
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        kinds = [kind_of(part) for part in inner if part is not type(None)]
        scalars = {scalar for kind in kinds for scalar in kind.scalars}
        ordered = tuple(scalar for scalar in _WORDS if scalar in scalars)
        return Kind(ordered, any(k.many for k in kinds), any(k.named for k in kinds), len(kinds) < len(inner))
    if origin is typing.Literal:
        return Kind((type(inner[0]),))
    container = origin or annotation
    if isinstance(container, type) and issubclass(container, Mapping):
        return Kind(kind_of(inner[1]).scalars if inner else (str,), many=True, named=True)
    if isinstance(container, type) and issubclass(container, Sequence) and container is not str:
        return Kind(kind_of(inner[0] if inner else None, default).scalars if inner else (str,), many=True)
    return Kind((annotation if annotation in _WORDS else str,))


@dataclass(frozen=True)
class Flag:
    """Args:
    option: the name in Python.
    kind: what its words become.
    owner: whose option it is: "verb", "setting", "model", "likelihood", "rule" or "data".
    help: a few words, shown by --help.
    default: shown by --help.
    name: the flag as typed; made from `option` where it is not given.
    group: the heading under which --help shows it.
    """

    option: str
    kind: Kind = Kind()
    owner: str = "verb"
    help: str = ""
    default: Any = None
    name: str = ""
    group: str = "flags"

    def __post_init__(self):
        object.__setattr__(self, "name", self.name or flag_name(self.option))

    @property
    def spellings(self) -> tuple[str, ...]:
        """What may be typed."""
        return (self.name, f"--no-{self.name.removeprefix('--')}") if self.kind.switch else (self.name,)

    def read(self, words: list[str]) -> Any:
        """The value that the words after the flag spell."""
        if not words:
            raise UserError(f"{self.name} must be followed by {self.kind}", got="nothing", do=self._example())
        if self.kind.optional and [word.lower() for word in words] == ["none"]:
            return None
        if self.kind.many and words == ["none"] and (self.kind.scalars != (str,) or self.owner == "setting"):
            return ()  # of the data, none may be the name of a column or a class
        if self.kind.again:
            return tuple(self._scalar(word) for word in words)
        if not self.kind.many:
            return self._scalar(words[0])
        if self.kind.named:
            return dict(self._pair(word) for word in words)
        if self.kind.scalars == (str,):  # a comma may be part of a name: one list of words, or one word with commas
            words = words[0].split(",") if len(words) == 1 else words
        else:
            words = [part for word in words for part in word.split(",")]
        return tuple(self._scalar(word) for word in words if word)

    def _pair(self, word: str) -> tuple[str, Any]:
        key, sign, value = word.partition("=")
        if not sign:
            raise UserError(f"{self.name} must be followed by name=value", got=repr(word), do=self._example())
        return key, self._scalar(value)

    def _scalar(self, word: str) -> Any:
        for scalar in self.kind.scalars:
            if scalar is bool:
                if word.lower() in _TRUTH:
                    return _TRUTH[word.lower()]
                continue
            try:
                return scalar(word)
            except ValueError:
                continue
        raise UserError(f"{self.name} must be {self.kind}", got=repr(word), do=self._example())

    def _example(self) -> str:
        if self.default in (None, "", ()) or self.kind.switch:
            return "Write it after the flag" if not self.kind.named else f"Write {self.name} column=value"
        return f"The default is {self.name} {shown(self.default)}"


def shown(value: Any) -> str:
    """A default as one would type it.

    >>> shown((100, 100)), shown(0.003), shown("auto")
    ('100 100', '0.003', 'auto')
    """
    if isinstance(value, (list, tuple)):
        return " ".join(shown(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def flags_of(
    function: Callable[..., Any], owner: str, *, group: str, skip: Iterable[str] = (), taken: Iterable[str] = ()
) -> list[Flag]:
    """A flag for each argument of a function or class, with what its docstring says of it."""
    docs = {name: in_plain_words(text) for name, text in argument_docs(inspect.getdoc(function) or "").items()}
    return [
        Flag(
            name,
            kind_of(parameter.annotation, parameter.default),
            owner,
            docs.get(name, ""),
            None if parameter.default is parameter.empty else parameter.default,
            flag_name(name, set(taken)),
            group,
        )
        for name, parameter in _signature(function).parameters.items()
        if name not in skip and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]


def in_plain_words(text: str) -> str:
    """What a docstring says of an argument, for someone who does not read the code.

    A constant of Python that holds the names gives way to the names, numbers of equations are left out, and a range is
    told in words.

    >>> in_plain_words("a name in leadline.settings.ABOVE; 0 <= p_drop < 1")
    'lr, clip or init_scale; from 0 to below 1'
    >>> in_plain_words('"none" or "all" of them (2)')
    'none or all of them'
    """
    text = re.sub(r"a name in ((?:\w+\.)+)(\w+)", lambda match: _names_in(match[1].rstrip("."), match[2]), text)
    text = re.sub(r"(?:\w+ of eq\. \d+, )| \(\d+\)", "", text)
    text = re.sub(r"(\S+) <= \w+ < ([^\s,;.]+)", r"from \1 to below \2", text)
    return text.replace('"', "")


def _names_in(module: str, constant: str) -> str:
    names = [str(name) for name in getattr(importlib.import_module(module), constant)]
    return f"{', '.join(names[:-1])} or {names[-1]}" if names[1:] else "".join(names)


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """With annotations resolved where they can be: a decorated function carries those of the one inside."""
    called: Any = function
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(called.__init__ if isinstance(function, type) else called)
    except (NameError, TypeError):
        return inspect.signature(function)
    parameters = [p.replace(annotation=hints.get(p.name, p.empty)) for p in signature.parameters.values()]
    return signature.replace(parameters=parameters)


@cache
def argument_docs(docstring: str) -> dict[str, str]:
    """What the "Args:" of a docstring says of each argument, on one line.

    >>> argument_docs("Does it.\\n\\nArgs:\\n    low, high: ends of\\n        the range.\\n    seed: of the order.")
    {'low': 'ends of the range', 'high': 'ends of the range', 'seed': 'of the order'}
    """
    found: dict[str, str] = {}
    names: list[str] = []
    block = docstring.partition("Args:\n")[2].split("\n\n")[0]
    for line in textwrap.dedent(block).splitlines():
        match = re.match(r"(\w+(?:, \w+)*): (.*)", line)
        if match:
            names = match[1].split(", ")
            found.update(dict.fromkeys(names, match[2]))
        else:
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return {name: text.strip().rstrip(".").replace("`", "") for name, text in found.items()}


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The string after each field of a dataclass."""
    body = ast.parse(inspect.cleandoc(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(str(text.value.value).split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }
