"""A shallow network beside a deep one of a third of its parameters, as ratios of their times.

The two networks of problem 4.8 in Prince's book:

    python benchmarks/depth.py                          # 1-286-1 beside 1-(5 × 10)-1, several batches, one thread
    python benchmarks/depth.py --small                  # seconds, to see that it runs

Both have ReLUs, float32 weights and the same rows. A training step is the gradient of the mean squared error and one
update by SGD, as `leadline.fit` takes it without compiling. The best of several turns counts, the sides taken in turn.
A ratio above 1 says how many times as long the deep network takes: it has a third of the parameters and 200,000 times
the linear regions, but its ten layers wait for one another.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from leadline.data.data import Batch
from leadline.likelihoods import Normal
from leadline.models import MLP, counting
from leadline.optim import Gradient
from leadline.settings import Settings

SIZES = {"shallow 1-286-1": (286,), "deep 1-(5 × 10)-1": (5,) * 10}


def best(turns: int, work: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Shortest mean time of each, in microseconds."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(turns):
        for name, call in work.items():
            start = time.perf_counter()
            for _ in range(times):
                call()
            taken[name].append(time.perf_counter() - start)
    return {name: 1e6 * min(found) / times for name, found in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="few turns")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    turns, times = (3, 5) if options.small else (15, 50)
    torch.manual_seed(0)
    models = {name: MLP(1, hidden, 1, activation="relu", p_drop=0.0) for name, hidden in SIZES.items()}
    for name, hidden in SIZES.items():
        layers = counting.line_regions(hidden[0], len(hidden))
        print(f"{name:20s} {counting.size(1, hidden, 1).parameters:4d} parameters, at most {layers:,} linear regions")
    print(f"\n{options.threads} thread, torch {torch.__version__}; microseconds, and deep over shallow")
    print(f"{'rows':>8s} {'':8s} {'shallow':>10s} {'deep':>10s} {'ratio':>7s}")
    for rows in (1, 100, 10_000, 100_000):
        x = torch.rand(rows, 1)
        batch = Batch(x, (6 * x[:, 0]).sin())
        forward, step = {}, {}
        for name, model in models.items():
            rule = Gradient(Settings(optimizer="sgd", lr=1e-3))
            rule.bind(model, Normal("fixed"), 10**9)
            forward[name] = lambda model=model, x=x: model(x)
            step[name] = lambda rule=rule, batch=batch: rule.step(batch, 0)
        fewer = max(1, times * 100 // max(rows, 100))
        with torch.no_grad():
            timed = {"forward": best(turns, forward, fewer)}
        timed["step"] = best(turns, step, fewer)
        for what, (shallow, deep) in ((what, found.values()) for what, found in timed.items()):
            print(f"{rows:8,d} {what:8s} {shallow:10.1f} {deep:10.1f} {deep / shallow:7.2f}")


if __name__ == "__main__":
    main()
