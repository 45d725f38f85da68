"""Learning rates and batch sizes that are compared fairly: each is given the steps that carry it as far.

    distance ∝ rate · steps        so steps = travel / rate                    (1)
    steps an epoch = rows / batch  so epochs = steps · batch / rows            (2)

Book       figure 9.5a of Understanding Deep Learning prints "iterations = 6000 × rate", the reverse of (1): a rate a
           tenth as large would then get a tenth of the steps, and a hundredth of the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.errors import UserError
from leadline.settings import real, whole


def equal_travel(rates: Sequence[float], epochs: int) -> list[dict[str, Any]]:
    """Options of members: the largest rate trains for `epochs`, the others longer, by (1).

    >>> equal_travel([0.1, 0.05, 0.02], epochs=10)
    [{'lr': 0.1, 'epochs': 10}, {'lr': 0.05, 'epochs': 20}, {'lr': 0.02, 'epochs': 50}]
    """
    if not rates:
        raise UserError("rates must hold at least one number", got="none", do="Pass rates=[0.1, 0.01]")
    top, epochs = max(real("lr", rate, 0, above=True, usual=0.1) for rate in rates), whole("epochs", epochs, 1)
    return [{"lr": rate, "epochs": max(1, round(epochs * top / rate))} for rate in rates]


def equal_steps(batches: Sequence[int], rows: int, steps: int) -> list[dict[str, Any]]:
    """Options of members: every batch size takes as many steps, to a whole epoch (2).

    >>> equal_steps([100, 1000], rows=4000, steps=200)
    [{'batch': 100, 'epochs': 5}, {'batch': 1000, 'epochs': 50}]
    """
    if not batches:
        raise UserError("batches must hold at least one number", got="none", do="Pass batches=[10, 100]")
    rows, steps = whole("rows", rows, 1), whole("steps", steps, 1)
    sizes = [min(whole("batch", batch, 1), rows) for batch in batches]
    return [{"batch": size, "epochs": max(1, round(steps / -(-rows // size)))} for size in sizes]
