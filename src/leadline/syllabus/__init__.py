"""Item of a book → object of the library → claim: `leadline syllabus`."""

from leadline.syllabus.row import FILES, Row, resolve, rows, sources
from leadline.syllabus.search import find, nearest

__all__ = ["FILES", "Row", "find", "nearest", "resolve", "rows", "sources"]
