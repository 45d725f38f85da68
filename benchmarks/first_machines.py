"""The perceptron and the Hopfield network beside NumPy, in one process on one thread, as ratios of their times.

    python benchmarks/first_machines.py                 # sizes of the promise: 100,000 × 100 and 1,000 × 4,096
    python benchmarks/first_machines.py --small         # seconds, to see that it runs

Both sides get the same rows, in memory and in float32; the best of several turns counts, taken in turn. A ratio above 1
says how many times as fast Leadline is. NumPy is written as well as its author could:

    perceptron   a row at a time; and looking ahead in blocks of 256 rows by one product, which is the better of the two
    Hopfield     all units at once: one product of all rows a sweep, until no row changes; one unit at a time: fields
                 kept up to date by adding the columns of what flipped
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # read on import

import numpy as np
import torch

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.engine.feed import epoch_order

# ── NumPy's side ──


def numpy_rows(x: np.ndarray, y: np.ndarray, epochs: int, order: Callable[[int], np.ndarray]) -> tuple[np.ndarray, int]:
    """The rule as it is told: one row after the other."""
    w, b, mistakes = np.zeros(x.shape[1], np.float32), 0.0, 0
    for epoch in range(epochs):
        before = mistakes
        rows = order(epoch)
        for row, label in zip(x[rows], y[rows].tolist(), strict=True):
            if label * (row.dot(w) + b) <= 0:
                w += label * row
                b += label
                mistakes += 1
        if mistakes == before:
            break
    return w, mistakes


def numpy_blocks(
    x: np.ndarray, y: np.ndarray, epochs: int, order: Callable[[int], np.ndarray], block: int = 256
) -> tuple[np.ndarray, int]:
    """The same, but between two mistakes rows are scored together."""
    w, b, mistakes = np.zeros(x.shape[1], np.float32), 0.0, 0
    for epoch in range(epochs):
        before = mistakes
        rows = order(epoch)
        x_e, y_e, i = x[rows], y[rows], 0
        while i < len(x_e):
            wrong = y_e[i : i + block] * (x_e[i : i + block] @ w + b) <= 0
            k = int(wrong.argmax())
            if not wrong[k]:
                i += block
                continue
            i += k
            w += y_e[i] * x_e[i]
            b += float(y_e[i])
            mistakes += 1
            i += 1
        if mistakes == before:
            break
    return w, mistakes


def numpy_together(w: np.ndarray, s: np.ndarray, sweeps: int = 100) -> np.ndarray:
    for _ in range(sweeps):
        new = np.where(s @ w >= 0, np.float32(1), np.float32(-1))
        if np.array_equal(new, s):
            break
        s = new
    return s


def numpy_one_by_one(w: np.ndarray, s: np.ndarray, order: np.ndarray, sweeps: int = 100) -> np.ndarray:
    state = np.ascontiguousarray(s.T)  # (n, B): a unit's rows lie together
    h = w @ state
    for _ in range(sweeps):
        flips = 0
        for i in order:
            moved = np.where(h[i] >= 0, np.float32(1), np.float32(-1)) - state[i]
            who = np.flatnonzero(moved)
            if len(who):
                state[i] += moved
                h[:, who] += w[:, i, None] * moved[who]
                flips += len(who)
        if not flips:
            break
    return state.T


# ── both sides ──


def best(turns: int, **sides: Callable[[], object]) -> dict[str, float]:
    """Shortest time of each side, the sides taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, work in sides.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: min(taken) for name, taken in times.items()}


def show(title: str, times: dict[str, float]) -> None:
    ours = times.pop("leadline")
    print(f"\n{title}\n  {'leadline':34s} {ours:8.3f} s")
    for name, seconds in times.items():
        print(f"  {name.replace('_', ' '):34s} {seconds:8.3f} s   ratio {seconds / ours:.2f}")


def perceptron(num: int, dim: int, epochs: int, margin: float, turns: int) -> None:
    rng = np.random.default_rng(0)
    u = rng.standard_normal(dim)
    x = rng.standard_normal((num, dim)).astype(np.float32)
    along = x @ (u / np.linalg.norm(u))
    y = np.where(along > 0, np.float32(1), np.float32(-1))
    x += ((y * margin)[:, None] * (u / np.linalg.norm(u))).astype(np.float32)  # a margin, so that there is an end
    split = Split(torch.from_numpy(x), torch.from_numpy((y > 0).astype(np.int64)))
    empty = Split(split.x[:0], split.y[:0])
    data = Data(split, empty, empty, Target("binary", classes=("below", "above")), name="plane")
    rules = []

    def leadline() -> None:
        rules.append(ll.optim.PerceptronRule(keep=0))
        options = {"epochs": epochs, "threads": 1, "compile": "off", "device": "cpu", "progress": False}
        ll.fit(ll.models.Perceptron(dim), data, rule=rules[-1], likelihood="Margin", findings=[], **options)

    order = lambda epoch: epoch_order(0, epoch, num).numpy()  # noqa: E731 - the very order of ll.fit
    counts = {}
    times = best(
        turns,
        leadline=leadline,
        numpy_row_by_row=lambda: counts.update(rows=numpy_rows(x, y, epochs, order)[1]),
        numpy_in_blocks=lambda: counts.update(blocks=numpy_blocks(x, y, epochs, order)[1]),
    )
    rule = rules[-1]
    title = f"perceptron, {num:,} × {dim}, margin {margin}, through ll.fit: {rule.updates:,} mistakes"
    show(f"{title} ({counts['rows']:,} and {counts['blocks']:,} of NumPy) in {rule.epochs} epochs", times)


def hopfield(num: int, dim: int, stored: int, corrupted: float, turns: int) -> None:
    rng = np.random.default_rng(0)
    patterns = np.where(rng.random((stored, dim)) < 0.5, np.float32(1), np.float32(-1))
    clean = patterns[np.arange(num) % stored]
    noisy = np.where(rng.random((num, dim)) < corrupted, -clean, clean)
    w = patterns.T @ patterns / dim
    np.fill_diagonal(w, 0)
    net = ll.models.Hopfield(dim)
    net.store(torch.from_numpy(patterns))
    start = torch.from_numpy(noisy)
    order = torch.randperm(dim, generator=torch.Generator().manual_seed(0)).numpy()
    answers: dict[str, np.ndarray] = {}
    for mode, rival in (
        ("synchronous", lambda: answers.update(numpy=numpy_together(w, noisy))),
        ("asynchronous", lambda: answers.update(numpy=numpy_one_by_one(w, noisy, order))),
    ):
        recall = lambda mode=mode: answers.update(ours=net.recall(start, mode).state.numpy())  # noqa: E731
        times = best(turns if mode == "synchronous" else 1, leadline=recall, numpy=rival)
        right = float((answers["ours"] == clean).all(1).mean())
        same = bool((answers["ours"] == answers["numpy"]).all())
        title = f"Hopfield, {num:,} rows of {dim:,} bits, {stored} stored, {corrupted:.0%} flipped, {mode}"
        show(f"{title}: {right:.1%} recalled, {'the same' if same else 'NOT the same'} as NumPy's", times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    torch.set_num_threads(1)
    print(f"one thread each; torch {torch.__version__}, numpy {np.__version__}")
    rows, dim = (5_000, 20) if small else (100_000, 100)
    for margin in (0.3, 0.02):
        perceptron(rows, dim, epochs=20, margin=margin, turns=1 if small else 3)
    hopfield(*((100, 256, 10) if small else (1000, 4096, 200)), corrupted=0.1, turns=1 if small else 3)


if __name__ == "__main__":
    main()
