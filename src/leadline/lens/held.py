"""Some features picked, all others held: the middle of the rows, or values of the caller's.

    x = (s at the picked features, held elsewhere)                                                  (1)

A number is held at its median or mean, a category or a flag at its commonest level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.tokens import Tokens
from leadline.errors import UserError
from leadline.lens.rows import Rows
from leadline.names import suggest
from leadline.settings import given

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HELD: dict[str, Callable[..., Any]] = {"median": np.median, "mean": np.mean}


@dataclass(frozen=True)
class Feature:
    """A feature that a lens draws over.

    Args:
        name: of the feature, in its own unit.
        kind: number, flag, category or date.
        levels: what a category or a flag may be, in the order of the codes; none of others.
        held: the other features and what they are held at, categories and dates in words.
    """

    name: str
    kind: str
    levels: tuple[str, ...]
    held: dict[str, float | str]

    def mark(self, ax: Axes, x: np.ndarray) -> None:
        """The x axis of a drawing over this feature."""
        others = len(self.held)
        ax.set_xlabel(self.name + (f" ({others} other feature{'s' if others > 1 else ''} held)" if others else ""))
        if self.levels:
            words = [level if len(level) <= 14 else f"{level[:13]}…" for level in self.levels]
            long = sum(map(len, words)) > 60
            ax.set_xticks(x, words, rotation=45 if long else 0, ha="right" if long else "center")
            ax.set_xlim(-0.6, len(self.levels) - 0.4)
            ax.grid(False, axis="x")
            return
        if self.kind == "date":  # matplotlib counts days from 1970 too
            ax.xaxis_date()
        ax.set_xlim(float(x[0]), float(x[-1]))


class Held:
    """Features of rows by name or number, in their own units (1).

    Args:
        features: those that move.
        held: "median", "mean", or values of single features by name or number, the rest at the median.
    """

    def __init__(self, rows: Rows, features: Sequence[Any], held: Any):
        if isinstance(rows.inputs, Tokens):
            raise UserError(
                "features can be picked from rows that are lists of features",
                got="rows of tokens",
                do="Look at what each token does with ll.lens.token_attribution(run, text)",
            )
        raw = rows.raw.double().cpu().numpy()
        known = rows.inputs.names or tuple(f"x{k + 1}" for k in range(raw.shape[1]))
        self.rows, self.places = rows, [place_of(feature, known) for feature in features]
        chosen = {place_of(key, known): value for key, value in held.items()} if isinstance(held, dict) else {}
        if not isinstance(held, dict) and held not in _HELD:
            raise UserError("held must be median, mean or values", got=given("held", held), do='Write held="median"')
        middle = _HELD["median" if isinstance(held, dict) else held]
        self.columns = tuple(getattr(rows.inputs, "columns", ()))
        self.at = np.zeros(raw.shape[1])
        for k in range(raw.shape[1]):
            there = raw[~np.isnan(raw[:, k]), k]
            if k in chosen:
                self.at[k] = self._value(known[k], k, chosen[k])
            elif self.kind(k) in ("category", "flag") and len(there):
                levels, counts = np.unique(there, return_counts=True)
                self.at[k] = levels[counts.argmax()]
            else:
                self.at[k] = middle(there) if len(there) else np.nan
        self.names = tuple(known[k] for k in self.places)
        self.held = {known[k]: float(self.at[k]) for k in range(raw.shape[1]) if k not in self.places}
        self.points = raw[:, self.places]

    def kind(self, place: int) -> str:
        """number, flag, category or date."""
        return self.columns[place].kind if place < len(self.columns) else "number"

    def levels(self, place: int) -> tuple[str, ...]:
        """What a category or a flag may be, in the order of the codes; none of a number."""
        kind = self.kind(place)
        return self.columns[place].levels if kind == "category" else ("no", "yes") if kind == "flag" else ()

    def feature(self) -> Feature:
        """The first of the picked features, as it is drawn."""
        place = self.places[0]
        known = self.rows.inputs.names
        held = {name: self._word(known.index(name), v) if known else v for name, v in self.held.items()}
        return Feature(self.names[0], self.kind(place), self.levels(place), held)

    def _word(self, place: int, value: float) -> float | str:
        """A value as people say it."""
        if np.isnan(value):
            return value
        if self.kind(place) == "date":
            return str(np.datetime64(int(value), "D"))
        levels = self.levels(place)
        return levels[int(value)] if 0 <= value < len(levels) else value

    def _value(self, name: str, place: int, value: Any) -> float:
        """The number that stands for a value of the caller's; a category goes by the name of its level too."""
        levels = self.levels(place)
        if isinstance(value, str) and value in levels:
            return float(levels.index(value))
        try:
            return float(value)
        except (TypeError, ValueError):
            do = suggest(str(value), levels) if levels else f"Write a number for {name}"
            raise UserError(f"{name} must be held at one of its values", got=repr(value), do=do) from None

    def inputs(self, grid: Tensor) -> Tensor:
        """What the network reads at values (n, picked) of the picked features."""
        raw = torch.tensor(self.at).repeat(len(grid), 1)
        raw[:, self.places] = grid
        return self.rows.inputs.encode(raw.to(self.rows.raw.dtype))


def place_of(feature: Any, known: tuple[str, ...]) -> int:
    """The place of a feature given by name or number."""
    if isinstance(feature, str) and feature in known:
        return known.index(feature)
    if isinstance(feature, int) and not isinstance(feature, bool) and 0 <= feature < len(known):
        return feature
    words = suggest(feature, known) if isinstance(feature, str) else f"Pass a number from 0 to {len(known) - 1}"
    raise UserError("a feature must be one of the data's", got=repr(feature), do=words)


def around(points: np.ndarray) -> list[tuple[float, float]]:
    """For each column, from a little below the least value to a little above the largest."""
    low, high = np.nanmin(points, 0), np.nanmax(points, 0)
    margin = np.where(high > low, 0.08 * (high - low), 0.5)
    return [(float(a), float(b)) for a, b in zip(low - margin, high + margin, strict=True)]
