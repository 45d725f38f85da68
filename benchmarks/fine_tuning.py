"""What reading first is worth: a small BERT that has read a text with hidden words, then few labelled verses of it.

    PYTHONPATH=src python -m benchmarks.fine_tuning --text king-james.txt.gz --quick        minutes on two CPU cores
    PYTHONPATH=src python -m benchmarks.fine_tuning --text king-james.txt.gz                on a GPU

The text has headings such as "Genesis 1" and numbered verses. A verse is to be told as one of the Old Testament or of
the New; as many of each are drawn, few to learn from, as few to validate on and many to be tested on, anew for each
seed. Compared are

    scratch     the same model from first weights
    tuned       from the weights that have read, all of which move
    low_rank    from the same, by updates of rank 8 (leadline.models.lora)

Read are whole chapters in their order, without the verses that are tested on and others that say the same: what stands
around a verse is what tells of its book. Each way has the same epochs, of which the best on the validation rows is
kept, and of `RATES` the one that did best on the validation rows of the first seeds. Prints one JSON object: test
accuracies by seed, their means, and the standard error of tuned minus scratch.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

import leadline as ll
from leadline.data.data import Data
from leadline.interop.beginning import beginning

NEW = "Matthew"  # the book that the New Testament begins with
QUICK: dict[str, Any] = {
    "sizes": {"dim": 64, "num_layers": 1, "num_heads": 4},
    "num_tokens": 2000,
    "reading": {"epochs": 6, "batch": 32, "lr": 2e-3},
    "few": 200,
    "tested": 1000,
    "seeds": 5,
    "tune_epochs": 15,
}
FULL: dict[str, Any] = {
    "sizes": {"dim": 256, "num_layers": 4, "num_heads": 4},
    "num_tokens": 8000,
    "reading": {"epochs": 60, "batch": 256, "lr": 1e-3, "precision": "bf16"},
    "few": 200,
    "tested": 3000,
    "seeds": 5,
    "tune_epochs": 15,
}
RATES = {"scratch": (1e-3, 3e-3), "tuned": (1e-3, 3e-3), "low_rank": (3e-3, 1e-2)}
CHOOSING = 2  # seeds whose validation rows choose the rate
LENGTH, RANK, HELD = 64, 8, 5  # one verse in HELD is held out
P_HIDDEN = 0.3  # of the words of a row: as many again to learn from as with the usual 0.15
P_DROP = 0.1  # while tuning: reading is too short to learn the text by heart


class Verse(NamedTuple):
    text: str
    part: str  # old or new
    chapter: int


class Scores(NamedTuple):
    val: float
    test: float


def verses(path: str) -> list[Verse]:
    """All of them, in order."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:  # type: ignore[operator]
        lines = file.read().splitlines()
    found, part, chapter = [], "", 0
    for line in lines:
        if re.fullmatch(r"\S.* \d+", line):
            book = line.rpartition(" ")[0]
            part, chapter = "new" if book == NEW or part == "new" else "old", chapter + 1
        elif part and (verse := re.fullmatch(r"\s+\d+ (.+)", line)):
            found.append(Verse(verse[1], part, chapter))
    return found


def parted(every: list[Verse]) -> tuple[list[Verse], list[Verse]]:
    """Those that may be read and learned from, and those that are held out; no text is in both."""
    held = every[::HELD]
    said = {verse.text for verse in held}
    return [verse for verse in every if verse.text not in said], held


def balanced(rows: list[Verse], count: int, draw: random.Random) -> list[Verse]:
    """As many of each part, in turns."""
    sides = [draw.sample([verse for verse in rows if verse.part == part], count // 2) for part in ("old", "new")]
    return [verse for pair in zip(*sides) for verse in pair]


def read(rows: list[Verse], scale: dict[str, Any], folder: Path, device: str) -> tuple[Path, float]:
    """The folder of a run that has learned hidden words of these chapters, and the loss that it came to."""
    chapters: dict[int, list[str]] = {}
    for verse in rows:
        chapters.setdefault(verse.chapter, []).append(verse.text)
    text = folder / "chapters.txt"
    text.write_text("\n\n".join(" ".join(chapter) for chapter in chapters.values()), encoding="utf-8")
    data = ll.data.text(
        text,
        task="masked",
        num_tokens=scale["num_tokens"],
        length=LENGTH,
        kind="wordpiece",
        cache=False,
        test=0.0,
        separator="\\n\\n",
        p_hidden=P_HIDDEN,
    )
    likelihood = ll.likelihoods.likelihood_for(data.target)
    model = ll.models.build("BERT", data, likelihood.dim_output, seed=0, p_drop=0.0, **scale["sizes"])
    settings = {"clip": 1.0, "decay_on": "matrices", "device": device, **scale["reading"]}
    run = ll.fit(model, data, folder=folder / "read", progress=False, with_report=False, findings=[], **settings)
    return folder / "read", run.evaluate("val")["nll"]


def labelled(rows: tuple[list[Verse], list[Verse]], begun: Path, scale: dict[str, Any], seed: int) -> Data:
    """Few verses to learn from, as few to validate on, and those that are tested.

    Args:
        rows: those that may be learned from, and those that are held out.
    """
    draw, file, few = random.Random(seed), begun.parent / f"labelled-{seed}.jsonl", scale["few"]
    drawn = [*balanced(rows[0], 2 * few, draw), *balanced(rows[1], scale["tested"], draw)]
    file.write_text("\n".join(json.dumps({"verse": verse.text, "part": verse.part}) for verse in drawn))
    words = begun / "tokenizer.json"
    data = ll.data.text(file, text="verse", target="part", tokenizer=words, length=LENGTH, val=0, test=0, cache=False)
    line = torch.tensor(data.train.row_numbers(torch.arange(len(data.train))))  # from 1
    ends = (0, few, 2 * few, len(drawn))
    splits = [data.train.take(((line > a) & (line <= b)).nonzero()[:, 0]) for a, b in itertools.pairwise(ends)]
    assert [len(split) for split in splits] == [few, few, scale["tested"]]
    return data.with_(train=splits[0], val=splits[1], test=splits[2])


def scores(way: str, rate: float, data: Data, begun: Path, scale: dict[str, Any], seed: int, device: str) -> Scores:
    """Shares of the validated and of the tested verses that are told right."""
    dim_output = ll.likelihoods.likelihood_for(data.target).dim_output
    if way == "scratch":
        model = ll.models.build("BERT", data, dim_output, seed=seed, p_drop=P_DROP, **scale["sizes"])
    else:
        model, filled = beginning(begun).build(data, dim_output, seed, p_drop=P_DROP)
        model = ll.models.lora(model, RANK, moving=filled.new, seed=seed) if way == "low_rank" else model
    settings = {"epochs": scale["tune_epochs"], "batch": 16, "lr": rate, "warmup": 0.1, "clip": 1.0, "seed": seed}
    run = ll.fit(model, data, progress=False, findings=[], device=device, **settings)
    return Scores(run.evaluate("val")["accuracy"], run.evaluate("test")["accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Few labelled verses, with and without having read first.")
    parser.add_argument("--text", required=True, help="headings and numbered verses, may be packed (.gz)")
    parser.add_argument("--quick", action="store_true", help="a smaller model, on a CPU")
    parser.add_argument("--seeds", type=int, default=None)
    options = parser.parse_args()
    scale, device = (QUICK, "cpu") if options.quick else (FULL, "auto")
    rows, start = parted(verses(options.text)), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        begun, nll = read(rows[0], scale, Path(folder), device)
        reading = time.perf_counter() - start
        data = [labelled(rows, begun, scale, seed) for seed in range(options.seeds or scale["seeds"])]
        chosen, found = {}, {}
        for way, rates in RATES.items():
            tried = {
                rate: [scores(way, rate, own, begun, scale, seed, device) for seed, own in enumerate(data[:CHOOSING])]
                for rate in rates
            }
            best = max(rates, key=lambda rate: statistics.mean(score.val for score in tried[rate]))
            rest = [scores(way, best, data[seed], begun, scale, seed, device) for seed in range(CHOOSING, len(data))]
            chosen[way], found[way] = best, [score.test for score in [*tried[best], *rest]]
    gains = [a - b for a, b in zip(found["tuned"], found["scratch"])]
    report = {
        "verses": {
            "read": len(rows[0]),
            "labelled": scale["few"],
            "validated": scale["few"],
            "tested": scale["tested"],
        },
        "nll_of_hidden_words": round(nll, 3),
        "rate": chosen,
        "accuracy": {way: [round(value, 4) for value in values] for way, values in found.items()},
        "mean": {way: round(statistics.mean(values), 4) for way, values in found.items()},
        "gain": round(statistics.mean(gains), 4),
        "standard_error": round(statistics.stdev(gains) / len(gains) ** 0.5, 4) if len(gains) > 1 else None,
        "seconds": {"reading": round(reading, 1), "all": round(time.perf_counter() - start, 1)},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
