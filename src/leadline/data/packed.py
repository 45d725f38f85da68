"""Documents packed into rows: one after the other, each closed by `end`, cut into rows of equal length."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from leadline.data import shards
from leadline.data.account import Account, Refusal, counted
from leadline.data.data import Data
from leadline.data.folder import Lost
from leadline.data.found_whole import Unusable
from leadline.data.frame import stem
from leadline.data.held_out import Held, Texts
from leadline.data.shards import PARTS, Shards
from leadline.data.target import Target
from leadline.data.tokens import Tokens
from leadline.data.vocabulary import token_characters, token_sizes, trained
from leadline.errors import DataError
from leadline.text.tokenizer import Tokenizer


class Documents(Texts, Protocol):
    """Texts, with what became of those that were not used."""

    @property
    def read(self) -> int: ...
    @property
    def lost(self) -> Lost: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Packing:
    """From documents to rows of tokens.

    Args:
        task: next or masked.
        tokenizer: given, or None to train one.
        kind, num_tokens: of the one that is trained.
        length: tokens of a row.
        cache: keep them.
        one: what documents are read out of: a "file" each, or a "row" of a table.
        p_hidden: part of the words that are hidden, of masked ones.
    """

    task: str
    tokenizer: Tokenizer | None
    kind: str
    num_tokens: int | None
    length: int
    cache: bool
    one: str = "file"
    p_hidden: float = 0.15

    def data(self, read: Callable[[], Documents], held: Held, place: Path, told: dict[str, Any]) -> Data:
        """The data; of a cache where it was made before.

        Args:
            read: the documents, which are read only if they must be.
            held: which of them are held out.
            place: where they lie.
            told: what else they depend on, such as what the files hold.
        """
        own = [self.kind, self.num_tokens] if self.tokenizer is None else self.tokenizer.to_json()
        how = [held.val, held.test, held.seed, held.every]
        key = shards.key_of({**told, "place": str(place.resolve()), "held": how, "tokenizer": own})
        try:
            if not self.cache:
                raise Unusable
            made = shards.stored(key)
        except Unusable:
            made = self._made(read, held, stem(place), key if self.cache else None)
        return self._rows(made, place)

    def _made(self, read: Callable[[], Documents], held: Held, name: str, key: str | None) -> Shards:
        began, texts, own = time.monotonic(), read(), self.tokenizer
        total = sum(texts.sizes)
        if own is None:
            training = (piece for part, piece, _ in held.routed(texts) if part == 0)
            own = trained(training, total, self.kind, self.num_tokens)
        Tokens(self.task, self.length, own)  # refuses a tokenizer that lacks what the task needs
        told = {
            "read": texts.read,
            "refused": [[refusal.reason, refusal.count] for refusal in texts.lost.refusals()],
            "notes": [*texts.notes, *held.told(texts.digests)],
            "documents": len(texts.sizes),
        }
        spent = time.monotonic() - began
        return shards.made(key, own, held.routed(texts), total=total, name=name, told=told, spent=spent)

    def _rows(self, made: Shards, place: Path) -> Data:
        inputs = Tokens(self.task, self.length, made.tokenizer, p_hidden=self.p_hidden)
        train, val, test = made.splits(self.length, shifted=self.task == "next")
        count, own = made.counts[0].tokens, made.tokenizer
        if count <= self.length:
            raise DataError(
                "a row must be shorter than the training text",
                got=f"length={self.length} for {counted(count, 'token')}",
                do=f"Pass length={max(2, count // 8)}, or add more text" if count > 2 else "Add more text",
            )
        asked = (count - 1) / len(train) if self.task == "next" else inputs.p_hidden * count / len(train)
        name = "next token" if self.task == "next" else "hidden token"
        most = int(inputs.num_hidden(torch.tensor(self.length))) if self.task == "masked" else None
        sizes: dict[str, Any] = {"sizes": token_sizes(own), "characters": token_characters(own)}
        target = Target("tokens", name, dim=own.num_tokens, scale=(asked,), most=most, **sizes)
        return Data(train, val, test, target, inputs, stem(place), None, _account(made, place.name, self.one))


def _account(made: Shards, name: str, one: str) -> Account:
    told, counts = made.told, made.counts
    total, closing = sum(own.tokens for own in counts), sum(own.documents for own in counts)
    size = sum(own.bytes for own in counts) / max(1, total - closing)
    line = f"{total:,} tokens of {made.tokenizer.num_tokens:,}, {size:.2f} bytes each"
    parts = ", ".join(f"{part} {own.tokens:,}" for part, own in zip(PARTS, counts))
    return Account(
        name,
        told["read"],
        tuple(Refusal(reason, count) for reason, count in told["refused"]),
        (f"{line}, in {counted(told['documents'], 'document')}",),
        (f"tokens: {parts}", *told["notes"]),
        one=one,
    )
