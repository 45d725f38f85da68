"""The page that a run leaves behind: one self-contained HTML file, and its figures as PNG beside it."""

from __future__ import annotations

from leadline.report.facts import Facts
from leadline.report.file import write

__all__ = ["Facts", "write"]
