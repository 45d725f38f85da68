"""Boxes out of Pascal VOC's .xml, one a picture: (xmin, ymin, xmax, ymax) in pixels.

They count from 1, and both ends lie within the box: left = xmin - 1.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from leadline.data.annotations import Annotations, Marked, as_rows, four, whole_word
from leadline.data.decode import default_workers, mapped
from leadline.data.folder import Folder
from leadline.data.layout import split_of
from leadline.data.words import natural

_LARGEST_XML = 2**24
_ENCODINGS = r"utf-8|ascii|iso8859-\d+|cp125\d|koi8-[ru]|gb.*|big5|shift_jis|euc_.*"


def read_voc(folder: Folder, files: list[str]) -> Annotations:
    """Boxes of Pascal VOC files, one a picture."""
    found = Annotations((), {})
    read = []
    for name, content in zip(files, mapped(lambda name: _voc(folder.root / name), files, default_workers())):
        if isinstance(content, str):
            found.notes.append(f"{name} is not read: {content}")
            continue
        named = content.findtext("filename") or ""
        place = folder.find(PurePosixPath(name).stem, *_beside(name)) or folder.find(named, *_beside(name))
        if place is None:
            found.absent.append(named or name)
        else:
            read.append((name, place, content))
    kinds = {word.strip() for *_, root in read for word in (o.findtext("name") for o in root.iter("object")) if word}
    names = tuple(sorted(kinds, key=natural))
    code = {name: k for k, name in enumerate(names)}
    for name, place, root in read:
        rows = []
        for thing in root.iter("object"):
            kind, box = (thing.findtext("name") or "").strip(), thing.find("bndbox")
            ends = four([box.findtext(key) for key in ("xmin", "ymin", "xmax", "ymax")]) if box is not None else None
            if ends is None:
                found.lost.add("it has no four numbers", place)
            elif kind not in code:
                found.lost.add("its class is not named", place)
            else:
                rows.append([code[kind], ends[0] - 1, ends[1] - 1, ends[2], ends[3]])
        width, height = (whole_word(root.findtext(f"size/{key}") or "") for key in ("width", "height"))
        size = (width, height) if width and height else None
        found.marked[place] = Marked(as_rows(rows), size=size, split=split_of(place) or split_of(name))
    found.names = names
    return found


def _beside(name: str) -> list[str]:
    """Folders in which the picture of an annotation may lie."""
    parts = name.split("/")[:-1]
    if not parts:
        return [""]
    places = ["/".join(parts)]
    for i in range(len(parts)):
        for word in ("images", "JPEGImages", "Images", "imgs"):
            places.append("/".join([*parts[:i], word, *parts[i + 1 :]]))
    return places


def _voc(path: Path) -> ElementTree.Element | str:
    """The root of a file, or why it is not read. A file that defines entities could grow without end, and is not."""
    try:
        if path.stat().st_size > _LARGEST_XML:
            return "it is larger than 16 MiB"
        text = _text(path.read_bytes())
    except OSError as error:
        return error.strerror or str(error)
    except (LookupError, ValueError) as error:
        return f"it is no XML ({error})"
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        return "it defines entities"
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        return f"it is no XML ({error})" if text.strip() else "it is empty"
    return root if root.tag == "annotation" else f"its root is {root.tag}, not annotation"


def _text(content: bytes) -> str:
    """The characters of an XML file, as its first bytes say; what was looked at is then what is parsed.

    >>> _text("<a/>".encode("utf-16")), _text(b'<?xml version="1.0" encoding="latin-1"?>\\xe9')[-1]
    ('<a/>', 'é')
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16")
    named = re.match(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.-]+)["']""", content)
    name = "utf-8" if named is None else codecs.lookup(named[1].decode("ascii")).name
    if not re.fullmatch(_ENCODINGS, name):
        raise ValueError(f"its encoding is {name}")
    return content.decode("utf-8-sig" if name == "utf-8" else name)
