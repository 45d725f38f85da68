"""A corpus as a stream of pieces: bounded memory, whatever its size."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from leadline.errors import DataError, UserError
from leadline.settings import given

#: characters that are read at once, and the least length of a piece
PIECE = 1 << 16
#: before a space after a word: no token of a byte-level tokenizer reaches across it
BREAK = re.compile(r"(?<=\S)(?=[ \n])")
_HALVES = re.compile("[\ud800-\udfff]")


def pieces(
    texts: Iterable[str | Path] | Path, progress: Callable[[int], None] | None = None, least: int = PIECE
) -> Iterator[str]:
    """The texts, and the text of the files that are given as a Path (`.gz` too), cut between words.

    Args:
        progress: is called with the number of characters so far, after each piece.
        least: characters of a piece that is not the last of its text.

    >>> list(pieces(["to sea", "to see"], least=1))
    ['to', ' sea', 'to', ' see']
    """
    if isinstance(texts, str) or not isinstance(texts, (Iterable, Path)):
        got = "one text" if isinstance(texts, str) else given("texts", texts)
        raise UserError("texts must be several texts, or files", got=got, do="Pass [text], or Path(text)")
    count = 0
    for text in [texts] if isinstance(texts, Path) else texts:
        if isinstance(text, Path):
            parts = _of_file(text, least)
        elif isinstance(text, str):
            parts = cut(text, least)
        else:
            raise DataError(
                "a text must be a string, and a file a Path", got=type(text).__name__, do="Decode bytes as UTF-8 first"
            )
        for part in parts:
            if _HALVES.search(part):
                raise DataError(
                    "a text must be a string of Unicode characters",
                    got="half a surrogate pair, which comes from bytes that are not UTF-8",
                    do="Save it as UTF-8",
                )
            count += len(part)
            yield part
            if progress is not None:
                progress(count)


def cut(text: str, least: int = PIECE) -> Iterator[str]:
    """The text in pieces of at least that many characters, each broken before a space after a word.

    >>> list(cut("the deep  blue sea", 4))
    ['the deep', '  blue', ' sea']
    """
    start = 0
    while len(text) - start > least:
        found = BREAK.search(text, start + least)
        if found is None:
            break
        yield text[start : found.start()]
        start = found.start()
    if start < len(text):
        yield text[start:]


def _of_file(path: Path, least: int) -> Iterator[str]:
    try:
        with _opened(path) as file:
            rest = ""
            while read := file.read(least):
                *whole, rest = cut(rest + read, least)
                yield from whole
                if len(rest) > 16 * least:  # a word without end
                    yield rest
                    rest = ""
            if rest:
                yield rest
    except UnicodeDecodeError as error:
        raise DataError(
            "a text file must be UTF-8", got=f"{path}: {error.reason} 0x{error.object[error.start]:02X}",
            do="Save it as UTF-8",
        ) from None  # fmt: skip
    except (OSError, EOFError) as error:
        raise DataError("a text file must be readable", got=f"{path}: {error}", do="Check its path") from None


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return open(path, encoding="utf-8", newline="")
