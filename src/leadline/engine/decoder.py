"""Scorers of the next token over models: with what was computed kept in a cache, or computed anew each time.

    Cached        one place of each row a step; the cost of a token does not grow with what stands before it, but for
                  attention itself
    Recomputing   any function (B, T) -> (B, T, V), the whole row each time: the plain twin of the first

On a GPU one step of `Cached`, the choice of the token included, is recorded as a CUDA graph and replayed: tokens,
places and scores stay in buffers of the device, and the host reads tokens when a handful have come. Of a plain chain of
layers a step has kernels of its own (`leadline.layers.one_row`, `many_rows`), a handful of steps are recorded together,
and so is the reading of prompts of a size that comes again. Deleting any of these loses speed only.

Shapes     prompts (B, T);  lengths (B,);  scores (B, V)
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol, cast, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from leadline.engine.step import recording
from leadline.engine.untouched import untouched
from leadline.errors import ShapeError, UserError
from leadline.layers.cache import Cache
from leadline.layers.kernels import has_triton
from leadline.layers.many_rows import ManyRows, fits
from leadline.layers.next_word import Parts, Places
from leadline.layers.one_row import OneRow, fits_one
from leadline.layers.unembedding import Deferred, deferred, rounded
from leadline.settings import given, whole
from leadline.text.choosing import Choice, check_allowed
from leadline.text.decoding import AT_A_TIME, Later, Scorer


@runtime_checkable
class Decodable(Protocol):
    """A model that keeps what it computed of earlier places."""

    length: int

    def cache(self, B: int, length: int, device: torch.device, dtype: torch.dtype) -> Cache:  # noqa: N803
        """Empty rooms."""

    def step(self, x: Tensor, cache: Cache) -> Tensor:
        """Scores (B, T', V) after the next tokens (B, T') of each row, which stand at `cache.at`."""


@runtime_checkable
class Reads(Protocol):
    """A model that reads a source before it writes."""

    def read(self, source: Tensor, cache: Cache) -> None:
        """Keep what will be asked of the sources (B, S)."""


@runtime_checkable
class Chained(Protocol):
    """A model that may be a plain chain of layers."""

    def parts(self) -> Parts | None:
        """Its layers, if it is."""


def scorer_of(model: nn.Module, room: int, source: Tensor | None = None, length: int | None = None) -> Scorer:
    """The fastest scorer for a model: cached where it can be.

    Args:
        room: positions that rows will have; no more than the model has are taken.
        source: (B, S), of a model that reads one.
        length: most positions of a row, of a model that does not say.

    >>> from leadline.models import GPT
    >>> type(scorer_of(GPT.tiny(), 4)).__name__, type(scorer_of(nn.Embedding(5, 5), 4)).__name__
    ('Cached', 'Recomputing')
    """
    if isinstance(model, Decodable):
        return Cached(model, min(room, model.length), source)
    if source is None:
        return Recomputing(model, length)
    source = source.to(_device(model))

    def score(rows: Tensor) -> Tensor:
        with untouched(model, training=False):
            return model(torch.cat([source.repeat_interleave(len(rows) // len(source), 0), rows.to(source.device)], 1))

    return Recomputing(score, length)


_SIZES = 8  # of prompts that are remembered
_ALIGNED = 64  # rooms are a multiple of this, which fused kernels like


class Recomputing:
    """A scorer over any function of whole rows; nothing is kept.

    Args:
        score: (B, T) -> (B, T, V), in which a place does not depend on later ones; a module is run in evaluation mode.
        length: most positions of a row; None has no end.

    >>> scorer = Recomputing(lambda rows: torch.nn.functional.one_hot(rows, 5).float())
    >>> scorer.start(torch.tensor([[1, 2], [3, 0]]), torch.tensor([2, 1])).argmax(1).tolist()
    [2, 3]
    """

    def __init__(self, score: Callable[[Tensor], Tensor] | nn.Module, length: int | None = None):
        if not callable(score):
            got, do = given("score", score), "Pass a model, or a function (B, T) -> (B, T, V)"
            raise UserError("what scores must be a model or a function", got=got, do=do)
        self.score, self.length = score, None if length is None else whole("length", length)
        self.device = _device(score) if isinstance(score, nn.Module) else torch.device("cpu")

    def start(self, prompts: Tensor, lengths: Tensor) -> Tensor:
        """Scores after each prompt."""
        _known(prompts, getattr(self.score, "num_tokens", None) if isinstance(self.score, nn.Module) else None)
        self.rows, self.at = prompts.to(self.device), lengths.to(self.device)
        return self._scores()

    def next(self, tokens: Tensor) -> Tensor:
        """Scores after these tokens."""
        if int(self.at.max()) == self.rows.shape[1]:
            self.rows = F.pad(self.rows, (0, 1))
        self.rows = self.rows.scatter(1, self.at[:, None], tokens.to(self.device)[:, None])
        self.at = self.at + 1
        if self.length is not None:
            self.at = self.at.clamp(max=self.length)
            self.rows = self.rows[:, : self.length]
        return self._scores()

    def reorder(self, rows: Tensor) -> None:
        """Row b goes on where row rows[b] stood."""
        rows = rows.to(self.device)
        self.rows, self.at = self.rows[rows], self.at[rows]

    @torch.no_grad()
    def _scores(self) -> Tensor:
        quiet = untouched(self.score, training=False) if isinstance(self.score, nn.Module) else nullcontext()
        with quiet:
            found = self.score(self.rows)
        if not isinstance(found, Tensor) or found.dim() != 3 or found.shape[:2] != self.rows.shape:
            raise ShapeError(
                f"what scores must give (B, T, V) for rows of shape {tuple(self.rows.shape)}",
                got=f"{tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__}",
                do="Give a score for each token after each place",
            )
        return _behind(found, self.at)


class Cached:
    """A scorer over a model with `cache` and `step`; one with `read` too is told its sources.

    Args:
        model: its weights are those of now: where modes or number type must change, a copy is taken.
        room: most positions of a row; the model's own length by default.
        source: (B, S), read before the first token; each row serves as many consecutive rows of prompts as fit.
        dtype: of weights and cache; by default bfloat16 on a GPU, elsewhere the weights' own.
        record: replay one step as a CUDA graph; on a GPU by default.
        compile: the step of one token, by torch.compile.

    >>> from leadline.models import GPT
    >>> scorer = Cached(GPT.tiny())
    >>> scorer.start(torch.tensor([[1, 2], [3, 0]]), torch.tensor([2, 1])).shape
    torch.Size([2, 11])
    """

    def __init__(
        self,
        model: nn.Module,
        room: int | None = None,
        source: Tensor | None = None,
        dtype: torch.dtype | None = None,
        record: bool | None = None,
        compile: bool = False,
    ):
        if not isinstance(model, Decodable):
            raise UserError(
                "a cached decoder needs a model with length, cache and step",
                got=f"{type(model).__name__} without them",
                do="Use Recomputing(model), which needs none",
            )
        reads = isinstance(model, Reads)
        if reads != (source is not None):
            raise UserError(
                f"a {type(model).__name__} reads {'a source' if reads else 'no source'}",
                got="none" if reads else "one",
                do="Pass source=tokens of shape (B, S)" if reads else "Leave it out, and put it in the prompt",
            )
        if source is not None:
            _known(source, getattr(model, "num_source_tokens", None) or getattr(model, "num_tokens", None), "sources")
        most: Any = model.length
        self.length = most if room is None else whole("room", room, 1, most)
        self.device, own = _device(model), next(model.parameters()).dtype
        self.dtype = dtype or (torch.bfloat16 if self.device.type == "cuda" else own)
        ready = own == self.dtype and not any(module.training for module in model.modules())
        self.model = cast(Any, model if ready else copy.deepcopy(model).to(self.dtype).eval())
        self.scores: Any = None
        self.record = self.device.type == "cuda" if record is None else record
        step: Callable[[Tensor, Cache | None], Tensor] = self.model.step
        # tuned, a product with one row becomes a kernel of its own, which takes in what stands around it
        tuned: Any = {"coordinate_descent_tuning": True} if self.device.type == "cuda" else None
        self.step = torch.compile(step, dynamic=False, options=tuned) if compile else step
        self._unembedding: tuple[Tensor, Tensor] | None = None
        self.own: OneRow | ManyRows | None = None  # a step of its own
        chain = self.model.parts() if isinstance(self.model, Chained) and not compile else None
        known = self.device.type == "cuda" and has_triton()
        self._chain = chain if chain is not None and known and fits(chain) else None
        self.source = None if source is None else source.to(self.device)
        self.cache: Cache | None = None
        self._graphs: dict[tuple[Choice | None, int], _Replayed] = {}
        self._prompts: dict[int, tuple[Tensor, Tensor, _Replayed] | None] = {}  # that came, by their size
        self._likeliest: Choice | None = None  # by which the largest of the scores were found
        self._seeds = torch.zeros(0, dtype=torch.long)  # those that the device has

    @torch.no_grad()
    def start(self, prompts: Tensor, lengths: Tensor) -> Tensor:
        """Scores after each prompt."""
        num = len(prompts)
        _known(prompts, getattr(self.model, "num_tokens", None))
        if self.cache is None or len(self.at) != num or self.source is not None:
            self._make_room(num)
        self._read(prompts.to(self.device), lengths.to(self.device))
        self._likeliest = None
        return self.scores.clone()

    def _read(self, prompts: Tensor, lengths: Tensor) -> None:
        """Prompts of a size that comes again are read by what was recorded of it."""
        size = prompts.shape[1]
        if not self.record or self.own is None or size not in self._prompts:
            self._prompts = {size: None} if len(self._prompts) == _SIZES else {**self._prompts, size: None}
            self._read_once(prompts, lengths)
            return
        if self._prompts[size] is None:
            own = prompts.clone(), lengths.clone()
            self._prompts[size] = *own, _Replayed(lambda: self._read_once(*own), [])
        given, ends, again = cast(tuple[Tensor, Tensor, _Replayed], self._prompts[size])
        given.copy_(prompts)
        ends.copy_(lengths)
        again.graph.replay()

    def _read_once(self, prompts: Tensor, lengths: Tensor) -> None:
        (num, size), cache = prompts.shape, cast(Cache, self.cache)
        cache.at = torch.arange(size, device=self.device).expand(num, size)
        cache.there = cache.at < lengths[:, None]
        with deferred():  # of all places of a prompt, only the last is scored
            found: Any = self.model.step(prompts, cache)
        last = found._replace(h=_behind(found.h, lengths)) if isinstance(found, Deferred) else _behind(found, lengths)
        scores = self._scored(last)
        self.at.copy_(lengths[:, None].clamp(max=self.length - 1))
        cache.at, cache.there = self.at, None
        if self.scores is None or self.scores.shape != scores.shape:
            self.scores = torch.empty_like(scores, dtype=torch.promote_types(scores.dtype, torch.float32))
        self.scores.copy_(scores)

    def _scored(self, found: Tensor | Deferred) -> Tensor:
        """The scores themselves; the weights that make them are rounded up once, not at each token."""
        if not isinstance(found, Deferred):
            return found
        if self._unembedding is None or self._unembedding[0] is not found.weight:
            self._unembedding = found.weight, rounded(found.weight)
        bias = None if found.bias is None else rounded(found.bias)
        return F.linear(found.h, self._unembedding[1], bias)[..., : len(found.weight)]

    def next(self, tokens: Tensor) -> Tensor:
        """Scores after these tokens."""
        self.tokens.copy_(tokens[:, None])
        self._replay(None)
        return self.scores.clone()

    def ahead(self, choice: Choice, seeds: Tensor, first: int, num: int) -> Later:
        """What gives the tokens of number first … first + num - 1 and their log-probabilities, (B, num) each.

        A GPU is told at once, and copies what it finds when it has; elsewhere nothing is computed before it is asked.
        """
        whole("num", num, 1, AT_A_TIME)

        def found() -> tuple[Tensor, Tensor]:
            if not torch.equal(seeds, self._seeds):
                self.seeds.copy_(seeds)
                self._seeds = seeds.clone()
            self.number.fill_(first)
            self.slot.zero_()
            if self.own is not None and choice.takes_likeliest and self._likeliest is not choice:
                if isinstance(choice.allowed, Tensor):
                    check_allowed(choice.allowed, self.scores.shape[-1])
                self.own.next.given(self.scores, cast(Tensor | None, choice.allowed))
                self._likeliest = choice
            if self.own is not None and num == AT_A_TIME:
                self._replay(choice, num)
            else:
                for _ in range(num):
                    self._replay(choice)
            return self.words[:, :num], self.log_p[:, :num]

        if self.device.type != "cuda":
            return lambda: cast(tuple[Tensor, Tensor], tuple(t.clone() for t in found()))
        near = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True).copy_(t, non_blocking=True) for t in found()]
        copied = torch.cuda.Event()
        copied.record()

        def words() -> tuple[Tensor, Tensor]:
            copied.synchronize()
            return near[0], near[1]

        return words

    def reorder(self, rows: Tensor) -> None:
        """Row b goes on where row rows[b] stood."""
        rows = rows.to(self.device)
        cast(Cache, self.cache).reorder(rows)
        self.scores.copy_(self.scores[rows])
        self._likeliest = None

    def _make_room(self, num: int) -> None:
        """A cache and the buffers of one step, all of them kept at one place as long as there are `num` rows."""
        room = -(-self.length // _ALIGNED) * _ALIGNED
        self.cache = self.model.cache(num, room, self.device, self.dtype)
        if self.source is not None:
            if num % len(self.source):
                got, do = f"{num} rows for {len(self.source)} sources", "Pass a prompt for each source"
                raise UserError("each source must serve as many rows as the others", got=got, do=do)
            self.model.read(self.source.repeat_interleave(num // len(self.source), 0), self.cache)
        whole_numbers = lambda *shape: torch.zeros(*shape, dtype=torch.long, device=self.device)  # noqa: E731
        self.at, self.tokens, self.seeds = whole_numbers(num, 1), whole_numbers(num, 1), whole_numbers(num)
        self.number, self.slot, self.words = whole_numbers(1)[0], whole_numbers(1), whole_numbers(num, AT_A_TIME)
        self.log_p = torch.zeros(num, AT_A_TIME, device=self.device)
        self.scores, self._graphs, self._prompts, self._likeliest, self.own = None, {}, {}, None, None
        self._seeds = torch.zeros(0, dtype=torch.long)
        if self._chain is not None:
            at = Places(self.tokens, self.at, self.words, self.log_p, self.slot, self.number, self.length)
            one = num == 1 and fits_one(self._chain, self.device)
            self.own = (OneRow if one else ManyRows)(self._chain, self.cache, at)
            self.scores = self.own.next.scores

    @torch.no_grad()
    def _replay(self, choice: Choice | None, num: int = 1) -> None:
        """As many tokens in turn: recorded together, they follow each other without a gap."""
        if self.record and (choice, num) not in self._graphs:
            near = choice if choice is None else choice.on(self.device)
            state = [self.at, self.tokens, self.number, self.slot, self.words, self.log_p, self.scores]
            state += [part for kept in cast(Cache, self.cache).states for part in kept]
            state += [] if self.own is None else self.own.next.state
            try:
                self._graphs[choice, num] = _Replayed(lambda: self._words(near, num), state)
            except RuntimeError:  # a model that asks the host something on its way
                self.record = False
        if self.record:
            self._graphs[choice, num].graph.replay()
        else:
            self._words(choice, num)

    def _words(self, choice: Choice | None, num: int) -> None:
        for _ in range(num):
            self._one(choice)

    def _one(self, choice: Choice | None) -> None:
        """One token of each row: chosen, unless it was given, put at its place, and the scores after it."""
        likeliest = self.own is not None and choice is not None and choice.takes_likeliest
        if choice is not None and not likeliest:
            chosen = choice(self.scores, self.seeds, self.number)[:, None]
            self.tokens.copy_(chosen)
            slot = self.slot.expand(len(chosen), 1)
            self.words.scatter_(1, slot, chosen)
            self.log_p.scatter_(1, slot, self.scores.log_softmax(-1).gather(1, chosen).float())
            if self.own is None:
                self.number.add_(1)
                self.slot.add_(1)
        if self.own is not None:
            self.own.step(likeliest)
            return
        with deferred():
            found: Any = self.step(self.tokens, self.cache)
        self.scores.copy_(self._scored(found)[:, 0])
        self.at.copy_((self.at + 1).clamp(max=self.length - 1))  # a row that is full has ended


class _Replayed:
    """A recorded CUDA graph of a function without arguments.

    Args:
        function: is kept, for the graph reads what it holds.
        state: tensors that it changes, put back after warming up. What it writes into the cache meanwhile stands at
            places that are written again before they are looked at.
    """

    def __init__(self, function: Callable[[], None], state: list[Tensor]):
        self.function, before = function, [t.clone() for t in state]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for _ in range(3):  # libraries allocate their work space, the compiler compiles
                    _put(state, before)
                    function()
            torch.cuda.current_stream().wait_stream(side)
            with recording() as self.graph:
                function()
        finally:
            _put(state, before)


def _put(state: list[Tensor], values: list[Tensor]) -> None:
    for t, value in zip(state, values, strict=True):
        t.copy_(value)


def _behind(values: Tensor, lengths: Tensor) -> Tensor:
    """Of (B, T, …), those at the last place of each row, (B, …)."""
    return values[torch.arange(len(values), device=values.device), lengths - 1]


def _known(prompts: Tensor, num_tokens: int | None, name: str = "prompts") -> None:
    """Refuse tokens that a model does not have: on a GPU they would end the whole process."""
    if prompts.is_floating_point() or prompts.dim() != 2:
        got, do = f"{prompts.dtype} of shape {tuple(prompts.shape)}", "Pass token numbers"
        raise ShapeError(f"{name} must hold whole numbers, (B, T)", got=got, do=do)
    low, high = (int(end) for end in prompts.aminmax()) if prompts.numel() else (0, 0)
    if low < 0 or (num_tokens is not None and high >= num_tokens):
        raise UserError(
            f"{name} must hold tokens of the model" + ("" if num_tokens is None else f", 0 … {num_tokens - 1}"),
            got=f"{low if low < 0 else high}",
            do="Use the tokenizer that the model was trained with",
        )


def _device(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))
