"""From files of which something is known to `Data`: sizes first, then pixels, then splits; all that happens is told.

headers    every file is opened, none decoded: size, colours, and who is refused
settle     one size and one number of channels for all
decode     by threads, each into its row; a hash of every picture
split      as folders name them, or drawn; equal pictures together
keep       in the cache, where they are many or slow to decode
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from leadline.data.account import Account, counted
from leadline.data.boxes import checked, placed, stacked
from leadline.data.data import Data, Split
from leadline.data.decode import DEEP, Header, Unreadable, decoded, header, hushed, mapped
from leadline.data.folder import Folder, Lost
from leadline.data.labelled import Labelled
from leadline.data.masks import Masks
from leadline.data.outcome import with_figures
from leadline.data.picture_cache import LARGE, SLOW, keep, room_for
from leadline.data.pictures import Pictures
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import DataError

MOST_SIDE = 224  # of pictures of many sizes, where none is given
MOST_AREA = 512**2  # of pictures of one size, above which they are brought to a smaller one
_HELD = 2 * 2**30  # bytes that are decoded into memory before they are written to the cache
_PARTS = ("train", "val", "test")


class Gathering:
    """Args:
    folder: where the pictures are.
    known: which, and what is known of each.
    size, channels: of all; None finds them.
    fit: one of `FITS`, or "auto".
    workers: threads; None is one a core.
    classes: names for the values of masks.
    """

    def __init__(
        self,
        folder: Folder,
        known: Labelled,
        size: tuple[int, int] | None,
        channels: int | None,
        fit: str,
        workers: int | None,
        classes: tuple[str, ...],
    ):
        self.folder, self.known, self.workers, self.classes = folder, known, workers, classes
        self.read = len(known.files) + len(known.lost)
        self.size, self.channels = size, channels
        places = known.target.spatial
        self.fit = fit if fit != "auto" else "stretch" if places else "crop"

    def data(self, how: tuple[float, float, int], key: str | None) -> Data:
        """Args:
        how: val, test and seed of the split.
        key: of the cache; None for none.
        """
        began = time.monotonic()
        with hushed():
            heads = self._headers()
            size, channels = self._settle(heads)
            x, y, used, prints = self._decode(heads, size, channels, mapped_file=key is not None)
        slow = time.monotonic() - began > SLOW
        number = {name: k for k, name in enumerate(self.folder.pictures)}
        rows = torch.tensor([number[name] for name in self.known.files])
        drawn = self._split(y[used] if y.ndim == 1 else used, prints, *how)
        parts = [used[part] for part in drawn]
        some = torch.from_numpy(x[parts[0][:: max(1, len(parts[0]) // 8192)]])
        target = with_figures(self.known.target, y[parts[0]]) if self.known.target.kind == "real" else self.known.target
        inputs = Pictures.of(some, self.fit)
        train, held, tested = (Split(rows[part], rows[part], rows=rows[part]) for part in drawn)
        made = Data(
            train,
            held,
            tested,
            target,
            inputs,
            name_of(self.folder.root),
            None,
            self._account(),
        )
        if key is not None and (x.nbytes + y.nbytes > LARGE or slow):
            try:
                return keep(key, x, y, parts, made)
            except OSError as error:
                self.known.notes.append(f"pictures are not kept on disk: {error.strerror or error}")
        train, held, tested = (
            Split(torch.from_numpy(x[part]), torch.from_numpy(y[part]), rows=rows[own])
            for part, own in zip(parts, drawn)
        )
        return replace(made, train=train, val=held, test=tested, account=self._account())

    def _headers(self) -> list[Header]:
        """Sizes and modes of the pictures; those that cannot be opened are left out."""
        known, kept, heads = self.known, [], []
        for row, head in enumerate(mapped(self._header, known.files, self.workers)):
            if isinstance(head, str):
                known.lost.add(head, known.files[row])
                continue
            marked = known.y[row] if known.target.kind == "boxes" else None
            if marked is not None and marked.size not in (None, (head.width, head.height)):
                claimed = f"{marked.size[0]} × {marked.size[1]}"
                known.lost.add("is annotated for another size", f"{known.files[row]} ({claimed})")
                continue
            kept.append(row)
            heads.append(head)
        self._check_left(kept)
        self.known = known.keep(kept)
        return heads

    def _header(self, name: str) -> Header | str:
        try:
            return header(self.folder.root / name)
        except Unreadable as error:
            return str(error)

    def _check_left(self, kept: list[int]) -> None:
        if not kept:
            why = "; ".join(f"{len(names)} {reason}" for reason, names in self.known.lost.names.items())
            raise DataError("some picture must be usable", got=f"none of {self.read} ({why})", do="Check the folder")

    def _settle(self, heads: list[Header]) -> tuple[tuple[int, int], int]:
        """The size and the colours of all, where they are not given."""
        notes = self.known.notes
        channels = self.channels or (1 if all(head.grey for head in heads) else 3)
        sizes = Counter((head.height, head.width) for head in heads)
        if self.size is not None:
            size = self.size
        elif len(sizes) == 1 and heads[0].height * heads[0].width <= MOST_AREA:
            size = next(iter(sizes))
        else:
            size = _rounded(median(head.height for head in heads), median(head.width for head in heads))
        if set(sizes) != {size}:
            (small, large), ways = (
                (min(sizes), max(sizes)),
                {"crop": "cropped", "stretch": "stretched", "pad": "padded"},
            )
            told = f"{len(sizes)} sizes from {small[0]} × {small[1]} to {large[0]} × {large[1]}"
            told = told if len(sizes) > 1 else f"a size of {small[0]} × {small[1]}"
            notes.append(f"pictures have {told} (rows × columns), {ways[self.fit]} to {size[0]} × {size[1]}")
        return size, channels

    def _decode(
        self, heads: list[Header], size: tuple[int, int], channels: int, mapped_file: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[bytes]]:
        """x and y, which of their rows are whole, and a hash of each that is."""
        known, total = self.known, len(self.known.files)
        shape = (total, channels, *size)
        x = self._room(shape, mapped_file)
        y = self._room((total, *size), mapped_file) if known.target.kind == "pixels" else None
        reader = Masks(size, self.fit)

        def one(row: int) -> bytes | str:
            path = self.folder.root / known.files[row]
            try:
                x[row] = decoded(path, size, channels, self.fit)
                if y is not None:
                    y[row] = reader.read(self.folder.root / known.y[row], (heads[row].width, heads[row].height))
            except Unreadable as error:
                return str(error)
            return hashlib.blake2b(x[row], digest_size=16).digest()

        prints, kept = [], []
        for row, done in enumerate(_told(mapped(one, range(total), self.workers), total, self.folder.root.name)):
            if isinstance(done, str):
                known.lost.add(done, known.files[row])
            else:
                prints.append(done)
                kept.append(row)
        self._check_left(kept)
        known.notes += _told_of_files([heads[row] for row in kept], channels)
        outcome = self._outcome(y, reader, heads, size)
        self.known = known.keep(kept)
        return x, outcome, np.array(kept), prints

    def _room(self, shape: tuple[int, ...], mapped_file: bool) -> np.ndarray:
        if mapped_file and np.prod(shape) > _HELD:
            try:
                return room_for(shape)
            except OSError as error:
                self.known.notes.append(f"pictures are held in memory: {error.strerror or error}")
        return np.empty(shape, np.uint8)

    def _outcome(
        self, masks: np.ndarray | None, reader: Masks, heads: list[Header], size: tuple[int, int]
    ) -> np.ndarray:
        """y as the target's kind has it, in its final codes and places."""
        known = self.known
        if masks is not None:
            table, names, notes = reader.codes(self.classes)
            known.target = Target("pixels", "mask", classes=names)
            known.notes += notes
            for first in range(0, len(masks), 1024):
                masks[first : first + 1024] = table[masks[first : first + 1024]]
            return masks
        if known.target.kind != "boxes":
            return np.asarray(known.y)
        lost, boxes, num_clipped, num_cut = Lost(), [], 0, 0
        for name, marked, head in zip(known.files, known.y, heads, strict=True):
            rows, clipped = checked(marked, (head.width, head.height), name, lost)
            rows, cut = placed(rows, head, self.fit, size)
            boxes.append(rows)
            num_clipped, num_cut = num_clipped + clipped, num_cut + cut
        known.notes += lost.notes("box", "boxes")
        if num_clipped:
            known.notes.append(f"{counted(num_clipped, 'box', 'boxes')} clipped to the picture")
        if num_cut:
            known.notes.append(f"{counted(num_cut, 'box', 'boxes')} left out: less than a quarter is left by the crop")
        if not any(map(len, boxes)):
            raise DataError("some box must be usable", got="; ".join(known.notes), do="Correct the annotations")
        return stacked(boxes)

    def _split(self, y: np.ndarray, prints: list[bytes], val: float, test: float, seed: int) -> list[np.ndarray]:
        """Rows of each split. Equal pictures stay together: the first is drawn, the others follow it."""
        known = self.known
        first: dict[bytes, int] = {}
        leader = np.array([first.setdefault(mark, row) for row, mark in enumerate(prints)])
        if "train" in known.parts:
            return self._told_split(leader, y, val, test, seed)
        own = np.flatnonzero(leader == np.arange(len(leader)))
        if len(own) < len(leader):
            copies = counted(len(leader) - len(own), "picture")
            known.notes.append(f"{copies} equal to another, and in the same split as that")
        if known.target.discrete and (torn := int((y != y[leader]).sum())):
            known.notes.append(f"{counted(torn, 'picture')} equal to one of another class")
        return self._drawn(own, leader, y, val, test, seed)

    def _drawn(
        self, own: np.ndarray, leader: np.ndarray, y: np.ndarray, val: float, test: float, seed: int
    ) -> list[np.ndarray]:
        codes = torch.from_numpy(y[own]) if self.known.target.discrete else None
        drawn = split_indices(len(own), val=val, test=test, seed=seed, stratify=codes)
        part = np.zeros(len(leader), np.int64)
        for k, index in enumerate(drawn):
            part[own[index.numpy()]] = k
        part = part[leader]
        return [np.flatnonzero(part == k) for k in range(3)]

    def _told_split(self, leader: np.ndarray, y: np.ndarray, val: float, test: float, seed: int) -> list[np.ndarray]:
        """Splits as folders name them. One that is missing is drawn from train, which loses copies of the others, as
        test loses those of val."""
        known = self.known
        part = np.array([_PARTS.index(word) if word else 0 for word in known.parts])
        held, seen = set(leader[part > 0].tolist()), set(leader[part == 1].tolist())
        copies = np.array([lead in (held, (), seen)[p] for p, lead in zip(part, leader.tolist())])
        for row in np.flatnonzero(copies):
            both = "train and, the same, in val or test" if part[row] == 0 else "test and, the same, in val"
            known.lost.add(f"is in {both}", known.files[row])
        train = np.flatnonzero((part == 0) & ~copies)
        if not len(train):
            raise DataError("train must have a picture", got="none that is not in val or test too", do="Add some")
        absent = {k: share for k, share in ((1, val), (2, test)) if not (part == k).any() and share > 0}
        parts = [train, np.flatnonzero(part == 1), np.flatnonzero((part == 2) & ~copies)]
        if absent:
            firsts = {lead: k for k, lead in reversed(list(enumerate(leader[train].tolist())))}
            within = np.array([firsts[lead] for lead in leader[train].tolist()])
            own = np.flatnonzero(within == np.arange(len(within)))
            some = self._drawn(own, within, y[train], absent.get(1, 0.0), absent.get(2, 0.0), seed)
            parts = [train[some[0]], *(train[some[k]] if k in absent else parts[k] for k in (1, 2))]
            words = " and ".join(_PARTS[k] for k in absent)
            known.notes.append(f"train, val and test are folders; {words}, which is missing, is drawn from train")
        else:
            known.notes.append("train, val and test are folders")
        return parts

    def _account(self) -> Account:
        notes = list(self.known.notes)
        if self.folder.others:
            notes.append(f"{counted(len(self.folder.others), 'other file')} in the folder")
        if self.folder.hidden:
            notes.append(f"{counted(self.folder.hidden, 'hidden file')} left alone")
        source = name_of(self.folder.root)
        return Account(
            source, self.read, self.known.lost.refusals(), (f"{self.known.target}, the target",), tuple(notes)
        )


def name_of(root: Path) -> str:
    """What data of a folder are called."""
    return root.name or "images"


def _told_of_files(heads: list[Header], channels: int) -> list[str]:
    """What was done to the pictures beside bringing them to size."""
    notes, wanted = [], "grey" if channels == 1 else "RGB"
    if turned := sum(head.turned for head in heads):
        notes.append(f"{counted(turned, 'picture')} turned upright, as EXIF says")
    if several := sum(head.several for head in heads):
        notes.append(f"{counted(several, 'picture')} of several frames or pages, of which the first is read")
    for mode, count in sorted(Counter(head.mode for head in heads).items()):
        if mode != ("L" if channels == 1 else "RGB"):
            bits = ", by the upper 8 of 16 bits, or of 12 where none needs more" if mode in DEEP else ""
            notes.append(f"{counted(count, 'picture')} of mode {mode} converted to {wanted}{bits}")
    return notes


def _rounded(rows: float, columns: float) -> tuple[int, int]:
    """A size of about the same shape, in multiples of 32 up to 224."""
    scale = min(1.0, MOST_SIDE / max(rows, columns))
    return max(32, 32 * round(rows * scale / 32)), max(32, 32 * round(columns * scale / 32))


def _told(results: Iterator[Any], total: int, name: str) -> Iterator[Any]:
    """The results, with a line in a terminal once they take a while."""
    began = last = time.monotonic()
    live = sys.stderr is not None and sys.stderr.isatty()
    for done, result in enumerate(results, 1):
        yield result
        now = time.monotonic()
        if live and now - last > 0.2 and now - began > SLOW:
            last = now
            end = "\n" if done == total else ""
            print(f"\r{name}: {done} of {total} pictures decoded", end=end, file=sys.stderr, flush=True)
    if live and last > began:
        print(f"\r{' ' * 60}\r", end="", file=sys.stderr, flush=True)
