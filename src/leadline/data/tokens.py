"""Rows of tokens as a network reads them: small numbers stay small until a batch is gathered.

    next      x_t = s_t,                 y_t = s_{t+1}          of a stream s of documents, each closed by `end`
    masked    x_t = s_t or hidden,       y_t = s_t where hidden, else nothing
    classes   x = cls a sep (b sep),     y = a class
    tags      x = the words of a line,   y_t = the tag of the word that begins at t, else nothing
    spans     x = cls question sep context sep,   y = first and last place of the answer
    pairs     x = source padded to S, then start b_1 … b_m;   y = b_1 … b_m end

Of the n words of a row that are not special, p n are chosen, rounded and at least one; of those chosen 80 % become
`mask`, 10 % a word drawn from all, and 10 % stay as they are (Devlin et al., 2019). The draw is a hash of the row's key
and the place: the words with the smallest are chosen.

    z_{b,t} = mix(mix(key_b ⊕ C) + t)                                                       (1)

A stored number of 16 bits is read without its sign, so that 65,535 tokens fit; -1, all bits set, is no token: where a
row is padded, and where nothing is asked.

Notation   p -> p_hidden,  mix -> splitmix64's finaliser,  S -> len_source
Shapes     x (N, T), or (N, S + T) of pairs;  y (N, T), (N,) of classes, (N, 2) of spans
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.cells import Table, Text, table_of
from leadline.data.columns import named
from leadline.data.inputs import Inputs
from leadline.errors import DataError, ShapeError, UserError
from leadline.names import lookup
from leadline.settings import given, real, whole
from leadline.text.tokenizer import Tokenizer

TASKS = ("next", "masked", "classes", "pairs", "tags", "spans")
NOTHING = -1
MOST_LENGTH = 65536
_SMALL = 65535  # tokens that fit in 16 bits beside NOTHING
_SITE = -0x61C8864680B583EB
_KEPT, _DRAWN = 0.8, 0.9  # below the first a chosen word becomes `mask`, below the second another word


class Tokens(Inputs):
    """Raw rows are whole numbers, 16 bits each where they fit; a network reads int64.

    Args:
        task: one of `TASKS`.
        length: most tokens of a row, at least 2; of pairs, of what the decoder reads.
        tokenizer: what made them, or its JSON.
        len_source: tokens of the source of a pair, at least 1; None for other tasks.
        p_hidden: part of the words that are chosen to be hidden, from 0 to 1.
        names: the columns that hold the text, of a table.
        source_tokenizer: of the sources of pairs, where they have one of their own; pads as the other does.

    >>> words = Tokenizer.train(["a cat sat on a mat"], kind="bytes")
    >>> rows = Tokens("next", 8, words).read(["a cat", "mat"])
    >>> rows.shape, Tokens("next", 8, words).decode(rows)
    (torch.Size([2, 5]), ['a cat', 'mat'])
    """

    late = True

    def __init__(
        self,
        task: str,
        length: int,
        tokenizer: str | Tokenizer,
        len_source: int | None = None,
        p_hidden: float = 0.15,
        names: Sequence[str] = (),
        source_tokenizer: str | Tokenizer | None = None,
    ):
        self.task = lookup(task, {word: word for word in TASKS}, "task")
        self.length = whole("length", length, 2, MOST_LENGTH, usual=256)
        self.tokenizer = Tokenizer.from_json(tokenizer) if isinstance(tokenizer, str) else tokenizer
        if (len_source is None) is (self.task == "pairs"):
            raise UserError(
                "len_source must be given for pairs, and only for pairs",
                got=f"{given('len_source', len_source)} for task {self.task}",
                do="Let ll.data.text(…) put the inputs together",
            )
        if isinstance(source_tokenizer, str):
            source_tokenizer = Tokenizer.from_json(source_tokenizer)
        self.source_tokenizer = source_tokenizer
        self.len_source = None if len_source is None else whole("len_source", len_source, 1, MOST_LENGTH)
        self.p_hidden, self.names = real("p_hidden", p_hidden, 0, most=1), tuple(names)
        self.draws = self.task == "masked"
        self._needs()
        self._tables: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def _needs(self) -> None:
        """Refuse a tokenizer without the tokens that the task is made of."""
        wanted = {
            "next": ("end",),
            "masked": ("pad", "end", "mask"),
            "pairs": ("pad", "end"),
            "spans": ("pad", "sep"),
        }.get(self.task, ("pad",))
        absent = [name for name in wanted if getattr(self.tokenizer, name) is None]
        if absent:
            raise DataError(
                f"a tokenizer for {self.task} must have the special tokens {' and '.join(wanted)}",
                got=f"one without {' and '.join(absent)}",
                do="Train one with ll.data.text(…), or add them to its file",
            )
        other = self.source_tokenizer
        if other is not None and (self.task != "pairs" or other.pad != self.tokenizer.pad):
            raise DataError(
                "a tokenizer of sources needs pairs, and the same pad token as that of the targets",
                got=f"task {self.task}, pad {other.pad} beside {self.tokenizer.pad}",
                do="Let ll.data.text(…) train both",
            )

    @property
    def config(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("task", "length", "len_source", "p_hidden")}
        return {**plain, **self._tokenizers(), "names": list(self.names)}

    def attachments(self) -> dict[str, str]:
        return {f"{name}.json": text for name, text in self._tokenizers().items()}

    def _tokenizers(self) -> dict[str, str]:
        other = self.source_tokenizer
        both = {"tokenizer": self.tokenizer.to_json()}
        return both if other is None else both | {"source_tokenizer": other.to_json()}

    @property
    def reads(self) -> Tokenizer:
        """The tokenizer of what is read first: that of the sources, where they have one."""
        return self.tokenizer if self.source_tokenizer is None else self.source_tokenizer

    @property
    def fill(self) -> int:
        """What a row is padded with as a network reads it: `pad`, or `end` where there is none."""
        return next(token for token in (self.tokenizer.pad, self.tokenizer.end, 0) if token is not None)

    @property
    def start(self) -> int:
        """What the decoder reads first: `start`, or where there is none what pads, as in T5."""
        return self.fill if self.tokenizer.start is None else self.tokenizer.start

    def encode(self, x: Tensor) -> Tensor:
        if x.is_floating_point() or x.dim() != 2:
            raise ShapeError(
                "rows of tokens must be whole numbers of shape (N, T)",
                got=f"{x.dtype} of shape {tuple(x.shape)}",
                do="Let read(…) of these inputs make them",
            )
        return _unpacked(x, self.fill)

    def drawn(self, x: Tensor, y: Tensor, keys: Tensor | None) -> tuple[Tensor, Tensor]:
        """What is asked: tokens as int64, and of masked words which.

        Args:
            keys: (B,), of masked words.
        """
        if self.task in ("classes", "spans") or y.dim() != 2:  # one answer a row; or a prediction, where none is known
            return x, y
        y = _unpacked(y, NOTHING)
        if self.task != "masked" or y.shape != x.shape:
            return x, y
        if keys is None:
            raise UserError("masked tokens must be drawn with keys", got="keys=None", do="Pass one key for each row")
        return self._hidden(x, y, keys)

    def _hidden(self, x: Tensor, y: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Rows with some words hidden, and y there alone."""
        special, ordinary = self._lists(x.device)
        place = torch.arange(x.shape[1], device=x.device)
        z = mix(mix(keys[:, None] ^ _SITE) + place)  # eq. 1
        chance = lambda bits: ((z >> bits) & 0xFFFF).to(torch.float32) * 2.0**-16  # noqa: E731
        plain = ~special[x] & (y != NOTHING)
        rank = torch.where(plain, z, torch.iinfo(z.dtype).max).argsort(1).argsort(1)
        chosen = plain & (rank < self.num_hidden(plain.sum(1, keepdim=True)))
        how = chance(32)
        other = ordinary[(mix(z) >> 1 & 2**62 - 1) % len(ordinary)]
        shown = torch.where(how < _KEPT, self.tokenizer.mask, torch.where(how < _DRAWN, other, x))  # type: ignore[arg-type]
        return torch.where(chosen, shown, x), torch.where(chosen, y, NOTHING)

    def counts(self, x: Tensor, num_tokens: int) -> Tensor:
        """How often each token stands in raw rows, (V,)."""
        read = _unpacked(x, NOTHING).flatten()
        return torch.bincount(read[read != NOTHING], minlength=num_tokens)

    def num_hidden(self, words: Tensor) -> Tensor:
        """How many of so many words of a row are chosen."""
        return (self.p_hidden * words).round().long().clamp(min=int(self.p_hidden > 0))

    def _lists(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Which tokens are special, (V,), and the others."""
        if device not in self._tables:
            special = torch.from_numpy(self.tokenizer.special | (self.tokenizer.token_bytes == 0))
            self._tables[device] = special.to(device), (~special).nonzero().flatten().to(device)
        return self._tables[device]

    def sizes(self, shape: tuple[int, ...]) -> dict[str, Any]:
        own = self.tokenizer
        told = {"num_tokens": own.num_tokens, "length": max(self.length, shape[0] - (self.len_source or 0))}
        if self.len_source is not None:
            told["len_source"] = self.len_source
        if self.source_tokenizer is not None:
            told["num_source_tokens"] = self.source_tokenizer.num_tokens
        return {**told, "pad": own.pad, "start": self.start, "end": own.end, "sep": own.sep}

    def room(self, shape: tuple[int, ...]) -> int:
        if self.task in ("classes", "spans", "tags"):
            return 0
        return 4 * (shape[0] - (self.len_source or 0)) * self.tokenizer.num_tokens

    def dim(self, x: Tensor) -> int:
        return x.shape[1]

    def read(self, rows: Any) -> Tensor:
        """Raw rows out of what a user holds.

        Args:
            rows: a text or several; of classes and spans also pairs of texts; a table with the trained columns; or
                tokens, (N, T), as a tensor, an array or lists. The name of the mask in a text is the mask, where words
                are masked.
        """
        if isinstance(rows, Tensor) or (isinstance(rows, np.ndarray) and rows.dtype.kind in "iu"):
            return self._tokens(torch.as_tensor(rows))
        texts = [rows] if isinstance(rows, str) else self._texts(rows)
        if isinstance(texts, Tensor):
            return texts
        if not texts:
            raise DataError("there must be rows to read", got="none", do="Pass at least one text")
        if self.task == "pairs":
            pairs = [(text, "") if isinstance(text, str) else (*text, "")[:2] for text in texts]
            return pair_rows(self, *self.encode_pairs(*zip(*pairs)), closed=False)[0]
        if self.task in ("classes", "spans"):
            parts = [(text,) if isinstance(text, str) else tuple(text) for text in texts]
            if len(set(map(len, parts))) > 1:
                raise DataError(
                    "all rows must have the same number of texts", got="one and two", do="Pass one, or two, for each"
                )
            return framed_rows(self, [self.tokenizer.encode_many(side) for side in zip(*parts)])[0]
        return self._lines([text if isinstance(text, str) else " ".join(text) for text in texts])

    def _texts(self, rows: Any) -> Any:
        """The texts of each row, or the tokens where these are numbers."""
        if isinstance(rows, (list, tuple)) and rows and not any(isinstance(row, Mapping) for row in rows):
            if all(_is_text(row) for row in rows):
                return list(rows)
            try:
                x = torch.as_tensor(rows)
            except (TypeError, ValueError, RuntimeError):
                raise DataError(
                    "rows must be texts, or equally long rows of tokens",
                    got=given("rows", rows),
                    do='Pass ["a text", …]',
                ) from None
            return self._tokens(x)
        if isinstance(rows, (list, tuple)) and not rows:
            return []
        columns = text_columns(table_of(rows), self.names or ("text",))
        return list(zip(*columns)) if len(columns) > 1 else columns[0]

    def _tokens(self, x: Tensor) -> Tensor:
        x = x[None] if x.dim() == 1 else x
        if x.is_floating_point() or x.dtype == torch.bool or x.dim() != 2:
            raise ShapeError(
                "tokens must be whole numbers of shape (N, T)",
                got=f"{x.dtype} of shape {tuple(x.shape)}",
                do="Pass one row of tokens for each text",
            )
        most, low = max(self.tokenizer.num_tokens, self.reads.num_tokens), int(x.min()) if x.numel() else 0
        if x.numel() and x.dtype != torch.int16 and not (low >= NOTHING and int(x.max()) < most):
            raise DataError(
                f"tokens must lie in 0 … {most - 1}",
                got=f"values from {low} to {int(x.max())}",
                do="Use the tokenizer that the model was trained with",
            )
        return x

    def _lines(self, texts: list[str]) -> Tensor:
        """A row for each text, padded to the longest."""
        found = [self.masked_tokens(text) for text in texts] if self.draws else self.tokenizer.encode_many(texts)
        longest = max(map(len, found))
        if longest > self.length or longest == 0:
            raise DataError(
                f"a text must have 1 to {self.length} tokens",
                got=f"one of {longest}" if longest else "an empty one",
                do="Cut it into shorter ones" if longest else "Write something",
            )
        return padded(found, longest, self.tokenizer.num_tokens)

    def masked_tokens(self, text: str) -> np.ndarray:
        """The tokens of a text, in which the name of the mask is the mask; where tokens bring the space before a word
        with them, it brings the one before it.
        """
        mask = self.tokenizer.mask
        texts = text.split(self.tokenizer.token(mask))  # type: ignore[arg-type]
        if self._brings_spaces:
            texts = [*(part.removesuffix(" ") for part in texts[:-1]), texts[-1]]
        parts = self.tokenizer.encode_many(texts)
        joined = [part for found in parts for part in (np.array([mask]), np.asarray(found))]
        return np.concatenate(joined[1:])

    @property
    def _brings_spaces(self) -> bool:
        pieces = map(self.tokenizer.bytes_of, range(self.tokenizer.num_tokens))
        return any(len(piece) > 1 and piece[:1] == b" " for piece in pieces)

    def encode_pairs(self, sources: Iterable[str], targets: Iterable[str]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The tokens of both sides of pairs, each by its own tokenizer."""
        return self.reads.encode_many(sources), self.tokenizer.encode_many(targets)

    def stretch(self, question: str, context: str, first: int, last: int) -> str:
        """What stands in a context at some places of its row, as it is written there; empty before it."""
        tokens = self.tokenizer.encode_many([question, context])
        begun = int(framed_rows(self, [[part] for part in tokens])[1][0, 0])
        places = self.tokenizer.places(context)[max(0, first - begun) : max(0, last - begun + 1)]
        return context[places[0, 0] : places[-1, 1]].strip() if len(places) else ""

    def decode(self, x: Tensor) -> list[str]:
        """The texts of rows, of pairs of targets; what pads them is left out."""
        return _texts(self.tokenizer, x)

    def decode_sources(self, x: Tensor) -> list[str]:
        """The sources of rows of pairs."""
        return _texts(self.reads, x[:, : self.len_source])


def pair_rows(
    inputs: Tokens, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], *, closed: bool = True
) -> tuple[Tensor, Tensor, int]:
    """x and y of pairs, out of their tokens, and how many were cut.

    Args:
        closed: the targets are whole; else they are what was said so far, and rows have room for no more.
    """
    S, own = inputs.len_source or 0, inputs.tokenizer
    most = inputs.length - 1  # `start` before, or `end` after
    cut = sum(len(a) > S or len(b) > most for a, b in zip(sources, targets))
    said = [tokens[:most] for tokens in targets]
    T = inputs.length if closed else 1 + max(map(len, said))
    known = max(own.num_tokens, inputs.reads.num_tokens)
    heads, asked = padded((tokens[:S] for tokens in sources), S, known), padded(said, T, known)
    start, end = np.array([inputs.start, own.end]).astype(stored_as(known)).tolist()
    reads = torch.cat([torch.full_like(asked[:, :1], start), asked[:, :-1]], 1)
    asked[torch.arange(len(said)), torch.tensor([len(tokens) for tokens in said])] = end
    return torch.cat([heads, reads], 1), asked, cut


def framed_rows(inputs: Tokens, parts: Sequence[Sequence[np.ndarray]]) -> tuple[Tensor, np.ndarray, int]:
    """x of rows `cls a sep`, or `cls a sep b sep`, padded to the longest, out of their tokens; where the last part of
    each begins and how much of it is kept; and how many were cut. What is too long loses the end of its longest part,
    and of a question and its context that of the context.
    """
    own = inputs.tokenizer
    cls, sep = (np.array([] if token is None else [token], np.int64) for token in (own.cls, own.sep))
    room = inputs.length - len(cls) - len(sep) * len(parts)
    if room < len(parts):
        raise UserError(
            "length must leave room for tokens besides the special ones",
            got=given("length", inputs.length),
            do="Pass length=128",
        )
    rows, places, cut = [], [], 0
    for texts in zip(*parts):
        kept = fitted([len(text) for text in texts], room, last=inputs.task == "spans")
        cut += any(k < len(text) for k, text in zip(kept, texts))
        row = [cls, *(half for text, k in zip(texts, kept) for half in (text[:k], sep))]
        rows.append(np.concatenate(row))
        places.append((len(rows[-1]) - len(sep) - kept[-1], kept[-1]))
    return padded(rows, max(map(len, rows)), own.num_tokens), np.array(places), cut


def fitted(lengths: Sequence[int], room: int, last: bool = False) -> list[int]:
    """How much of each part is kept so that all fit: the longest is cut first, or always the last.

    >>> fitted([5, 9], 10), fitted([5, 9], 10, last=True), fitted([9, 2], 4)
    ([5, 5], [5, 5], [2, 2])
    """
    kept = list(lengths)
    while sum(kept) > room:
        over = sum(kept) - room
        k = len(kept) - 1 if last and kept[-1] > 1 else max(range(len(kept)), key=lambda i: (kept[i], i))
        others = max((n for i, n in enumerate(kept) if i != k), default=0)
        kept[k] -= min(over, max(1, kept[k] - (1 if last else others)))
    return kept


def padded(rows: Iterable[Any], length: int, num_tokens: int) -> Tensor:
    """Rows of at most `length` tokens as they are stored, with `NOTHING` after the shorter ones.

    >>> padded([[5], [6, 7]], 2, 300).tolist()
    [[5, -1], [6, 7]]
    """
    rows = list(rows)
    found = np.full((len(rows), length), NOTHING, stored_as(num_tokens))
    there = np.arange(length) < np.array([len(tokens) for tokens in rows], np.int64)[:, None]
    if there.any():
        found[there] = np.concatenate(rows).astype(np.int64).astype(found.dtype)
    return torch.from_numpy(found)


def stored_as(num_tokens: int) -> Any:
    """The numpy type that holds so many tokens and `NOTHING`.

    >>> [stored_as(count).__name__ for count in (65_535, 65_536)]
    ['int16', 'int32']
    """
    return np.int16 if num_tokens <= _SMALL else np.int32


def text_columns(table: Table, names: Sequence[str]) -> list[list[str]]:
    """The texts in some columns; a missing one is empty."""
    for name in names:
        if name not in table.columns:
            raise DataError(
                f"{table.source} must have the column {name!r}",
                got=f"{counted(len(table.columns), 'other column')}",
                do=named(name, list(table.columns)).rstrip("."),
            )
    return [_words(table.columns[name]) for name in names]


def _texts(own: Tokenizer, x: Tensor) -> list[str]:
    rows = _unpacked(x, NOTHING).tolist()
    return [own.decode([token for token in row if token not in (own.pad, NOTHING)]) for row in rows]


def _words(cells: Any) -> list[str]:
    if isinstance(cells, Text):
        return [cells[row] or "" for row in range(len(cells))]
    return [f"{value:g}" if isinstance(value, float) else str(value) for value in cells.tolist()]


def _is_text(row: Any) -> bool:
    return isinstance(row, str) or (
        isinstance(row, (list, tuple)) and bool(row) and all(isinstance(part, str) for part in row)
    )


def _unpacked(x: Tensor, fill: int) -> Tensor:
    """Stored tokens as int64, `fill` where there is none."""
    if x.dtype == torch.int16:
        wide = x.to(torch.int64) & 0xFFFF
        return torch.where(wide == 0xFFFF, fill, wide)
    wide = x.to(torch.int64)
    return torch.where(wide < 0, fill, wide)


def mix(z: Tensor) -> Tensor:
    """Splitmix64's finaliser on int64."""
    right = lambda z, bits: (z >> bits) & (2 ** (64 - bits) - 1)  # noqa: E731 - logical: torch shifts the sign in
    z = (z ^ right(z, 30)) * -0x40A7B892E31B1A47
    z = (z ^ right(z, 27)) * -0x6B2FB644ECCEEE15
    return z ^ right(z, 31)
