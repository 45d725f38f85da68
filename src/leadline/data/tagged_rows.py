"""Tagged words in tables: a row for each sentence, with a list of its words and one of their tags.

.jsonl, .parquet   {"words": ["the", "cat"], "tags": ["D", "N"]}
.csv, .tsv         the same lists in two columns, written ["the", "cat"]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leadline.data.account import Refusal, counted
from leadline.data.cells import Table
from leadline.data.columns import named
from leadline.data.sequence_columns import lists_in, read_list, rows_with_lists
from leadline.data.table import PARQUET, parquet_frame
from leadline.data.text_files import start_of
from leadline.data.text_rows import JSON_LINES
from leadline.data.words import plain_text
from leadline.errors import DataError

#: what the columns are called where nobody names them
WORDS = ("words", "tokens", "text", "sentence")
TAGS = ("tags", "labels", "ner_tags", "pos_tags", "upos", "tag", "label", "target")
_LISTED = (*JSON_LINES, *PARQUET)
LEAST = 3  # sentences that make a training, a validation and a test part
_SHOWN = 5
_LOOK = 20  # rows by which a file is judged


@dataclass(frozen=True, eq=False)
class Sentences:
    """Args:
    table: without columns: the numbers of the sentences, and the rows that were left out.
    words, tags: of each sentence, as many; a tag is None where none is known.
    names: of the two columns.
    """

    table: Table
    words: list[list[str]]
    tags: list[list[str | None]]
    names: tuple[str, str]


def sentences_in(path: Path, text: str | None = None, target: str | None = None) -> Sentences:
    """The sentences of a table.

    Args:
        text, target: the columns of words and of tags; by default those with a usual name.
    """
    word, numbers, columns = rows_with_lists(path)
    names = _named(path, list(columns), text, WORDS, "text"), _named(path, list(columns), target, TAGS, "target")
    words, tags = (lists_in(columns[name], name, word, numbers, words=True) for name in names)
    lost: dict[str, list[int]] = {}
    kept: list[int] = []
    for row, (own, of) in enumerate(zip(words, tags)):
        if own and len(own) == len(of):
            kept.append(row)
        else:
            reason = f"{names[0]} is empty" if not own else f"{names[1]} has not one for each of {names[0]}"
            lost.setdefault(reason, []).append(numbers[row])
    misfit = [row for row, (own, of) in enumerate(zip(words, tags)) if own and len(own) != len(of)]
    if misfit and len(kept) < LEAST:
        counts = f"{counted(len(words[misfit[0]]), 'word')} and {counted(len(tags[misfit[0]]), 'tag')}"
        more = f" ({len(misfit)} such {word}s)" if len(misfit) > 1 else ""
        raise DataError(
            f"{names[1]} must hold one tag for each of {names[0]}",
            got=f"{counts} in {word} {numbers[misfit[0]]} of {path.name}{more}",
            do=f"Write as many tags as words in every {word}",
        )
    refused = tuple(Refusal(reason, len(of), tuple(of[:_SHOWN])) for reason, of in lost.items())
    return Sentences(
        Table({}, np.array([numbers[row] for row in kept], dtype=np.int64), word, path.name, refused),
        [[_word(value) or "" for value in words[row]] for row in kept],
        [[_word(value) for value in tags[row]] for row in kept],
        names,
    )


def words_in(path: Path, names: Sequence[str] = ()) -> tuple[Table, list[list[str]]] | None:
    """The words of each row of a table; None where it holds no lists of words.

    Args:
        names: of their column, in training; the usual ones follow.
    """
    word, numbers, columns = rows_with_lists(path)
    for name in (*names, *WORDS):
        found = [read_list(cell, words=True) for cell in columns.get(name, ())]
        if any(found):
            words = [[_word(value) or "" for value in own or ()] for own in found]
            return Table({}, np.array(numbers), word, path.name), words
    return None


def holds_sentences(path: str | Path, text: Any = None, target: Any = None) -> bool:
    """Whether a file of Parquet or .jsonl holds tagged words: lists of words in its first rows, and lists of tags.

    Args:
        text, target: as of `sentences_in`.
    """
    path = Path(path).expanduser()
    named = all(isinstance(column, (str, type(None))) for column in (text, target))
    if not (named and path.name.lower().endswith(_LISTED) and path.is_file()):
        return False
    rows = _first_rows(path)
    name, of = (
        next((own for own in ((told,) if told else usual) if rows and own in rows[0]), "")
        for told, usual in ((text, WORDS), (target, TAGS))
    )
    words, tags = (
        [read_list([] if row.get(column) is None else row[column], True) for row in rows] for column in (name, of)
    )
    return (
        all(own is not None for own in (*words, *tags))
        and all(isinstance(value, str) for own in words for value in own or ())
        and all(any(len(own or ()) > 1 for own in lists) for lists in (words, tags))  # lists of one tag are classes
    )


def _first_rows(path: Path) -> list[dict[str, Any]]:
    if path.name.lower().endswith(PARQUET):
        return parquet_frame(path, _LOOK).to_dicts()
    *lines, last = (start_of(path) or "").split("\n")
    found = []
    for line in (lines or [last])[:_LOOK]:
        try:
            found += [json.loads(line)] if line.strip() else []
        except ValueError:
            return []
    return found if all(isinstance(row, dict) for row in found) else []


def _named(path: Path, have: list[str], told: str | None, usual: Sequence[str], role: str) -> str:
    found = next((name for name in ((told,) if told else usual) if name in have), None)
    if found is not None:
        return found
    do = named(told, have).rstrip(".") if told else f"Name one of {', '.join(have[:8])}: {role}={have[0]!r}, say"
    what = "of words" if role == "text" else "of tags"
    raise DataError(
        f"{role} must name the column {what} in {path.name}", got=f"{role} {told!r}" if told else f"no {role}", do=do
    )


def _word(value: Any) -> str | None:
    """A word or a tag as text, without ends of lines; None where there is none."""
    if value is None or value != value:
        return None
    return plain_text(value) if isinstance(value, float) else " ".join(str(value).split("\n"))
