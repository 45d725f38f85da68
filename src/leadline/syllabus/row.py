"""One line of the syllabus: an item of a book, where the library has it, and the claim that tests it.

The lines stand in TOML files beside this one, in the order of the sources. An item that is not built says why.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module, resources
from typing import Any

FILES = (
    *("book.toml", "fitting.toml", "convolution.toml", "notes.toml", "fitting_notes.toml", "transformers.toml"),
    *("recurrence.toml", "graphs.toml"),
)


@dataclass(frozen=True)
class Row:
    """Args:
        id: of the item; no two are alike.
        title: what it is, in a few words.
        source: where it is written, such as "UDL 3.1"; its first word is a key of `sources()`.
        where: dotted path of the object that serves it; empty where there is none.
        claim: name of the claim that tests it, where one does.
        skipped: why there is no object.
        also: other words that people type for it, such as "RNN" or "seq2seq".

    >>> Row("UA-005", "Shallow network 1-3-1", "UDL 3.1", where="leadline.models.Shallow").built
    True
    """

    id: str
    title: str
    source: str
    where: str = ""
    claim: str = ""
    skipped: str = ""
    also: str = ""

    @property
    def built(self) -> bool:
        return bool(self.where)

    @property
    def key(self) -> str:
        """The source without its section.

        >>> Row("DW-29", "Newton's method", "slides: Newton's methods").key
        'slides'
        """
        return re.split(r"\W", self.source, maxsplit=1)[0]

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


@cache
def rows() -> tuple[Row, ...]:
    """The whole syllabus.

    >>> rows()[0].id
    'UA-001'
    """
    return tuple(Row(id, **fields) for file in FILES for id, fields in _read(file)["rows"].items())


@cache
def sources() -> dict[str, str]:
    """What the rows are taken from: short name → full name."""
    return {key: name for file in FILES for key, name in _read(file).get("sources", {}).items()}


def resolve(row: Row) -> Any:
    """The object that serves a row; None where it is not built.

    >>> resolve(rows()[0])["Linear"].__name__
    'Linear'
    """
    return _at(row.where) if row.built else None


def _at(path: str) -> Any:
    """What `from module import name` would give, and attributes of it."""
    parent, _, name = path.rpartition(".")
    if not parent:
        return import_module(name)
    try:
        owner = import_module(parent)
    except ModuleNotFoundError as error:
        if error.name is None or not (parent == error.name or parent.startswith(f"{error.name}.")):
            raise  # the module is there, and what it needs is not
        owner = _at(parent)
    return getattr(owner, name)


@cache
def _read(file: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("leadline.syllabus").joinpath(file).read_text(encoding="utf-8"))
