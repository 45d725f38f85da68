"""The one task that every peer trains: the MLP 40-100-100-10, batches of 100 of 4,000 rows, SGD with momentum.

Each peer is a module of `benchmarks.peers` with one function, `fit(x, y, epochs)`: it builds a model, trains it for
that many epochs of shuffled batches, and returns a function that gives the training accuracy, which is not timed. A
peer runs in a process of its own, `python -m benchmarks.peers.<name> <scenario>`, and prints one line of JSON. All use
one thread.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

DIM_INPUT, HIDDEN, NUM_CLASSES = 40, (100, 100), 10
ROWS, BATCH, LR, MOMENTUM = 4000, 100, 0.01, 0.9
STEPS_PER_EPOCH = ROWS // BATCH

SHORT_EPOCHS = 5
LONG_EPOCHS = 130
"""Long minus short is 5,000 steps: seconds, not milliseconds, for the fastest of them."""

Fit = Callable[[np.ndarray, np.ndarray, int], Callable[[], Any]]


def arrays(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Rows that a network can learn: the class is the largest of ten random projections."""
    stream = np.random.default_rng(0)
    projection = stream.normal(size=(DIM_INPUT, NUM_CLASSES))
    x = stream.normal(size=(rows, DIM_INPUT))
    return x.astype(np.float32), (x @ projection).argmax(1).astype(np.int64)


def seconds(fit: Fit, epochs: int, rows: int = ROWS) -> float:
    x, y = arrays(rows)
    start = time.perf_counter()
    fit(x, y, epochs)
    return time.perf_counter() - start


def main(name: str, fit: Fit) -> None:
    """Measure `fit` in the scenario that the command line names, and print it as one line of JSON.

    short   one fit of 5 epochs, from the call to its return, after a fit of two steps that loads the libraries
    long    the same fit cold and then warm, and a warm one of 130 epochs: their difference is free of all that
            happens once a fit, so it is the rate of steady training; cold minus its steps at that rate is what starting
            costs, compiling above all
    learns  the training accuracy after 30 epochs: a peer that trains nothing is no peer
    """
    scenario = sys.argv[1] if len(sys.argv) > 1 else "short"
    result: dict[str, Any] = {"name": name, "scenario": scenario}
    if scenario == "learns":
        result["accuracy"] = float(fit(*arrays(), 30)())
    else:
        seconds(fit, 1, rows=2 * BATCH)
        cold = seconds(fit, SHORT_EPOCHS)
        result["seconds"] = cold
        result["steps_per_second"] = SHORT_EPOCHS * STEPS_PER_EPOCH / cold
        if scenario == "long":
            warm, long = seconds(fit, SHORT_EPOCHS), seconds(fit, LONG_EPOCHS)
            rate = (LONG_EPOCHS - SHORT_EPOCHS) * STEPS_PER_EPOCH / (long - warm)
            result.update(
                steady_steps_per_second=rate,
                start_seconds=cold - SHORT_EPOCHS * STEPS_PER_EPOCH / rate,
                long_seconds=long,
            )
    print(json.dumps(result))
