"""Files of texts as tables: rows and their columns, read, counted and refused.

.jsonl       an object a line; what lies deeper is named with points
.tsv         with a line of names, or two columns without: sentences and their translations
tagged       lines "word … tag", a blank line after each sentence; or CoNLL-U
the others   as any table is read (leadline.data.table)
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from leadline.data.account import Account, Refusal, counted
from leadline.data.cells import Cells, Table, cells_of
from leadline.data.delimited import empty_lines
from leadline.data.table import ENDINGS, read_rows
from leadline.data.text_files import Corpus, find_texts, start_of
from leadline.data.tokens import text_columns
from leadline.errors import DataError

#: files of tagged words by their ending
TAGGED = (".conllu", ".conllu.gz", ".conll", ".conll.gz")
JSON_LINES = (".jsonl", ".jsonl.gz", ".ndjson")
TABLES = (*ENDINGS, *JSON_LINES)
#: what the columns of pairs are called in a line of names
_ROLES = ("source", "target", "src", "tgt", "input", "output", "text", "label", "from", "to", "original", "translation")
_TONGUES = ("english", "french", "german", "spanish", "italian", "portuguese", "dutch", "russian", "chinese")
_SHORT = ("japanese", "a", "b", "x", "y", "en", "fr", "de", "es", "it", "pt", "nl", "ru", "zh", "ja")
_WORDS = ("word", "pronunciation", "phonemes", "phones", "graphemes", "letters", "sounds", "spelling", "ipa", "arpabet")
_FORMS = ("singular", "plural", "lemma", "inflected", "infinitive", "incorrect", "correct", "noisy", "clean")
_SIDES = frozenset((*_ROLES, *_TONGUES, *_SHORT, *_WORDS, *_FORMS, "answer", "question", "sentence"))
_SHOWN = 5
_ALIKE = 0.5  # of the lines of tagged words have one number of columns; of those of running text fewer


@dataclass(eq=False)
class Rows:
    """The rows of a table in use.

    Args:
        table: all that were read.
        lost: rows that are left out, and why.
        notes: what a reader should know.
        plain: two columns without names, source and target.
    """

    table: Table
    lost: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    plain: bool = False

    def __post_init__(self):
        self.used = np.ones(len(self.table), dtype=bool)
        self.notes = [*self.table.notes, *self.notes]

    def refuse(self, mask: Any, reason: str) -> None:
        """Leave out rows where `mask` holds."""
        lost = np.flatnonzero(np.asarray(mask, dtype=bool) & self.used)
        self.used[lost] = False
        if len(lost):
            self.lost.setdefault(reason, []).extend(self.table.numbers[lost].tolist())

    def column(self, name: str) -> list[str]:
        """The texts of a column in all rows."""
        return text_columns(self.table, [name])[0]

    def left(self) -> np.ndarray:
        """The rows in use; too few are refused."""
        rows = np.flatnonzero(self.used)
        if len(rows) < 3:
            why = "; ".join(f"{len(numbers)}: {reason}" for reason, numbers in self.lost.items())
            raise DataError(
                f"{self.table.source} must have at least 3 rows to train, validate and test on",
                got=f"{len(rows)} of {len(self.table)} that can be used" + (f" ({why})" if why else ""),
                do="Add more rows",
            )
        return rows

    def account(self, columns: Iterable[str], notes: Iterable[str]) -> Account:
        refused = [
            *self.table.refused,
            *(Refusal(reason, len(lost), tuple(lost[:_SHOWN])) for reason, lost in self.lost.items()),
        ]
        read = len(self.table) + sum(refusal.count for refusal in self.table.refused)
        return Account(
            self.table.source, read, tuple(refused), tuple(columns), (*self.notes, *notes), f"{self.table.word}s"
        )


def read_text_table(path: Path, plain: bool = False, asked: Sequence[str] = ()) -> Rows:
    """The table in a file.

    Args:
        path: one that ends as `TABLES` say.
        plain: no column was asked for by name: a .tsv may be two columns without names.
        asked: those that were; column_1, column_2 … are of a file that has no line of names.
    """
    name = path.name.lower()
    if name.endswith(JSON_LINES):
        return _json_lines(path)
    if plain and name.endswith((".tsv", ".tsv.gz")):
        found = _two_columns(path)
        if found is not None:
            return found
    return Rows(read_rows(path, asked=asked))


def texts_of_folders(place: Path) -> Rows:
    """The files of text below a folder, each with the name of the folder that it lies in: its class."""
    texts = find_texts(place)
    whole: list[list[str]] = [[] for _ in texts.files]
    for number, piece, _ in texts.pieces():
        whole[number].append(piece)
    named = [(Path(file.name).parent.name, "".join(parts)) for file, parts in zip(texts.files, whole)]
    for file, (folder, _) in zip(texts.files, named):
        if not folder:
            texts.lost.add("lies in no folder of a class", file.name)
    folders, words = zip(*(own for own in named if own[0])) if any(folder for folder, _ in named) else ((), ())
    if len(set(folders)) < 2:
        raise DataError(
            "classes of texts must be folders, one for each",
            got=f"{', '.join(sorted(set(folders))) or 'none'} in {place.name}",
            do=f"Put the texts of each class into a folder of their own below {place.name}, or use a table",
        )
    columns = {"text": cells_of(list(words), "text"), "folder": cells_of(list(folders), "folder")}
    table = Table(columns, np.arange(1, len(words) + 1), "file", place.name, texts.lost.refusals())
    return Rows(table, notes=list(texts.notes))


def sentences(lines: Sequence[tuple[int, str]]) -> tuple[list[tuple[int, list[str], list[str]]], list[int]]:
    """The first line, the words and the tags of each sentence; and lines without a tag.

    CoNLL-U, which has ten columns parted by tabs and the number of a word in the first, has its words in the second and
    their classes in the fourth, or, where that is empty, in the fifth; words that are written as one are read apart.

    Args:
        lines: with their numbers.
    """
    found: list[tuple[int, list[str], list[str]]] = []
    wrong: list[int] = []
    widths: Counter[int] = Counter()
    begun, numbered = True, is_numbered(line for _, line in lines)
    for number, line in lines:
        if numbered and line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t") if cell.strip()] if "\t" in line else line.split()
        if not cells or cells[0] == "-DOCSTART-" or (line.startswith("# ") and "=" in cells):
            begun = True
        elif len(cells) == 1 or (numbered and not _is_numbered(cells)):
            wrong.append(number)
        elif not numbered or cells[0].isdigit():  # and not 3-4, two words in one, or 5.1, one that is not written
            if begun:
                found.append((number, [], []))
            word, tag = (cells[1], cells[3] if cells[3] != "_" else cells[4]) if numbered else (cells[0], cells[-1])
            found[-1][1].append(word)
            found[-1][2].append(tag)
            widths[len(cells)] += 1
            begun = False
    usual = widths.most_common(1)
    if usual and usual[0][1] < _ALIKE * widths.total():
        raise DataError(
            "lines of tagged words must all have the same number of columns, the word first and the tag last",
            got=f"{min(widths)} to {max(widths)} columns, as running text has",
            do='Write a line "word tag" for each word, and a blank line between sentences',
        )
    return found, wrong


def is_numbered(lines: Iterable[str]) -> bool:
    """Whether lines are those of CoNLL-U: whether the first of them that is no comment is.

    >>> is_numbered(["# sent_id = 1", "1\\tcat\\tcat\\tNOUN" + "\\t_" * 6]), is_numbered(["cat NOUN"])
    (True, False)
    """
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return _is_numbered([cell.strip() for cell in first.split("\t")])


def _is_numbered(cells: Sequence[str]) -> bool:
    return len(cells) == 10 and re.fullmatch(r"\d+([-.]\d+)?", cells[0]) is not None


def json_objects(texts: Corpus) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a file of one JSON object a line, each with the number of its line; empty lines are left out."""
    for number, line in lines_in(texts):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, Mapping):
                raise ValueError("no object")
        except ValueError as error:
            raise DataError(
                f"every line of {texts.files[0].name} must be a JSON object",
                got=f"line {number}: {error}",
                do="Correct the line",
            ) from None
        yield number, row


def _json_lines(path: Path) -> Rows:
    """The table in a file of one JSON object a line; what lies deeper is named with points, a list is its first."""
    found: list[dict[str, Any]] = []
    numbers: list[int] = []
    texts = find_texts(path)
    for number, row in json_objects(texts):
        found.append(dict(_flat(row)))
        numbers.append(number)
    if not found:
        raise DataError(f"{path.name} must have rows", got="none", do="Check that it was written")
    names = dict.fromkeys(name for row in found for name in row)
    columns: dict[str, Cells] = {name: cells_of([row.get(name) for row in found], name) for name in names}
    return Rows(Table(columns, np.array(numbers), "line", path.name), notes=list(texts.notes))


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            yield f"{before}{name}", value


def _two_columns(path: Path) -> Rows | None:
    """Sentences and their translations, parted by a tab, without quotes; None for a file with a line of names."""
    pairs: list[tuple[int, list[str]]] = []
    wrong: list[int] = []
    empty: list[int] = []
    more, texts = 0, find_texts(path)
    for number, line in lines_in(texts):
        cells = line.split("\t")
        if len(cells) >= 2:
            pairs.append((number, cells[:2]))
            more = max(more, len(cells) - 2)
        else:
            (wrong if line.strip() else empty).append(number)
    if not pairs:
        return None
    if all(_names_a_side(cell) for cell in pairs[0][1]):
        return None
    columns: dict[str, Cells] = {f"column_{k + 1}": cells_of([cells[k] for _, cells in pairs], "") for k in (0, 1)}
    refused = (Refusal("the line has no tab", len(wrong), tuple(wrong[:_SHOWN])),) if wrong else ()
    notes = [*texts.notes, "the two columns have no names, and are read as source and target"]
    first = [cell.strip() for cell in pairs[0][1]]
    if all(re.fullmatch(r"[^\W\d_][\w-]*", cell) for cell in first):
        notes[-1] += f", line {pairs[0][0]} too ({' and '.join(first)})"
        notes[-1] += "; if it names the columns, name them as source and target"
    notes += [f"{counted(more, 'further column')} left out"] if more else []
    notes += empty_lines([number for number in empty if number < pairs[-1][0]])
    numbers = np.array([number for number, _ in pairs])
    return Rows(Table(columns, numbers, "line", path.name, refused, nameless=True), notes=notes, plain=True)


def holds_pairs(path: str | Path) -> bool:
    """Whether a .tsv looks like texts and their translations without names: two columns of words, and few answers that
    come twice, as classes would.
    """
    path = Path(path).expanduser()
    if not (path.name.lower().endswith((".tsv", ".tsv.gz")) and path.is_file()):
        return False
    *whole, _ = (start_of(path) or "").split("\n")  # the last may be cut off; a text may hold other ends of lines
    lines = [line.split("\t") for line in whole if line.strip()]
    if len(lines) < 2 or any(len(cells) != 2 for cells in lines) or _are_names(lines):
        return False
    return all(
        len(set(column)) > len(lines) / 2 and sum(any(map(str.isalpha, cell)) for cell in column) > 0.9 * len(lines)
        for column in zip(*lines)
    )


def _are_names(lines: Sequence[Sequence[str]]) -> bool:
    """Whether the first line says what the columns are: the sides of pairs, or a word each above texts of several."""
    first, *rest = lines
    several = all(sum(len(cell.split()) > 1 for cell in column) > 0.9 * len(rest) for column in zip(*rest))
    return all(map(_names_a_side, first)) or (several and all(re.fullmatch(r"\s*[\w-]+\s*", cell) for cell in first))


def _names_a_side(cell: str) -> bool:
    """Whether a cell of the first line says what its column is, and is not a sentence itself: a role, a language, or a
    name that is written like one, such as text_en.
    """
    word = cell.strip().lower()
    return word in _SIDES or re.fullmatch(r"[a-z]+[_-][a-z]{2,}|[a-z]+_?\d", word) is not None


def lines_in(texts: Corpus) -> Iterator[tuple[int, str]]:
    """The lines of files of text, numbered from 1; after each file stands an empty one."""
    rest, number = "", 1
    for _, piece, last in texts.pieces():
        lines = (rest + piece).split("\n")
        for line in lines[:-1]:
            yield number, line
            number += 1
        rest = lines[-1]
        if last:
            if rest:
                yield number, rest
                number += 1
            yield number, ""
            rest = ""
