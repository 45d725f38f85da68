"""Choosing among models: cross-validation, paired comparison, search over settings, and what an error is made of."""

from __future__ import annotations

from leadline.selection.comparison import Comparison, compare
from leadline.selection.cross_validation import CrossValidation, cross_validate
from leadline.selection.curves import by_epochs, by_rows
from leadline.selection.decomposition import (
    Decomposition,
    Tradeoff,
    World,
    decompose,
    least_squares,
    networks,
    one_by_one,
    tradeoff,
)
from leadline.selection.descent import by_width
from leadline.selection.rates import equal_steps, equal_travel
from leadline.selection.searching import METHODS, Search, search
from leadline.selection.space import choice, integer, log, uniform
from leadline.selection.sweep import Bump, Sweep, sweep

__all__ = [
    "Bump",
    "Comparison",
    "CrossValidation",
    "Decomposition",
    "METHODS",
    "Search",
    "Sweep",
    "Tradeoff",
    "World",
    "by_epochs",
    "by_rows",
    "by_width",
    "choice",
    "compare",
    "cross_validate",
    "decompose",
    "equal_steps",
    "equal_travel",
    "integer",
    "least_squares",
    "log",
    "networks",
    "one_by_one",
    "search",
    "sweep",
    "tradeoff",
    "uniform",
]
