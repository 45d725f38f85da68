"""`predict` for a run on text: what it says of each text of a file.

A file of text holds one a line; a table holds them in the columns that the run was trained on. Behind each come: for
classes and numbers what any other run says; for pairs `translation`; for words that were hidden `filled`, the text with
the likeliest word for each mask; for tags `tags`, one for each word; for questions `answer`; and for a run that writes,
which `leadline generate` is for, `tokens`, `nll` of each of them, and `bits_per_byte`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from leadline.data.cells import Table, Text
from leadline.data.text_rows import TABLES, read_text_table
from leadline.data.text_tables import word_tokens
from leadline.data.tokens import Tokens, framed_rows, padded, text_columns
from leadline.errors import DataError
from leadline.run import Run
from leadline.translation import translate


def table_of(path: Path, inputs: Tokens) -> tuple[Table, list[list[str]]]:
    """A file as a table, and the texts of each row: one, or two where two columns were trained on."""
    if path.name.lower().endswith(TABLES):
        table = read_text_table(path).table
        if not len(table):
            raise DataError(f"{path.name} must have rows", got="a header and no row", do="Check that it was written")
        columns = text_columns(table, inputs.names or ("text",))
        return table, [list(texts) for texts in zip(*columns)]
    if not path.is_file():
        got = f"the folder {path}" if path.is_dir() else f"no file {path}"
        do = "Name one file" if path.is_dir() else "Check the path"
        raise DataError("there must be a file of texts", got=got, do=do)
    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError:
        got = f"{path.name}, which is not"
        raise DataError("a file of texts must be UTF-8", got=got, do="Save it as UTF-8") from None
    if not lines:
        raise DataError(f"{path.name} must hold texts, one a line", got="none", do="Write something")
    if inputs.task == "spans":
        raise DataError(
            "questions and their texts must come as a table",
            got=f"{path.name}, lines of text",
            do=f"Write a .csv with the columns {' and '.join(inputs.names)}",
        )
    return Table({"text": Text(lines)}, np.arange(len(lines)) + 1, "line", path.name), [[line] for line in lines]


def num_cut(inputs: Tokens, texts: list[list[str]]) -> int:
    """Texts that are longer than a row of classes, pairs or spans, which lose their end."""
    encoded = [inputs.tokenizer.encode_many(list(side)) for side in zip(*texts)]
    if inputs.task == "pairs":
        return sum(len(tokens) > (inputs.len_source or 0) for tokens in encoded[0])
    return framed_rows(inputs, encoded)[2] if inputs.task in ("classes", "spans") else 0


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
    row = inputs.read([text])
    x = inputs.encode(row)[0]
    said = run.predict(row).mode[0].cpu()
    hidden = x == cast(int, inputs.tokenizer.mask)
    return inputs.tokenizer.decode(torch.where(hidden, said, x).tolist())


def _tags(run: Run, inputs: Tokens, text: str) -> str:
    tokens, first = word_tokens(inputs.tokenizer, text.split())
    if len(tokens) > inputs.length:
        raise DataError(f"a text must have at most {inputs.length} tokens", got=f"{len(tokens)}", do="Cut it")
    said = run.predict(padded([tokens], len(tokens), inputs.tokenizer.num_tokens)).mode[0]
    return " ".join(run.target.classes[int(said[k])] for k in first)


def _answer(run: Run, inputs: Tokens, texts: list[list[str]]) -> str:
    row = inputs.read([tuple(text) for text in texts])
    begin, end = run.predict(row).mode[0].tolist()
    return inputs.tokenizer.decode(inputs.encode(row)[0, int(begin) : int(end) + 1].tolist()).strip()


def _scored(run: Run, inputs: Tokens, texts: list[str]) -> dict[str, list[str]]:
    """How likely a text is: each token behind those before it, the first behind the end of another text."""
    found: dict[str, list[str]] = {"tokens": [], "nll": [], "bits_per_byte": []}
    sizes = torch.from_numpy(inputs.tokenizer.token_bytes)
    for text in texts:
        tokens = torch.tensor(inputs.tokenizer.encode(text))
        total = -float(_log_p(run, inputs, tokens).sum())
        length = int(sizes[tokens].sum())
        found["tokens"].append(str(len(tokens)))
        found["nll"].append(f"{total / max(1, len(tokens)):.6g}")
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
