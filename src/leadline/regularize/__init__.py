"""What keeps a network from learning its rows by heart. `REGULARIZERS` is the list of those that a word can name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from leadline.errors import UserError
from leadline.names import bracketed, lookup
from leadline.regularize.regularizer import Regularizer
from leadline.settings import given

REGULARIZERS: dict[str, type[Regularizer]] = {}


def regularizer(wish: Regularizer | str) -> Regularizer:
    """A regulariser from its word, or itself."""
    if isinstance(wish, Regularizer):
        return wish
    if not isinstance(wish, str):
        raise UserError(
            "regularize must hold words or regularisers",
            got=given("regularize", wish),
            do=f"Known words: {', '.join(REGULARIZERS)}",
        )
    name, numbers = bracketed(wish, "regularizer")
    kind = lookup(name, REGULARIZERS, "regularizer")
    known = list(inspect.signature(kind).parameters)
    if len(numbers) > len(known):
        raise UserError(
            f"regularizer {name} takes at most {len(known)} numbers in brackets",
            got=f"regularizer {wish!r}",
            do=f"They are: {', '.join(known)}" if known else f"Write {name}",
        )
    return kind(*numbers)


def regularizers(wishes: Iterable[Regularizer | str]) -> tuple[Regularizer, ...]:
    """Regularisers from words and from themselves, in order."""
    return tuple(regularizer(wish) for wish in ([wishes] if isinstance(wishes, (str, Regularizer)) else wishes))


def words(given: Iterable[Regularizer]) -> tuple[str, ...]:
    """How a config holds them; "given" stands for one that it cannot build again."""
    return tuple(r.word if type(r) in REGULARIZERS.values() else "given" for r in given)


__all__ = ["REGULARIZERS", "Regularizer", "regularizer", "regularizers", "words"]
