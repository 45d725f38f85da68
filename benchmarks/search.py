"""Sixty-four trials of a search on MNIST-1D as populations beside the same trials one by one, as a ratio of times.

    python benchmarks/search.py                         # 64 trials of 10 epochs, in batches of 32
    python benchmarks/search.py --small                 # 8 trials of 2 epochs, to see that it runs

Both sides propose the same settings (random, one seed): learning rate, weight decay and scale of the first weights of a
network 40-100-100-10. `--sizes` lets the hidden layers vary too, so that a batch falls into two populations. The sides
are taken in turn and the shortest time of each counts; seconds of the CPU stand beside those of the clock, since a
machine may be busy with other things.
"""

from __future__ import annotations

import argparse
import os
import time

import torch

import leadline as ll

SPACE = {"lr": "log:1e-4:1e-1", "weight_decay": "log:1e-4:1", "init_scale": "uniform:0.5:2"}


def taken(data: ll.data.Data, together: int, trials: int, **more: object) -> tuple[float, float, ll.Search]:
    clock, cpu = time.perf_counter(), sum(os.times()[:4])  # with that of processes which have ended
    model = ll.models.MLP(40, (100, 100), 10)
    found = ll.search(model, data, trials=trials, method="random", together=together, batch=100, progress=False, **more)
    return time.perf_counter() - clock, sum(os.times()[:4]) - cpu, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="8 trials of 2 epochs, one turn")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--together", type=int, default=32)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument(
        "--threads", type=int, default=0, help="of both sides; by default each measures which is faster"
    )
    parser.add_argument("--sizes", action="store_true", help="hidden layers vary too")
    options = parser.parse_args()
    trials, epochs, turns = (8, 2, 1) if options.small else (options.trials, options.epochs, options.turns)
    more: dict[str, object] = {"epochs": epochs}
    if options.threads:
        torch.set_num_threads(options.threads)
        more["threads"] = options.threads
    more["space"] = {**SPACE, "hidden": "choice:50,50:100,100"} if options.sizes else SPACE
    data = ll.data.mnist1d()
    for together in (2, 1):  # libraries are loaded
        taken(data, together, 2, **{**more, "epochs": 1})
    sides = {"one by one": 1, "populations": min(options.together, trials)}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    found = {}
    for _ in range(turns):
        for name, together in sides.items():
            clock, cpu, found[name] = taken(data, together, trials, **more)
            times[name].append((clock, cpu))
    best = {name: tuple(min(column) for column in zip(*rows, strict=True)) for name, rows in times.items()}
    scores = [[trial.score or 0.0 for trial in side.trials] for side in found.values()]
    gap = max(abs(a - b) for a, b in zip(*scores, strict=True))
    threads = options.threads or "measured"
    print(f"{trials} trials of {epochs} epochs on MNIST-1D, threads {threads}, torch {torch.__version__}")
    for name, (clock, cpu) in best.items():
        print(f"{name:12s} {clock:8.2f} s clock {cpu:8.2f} s CPU   best val accuracy {found[name].score:.4f}")
    (alone, alone_cpu), (many, many_cpu) = best["one by one"], best["populations"]
    print(f"ratio        {alone / many:8.1f}         {alone_cpu / many_cpu:8.1f}     largest gap of a score {gap:.2g}")


if __name__ == "__main__":
    main()
