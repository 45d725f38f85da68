"""Tokens in files: a stream for each split, written once in bounded memory, mapped, and cut into rows without a copy.

    x_i = s[iT : (i+1)T],   y_i = s[iT+1 : (i+1)T+1]        i = 0 … ⌈(L-1)/T⌉ - 1              (1)

A file holds the L tokens of a split, documents one after the other, each closed by `end`, as numbers of 16 bits where
they fit (`leadline.data.tokens`), and after them enough places without a token that the last row of eq. 1 is whole: x
is padded there, and nothing is asked.

An entry of the cache is a folder: train.bin, val.bin and test.bin, the tokenizer, and entry.json with what was counted.
It is written under a temporary name and renamed when it is whole. Its name is a hash of what it was made from: names
and bytes of all files, and the options. The hash of each stream is taken while it is written, so that equal data
have equal fingerprints, wherever they lie, and nobody has to read them again to know.

Notation   s -> stream,  L -> count,  T -> length
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from leadline.data.data import Split
from leadline.data.found_whole import Unusable, check_of, new_folder, put, remember, seen_in, stamp
from leadline.data.picture_cache import cache_root, checksum
from leadline.data.tokens import MOST_LENGTH, NOTHING, stored_as
from leadline.errors import DataError
from leadline.text.tokenizer import Tokenizer

PARTS = ("train", "val", "test")
_FORMAT = 2
_TOGETHER = 2**21  # characters that are encoded at once
_SMALL = 64 * 2**20  # bytes below which a stream is read rather than mapped, if it is not kept
_SLOW = 2.0  # seconds of work from which it is kept
_TOLD = 0.5  # seconds between two words on how far it is


@dataclass
class Counts:
    """What one split's stream holds.

    Args:
        tokens: with those that close documents.
        bytes: of the text, in UTF-8.
        documents: or parts of them, each closed.
        digest: hash of the tokens.
        check: of all bytes of the file.
    """

    tokens: int = 0
    bytes: int = 0
    documents: int = 0
    digest: str = ""
    check: int = 0


@dataclass(frozen=True, eq=False)
class Shards:
    """The streams of the three splits.

    Args:
        streams: mapped, longer than their counts by `MOST_LENGTH` places without a token.
        counts: of each.
        told: whatever was to be kept beside them.
        kept: whether they lie in the cache.
    """

    streams: tuple[Tensor, Tensor, Tensor]
    counts: tuple[Counts, Counts, Counts]
    tokenizer: Tokenizer
    told: dict[str, Any] = field(default_factory=dict)
    kept: bool = True

    def splits(self, length: int, shifted: bool = True) -> tuple[Split, Split, Split]:
        """Rows of `length` tokens, by eq. 1; views.

        Args:
            shifted: y is the next token; else the same.
        """
        found = (rows_of(stream, own.tokens, length, shifted) for stream, own in zip(self.streams, self.counts))
        train, val, test = (
            Split(x, y).hashed(f"{own.digest} {length} {shifted}") for (x, y), own in zip(found, self.counts)
        )
        return train, val, test


def rows_of(stream: Tensor, count: int, length: int, shifted: bool = True) -> tuple[Tensor, Tensor]:
    """x and y of a stream of `count` tokens, by eq. 1.

    >>> x, y = rows_of(torch.tensor([5, 6, 7, 8, -1, -1, -1, -1]), 4, 2)
    >>> x.tolist(), y.tolist()
    ([[5, 6], [7, 8]], [[6, 7], [8, -1]])
    """
    rows = max(0, -(-(count - shifted) // length))
    x = stream[: rows * length].view(rows, length)
    return x, stream[1 : rows * length + 1].view(rows, length) if shifted else x


def key_of(what: Mapping[str, Any]) -> str:
    """A hash of what streams are made from."""
    return hashlib.sha256(json.dumps([_FORMAT, sorted(what.items())], default=str).encode()).hexdigest()[:32]


class Writer:
    """Texts to streams.

    Args:
        folder: where the files are written.
        tokenizer: with `end`, and a vocabulary that fits its ids.
        total: characters that will come, for a word on how far it is.
        name: of the data, for the same.
    """

    def __init__(self, folder: Path, tokenizer: Tokenizer, total: int, name: str):
        self.folder, self.tokenizer, self.total, self.name = folder, tokenizer, total, name
        self.dtype = np.dtype(stored_as(tokenizer.num_tokens)).newbyteorder("<")
        self.counts = tuple(Counts() for _ in PARTS)
        self.hashes = [hashlib.blake2b(digest_size=20) for _ in PARTS]
        self.done, self.began, self.last, self.live = 0, time.monotonic(), time.monotonic(), False

    def write(self, pieces: Iterable[tuple[int, str, bool]]) -> None:
        """Args:
        pieces: the split of a piece of text, the text, and whether its document is closed after it.
        """
        with ExitStack() as opened:
            files = [opened.enter_context(open(self.folder / f"{part}.bin", "wb")) for part in PARTS]
            some: list[tuple[int, str, bool]] = []
            volume = 0
            for piece in pieces:
                some.append(piece)
                volume += len(piece[1])
                if volume >= _TOGETHER:
                    self._encode(some, files)
                    some, volume = [], 0
            self._encode(some, files)
            empty = np.full(MOST_LENGTH + 1, NOTHING, self.dtype).tobytes()
            for k, file in enumerate(files):
                self._put(k, empty, file)
                file.flush()
                os.fsync(file.fileno())
                self.counts[k].digest = self.hashes[k].hexdigest()
        self._tell(end=True)

    def _encode(self, some: list[tuple[int, str, bool]], files: Sequence[IO[bytes]]) -> None:
        end, most = self.tokenizer.end, self.tokenizer.num_tokens
        for (k, text, closed), tokens in zip(
            some, self.tokenizer.encode_many([text for _, text, _ in some]), strict=True
        ):
            if len(tokens) and not 0 <= int(tokens.max()) < most:
                raise DataError(
                    f"a tokenizer of {most} tokens must answer with numbers below that",
                    got=f"token {int(tokens.max())}",
                    do="Correct the tokenizer's file: tokens, special ones too, must be numbered without a gap",
                )
            own = self.counts[k]
            tokens = np.append(tokens, np.array([end])) if closed else tokens
            own.tokens, own.documents = own.tokens + len(tokens), own.documents + closed
            own.bytes += len(text.encode("utf-8", "surrogatepass"))
            content = tokens.astype(self.dtype).tobytes()
            self.hashes[k].update(content)
            self._put(k, content, files[k])
            self.done += len(text)
        self._tell()

    def _put(self, k: int, content: bytes, file: IO[bytes]) -> None:
        self.counts[k].check = zlib.crc32(content, self.counts[k].check)
        file.write(content)

    def _tell(self, end: bool = False) -> None:
        """A line in a terminal once it takes a while."""
        now = time.monotonic()
        live = sys.stderr is not None and sys.stderr.isatty()
        if not live or now - self.began < _SLOW or (now - self.last < _TOLD and not end):
            return
        self.last = now
        tokens = sum(own.tokens for own in self.counts)
        rate = f"{tokens:,} tokens, {tokens / (now - self.began) / 1e3:,.0f} thousand a second"
        share = f"{min(1.0, self.done / max(1, self.total)):.0%}"
        print(f"\r{self.name}: {share} of the text, {rate}", end="\n" if end else "", file=sys.stderr, flush=True)


def made(
    key: str | None,
    tokenizer: Tokenizer,
    pieces: Iterable[tuple[int, str, bool]],
    *,
    total: int,
    name: str,
    told: dict[str, Any],
    spent: float = 0.0,
) -> Shards:
    """The streams of some texts, kept under `key` where they are long or took long.

    Args:
        key: of the cache; None keeps nothing.
        pieces: as of `Writer.write`.
        total: their characters.
        told: what to keep beside them, plain.
        spent: seconds of work that went into reading and into the tokenizer.
    """
    began = time.monotonic() - spent
    work = _work_folder(key is not None)
    try:
        writer = Writer(work, tokenizer, total, name)
        try:
            writer.write(pieces)
        except OSError as error:
            raise DataError(
                "the disk must have room for the tokens",
                got=f"{error.strerror or error} in {work.parent}",
                do="Free some space, or set LEADLINE_CACHE to a folder on another disk",
            ) from None
        _tell_work(writer, time.monotonic() - began)
        size = sum((work / f"{part}.bin").stat().st_size for part in PARTS)
        if key is not None and (size > _SMALL or time.monotonic() - began > _SLOW):
            with suppress(OSError):
                _keep(work, key, writer, told)
                return _read_back(key)
        streams = tuple(_mapped(work / f"{part}.bin", writer.dtype, held=size <= _SMALL) for part in PARTS)
        return Shards(streams, writer.counts, tokenizer, told, kept=False)  # type: ignore[arg-type]
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _tell_work(writer: Writer, seconds: float) -> None:
    """What tokenising took, on stderr, once it took a while; of memory the most that the process has held so far."""
    if seconds < _SLOW or sys.stderr is None:
        return
    most, size = _most_memory(), sum(own.bytes for own in writer.counts)
    held = "" if most is None else f", in a process of at most {most / 1e9:.2f} GB of memory"
    line = f"{writer.name}: {size / 1e6:,.0f} MB of text tokenised in {seconds:.0f} s{held}"
    print(line, file=sys.stderr, flush=True)


def _most_memory() -> int | None:
    """The most bytes of memory that the process has held at once; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def stored(key: str) -> Shards:
    """The streams of an entry, mapped; `Unusable` where there is none, or it is damaged."""
    place = cache_root() / "tokens" / key
    try:
        entry = json.loads((place / "entry.json").read_text("utf-8"))
        if entry["format"] != _FORMAT or entry.pop("check") != check_of(entry):
            raise Unusable
        counts, seen, dtype = [Counts(**own) for own in entry["counts"]], seen_in(place), np.dtype(entry["dtype"])
        for part, own in zip(PARTS, counts):
            path = place / f"{part}.bin"
            if path.stat().st_size != (own.tokens + MOST_LENGTH + 1) * dtype.itemsize:
                raise Unusable
            if seen.get(part) != stamp(path) and checksum(path) != own.check:
                raise Unusable
        remember(place, seen, [f"{part}.bin" for part in PARTS])
        tokenizer = Tokenizer.from_json((place / "tokenizer.json").read_text("utf-8"))
        if entry["tokenizer"] != _hash(tokenizer.to_json()):
            raise Unusable
        streams = tuple(_mapped(place / f"{part}.bin", dtype) for part in PARTS)
        return Shards(streams, tuple(counts), tokenizer, entry["told"])  # type: ignore[arg-type]
    except Exception as error:  # whatever is wrong with an entry, it is made again
        raise Unusable from error


def _keep(work: Path, key: str, writer: Writer, told: dict[str, Any]) -> None:
    """The folder that was written becomes an entry."""
    text = writer.tokenizer.to_json()
    (work / "tokenizer.json").write_text(text, "utf-8")
    entry = {
        "format": _FORMAT,
        "dtype": writer.dtype.str,
        "counts": [asdict(own) for own in writer.counts],
        "tokenizer": _hash(Tokenizer.from_json(text).to_json()),
        "told": told,
    }
    entry = json.loads(json.dumps(entry))
    (work / "entry.json").write_text(json.dumps({**entry, "check": check_of(entry)}), "utf-8")
    remember(work, {}, [f"{part}.bin" for part in PARTS])
    put(work, cache_root() / "tokens" / key, lambda: stored(key))


def _read_back(key: str) -> Shards:
    try:
        return stored(key)
    except Unusable:
        raise DataError(
            "tokens must be read back as they were written",
            got=f"other ones in {cache_root() / 'tokens' / key}",
            do="Check the disk, or set LEADLINE_CACHE to a folder on another",
        ) from None


def _work_folder(cached: bool) -> Path:
    """A new folder beside the entries of the cache, or among temporary files where that cannot be written."""
    if cached:
        with suppress(OSError):
            return new_folder(cache_root() / "tokens")
    return Path(tempfile.mkdtemp(prefix="leadline-"))


def _mapped(path: Path, dtype: np.dtype, held: bool = False) -> Tensor:
    """A stream in memory, or of a file, copied on write."""
    native = dtype.newbyteorder("=")
    if held or sys.byteorder != "little":
        return torch.from_numpy(np.fromfile(path, dtype).astype(native, copy=False))
    return torch.from_numpy(np.asarray(np.memmap(path, native, "c")))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
