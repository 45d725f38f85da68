"""Own data: text becomes `Data` in one call.

import leadline as ll
data = ll.data.text("books")                                       # a folder of text: predict the next token
data = ll.data.text("books", task="masked")                        # or hidden ones
data = ll.data.text("reviews.csv", text="review", target="stars")  # a table: classes, or a number
data = ll.data.text("eng-fra.tsv")                                 # two columns: translate
print(data.account)          # what was read, refused and cut; tokens, and bytes a token
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leadline.config import plain
from leadline.data.arguments import checked
from leadline.data.contents import Stamps, check_unchanged, contents_of, stamps_of
from leadline.data.data import Data
from leadline.data.folder import Lost
from leadline.data.frame import stem
from leadline.data.held_out import Held
from leadline.data.packed import Documents, Packing
from leadline.data.table import PARQUET
from leadline.data.tagged_rows import holds_sentences
from leadline.data.text_files import digest, exists, find_texts, pattern_of
from leadline.data.text_rows import JSON_LINES, TABLES, TAGGED, Rows, read_text_table, texts_of_folders
from leadline.data.text_tables import Making, labelled, paired, spanned, tagged, tagged_in_lists
from leadline.data.tokens import MOST_LENGTH, TASKS
from leadline.data.vocabulary import given_tokenizer
from leadline.errors import DataError, UserError
from leadline.names import lookup
from leadline.settings import given, real, whole
from leadline.text.tokenizer import Tokenizer

#: tokens of a row, at most, where nobody says
USUAL_LENGTH = 256
_STREAMS = ("next", "masked")


@checked
def text(
    path: str | Path | None,
    *,
    task: str | None = None,
    text: str | Sequence[str] | None = None,
    source: str | None = None,
    target: str | None = None,
    tokenizer: Any = None,
    kind: str = "bpe",
    num_tokens: int | None = None,
    target_tokenizer: Any = None,
    target_kind: str | None = None,
    length: int | None = None,
    p_hidden: float | None = None,
    separator: str | None = None,
    every: int | None = None,
    val: float | None = None,
    test: float | None = None,
    seed: int = 0,
    cache: bool = True,
) -> Data:
    """Text of one's own, as tokens.

    Args:
        path: a file of text or a folder of them, in UTF-8 (UTF-16 with a byte-order mark and Latin-1 are recognised;
            files may be packed, .gz); or a table: .csv, .tsv, .parquet or .jsonl.
        task: "next" token, "masked" tokens, "classes", "pairs", "tags" or "spans"; by default by the columns, tags
            for .conllu, .conll and lists of words, and next for text. Classes of a folder are the folders that its
            texts lie in. For tags a file of lines "word … tag", with a blank line between sentences, or CoNLL-U; or a
            table with a list of words and one of tags in each row.
        text: the column of a table that holds the text; two of them are read one after the other.
        source, target: columns. source and target make pairs, text and target classes (or numbers); spans take question
            and context as text and the answer as target. A .tsv of two columns without names is pairs; of other files
            that have no line of names they are called column_1, column_2 …
        tokenizer: a `Tokenizer` or its file; by default one is trained on the training texts.
        kind: kind of the tokenizer that is trained: bpe, wordpiece, unigram, bytes, characters or words.
        num_tokens: size of its vocabulary; by default from 1,024 to 32,768, by the size of the text.
        target_tokenizer, target_kind: for pairs, a tokenizer or a kind of its own for the targets; by default they
            share that of the sources. For letters and sounds: kind="characters", target_kind="words".
        length: most tokens in a row, from 2 to 65,536; for pairs, in source and target each. By default 256, and of a
            table no more than 199 of 200 rows need; longer ones are cut, and counted.
        p_hidden: for task masked, the share of tokens that are masked; above 0, at most 1, by default 0.15.
        separator: a regular expression that separates the documents in a file, such as "\\n\\n" or "^Chapter"; by
            default a file is a document.
        every: hold out by place: every k-th document (or row of a table) is test, the one before it val; at least 3.
        val, test: share of the documents that is held out, drawn at random: by default 0.05 each, of rows of a table
            0.1. With fewer than three documents, evenly spaced blocks of them.
        seed: seed for drawing val and test, any whole number.
        cache: keep the tokens on disk if they are many or took long to make.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in range(20):
    ...         _ = Path(folder, f"{k}.txt").write_text(f"The {k}th cat sat on a mat. " * 9)
    ...     data = text(folder, length=16, kind="bytes", cache=False)
    >>> data.target.kind, tuple(data.train.x.shape), len(data.test) > 0
    ('tokens', (270, 16), True)
    """
    place = _place(path)
    if task is not None:
        task = lookup(task, {word: word for word in TASKS}, "task")
    usual, trims = USUAL_LENGTH, length is None
    length = usual if length is None else whole("length", length, 2, MOST_LENGTH, usual=usual)
    every = None if every is None else whole("every", every, 3, usual=20)
    hidden = real("p_hidden", 0.15 if p_hidden is None else p_hidden, 0, above=True, most=1, usual=0.15)
    num_tokens = None if num_tokens is None else whole("num_tokens", num_tokens, 2, 2**24, usual=8192)
    options: dict[str, Any] = {"path": str(place), "task": task, "text": text, "source": source, "target": target}
    options |= {
        "tokenizer": _told(tokenizer),
        "kind": kind,
        "num_tokens": num_tokens,
        "target_tokenizer": _told(target_tokenizer),
        "target_kind": target_kind,
        "length": None if trims else length,
        "p_hidden": p_hidden,
    }
    options |= {"separator": separator, "every": every, "val": val, "test": test, "seed": seed, "cache": cache}
    if task is None and (
        place.name.lower().endswith(TAGGED) or (source is None and holds_sentences(place, text, target))
    ):
        task = "tags"
    own, share = given_tokenizer(tokenizer), 0.05 if task in (None, *_STREAMS) else 0.1
    pattern_of(separator)
    stamps = stamps_of(place)
    rows, listed = None, place.name.lower().endswith(TABLES if text or target else (*PARQUET, *JSON_LINES))
    if place.is_file() and place.name.lower().endswith(TABLES) and task != "tags":
        asked = [name for name in (*([text] if isinstance(text, str) else text or ()), source, target) if name]
        rows = read_text_table(place, plain=not asked and task in (None, "pairs"), asked=asked)
        task = _task_of(rows, task, text, source, target)
        share = 0.05 if task in _STREAMS else 0.1
    elif task == "classes" and place.is_dir() and not (text or source or target):
        rows, text, target = texts_of_folders(place), "text", "folder"
    elif task == "tags" and (
        source or not (text is None or isinstance(text, str)) or ((text or target) and not listed)
    ):
        raise DataError(
            "tags must be of a file of tagged words, a word a line, or of a table of lists, in one column of words",
            got=f"{place.name} and names of columns",
            do='Write a line "word tag" for each word, and a blank line between sentences; or rows such as '
            '{"words": ["the", "cat"], "tags": ["D", "N"]}',
        )
    elif task != "tags" and (text or source or target or task not in (None, *_STREAMS)):
        what = f"task {task} needs" if task not in (None, *_STREAMS) else "text, source and target columns need"
        do = f"Name one that ends in {', '.join(TABLES)}"
        if place.suffix.lower() == ".txt":
            do = f"If a tab parts the columns of its lines, call it {place.stem}.tsv; else {do[0].lower()}{do[1:]}"
        raise DataError(f"{what} a table", got=place.name, do=do)
    if p_hidden is not None and task != "masked":
        what = f"p_hidden={p_hidden} for task {task or 'next'}"
        raise UserError(
            "p_hidden needs the task of masked tokens", got=what, do='Pass task="masked" too, or leave it out'
        )
    held = Held(share if val is None else val, share if test is None else test, seed, every)
    if task != "pairs" and not (target_tokenizer is None and target_kind is None):
        raise UserError(
            "target_kind and target_tokenizer need pairs",
            got=f"task {task or 'next'}",
            do='Leave target_kind and target_tokenizer out, or pass task="pairs"',
        )
    if "words" in (str(kind).lower(), str(target_kind).lower()) and task not in ("pairs", "classes"):
        raise UserError(
            "kind words needs the task pairs or classes",
            got=f"kind words for task {task or 'next'}",
            do="Take bpe, unigram or characters",
        )
    how = Making(held, own, kind, num_tokens, length, trims, given_tokenizer(target_tokenizer), target_kind)
    if task == "tags" and listed:
        made = tagged_in_lists(place, text if isinstance(text, str) else None, target, how)
    elif task == "tags":
        made = tagged(place, how)
    elif rows is None or task in _STREAMS:
        packing = Packing(
            task or "next", own, kind, num_tokens, length, cache, "file" if rows is None else "row", hidden
        )
        read = _documents(place, separator, rows, text, stamps)
        told = {"files": contents_of(place, stamps) if cache else None, "separator": separator, "text": text}
        made = packing.data(read, held, place, told)
    elif task == "pairs":
        made = paired(rows, source, target, how)
    else:
        made = (spanned if task == "spans" else labelled)(rows, text, target, how)
    return replace(made, name=stem(place), recipe={"source": "text", "options": plain(options)})


def _documents(
    place: Path, separator: str | None, rows: Rows | None, text: str | Sequence[str] | None, stamps: Stamps
) -> Callable[[], Documents]:
    """What reads the documents of files, or those in a column of a table; it refuses files that have changed."""

    def read() -> Documents:
        found = find_texts(place, separator) if rows is None else _Listed(rows, text)
        check_unchanged(place, stamps)
        return found

    return read


class _Listed:
    """The texts of a column of a table, each a document."""

    def __init__(self, rows: Rows, text: str | Sequence[str] | None):
        names = list(rows.table.columns)
        if not isinstance(text, str) and text is not None and len(text) != 1:
            raise UserError(
                "next and masked tokens are learned from one column of text",
                got=f"{len(text)}: {', '.join(text[:8])}",
                do="Name one; or, for classes of texts, a target as well",
            )
        text = text if text is None or isinstance(text, str) else text[0]
        name = text if isinstance(text, str) else names[0] if text is None and len(names) == 1 else "text"
        texts = rows.column(name)
        self.lost, self.notes, self.read = Lost(), tuple(rows.notes), len(texts)
        for row, one in enumerate(texts):
            if not one.strip():
                self.lost.add("holds no text", rows.table.at(row))
        self._texts = [one for one in texts if one.strip()]
        self.sizes, self.digests = tuple(map(len, self._texts)), tuple(map(digest, self._texts))
        if not self._texts:
            raise DataError(f"{name} must hold text in some row", got="none", do="Name another column")

    def pieces(self) -> Iterator[tuple[int, str, bool]]:
        return ((number, one, True) for number, one in enumerate(self._texts))


def _place(path: str | Path | None) -> Path:
    if path is None:
        raise DataError("path must name a file or folder of text", got="path=None", do='Write it in quotes, as "books"')
    return exists(Path(path).expanduser().absolute())


def recorded(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a recipe as `text` takes them: older ones name a column beside a stream, which never read it.

    >>> recorded({"task": "next", "text": "review", "target": "mood"})
    {'task': 'next', 'text': 'review', 'target': None}
    """
    unread = ("source", "target") if options.get("task") in _STREAMS else ()
    return {name: None if name in unread else value for name, value in options.items()}


def _told(tokenizer: Any) -> str | None:
    """A tokenizer as a recipe holds it: the place of its file, or its JSON."""
    if tokenizer is None:
        return None
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.to_json()
    name = str(tokenizer)
    return name if name.lstrip().startswith("{") else str(Path(name).expanduser().absolute())


def _task_of(
    rows: Rows, task: str | None, text: str | Sequence[str] | None, source: str | None, target: str | None
) -> str:
    """What a table is read for."""
    if text is not None and source is not None:
        raise UserError(
            "a table is read for texts or for pairs, not both",
            got=f"{given('text', text)} beside {given('source', source)}",
            do="Leave one of them out",
        )
    if task in _STREAMS and (source or target):
        raise UserError(
            f"a run on {task} reads text alone, without an answer beside it",
            got=given("source", source) if source else given("target", target),
            do=f'Leave it out, or pass task="{"pairs" if source else "classes"}" to learn it',
        )
    if task is not None:
        return task
    if source is not None or rows.plain:
        return "pairs"
    if target is not None:
        return "classes"
    if text is not None or len(rows.table.columns) == 1:
        return "next"
    names = list(rows.table.columns)
    first, last = (names[0], names[-1]) if names else ("text", "target")
    listed = rows.table.source.lower().endswith(JSON_LINES)
    raise UserError(
        "a table of text must be told its columns",
        got=f"none named, of {', '.join(names[:8]) or 'a table without any'}",
        do=f"Name them, such as text={first!r} and target={last!r} for classes, source={first!r} and target={last!r} "
        f"for pairs, text={first!r} alone for the next token"
        + (f", or field={first!r} and target={last!r} for sequences of numbers" if listed else ""),
    )
