"""The likelihood that fits beside Normal: counts, angles and a target of several values, each trained from the shell.

    python benchmarks/likelihoods.py [--num 2000] [--epochs 80]

Each set is drawn by a generator of `leadline.data`, written to a CSV file and trained on by `leadline train`, first
with the family that fits, then with Normal (one variance for all rows) and Normal with a variance that depends on x.
All are scored on the same test rows, by two proper scores of which less is better:

    nll     counts: -log P(y), for Normal P(y - ½ < Y <= y + ½) (from -∞ on for y = 0): a density is no probability, and
            would win or lose by the unit of y alone. Angles: for Normal the density of the wrapped Normal, all turns
            added up, or it would be charged for the mass beyond ±π. Numbers: -log p(y) as it is
    crps    E d(Y, y) - ½ E d(Y, Y') over 400 draws, d the distance, for angles the shorter way around the circle
"""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import leadline as ll
from leadline.data.data import Data
from leadline.likelihoods.angles import angular_distance

DRAWS = 400
NORMAL = {"Normal": (), "Normal, variance of x": ("--variance", "input")}

#: file -> generator, flags of the table, the family that fits and its flags
SETS: dict[str, tuple[str, tuple[str, ...], str, tuple[str, ...]]] = {
    "counts": ("pedestrians", ("--target", "count", "--kind", "count"), "Poisson", ()),
    "angles": ("wind_direction", ("--target", "direction", "--kind", "angle"), "VonMises", ()),
    "several": ("inverse", ("--target", "y"), "Mixture", ("--num-components", "5")),
}


def write(data: Data, path: Path) -> Path:
    """All rows of a set as a table with names."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*data.inputs.names, data.target.name])
        for _, split in data.splits():
            for x, y in zip(split.x.tolist(), split.y.tolist(), strict=True):
                writer.writerow([*(f"{value:.7g}" for value in x), f"{y:.7g}"])
    return path


def train(path: Path, folder: Path, words: Sequence[str]) -> Any:
    """The run that `leadline train` leaves in `folder`."""
    command = [sys.executable, "-m", "leadline", "train", str(path), "--folder", str(folder), "--threads", "1"]
    done = subprocess.run([*command, "--no-report", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")
    return ll.load(folder)


@torch.no_grad()
def nll(run: Any, split: str = "test") -> float:
    """The fair nll of the docstring."""
    y, kind = run.need_data()[split].y.double(), run.target.kind
    prediction = run.likelihood.double().prediction(run.outputs(split).double())
    law = prediction.distribution
    if type(run.likelihood).__name__ != "Normal" or kind not in ("count", "angle"):
        return float(-prediction.log_prob(y).mean())
    if kind == "count":
        top = law.cdf(y + 0.5)
        bottom = torch.where(y > 0, law.cdf(y - 0.5), torch.zeros_like(y))
        # far in a tail both are 1: the same piece of the curve mirrored is near 0, where differences have digits
        mirrored = law.cdf(2 * law.loc - y + 0.5) - law.cdf(2 * law.loc - y - 0.5)
        piece = torch.where((y > law.loc) & (y > 0), mirrored, top - bottom)
        return float(-piece.clamp(min=1e-300).log().mean())
    turns = 2 * math.pi * torch.arange(-6, 7, dtype=torch.float64)[:, None]
    return float(-law.log_prob(y + turns).logsumexp(0).mean())


@torch.no_grad()
def crps(run: Any, split: str = "test") -> float:
    """The crps of the docstring."""
    y = run.need_data()[split].y.double()
    drawn = run.likelihood.double().prediction(run.outputs(split).double()).sample(DRAWS, seed=0)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return angular_distance(a, b) if run.target.kind == "angle" else (a - b).abs()

    half = DRAWS // 2
    return float((distance(drawn, y).mean(0) - 0.5 * distance(drawn[:half], drawn[half:]).mean(0)).mean())


def compare(name: str, place: Path, num: int, epochs: int) -> dict[str, tuple[float, float]]:
    """Family -> nll and crps on the test rows; the one that fits comes first."""
    generator, table, family, options = SETS[name]
    path = write(getattr(ll.data, generator)(num=num), place / f"{name}.csv")
    found = {}
    for k, (label, words) in enumerate({family: options, **NORMAL}.items()):
        flags = ["--likelihood", label.split(",")[0], *words, "--epochs", str(epochs), *table]
        run = train(path, place / f"{name}-{k}", flags)
        found[label] = (nll(run), crps(run))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=80)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'file':<13}{'likelihood':<24}{'test nll':>10}{'test crps':>12}")
    with tempfile.TemporaryDirectory() as place:
        for name in SETS:
            found = compare(name, Path(place), given.num, given.epochs)
            for label, (loss, score) in found.items():
                print(f"{name + '.csv':<13}{label:<24}{loss:>10.4f}{score:>12.5f}")
            (_, best), *others = found.items()
            if not all(best[0] < other[0] and best[1] < other[1] for _, other in others):
                raise SystemExit(f"{name}: the family that fits is not the better one")


if __name__ == "__main__":
    main()
