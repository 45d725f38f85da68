"""Columns of a table, and how a row of them becomes what a network reads.

    number     (x - mean) / deviation; a missing one is the median
    its log    (log x - mean) / deviation, mean and deviation of the logarithms, for a column that is asked for so
    flag       no 0, yes 1; a missing one is the commoner of the two
    category   one input a level, 1 for the row's own; a level that training never saw is 0 in all of them, so that
               no weight that was never trained takes part in its prediction
    date       days, standardised, and sine and cosine of its place in the year, the week and (with a time) the day

Every figure is the training split's. A column that had missing values there gets one more input, 1 where the value
is missing.

A raw row is one float64 a column: the number itself, 0 or 1, the code of a level (-1 for one never seen), days since
the start of 1970; NaN where the value is missing. float64, because a time stamp or an account number loses its last
digits in float32; the scaled inputs are float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.config import plain
from leadline.data.account import counted
from leadline.data.cells import Cells, Table, table_of
from leadline.data.inputs import Inputs
from leadline.data.raw import raw_values, read_numbers, shown, writes_comma
from leadline.errors import DataError, ShapeError
from leadline.names import suggest

#: days after which a date is at the same place again
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}

_WANTED = {"number": "numbers", "flag": "yes or no", "date": "dates", "category": "words"}


@dataclass(frozen=True)
class Column:
    """One column, with the training split's figures.

    Args:
        name: as in the source.
        kind: number, flag, category or date.
        style: how its cells are written: "comma" for numbers with a decimal comma; a date's order, such as "ymd".
        levels: what a category may be, in the order of the codes.
        fill: what stands in for a missing value.
        shift, scale: mean and deviation; of the logarithms where `log`.
        gaps: whether training rows had missing values, which then get an input of their own.
        cycles: names of the `CYCLES` in which a date moves.
        log: whether the network reads the logarithm of a number; all values are then above 0.

    >>> Column("colour", "category", levels=("blue", "red"), gaps=True).encoded_names()
    ('colour=blue', 'colour=red', 'colour missing')
    """

    name: str
    kind: str
    style: str = ""
    levels: tuple[str, ...] = ()
    fill: float = 0.0
    shift: float = 0.0
    scale: float = 1.0
    gaps: bool = False
    cycles: tuple[str, ...] = ()
    log: bool = False

    @classmethod
    def fit(
        cls,
        name: str,
        kind: str,
        values: np.ndarray,
        *,
        style: str = "",
        levels: tuple[str, ...] = (),
        log: bool = False,
    ) -> Column:
        """The column with the figures of `values`, the raw values of the training rows."""
        known = values[~np.isnan(values)]
        gaps = len(known) < len(values)
        if kind == "category":
            return cls(name, kind, levels=levels, gaps=gaps)
        fill = float(np.median(known)) if len(known) else 0.0
        if kind == "flag":
            return cls(name, kind, fill=float(fill > 0.5), gaps=gaps)
        shift, scale = _mean_and_deviation(np.log(known) if log else known)
        cycles = tuple(cycle for cycle in CYCLES if kind == "date" and _moves(known, CYCLES[cycle]))
        if log and not len(known):
            fill = 1.0  # there is no median, and 0 has no logarithm
        return cls(name, kind, style, fill=fill, shift=shift, scale=scale, gaps=gaps, cycles=cycles, log=log)

    @property
    def width(self) -> int:
        """How many network inputs it becomes."""
        own = len(self.levels) if self.kind == "category" else 1 + 2 * len(self.cycles)
        return own + self.gaps

    def encoded_names(self) -> tuple[str, ...]:
        """Names of these inputs."""
        if self.kind == "category":
            names = [f"{self.name}={level}" for level in self.levels]
        else:
            own = f"log {self.name}" if self.log else self.name
            names = [own, *(f"{self.name} {wave} of {c}" for c in self.cycles for wave in ("sine", "cosine"))]
        return (*names, f"{self.name} missing") if self.gaps else tuple(names)

    def line(self, missing: int = 0) -> str:
        """A line for the account, given how many values are missing in all.

        >>> Column("mileage", "number", fill=84000.0, gaps=True).line(missing=3)
        'mileage: number, 3 missing filled with the median 84000'
        """
        text = f"{self.name}: {self.kind}"
        if self.kind == "category":
            shown = ", ".join(self.levels[:4]) + (", …" if len(self.levels) > 4 else "")
            text += f", {counted(len(self.levels), 'level')} ({shown})"
            return text + (f", {missing} missing" if missing else "")
        if self.log:
            text += ", read as its logarithm"
        if self.kind == "date":
            text += " as days" + "".join(f", place in the {cycle}" for cycle in self.cycles)
        if missing:
            if self.kind == "flag":
                stand_in = f"the commoner {'yes' if self.fill else 'no'}"
            else:
                stand_in = f"the median {_day(self.fill) if self.kind == 'date' else f'{self.fill:.6g}'}"
            text += f", {missing} missing filled with {stand_in}"
        return text

    def read(self, cells: Cells, table: Table, comma: bool = False) -> np.ndarray:
        """Raw values of cells; one that cannot be read is refused by column and row.

        Args:
            comma: numbers are written with a decimal comma.
        """
        if self.kind == "number":
            values, wrong = read_numbers(cells, self.style, comma)
        else:
            values, wrong = raw_values(cells, self.kind, self.style, self.levels)
        wrong = wrong | np.isinf(values)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            more = f" ({int(wrong.sum())} such cells)" if wrong.sum() > 1 else ""
            raise DataError(
                f"column {self.name} must hold {_WANTED[self.kind]}",
                got=f"{shown(cells, row)} in {table.at(row)}{more}",
                do="Correct the cell, or leave it empty if the value is not known",
            )
        if self.log:
            check_log(self.name, values, lambda row: f"{shown(cells, row)} in {table.at(row)}")
        return values


class TableInputs(Inputs):
    """Rows of a table to network inputs.

    Args:
        columns: the columns, as `Column` or as the dictionaries of its fields.

    >>> inputs = TableInputs([Column("age", "number", shift=40.0, scale=10.0), Column("smokes", "flag")])
    >>> inputs.encode(inputs.read([{"smokes": "yes", "age": 60}])).tolist()
    [[2.0, 1.0]]
    """

    def __init__(self, columns: Sequence[Column | Mapping[str, Any]]):
        self.columns = tuple(c if isinstance(c, Column) else _column(c) for c in columns)
        self.names = tuple(column.name for column in self.columns)
        starts = np.cumsum([0, *(column.width for column in self.columns)])
        self.width = int(starts[-1])
        self._starts = starts[:-1].tolist()
        # scaled columns in one block and gaps in another, so that hundreds of columns cost as few calls as one
        scaled = [j for j, column in enumerate(self.columns) if column.kind != "category"]
        gaps = [j for j, column in enumerate(self.columns) if column.gaps]
        self._scaled, self._gaps = torch.tensor(scaled, dtype=torch.int64), torch.tensor(gaps, dtype=torch.int64)
        self._scaled_at = torch.tensor([self._starts[j] for j in scaled], dtype=torch.int64)
        self._gaps_at = torch.tensor([self._starts[j] + self.columns[j].width - 1 for j in gaps], dtype=torch.int64)
        self._logged = torch.tensor([k for k, j in enumerate(scaled) if self.columns[j].log], dtype=torch.int64)
        self._figures = torch.tensor(
            [(self.columns[j].fill, self.columns[j].shift, self.columns[j].scale) for j in scaled],
            dtype=torch.float64,
        ).reshape(-1, 3)

    @property
    def config(self) -> dict[str, Any]:
        columns = [plain(asdict(column)) for column in self.columns]
        for column in columns:
            if not column["log"]:  # written only where it says something: runs without it keep their fingerprint
                del column["log"]
        return {"columns": columns}

    def encoded_names(self) -> tuple[str, ...]:
        """Names of the network's inputs."""
        return tuple(name for column in self.columns for name in column.encoded_names())

    def dim(self, x: Tensor) -> int:
        return self.width

    def encode(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != len(self.columns):
            raise ShapeError(
                f"a row must have {counted(len(self.columns), 'value')}",
                got=f"rows of shape {tuple(x.shape[1:])}",
                do="Pass the columns that the model was trained on, in their order",
            )
        out = torch.zeros((len(x), self.width), dtype=torch.float32, device=x.device)
        on = lambda index: index.to(x.device)  # noqa: E731
        if len(self._scaled):
            fill, shift, scale = on(self._figures).unbind(1)
            block = x.double() if len(self._scaled) == len(self.columns) else x[:, on(self._scaled)].double()
            block = torch.where(block.isnan(), fill, block)
            if len(self._logged):
                block[:, on(self._logged)] = block[:, on(self._logged)].log()
            out[:, on(self._scaled_at)] = ((block - shift) / scale).float()
        if len(self._gaps):
            out[:, on(self._gaps_at)] = x[:, on(self._gaps)].isnan().float()
        for j, column in enumerate(self.columns):
            if column.kind == "category":
                code = x[:, j]
                rows = ((code >= 0) & (code < len(column.levels))).nonzero().flatten()
                out[rows, self._starts[j] + code[rows].long()] = 1.0
            for place, cycle in enumerate(column.cycles):
                day = torch.where(x[:, j].isnan(), column.fill, x[:, j].double())
                angle = (day / CYCLES[cycle]).frac() * (2 * math.pi)
                out[:, self._starts[j] + 1 + 2 * place] = angle.sin().float()
                out[:, self._starts[j] + 2 + 2 * place] = angle.cos().float()
        return out

    def read(self, rows: Any) -> Tensor:
        """Raw rows out of a data frame, a list of dictionaries, a dictionary of lists, or rows in column order.

        Columns are found by name and further ones are ignored. An array or tensor of numbers is taken as raw rows:
        in column order, categories as codes.
        """
        if isinstance(rows, Tensor) or (isinstance(rows, np.ndarray) and rows.dtype.kind in "fiub"):
            return self._raw(torch.as_tensor(rows))
        table = table_of(rows, self.names)
        absent = [name for name in self.names if name not in table.columns]
        if absent and len(table):
            free = [name for name in table.columns if name not in self.names]
            raise DataError(
                "rows must have the columns that the model was trained on",
                got=f"no column {', '.join(absent[:5])}" + (f" and {len(absent) - 5} more" if absent[5:] else ""),
                do=named(absent[0], free) if free else "Add what is missing; leave a cell empty if it is not known",
            )
        x = np.empty((len(table), len(self.columns)))
        comma = self.writes_comma(table)
        for j, column in enumerate(self.columns if len(table) else ()):
            x[:, j] = column.read(table.columns[column.name], table, comma)
        return torch.from_numpy(x)

    def writes_comma(self, table: Table) -> bool:
        """Whether the decimal sign of a table's numbers is a comma: in its own columns, or in those of training."""
        numbers = [column for column in self.columns if column.kind == "number"]
        known = [table.columns[column.name] for column in numbers if column.name in table.columns]
        return any(column.style == "comma" for column in numbers) or writes_comma(known)

    def _raw(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.shape[1] != len(self.columns):
            raise ShapeError(
                f"rows must have shape (n, {len(self.columns)}), one value a column",
                got=f"shape {tuple(x.shape)}",
                do=f"The columns are {', '.join(self.names[:8])}" + (", …" if self.names[8:] else ""),
            )
        x = x.double()
        for j, column in enumerate(self.columns):
            top = len(column.levels) if column.kind == "category" else 2 if column.kind == "flag" else None
            wrong = x[:, j].isinf()
            if top is not None:
                wrong |= (x[:, j] < -1) | (x[:, j] >= top) | (x[:, j] != x[:, j].round()) & ~x[:, j].isnan()
            if bool(wrong.any()):
                row = int(wrong.nonzero()[0])
                legal = "finite" if top is None else f"codes 0 … {top - 1}"
                raise DataError(
                    f"numbers of column {column.name} must be {legal}",
                    got=f"{x[row, j].item():g} in row {row}",
                    do="Pass a data frame or dictionaries to give values by name",
                )
            if column.log:
                values = x[:, j].numpy(force=True)
                check_log(column.name, values, partial(_at_row, values))
        return x


def _at_row(values: np.ndarray, row: int) -> str:
    return f"{values[row]:g} in row {row}"


def check_log(name: str, values: np.ndarray, told: Callable[[int], str], otherwise: str = "") -> None:
    """Refuse values of which no logarithm can be taken.

    Args:
        values: NaN where one is missing.
        told: the value and its place, in words, for a row of `values`.
        otherwise: what else can be done about it.
    """
    wrong = np.flatnonzero(values <= 0)
    if len(wrong):
        more = f" ({len(wrong)} such rows)" if len(wrong) > 1 else ""
        raise DataError(
            f"column {name} must be above 0 in every row for its logarithm to be taken",
            got=f"{told(int(wrong[0]))}{more}",
            do=f"Correct the value, or leave it empty if it is not known{otherwise}",
        )


def named(name: str, known: Sequence[str]) -> str:
    """Like `suggest`, but of a hundred known names it shows a few.

    >>> named("prise", ["price", "age"]), named("q", [str(i) for i in range(99)])[-16:]
    ('Did you mean price?', '11 … (99 in all)')
    """
    sentence = suggest(name, known)
    if sentence.startswith("Known") and len(known) > 12:
        return f"Known: {', '.join(known[:12])} … ({len(known)} in all)"
    return sentence


def _column(fields: Mapping[str, Any]) -> Column:
    plain_fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    return Column(**plain_fields)


def _mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Both in a form that neither overflows nor takes rounding for spread."""
    top = float(np.abs(values).max(initial=0.0))
    if top == 0:
        return 0.0, 1.0
    mean = float(np.mean(values / top)) * top
    rest = values - mean
    reach = float(np.abs(rest).max())
    if not math.isfinite(reach) or reach <= 1e-14 * top:
        return mean, 1.0 if reach <= 1e-14 * top else top
    return mean, reach * math.sqrt(float(np.mean((rest / reach) ** 2)))


def _moves(values: np.ndarray, period: float) -> bool:
    """Whether dates fall on different places of a cycle; a day is whole unless times are given."""
    places = np.mod(values, period) / period
    return bool(len(places) and np.ptp(places) > 1e-9) and (period != 365.2425 or bool(np.ptp(values) > 28))


def _day(value: float) -> str:
    return date.fromordinal(date(1970, 1, 1).toordinal() + math.floor(value)).isoformat()
