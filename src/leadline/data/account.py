"""What became of the rows of a source: read, used, refused and why. Nothing is dropped silently."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: what moves a terminal's cursor, turns the direction of text, or is no character at all
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Text as it may be shown, whatever a stranger named a file.

    >>> print(printable("a cat" + chr(27) + "[2J.png"))
    a cat\\x1b[2J.png
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


def counted(number: int, one: str, many: str = "") -> str:
    """How many there are of a thing.

    >>> counted(1, "row"), counted(0, "epoch"), counted(2500, "row"), counted(2, "class", "classes")
    ('1 row', '0 epochs', '2500 rows', '2 classes')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


@dataclass(frozen=True)
class Refusal:
    """Rows left out for one reason; `rows` holds the first few of their numbers."""

    reason: str
    count: int
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class Account:
    """Args:
        source: where the rows came from.
        read: rows read.
        refused: rows left out, by reason.
        columns: a line on each column: its name, its type, how it is used.
        notes: decisions a reader should know of (a policy applied, values filled in).
        numbered: what the numbers of refused rows count: "rows", or "lines" of a file.
        one: what is counted as read: a "row", or a "file".

    >>> print(Account("cars.csv", read=10, refused=(Refusal("price is missing", 2, (3, 7)),)))
    cars.csv: 10 rows read, 8 used, 2 refused
      refused 2: price is missing (rows 3, 7)
    """

    source: str = ""
    read: int = 0
    refused: tuple[Refusal, ...] = ()
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    numbered: str = "rows"
    one: str = "row"

    @property
    def used(self) -> int:
        return self.read - sum(refusal.count for refusal in self.refused)

    def __str__(self) -> str:
        return self.told()

    def told(self, most: int | None = None) -> str:
        """The account in lines, with the first `most` columns; None shows all.

        >>> print(Account("wide.csv", 9, columns=("y: real, the target", "a: number", "b: left out")).told(1))
        wide.csv: 9 rows read, 9 used, 0 refused
          y: real, the target
          and 2 more, 1 of them left out
        """
        lost = sum(refusal.count for refusal in self.refused)
        lines = [f"{self.source}: {counted(self.read, self.one)} read, {self.used} used, {lost} refused"]
        for refusal in self.refused:
            cut = ", …" if refusal.count > len(refusal.rows) > 0 else ""
            word = self.numbered.removesuffix("s") if refusal.count == 1 else self.numbered
            rows = f" ({word} {', '.join(map(str, refusal.rows))}{cut})" if refusal.rows else ""
            lines.append(f"  refused {refusal.count}: {refusal.reason}{rows}")
        lines += [f"  {line}" for line in self.columns[:most]]
        hidden = self.columns[most:] if most is not None else ()
        if hidden:
            left_out = sum(": left out" in line for line in hidden)
            words = f", {left_out} of them left out" if left_out else ""
            lines.append(f"  and {len(hidden)} more{words}")
        return "\n".join(map(printable, [*lines, *(f"  {note}" for note in self.notes)]))
