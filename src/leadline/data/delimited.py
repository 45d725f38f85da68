"""Reads the text of a table: commas, semicolons, tabs or bars between the fields, `"` around those that hold one.

Every field comes back as the word it is. A file whose lines are all in order is read by polars where it is installed;
any other by the standard library's reader, which is slower and knows the line of each row: the two agree word for word.
Both read UTF-8: text with a mark of another encoding, or in one byte a letter, becomes UTF-8 first.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from leadline.data.account import Refusal, counted
from leadline.data.cells import Cells, Table, Text
from leadline.data.encodings import NO_TEXT, marked, one_byte
from leadline.data.words import number
from leadline.errors import DataError

SEPARATORS = ("\t", ";", "|", ",")  # where two fit equally well, the first: a comma may be a decimal sign
_SEPARATOR_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
_LARGEST = 16 * 2**30  # bytes after unpacking; a small archive can hold a huge file
_CHUNK = 2**22  # bytes that are decoded at once
_SHOWN = 5
_NAMELESS = "column_"


def read_delimited(path: Path, bad_rows: str | None = None, asked: Sequence[str] = ()) -> Table:
    """The table in a .csv or .tsv file, packed by gzip or not.

    Args:
        path: the file.
        bad_rows: what to do with a line whose number of fields is not the header's: "error", or "refuse" to leave
            it out and say so in the account; None is an error too, where the user cannot choose.
        asked: names of columns; column_2 and its like, where the first line has no such name, say that it is a row.
    """
    content, encoding = _text_bytes(path)
    separator = detect_separator(content[:65536])
    body, names, nameless, notes = _header(content, separator, path, asked)
    first = content[: len(content) - len(body)].count(b"\n") + 1  # the line on which the rows begin
    if separator != "," and len(names) > 1:
        notes = (f"fields are separated by a {_SEPARATOR_NAMES[separator]}", *notes)
    if encoding:
        notes = (f"the file is read as {encoding}", *notes)
    notes = (*notes, *empty_lines(_empty(body, first)))
    refused: tuple[Refusal, ...] = ()
    quick = _fast(body, separator, len(names))
    if quick is None:
        columns, lines, refused = _careful(body, separator, len(names), first, bad_rows, path)
    else:
        columns, lines = quick[0], quick[1] + first
    named = dict(zip(names, columns, strict=True))
    for name in nameless:
        if _is_empty(named[name]):  # what a comma at the end of each line leaves
            del named[name]
            notes = (*notes, f"{name} has neither a name nor a value and is left out")
        else:
            notes = (*notes, f"{name} is what a column without a name is called, by its place")
    return Table(named, lines, "line", path.name, refused, notes, nameless=len(body) == len(content))


def _text_bytes(path: Path) -> tuple[bytes, str]:
    """The file's text in UTF-8, without byte-order mark, one `\\n` a line; and its encoding, if it has another."""
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                content = file.read(_LARGEST + 1)
        else:
            content = path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path.name} must be a complete gzip file",
            got=f"one that cannot be unpacked ({error})",
            do="Fetch it again",
        ) from None
    except OSError as error:
        raise DataError(
            f"{path} must be readable", got=error.strerror or str(error), do="Check its permissions"
        ) from None
    if len(content) > _LARGEST:
        raise DataError(
            f"{path.name} must unpack to at most {_LARGEST >> 30} GiB", got="more", do="Split it, or use Parquet"
        )
    content, encoding = _in_utf8(content, path)
    if b"\0" in content:
        raise DataError(
            f"{path.name} must be a text file", got=f"a zero byte at offset {content.index(0)}", do="Check what it is"
        )
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not content[:4096].strip() and not content.strip():
        raise nothing_in(path)
    return content, encoding


def nothing_in(path: Path) -> DataError:
    """The message that a file is empty."""
    return DataError(f"{path.name} must hold a table", got="an empty file", do="Check that it was written")


def _in_utf8(content: bytes, path: Path) -> tuple[bytes, str]:
    """Text in UTF-8 without its mark, and the encoding that it came in, if that is another."""
    encoding = marked(content)
    if encoding in (None, "utf-8-sig"):
        content = content.removeprefix(codecs.BOM_UTF8)
        try:
            content.decode("utf-8")
            return content, ""
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            got = f"byte 0x{content[error.start]:02x} at offset {error.start}, line {line}"
            if encoding or _damaged(content):
                raise _not_text(path, got) from None
            encoding = one_byte(content)
    pieces = (content[start : start + _CHUNK] for start in range(0, len(content), _CHUNK))
    try:
        return b"".join(text.encode("utf-8") for text in codecs.iterdecode(pieces, encoding)), encoding
    except UnicodeError as error:
        raise _not_text(path, f"bytes that are not {encoding} ({error})") from None


def _damaged(content: bytes) -> bool:
    """Whether bytes that are not UTF-8 are no text of one byte a letter either: some are of no letter, or most of the
    letters are UTF-8 and a few of them broken.
    """
    letters = content.translate(None, bytes(range(128))).decode("utf-8", "replace")
    broken = letters.count("\ufffd")
    return 2 * broken < len(letters) or len(content) != len(content.translate(None, NO_TEXT))


def _not_text(path: Path, got: str) -> DataError:
    return DataError(
        f"{path.name} must be text in UTF-8, in UTF-16 with a byte-order mark, or in Windows-1252 or Latin-1",
        got=got,
        do="Correct that place, or save the table again in UTF-8",
    )


def detect_separator(start: bytes) -> str:
    """The separator that occurs equally often on most of the first lines, quoted text left out.

    >>> detect_separator(b"name;price\\nwine;3,50\\nbread;1,20")
    ';'
    """
    text = re.sub(r'"[^"]*"', "", start.decode("utf-8", "ignore"))
    lines = [line for line in text.split("\n") if line.strip()][:64]
    alone = not any(separator in lines[0] for separator in SEPARATORS) if lines[1:] else False
    if alone and all(number(line.strip(), "comma") is not None for line in lines[1:]):
        return ";"  # one column, whose decimal sign is a comma
    best, best_share = ",", 0.0
    for separator in SEPARATORS:
        wanted = lines[0].count(separator) if lines else 0
        if wanted:
            share = sum(line.count(separator) == wanted for line in lines) / len(lines)
            if share > best_share:
                best, best_share = separator, share
    return best


def _header(
    content: bytes, separator: str, path: Path, asked: Sequence[str]
) -> tuple[bytes, list[str], list[str], tuple[str, ...]]:
    """What follows the header, the columns' names, those made up for want of one, and what was done to get them."""
    start = re.match(rb"(?:[ \t]*\n)*", content).end()  # type: ignore[union-attr]
    text = content[start : start + 2**20].decode("utf-8", "ignore")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    written = next(reader)
    cells = [cell.strip() for cell in written]
    by_place = [f"{_NAMELESS}{i + 1}" for i in range(len(cells))]
    by_asking = bool(set(asked) & set(by_place)) and not set(asked) & set(cells)
    if by_asking or _is_data(cells):
        why = "is a row" if by_asking else "holds numbers, not names"
        note = f"the first line {why}: the columns are called {by_place[0]} … {by_place[-1]}"
        return content[start:], by_place, [], (note,)
    end = start
    for _ in range(reader.line_num):
        end = (content.find(b"\n", end) + 1) or len(content)
    names = [cell or place for cell, place in zip(cells, by_place)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"{path.name} must name each column once", got=f"{', '.join(twice[:5])} more than once", do="Rename one"
        )
    spaced = [name for name, cell in zip(names, written) if cell.strip() and cell != name]
    notes = (f"spaces around names are taken off: {', '.join(spaced[:5])}",) if spaced else ()
    return content[end:], names, [name for name, cell in zip(names, cells) if not cell], notes


def _empty(body: bytes, first: int) -> list[int]:
    """Numbers of the lines, between others, on which there is nothing; in quotes such a line is part of a field."""
    body = body.rstrip(b"\n")
    if b'"' in body or not (body[:1] == b"\n" or b"\n\n" in body):
        return []
    ends = np.flatnonzero(np.frombuffer(body, dtype=np.uint8) == 10)
    return (np.flatnonzero(ends == np.append(0, ends[:-1] + 1)) + first).tolist()


def empty_lines(numbers: Sequence[int]) -> tuple[str, ...]:
    """What is said of lines that hold nothing, if there are any.

    >>> empty_lines([]), empty_lines([7, 9])
    ((), ('2 empty lines left out (lines 7, 9)',))
    """
    if not numbers:
        return ()
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
    return (f"{counted(len(numbers), 'empty line')} left out ({'line' if len(numbers) == 1 else 'lines'} {shown})",)


def _is_data(cells: list[str]) -> bool:
    """Whether a first line is data: nothing but numbers, unless they count the columns from 0, as pandas does."""
    counted = len(cells) > 2 and cells == [str(i) for i in range(len(cells))]
    return not counted and any(all(number(cell, style) is not None for cell in cells) for style in ("point", "comma"))


def _fast(body: bytes, separator: str, width: int) -> tuple[list[Cells], np.ndarray] | None:
    """Columns and line offsets by polars; None when it is not installed or a line is not in order."""
    body = body.rstrip(b"\n")
    if not body or width < 2:
        return None
    try:
        import polars as pl
    except ImportError:
        return None
    text = np.frombuffer(body, dtype=np.uint8)
    ends = np.append(np.flatnonzero(text == 10), len(text))
    if b'"' not in body and (body[:1] == b"\n" or b"\n\n" in body):  # blank lines are no rows
        blank = ends == np.append(0, ends[:-1] + 1)
        found = _fast(np.delete(text, ends[blank]).tobytes(), separator, width)
        return None if found is None else (found[0], np.flatnonzero(~blank)[found[1]])
    fields = np.flatnonzero(text == ord(separator))
    lines = np.arange(len(ends))
    if b'"' in body:
        quotes = np.flatnonzero(text == 34)
        if len(quotes) % 2:
            return None
        outside = lambda places: np.searchsorted(quotes, places) % 2 == 0  # noqa: E731
        lines = np.append(0, lines[:-1][outside(ends[:-1])] + 1)
        ends, fields = ends[outside(ends)], fields[outside(fields)]
    counts = np.diff(np.searchsorted(fields, ends), prepend=0)
    if not (counts == width - 1).all():
        return None
    schema = [f"{_NAMELESS}{i}" for i in range(width)]
    try:
        frame = pl.read_csv(body, has_header=False, separator=separator, infer_schema=False, new_columns=schema)
    except pl.exceptions.PolarsError:
        return None
    if frame.shape != (len(ends), width):
        return None  # stray quotes that the two count differently
    return [Text(frame[name]) for name in schema], lines


def _careful(
    body: bytes, separator: str, width: int, first: int, bad_rows: str | None, path: Path
) -> tuple[list[Cells], np.ndarray, tuple[Refusal, ...]]:
    """Columns, line numbers and refusals, record by record."""
    rows, lines, wrong = [], [], []
    for line, row in _records(body, separator, first, path):
        if len(row) == width + 1 and not row[-1].strip():
            row = row[:-1]  # a separator at the end of the line
        if len(row) == width:
            rows.append(row)
            lines.append(line)
        elif any(cell.strip() for cell in row):
            wrong.append((line, len(row)))
    if wrong and bad_rows != "refuse":
        shown = ", ".join(f"{count} on line {line}" for line, count in wrong[:_SHOWN])
        more = f" and {len(wrong) - _SHOWN} more such lines" if len(wrong) > _SHOWN else ""
        raise DataError(
            f"every line of {path.name} must have {counted(width, 'field')}, like the first",
            got=f"{shown}{more}",
            do="Correct them (a field that holds a separator needs quotes)"
            + (', or leave them out with bad_rows="refuse"' if bad_rows else ""),
        )
    refused: tuple[Refusal, ...] = ()
    if wrong:
        reason = f"the line does not have {counted(width, 'field')}"
        refused = (Refusal(reason, len(wrong), tuple(line for line, _ in wrong[:_SHOWN])),)
    columns: list[Cells] = [Text(list(cells)) for cells in zip(*rows)] or [Text([]) for _ in range(width)]
    return columns, np.array(lines, dtype=np.int64), refused


def _records(body: bytes, separator: str, first: int, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each record with the number of the line on which it begins."""
    reader = csv.reader(io.StringIO(body.decode("utf-8"), newline=""), delimiter=separator, strict=True)
    line = first
    try:
        for row in reader:
            yield line, row
            line = first + reader.line_num
    except csv.Error as error:
        raise DataError(
            f"quotes in {path.name} must open before a field and close after it",
            got=f"a record from line {line} on that does not ({error})",
            do='Close the quote; inside a quoted field write it twice: ""',
        ) from None


def _is_empty(cells: Cells) -> bool:
    return isinstance(cells, Text) and len(cells) > 0 and all(not (w or "").strip() for w in cells.distinct()[0])
