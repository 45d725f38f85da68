"""What the doctor says: what is wrong, where, by what evidence, and the remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Args:
        code: a stable short name such as "dead-units", by which tests, `--json` and docs know this finding.
        severity: "error" stops a run before its first step; "warning" is shown and recorded; "note" is recorded.
        what: what is wrong, in words.
        where: module path, column, step or rows.
        evidence: the numbers that say so.
        remedy: what to do.

    >>> print(Finding("constant-column", "warning", "a column never changes", "column 'year'",
    ...               "2019 in all 500 rows", "Leave it out: it cannot inform a prediction"))
    warning: a column never changes (column 'year'): 2019 in all 500 rows. Leave it out: it cannot inform a prediction.
    """

    code: str
    severity: str
    what: str
    where: str
    evidence: str
    remedy: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.severity}: {self.what} ({self.where}): {self.evidence}. {self.remedy}."
