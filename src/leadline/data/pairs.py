"""Which mask is whose, by their paths alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from leadline.data.layout import BESIDE, MASKS, MASKS_OF, SPLITS, split_of

#: what the name of a mask may have more than that of its picture
_MARKS = ("", "_mask", "_masks", "_label", "_labels", "_L")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Args:
    mask: of each picture that has one.
    masks: all files that lie in folders of masks; none of them is a picture.
    """

    mask: dict[str, str]
    masks: frozenset[str]


def pairs_of(files: Sequence[str], masks: str | None = None) -> Pairs:
    """Pictures and masks. A mask has the name of its picture, below folders of the same names as far as there are any;
    one that two pictures could mean is nobody's.

    Args:
        files: pictures and masks, as relative paths.
        masks: the folder in which masks lie; None finds it.

    >>> pairs_of(["images/a.jpg", "images/b.jpg", "masks/a.png"]).mask
    {'images/a.jpg': 'masks/a.png'}
    """
    if masks is not None:
        inside = f"{masks.strip('/')}/"
        own = frozenset(name for name in files if name.startswith(inside))
        return Pairs(_unshared(_by_tail([name for name in files if name not in own], own, inside)), own)
    beside, stems = _mask_folders(files), by_stem(files)
    claims, used = {}, set()
    for name in files:
        parts = str(PurePosixPath(name).with_suffix("")).split("/")
        for i in range(len(parts) - 1):
            tail = "/".join(parts[i + 1 :])
            for other in beside.get("/".join(parts[: i + 1]), ()):
                if mask := next((path for mark in _MARKS for path in stems.get(f"{other}/{tail}{mark}", ())), None):
                    claims[name] = (len(parts) - i, mask)
                    used.add(other)
    own = frozenset(name for name in files if any(place in used for place in _above(name)))
    return Pairs(_unshared({name: claim for name, claim in claims.items() if name not in own}), own)


def _by_tail(pictures: list[str], masks: frozenset[str], inside: str) -> dict[str, tuple[int, str]]:
    """For each picture how many parts of its path name a mask below `inside`, and the mask: as many as can be, or the
    last alone where no other mask has that name and none of the two is of another split."""
    of_path, of_stem = {}, defaultdict(list)
    for mask in sorted(masks, reverse=True):
        path = PurePosixPath(mask[len(inside) :]).with_suffix("")
        of_path[str(path)] = mask
        of_stem[path.name].append(mask)
    claims = {}
    for name in pictures:
        parts = str(PurePosixPath(name).with_suffix("")).split("/")
        tails = ["/".join(parts[i:]) for i in range(len(parts))]
        found = [
            (tail.count("/") + 2, of_path[tail + mark]) for tail in tails for mark in _MARKS if tail + mark in of_path
        ]
        alone = [(1, of_stem[parts[-1] + mark][0]) for mark in _MARKS if len(of_stem.get(parts[-1] + mark, ())) == 1]
        alone = [(1, mask) for _, mask in alone if len({split_of(name), split_of(mask)} - {""}) < 2]
        if found or alone:
            claims[name] = (found or alone)[0]
    return claims


def _unshared(claims: dict[str, tuple[int, str]]) -> dict[str, str]:
    """Of the pictures that claim a mask the one with most parts of its path for it, and none where two have as many."""
    rivals = defaultdict(list)
    for name, (parts, mask) in claims.items():
        rivals[mask].append((parts, name))
    found = {}
    for mask, those in rivals.items():
        most = max(parts for parts, _ in those)
        best = [name for parts, name in those if parts == most]
        if len(best) == 1:
            found[best[0]] = mask
    return {name: found[name] for name in claims if name in found}


def _mask_folders(files: Sequence[str]) -> dict[str, list[str]]:
    """For each folder of pictures, by its name, those of masks beside it."""
    below = defaultdict(set)
    for parent in {str(PurePosixPath(name).parent) for name in files} - {"."}:
        parts = parent.split("/")
        for i, part in enumerate(parts):
            below["/".join(parts[:i])].add(part)
    beside = {}
    for head, names in below.items():
        start = f"{head}/" if head else ""
        masks = [f"{start}{name}" for name in sorted(names) if name.lower() in MASKS]
        masks += [
            f"{place}/{name}" for place in masks for name in sorted(below.get(place, ())) if name.lower() in MASKS
        ]
        by_word = defaultdict(list)
        for name in sorted(names):
            by_word[name.lower()].append(f"{start}{name}")
        for word in by_word.keys() & {*BESIDE, *SPLITS}:
            near = [place for more in MASKS_OF for place in by_word.get(word + more, ())]
            for place in by_word[word]:
                beside[place] = near + (masks if word in BESIDE else [])
    return beside


def _above(name: str) -> Iterator[str]:
    """The folders in which a file lies."""
    parts = name.split("/")
    return ("/".join(parts[:i]) for i in range(1, len(parts)))


def by_stem(files: Iterable[str]) -> dict[str, list[str]]:
    """Files by their path without its ending.

    >>> by_stem(["a/1.png", "a/1.jpg"])
    {'a/1': ['a/1.png', 'a/1.jpg']}
    """
    found = defaultdict(list)
    for name in files:
        found[str(PurePosixPath(name).with_suffix(""))].append(name)
    return dict(found)
