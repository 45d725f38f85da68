"""Names of classes out of a data.yaml, which YOLO's folders have: this one key of it, and no more of YAML."""

from __future__ import annotations

import re

_MOST_DIGITS = 4  # of a code


def yaml_names(text: str) -> tuple[str, ...]:
    """What stands under `names`, a list or a dictionary by code, in brackets or in lines.

    >>> yaml_names("nc: 2\\nnames: ['cat', dog]"), yaml_names("names:\\n  0: cat\\n  1: dog\\npath: x")
    (('cat', 'dog'), ('cat', 'dog'))
    >>> yaml_names("names: {1: 'a, b', 0: c}")
    ('c', 'a, b')
    """
    start = re.search(r"^names:[ \t]*(?:#.*)?", text, re.M)
    if start is None:
        return ()
    rest = text[start.end() :].lstrip()
    if rest[:1] in ("[", "{"):
        entries, dictionary = _bracketed(rest), rest[0] == "{"
    else:
        block = re.match(r"(?:[ \t]*(?:-[ \t]|['\"]?\d+['\"]?:|#).*\n?)*", text[start.end() :].lstrip("\n"))
        entries = [line.strip() for line in block[0].splitlines() if line.strip()[0] != "#"] if block else []
        dictionary = not any(line.startswith("-") for line in entries)
        entries = entries if dictionary else [line[1:] for line in entries]
    if not dictionary:
        return tuple(_scalar(entry) for entry in entries)
    names = {}
    for entry in entries:
        key, _, name = entry.partition(":")
        word = key.strip().strip("'\"")
        if word.isdecimal() and len(word) <= _MOST_DIGITS:
            names[int(word)] = _scalar(name)
    return tuple(names.get(code, str(code)) for code in range(max(names, default=-1) + 1))


def _bracketed(text: str) -> list[str]:
    """The entries between the first bracket and the one that closes it; commas in quotes part nothing."""
    pattern = r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|(?<=\s)\#[^\n]*|[\[\]{},]|[^'"\[\]{},\#]+|."""
    entries = [""]
    for piece in re.findall(pattern, text[1:], re.S):
        if piece in ("]", "}"):
            break
        if piece == ",":
            entries.append("")
        elif not piece.startswith("#"):
            entries[-1] += piece
    return [entry for entry in entries if entry.strip()]


def _scalar(text: str) -> str:
    """A word of YAML without its quotes, or without the comment after it."""
    text = text.strip()
    quoted = re.match(r"""'((?:[^']|'')*)'|"((?:[^"\\]|\\.)*)\"""", text)
    if quoted is None:
        return text.split(" #")[0].strip()
    return quoted[1].replace("''", "'") if quoted[1] is not None else re.sub(r"\\(.)", r"\1", quoted[2])
