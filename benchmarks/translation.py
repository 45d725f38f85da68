"""A translator from a file of sentence pairs, and the memory that it has to beat.

    PYTHONPATH=src python -m benchmarks.translation --data english-french.tsv.gz
    PYTHONPATH=src python -m benchmarks.translation --data pairs.tsv --small        # minutes on a CPU, to see it run

Trains a Transformer on nine tenths of the pairs and prints, as one JSON object, BLEU and chrF on a random twentieth
that it has not seen: of its own translations by beam search, and of a translation memory, which answers with the
translation of the nearest known source. The other twentieth chooses the epoch. Minutes on a GPU.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import leadline as ll
from leadline.translation import scores

SIZES: dict[str, dict[str, Any]] = {
    "full": {"dim": 256, "num_layers": 4, "num_heads": 4, "p_drop": 0.3},
    "small": {"dim": 128, "num_layers": 1, "num_heads": 4, "p_drop": 0.1},
}


def trained(
    path: str,
    size: str,
    epochs: int,
    num_tokens: int,
    length: int,
    model: str = "Transformer",
    rows: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    data = ll.data.text(path, task="pairs", num_tokens=num_tokens, length=length, val=0.05, test=0.05)
    likelihood = ll.likelihoods.likelihood_for(data.target, label_smoothing=0.1)
    net = ll.models.build(model, data, likelihood.dim_output, **SIZES[size])
    settings = {"epochs": epochs, "batch": 64, "lr": 1e-3, "warmup": 0.1, "weight_decay": 0.01, "clip": 1.0, **more}
    start = time.perf_counter()
    run = ll.fit(net, data, likelihood=likelihood, progress=False, **settings)
    seconds = time.perf_counter() - start
    found = scores(run, "test", most=rows or len(data.test))
    return {
        "network": model,
        "weights": sum(p.numel() for p in net.parameters()),
        "pairs": {name: len(split) for name, split in data.splits()},
        "epochs": epochs,
        "best_epoch": run.best_epoch,
        "fit_s": round(seconds, 1),
        "translate_s": round(time.perf_counter() - start - seconds, 1),
        "metrics": dict(run.evaluate("test")),
        **found.to_dict(5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--tokens", type=int, default=None, help="of the shared vocabulary")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    size, epochs, tokens, length, rows = ("small", 4, 2000, 24, 300) if given.small else ("full", 60, 4000, 64, None)
    tokens = given.tokens or tokens
    found = trained(given.data, size, given.epochs or epochs, tokens, length, rows=rows, seed=given.seed)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
