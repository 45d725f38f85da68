"""What became of the rows of a source: read, used, refused and why. Nothing is dropped silently."""

from __future__ import annotations

from dataclasses import dataclass


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

    @property
    def used(self) -> int:
        return self.read - sum(refusal.count for refusal in self.refused)

    def __str__(self) -> str:
        lost = sum(refusal.count for refusal in self.refused)
        lines = [f"{self.source}: {self.read} rows read, {self.used} used, {lost} refused"]
        for refusal in self.refused:
            more = ", …" if refusal.count > len(refusal.rows) > 0 else ""
            rows = f" ({self.numbered} {', '.join(map(str, refusal.rows))}{more})" if refusal.rows else ""
            lines.append(f"  refused {refusal.count}: {refusal.reason}{rows}")
        lines += [f"  {line}" for line in (*self.columns, *self.notes)]
        return "\n".join(lines)
