"""In which encoding a text is written, by its bytes."""

from __future__ import annotations

import codecs
import re

NO_TEXT = bytes({*range(32)} - {*b"\t\n\f\r\x1b"})  # bytes that no text in one byte a letter has
_MARKS = (
    *((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig")),
    *((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")),
)


def marked(start: bytes) -> str | None:
    """The encoding that a byte-order mark tells; None where there is no mark.

    >>> marked("a".encode("utf-16")), marked(b"a")
    ('utf-16', None)
    """
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), None)


def one_byte(content: bytes) -> str:
    """The encoding of a text in one byte a letter: that of Windows where it has letters that Latin-1 lacks.

    >>> one_byte(b"caf\\xe9"), one_byte(b"it\\x92s")
    ('latin-1', 'cp1252')
    """
    return "cp1252" if re.search(rb"[\x80-\x9f]", content) else "latin-1"
