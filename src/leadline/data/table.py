"""Own data: a table in a .csv, .tsv or .parquet file, or a data frame, becomes `Data` in one call.

import leadline as ll
data = ll.data.table("cars.csv", target="price")
data = ll.data.table(frame, target="price")
print(data.account)          # what each column is, what was filled in, which rows were refused and why
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline.config import plain
from leadline.data.arguments import checked
from leadline.data.cells import Table, table_of
from leadline.data.columns import named
from leadline.data.data import Data
from leadline.data.delimited import nothing_in, read_delimited
from leadline.data.frame import Plan, data_of, stem
from leadline.errors import DataError
from leadline.settings import given

DELIMITED = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
ENDINGS = (*DELIMITED, *PARQUET)


@checked
def table(
    path: Any,
    target: str | Sequence[str],
    *,
    kind: str | Sequence[str] | None = None,
    order: Sequence[str] = (),
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    log: Sequence[str] = (),
    missing: str = "fill",
    bad_rows: str = "error",
    val: float = 0.15,
    test: float = 0.2,
    split_seed: int = 0,
    group: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    test_path: Any = None,
) -> Data:
    """The table in a file or a data frame.

    Args:
        path: a file that ends in .csv, .tsv (either may be packed, .gz) or .parquet, or the rows themselves: a data
            frame, a dictionary of columns or a list of dictionaries. The separator and a missing header of a file are
            found out; text must be UTF-8.
        target: the column to predict; or several, each of a kind of its own.
        kind: what the target is: real, positive, count, angle (in radians), proportion, binary, classes or ordered
            (classes from low to high); by default real or classes, as its values suggest. For several targets one
            word for all, or one each. ranking: the targets hold the items of the first, second … place.
        order: the classes of an ordered target from low to high; by default by number or alphabet.
        drop: columns to leave out.
        categories: columns to take as categories, such as a code that is written in digits.
        log: columns of numbers above 0, such as incomes, of which the logarithm is read: a rise counts by its ratio.
        missing: "fill" (median, and an input that marks the row) or "drop" the rows with a missing value. Rows
            without a target are always refused.
        bad_rows: "error", or "refuse" to leave out lines with a wrong number of fields or an unreadable cell.
        val, test: parts of the rows, each from 0 and together below 1, drawn at random; classes are spread evenly.
        split_seed: of that draw, any whole number.
        group: a column whose equal values stay in one split, such as a patient's number.
        time: a column by which to split, train first and test last, instead of at random.
        weight: a column that scales each row's loss.
        test_path: a second file (or data frame), whose rows are the test split.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "cars.csv")
    ...     _ = file.write_text("make,age,price\\n" + "Opel,3,9000.5\\nFiat,,7000\\nFiat,9,2000\\n" * 10)
    ...     data = table(file, target="price")
    >>> data
    Data(cars: train 19, val 5, test 6; x (2,); y price: real)
    >>> print(data.account)
    cars.csv: 30 rows read, 30 used, 0 refused
      price: real, the target
      make: category, 2 levels (Fiat, Opel)
      age: number, 10 missing filled with the median 3
    """
    plan = Plan(
        target, kind, drop, categories, missing, bad_rows, val, test, split_seed, group, time, weight, order, log
    )
    rows, place = rows_of(path, "path", bad_rows)
    if (name := ",".join(plan.target)) in rows.columns:  # one name with a comma in it, which a shell's list parts
        target, plan = name, replace(plan, target=name)
    other, other_place = (None, None) if test_path is None else rows_of(test_path, "test_path")
    recipe = None
    if place is not None and (test_path is None or other_place is not None):
        options: dict[str, Any] = {"path": str(place), "target": target, "kind": kind, "drop": list(plan.drop)}
        options |= {name: list(value) for name, value in (("order", plan.order), ("log", plan.log)) if value}
        options |= {"categories": list(plan.categories), "missing": missing, "bad_rows": bad_rows}
        options |= {"val": val, "test": test, "split_seed": split_seed, "group": group, "time": time, "weight": weight}
        options["test_path"] = None if other_place is None else str(other_place)
        recipe = {"source": "table", "options": plain(options)}
    return data_of(rows, plan, name="frame" if place is None else stem(place), recipe=recipe, test=other)


def rows_of(what: Any, argument: str, bad_rows: str = "error") -> tuple[Table, Path | None]:
    """The rows of a file, with its place, or of whatever holds a table in memory, which has none."""
    if isinstance(what, (str, Path)):
        place = Path(what).expanduser().absolute()
        return read_rows(place, bad_rows), place
    if what is None or isinstance(what, (bool, numbers.Number, bytes)) or callable(what):
        raise DataError(
            f"{argument} must be a file's path or a data frame",
            got=given(argument, what),
            do='Write the path in quotes, such as "cars.csv"',
        )
    return table_of(what, source="data frame"), None


def read_rows(path: str | Path, bad_rows: str | None = None, asked: Sequence[str] = ()) -> Table:
    """The rows of a file as they are written, for `TableInputs.read`; `table` reads its files the same way.

    Args:
        path: a file as for `table`.
        bad_rows: as for `table`; None is an error, where the user cannot choose.
        asked: names of columns, which may be column_1, column_2 … of a file that has no line of names.
    """
    path = Path(path).expanduser()
    check_file(path)
    if path.name.lower().endswith(DELIMITED):
        return read_delimited(path, bad_rows, asked)
    return table_of(parquet_frame(path), source=path.name)


def parquet_frame(path: Path, num_rows: int | None = None) -> Any:
    """The polars frame in a file of Parquet; by default of all its rows."""
    check_file(path)
    try:
        import polars as pl
    except ImportError:
        raise DataError(
            "reading Parquet needs the package polars",
            got=f"{path.name} and no polars",
            do="Run pip install polars, or write the table as .csv",
        ) from None
    try:
        return pl.read_parquet(path, n_rows=num_rows)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path.name} must be a whole Parquet file", got=reason, do="Write it again") from None


def no_end(path: Path) -> str:
    """What a message tells of a link to a place where nothing is; empty for all else."""
    lost = path.is_symlink() and not path.exists()
    return f"{path}, a link to {os.readlink(path)}, where nothing is" if lost else ""


def check_no_pipe(path: Path) -> None:
    """Raise where a path is a pipe, a socket or a device: reading may wait for ever, and what was read is gone."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(
            "what is read must be a file or a folder, for it is read more than once",
            got=f"{path}, {'a pipe' if path.is_fifo() else 'neither of them'}",
            do="Write what comes out of it to a file, and name that; a .csv.gz or .txt.gz is read as it is",
        )


def check_file(path: Path) -> None:
    """Raise unless a table can lie there."""
    check_no_pipe(path)
    if path.is_dir():
        inside = sorted(file.name for file in path.iterdir() if file.name.lower().endswith(ENDINGS))
        do = f"Name a file in it, such as {inside[0]}" if inside else "Name a file"
        raise DataError("a table must be a file", got=f"the folder {path}", do=do)
    if leads := no_end(path):
        raise DataError("a table's file must exist", got=leads, do="Name the file itself, or mend the link")
    if not path.exists():
        beside = path.parent if path.parent.is_dir() else None
        files = sorted(file.name for file in beside.iterdir() if file.name.lower().endswith(ENDINGS)) if beside else []
        where = f"in {path.parent.absolute()}" if beside else f"and no folder {path.parent}"
        do = named(path.name, files).rstrip(".") if files else "Check the name and the folder"
        what = "a table's file" if path.name.lower().endswith(ENDINGS) else "what is read"
        raise DataError(f"{what} must exist", got=f"no {path.name} {where}", do=do)
    if not path.name.lower().endswith(ENDINGS):
        raise DataError(
            f"a table's file must end in {', '.join(ENDINGS)}",
            got=path.name,
            do="Rename it to what it holds, or export",
        )
    if path.name.lower().endswith(DELIMITED) and not path.stat().st_size:
        raise nothing_in(path)
