"""The vocabulary of byte pair encoding, merge by merge: what tokens a text is made of, and how many there are.

    V₀ = different characters;   V_m = different tokens after m merges                                          (1)

A merge of a and b adds the token ab, and takes away a or b where they stood nowhere else. So (1) rises while letters
become fragments, and falls while fragments become words; in the end it is the number of different words.

Notation   `_` whitespace, which closes its word;  V_m -> sizes[m]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.errors import DataError, UserError
from leadline.lens.style import FULL, HUES, INK, SOFT, blank, label, styled
from leadline.lens.view import View
from leadline.reference.bpe import RHYME, byte_pairs, characters, frequencies
from leadline.settings import given, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROWS = 30  # of a table


@dataclass(frozen=True, eq=False)
class Vocabulary(View):
    """Tokens over merges.

    Args:
        merges: the token that each merge made, in order; counts: how often its pair stood in the text, (M,).
        sizes: eq. 1, (M + 1,).
        tables: merges done, and how often each token then comes, the most frequent first.
    """

    merges: tuple[str, ...]
    counts: np.ndarray
    sizes: np.ndarray
    tables: dict[int, dict[str, int]]

    @property
    def peak(self) -> int:
        """The largest vocabulary on the way."""
        return int(self.sizes.max())

    @styled
    def plot(self) -> Figure:
        rows = min(_ROWS, max(len(table) for table in self.tables.values()))
        figure = blank(FULL, 2.9 + 0.15 * rows)
        above, below = figure.subfigures(2, 1, height_ratios=[0.6 + 0.15 * rows, 2.3])
        for ax, (done, table) in zip(above.subplots(1, len(self.tables), squeeze=False)[0], self.tables.items()):
            self._draw_table(ax, done, table, rows)
        ax = below.subplots()
        ax.plot(self.sizes, color=INK)
        at = list(self.tables)
        ax.plot(at, self.sizes[at], "o", ms=5, color=HUES[1])
        ax.set_ylim(0, 1.12 * self.peak)
        title = f"Different tokens: {self.sizes[0]} at first, {self.peak} at most, {self.sizes[-1]} after "
        label(ax, f"{title}{len(self.merges)} merges", "merges", "vocabulary")
        return figure

    def _draw_table(self, ax: Any, done: int, table: dict[str, int], rows: int) -> None:
        """Bars as long as tokens are frequent; the token of the last merge stands out."""
        shown = list(table.items())[:rows]
        new = self.merges[done - 1] if done else None
        hues = [HUES[1] if token == new else HUES[0] for token, _ in shown]
        ax.barh(range(len(shown)), [count for _, count in shown], height=0.8, color=hues)
        for row, (_, count) in enumerate(shown):
            ax.text(count, row, f" {count}", va="center", color=SOFT, fontsize=7)
        ax.set_yticks(range(len(shown)), [token for token, _ in shown], fontsize=7.5, color=INK)
        ax.set_ylim(rows - 0.5, -0.5)
        ax.set_xlim(0, 1.25 * max(table.values()))
        ax.set_xticks([])
        ax.grid(False)
        ax.spines["bottom"].set_visible(False)
        words = "before merging" if not done else f"after {done} merge{'s' * (done > 1)}"
        ax.set_title(words + (f", first {rows} of {len(table)}" if len(table) > rows else ""))


def vocabulary(text: str = RHYME, at: Sequence[int] = (0, 1, 2, 22), *, most: int | None = None) -> Vocabulary:
    """Byte pair encoding of a text of some pages, with what it counts on the way.

    Args:
        at: merges after which to keep a table, each at least 0; the last merge is kept too.
        most: merges at most; None goes on until all tokens are words.

    >>> view = vocabulary("sea see sea see")
    >>> view.merges, view.sizes.tolist()
    (('se', 'sea', 'sea_', 'see', 'see_'), [4, 4, 4, 4, 3, 2])
    """
    whole("most", 1 if most is None else most, 1)
    at = [whole("at", done, 0) for done in at]
    if not isinstance(text, str):
        raise UserError("text must be text", got=given("text", text), do="Join several texts: '\\n'.join(texts)")
    tokens = characters(text)
    if not tokens:
        raise DataError("a text must have words", got="none", do="Pass a text that is not empty")
    merges = byte_pairs(text, most)
    tables = [frequencies(tokens), *(merge.tokens for merge in merges)]
    kept = sorted({done for done in at if done < len(merges)} | {len(merges)})
    return Vocabulary(
        tuple("".join(merge.pair) for merge in merges),
        np.array([merge.count for merge in merges], dtype=int),
        np.array([len(table) for table in tables]),
        {done: tables[done] for done in kept},
    )
