"""The tokenizer of a data set: given, or trained on its training texts alone.

    V = 1024 · 2^⌊log₄(n / 2^17)⌋, from 1,024 to 32,768        for n characters                    (1)

Four times the text make words frequent enough for about twice the vocabulary. Special tokens of all tasks are in every
vocabulary, so that what was trained on one task can be tuned on another.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from leadline.errors import DataError
from leadline.settings import given
from leadline.text.tokenizer import SPECIALS, Tokenizer

_SAMPLE = 2**25  # characters on which a tokenizer is trained at most
_LEAST, _MOST, _FEW = 1024, 32768, 2**17


def usual_size(characters: int) -> int:
    """Eq. 1.

    >>> [usual_size(n) for n in (1000, 10**6, 10**7, 10**9, 10**12)]
    [1024, 2048, 8192, 32768, 32768]
    """
    doublings = math.floor(math.log(max(characters, 1) / _FEW, 4))
    return max(_LEAST, min(_MOST, _LEAST * 2 ** max(0, min(doublings, 10))))


def given_tokenizer(what: Any) -> Tokenizer | None:
    """A tokenizer, its file, or its JSON; None for None."""
    if what is None or isinstance(what, Tokenizer):
        return what
    if isinstance(what, str) and what.lstrip().startswith("{"):
        return Tokenizer.from_json(what)
    if isinstance(what, (str, os.PathLike)):
        path = Path(what).expanduser()
        if not path.exists():
            raise DataError("tokenizer must name a file that is there", got=f"no {path}", do="Check its name")
        return Tokenizer.load(path / "tokenizer.json" if path.is_dir() else path)
    raise DataError(
        "tokenizer must be a Tokenizer or the path of its file",
        got=given("tokenizer", what),
        do="Leave it out to have one trained",
    )


def trained(texts: Iterable[str], total: int, kind: str, num_tokens: int | None) -> Tokenizer:
    """A tokenizer of the training texts, or of every k-th where they are many.

    Args:
        texts: pieces of text, of whatever length.
        total: their characters.
        kind: of `Tokenizer.train`.
        num_tokens: V; None takes eq. 1.
    """
    size = usual_size(total) if num_tokens is None and kind.lower() != "bytes" else num_tokens
    return Tokenizer.train(sampled(texts, -(-total // _SAMPLE)), kind, size, SPECIALS)


def sampled(texts: Iterable[str], every: int) -> Iterator[str]:
    """The first of each `every` texts that hold something.

    >>> list(sampled(["a", " ", "b", "c"], 2))
    ['a', 'c']
    """
    some = (text for text in texts if text.strip())
    return (text for k, text in enumerate(some) if every < 2 or k % every == 0)


def token_sizes(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Bytes of text that each token stands for, 0 for a special one."""
    return tuple(int(size) for size in tokenizer.token_bytes)


def token_characters(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Characters of text that begin in each token, 0 for a special one: one that several tokens write counts once.

    >>> words = Tokenizer.train([], "bytes")
    >>> [token_characters(words)[token] for token in words.encode("né")]
    [1, 1, 0]
    """
    pieces = (tokenizer.bytes_of(number) for number in range(tokenizer.num_tokens))
    return tuple(sum(byte & 0xC0 != 0x80 for byte in piece) for piece in pieces)
