"""What reading first is worth: a small BERT that has read a text with hidden words, then few labelled verses of it.

    PYTHONPATH=src python -m benchmarks.fine_tuning --text king-james.txt.gz --quick        minutes on two CPU cores
    PYTHONPATH=src python -m benchmarks.fine_tuning --text king-james.txt.gz                on a GPU

The text has headings such as "Genesis 1" and numbered verses. A verse is to be told as one of the Old Testament or of
the New; as many of each are drawn, few to learn from and many to be tested on, anew for each seed. Compared are

    scratch     the same model from first weights
    tuned       from the weights that have read, all of which move
    low_rank    from the same, by updates of rank 8 (leadline.models.lora)

The verses that are tested on are not read before. Each way has the learning rate of `RATES` and the same steps. Prints
one JSON object: test accuracies by seed, their means, and the standard error of tuned minus scratch.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import leadline as ll
from leadline.interop.beginning import beginning

NEW = "Matthew"  # the book that the New Testament begins with
QUICK: dict[str, Any] = {
    "sizes": {"dim": 64, "num_layers": 2, "num_heads": 4},
    "num_tokens": 2000,
    "read": 8_000,
    "epochs": 6,
    "few": 200,
    "tested": 1000,
    "seeds": 2,
    "tune_epochs": 25,
}
FULL: dict[str, Any] = {
    "sizes": {"dim": 256, "num_layers": 4, "num_heads": 4},
    "num_tokens": 8000,
    "read": 10**9,
    "epochs": 60,
    "few": 200,
    "tested": 3000,
    "seeds": 5,
    "tune_epochs": 25,
}
RATES = {"scratch": 1e-3, "tuned": 3e-4, "low_rank": 2e-3}
LENGTH, RANK, HELD = 64, 8, 5  # one verse in HELD is held out


def verses(path: str) -> list[tuple[str, str]]:
    """(verse, old or new), in order."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:  # type: ignore[operator]
        lines = file.read().splitlines()
    found, part = [], ""
    for line in lines:
        if re.fullmatch(r"\S.* \d+", line):
            book = line.rpartition(" ")[0]
            part = "new" if book == NEW or part == "new" else "old"
        elif part and (verse := re.fullmatch(r"\s+\d+ (.+)", line)):
            found.append((verse[1], part))
    return found


def balanced(rows: list[tuple[str, str]], count: int, draw: random.Random) -> list[tuple[str, str]]:
    """As many of each part, in a random order."""
    chosen = [row for part in ("old", "new") for row in draw.sample([r for r in rows if r[1] == part], count // 2)]
    draw.shuffle(chosen)
    return chosen


def read(rows: list[tuple[str, str]], scale: dict[str, Any], folder: Path, device: str) -> tuple[Path, float]:
    """The folder of a run that has learned hidden words of these verses, and the loss that it came to."""
    text = folder / "verses.txt"
    text.write_text("\n\n".join(verse for verse, _ in rows), encoding="utf-8")
    data = ll.data.text(
        text,
        task="masked",
        num_tokens=scale["num_tokens"],
        length=LENGTH,
        kind="wordpiece",
        cache=False,
        test=0.0,
        separator="\\n\\n",
    )
    likelihood = ll.likelihoods.likelihood_for(data.target)
    model = ll.models.build("BERT", data, likelihood.dim_output, seed=0, **scale["sizes"])
    settings = {"epochs": scale["epochs"], "batch": 64, "lr": 1e-3, "clip": 1.0, "decay_on": "matrices"}
    run = ll.fit(
        model, data, folder=folder / "read", progress=False, with_report=False, findings=[], device=device, **settings
    )
    return folder / "read", run.history[-1]["val"]["nll"]


def accuracies(
    rows: tuple[list[tuple[str, str]], list[tuple[str, str]]],
    begun: Path,
    scale: dict[str, Any],
    seed: int,
    device: str,
) -> dict[str, float]:
    """Share of the tested verses that each way tells right.

    Args:
        rows: those that may be learned from, and those that are held out.
    """
    draw, file = random.Random(seed), begun.parent / f"labelled-{seed}.jsonl"
    labelled = [*balanced(rows[0], scale["few"], draw), *balanced(rows[1], scale["tested"], draw)]
    file.write_text("\n".join(json.dumps({"verse": verse, "part": part}) for verse, part in labelled))
    words = begun / "tokenizer.json"
    data = ll.data.text(file, text="verse", target="part", tokenizer=words, length=LENGTH, val=0, test=0, cache=False)
    few = torch.tensor(data.train.row_numbers(torch.arange(len(data.train)))) < scale["few"]
    data = data.with_(train=data.train.take(few.nonzero()[:, 0]), test=data.train.take((~few).nonzero()[:, 0]))
    dim_output = ll.likelihoods.likelihood_for(data.target).dim_output
    found = {}
    for way, rate in RATES.items():
        model, filled = beginning(begun).build(data, dim_output, seed)
        if way == "scratch":
            model = ll.models.build("BERT", data, dim_output, seed=seed, **scale["sizes"])
        elif way == "low_rank":
            model = ll.models.lora(model, RANK, moving=filled.new, seed=seed)
        settings = {"epochs": scale["tune_epochs"], "batch": 16, "lr": rate, "clip": 1.0, "seed": seed}
        run = ll.fit(model, data, progress=False, findings=[], device=device, **settings)
        found[way] = run.evaluate("test")["accuracy"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Few labelled verses, with and without having read first.")
    parser.add_argument("--text", required=True, help="headings and numbered verses, may be packed (.gz)")
    parser.add_argument("--quick", action="store_true", help="a smaller model, part of the text, two seeds, on a CPU")
    parser.add_argument("--seeds", type=int, default=None)
    options = parser.parse_args()
    scale, device = (QUICK, "cpu") if options.quick else (FULL, "auto")
    every = verses(options.text)
    held, others = every[::HELD], [row for number, row in enumerate(every) if number % HELD]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        text = random.Random(0).sample(others, min(scale["read"], len(others)))
        begun, nll = read(text, scale, Path(folder), device)
        reading = time.perf_counter() - start
        seeds = range(options.seeds or scale["seeds"])
        found = [accuracies((others, held), begun, scale, seed, device) for seed in seeds]
    ways = {way: [round(each[way], 4) for each in found] for way in RATES}
    gains = [each["tuned"] - each["scratch"] for each in found]
    report = {
        "verses": {"read": len(text), "labelled": scale["few"], "tested": scale["tested"]},
        "nll_of_hidden_words": round(nll, 3),
        "accuracy": ways,
        "mean": {way: round(statistics.mean(values), 4) for way, values in ways.items()},
        "gain": round(statistics.mean(gains), 4),
        "standard_error": round(statistics.stdev(gains) / len(gains) ** 0.5, 4) if len(gains) > 1 else None,
        "seconds": {"reading": round(reading, 1), "all": round(time.perf_counter() - start, 1)},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
