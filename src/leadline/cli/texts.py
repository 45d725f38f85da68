"""`predict` for a run on text: what it says of each text of a file.

A file of text holds one a line; a table holds them in the columns that the run was trained on; a file of tagged words
holds a sentence in several lines, of which a run on tags reads the words. After each come: for
classes and numbers what any other run says; for pairs `translation`; for words that were hidden `filled`, the text with
the likeliest word for each mask; for tags `tags`, one for each word; for questions `answer`; and for a run that writes,
which `leadline generate` is for, `tokens`, `nll` of each of them, and `bits_per_byte`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from leadline.cli.given import PIPED, lines_of
from leadline.data.account import counted
from leadline.data.cells import Table, Text
from leadline.data.tagged_rows import words_in
from leadline.data.text_rows import TABLES, TAGGED, is_numbered, read_text_table, sentences
from leadline.data.text_tables import lacking, word_tokens
from leadline.data.tokens import Tokens, framed_rows, padded, text_columns
from leadline.errors import DataError
from leadline.run import Run
from leadline.translation import translate


def table_of(path: Path, inputs: Tokens, known: Sequence[str] = ()) -> tuple[Table, list[list[str]]]:
    """A file as a table, and the texts of each row: one, or two where two columns were trained on. The words of a file
    of tagged ones have ends of lines between them, since some hold spaces.
    """
    if inputs.task == "tags" and path.name.lower().endswith(TABLES) and (listed := words_in(path, inputs.names)):
        table, words = listed
        table = replace(table, columns={"text": Text([" ".join(own) for own in words])})
        return table, [["\n".join(own)] for own in words]
    if path.name.lower().endswith(TABLES):
        table = read_text_table(path, inputs.names == ("column_1",), inputs.names or ()).table
        if not len(table):
            raise DataError(f"{path.name} must have rows", got="a header and no row", do="Check that it was written")
        columns = text_columns(table, inputs.names or ("text",))
        return table, [list(texts) for texts in zip(*columns)]
    lines = lines_of(str(path), "INPUT")
    if inputs.task == "tags" and (found := _tagged(path, lines, known)):
        table = Table({"text": Text([" ".join(words) for _, words in found])}, np.array([n for n, _ in found]), "line")
        return replace(table, source=path.name), [["\n".join(words)] for _, words in found]
    if inputs.task in ("classes", "spans") and len(inputs.names) > 1:
        raise DataError(
            f"texts of {len(inputs.names)} columns must come as a table",
            got=f"{path.name}, lines of text",
            do=f"Write a .csv with the columns {' and '.join(inputs.names)}",
        )
    texts = list(lines.values())
    return Table({"text": Text(texts)}, np.array(list(lines)), "line", path.name), [[text] for text in texts]


def _tagged(path: Path, lines: dict[int, str], known: Sequence[str]) -> list[tuple[int, list[str]]]:
    """The first line and the words of each sentence, where a file holds a word a line; none where it holds texts.

    Most lines then end in a known tag, or are those of CoNLL-U, or are single words with empty lines between them.
    """
    cells = [line.split("\t") if "\t" in line else line.split() for line in lines.values()]
    ended = sum(len(own) > 1 and own[-1].strip() in known for own in cells)
    if 2 * ended > len(lines) or is_numbered(lines.values()):
        found, _ = sentences([row for n, line in lines.items() for row in ((n - 1, ""), (n, line))[n - 1 in lines :]])
        where = "standard input" if str(path) == PIPED else path.name
        told = "which are left aside; `leadline evaluate` tells how many are right"
        print(f"note: {where} holds tags, {told}", file=sys.stderr)
        return [(number, words) for number, words, _ in found]
    by_name = path.name.lower().endswith(TAGGED)
    if any(len(own) > 1 for own in cells) or not (by_name or len(lines) < max(lines)):
        return []
    begins = [number for number in lines if number - 1 not in lines]
    return [(n, [lines[k].strip() for k in takewhile(lines.__contains__, count(n))]) for n in begins]


def odd(inputs: Tokens, texts: list[list[str]]) -> list[str]:
    """What is to be said of texts that are empty, where they are sources, have no word to fill in, or hold what the
    vocabulary lacks.
    """
    empty = sum(not row[0].strip() for row in texts) if inputs.task == "pairs" else 0
    notes = [f"{counted(empty, 'text')} empty, and not translated"] if empty else []
    if inputs.task == "masked":
        name = inputs.tokenizer.token(cast(int, inputs.tokenizer.mask))
        whole = sum(name not in row[0] for row in texts)
        notes += [f"{counted(whole, 'text')} without {name}, where nothing is to be filled in"] if whole else []
    columns = zip(inputs.names or ("text",), zip(*([part.replace("\n", " ") for part in row] for row in texts)))
    return notes + [note for name, side in columns for note in lacking(inputs.reads, name, side)]


def num_cut(inputs: Tokens, texts: list[list[str]]) -> int:
    """Texts that are longer than a row of classes, pairs or spans, which lose their end."""
    encoded = [inputs.reads.encode_many(list(side)) for side in zip(*texts)]
    if inputs.task == "pairs":
        return sum(len(tokens) > (inputs.len_source or 0) for tokens in encoded[0])
    return framed_rows(inputs, encoded)[2] if inputs.task in ("classes", "spans") else 0


def in_parts(inputs: Tokens, texts: list[list[str]]) -> list[int]:
    """Rows whose text is longer than the model reads at once, of tasks that answer for every word of it."""
    if inputs.task == "tags":
        lengths = [len(word_tokens(inputs.tokenizer, _words(text))[0]) if text.split() else 0 for text, *_ in texts]
    elif inputs.task == "masked":
        lengths = [len(inputs.masked_tokens(text)) for text, *_ in texts]
    else:
        return []
    return [row for row, length in enumerate(lengths) if length > inputs.length]


def columns_of(run: Run, texts: list[list[str]]) -> dict[str, list[str]]:
    """What a run says of each text: name of a column → its cells; of tasks whose answers are words."""
    inputs = cast(Tokens, run.inputs)
    first = [row[0] for row in texts]
    if inputs.task == "pairs":
        return {"translation": translate(run, first)}
    if inputs.task == "masked":
        return {"filled": [_filled(run, inputs, text) for text in first]}
    if inputs.task == "tags":
        return {"tags": [_tags(run, inputs, text) for text in first]}
    if inputs.task == "spans":
        return {"answer": [_answer(run, inputs, texts[k : k + 1]) for k in range(len(texts))]}
    return _scored(run, inputs, first)


def _filled(run: Run, inputs: Tokens, text: str) -> str:
    x = torch.from_numpy(inputs.masked_tokens(text).astype(np.int64))
    if not len(x):
        return ""
    said = [run.predict(_row(inputs, part)).mode[0].cpu() for part in x.split(inputs.length)]
    hidden = x == cast(int, inputs.tokenizer.mask)
    return inputs.tokenizer.decode(torch.where(hidden, torch.cat(said), x).tolist())


def _tags(run: Run, inputs: Tokens, text: str) -> str:
    if not text.split():
        return ""
    tokens, first = word_tokens(inputs.tokenizer, _words(text))
    said: list[int] = []
    for words in _parts(first, len(tokens), inputs.length):
        begin = first[words.start]
        end = first[words.stop] if words.stop < len(first) else len(tokens)
        found = run.predict(_row(inputs, tokens[begin : min(end, begin + inputs.length)])).mode[0]
        said += [int(found[k - begin]) for k in first[words.start : words.stop]]
    return " ".join(run.target.classes[code] for code in said)


def _words(text: str) -> list[str]:
    return text.split("\n") if "\n" in text else text.split()


def _parts(first: np.ndarray, num_tokens: int, length: int) -> list[range]:
    """The words of a text, by the first tokens of each, as many at a time as a row holds, and at least one.

    >>> _parts(np.array([0, 2, 3, 9]), 10, 4)
    [range(0, 2), range(2, 3), range(3, 4)]
    """
    found, begin = [], 0
    for k, end in enumerate([*first[1:], num_tokens]):
        if end - first[begin] > length and k > begin:
            found.append(range(begin, k))
            begin = k
    return [*found, range(begin, len(first))]


def _row(inputs: Tokens, tokens: Any) -> Tensor:
    return padded([tokens], len(tokens), inputs.tokenizer.num_tokens)


def _answer(run: Run, inputs: Tokens, texts: list[list[str]]) -> str:
    row = inputs.read([tuple(text) for text in texts])
    begin, end = run.predict(row).mode[0].tolist()
    question, context = texts[0]
    return inputs.stretch(question, context, int(begin), int(end))


def _scored(run: Run, inputs: Tokens, texts: list[str]) -> dict[str, list[str]]:
    """How likely a text is: each token after those before it, the first after the end of another text."""
    found: dict[str, list[str]] = {"tokens": [], "nll": [], "bits_per_byte": []}
    sizes = torch.from_numpy(inputs.tokenizer.token_bytes)
    for text in texts:
        tokens = torch.tensor(inputs.tokenizer.encode(text), dtype=torch.long)
        total = -float(_log_p(run, inputs, tokens).sum())
        length = int(sizes[tokens].sum())
        found["tokens"].append(str(len(tokens)))
        found["nll"].append(f"{total / len(tokens):.6g}" if len(tokens) else "")
        found["bits_per_byte"].append(f"{total / math.log(2) / length:.6g}" if length else "")
    return found


def _log_p(run: Run, inputs: Tokens, tokens: Tensor) -> Tensor:
    """Of each token; a text longer than the context is read on from the last half of what was read."""
    begun = torch.cat([torch.tensor([inputs.tokenizer.end]), tokens])[:-1]
    found: list[Tensor] = []
    done = 0
    while done < len(tokens):
        first = max(0, done - inputs.length // 2)
        last = min(len(tokens), first + inputs.length)
        logits = run.raw(begun[None, first:last].to(torch.int32))[0, done - first :].float().cpu()
        found.append(logits.log_softmax(-1).gather(1, tokens[done:last, None]).squeeze(1))
        done = last
    return torch.cat(found) if found else torch.zeros(0)
