"""Leadline beside its peers on one small MLP, one CPU thread: a table of medians and their ratios to Leadline.

    python -m benchmarks.mlp [--rounds 5] [--only short|long|import] [--json FILE]

Every measurement is a process of its own, and the rounds are interleaved: a machine that turns busy slows all of them
alike. `benchmarks.task` says what is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.task import LONG_EPOCHS, SHORT_EPOCHS, STEPS_PER_EPOCH

ROOT = Path(__file__).parents[1]

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}

#: module of benchmarks.peers, further environment
SHORT: list[tuple[str, dict[str, str]]] = [
    ("leadline_fit", {}),
    ("torch_eager", {}),
    ("sklearn_mlp", {}),
    ("lightning_trainer", {}),
    ("skorch_net", {}),
    ("keras_fit", {"KERAS_BACKEND": "torch"}),
    ("keras_fit", {"KERAS_BACKEND": "jax"}),
    ("jax_scan", {}),
]
LONG: list[tuple[str, dict[str, str]]] = [
    ("leadline_fit", {}),
    ("torch_eager", {}),
    ("keras_fit", {"KERAS_BACKEND": "jax"}),
    ("jax_scan", {}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description="Leadline beside its peers on one small MLP, one CPU thread.")
    parser.add_argument("--rounds", type=int, default=5, help="repeats of each measurement, interleaved")
    parser.add_argument("--only", choices=("short", "long", "import"), help="one part instead of all three")
    parser.add_argument("--json", type=Path, help="also write every measurement to this file")
    options = parser.parse_args()
    parts = (options.only,) if options.only else ("short", "long", "import")
    results: dict[str, Any] = {}
    if "short" in parts:
        results["short"] = interleaved(SHORT, "short", options.rounds)
        print_short(results["short"])
    if "long" in parts:
        # compiling takes the better part of a minute each time, so three rounds have to do
        results["long"] = interleaved(LONG, "long", min(options.rounds, 3))
        print_long(results["long"])
    if "import" in parts:
        results["import"] = import_seconds(7)
        print_import(results["import"])
    busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(
        f"\nLoad of this machine over the last 1, 5 and 15 minutes: {busy} on {os.cpu_count()} cores, this run included"
    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def interleaved(peers: list[tuple[str, dict[str, str]]], scenario: str, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """All results of each peer, by its name, Leadline's first."""
    results: dict[str, list[dict[str, Any]]] = {}
    for round_number in range(rounds):
        for module, environment in peers:
            print(
                f"\r{scenario}, round {round_number + 1} of {rounds}: {module:<20}", end="", file=sys.stderr, flush=True
            )
            result = measure(module, scenario, environment)
            results.setdefault(result["name"], []).append(result)
    print(file=sys.stderr)
    return results


def measure(module: str, scenario: str, environment: dict[str, str]) -> dict[str, Any]:
    """The line of JSON of one process, which starts in an empty folder, with no compiled code of earlier ones."""
    with tempfile.TemporaryDirectory() as folder:
        inherited = {**os.environ, "PYTHONPATH": str(ROOT), "TORCHINDUCTOR_CACHE_DIR": f"{folder}/compiled"}
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.peers.{module}", scenario],
            cwd=folder,
            env={**inherited, **ONE_THREAD, **environment},
            capture_output=True,
            text=True,
        )
    if done.returncode != 0:
        raise SystemExit(f"{module} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def median(results: list[dict[str, Any]], key: str) -> float:
    return statistics.median(result[key] for result in results)


def print_short(results: dict[str, list[dict[str, Any]]]) -> None:
    steps = SHORT_EPOCHS * STEPS_PER_EPOCH
    print(f"\nA fit of {SHORT_EPOCHS} epochs ({steps} steps), from call to return; median of {count(results)}\n")
    print(f"{'':<22}{'seconds':>10}{'steps/s':>10}{'range of steps/s':>20}{'time / ours':>14}")
    ours = median(next(iter(results.values())), "seconds")
    for name, repeats in results.items():
        rates = [result["steps_per_second"] for result in repeats]
        taken = median(repeats, "seconds")
        spread = f"{min(rates):,.0f} to {max(rates):,.0f}"
        print(f"{name:<22}{taken:>10.3f}{statistics.median(rates):>10,.0f}{spread:>20}{taken / ours:>14.2f}")


def print_long(results: dict[str, list[dict[str, Any]]]) -> None:
    print(f"\nLong runs, compiled where the peer compiles; median of {count(results)}\n")
    long_steps = f"{LONG_EPOCHS * STEPS_PER_EPOCH:,} steps"
    print(f"{'':<22}{'steady steps/s':>16}{'ours / it':>12}{'start, s':>10}{long_steps + ', s':>18}")
    ours = next(iter(results.values()))
    rate, start = median(ours, "steady_steps_per_second"), median(ours, "start_seconds")
    for name, repeats in results.items():
        its_rate, its_start = median(repeats, "steady_steps_per_second"), median(repeats, "start_seconds")
        cold = its_start + LONG_EPOCHS * STEPS_PER_EPOCH / its_rate
        print(f"{name:<22}{its_rate:>16,.0f}{rate / its_rate:>12.2f}{its_start:>10.2f}{cold:>18.2f}")
    print()
    for name, repeats in list(results.items())[1:]:
        its_rate, its_start = median(repeats, "steady_steps_per_second"), median(repeats, "start_seconds")
        print(f"{name}: {break_even(rate, start, its_rate, its_start)}")


def break_even(rate: float, start: float, its_rate: float, its_start: float) -> str:
    """From which step on the compiled run of ours has overtaken it, both begun together and cold."""
    if rate <= its_rate:
        return "never overtaken" if start >= its_start else "ahead only in short runs"
    steps = (start - its_start) / (1 / its_rate - 1 / rate)
    return "overtaken from the first step" if steps <= 0 else f"overtaken after {steps:,.0f} steps"


#: leadline loads its parts when they are first asked for, so ask
_IMPORTS = {"torch": "import torch", "leadline": "import leadline; leadline.fit"}


def import_seconds(repeats: int) -> dict[str, list[float]]:
    """Seconds of a fresh process that imports and ends, by module."""
    times: dict[str, list[float]] = {"torch": [], "leadline": []}
    for _ in range(repeats):
        for module, taken in times.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", _IMPORTS[module]], check=True, env={**os.environ, **ONE_THREAD})
            taken.append(time.perf_counter() - start)
    return times


def print_import(times: dict[str, list[float]]) -> None:
    torch, leadline = (statistics.median(times[module]) for module in ("torch", "leadline"))
    print(f"\nImport: torch {torch:.2f} s, leadline {leadline:.2f} s: {leadline - torch:+.2f} s (goal: at most 0.30)")


def count(results: dict[str, list[dict[str, Any]]]) -> str:
    return f"{len(next(iter(results.values())))} runs each"


if __name__ == "__main__":
    main()
