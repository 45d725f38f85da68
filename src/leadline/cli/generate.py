"""Write text with a run that predicts the next token, or translate with a run that was trained on pairs. A single text
is shown as it is written, several texts one after the other. Tokens are sampled with the probabilities of the model:
--temperature 0 takes the likeliest, --top-k and --top-p leave unlikely ones out, --beams searches for likely texts. A
text ends where the model ends the document, at --stop, or after --most tokens. The same seed gives the same text.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from leadline.cli.flag import Flag, Kind
from leadline.cli.given import lines_of, text_of
from leadline.cli.line import Line
from leadline.cli.screen import Screen
from leadline.cli.words import need_run
from leadline.data.account import counted
from leadline.data.text_tables import lacking
from leadline.data.tokens import Tokens
from leadline.errors import UserError

USAGE = 'leadline generate RUN [--prompt "…" | --prompt-file FILE] [--most 200]'
EXAMPLES = (
    'leadline generate runs/novels --prompt "It was a dark"',
    'leadline generate runs/novels --prompt "Chapter 1" --most 500 --top-p 0.95',
    'leadline generate runs/french --prompt "How are you?" --beams 5',
    "leadline generate runs/novels --count 5 --stop '\\n\\n' --json",
    "leadline generate runs/novels --prompt-file begin.txt --lines --stop .",
)
_WHOLE, _NUMBER, _EACH = Kind((int,)), Kind((float,)), Kind(again=True)
_OWN = ("prompt", "prompt_file", "lines", "stop")
_TOGETHER = 64  # texts that are written at once, so that the first of many prompts are answered soon


def flags(argv: Sequence[str]) -> list[Flag]:
    return [
        Flag(
            "prompt",
            _EACH,
            help="how the text begins, or a sentence to translate; may be given several times; by default a new "
            "document",
        ),
        Flag(
            "prompt_file",
            help="a file that holds the prompt, or - for standard input; to translate, one sentence a line",
        ),
        Flag("lines", Kind((bool,)), help="each line of that file is a prompt of its own", default=False),
        Flag("most", _WHOLE, help="most new tokens to write", default=200),
        Flag(
            "temperature",
            _NUMBER,
            help="below 1 favours likely tokens, above 1 rare ones; 0 always takes the likeliest; by default 1, or 0 "
            "to translate",
        ),
        Flag("top_k", _WHOLE, help="sample only from this many likeliest tokens"),
        Flag("top_p", _NUMBER, help="sample only from the likeliest tokens that together have this probability"),
        Flag("min_p", _NUMBER, help="leave out tokens less likely than this fraction of the likeliest one"),
        Flag("repetition", _NUMBER, help="above 1 makes tokens that occurred before less likely", default=1.0),
        Flag("beams", _WHOLE, help="beam search over this many texts, instead of sampling", default=1),
        Flag(
            "groups", _WHOLE, help="split the beams into this many groups, which avoid each other's tokens", default=1
        ),
        Flag("diversity", _NUMBER, help="how strongly groups avoid each other's tokens", default=0.0),
        Flag("allowed", help="write only these characters, such as 0123456789; by default all"),
        Flag("stop", _EACH, help="stop where this text comes; \\n is a new line; may be given several times"),
        Flag("seed", _WHOLE, help="seed for the first text; each further text takes the next number", default=0),
        Flag("count", _WHOLE, help="how many texts to write for each prompt", default=1),
        Flag(
            "slide",
            Kind((bool,)),
            help="go on when the model's context is full, reading the last half of it",
            default=True,
        ),
    ]


def run(line: Line, screen: Screen) -> int:
    folder = need_run("generate", line)
    asked, file = line.get("prompt"), line.get("prompt_file")
    if asked is not None and file is not None:
        raise UserError("the prompt must come from one place", got="--prompt and --prompt-file", do="Keep one")
    if line.get("lines") and file is None:
        raise UserError(
            "--lines needs a file of prompts",
            got="no --prompt-file",
            do="Add --prompt-file FILE, or - for standard input",
        )
    options = {name: value for name, value in line.of("verb").items() if name not in _OWN}
    if options.get("beams", 1) == 1 and {"groups", "diversity"} & set(options):
        raise UserError("--groups and --diversity need beams", got="no --beams", do="Add --beams 6, or leave them out")
    from leadline.verbs import load_to_ask

    trained = load_to_ask(folder)
    prompts = _prompts(trained, asked, file, bool(line.get("lines")))
    for note in _notes(trained, prompts, options.get("slide", True)):
        print(f"note: {note}", file=sys.stderr)
    count, seed = options.get("count", 1), options.pop("seed", 0)
    alone = len(prompts) == 1 and count == 1 and not screen.as_json
    typed = _Typed(prompts[0] if _behind(trained) else "") if alone else None
    stops = tuple(stop.replace("\\n", "\n").replace("\\t", "\t") for stop in line.get("stop") or ())
    started, texts = time.perf_counter(), []
    for first in range(0, len(prompts), _TOGETHER):
        some = prompts[first : first + _TOGETHER]
        found = trained.generate(some, stop=stops, seed=seed + first * count, on_text=typed, **options)
        for text in () if alone or screen.as_json else found:
            print(f"{text.prompt if _behind(trained) else ''}{text.text}\n", flush=True)
        texts += found
    seconds = time.perf_counter() - started
    if typed is not None:
        typed.end()
    screen.answer(
        {
            "run": folder,
            "seconds": seconds,
            "tokens": sum(len(text.tokens) for text in texts),
            "texts": [
                {"prompt": t.prompt, "text": t.text, "tokens": len(t.tokens), "score": t.score, "why": t.why}
                for t in texts
            ],
        }
    )
    return 0


def _behind(trained: Any) -> bool:
    """Whether the text goes on with the prompt, and is no translation of it."""
    return getattr(trained.inputs, "task", None) != "pairs"


def _prompts(trained: Any, asked: Sequence[str] | None, file: str | None, lines: bool) -> list[str]:
    if file is not None and lines:
        return list(lines_of(file, "--prompt-file").values())
    given = list(asked or ("",)) if file is None else [text_of(file, "--prompt-file").removesuffix("\n")]
    if _behind(trained):
        return given
    sentences = [sentence for text in given for sentence in text.split("\n") if sentence.strip()]
    if not sentences:
        raise UserError("there must be a sentence to translate", got="none", do='Write --prompt "…"')
    return sentences


def _notes(trained: Any, prompts: Sequence[str], slide: bool) -> list[str]:
    """What the vocabulary lacks, and prompts of which the model reads the end alone."""
    from leadline.generation import context_of

    if not isinstance(trained.inputs, Tokens):
        return []
    notes = lacking(trained.inputs.reads, "prompt", prompts)
    room = context_of(trained.model, trained.inputs)
    if slide and _behind(trained):
        lengths = [len(row) for row in trained.inputs.tokenizer.encode_many(prompts)]
        long = sum(length >= room for length in lengths)
        if long:
            many = f"{counted(long, 'prompt')} of up to {max(lengths)} tokens, where the model reads {room}"
            notes.append(f"{many}: the last {max(1, room // 2)} are read")
    return notes


class _Typed:
    """Shows a text as it comes, after its prompt."""

    def __init__(self, prompt: str):
        self.before = prompt

    def __call__(self, number: int, piece: str) -> None:
        sys.stdout.write(self.before + piece)
        sys.stdout.flush()
        self.before = ""

    def end(self) -> None:
        self(0, "\n")
