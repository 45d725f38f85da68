"""Write text with a run that has learned the next word, or translate with one that was trained on pairs. One text is
shown word by word as it comes; several one after the other. Words are drawn as often as the model finds them likely:
--temperature 0 takes the likeliest, --top-k and --top-p leave unlikely ones out, --beams searches for likely texts. A
text ends where the model closes the document, at --stop, or after --most words. The same seed gives the same text.
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
            help="how the text begins, or what is to be translated; may come several times; by default a new document",
        ),
        Flag(
            "prompt_file", help="a file that holds the prompt, - for what is piped in; a sentence a line to translate"
        ),
        Flag("lines", Kind((bool,)), help="every line of that file is a prompt", default=False),
        Flag("most", _WHOLE, help="new words at most, parts of words counted too", default=200),
        Flag(
            "temperature",
            _NUMBER,
            help="below 1 keeps to likely words, above 1 strays; 0 is the likeliest, and what a translation takes",
        ),
        Flag("top_k", _WHOLE, help="draw among so many likeliest words"),
        Flag("top_p", _NUMBER, help="draw among the likeliest words that together have this probability"),
        Flag("min_p", _NUMBER, help="leave out words below this part of the likeliest one's probability"),
        Flag("repetition", _NUMBER, help="above 1 makes words that were there less likely", default=1.0),
        Flag("beams", _WHOLE, help="search for likely texts, so many at once, in place of drawing", default=1),
        Flag("groups", _WHOLE, help="of beams that keep away from each other's words", default=1),
        Flag("diversity", _NUMBER, help="how strongly they do", default=0.0),
        Flag("allowed", help="the characters that may be written, such as 0123456789; by default all"),
        Flag("stop", _EACH, help="a text that ends the text; \\n is a new line; may come several times"),
        Flag("seed", _WHOLE, help="of the first text; the next ones have the next numbers", default=0),
        Flag("count", _WHOLE, help="texts for each prompt", default=1),
        Flag("slide", Kind((bool,)), help="go on behind the model's context, from the last half of it", default=True),
    ]


def run(line: Line, screen: Screen) -> int:
    folder = need_run("generate", line)
    asked, file = line.get("prompt"), line.get("prompt_file")
    if asked is not None and file is not None:
        raise UserError("the prompt must come from one place", got="--prompt and --prompt-file", do="Keep one")
    if line.get("lines") and file is None:
        raise UserError("--lines is of a file of prompts", got="no --prompt-file", do="Name one, or - for a pipe")
    options = {name: value for name, value in line.of("verb").items() if name not in _OWN}
    if options.get("beams", 1) == 1 and {"groups", "diversity"} & set(options):
        raise UserError(
            "--groups and --diversity are of beams", got="no --beams", do="Add --beams 6, or leave them out"
        )
    import leadline as ll

    trained = ll.load(folder)
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
    """Shows a text as it comes, behind its prompt."""

    def __init__(self, prompt: str):
        self.before = prompt

    def __call__(self, number: int, piece: str) -> None:
        sys.stdout.write(self.before + piece)
        sys.stdout.flush()
        self.before = ""

    def end(self) -> None:
        self(0, "\n")
