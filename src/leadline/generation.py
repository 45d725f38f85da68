"""Text out of a trained model: after a beginning, or as the translation of a source.

    after     prompt -> tokens -> tokens drawn one after the other -> text                               (1)
    across     source -> read once;  start -> tokens -> text                        runs on pairs         (2)

Tokens are drawn, or with `beams` searched for (`leadline.text`). The token that closes a document ends a text; so does
a stop text, which is left out. A text longer than the context goes on from its last half (`slide`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leadline.data.inputs import Inputs
from leadline.engine.decoder import Decodable, scorer_of
from leadline.errors import UserError
from leadline.settings import given, texts, whole
from leadline.text.beam import beam_search
from leadline.text.choosing import AfterPrompts, Choice, Constraint
from leadline.text.decoding import Generated, NewToken, checked
from leadline.text.decoding import generate as decode
from leadline.text.one_of import OneOf
from leadline.text.stopping import Held, Stop, cut

if TYPE_CHECKING:
    from leadline.data.tokens import Tokens
    from leadline.text import Tokenizer

MOST_BEAMS = 1024  # texts that are searched at once, each with a cache of its own
#: called with the number of a text and the piece that came
OnText = Callable[[int, str], None]


@dataclass(frozen=True)
class Text:
    """What a model wrote.

    Args:
        prompt: the beginning, or the source.
        text: what came after it.
        tokens: of the new text, the one that ended it among them.
        score: sum of their log-probabilities; of beams, divided by their number to the power of the penalty.
        why: it ended: token, text, most or context.

    >>> print(Text("Once ", "upon a time", [5, 6, 7], -2.5, "most"))
    upon a time
    """

    prompt: str
    text: str
    tokens: list[int]
    score: float
    why: str

    def __str__(self) -> str:
        return self.text


def generate(
    model: nn.Module,
    inputs: Inputs,
    prompts: str | Sequence[str],
    most: int = 200,
    *,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition: float = 1.0,
    allowed: Tensor | Constraint | AfterPrompts | str | Sequence[str] | None = None,
    beams: int = 1,
    groups: int = 1,
    diversity: float = 0.0,
    penalty: float = 1.0,
    early: bool | str = False,
    stop: str | Sequence[str] = (),
    seed: int = 0,
    count: int = 1,
    slide: bool = True,
    on_text: OnText | None = None,
) -> list[Text]:
    """`count` texts for each prompt, in order (eqs. 1, 2); fewer where a search finds no more different ones.

    Args:
        model, inputs: of a run on text.
        prompts: beginnings, or sources to translate; an empty one begins a document.
        most: new tokens a text, at least 1.
        temperature: as of `leadline.text.choosing.Choice`; by default 1 where a text goes on, and for translations 0,
            the likeliest tokens, unless top_k, top_p, min_p or count ask for drawn ones.
        top_k, top_p, min_p, repetition: as of `Choice`.
        allowed: the characters that tokens may be made of; a list of texts, of which one is written; or tokens that may
            come, as of `Choice`. By default all but the special ones, and the one that closes a document.
        beams: texts searched at once, at most 1,024; 1 draws tokens instead.
        groups, diversity, penalty, early: as of `leadline.text.beam.beam_search`.
        stop: texts that end one.
        seed: of the first text, at least 0; the next ones have the next numbers.
        count: texts for each prompt, at least 1.
        slide: go on after the context; a prompt that fills it is read from its last half too.
        on_text: called as text comes, with the number of the text.
    """
    tokens = _of_words(inputs)
    beams, count = whole("beams", beams, 1, MOST_BEAMS, usual=4), whole("count", count)
    likely = {"top_k": top_k, "top_p": top_p, "min_p": min_p}
    if temperature is None:
        asked_to_draw = count > 1 or any(value is not None for value in likely.values())
        temperature = 0.0 if tokens.task == "pairs" and beams == 1 and not asked_to_draw else 1.0
    drawn = {"temperature": temperature != 1, **likely, "repetition": repetition != 1}
    if beams > 1 and any(drawn.values()):
        named = next(name for name, value in drawn.items() if value)
        raise UserError(
            f"{named} is for sampling, and beams search instead",
            got=f"{named} beside beams={beams}",
            do="Leave one of them out",
        )
    searched = {"groups": (groups, 1), "diversity": (diversity, 0), "penalty": (penalty, 1), "early": (early, False)}
    for name, (value, usual) in searched.items() if beams == 1 else ():
        if value != usual:
            got = f"{given(name, value)} beside beams=1"
            raise UserError(f"{name} is for a search with beams", got=got, do="Pass beams=6, or leave it out")
    asked, stops = texts("prompts", prompts), texts("stop", stop)
    if not asked:
        raise UserError("there must be a prompt", got="none", do='Pass "" for a text from its beginning')
    rows, source = _rows(tokens, asked)
    most, seed = whole("most", most), whole("seed", seed, 0, 2**62 - 1)
    own = tokens.tokenizer
    end = Stop(() if own.end is None else (own.end,), stops, own.bytes_of)
    may_come = _may_come(tokens, allowed, most)
    context = context_of(model, tokens)
    if slide:
        rows = [row if len(row) < context else row[-max(1, context // 2) :] for row in rows]
    longest = max(len(row) for row in checked(rows, None))
    times = 1 if beams > 1 else count
    source = None if source is None else source.repeat_interleave(times, 0)
    scorer = scorer_of(model, longest + most, source, tokens.length)
    if beams > 1:
        best = beam_search(scorer, rows, most, beams, end, count, penalty, early, groups, diversity, may_come, slide)
        found, of = [one for ones in best for one in ones], [b for b, ones in enumerate(best) for _ in ones]
    else:
        choice = Choice(temperature, top_k, top_p, min_p, repetition, may_come)
        repeated = [row for row in rows for _ in range(count)]
        pieces = _Pieces(own, stops, on_text, repeated) if on_text is not None else None
        found = decode(scorer, repeated, most, choice, end, seed, slide, None if pieces is None else pieces.add)
        of = [k // count for k in range(len(found))]
    made = [_text(asked[b], rows[b], one, tokens, stops) for b, one in zip(of, found, strict=True)]
    for number, text in enumerate(made) if on_text is not None else ():
        shown = "" if beams > 1 else pieces.shown.get(number, "")  # type: ignore[union-attr]
        rest = text.text.removeprefix(shown)
        if rest and on_text is not None:
            on_text(number, rest)
    return made


def context_of(model: nn.Module, inputs: Tokens) -> int:
    """Tokens of a text that a model reads at once."""
    return model.length if isinstance(model, Decodable) else inputs.length


def _may_come(
    tokens: Tokens, allowed: Tensor | Constraint | AfterPrompts | str | Sequence[str] | None, most: int
) -> Tensor | Constraint | AfterPrompts:
    """What `generate` was told, as `Choice` takes it."""
    if allowed is None or isinstance(allowed, str):
        return _writable(tokens, allowed)
    if isinstance(allowed, Sequence):
        return _one_of(tokens.tokenizer, allowed, most)
    return allowed


def _writable(tokens: Tokens, letters: str | None) -> Tensor:
    """Tokens that may be written, (V,): those of some characters alone, or all, and what closes a document."""
    own = tokens.tokenizer
    closes = torch.arange(own.num_tokens) == (-1 if own.end is None else own.end)
    if letters is None:
        return torch.from_numpy(~own.special) | closes
    known = set(letters)
    pieces = [own.bytes_of(token).decode("utf-8", "replace") for token in range(own.num_tokens)]
    found = torch.tensor([bool(piece) and known.issuperset(piece) for piece in pieces])
    if not found.any():
        raise UserError(
            "there must be a token of the characters that are allowed",
            got=f"allowed={letters!r}",
            do="Name all characters that may be written, the space among them",
        )
    return found | closes


def _one_of(own: Tokenizer, choices: Sequence[str], most: int) -> OneOf:
    """A text that is one of some, and then closes."""
    if own.end is None:
        raise UserError(
            "a tokenizer must have a token that closes a text, to write one of some texts",
            got="none",
            do="Train with a tokenizer that has <end>",
        )
    made = OneOf([own.encode(text) for text in texts("allowed", choices)], own.num_tokens, own.end)
    if made.longest > most:
        raise UserError(
            "most must leave room for each of the texts that are allowed",
            got=f"most={most}, where one has {made.longest} tokens",
            do=f"Pass most={made.longest + 1} or more",
        )
    return made


def _of_words(inputs: Inputs) -> Tokens:
    from leadline.data.tokens import Tokens

    if not isinstance(inputs, Tokens) or inputs.task not in ("next", "pairs"):
        got = f"one for {inputs.task}" if isinstance(inputs, Tokens) else "one that reads no text"
        raise UserError(
            "to generate text a run must be trained on the next token, or on pairs",
            got=got,
            do="Train one on a folder of texts: leadline train texts/ --model GPT",
        )
    return inputs


def _rows(tokens: Tokens, prompts: Sequence[str]) -> tuple[list[list[int]], Tensor | None]:
    """What the decoder reads first for each prompt, and the sources of a translation."""
    if tokens.task == "pairs":
        longest = max(len(row) for row in tokens.reads.encode_many(list(prompts)))
        if longest > (tokens.len_source or 0):
            raise UserError(
                f"a sentence to translate must have at most {tokens.len_source} tokens, as those of training had",
                got=f"one of {longest}",
                do="Translate its parts",
            )
        read = tokens.encode(tokens.read(list(prompts)))[:, : tokens.len_source]
        return [[tokens.start] for _ in prompts], read
    begin = [[] if tokens.tokenizer.end is None else [tokens.tokenizer.end]]
    return [[int(token) for token in tokens.tokenizer.encode(prompt)] or begin[0] for prompt in prompts], None


def _text(prompt: str, row: Sequence[int], found: Generated, tokens: Tokens, stops: Sequence[str]) -> Text:
    kept = found.tokens[:-1] if found.why == "token" else found.tokens
    return Text(prompt, cut(tokens.tokenizer.decode(kept, row), stops), found.tokens, found.score, found.why)


class _Pieces:
    """Tokens as they come, handed on as text as soon as its letters are whole and no stop text can begin in it."""

    def __init__(self, tokenizer: Any, stops: Sequence[str], on_text: OnText, after: Sequence[Sequence[int]]):
        self.tokenizer, self.stops, self.on_text, self.after = tokenizer, stops, on_text, after
        self.rows: dict[int, tuple[Any, Held]] = {}
        self.shown: dict[int, str] = {}

    def add(self, new: NewToken) -> None:
        if new.row not in self.rows:
            self.rows[new.row] = self.tokenizer.stream(self.after[new.row]), Held(self.stops)
        letters, held = self.rows[new.row]
        piece = "" if new.why == "token" else held.add(letters.add(new.token))
        if piece:
            self.shown[new.row] = self.shown.get(new.row, "") + piece
            self.on_text(new.row, piece)
