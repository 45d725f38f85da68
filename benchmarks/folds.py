"""Ten-fold cross-validation as one population beside ten fits on the same folds, as ratios of their times.

    python benchmarks/folds.py                          # digits, wine, breast cancer, diabetes
    python benchmarks/folds.py --small                  # few epochs, one turn, to see that it runs

Both sides train the same ten networks: 100 hidden units, batches of 64, AdamW, `--epochs` passes, on folds that were
cut beforehand; both end with the scores of the held-out parts. The sides are taken in turn, and the shortest time of
each counts; seconds of the CPU stand beside those of the clock, since a machine may be busy with other things. `gap` is
the largest difference of a score between the two sides, over the ten folds; they differ by rounding alone.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import torch

import leadline as ll
from leadline.data.data import Data
from leadline.likelihoods import likelihood_for

Work = Callable[..., list[float]]
TABLES = ("digits", "wine", "breast_cancer", "diabetes")


def population(data: Data, folds: list[Data], **settings: object) -> list[float]:
    found = ll.cross_validate(model(data), data, folds, progress=False, **settings)
    return found.scores.values_of(found.headline)


def one_by_one(data: Data, folds: list[Data], **settings: object) -> list[float]:
    found = []
    for fold in folds:
        torch.manual_seed(0)
        run = ll.fit(model(data), fold, seed=0, progress=False, **settings)
        found.append(run.evaluate("test")[run.likelihood.headline])
    return found


def model(data: Data) -> torch.nn.Module:
    return ll.models.MLP(data.dim_input, (100,), likelihood_for(data.target).dim_output)


def timed(work: Work, data: Data, folds: list[Data], **settings: object) -> tuple[float, float, list[float]]:
    clock, cpu = time.perf_counter(), sum(os.times()[:4])  # with that of processes which have ended
    scores = work(data, folds, **settings)
    return time.perf_counter() - clock, sum(os.times()[:4]) - cpu, scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few epochs, one turn")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--threads", type=int, default=0, help="of both sides; by default each measures which is faster"
    )
    parser.add_argument("--tables", nargs="*", default=TABLES)
    options = parser.parse_args()
    epochs, turns = (5, 1) if options.small else (options.epochs, options.turns)
    settings: dict[str, object] = {"epochs": epochs}
    if options.threads:
        torch.set_num_threads(options.threads)
        settings["threads"] = options.threads
    warm = ll.data.load("wine", test=0.0)
    for work in (population, one_by_one):  # libraries are loaded
        work(warm, ll.data.folds(warm, 2), epochs=2)
    print(f"10 folds, {epochs} epochs, threads {options.threads or 'measured'}, torch {torch.__version__}")
    print(f"{'':14s} {'':5s} {'--------- clock ---------':>26s} {'---------- CPU ----------':>26s}")
    heads = ("ten fits", "together", "ratio")
    print(f"{'table':14s} {'rows':>5s} " + "".join(f"{head:>9s}" for head in (*heads, *heads)) + "    score      gap")
    for name in options.tables:
        data = ll.data.load(name, test=0.0)
        folds = ll.data.folds(data, 10)
        times: dict[Work, list[tuple[float, float]]] = {population: [], one_by_one: []}
        scores = {}
        for _ in range(turns):
            for work, found in times.items():
                clock, cpu, scores[work] = timed(work, data, folds, **settings)
                found.append((clock, cpu))
        cells = ""
        for kind in (0, 1):
            alone, together = (min(pair[kind] for pair in times[work]) for work in (one_by_one, population))
            cells += f"{alone:7.2f} s{together:7.2f} s{alone / together:9.1f}"
        gap = max(abs(a - b) for a, b in zip(scores[one_by_one], scores[population], strict=True))
        mean, rows = sum(scores[population]) / 10, len(data.train) + len(data.val)
        print(f"{name:14s} {rows:5d} {cells} {mean:8.4f} {gap:8.2g}", flush=True)


if __name__ == "__main__":
    main()
