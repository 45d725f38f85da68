"""Where a text ends: at a token, or where certain words stand in it.

A stop text may begin in one token and end in another: bytes are compared, of as many last tokens as are needed.

Notation   bytes_of -> from a token to its bytes, such as `Tokenizer.bytes_of`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral

from leadline.errors import UserError
from leadline.settings import given, texts, whole


@dataclass(frozen=True, eq=False)
class Stop:
    """Args:
        tokens: each ends a row.
        texts: each ends a row where its bytes are complete.
        bytes_of: of a token; needed for texts.

    >>> stop = Stop(texts=("the end",), bytes_of=lambda token: (b"th", b"e e", b"nd.")[token])
    >>> stop.why([0, 1]), stop.why([0, 1, 2])
    ('', 'text')
    """

    tokens: Sequence[int] = ()
    texts: Sequence[str] = ()
    bytes_of: Callable[[int], bytes] | None = None

    def __post_init__(self):
        found = self.tokens.tolist() if hasattr(self.tokens, "tolist") else self.tokens
        found = [found] if isinstance(found, Integral) else found
        if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
            raise UserError("tokens must be a list of tokens", got=given("tokens", found), do="Pass such as (0,)")
        object.__setattr__(self, "tokens", tuple(whole("tokens", token, 0) for token in found))
        object.__setattr__(self, "texts", tuple(texts("texts", self.texts)))
        if self.texts and self.bytes_of is None:
            raise UserError(
                "stop texts are found in the bytes of tokens", got="no bytes_of", do="Pass bytes_of=tokenizer.bytes_of"
            )
        if "" in self.texts:
            raise UserError("a stop text must not be empty", got="''", do="Leave it out")

    def why(self, tokens: Sequence[int]) -> str:
        """What ends a row that has these new tokens, the last of them just come: token, text, or "" for nothing.

        Only the last token is judged: what came before was judged before.
        """
        if tokens and tokens[-1] in self.tokens:
            return "token"
        if not self.texts or self.bytes_of is None or not tokens:
            return ""
        ends = [text.encode() for text in self.texts]
        last = self.bytes_of(tokens[-1])
        tail, need = last, max(map(len, ends)) - 1
        for token in reversed(tokens[:-1]):
            if len(tail) - len(last) >= need:
                break
            tail = self.bytes_of(token) + tail
        return "text" if any(end in tail[-(len(end) - 1 + len(last)) :] for end in ends if last) else ""


def cut(text: str, stops: Sequence[str]) -> str:
    """`text` up to the first stop text.

    >>> cut("one. two. three", ("two", "three"))
    'one. '
    """
    found = [at for at in (text.find(stop) for stop in stops) if at >= 0]
    return text[: min(found)] if found else text


class Held:
    """A text that comes in pieces, handed on as soon as no stop text can begin in it.

    >>> held = Held(("STOP",))
    >>> held.add("go S"), held.add("TO"), held.add("RM"), held.rest()
    ('go ', '', 'STORM', '')
    """

    def __init__(self, stops: Sequence[str] = ()):
        self.stops, self.waiting, self.over = tuple(stops), "", False

    def add(self, piece: str) -> str:
        """What can be shown now."""
        if self.over:
            return ""
        self.waiting += piece
        shown = cut(self.waiting, self.stops)
        if len(shown) < len(self.waiting):
            self.over, self.waiting = True, ""
            return shown
        begun = max((_begun(shown, stop) for stop in self.stops), default=0)
        self.waiting = shown[len(shown) - begun :]
        return shown[: len(shown) - begun]

    def rest(self) -> str:
        """What was held back and is no stop text after all."""
        left, self.waiting = self.waiting, ""
        return left


def _begun(text: str, stop: str) -> int:
    """How many of the last characters of `text` are the first of `stop`."""
    return next((size for size in range(len(stop) - 1, 0, -1) if text.endswith(stop[:size])), 0)
