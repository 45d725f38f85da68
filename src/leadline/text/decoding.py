"""Text, token by token: any scorer of the next token, any choice of it (`leadline.text.choosing`).

    score_t = scorer(x_1 … x_t),     x_{t+1} ~ choice(score_t),     until a stop, `most` tokens, or a full context   (1)
    slide   a row that fills the context goes on from its last half, read anew                                       (2)

Prompts of different lengths share a batch: they are padded on the right, and each row stands at its own place. A scorer
that can go on alone (`ahead`) is asked for several tokens at a time, and for the next ones before those are looked at,
so that a GPU never waits for its host; tokens after a stop are thrown away.

Notation   B rows, V tokens
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from leadline.errors import UserError
from leadline.settings import given, whole
from leadline.text.choosing import GREEDY, Choice
from leadline.text.stopping import Stop


class Scorer(Protocol):
    """What scores the next token of a batch of rows.

    Args:
        length: most positions of a row; None has no end.
    """

    length: int | None

    def start(self, prompts: Tensor, lengths: Tensor) -> Tensor:
        """Scores (B, V) of the token after each prompt.

        Args:
            prompts: (B, T), padded on the right.
            lengths: (B,), at least 1.
        """

    def next(self, tokens: Tensor) -> Tensor:
        """Scores (B, V) of the token after these tokens (B,), which came last."""

    def reorder(self, rows: Tensor) -> None:
        """Row b goes on where row rows[b] stood."""


@runtime_checkable
class Ahead(Protocol):
    """A scorer that chooses for itself, several tokens at a time."""

    def ahead(self, choice: Choice, seeds: Tensor, first: int, num: int) -> Later:
        """What gives the tokens of number first … first + num - 1 and their log-probabilities, (B, num) each, once it
        is asked. It is asked in the order in which it was given out.
        """


Later = Callable[[], tuple[Tensor, Tensor]]


class NewToken(NamedTuple):
    """One new token of a row.

    Args:
        log_p: of the token, by the scorer's own softmax.
        why: it is the last: token, text, most or context; else "".
    """

    row: int
    token: int
    log_p: float
    why: str = ""


@dataclass(frozen=True)
class Generated:
    """What came after one prompt.

    Args:
        tokens: the new ones, a stop token among them.
        score: sum of their log-probabilities; of a beam, divided by its length to the power of the penalty.
        why: the row ended: token, text, most or context.
    """

    tokens: list[int]
    score: float
    why: str


def generate(
    scorer: Scorer,
    prompts: Sequence[Sequence[int]],
    most: int,
    choice: Choice = GREEDY,
    stop: Stop | None = None,
    seeds: int | Sequence[int] = 0,
    slide: bool = False,
    on_token: Callable[[NewToken], None] | None = None,
) -> list[Generated]:
    """Go on with each prompt (eq. 1).

    Args:
        prompts: tokens, at least one in each.
        most: new tokens a row, at least 1.
        stop: what ends a row earlier.
        seeds: one for each row, or the first of consecutive ones.
        slide: go on after the context (eq. 2); otherwise a row ends there.
        on_token: called with each new token.

    >>> count = lambda rows: torch.nn.functional.one_hot((rows + 1) % 10, 10).float()
    >>> from leadline.engine.decoder import Recomputing
    >>> [row.tokens for row in generate(Recomputing(count), [[3], [7, 8]], most=3)]
    [[4, 5, 6], [9, 0, 1]]
    """
    rows = checked(prompts, scorer.length)
    made: list[list[NewToken]] = [[] for _ in rows]
    for step in stream(scorer, rows, most, choice, stop, seeds, slide):
        for new in step:
            made[new.row].append(new)
            if on_token is not None:
                on_token(new)
    return [Generated([w.token for w in row], sum(w.log_p for w in row), row[-1].why) for row in made]


def stream(
    scorer: Scorer,
    prompts: Sequence[Sequence[int]],
    most: int,
    choice: Choice = GREEDY,
    stop: Stop | None = None,
    seeds: int | Sequence[int] = 0,
    slide: bool = False,
) -> Iterator[list[NewToken]]:
    """As `generate`, one step at a time: the new tokens of the rows that still go on.

    >>> from leadline.engine.decoder import Recomputing
    >>> count = lambda rows: torch.nn.functional.one_hot((rows + 1) % 10, 10).float()
    >>> [[new.token for new in step] for step in stream(Recomputing(count), [[3], [7]], 2)]
    [[4, 8], [5, 9]]
    """
    rows = checked(prompts, scorer.length)
    most, stop = whole("most", most), Stop() if stop is None else check_kind("stop", stop, Stop, "Stop(tokens=(0,))")
    check_kind("choice", choice, Choice, "Choice(temperature=0)")
    judged = bool(stop.tokens or stop.texts)
    new: list[list[int]] = [[] for _ in rows]
    room = None if slide else scorer.length
    last = [most if room is None else min(most, room - len(row)) for row in rows]  # number of the last token of a row
    choice = choice.after_prompts(torch.tensor([len(row) for row in rows]))
    columns = (_alone if isinstance(scorer, Ahead) and not choice.looks_back else _columns)(
        scorer, rows, most, choice, _seeds(seeds, len(rows)), slide
    )
    going = list(range(len(rows)))
    for number, (tokens, log_p) in enumerate(columns, start=1):
        step, over = [], False
        for row in going:
            token, why = tokens[row], ""
            if math.isnan(log_p[row]):
                raise not_a_number()
            rows[row].append(token)
            if judged:
                new[row].append(token)
                why = stop.why(new[row])
            if not why and number >= last[row]:
                why = "most" if number == most else "context"
            over = over or why != ""
            step.append(NewToken(row, token, log_p[row], why))
        yield step
        if over:
            going = [new.row for new in step if not new.why]
        if not going:
            return


def check_kind(name: str, value: Any, kind: type, such: str) -> Any:
    """`value`, if it is of that class.

    >>> check_kind("stop", (3,), Stop, "Stop(tokens=(3,))")
    Traceback (most recent call last):
    leadline.errors.UserError: stop must be a Stop. Got stop=(3,) (a tuple). Pass Stop(tokens=(3,)).
    """
    if not isinstance(value, kind):
        raise UserError(f"{name} must be a {kind.__name__}", got=given(name, value), do=f"Pass {such}")
    return value


def not_a_number() -> UserError:
    """The message that a scorer gives no scores."""
    return UserError(
        "scores of the next token must be numbers",
        got="nan",
        do="Look at the weights: training that diverges leaves some that are not finite",
    )


def checked(prompts: Iterable[Sequence[int]], length: int | None) -> list[list[int]]:
    """Prompts as lists that can be lengthened; the message where one is empty, or leaves no place after it.

    >>> checked([(3, 4, 5)], length=3)
    Traceback (most recent call last):
    leadline.errors.UserError: a prompt must leave room in the context of 3 tokens. Got prompt 0 with 3. Keep its \
last 2 tokens or fewer.
    """
    if isinstance(prompts, (str, bytes)) or not isinstance(prompts, Iterable):
        got = given("prompts", prompts)
        raise UserError("prompts must be a list of lists of tokens", got=got, do="Pass [[5, 6, 7]] for one prompt")
    rows = [_tokens_of(prompt) for prompt in prompts]
    if not rows:
        raise UserError("there must be a prompt", got="none", do="Pass a list of lists of tokens")
    for number, row in enumerate(rows):
        if not row:
            raise UserError(
                "a prompt must have at least one token",
                got=f"prompt {number} with none",
                do="Start with the token that ends documents, or with a first token",
            )
        if length is not None and len(row) >= length:
            raise UserError(
                f"a prompt must leave room in the context of {length} tokens",
                got=f"prompt {number} with {len(row)}",
                do=f"Keep its last {length - 1} tokens or fewer",
            )
    return rows


def _tokens_of(prompt: Sequence[int]) -> list[int]:
    found = prompt.tolist() if hasattr(prompt, "tolist") else prompt
    if isinstance(found, (list, tuple, range)) and all(
        isinstance(t, Integral) and not isinstance(t, bool) for t in found
    ):
        return [int(token) for token in found]
    do = "Encode it first: tokenizer.encode(text)" if isinstance(found, str) else "Pass [[5, 6, 7]] for one prompt"
    raise UserError("a prompt must be a list of tokens, whole numbers", got=given("prompt", found), do=do)


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows of different lengths as one tensor (B, T), filled with 0 on the right, and their lengths (B,).

    >>> padded([[1, 2, 3], [4]])[0].tolist()
    [[1, 2, 3], [4, 0, 0]]
    """
    lengths = torch.tensor([len(row) for row in rows])
    filled = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for b, row in enumerate(rows):
        filled[b, : len(row)] = torch.tensor(row)
    return filled, lengths


def _seeds(seeds: int | Sequence[int], num: int) -> Tensor:
    if isinstance(seeds, Integral) or not isinstance(seeds, Iterable):
        return torch.arange(num) + whole("seeds", seeds, 0, _LARGEST_SEED)
    each = [whole("seeds", seed, 0, _LARGEST_SEED) for seed in (seeds.tolist() if hasattr(seeds, "tolist") else seeds)]
    if len(each) != num:
        raise UserError(
            "there must be a seed for each row",
            got=f"{len(each)} for {num} rows",
            do="Pass one number for all, or one for each",
        )
    return torch.tensor(each, dtype=torch.long)


_LARGEST_SEED = 2**62
#: tokens that a scorer is asked for at a time, where it can go on alone
AT_A_TIME = 8


def _columns(
    scorer: Scorer, rows: list[list[int]], most: int, choice: Choice, seeds: Tensor, slide: bool
) -> Iterator[tuple[list[int], list[float]]]:
    """The next tokens of all rows and their log-probabilities, `most` times. The caller appends them to `rows`."""
    begin = [0] * len(rows)  # where the part of a row begins that the scorer has read
    seen = _Seen(rows, most) if choice.looks_back else None
    scores, number = scorer.start(*padded(rows)), 0
    while number < most:
        if slide and _full(scorer, rows, begin):
            scores = _slid(scorer, rows, begin)
        at = torch.tensor(number, device=scores.device)
        tokens = choice(scores, seeds.to(scores.device), at, None if seen is None else seen.so_far)
        log_p = scores.float().log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        number += 1
        yield tokens.tolist(), log_p.tolist()
        if seen is not None:
            seen.add(tokens)
        if number < most and not (slide and _full(scorer, rows, begin)):
            scores = scorer.next(tokens)


def _alone(
    scorer: Scorer, rows: list[list[int]], most: int, choice: Choice, seeds: Tensor, slide: bool
) -> Iterator[tuple[list[int], list[float]]]:
    """As `_columns`, of a scorer that goes on alone: the next tokens are under way while these are looked at."""
    if not isinstance(scorer, Ahead):
        raise TypeError("a scorer that goes on alone has `ahead`")
    begin, waiting = [0] * len(rows), deque[Later]()
    scorer.start(*padded(rows))
    asked = known = 0  # tokens that were asked for, and those of them that `rows` has
    while known < most:
        if not waiting and slide and _full(scorer, rows, begin):
            _slid(scorer, rows, begin)
        last = max(len(row) - first for row, first in zip(rows, begin)) + asked - known
        room = scorer.length - last if slide and scorer.length is not None else AT_A_TIME
        num = min(AT_A_TIME, most - asked, room)
        if num > 0 and len(waiting) < 2:
            waiting.append(scorer.ahead(choice, seeds, asked, num))
            asked += num
            continue
        tokens, log_p = waiting.popleft()()
        yield from zip(tokens.T.tolist(), log_p.T.tolist())
        known += tokens.shape[1]


def _full(scorer: Scorer, rows: list[list[int]], begin: list[int]) -> bool:
    """Whether a row has filled the context."""
    return scorer.length is not None and max(len(row) - first for row, first in zip(rows, begin)) >= scorer.length


def _slid(scorer: Scorer, rows: list[list[int]], begin: list[int]) -> Tensor:
    """Eq. 2: `begin` moves on in rows that are full, and what is left of all is read anew."""
    length = scorer.length or 0
    for b, row in enumerate(rows):
        if len(row) - begin[b] >= length:
            begin[b] = len(row) - max(1, length // 2)
    return scorer.start(*padded([row[first:] for row, first in zip(rows, begin)]))


class _Seen:
    """The tokens of all rows so far, (B, T), -1 where a row has nothing."""

    def __init__(self, rows: list[list[int]], most: int):
        self.at = torch.tensor([len(row) for row in rows])
        self.tokens = torch.full((len(rows), int(self.at.max()) + most), -1)
        for b, row in enumerate(rows):
            self.tokens[b, : len(row)] = torch.tensor(row)

    @property
    def so_far(self) -> Tensor:
        return self.tokens[:, : int(self.at.max())]

    def add(self, tokens: Tensor) -> None:
        self.tokens.scatter_(1, self.at[:, None], tokens.cpu()[:, None])
        self.at += 1
