"""What y *is*. It picks the likelihood, names the classes, and holds the unit in which a real target is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from leadline.config import plain
from leadline.data.account import counted, printable
from leadline.errors import DataError
from leadline.names import suggest
from leadline.settings import given

SPATIAL = ("pixels", "boxes", "points")  # answers that have a place in a picture
WORDED = ("tokens", "span")  # answers that have a place in a text
KINDS = (
    *("real", "positive", "count", "angle", "proportion", "binary", "classes", "signs", "ordered", "ranking"),
    *SPATIAL,
    *WORDED,
)
DISCRETE = ("binary", "classes", "ordered")
SEVERAL = "several"  # columns that are not all real numbers
_PLACES = {
    "pixels": ("{} a pixel", "class", "classes"),
    "boxes": ("boxes of {}", "class", "classes"),
    "points": ("{}", "point", "points"),
}


@dataclass(frozen=True)
class Target:
    """Args:
        kind: one of `KINDS`, or "several" for columns of different kinds.
        name: the column's name.
        classes: names of the classes in the order of their codes, of the items of a ranking, or of points.
        dim: number of outputs a row (real kinds, several columns, and the items of a ranking), or of tokens.
        shift, scale: mean and standard deviation of y over the training split, one per output: the unit in which
            a network predicts a real target. Likelihoods undo it, so losses and predictions are in y's own unit.
        columns: what each column of y is, where they have names or kinds of their own.
        sizes, characters: bytes and characters of text that each token stands for; none where nobody knows.
        most: tokens that are asked of a row, at most; None may be all.
        overlap: whether classes at many places are judged by how far they cover those that are there, too.

    >>> Target("classes", classes=("cat", "dog", "eel")).decode(torch.tensor([2, 0]))
    ['eel', 'cat']
    >>> print(Target.of(Target("angle", "direction"), Target("positive", "speed")))
    direction: angle; speed: positive
    >>> print(Target("pixels", "mask", classes=("sky", "road", "car")))
    mask: 3 classes a pixel
    """

    kind: str
    name: str = "y"
    classes: tuple[str, ...] = ()
    dim: int = 1
    shift: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    columns: tuple[Target, ...] = field(default=(), repr=False)
    sizes: tuple[int, ...] = field(default=(), repr=False)
    characters: tuple[int, ...] = field(default=(), repr=False)
    most: int | None = field(default=None, repr=False)
    overlap: bool = field(default=False, repr=False)

    def __post_init__(self):
        if self.kind not in (*KINDS, SEVERAL):
            raise DataError("a target's kind must be known", got=repr(self.kind), do=suggest(str(self.kind), KINDS))

    @property
    def discrete(self) -> bool:
        """Whether y holds class codes."""
        return self.kind in DISCRETE

    @property
    def spatial(self) -> bool:
        """Whether y says where: classes of pixels, boxes or points of a picture."""
        return self.kind in SPATIAL

    @property
    def placed(self) -> bool:
        """Whether y has an answer for many places of a row: of a picture or of a text."""
        return self.kind in (*SPATIAL, *WORDED)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of y by name: of a source that names them, or name_1, name_2 …"""
        if self.columns:
            return tuple(column.name for column in self.columns)
        return (self.name,) if self.dim == 1 else tuple(f"{self.name}_{k + 1}" for k in range(self.dim))

    @property
    def config(self) -> dict[str, Any]:
        own = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__ if name != "columns"}
        for name in ("sizes", "characters", "most", "overlap"):
            if not own[name]:
                del own[name]
        return own | ({"columns": [column.config for column in self.columns]} if self.columns else {})

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Target:
        tuples: dict[str, Any] = {
            key: tuple(config[key]) for key in ("classes", "shift", "scale", "sizes", "characters") if key in config
        }
        columns = tuple(cls.from_config(column) for column in config.get("columns", ()))
        return cls(**{**config, **tuples, "columns": columns})

    @classmethod
    def of(cls, *columns: Target) -> Target:
        """Several columns as one target: real if each of them is."""
        kind = "real" if all(column.kind == "real" for column in columns) else SEVERAL
        return cls(
            kind,
            ", ".join(column.name for column in columns),
            dim=len(columns),
            shift=tuple(column.shift[0] for column in columns),
            scale=tuple(column.scale[0] for column in columns),
            columns=columns,
        )

    @classmethod
    def real(cls, y: Tensor, name: str = "y") -> Target:
        """A real target measured in the mean and standard deviation of `y` (pass the training split's)."""
        y = y.double().reshape(len(y), -1)
        scale = y.std(0, unbiased=False)
        scale = torch.where(scale > 0, scale, torch.ones_like(scale))
        return cls("real", name, dim=y.shape[1], shift=tuple(y.mean(0).tolist()), scale=tuple(scale.tolist()))

    def decode(self, codes: Tensor) -> list[str]:
        """Class names of codes."""
        return [self.classes[int(code)] for code in codes]

    def encode(self, values: Sequence[Any]) -> Tensor:
        """Codes of class names, or the numbers as they are; an unknown class is refused by name."""
        try:
            values = values if isinstance(values, Tensor) else list(values)
            if not self.discrete:
                return torch.as_tensor(values, dtype=torch.float32)
        except (TypeError, ValueError, RuntimeError):
            wanted = "classes" if self.discrete else "numbers"
            raise DataError(
                f"values of {self.name} must be a list of {wanted}",
                got=given("values", values),
                do="Pass one value for each row",
            ) from None
        code = {name: i for i, name in enumerate(self.classes)}
        unknown = sorted({str(value) for value in values} - set(code))
        if unknown:
            raise DataError(
                f"values of {self.name} must be classes that the model was trained on",
                got=", ".join(repr(value) for value in unknown[:5]),
                do=f"Use {', '.join(self.classes[:10])}",
            )
        return torch.tensor([code[str(value)] for value in values])

    def __str__(self) -> str:
        if self.kind == "classes":
            return f"{self.name}: {len(self.classes)} classes"
        if self.kind == "binary":
            return printable(f"{self.name}: {' or '.join(self.classes)}") if self.classes else f"{self.name}: binary"
        if self.kind == "ordered":
            return printable(f"{self.name}: {' < '.join(self.classes)}")
        if self.kind == "ranking":
            return f"{self.name}: ranking of {self.dim} items"
        if self.kind == "tokens" and self.overlap:
            return f"{self.name}: {counted(len(self.classes), 'class', 'classes')} a member"
        if self.kind == "tokens":
            return f"{self.name}: one of {self.dim:,} tokens at each place"
        if self.kind == "span":
            return f"{self.name}: a stretch of the text"
        if self.kind in _PLACES:
            told, one, many = _PLACES[self.kind]
            return f"{self.name}: {told.format(counted(len(self.classes), one, many))}"
        if self.columns:
            return "; ".join(map(str, self.columns))
        return f"{self.name}: {self.kind}" + (f" ({self.dim} values)" if self.dim > 1 else "")
