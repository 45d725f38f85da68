"""The section of a report on text: what the model writes, hides, translates, tags or finds, and where it is surprised.

    surprise_t = -log p(y_t)                                                                     (1)   in nats

Every word comes from somebody's files, so every one is escaped. What is written is drawn with a fixed seed: a page is
the same twice.

Notation   B rows, T places
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.data.tokens import NOTHING, Tokens
from leadline.engine.decoder import scorer_of
from leadline.engine.evaluation import resting
from leadline.engine.feed import Feed
from leadline.report import figures
from leadline.report.facts import Facts
from leadline.report.style import FULL, LIGHT
from leadline.report.words import escape, number, percent, table
from leadline.text.choosing import GREEDY, Choice
from leadline.text.decoding import generate
from leadline.text.stopping import Stop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from leadline.report.results import Draw

_ROWS = 24  # rows that examples are taken from
_PLACES = 2**14  # places whose surprise is measured for the curve
_PROMPTS, _GIVEN, _WRITTEN = 3, 24, 72  # texts that are gone on with, tokens of theirs that are shown, and new ones
_WORST = 12  # places of a table
_CONTEXT = 14  # tokens before a place that are shown
_GUESSES = 3
_FULL_COLOUR = 8.0  # nats that have the full colour
_DEEPEST = 62  # per cent of the colour, on which letters can still be read
_LONG = 400  # letters of a text in a table


def texts(facts: Facts, split: str, draw: Draw) -> str:
    """HTML of the section."""
    inputs = facts.data.inputs
    if not isinstance(inputs, Tokens) or facts.model is None:
        return ""
    seen = Seen.of(facts, inputs, split)
    cards = {
        "next": lambda: [_written(seen, facts, split), *_surprises(seen, facts, split, draw)],
        "masked": lambda: [_hidden(seen)],
        "pairs": lambda: [_translated(seen, split), *_surprises(seen, facts, split, draw)[:1]],
        "tags": lambda: [_tagged(seen, facts)],
        "spans": lambda: [_found(seen, facts)],
    }.get(inputs.task, list)()
    return f'<div class="grid">{"".join(card for card in cards if card)}</div>'


@dataclass(frozen=True, eq=False)
class Seen:
    """Some rows with what the model says of them.

    Args:
        x: as the network reads them; y: what is asked.
        output: of the network.
    """

    model: nn.Module
    inputs: Tokens
    x: Tensor
    y: Tensor
    output: Tensor

    @classmethod
    def of(cls, facts: Facts, inputs: Tokens, split: str) -> Seen:
        feed = _feed(facts, inputs, split)
        batch = feed.first(min(_ROWS, len(feed)))
        with resting(facts.model), torch.no_grad():  # type: ignore[arg-type]
            output = facts.model(batch.x)  # type: ignore[misc]
        return cls(facts.model, inputs, batch.x.cpu(), batch.y.cpu(), output.float().cpu())  # type: ignore[arg-type]

    @property
    def surprise(self) -> Tensor:
        """Eq. 1, (B, T), nan where nothing is asked."""
        return surprise(self.output, self.y)

    def word(self, token: int) -> str:
        """A token as it is read; a special one by its name."""
        said = self.inputs.tokenizer.bytes_of(token).decode("utf-8", "replace")
        return said or self.inputs.tokenizer.token(token)

    def text(self, tokens: Sequence[int] | Tensor, after: Sequence[int] = ()) -> str:
        """The words of tokens, without what fills a row; ■ and a new line where a document ends.

        Args:
            after: tokens before them: some vocabularies write the space before a word only there.
        """
        own = self.inputs.tokenizer
        parts: list[list[int]] = [[]]
        for token in tokens.tolist() if isinstance(tokens, Tensor) else tokens:
            if token == own.end and parts[-1]:
                parts.append([])
            elif token not in (NOTHING, own.pad, own.end):
                parts[-1].append(token)
        return " ■\n".join([own.decode(parts[0], after), *map(own.decode, parts[1:])])


def surprise(output: Tensor, y: Tensor) -> Tensor:
    """Eq. 1 of scores (B, T, V), nan where nothing is asked.

    >>> surprise(torch.zeros(1, 2, 4), torch.tensor([[3, -1]])).tolist()
    [[1.3862943649291992, nan]]
    """
    asked = y != NOTHING
    found = -output.float().log_softmax(-1).gather(-1, y.clamp(min=0)[..., None])[..., 0]
    return torch.where(asked, found, torch.nan)


def _feed(facts: Facts, inputs: Tokens, split: str) -> Feed:
    weight = next(facts.model.parameters())  # type: ignore[union-attr]
    part = facts.data[split]
    return Feed(part, inputs, len(part), 0, weight.device, weight.dtype, keyed=False)


# --- the next word


def _written(seen: Seen, facts: Facts, split: str) -> str:
    """Beginnings out of the split, and how the model goes on."""
    prompts = _beginnings(seen)
    if not prompts:
        return ""
    own = seen.inputs.tokenizer
    end = Stop(() if own.end is None else (own.end,))
    scorer = scorer_of(seen.model, _GIVEN + _WRITTEN, None, seen.inputs.length)
    made = generate(scorer, prompts, _WRITTEN, Choice(temperature=0.8, top_p=0.95), end, seeds=0, slide=True)
    closed = "<span class=soft> ■</span>"
    told = "".join(
        f'<p class="text"><span class="soft">{escape(seen.text(prompt))}</span>'
        f"<b>{escape(seen.text(one.tokens, prompt))}</b>{closed if one.why == 'token' else ''}</p>"
        for prompt, one in zip(prompts, made, strict=True)
    )
    return _card(
        "Written by the model",
        f"Grey: beginnings from the {split} split. Bold: what the model writes next, sampled at temperature 0.8 and "
        "top-p 0.95, with a fixed seed.",
        told,
    )


def _beginnings(seen: Seen) -> list[list[int]]:
    """The first tokens of a few rows that lie apart; after the end of a document, where a row has one."""
    rows = torch.linspace(0, len(seen.x) - 1, min(_PROMPTS, len(seen.x))).long().unique().tolist()
    most = max(1, min(_GIVEN, seen.x.shape[1] // 2))
    return [seen.x[row, :most].tolist() for row in rows]


def _surprises(seen: Seen, facts: Facts, split: str, draw: Draw) -> list[str]:
    """The curve along the row, texts in the colour of their surprise, and the tokens that surprised most."""
    cards = []
    mean, error = _along(facts, seen.inputs, split)
    if len(mean) > 1:
        curve = draw(
            "surprise", _curve(mean, error, split),
            "Mean surprise of the token at each place of a row, with its standard error. The first tokens have little "
            "text before them, so they are harder to predict.", full=True,
        )  # fmt: skip
        cards.append(f'<div class="card wide">{curve}</div>')
    by_row = seen.surprise.nanmean(1)
    hard, easy = int(by_row.nan_to_num(-1).argmax()), int(by_row.nan_to_num(torch.inf).argmin())
    coloured = "".join(
        f'<h3>{name}: {number(float(by_row[row]))} nats a token</h3><p class="text">{_coloured(seen, row)}</p>'
        for name, row in (("The easiest row", easy), ("The hardest row", hard))
    )
    told = (
        f"{len(seen.x)} rows. The stronger a token's colour, the less it was expected; full at {_FULL_COLOUR:g} nats."
    )
    cards.append(_card("Expected and unexpected tokens", told, coloured))
    cards.append(_card("Least expected tokens", "", _surprising(seen)))
    return cards


def _along(facts: Facts, inputs: Tokens, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean of eq. 1 at each place and its standard error, over as many rows as are worth the time."""
    feed = _feed(facts, inputs, split)
    count = min(len(feed), max(_ROWS, _PLACES // max(feed.y.shape[1], 1)))
    found = []
    with resting(facts.model), torch.no_grad():  # type: ignore[arg-type]
        for batch in feed.in_order(count):
            found.append(surprise(facts.model(batch.x), batch.y).cpu())  # type: ignore[misc]
    each = torch.cat(found).double().numpy()
    there = (~np.isnan(each)).sum(0)
    kept = there > 1
    each, there = each[:, kept], there[kept]
    mean = np.nansum(each, 0) / there
    spread = np.sqrt(np.nansum((each - mean) ** 2, 0) / (there - 1) / there)
    return mean, spread


@figures.styled
def _curve(mean: np.ndarray, error: np.ndarray, split: str) -> Figure:
    figure = figures.blank(FULL, 2.6)
    ax = figure.subplots()
    colour, places = LIGHT.get(split, LIGHT["soft"]), np.arange(1, len(mean) + 1)
    ax.fill_between(places, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
    ax.plot(places, mean, color=colour)
    ax.set(xlabel="place in the row", ylabel="surprise (nats)")
    ax.set_title("Surprise along the row")
    return figure


def _coloured(seen: Seen, row: int) -> str:
    """The tokens that were asked for, each on the colour of its surprise."""
    parts = []
    for token, nats in zip(seen.y[row].tolist(), seen.surprise[row].tolist(), strict=True):
        if token != NOTHING:
            share = min(max(nats, 0.0) / _FULL_COLOUR, 1.0)
            how = f'style="--a:{_DEEPEST * share:.0f}%" title="{percent(float(np.exp(-nats)))}"'
            parts.append(f'<span class="token" {how}>{escape(seen.word(token))}</span>')
    return "".join(parts)


def _surprising(seen: Seen) -> str:
    """The places of highest surprise, one a row of the split, with what was expected instead."""
    best = seen.surprise.nan_to_num(-1).max(1)
    order = best.values.argsort(descending=True)[:_WORST].tolist()
    rows = []
    for row in order:
        t = int(best.indices[row])
        if seen.y[row, t] == NOTHING:
            continue
        before = seen.y[row, :t] if seen.inputs.task == "pairs" else seen.x[row, : t + 1]
        p = seen.output[row, t].softmax(-1)
        rows.append(
            [
                f'<div class="features">…{escape(seen.text(before[-_CONTEXT:]))}</div>',
                f'<b class="miss">{_shown(seen, int(seen.y[row, t]))}</b>',
                percent(float(p[seen.y[row, t]])),
                _guesses(seen, p),
            ]
        )
    return table(["after", "token", "its probability", "expected instead"], rows, texts=2, last_text=True)


def _guesses(seen: Seen, p: Tensor) -> str:
    top = p.topk(min(_GUESSES, len(p)))
    both = zip(top.values.tolist(), top.indices.tolist(), strict=True)
    told = [f"<b>{_shown(seen, token)}</b>&nbsp;{percent(value)}" for value, token in both]
    return f'<div class="features">{" · ".join(told)}</div>'


def _shown(seen: Seen, token: int) -> str:
    """A token of its own, with white space that can be seen."""
    return escape(seen.word(token).replace("\n", "↵").replace(" ", "␣").replace("\t", "→"))


# --- hidden words, translations, tags, answers


def _hidden(seen: Seen) -> str:
    rows: list[list[str]] = []
    for row in range(len(seen.x)):
        asked = (seen.y[row] != NOTHING).nonzero().flatten().tolist()
        if not asked or len(rows) == _WORST:
            continue
        t = asked[len(asked) // 2]
        low, high = max(0, t - _CONTEXT), min(seen.x.shape[1], t + _CONTEXT)
        p = seen.output[row, t].softmax(-1)
        true = int(seen.y[row, t])
        around = (_with_gaps(seen, seen.x[row, part]) for part in (slice(low, t), slice(t + 1, high)))
        context = "…{}<b>▢</b>{}…".format(*map(escape, around))
        right = int(p.argmax()) == true
        rows.append(
            [
                f'<div class="features">{context}</div>',
                f"<b{'' if right else ' class=miss'}>{_shown(seen, true)}</b>",
                percent(float(p[true])),
                _guesses(seen, p),
            ]
        )
    told = "▢ is the token to predict, which was masked or replaced; ▁ marks other masked tokens."
    heads = ["text", "the token", "its probability", "predicted"]
    return _card("Masked tokens", told, table(heads, rows, texts=2, last_text=True))


def _with_gaps(seen: Seen, tokens: Tensor) -> str:
    """Text in which each mask is a line."""
    parts: list[list[int]] = [[]]
    for token in tokens.tolist():
        if token == seen.inputs.tokenizer.mask:
            parts.append([])
        else:
            parts[-1].append(token)
    return "▁".join(seen.text(part) for part in parts)


def _translated(seen: Seen, split: str) -> str:
    own, source = seen.inputs.tokenizer, seen.x[:, : seen.inputs.len_source]
    count = min(len(source), _WORST)
    scorer = scorer_of(seen.model, seen.inputs.length, source[:count], seen.inputs.length)
    end = Stop(() if own.end is None else (own.end,))
    made = generate(scorer, [[seen.inputs.start]] * count, seen.inputs.length - 1, GREEDY, end)
    references = [_until(row, own.end) for row in seen.y[:count]]
    read = seen.inputs.decode_sources(source[:count])
    all_three = zip(read, map(seen.text, references), (seen.text(one.tokens) for one in made), strict=True)
    rows = [[_long(part) for part in parts] for parts in all_three]
    told = f"The first pairs of the {split} split; the likeliest token at each place."
    return _card("Translations", told, table(["source", "reference", "translation"], rows, texts=3))


def _tagged(seen: Seen, facts: Facts) -> str:
    """Lines with the tag of each word: right ones grey, and beside a wrong one what it is."""
    names = facts.data.target.classes
    name = lambda code: names[code] if code < len(names) else str(code)  # noqa: E731
    said, lines = seen.output.argmax(-1), []
    for row in range(min(len(seen.x), _WORST)):
        parts = []
        for token, true, guess in zip(seen.x[row].tolist(), seen.y[row].tolist(), said[row].tolist(), strict=True):
            if token == seen.inputs.tokenizer.pad:
                continue
            parts.append(escape(seen.word(token)))
            if true != NOTHING and true == guess:
                parts.append(f'<sub class="soft">{escape(name(true))}</sub>')
            elif true != NOTHING:
                parts.append(f'<sub class="miss">{escape(name(guess))}, not {escape(name(true))}</sub>')
        lines.append(f'<p class="text">{"".join(parts)}</p>')
    return _card("Tags", "After each word is its tag; purple where the model predicts another.", "".join(lines))


def _found(seen: Seen, facts: Facts) -> str:
    said = facts.likelihood.prediction(seen.output).mode.cpu()
    own, rows = seen.inputs.tokenizer, []
    for row in range(min(len(seen.x), _WORST)):
        sep = [t for t, token in enumerate(seen.x[row].tolist()) if token == own.sep]
        question = seen.text(seen.x[row, : sep[0]] if sep else seen.x[row])
        answers = [seen.text(seen.x[row, int(a) : int(b) + 1]) for a, b in (seen.y[row], said[row])]
        right = torch.equal(seen.y[row], said[row])
        found = _long(answers[1]) if right else f'<span class="miss">{_long(answers[1])}</span>'
        rows.append([_long(question), _long(answers[0]), found])
    return _card("Answers", "", table(["question", "answer", "found"], rows, texts=3))


def _until(tokens: Tensor, end: int | None) -> list[int]:
    kept: list[int] = []
    for token in tokens.tolist():
        if token in (NOTHING, end):
            break
        kept.append(token)
    return kept


def _long(text: str) -> str:
    cut = text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
    return f'<div class="words">{escape(cut)}</div>'


def _card(title: str, told: str, body: str) -> str:
    note = f'<p class="soft small">{escape(told)}</p>' if told else ""
    return f'<div class="card wide"><h3>{escape(title)}</h3>{note}{body}</div>'


def row_text(inputs: Any, x: Tensor) -> str:
    """A row of tokens as text, for a table, escaped."""
    if inputs.len_source is None:
        return _long(inputs.decode(x[None])[0])
    return _long(f"{inputs.decode_sources(x[None])[0]} → {inputs.decode(x[None, inputs.len_source :])[0]}")
