"""Four real tables from the shell with defaults, beside scikit-learn's MLP on scaled inputs: mean over five seeds.

    python -m benchmarks.tables

Each set is written to CSV and trained by `leadline train FILE --target target`; scikit-learn's MLP learns from the same
training rows, and from the validation rows too, which it does not hold back. Both are scored on the same test rows:
accuracy, or R² where the target is real.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import leadline as ll

SETS = {
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
    "breast_cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
}
SEEDS = range(5)


def write(name: str, folder: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """The set as a CSV file, with its rows."""
    bunch = SETS[name]()
    names = [str(column).replace(",", " ") for column in bunch.feature_names]
    lines = [",".join([*names, "target"])]
    lines += [",".join([*(repr(float(v)) for v in x), str(y)]) for x, y in zip(bunch.data, bunch.target, strict=True)]
    path = folder / f"{name}.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, bunch.data, bunch.target


def ours(path: Path, folder: Path, seed: int) -> dict[str, float]:
    """Test metrics of a run from the shell."""
    words = ["train", str(path), "--target", "target", "--seed", str(seed), "--split-seed", str(seed)]
    words += ["--folder", str(folder / f"{path.stem}-{seed}"), "--no-report", "--json"]
    done = subprocess.run([sys.executable, "-m", "leadline", *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["metrics"]["test"]


def theirs(path: Path, x: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Test score of scikit-learn's MLP on the same rows."""
    data = ll.data.table(path, target="target", split_seed=seed)
    rows = {name: split.rows.numpy() - 2 for name, split in data.splits()}  # line 1 is the header
    fitted = np.concatenate([rows["train"], rows["val"]])
    kind = MLPRegressor if data.target.kind == "real" else MLPClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops after 200 epochs by default, and says so
        model = make_pipeline(StandardScaler(), kind(random_state=seed)).fit(x[fitted], y[fitted])
    return model.score(x[rows["test"]], y[rows["test"]])


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"{'table':<15}{'metric':<10}{'leadline':>10}{'sklearn':>10}   five seeds each")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in SETS:
            path, x, y = write(table, folder)
            metric = "r2" if table == "diabetes" else "accuracy"
            own = [ours(path, folder, seed)[metric] for seed in SEEDS]
            peer = [theirs(path, x, y, seed) for seed in SEEDS]
            detail = "  ".join(f"{a:.3f}/{b:.3f}" for a, b in zip(own, peer, strict=True))
            print(f"{table:<15}{metric:<10}{np.mean(own):>10.4f}{np.mean(peer):>10.4f}   {detail}", flush=True)


if __name__ == "__main__":
    main()
