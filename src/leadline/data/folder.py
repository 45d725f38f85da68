"""What a folder of pictures holds, found out without opening a picture: which files, which splits, which task.

classes    one folder a class;  or train, val and test with such folders in each
labels     a .csv or .tsv that names files and says what each shows
pixels     images/ beside masks/ (or labels/, annotations/, trimaps/ in these), or train/ beside train_labels/, with
           the same name for picture and mask
boxes      COCO: a .json with images, annotations and categories;  YOLO: labels/ with a .txt a picture;
           Pascal VOC: an .xml a picture
pictures   none of these: something to predict from, nothing to learn from
"""

from __future__ import annotations

import os
import stat
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath

from leadline.data.account import Refusal, counted, printable
from leadline.data.decode import PICTURES
from leadline.data.layout import BESIDE, SPLITS, split_of
from leadline.data.pairs import by_stem, pairs_of
from leadline.data.table import DELIMITED, check_no_pipe
from leadline.errors import DataError

_SHOWN = 5
_FRESH = 5.0  # seconds for which a folder is known by sight, if no file of it came or went
_LOOK = 16 * 2**20  # bytes of a .json in which its keys are looked for


@dataclass(frozen=True, eq=False)
class Folder:
    """Files below `root`, as relative paths in order; hidden ones are counted only.

    Args:
        stamps: size and time of each file, which tell whether anything changed.
        places: time of each folder, which tells whether a file came or went.
        special: pipes, sockets and devices, which are never opened: reading one may wait for ever.
    """

    root: Path
    pictures: tuple[str, ...]
    others: tuple[str, ...]
    hidden: int = 0
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    places: dict[str, int] = field(default_factory=dict, repr=False)
    special: tuple[str, ...] = ()

    def ending(self, *endings: str) -> list[str]:
        """The other files with one of these endings."""
        return [name for name in self.others if name.lower().endswith(endings)]

    @cached_property
    def by_stem(self) -> dict[str, list[str]]:
        """Pictures by their path without its ending."""
        return by_stem(self.pictures)

    @cached_property
    def by_name(self) -> dict[str, list[str]]:
        """Pictures by the last part of their path, with and without its ending."""
        found = defaultdict(list)
        for name in self.pictures:
            path = PurePosixPath(name)
            for key in {path.name, path.stem}:
                found[key].append(name)
        return dict(found)

    @cached_property
    def known(self) -> frozenset[str]:
        return frozenset(self.pictures)

    def find(self, name: str, *near: str, split: str = "") -> str | None:
        """The picture that an annotation means by `name`: below `near`, below the root, or the only one so called, in
        its split where there are more."""
        name = str(PurePosixPath(name.replace("\\", "/")))
        for place in (*near, ""):
            path = str(PurePosixPath(place) / name)
            if path in self.known:
                return path
            if len(found := self.by_stem.get(path, [])) == 1:
                return found[0]
        found = self.by_name.get(PurePosixPath(name).name, [])
        close = [path for path in found if any(place and path.startswith(f"{place}/") for place in near)]
        found = close or found
        if len(found) > 1 and split:
            found = [path for path in found if split_of(path) == split]
        return found[0] if len(found) == 1 else None


class Lost:
    """Names by the reason for which they were left out."""

    def __init__(self):
        self.names: dict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, name: str) -> None:
        self.names[reason].append(name)

    def __len__(self) -> int:
        return sum(map(len, self.names.values()))

    def refusals(self) -> tuple[Refusal, ...]:
        return tuple(Refusal(f"{reason}: {shown(names)}", len(names)) for reason, names in sorted(self.names.items()))

    def notes(self, one: str, many: str = "") -> list[str]:
        """A line for each reason, of things that are no rows."""
        return [
            f"{counted(len(names), one, many)} left out: {reason} ({shown(list(dict.fromkeys(names)))})"
            for reason, names in sorted(self.names.items())
        ]


def shown(names: Sequence[str]) -> str:
    """The first few names.

    >>> shown(["a.png", "b.png"])
    'a.png, b.png'
    """
    return printable(", ".join(names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")


def survey(root: str | Path) -> Folder:
    """The files in a folder and in those below it. Links are followed, the first by name first and after all that is
    there itself, but none into a folder that was seen already.

    Args:
        root: the folder.
    """
    root = Path(root).expanduser().absolute()
    check_no_pipe(root)
    if not root.is_dir():
        got = f"a file, {root}" if root.exists() else f"no folder {root}"
        raise DataError("pictures must lie in a folder", got=got, do="Check its name")
    pictures: list[str] = []
    others: list[str] = []
    special: list[str] = []
    stamps, hidden = {}, 0
    places: dict[str, int] = {}
    for below, place in _walk(root):
        places[place] = _time(place)
        for entry in _entries(place):
            name = f"{below}{entry.name}"
            if _is_hidden(entry):
                hidden += 1
            elif _is_special(entry):
                special.append(name)
            elif not _is_folder(entry):
                (pictures if name.lower().endswith(PICTURES) else others).append(name)
                stamps[name] = _stamp(entry)
    return Folder(root, tuple(sorted(pictures)), tuple(sorted(others)), hidden, stamps, places, tuple(sorted(special)))


def recent(root: str | Path) -> Folder:
    """The same, of a moment ago where no file came or went since; that one changed may go unseen."""
    place = os.path.abspath(os.path.expanduser(root))
    when, folder = _RECENT.get(place, (0.0, None))
    now = time.monotonic()
    if folder is None or now - when > _FRESH or any(_time(path) != at for path, at in folder.places.items()):
        _RECENT.clear()
        folder = survey(place)
        _RECENT[place] = (now, folder)
    return folder


_RECENT: dict[str, tuple[float, Folder]] = {}


def _walk(root: Path) -> Iterator[tuple[str, str]]:
    """Folders as they are named below the root and as they are opened: those that are there, then links by name."""
    seen = {os.path.realpath(root)}
    waiting = [("", str(root))]
    links: list[tuple[str, str]] = []
    while waiting or links:
        if not waiting:
            below, place = links.pop(links.index(min(links)))
            if os.path.realpath(place) in seen:
                continue
            seen.add(os.path.realpath(place))
            waiting.append((below, place))
        below, place = waiting.pop()
        yield below, place
        for entry in _entries(place):
            if _is_hidden(entry) or not _is_folder(entry):
                continue
            if entry.is_symlink():
                links.append((f"{below}{entry.name}/", entry.path))
            elif (real := os.path.realpath(entry.path)) not in seen:
                seen.add(real)
                waiting.append((f"{below}{entry.name}/", entry.path))


def _is_hidden(entry: os.DirEntry[str]) -> bool:
    return entry.name.startswith((".", "__MACOSX", "Thumbs.db", "desktop.ini"))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link to one; a link that leads to itself is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Whether it is neither a file nor a folder, nor a link to nowhere."""
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _time(place: str) -> int:
    try:
        return os.stat(place).st_mtime_ns
    except OSError:
        return -1


def _entries(place: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as entries:
            return list(entries)
    except OSError as error:
        raise DataError(
            f"{place} must be readable", got=error.strerror or str(error), do="Check its permissions"
        ) from None


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int]:
    try:
        status = entry.stat()
    except OSError:  # a link to nowhere, which is refused by name when it is opened
        return -1, 0
    return status.st_size, status.st_mtime_ns


def no_pictures(folder: Folder) -> DataError:
    """What to say of a folder without pictures."""
    endings = sorted({PurePosixPath(name).suffix or "no ending" for name in folder.others})
    got = f"none among {counted(len(folder.others), 'file')} ({shown(endings)})" if folder.others else "no files"
    do = "Name a folder with .jpg, .png or other pictures, or with files of text"
    if folder.ending(".txt"):
        got, do = (
            got.replace("none among", "few or none among"),
            f"{do}; or pass task='next' to read those that are text",
        )
    return DataError(f"{folder.root} must hold pictures or text", got=got, do=do)


def find_task(path: str | Path | Folder) -> str:
    """What can be learned from a folder: "classes", "labels" (a table of them), "pixels", "boxes", "pictures" (nothing
    is known of them), or "none" where there are no pictures. No picture is opened.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat/1.png", "dog/1.png"):
    ...         Path(folder, name).parent.mkdir()
    ...         Path(folder, name).touch()
    ...     find_task(folder)
    'classes'
    """
    folder = path if isinstance(path, Folder) else recent(path)
    if not folder.pictures:
        return "none"
    if coco_files(folder) or voc_files(folder) or yolo_files(folder):
        return "boxes"
    if len(mask_of(folder)) > 0:
        return "pixels"
    if len({name for name, _ in class_of(folder).values()}) > 1:
        return "classes"
    if folder.ending(*DELIMITED):
        return "labels"
    return "classes" if class_of(folder) else "pictures"


def class_of(folder: Folder) -> dict[str, tuple[str, str]]:
    """Class and split of each picture that lies in a class's folder; the others are left out."""
    parts = {name: name.split("/") for name in folder.pictures}
    depth = _common(parts.values())
    splits = {part[depth].lower() for part in parts.values() if len(part) > depth + 1}
    split = any(SPLITS.get(word) == "train" for word in splits) and all(word in SPLITS for word in splits)
    found = {}
    for name, part in parts.items():
        rest = part[depth:]
        where = SPLITS[rest[0].lower()] if split and len(rest) > 1 else ""
        rest = rest[1:] if where else rest
        if len(rest) > 1:
            found[name] = (rest[0], where)
    return found


def _common(paths: Iterable[list[str]]) -> int:
    """How many folders all the paths begin with, but the last of one that holds pictures itself."""
    paths = list(paths)
    depth = 0
    while all(len(path) > depth + 2 for path in paths) and len({path[depth] for path in paths}) == 1:
        depth += 1
    return depth


def mask_of(folder: Folder, masks: str | None = None) -> dict[str, str]:
    """The mask of each picture that has one; `masks` as of `pairs_of`."""
    return pairs_of(folder.pictures, masks).mask


def coco_files(folder: Folder) -> list[str]:
    """The .json files that look like COCO's, with boxes: captions and lists of pictures have no categories."""
    return [name for name in folder.ending(".json") if _holds_keys(folder.root / name, folder.stamps.get(name))]


@lru_cache(maxsize=1024)
def _holds_keys(path: Path, stamp: tuple[int, int] | None) -> bool:
    try:
        with open(path, "rb") as file:
            text = file.read(_LOOK)
            if len(text) == _LOOK:
                file.seek(-(2**20), os.SEEK_END)
                text += file.read()
    except OSError:
        return False
    return b'"images"' in text and b'"categories"' in text


def voc_files(folder: Folder) -> list[str]:
    """The .xml files, if the first of them that can be read is an annotation."""
    files = folder.ending(".xml")
    return files if any(b"<annotation" in _start(folder.root / name) for name in files[:20]) else []


def yolo_files(folder: Folder) -> dict[str, str]:
    """The .txt of each picture that has one: in labels/ beside images/, or beside the picture itself."""
    texts = set(folder.ending(".txt"))
    if not texts:
        return {}
    found = {}
    for name in folder.pictures:
        parts = str(PurePosixPath(name).with_suffix(".txt")).split("/")
        places = ["/".join(parts)]
        for i, part in enumerate(parts[:-1]):
            if part.lower() in BESIDE:
                places += ["/".join([*parts[:i], other, *parts[i + 1 :]]) for other in ("labels", "Labels")]
        text = next((place for place in places if place in texts), None)
        if text is not None:
            found[name] = text
    if not any(_numbers(_start(folder.root / text)) for text in list(found.values())[:50]):
        return {}
    return found


def _start(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def _numbers(text: bytes) -> bool:
    """Whether the first line holds five numbers or more."""
    words = text.split(b"\n")[0].split()
    try:
        return len(words) >= 5 and all(float(word) > -1e9 for word in words)
    except ValueError:
        return False
