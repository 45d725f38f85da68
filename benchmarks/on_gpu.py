"""What transformers and sequences should reach on a GPU: each benchmark of theirs in turn, in one table beside its bar.

    PYTHONPATH=src python -m benchmarks.on_gpu --folder measured --text bible.txt.gz --pictures fashion-mnist \
        --pairs eng-fra.tsv --sounds cmudict.tsv [--only decoding gpt2] [--seconds 570]
    PYTHONPATH=src python -m benchmarks.on_gpu --folder measured --list

Speeds are measured one after the other, beside their peers; what is only to be learned well is trained side by side at
the end, by the lines that a user would type. A part that needs a file that was not given, or more seconds than are
left, is not begun, and the table says so; one that takes longer than it may is stopped. `--folder` keeps results.json,
the table, every word that was printed (log.txt) and the curves of GPT-2, and is complete after each part. Exits 1 where
a bar was missed or a part failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Bar(NamedTuple):
    """One line of the table.

    Args:
        least: what `found` should be at least; `most` where it should be small.
    """

    what: str
    found: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        return (self.least is None or self.found >= self.least) and (self.most is None or self.found <= self.most)


class Part(NamedTuple):
    """One benchmark, or one training.

    Args:
        needs: names of the files that it reads.
        words: the command after `python -m`, in which {name} stands for a file and {folder} for where results go;
            after && a further one.
        seconds: that it may take.
        bars: of the JSON that it prints last; without, all that counts is that it does not fail.
    """

    needs: tuple[str, ...]
    words: str
    seconds: int
    bars: Callable[[dict[str, Any]], list[Bar]] | None


def decoding(told: dict[str, Any]) -> list[Bar]:
    found = told["tokens_per_second_by_batch"]
    return [
        Bar("GPT-2 124M, tokens/s of 1 row, over transformers", found["1"]["ratio"], 50),
        Bar("GPT-2 124M, tokens/s of 1 row", found["1"]["leadline"], 2_000),
        Bar("GPT-2 124M, tokens/s of 64 rows, over transformers", found["64"]["ratio"], 10),
        Bar("GPT-2 124M, tokens/s of 64 rows", found["64"]["leadline"], 30_000),
    ]


def gpt2(told: dict[str, Any]) -> list[Bar]:
    last = {name: told[name]["losses"][-1] for name in ("fit", "plain", "trainer")}
    return [
        Bar("GPT-2 124M training, over the Trainer", told["over_trainer"], 2.7),
        Bar("GPT-2 124M training, over plain compiled torch", told["over_plain"], 1.0),
        Bar("GPT-2 124M training, tokens/s (goal 650,000)", told["fit"]["tokens_per_second"], 556_000),
        Bar("GPT-2 124M, last loss of fit less that of plain torch", last["fit"] - last["plain"], most=0.1),
        Bar("GPT-2 124M, last loss of fit less that of the Trainer", last["fit"] - last["trainer"], most=0.1),
    ]


def bert(told: dict[str, Any]) -> list[Bar]:
    return [
        Bar("BERT-base training, over compiled transformers", told["over_compiled"], 1.2),
        Bar("BERT-base training, sequences/s (goal 5,000)", told["fit_rows_per_second"]),
    ]


def vit(told: dict[str, Any]) -> list[Bar]:
    return [
        Bar("ViT-B/16 training, over transformers", told["over_eager"], 1.2),
        Bar("ViT-B/16 training, over compiled transformers", told["over_compiled"], 1.2),
        Bar("ViT-B/16 training, pictures/s (goal 3,600)", told["fit_pictures_per_second"]),
    ]


def recurrent(told: dict[str, Any]) -> list[Bar]:
    return [Bar(name, bar["found"], bar["least"]) for name, bar in told["bars"].items()]


def bits(unit: str, most: float, most_seconds: float | None = None) -> Callable[[dict[str, Any]], list[Bar]]:
    def read(told: dict[str, Any]) -> list[Bar]:
        test = Bar(f"bits a {unit} on test", told["metrics"]["test"][f"bits_per_{unit}"], most=most)
        return [test, Bar("seconds", told["seconds"], most=most_seconds)]

    return read


def translated(told: dict[str, Any]) -> list[Bar]:
    model, memory = told["translation"]["model"], told["translation"]["memory"]
    return [Bar(f"{name} (memory {memory[name]:.1f})", model[name], memory[name]) for name in ("bleu", "chrf")]


def sounds(most_words: float | None = None, most_sounds: float | None = None) -> Callable[[dict[str, Any]], list[Bar]]:
    def read(told: dict[str, Any]) -> list[Bar]:
        model = told["translation"]["model"]
        return [
            Bar("words not exact, %", 100 * model["inexact"], most=most_words),
            Bar("sounds wrong, %", 100 * model["symbol_errors"], most=most_sounds),
        ]

    return read


def gained(told: dict[str, Any]) -> list[Bar]:
    return [
        Bar("accuracy, tuned less scratch, mean of seeds", told["gain"], 0),
        Bar("the same less two standard errors", told["gain"] - 2 * told["standard_error"], 0),
    ]


def fashion(told: dict[str, Any]) -> list[Bar]:
    return [Bar("Fashion-MNIST by a small ViT, last accuracy", told["accuracy"], 0.91)]


_CHAPTERS = r"--separator ^\S.*\s\d+$ --every 20"
_SOUNDS = "--task pairs --kind characters --target-kind words --length 20 --val 0.05 --test 0.05 --precision bf16"
_LEARN = "leadline train {%s} --json --folder {folder}/%s"

#: what has the device to itself, in this order
ALONE = {
    "tests": Part((), "pytest -m gpu tests/gpu -p no:cacheprovider", 300, None),
    "decoding": Part((), "benchmarks.decoding", 150, decoding),
    "gpt2": Part(("text",), "benchmarks.gpt2 --text {text} --draw {folder}/gpt2.png", 330, gpt2),
    "bert": Part((), "benchmarks.bert", 330, bert),
    "vit": Part((), "benchmarks.vit", 330, vit),
    "recurrent": Part((), "benchmarks.recurrent", 240, recurrent),
    "characters": Part(("text",), "benchmarks.recurrent --only text --text {text}", 150, recurrent),
}

#: what is trained side by side
TOGETHER = {
    "king-james": Part(
        ("text",),
        f"{_LEARN % ('text', 'king-james')} {_CHAPTERS} --model GPT --num-tokens 1024 --length 256 --dim 384"
        " --num-layers 6 --num-heads 6 --p-drop 0.2 --batch 64 --lr 1e-3 --epochs 16 --precision bf16",
        400,
        bits("byte", 1.60, most_seconds=300),
    ),
    "king-james-lstm": Part(
        ("text",),
        f"{_LEARN % ('text', 'king-james-lstm')} {_CHAPTERS} --kind characters --model Recurrent --cell lstm --dim 256"
        " --num-layers 2 --length 256 --carry-state --batch 128 --lr 5e-3 --epochs 24 --precision bf16",
        400,
        bits("character", 1.75),
    ),
    "english-french": Part(
        ("pairs",),
        f"{_LEARN % ('pairs', 'english-french')} --task pairs --val 0.05 --test 0.05 --dim 256 --num-layers 4"
        " --num-heads 4 --p-drop 0.3 --batch 64 --lr 1e-3 --epochs 24 --precision bf16",
        400,
        translated,
    ),
    "sounds": Part(
        ("sounds",),
        f"{_LEARN % ('sounds', 'sounds')} {_SOUNDS} --model EncoderDecoder --dim 512 --num-layers 2 --p-drop 0.3"
        " --batch 256 --lr 0.002 --epochs 14 && leadline evaluate {folder}/sounds --json",
        400,
        sounds(30, 8),
    ),
    "sounds-transformer": Part(
        ("sounds",),
        f"{_LEARN % ('sounds', 'sounds-transformer')} {_SOUNDS} --model Transformer --dim 256 --num-layers 3"
        " --batch 512 --epochs 12 && leadline evaluate {folder}/sounds-transformer --json",
        400,
        sounds(),
    ),
    "fine-tuning": Part(("text",), "benchmarks.fine_tuning --text {text} --quick", 500, gained),
    "fashion": Part(("pictures",), "benchmarks.vit_fashion --data {pictures} --epochs 40", 400, fashion),
}
FILES = ("text", "pairs", "sounds", "pictures")


class Running:
    """A part under way. What it prints goes into a file, so that it never waits for a reader."""

    def __init__(self, part: Part, values: dict[str, str]):
        self.start, self.printed = time.monotonic(), tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        commands = [[word.format(**values) for word in words.split()] for words in part.words.split(" && ")]
        line = " && ".join(shlex.join([sys.executable, "-m", *command]) for command in commands)
        where = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."]), "PYTHONUNBUFFERED": "1"}
        output = {"stdout": self.printed, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        self.process = subprocess.Popen(["sh", "-c", line], env=where, start_new_session=True, **output)

    def end(self, until: float) -> tuple[str, str, float]:
        """What it printed, what is wrong with it, if anything is, and its seconds so far."""
        wrong = ""
        try:
            if self.process.wait(max(1.0, until - time.monotonic())):
                wrong = f"failed with {self.process.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # what the line began too
            self.process.wait()
            wrong = "stopped: it took longer than it may"
        seconds = time.monotonic() - self.start
        with self.printed as printed:
            printed.seek(0)
            return printed.read(), wrong, seconds


def last_object(printed: str) -> dict[str, Any] | None:
    """The JSON of the last line that holds any."""
    for line in reversed(printed.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                continue
    return None


class Results:
    """What has come so far, written after each part."""

    def __init__(self, folder: Path):
        self.folder, self.parts = folder, {}  # type: Path, dict[str, dict[str, Any]]
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, part: Part, printed: str, wrong: str, seconds: float = 0.0) -> None:
        told, rows = last_object(printed), []  # type: dict[str, Any] | None, list[Bar]
        if part.bars is not None and told is not None:
            try:
                rows = part.bars(told)
            except (KeyError, TypeError, IndexError) as error:
                wrong = wrong or f"not all was printed: {error!r} is missing"
        elif part.bars is not None:
            wrong = wrong or "no figures were printed"
        self.parts[name] = {
            "bars": [{**bar._asdict(), "met": bar.met} for bar in rows],
            "wrong": wrong,
            "seconds": round(seconds),
            "told": told,
            "last": (printed.strip().splitlines() or [""])[-1][:200],
        }
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"\n===== {name}: python -m {part.words}\n{printed}\n{wrong}\n")
        (self.folder / "results.json").write_text(json.dumps(self.parts, indent=1), encoding="utf-8")
        (self.folder / "table.txt").write_text(self.table(), encoding="utf-8")
        print(f"{name}: {wrong or 'done'}, {seconds:.0f} s", flush=True)

    def table(self) -> str:
        lines = []
        for name, part in self.parts.items():
            for bar in part["bars"]:
                bound = f">= {bar['least']:,.4g}" if bar["least"] is not None else ""
                bound = f"<= {bar['most']:,.4g}" if bar["most"] is not None else bound
                mark = {True: "yes", False: "NO"}[bar["met"]] if bound else ""
                lines.append(f"{name:18} {bar['what']:62} {bar['found']:>12,.4g}  {bound:>12}  {mark}")
            if part["wrong"] or not part["bars"]:
                lines.append(f"{name:18} {part['wrong'] or part['last']}")
        return "\n".join(lines) + "\n"

    @property
    def good(self) -> bool:
        return all(not part["wrong"] and all(bar["met"] for bar in part["bars"]) for part in self.parts.values())


def wanted(parts: dict[str, Part], only: Sequence[str], values: dict[str, str], results: Results) -> dict[str, Part]:
    """Those that were asked for and have their files."""
    found = {}
    for name, part in parts.items():
        missing = [need for need in part.needs if need not in values]
        if name in only and not missing:
            found[name] = part
        elif name in only:
            results.add(name, part, "", f"not begun: it needs --{' --'.join(missing)}")
    return found


def main() -> None:
    every = (*ALONE, *TOGETHER)
    parser = argparse.ArgumentParser(description="All that transformers and sequences should reach on a GPU.")
    parser.add_argument("--folder", type=Path, required=True, help="where results go")
    parser.add_argument("--text", help="a book, plain or .gz, with headings such as 'Genesis 1'")
    parser.add_argument("--pairs", help="two columns of translations")
    parser.add_argument("--sounds", help="two columns, words and their sounds")
    parser.add_argument("--pictures", help="folder with the four IDX files of Fashion-MNIST")
    parser.add_argument("--only", nargs="+", choices=every, default=every)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="that all may take together")
    parser.add_argument("--list", action="store_true", help="show the commands, run nothing")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:18} python -m {part.words}" for name, part in {**ALONE, **TOGETHER}.items()))
        return
    results, stop = Results(options.folder), time.monotonic() + options.seconds
    values = {name: value for name in FILES if (value := getattr(options, name)) is not None}
    values["folder"] = str(options.folder)
    for name, part in wanted(ALONE, options.only, values, results).items():
        start = time.monotonic()
        if start + part.seconds / 2 > stop:
            results.add(name, part, "", "not begun: too few seconds are left")
            continue
        results.add(name, part, *Running(part, values).end(min(stop, start + part.seconds)))
    together = wanted(TOGETHER, options.only, values, results)
    running = {name: Running(part, values) for name, part in together.items()}
    for name, part in together.items():
        results.add(name, part, *running[name].end(min(stop, running[name].start + part.seconds)))
    print("\n" + results.table(), end="")
    sys.exit(0 if results.good else 1)


if __name__ == "__main__":
    main()
