"""Sets of different sizes as a network reads them: padded to one size, with a column that says which members are there.

    x_m = ((v_m - shift) / scale, 1)      a feature: mean and deviation of it over all training members           (1)
    x_m = ((v_m - c) / r, 1)              a coordinate: c the middle of its own set, r how far its farthest
                                          member lies from it                                                    (2)
    x_m = (0, 0)                          where there is no member                                               (3)

(2) leaves nothing of where a cloud of points stands and how large it is. A set may have more members than any in
training: rows are padded to the largest that is read.

Notation   v -> raw values
Shapes     raw rows and x (N, M, C + 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.cells import Table, table_of
from leadline.data.inputs import Inputs
from leadline.data.sequence_inputs import in_columns, numbers_of, padded, sequence_rows
from leadline.errors import DataError, ShapeError


class Sets(Inputs):
    """Args:
        shift, scale: mean and deviation of each column over the training members; of coordinates 0 and 1.
        size: M, members of the largest set in training, at least 1.
        columns: names of the C columns, where they have any.
        coordinates: how many of the first columns are coordinates, from 0 to C.
        typical: members of a set in training, on average.
        set: the column of a table that says which set a member is of; None where sets came as they are.
        comma: the table of training writes decimals with a comma.

    >>> inputs = Sets((1.0,), (2.0,), size=3)
    >>> inputs.encode(inputs.read([[3.0], [1.0, 5.0]])).tolist()
    [[[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [2.0, 1.0], [0.0, 0.0]]]
    """

    aside = ("comma",)

    def __init__(
        self,
        shift: Sequence[float],
        scale: Sequence[float],
        size: int,
        columns: Sequence[str] = (),
        coordinates: int = 0,
        typical: float = 1.0,
        set: str | None = None,
        comma: bool = False,
    ):
        self.shift, self.scale, self.size = tuple(shift), tuple(scale), size
        self.columns, self.coordinates = tuple(columns), coordinates
        self.typical, self.set, self.comma = typical, set, comma

    @classmethod
    def fit(
        cls,
        x: Tensor,
        columns: Sequence[str] = (),
        coordinates: int = 0,
        set: str | None = None,
        comma: bool = False,
    ) -> Sets:
        """Figures of raw rows, the training split's; a constant column keeps its scale."""
        there = x[..., -1] > 0
        values = x[there][:, :-1].double()
        mean = values.mean(0)
        deviation = (values - mean).square().mean(0).sqrt()
        deviation = torch.where(deviation > 1e-12 * mean.abs(), deviation, 1.0)
        mean[:coordinates], deviation[:coordinates] = 0.0, 1.0
        typical = float(there.sum(1).double().mean())
        return cls(mean.tolist(), deviation.tolist(), x.shape[1], columns, coordinates, typical, set, comma)

    def encode(self, x: Tensor) -> Tensor:
        if x.dim() != 3 or x.shape[2] != len(self.shift) + 1:
            raise ShapeError(
                f"sets must have shape (N, M, {len(self.shift) + 1}): {counted(len(self.shift), 'column')}, and one "
                "that is 1 where there is a member",
                got=f"shape {tuple(x.shape)}",
                do="Pass a list of sets, and read(…) of these inputs pads them",
            )
        shift, scale = (x.new_tensor(figure) for figure in (self.shift, self.scale))
        there = x[..., -1:]
        z = (x[..., :-1] - shift) / scale  # eq. 1
        if self.coordinates:
            z = torch.cat([_unit(z[..., : self.coordinates], there), z[..., self.coordinates :]], 2)
        return torch.cat([torch.where(there > 0, z, 0.0), there], 2)  # eq. 3

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"channels": len(self.shift), "coordinates": self.coordinates, "typical": self.typical}

    def read(self, rows: Any) -> Tensor:
        """Raw rows out of a list of sets, each of numbers (m,) or (m, C); of a table with a row for each member; or as
        they are.
        """
        C = len(self.shift)
        if isinstance(rows, (Tensor, np.ndarray)) and rows.ndim == 3 and rows.shape[2] == C + 1:
            return torch.as_tensor(rows, dtype=torch.float32)
        listed = isinstance(rows, (list, tuple, Tensor, np.ndarray))
        if listed and not (isinstance(rows, (list, tuple)) and len(rows) and isinstance(rows[0], dict)):
            return self.of_lists(rows, [f"set {k}" for k in range(len(rows))])
        return self.of_table(table_of(rows))[0]

    def of_lists(self, rows: Any, names: Sequence[str]) -> Tensor:
        """Raw rows of sets, each with a name for messages."""
        return self._padded([gathered(row, name, len(self.shift)) for row, name in zip(rows, names, strict=True)])

    def of_table(self, table: Table) -> tuple[Tensor, list[tuple[str, np.ndarray]]]:
        """Raw rows of a table with a row for each member, and the name of each set with the rows of its members."""
        absent = [name for name in (self.set, *self.columns) if name and name not in table.columns]
        if self.set is None or absent:
            raise DataError(
                f"{table.source} must have the columns that the model was trained on",
                got=f"no {', '.join(absent)}" if absent else "a table, where it was trained on lists",
                do="Add what is missing" if absent else "Pass a list of sets",
            )
        values = complete(table, self.columns, self.comma)
        parts = list(sequence_rows(table, self.set, None))
        return self._padded([values[rows] for _, rows in parts]), parts

    def _padded(self, parts: Sequence[np.ndarray]) -> Tensor:
        if not parts:
            raise DataError("there must be sets to read", got="none", do="Pass at least one")
        return padded(parts, max(self.size, *map(len, parts)))


def _unit(x: Tensor, there: Tensor) -> Tensor:
    """Eq. 2 over the members that are there; a set of one point, or of one place, keeps its scale."""
    centre = (x * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1)
    x = torch.where(there > 0, x - centre, 0.0)
    reach = x.norm(dim=2, keepdim=True).amax(1, keepdim=True)
    return x / torch.where(reach > 0, reach, 1.0)


def gathered(values: Any, name: str, columns: int | None = None) -> np.ndarray:
    """One set as numbers (m, C); one axis is one column.

    Args:
        name: of it, for messages, such as "set 7".
        columns: C, where it is known.

    >>> gathered([3.0, 4.0], "set 0").tolist()
    [[3.0], [4.0]]
    """
    found = in_columns(values, name, "set", "column", "member")
    if found.ndim != 2 or not len(found) or found.shape[1] == 0:
        what = "no member at all" if found.shape[0] == 0 else f"shape {found.shape}"
        raise ShapeError(
            "a set must have shape (m,) or (m, columns), and at least one member",
            got=f"{what} in {name}",
            do="Correct it or leave it out",
        )
    if not np.isfinite(found).all():
        member, column = (int(place[0]) for place in np.nonzero(~np.isfinite(found)))
        raise DataError(
            "members must hold finite numbers",
            got=f"{found[member, column]} in column {column} of member {member} of {name}",
            do="Correct it, or leave the member out",
        )
    if columns is not None and found.shape[1] != columns:
        raise ShapeError(
            f"every member must have {counted(columns, 'value')}",
            got=f"{found.shape[1]} in {name}",
            do="Give all sets the same columns: coordinates first, then features",
        )
    return found


def complete(table: Table, names: Sequence[str], comma: bool = False) -> np.ndarray:
    """Columns of numbers side by side, all of which must be there; `comma` as of `numbers_of`."""
    values = numbers_of(table, names, comma)
    if np.isnan(values).any():
        row, column = (int(place[0]) for place in np.nonzero(np.isnan(values)))
        raise DataError(
            f"column {names[column]} must hold a number for every member",
            got=f"none in {table.at(row)}",
            do="Correct the cell, or leave the member's row out",
        )
    return values
