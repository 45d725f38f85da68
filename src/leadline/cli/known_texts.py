"""Texts of one's own with what is known of each, by the codes of a run, so that it can be measured on them.

A run that learned the next word, or hidden ones, is measured on a file of text or a folder of them, packed into rows as
those of training were; one on classes, pairs or questions on a table with its columns; one on tags on a file of them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from leadline.cli.labelled import codes_of
from leadline.cli.rows import outcome_of
from leadline.cli.texts import odd
from leadline.data.account import counted
from leadline.data.cells import Table
from leadline.data.data import Split
from leadline.data.shards import rows_of
from leadline.data.text_files import exists, find_texts
from leadline.data.text_rows import TABLES, read_text_table
from leadline.data.tokens import NOTHING, Tokens, framed_rows, pair_rows, stored_as, text_columns
from leadline.errors import DataError

if TYPE_CHECKING:
    from leadline.run import Run


def known_texts(run: Run, path: Path, recipe: dict[str, Any]) -> Split:
    """The rows of a file or folder as the run reads them.

    Args:
        recipe: the options that its data were read with.
    """
    exists(path)
    inputs = cast(Tokens, run.inputs)
    if inputs.task in ("next", "masked"):
        return _packed(inputs, path, recipe)
    if inputs.task in ("tags", "spans"):
        return _marked(run, inputs, path)
    table = _table(path, inputs, plain=inputs.names == ("column_1",))
    if inputs.task == "pairs":
        sides = _whole(inputs, text_columns(table, (*inputs.names, run.target.name)), path)
        return Split(*pair_rows(inputs, *inputs.encode_pairs(*sides))[:2])
    columns = [inputs.tokenizer.encode_many(column) for column in text_columns(table, inputs.names)]
    return Split(framed_rows(inputs, columns)[0], outcome_of(table, run.target, inputs))


def _table(path: Path, inputs: Tokens, plain: bool) -> Table:
    if not path.name.lower().endswith(TABLES):
        raise DataError(
            f"a run on {inputs.task} must be evaluated on a table",
            got=f"{'the folder ' if path.is_dir() else ''}{path}",
            do=f"Name one that ends in {', '.join(TABLES)}",
        )
    table = read_text_table(path, plain, inputs.names).table
    if not len(table):
        raise DataError(f"{path.name} must have rows", got="a header and no row", do="Check that it was written")
    return table


def _whole(inputs: Tokens, sides: list[list[str]], path: Path) -> list[list[str]]:
    """Pairs of which both sides are there; what is left out or read byte by byte is told."""
    kept = [row for row, pair in enumerate(zip(*sides)) if all(part.strip() for part in pair)]
    if not kept:
        raise DataError(
            f"{path.name} must hold pairs", got="no row with both sides", do="Write source and target in each row"
        )
    told = odd(inputs, [[sides[0][row]] for row in kept])
    if lost := len(sides[0]) - len(kept):
        told.insert(0, f"{counted(lost, 'row')} without a source or a target left out")
    for note in told:
        print(f"note: {note}", file=sys.stderr)
    return [[side[row] for row in kept] for side in sides]


def _packed(inputs: Tokens, path: Path, recipe: dict[str, Any]) -> Split:
    """Documents one after the other; where they are fewer tokens than a row has, a shorter row."""
    own = inputs.tokenizer
    if path.name.lower().endswith(TABLES):
        name = recipe.get("text") or "text"
        texts = text_columns(_table(path, inputs, plain=False), [name] if isinstance(name, str) else name)[0]
        pieces = [(text, True) for text in texts if text.strip()]
    else:
        pieces = [(text, last) for _, text, last in find_texts(path, recipe.get("separator")).pieces()]
    closing = np.array([] if own.end is None else [own.end], np.int64)
    found = own.encode_many([text for text, _ in pieces])
    tokens = [part for row, (_, last) in zip(found, pieces) for part in ((row, closing) if last else (row,))]
    count = sum(map(len, tokens))
    if count < 2:
        raise DataError(f"{path.name} must hold two tokens or more", got=f"{count}", do="Name a longer text")
    shifted = inputs.task == "next"
    length = min(inputs.length, count - shifted)
    stream = np.full(count + length + 1, NOTHING, stored_as(own.num_tokens))
    stream[:count] = np.concatenate(tokens)
    return Split(*rows_of(torch.from_numpy(stream), count, length, shifted))


def _marked(run: Run, inputs: Tokens, path: Path) -> Split:
    """Tagged words, or questions with their answers."""
    import leadline as ll

    options: dict[str, Any] = {"task": inputs.task, "tokenizer": inputs.tokenizer, "length": inputs.length}
    if inputs.task == "spans":
        options |= {"text": inputs.names, "target": run.target.name}
    elif inputs.names and path.name.lower().endswith(TABLES):
        options |= {"text": inputs.names[0], "target": run.target.name}
    data = ll.data.text(path, val=0.0, test=0.0, **options)
    if inputs.task == "spans":
        return data.train
    codes = codes_of(data.target.classes, run.target.classes)
    y = data.train.y
    return Split(data.train.x, torch.where(y == NOTHING, y, codes[y.clamp(min=0)]))
