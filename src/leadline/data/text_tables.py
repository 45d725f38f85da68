"""Rows of text and what is known of each: classes or numbers, translations, tags of words, answers to questions.

The tokenizer, where none is given, is trained on the training rows alone. Rows are padded to the longest, up to
`length`; what is longer is cut and counted. Rows that say the same (a sentence with two translations, two questions on
one text) stay in one split.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.cells import Table, Text
from leadline.data.columns import named
from leadline.data.data import Data, Split
from leadline.data.held_out import Held
from leadline.data.outcome import read_outcome, with_figures
from leadline.data.table import DELIMITED
from leadline.data.tagged_rows import LEAST, sentences_in
from leadline.data.target import Target
from leadline.data.text_files import find_texts
from leadline.data.text_rows import JSON_LINES, Rows, lines_in, sentences
from leadline.data.tokens import NOTHING, Tokens, framed_rows, padded, pair_rows
from leadline.data.vocabulary import token_sizes, trained
from leadline.errors import DataError, UserError
from leadline.settings import given
from leadline.text.tokenizer import Tokenizer

_TOGETHER = 4096  # rows that are encoded at once
_NEARLY = 0.995  # of the rows need no more tokens than a row has where nobody named it


@dataclass(frozen=True)
class Making:
    """How rows become tokens.

    Args:
        held: which rows are held out.
        tokenizer: given, or None to train one.
        kind, num_tokens: of the one that is trained.
        length: most tokens of a row.
        trims: nobody named it: rows are no longer than nearly all of them need.
        target_tokenizer, target_kind: of the targets of pairs, where they are to have one of their own; the others are
            then of the sources alone.
    """

    held: Held
    tokenizer: Tokenizer | None
    kind: str
    num_tokens: int | None
    length: int
    trims: bool = False
    target_tokenizer: Tokenizer | None = None
    target_kind: str | None = None

    def most(self, lengths: Sequence[int]) -> int:
        """Tokens of a row, out of what each row needs."""
        longest = int(np.quantile(lengths, _NEARLY, method="higher")) if self.trims else max(lengths)
        return max(2, min(self.length, longest))

    def words(self, texts: Sequence[Sequence[str]], rows: Tensor) -> Tokenizer:
        """The tokenizer, of some rows of several columns where it must be trained."""
        return self._made(self.tokenizer, self.kind, texts, rows)

    def both(self, sides: Sequence[Sequence[str]], rows: Tensor) -> tuple[Tokenizer | None, Tokenizer]:
        """The tokenizers of sources, None where they share that of the targets, and of targets."""
        if self.target_tokenizer is None and self.target_kind is None:
            return None, self.words(sides, rows)
        target = self._made(self.target_tokenizer, self.target_kind or self.kind, sides[1:], rows)
        return self.words(sides[:1], rows), target

    def _made(self, given: Tokenizer | None, kind: str, texts: Sequence[Sequence[str]], rows: Tensor) -> Tokenizer:
        if given is not None:
            return given
        picked = [[column[row] for row in rows.tolist()] for column in texts]
        total = sum(len(text) for column in picked for text in column)
        return trained((text for row in zip(*picked) for text in row), total, kind, self.num_tokens)


def labelled(rows: Rows, text: str | Sequence[str] | None, target: str | None, how: Making) -> Data:
    """Texts, one or two a row, and a class or a number of each."""
    names = _names(rows.table, text, ("text",), target)
    _check(rows.table, "target", target)
    texts = [rows.column(name) for name in names]
    outcome = read_outcome(str(target), rows.table.columns[str(target)])
    rows.refuse([not all(part.strip() for part in row) for row in zip(*texts)], f"{' or '.join(names)} is empty")
    rows.refuse(outcome.missing, f"{target}, the target, is missing")
    rows.refuse(outcome.misfit, f"{target}, the target, is not a number")
    used = rows.left()
    y, kind = outcome.settle(used, None, rows.table.at)
    texts = [[column[row] for row in used] for column in texts]
    parts = _kept_whole(rows, list(zip(*texts)), y if kind.discrete else None, how.held)
    own = how.words(texts, parts[0])
    encoded = [_encoded(own, column) for column in texts]
    frame = (own.cls is not None) + len(encoded) * (own.sep is not None)
    inputs = Tokens("classes", how.most([frame + sum(map(len, row)) for row in zip(*encoded)]), own, names=names)
    x, _, cut = framed_rows(inputs, encoded)
    inputs = Tokens("classes", max(2, x.shape[1]), own, names=names)
    target_ = with_figures(kind, outcome.exactly(used, y)[parts[0]])
    return _data(rows, used, x, y, parts, target_, inputs, [f"{target_}, the target"], cut, how)


def paired(rows: Rows, source: str | None, target: str | None, how: Making) -> Data:
    """Texts and their translations."""
    if len(rows.table.columns) == 1:
        raise DataError(
            f"{rows.table.source} must have two columns, one of texts and one of their translations",
            got=f"one, {next(iter(rows.table.columns))!r}",
            do="Part the two by a tab in a .tsv, and by a comma in a .csv",
        )
    first, second = list(rows.table.columns)[:2] if rows.plain else (source, target)
    for role, name in (("source", first), ("target", second)):
        _check(rows.table, role, name)
    sides = [rows.column(str(first)), rows.column(str(second))]
    rows.refuse([not (a.strip() and b.strip()) for a, b in zip(*sides)], f"{first} or {second} is empty")
    used = rows.left()
    sides = [[side[row] for row in used] for side in sides]
    parts = how.held.rows(len(used), **_together(rows, sides[0], how.held))
    read, own = how.both(sides, parts[0])
    a, b = (_encoded(by, side) for by, side in zip((read or own, own), sides))
    S, T = how.most([len(tokens) for tokens in a]), how.most([1 + len(tokens) for tokens in b])
    inputs = Tokens("pairs", T, own, len_source=S, names=(str(first),), source_tokenizer=read)
    x, y, cut = pair_rows(inputs, a, b)
    asked = float((y[parts[0]] != NOTHING).sum(1).double().mean())
    target_ = Target("tokens", str(second), dim=own.num_tokens, scale=(asked,), sizes=token_sizes(own))
    told = ("", "") if read is None else (f" of kind {read.kind}", f" of kind {own.kind}")
    lines = [f"{first}: source, up to {S} tokens{told[0]}", f"{second}: target, up to {T} tokens{told[1]}"]
    for name, by, side in zip((first, second), (read or own, own), sides):
        rows.notes.extend(lacking(by, str(name), side))
    return _data(rows, used, x, y, parts, target_, inputs, lines, cut, how)


def spanned(rows: Rows, text: str | Sequence[str] | None, target: str | None, how: Making) -> Data:
    """Questions, the texts that answer them, and where."""
    names = _names(rows.table, text, ("question", "context"), None)
    if len(names) != 2:
        raise UserError(
            "spans need two columns of text", got=given("text", text), do='Pass text=["question", "context"]'
        )
    known = list(rows.table.columns)
    target = target or next((name for name in ("answer", "answers.text") if name in known), "answer")
    _check(rows.table, "target", target)
    begins = next((name for name in ("answer_start", "answers.answer_start") if name in known), None)
    questions, contexts, answers = (rows.column(name) for name in (*names, target))
    places = [-1] * len(answers) if begins is None else [_whole(word) for word in rows.column(begins)]
    where = [_found(context, answer, place) for context, answer, place in zip(contexts, answers, places)]
    rows.refuse([not (q.strip() and c.strip()) for q, c in zip(questions, contexts)], "question or context is empty")
    rows.refuse([not answer.strip() for answer in answers], f"{target}, the answer, is missing")
    rows.refuse([place < 0 for place in where], f"{target} is not in its context")
    used = rows.left()
    sides = [[side[row] for row in used] for side in (questions, contexts)]
    parts = how.held.rows(len(used), **_together(rows, sides[1], how.held))
    own = how.words(sides, parts[0])
    inputs = Tokens("spans", how.length, own, names=names)
    tokens = [_encoded(own, side) for side in sides]
    x, begun, cut = framed_rows(inputs, tokens)
    tokens_at = {context: own.places(context) for context in dict.fromkeys(sides[1])}
    spans = [_span(tokens_at[contexts[row]], where[row], len(answers[row])) for row in used.tolist()]
    ends = np.array([-1 if span is None else span[1] for span in spans])
    unknown, beyond = ends < 0, ends >= begun[:, 1]
    rows.refuse(_spread(unknown, used, len(rows.used)), "the tokenizer has no tokens for the answer")
    rows.refuse(_spread(beyond & ~unknown, used, len(rows.used)), f"the answer lies beyond {how.length} tokens")
    left = rows.left()
    y = torch.tensor([[0, 0] if span is None else list(span) for span in spans]) + torch.from_numpy(begun[:, :1])
    keep = torch.from_numpy(np.isin(used, left))
    place = keep.cumsum(0) - 1
    parts = [place[part[keep[part]]] for part in parts]
    inputs = Tokens("spans", max(2, x.shape[1]), own, names=names)
    lines = [f"{names[0]} and {names[1]}: text", f"{target}: the stretch of the context that is asked for"]
    return _data(rows, left, x[keep], y[keep], parts, Target("span", target), inputs, lines, cut, how)


def tagged(path: Path, how: Making) -> Data:
    """Sentences of words with a tag each: lines "word … tag", a blank line after each sentence."""
    texts = find_texts(path)
    found, wrong = sentences(list(lines_in(texts)))
    table = Table({}, np.array([line for line, _, _ in found]), "line", path.name)
    rows = Rows(table, notes=list(texts.notes))
    if wrong:
        which = f"line{'s' if len(wrong) > 1 else ''} {', '.join(map(str, wrong[:5]))}{', …' if wrong[5:] else ''}"
        rows.notes.append(f"{counted(len(wrong), 'line')} without a tag left out: {which}")
    return _of_sentences(rows, [words for _, words, _ in found], [tags for _, _, tags in found], how)


def tagged_in_lists(path: Path, text: str | None, target: str | None, how: Making) -> Data:
    """The same, out of a table with a list of words and one of tags in each row."""
    found = sentences_in(path, text, target)
    return _of_sentences(Rows(found.table), found.words, found.tags, how, found.names)


def _of_sentences(
    rows: Rows,
    said: Sequence[Sequence[str]],
    tags: Sequence[Sequence[str | None]],
    how: Making,
    columns: tuple[str, str] | None = None,
) -> Data:
    """Sentences of words, and a tag of each word, None where it is not known.

    Args:
        columns: of words and tags, in a table.
    """
    if len(said) < LEAST:
        do = "Add rows with a list of words, and one of as many tags"
        if columns is None:
            do = 'Write a line "word tag" for each word, and a blank line between sentences'
            if rows.table.source.lower().endswith(DELIMITED):
                do += '; or, if two columns hold lists, name them, as text="words" and target="tags"'
        raise DataError(
            f"{rows.table.source} must hold at least {LEAST} sentences of tagged words", got=f"{len(said)}", do=do
        )
    names = sorted({tag for own in tags for tag in own if tag is not None})
    code = {name: k for k, name in enumerate(names)}
    if len(names) < 2:
        where = "Put the tag last in each line" if columns is None else "Name another target"
        raise DataError(
            "words must have at least two tags",
            got=f"{names[0]!r} alone" if names else "none",
            do=f"{where}, and check that tags differ",
        )
    texts = [" ".join(words) for words in said]
    parts = how.held.rows(len(said), **_together(rows, texts, how.held))
    own = how.words([texts], parts[0])
    xs, ys = [], []
    for words, of in zip(said, tags):
        tokens, first = word_tokens(own, words)
        y = np.full(len(tokens), NOTHING)
        y[first] = [NOTHING if tag is None else code[tag] for tag in of]
        xs.append(tokens)
        ys.append(y)
    T = max(2, min(how.length, max(map(len, xs))))
    cut = sum(len(tokens) > T for tokens in xs)
    x = padded((tokens[:T] for tokens in xs), T, own.num_tokens)
    y_ = padded((y[:T] for y in ys), T, len(names)).long()
    asked = float((y_[parts[0]] != NOTHING).sum(1).double().mean())
    target = Target("tokens", columns[1] if columns else "tag", tuple(names), dim=len(names), scale=(asked,))
    listed = f"{len(names)} ({', '.join(names[:8])}{', …' if names[8:] else ''})"
    lines = [f"{columns[0]}: words"] if columns else []
    lines += [f"{target.name}: {listed}, asked where a word begins"]
    inputs = Tokens("tags", T, own, names=columns[:1] if columns else ())
    return _data(rows, np.arange(len(said)), x, y_, parts, target, inputs, lines, cut, how)


def _data(
    rows: Rows,
    used: np.ndarray,
    x: Tensor,
    y: Tensor,
    parts: Sequence[Tensor],
    target: Target,
    inputs: Tokens,
    lines: list[str],
    cut: int,
    how: Making,
) -> Data:
    """Rows `parts` of x and y, with their account."""
    numbers = torch.from_numpy(rows.table.numbers[used])
    train, val, test = (Split(x[part], y[part], rows=numbers[part]) for part in parts)
    total, known = int((x != NOTHING).sum()), f"{inputs.tokenizer.num_tokens:,}"
    known = known if inputs.source_tokenizer is None else f"{inputs.reads.num_tokens:,} and {known}"
    notes = [f"{total:,} tokens of {known}, rows of {x.shape[1]}"]
    if cut:
        most = f"{inputs.length} tokens"
        most = most if inputs.len_source is None else f"{inputs.len_source} tokens of a source, {most} of a target"
        notes.append(f"{counted(cut, 'row')} cut to {most}")
    return Data(train, val, test, target, inputs, account=rows.account(lines, notes))


def lacking(tokenizer: Tokenizer, name: str, texts: Sequence[str]) -> list[str]:
    """A line on texts with what a vocabulary lacks, where there are some.

    >>> lacking(Tokenizer.train(["sea"], "characters"), "word", ["sea", "née", "île"])
    ['word: 2 texts hold what the vocabulary lacks, and are read byte by byte there: n, é, î, l']
    >>> lacking(Tokenizer.train(["sea"], "characters"), "word", ["a, e"])
    ["word: 1 text holds what the vocabulary lacks, and is read byte by byte there: ',', ' '"]
    """
    found = [absent for text in texts if (absent := tokenizer.lacking(text))]
    if not found:
        return []
    every = list(dict.fromkeys(one for absent in found for one in absent))
    verb = "holds" if len(found) == 1 else "hold"
    read = "is read" if len(found) == 1 else "are read"
    seen = [one if one.isprintable() and one.strip(" ,") else repr(one) for one in every[:8]]
    named_ = ", ".join(seen) + (", …" if every[8:] else "")
    many = counted(len(found), "text")
    return [f"{name}: {many} {verb} what the vocabulary lacks, and {read} byte by byte there: {named_}"]


def word_tokens(tokenizer: Tokenizer, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of a sentence, word by word, and where each word begins."""
    found = tokenizer.encode_many([word if k == 0 else f" {word}" for k, word in enumerate(words)])
    found = [tokens if len(tokens) else np.array([tokenizer.unknown or 0]) for tokens in found]
    lengths = np.array([len(tokens) for tokens in found])
    return np.concatenate(found).astype(np.int64), np.cumsum(lengths) - lengths


def _encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray]:
    """Tokens of texts, some of them at a time."""
    return [
        np.asarray(tokens, np.int32)
        for first in range(0, len(texts), _TOGETHER)
        for tokens in tokenizer.encode_many(list(texts[first : first + _TOGETHER]))
    ]


def _names(table: Table, text: str | Sequence[str] | None, usual: Sequence[str], target: str | None) -> tuple[str, ...]:
    """The columns that hold the text: named, usual, or the only one beside the target."""
    if text is not None:
        names = (text,) if isinstance(text, str) else tuple(text)
    elif all(name in table.columns for name in usual):
        names = tuple(usual)
    else:
        names = tuple(name for name in table.columns if name != target)
        if len(names) != len(usual):
            raise UserError(
                "text must name the column that holds the text",
                got=f"text=None for the columns {', '.join(list(table.columns)[:8])}",
                do=(f"Pass text={names[0]!r}" if names else "Add a column of text")
                + (', or field="name" of what holds sequences of numbers' if table.source.endswith(JSON_LINES) else ""),
            )
        numbers = next((name for name in names if not isinstance(table.columns[name], Text)), None)
        if numbers is not None:
            raise DataError(
                "text must name the column that holds the text",
                got=f"no text, and {numbers} holds numbers",
                do=f"If these are sequences, use ll.data.sequences, or add --field {numbers} in a shell",
            )
    for name in names:
        _check(table, "text", name)
    if len(names) > 2:
        raise UserError("text must be one column or two", got=f"{len(names)}", do="Join some of them")
    if target in names:
        raise UserError(
            "the target must not be one of the texts, which would give the answer away",
            got=given("target", target),
            do="Take one out",
        )
    return names


def _check(table: Table, role: str, name: str | None) -> None:
    if name is None or name not in table.columns:
        do = named(name or "", list(table.columns)).rstrip(".")
        if table.source.lower().endswith(DELIMITED) and not table.nameless:
            do += " " if do.endswith("?") else ". "
            do += "If the first line is a row, and no line of names, write column_1, column_2 …"
        raise DataError(
            f"{role} must name a column of {table.source}", got=f"{role} {name!r}" if name else f"no {role}", do=do
        )


def _kept_whole(rows: Rows, texts: Sequence[tuple[str, ...]], classes: Tensor | None, held: Held) -> list[Tensor]:
    """The rows of each split: distinct texts are drawn, by the class of their first row, and bring their equals."""
    number: dict[tuple[str, ...], int] = {}
    code = torch.tensor([number.setdefault(text, len(number)) for text in texts])
    more, joins = len(texts) - len(number), _joins(len(number), held)
    if more:
        rows.notes.append(_repeating(more, joins))
    if not more or not joins:
        return held.rows(len(texts), stratify=classes)
    first = torch.full((len(number),), len(texts)).scatter_reduce(0, code, torch.arange(len(texts)), "amin")
    drawn = held.rows(len(number), stratify=None if classes is None else classes[first])
    return [torch.isin(code, part).nonzero().flatten() for part in drawn]


def _together(rows: Rows, texts: Sequence[str], held: Held) -> dict[str, Tensor]:
    """Equal texts as groups, where there are any."""
    code = {text: k for k, text in enumerate(dict.fromkeys(texts))}
    more = len(texts) - len(code)
    if more and not _joins(len(code), held):
        rows.notes.append(_repeating(more, False))
    elif more:
        return {"groups": torch.tensor([code[text] for text in texts])}
    return {}


def _joins(distinct: int, held: Held) -> bool:
    """Whether equal texts fall in one split: not by place, nor where too few would be left to draw from."""
    return held.every is None and distinct >= 3


def _repeating(more: int, joins: bool) -> str:
    equal = "equal ones are in the same split" if joins else "equal ones can be in several splits"
    return f"{counted(more, 'row')} repeat{'s' if more == 1 else ''} a text: {equal}"


def _spread(mask: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """A mask of some rows as one of all."""
    found = np.zeros(count, dtype=bool)
    found[rows] = mask
    return found


def _found(context: str, answer: str, place: int) -> int:
    """Where the answer begins: as told, if it stands there, or at its first place, if there is one as whole words.

    >>> _found("the cat sat at home", "at", -1), _found("the cat sat", "at", -1)
    (12, 5)
    """
    if place >= 0 and context.startswith(answer, place):
        return place
    alone = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", context) if answer else None
    return alone.start() if alone else context.find(answer) if answer else -1


def _whole(word: str) -> int:
    return int(float(word)) if re.fullmatch(r"\d+(\.0*)?", word) else -1


def _span(places: np.ndarray, place: int, length: int) -> tuple[int, int] | None:
    """The first and the last token of a stretch of a text, by the places of its tokens; None if none stands there."""
    begins, ends = places.T
    there = np.flatnonzero((ends > place) & (begins < place + length))
    return (int(there[0]), int(there[-1])) if len(there) else None
