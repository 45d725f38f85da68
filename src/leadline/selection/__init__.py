"""Choosing among models: cross-validation, paired comparison, and search over settings."""

from __future__ import annotations

from leadline.selection.comparison import Comparison, compare
from leadline.selection.cross_validation import CrossValidation, cross_validate
from leadline.selection.searching import METHODS, Search, search
from leadline.selection.space import choice, integer, log, uniform

__all__ = [
    "METHODS",
    "Comparison",
    "CrossValidation",
    "Search",
    "choice",
    "compare",
    "cross_validate",
    "integer",
    "log",
    "search",
    "uniform",
]
