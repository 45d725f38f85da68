"""Text in files: which files hold text, how it is written, and the documents in it, read in pieces of bounded size.

A file is text if it begins with a byte-order mark, or decodes as UTF-8, or, failing that, has no bytes that a text of
Windows or Latin letters would not have. Line ends become one `\\n`. A document is a file, or what lies between two
separators in it: a separator that is blank is dropped, any other (a heading) begins the document after it.

A long text is cut only where a word ends, which is where a tokenizer parts words in any case: the tokens of the pieces
are those of the whole.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import IO, cast

from leadline.data.account import counted
from leadline.data.encodings import NO_TEXT, marked, one_byte
from leadline.data.folder import Lost, recent, shown, survey
from leadline.data.table import ENDINGS, check_no_pipe, no_end
from leadline.errors import DataError, UserError
from leadline.settings import given

PIECE = 2**16  # characters that are handed on at once
_CHUNK = 2**20  # characters that are read at once
_HELD = 2**22  # characters that are searched for a separator before some of them are handed on
_REACH = 4096  # the longest separator
_LOOK = 2**16  # bytes by which a file is judged
_LARGEST = 2**38  # bytes after unpacking; a small archive can hold a huge file
_NOTES = (".json", ".xml", ".yaml", ".yml")  # which say more often something of pictures than they are read
_FORMATS = (b"%PDF-", b"\x1f\x8b", b"PK\x03\x04", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"{\\rtf")


@dataclass(frozen=True)
class TextFile:
    """A file that holds text.

    Args:
        name: as its folder knows it.
        encoding: by Python's name.
        stamp: its size and time when it was looked at.
    """

    path: Path
    name: str
    encoding: str
    stamp: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Corpus:
    """The documents of some files.

    Args:
        files: in the order in which they are read.
        separator: what parts the documents of a file; None where a file is one.
        sizes: characters of each document.
        digests: of each, as `digest` makes them: equal documents have equal ones.
        lost: files that are not read, and why.
        notes: what a reader should know of the others.
    """

    files: tuple[TextFile, ...]
    separator: re.Pattern[str] | None
    sizes: tuple[int, ...]
    digests: tuple[bytes, ...]
    lost: Lost = field(default_factory=Lost)
    notes: tuple[str, ...] = ()

    @property
    def read(self) -> int:
        """Files that were looked at."""
        return len(self.files) + len(self.lost)

    def pieces(self) -> Iterator[tuple[int, str, bool]]:
        """The number of a document, a piece of its text, and whether it is the last; document after document."""
        number = 0
        for file in self.files:
            for text, last in documents(file, self.separator):
                yield number, text, last
                number += last
        if number != len(self.sizes):
            raise changed(self.files[0].path.parent if len(self.files) > 1 else self.files[0].path)


def find_texts(place: Path, separator: str | None = None) -> Corpus:
    """The documents below a folder, or in a file; every file is read once, to know what it holds.

    Args:
        place: the folder or the file.
        separator: a regular expression, such as "\\n\\n" or "^Chapter"; None leaves files whole.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.txt").write_text("One.\\n\\nTwo two.")
    ...     find_texts(Path(folder), "\\n\\n").sizes
    (4, 8)
    """
    pattern = pattern_of(separator)
    lost, files, sizes, digests, notes = Lost(), [], [], [], []
    names, special, hidden, root = _names(place)
    for name in special:
        lost.add("is not a regular file", name)
    others: dict[str, list[str]] = {}
    for name in names:
        path = root / name
        try:
            file, found = _looked_at(path, name, pattern)
        except _NotText as error:
            lost.add(str(error), name)
            continue
        if not found:
            lost.add("is empty", name)
            continue
        files.append(file)
        sizes += [size for size, _ in found]
        digests += [own for _, own in found]
        if file.encoding not in ("utf-8", "utf-8-sig"):
            others.setdefault(file.encoding, []).append(name)
    for encoding, which in sorted(others.items()):
        notes.append(f"{counted(len(which), 'file')} read as {encoding}: {shown(which)}")
    if hidden:
        notes.append(f"{counted(hidden, 'hidden file')} left alone")
    if not files:
        raise _no_text(place, lost)
    return Corpus(tuple(files), pattern, tuple(sizes), tuple(digests), lost, tuple(notes))


def digest(text: str) -> bytes:
    """A hash of the letters of a text: equal ones of two texts say that they differ in white space at most.

    >>> digest("one two\\n") == digest("one\\ntwo") != digest("one")
    True
    """
    seen = _hash()
    seen.update(_letters(text))
    return seen.digest()


def holds_text(place: Path, most: int = 20) -> bool:
    """Whether most of the first files below a folder are text or named so, and none is a picture; or a file is text."""
    if place.is_file():
        return start_of(place) is not None
    folder = survey(place)
    some = folder.others[:most]
    if folder.pictures or not some:
        return False
    return 2 * sum(name.lower().endswith(".txt") or start_of(folder.root / name) is not None for name in some) > len(
        some
    )


def mostly_text(place: Path, most: int = 20) -> bool:
    """Whether a folder is one of running text in which a few pictures and tables lie too.

    Text are most of its other files and, where it has pictures or tables, at least twice as many as pictures, and more
    than tables; none is called as a picture, as captions and annotations are.
    """
    folder = recent(place)
    tables = folder.ending(*ENDINGS)
    plain = [name for name in folder.others if not name.lower().endswith((*ENDINGS, *_NOTES))]
    if any(PurePosixPath(name).stem in folder.by_name for name in plain):
        return False
    some = plain[:: max(1, len(plain) // most)]
    texts = len(plain) * sum(start_of(folder.root / name) is not None for name in some) / max(1, len(some))
    return 2 * texts > len(folder.others) and texts >= 2 * len(folder.pictures) and texts > len(tables)


def documents(file: TextFile, separator: re.Pattern[str] | None) -> Iterator[tuple[str, bool]]:
    """Pieces of the documents of a file, none longer than `PIECE`, each with whether it closes its document."""
    if stamp_of(file.path) != file.stamp:
        raise changed(file.path)
    try:
        chunks = _chunks(file.path, file.encoding)
        parts = _parted(chunks, separator) if separator is not None else _whole(chunks)
        for text, last in parts:
            while len(text) > PIECE:
                place = word_end(text, PIECE)
                yield text[:place], False
                text = text[place:]
            yield text, last
    except (OSError, EOFError, zlib.error, UnicodeError):
        raise changed(file.path) from None


def word_end(text: str, most: int) -> int:
    """The last place up to `most` where a word ends, or `most` where there is none.

    >>> word_end("the cat  sat", 9), word_end("thecatsat", 5)
    (7, 5)
    """
    start = max(0, most - _REACH)
    blank = max(text.rfind(" ", start, most), text.rfind("\n", start, most))
    place = start + len(text[start : blank + 1].rstrip()) if blank >= 0 else start
    return place if place > start else most


def pattern_of(separator: str | None) -> re.Pattern[str] | None:
    """A separator, ready to be searched for; ^ and $ are the ends of a line."""
    if separator is None:
        return None
    try:
        pattern = re.compile(separator, re.MULTILINE)
    except re.error as error:
        raise UserError(
            "separator must be a regular expression",
            got=f"{given('separator', separator)}: {error}",
            do=r'Write "\n\n" for blank lines, or "^Chapter" for headings',
        ) from None
    if not separator:
        raise UserError("separator must not be empty", got="separator=''", do="Leave it out to keep files whole")
    return pattern


def stamp_of(path: Path) -> tuple[int, int]:
    """Size and time of a file."""
    try:
        status = path.stat()
    except OSError:
        return -1, 0
    return status.st_size, status.st_mtime_ns


def changed(path: Path) -> DataError:
    """The message that a file is no longer what it was."""
    got = f"{path}, which changed" if path.exists() else f"no {path} any more"
    return DataError("files must not change while they are read", got=got, do="Try again when they no longer change")


class _NotText(Exception):
    """Why a file is not read."""


def _names(place: Path) -> tuple[Sequence[str], Sequence[str], int, Path]:
    """The files, those that must not be opened, how many are hidden, and the folder that holds them."""
    if place.is_file():
        return (place.name,), (), 0, place.parent
    folder = survey(place)
    return sorted((*folder.others, *folder.pictures)), folder.special, folder.hidden, folder.root


def _looked_at(path: Path, name: str, separator: re.Pattern[str] | None) -> tuple[TextFile, list[tuple[int, bytes]]]:
    """A file with size and digest of each of its documents, or the reason why it is none."""
    stamp, wrong = stamp_of(path), _NotText("is not text")
    for encoding in _encodings(path):
        file = TextFile(path, name, encoding, stamp)
        try:
            return file, _figures(file, separator)
        except UnicodeError:
            wrong = _NotText("is not text, or not all of it")
        except (OSError, EOFError, zlib.error) as error:
            raise _NotText(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    raise wrong


def _figures(file: TextFile, separator: re.Pattern[str] | None) -> list[tuple[int, bytes]]:
    """Size and digest of each document of a file."""
    found, size, seen = [], 0, _hash()
    chunks = _chunks(file.path, file.encoding)
    for text, last in _parted(chunks, separator) if separator is not None else _whole(chunks):
        size += len(text)
        seen.update(_letters(text))
        if last:
            found.append((size, seen.digest()))
            size, seen = 0, _hash()
    return found


def _hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=8)


def _letters(text: str) -> bytes:
    return "".join(text.split()).encode("utf-8", "surrogatepass")


def _encodings(path: Path) -> tuple[str, ...]:
    """The encodings in which a file may be written, the likeliest first; none for bytes that are no text."""
    try:
        with _opened(path) as file:
            start = file.read(_LOOK)
    except (OSError, EOFError, zlib.error) as error:
        raise _NotText(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if encoding := marked(start):
        return (encoding,)
    if b"\0" in start or start.startswith(_FORMATS):
        return ()
    if len(start) != len(start.translate(None, NO_TEXT)):
        return ("utf-8",)
    return "utf-8", one_byte(start)


def start_of(path: Path) -> str | None:
    """The first characters of a file of text; None where it is none."""
    try:
        encodings = _encodings(path)
        with _opened(path) as file:
            start = file.read(_LOOK)
    except (_NotText, OSError):
        return None
    for encoding in encodings if start.strip() else ():
        try:
            return codecs.getincrementaldecoder(encoding)().decode(start)
        except UnicodeError:
            continue
    return None


def _opened(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return open(path, "rb")


def _chunks(path: Path, encoding: str) -> Iterator[str]:
    """The text of a file, some of it at a time."""
    done = 0
    with _opened(path) as raw, io.TextIOWrapper(raw, encoding, newline=None) as file:
        while text := file.read(_CHUNK):
            done += len(text)
            if done > _LARGEST:
                raise DataError(
                    f"{path.name} must unpack to at most {_LARGEST >> 30} GiB", got="more", do="Split it into files"
                )
            yield text


def _whole(chunks: Iterator[str]) -> Iterator[tuple[str, bool]]:
    """Pieces of one document, cut where words end."""
    rest, any_word = "", False
    for chunk in chunks:
        rest += chunk
        if len(rest) > _CHUNK:
            place = word_end(rest, len(rest) - 1)
            any_word = any_word or bool(rest[:place].strip())
            yield rest[:place], False
            rest = rest[place:]
    if any_word or rest.strip():
        yield rest, True


def _parted(chunks: Iterator[str], separator: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """Pieces of the documents between separators."""
    rest, start, opened = "", 0, False  # what is left, where to search on in it, and whether its document began already
    for chunk in _with_end(chunks):
        rest += chunk or ""
        while found := separator.search(rest, start):
            if chunk is not None and found.end() > len(rest) - _REACH:
                break  # more of it may come
            if found.end() == found.start():
                behind, start = found.start(), 1
            elif found[0].strip():
                behind, start = found.start(), found.end() - found.start()
            else:
                behind, start = found.end(), 0
            if opened or rest[: found.start()].strip():
                yield rest[: found.start()], True
            rest, opened = rest[behind:], False
            if start > len(rest):
                break
        if chunk is not None and len(rest) > _HELD:
            place = word_end(rest, len(rest) - _REACH)
            yield rest[:place], False
            rest, start, opened = rest[place:], max(0, start - place), True
    if opened or rest.strip():
        yield rest, True


def _with_end(chunks: Iterator[str]) -> Iterator[str | None]:
    yield from chunks
    yield None


def _no_text(place: Path, lost: Lost) -> DataError:
    if place.is_file():
        why = next(iter(lost.names), "is empty")
        return DataError(
            f"{place.name} must hold text", got=f"a file that {why}", do="Name a file of text, or save it as UTF-8"
        )
    folder = survey(place)
    if len(folder.pictures) > len(folder.others):
        return DataError(
            f"{place} must hold text",
            got=counted(len(folder.pictures), "picture"),
            do=f'Read pictures with ll.data.images("{place.name}")',
        )
    plural = lambda reason, names: "are" + reason[2:] if len(names) > 1 and reason.startswith("is ") else reason  # noqa: E731
    why = "; ".join(
        f"{len(names)} {plural(reason, names)}: {shown(names)}" for reason, names in sorted(lost.names.items())
    )
    got = f"none in {counted(len(lost), 'file')} ({why})" if len(lost) else "no files"
    return DataError(f"{place} must hold text", got=got, do="Put files of text into it, in UTF-8 if you can")


def exists(place: Path) -> Path:
    """`place`, or the message that nothing is there."""
    check_no_pipe(place)
    if leads := no_end(place):
        do = "Name the file itself, or mend the link"
        raise DataError("text must lie in a file or a folder", got=leads, do=do)
    if not place.exists():
        beside = [name for name in sorted(os.listdir(place.parent)) if name[:1] != "."] if place.parent.is_dir() else []
        near = get_close_matches(place.name, beside, n=3)
        do = f"Beside it lie {shown(near or beside[:5])}" if beside else "Check the name and the folder"
        raise DataError("text must lie in a file or a folder", got=f"no {place}", do=do)
    return place
