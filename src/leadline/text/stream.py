"""Text out of ids that arrive one by one."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leadline.text.tokenizer import Tokenizer


class Stream:
    """Text as ids arrive: a character is given as soon as all of its bytes are there.

    >>> from leadline.text import Tokenizer
    >>> stream = Tokenizer.train([], "bytes", specials=()).stream()
    >>> [stream.add(1 + byte) for byte in "né".encode()], stream.end()
    (['n', '', 'é'], '')
    """

    def __init__(self, tokenizer: Tokenizer, after: Sequence[int] = ()):
        self._tokenizer, self._after = tokenizer, after
        self._whole = codecs.getincrementaldecoder("utf-8")("replace")
        self._ids: list[int] = []
        self._given = ""

    def add(self, id: int) -> str:
        """The text that this token completes, "" where it completes none."""
        if self._tokenizer.exact:
            return self._whole.decode(self._tokenizer.bytes_of(int(id)))
        self._ids.append(int(id))
        text = self._tokenizer.decode(self._ids, self._after)
        if text.endswith("�") or not text.startswith(self._given):  # to be continued
            return ""
        return self._more(text)

    def end(self) -> str:
        """What is still open at the end: `�` for the beginning of a character."""
        if self._tokenizer.exact:
            return self._whole.decode(b"", final=True)
        return self._more(self._tokenizer.decode(self._ids, self._after))

    def _more(self, text: str) -> str:
        new, self._given = text[len(self._given) :], text
        return new
