"""Text out of ids that arrive one by one."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leadline.text.tokenizer import Tokenizer

_LOOK_BACK = 16  # ids before an open one, by which a vocabulary decides on the space between them


class Stream:
    """Text as ids arrive: a character is given as soon as all of its bytes are there.

    >>> from leadline.text import Tokenizer
    >>> stream = Tokenizer.train([], "bytes", specials=()).stream()
    >>> [stream.add(1 + byte) for byte in "né".encode()], stream.end()
    (['n', '', 'é'], '')
    """

    def __init__(self, tokenizer: Tokenizer, after: Sequence[int] = ()):
        self._tokenizer, self._before = tokenizer, list(after)[-_LOOK_BACK:]
        self._whole = codecs.getincrementaldecoder("utf-8")("replace")
        self._open: list[int] = []

    def add(self, id: int) -> str:
        """The text that this token completes, "" where it completes none."""
        if self._tokenizer.exact:
            return self._whole.decode(self._tokenizer.bytes_of(int(id)))
        self._open.append(int(id))
        text = self._tokenizer.decode(self._open, self._before)
        if text.endswith("�"):  # to be continued
            return ""
        self._before, self._open = [*self._before, *self._open][-_LOOK_BACK:], []
        return text

    def end(self) -> str:
        """What is still open at the end: `�` for the beginning of a character."""
        if self._tokenizer.exact:
            return self._whole.decode(b"", final=True)
        return self._tokenizer.decode(self._open, self._before)
