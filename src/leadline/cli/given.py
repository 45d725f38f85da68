"""Text that a verb is given: in a file, or piped in.

A file is read as those of training are: packed or not, in UTF-8, with a mark, or in Latin letters. `-` is what is piped
in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from leadline.data.delimited import empty_lines
from leadline.data.text_files import find_texts
from leadline.errors import DataError

PIPED = "-"


def text_of(name: str, what: str) -> str:
    """All of the text, with `\\n` for ends of lines.

    Args:
        name: of the file, or `-`.
        what: must be a file of text, for the message where it is none.
    """
    if name == PIPED:
        return _piped(what)
    path = Path(name)
    if not path.is_file():
        got = f"the folder {name}" if path.is_dir() else f"{name}, a pipe" if path.is_fifo() else f"no file {name}"
        do = (
            "Name one file"
            if path.is_dir()
            else "Check the path; to pass the text itself, pipe it in and write - for the file"
        )
        raise DataError(f"{what} must be a file of text", got=got, do=do)
    return "".join(piece for _, piece, _ in find_texts(path).pieces())


def lines_of(name: str, what: str) -> dict[int, str]:
    """The lines that hold something, by their numbers; with a note of those between them that hold nothing."""
    lines = {number: line for number, line in enumerate(text_of(name, what).split("\n"), 1) if line.strip()}
    if not lines:
        held = "nothing on standard input" if name == PIPED else f"{name}, which has none"
        raise DataError(f"{what} must hold texts, one a line", got=held, do="Write at least one line of text")
    for note in empty_lines([number for number in range(1, max(lines)) if number not in lines]):
        print(f"note: {note}", file=sys.stderr)
    return lines


def _piped(what: str) -> str:
    do = "Pipe it in: echo 'a text' | leadline …"
    if sys.stdin is None:
        raise DataError(f"{what} - reads standard input, which must hold text", got="none", do=do)
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError:
        raise DataError("standard input must be UTF-8", got="other bytes", do="Convert it to UTF-8") from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"{what} - reads standard input, which must hold text", got=f"an error ({error})", do=do
        ) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if not text:
        raise DataError(f"{what} - reads standard input, which must hold text", got="nothing", do=do)
    return text
