"""A tokenizer: text to token ids and back.

    decode(encode(text)) = text      for every text, with every kind that is trained here           (1)
    encode(a text that spells a special token) holds no special token                               (2)

By (2) a document cannot end itself early: special tokens are placed by whoever builds the rows, never by what a text
says. The work is done by the `tokenizers` library, whose JSON is the format of the files: those of Hugging Face can be
read, and ours be read there. Tokenizers of others may lower case or lose spaces; (2) holds for them, (1) need not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from operator import index
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from leadline.errors import DataError, UserError
from leadline.settings import given, real, whole
from leadline.text.alphabet import bytes_of, fallback
from leadline.text.bpe_dropout import merged
from leadline.text.corpus import cut
from leadline.text.stream import Stream
from leadline.text.training import WORD, trained

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Inner

#: what special tokens are for, and the names that they usually have
ROLES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "end": ("<end>", "<|endoftext|>", "</s>", "<eos>", "[EOS]", "<|end_of_text|>"),
    "start": ("<start>", "<s>", "<bos>", "[BOS]", "<|begin_of_text|>"),
    "mask": ("<mask>", "[MASK]"),
    "cls": ("<cls>", "[CLS]"),
    "sep": ("<sep>", "[SEP]"),
    "unknown": ("<unknown>", "<unk>", "[UNK]"),
}
SPECIALS = ("<pad>", "<end>", "<start>", "<mask>", "<cls>", "<sep>")
_TOGETHER = 1 << 22  # characters that are encoded at once
_MOST = 1 << 24  # tokens: a stranger's file may not ask for tables without end
_LARGEST = 1 << 28  # bytes of a file that may still be a tokenizer


class Tokenizer:
    """Text to token ids and back. `Tokenizer.train` and `Tokenizer.load` make one.

    >>> words = Tokenizer.train(["sea see sea see"], num_tokens=270)
    >>> ids = words.encode("sea see")
    >>> [words.token(i) for i in ids], words.decode(ids)
    (['sea', 'Ġsee'], 'sea see')
    >>> words.pad, words.end, words.token(1), words.unknown
    (0, 1, '<end>', None)
    """

    def __init__(self, inner: Inner):
        self._inner = inner
        self.num_tokens = 1 + max(inner.get_vocab(with_added_tokens=True).values(), default=-1)
        """V: one more than the largest id"""
        if self.num_tokens > _MOST:  # before anything is written, which would count through all of them
            raise DataError(
                "ids must be below 2^24", got=f"{self.num_tokens - 1}", do="Number the tokens from 0 without gaps"
            )
        inner.no_padding()
        inner.no_truncation()
        inner.encode_special_tokens = True  # eq. 2: a special token's name is text like any other
        self._json: dict[str, Any] = json.loads(inner.to_str())
        self._added = inner.get_added_tokens_decoder()
        roles = self._roles()
        self.pad, self.end, self.start = roles["pad"], roles["end"], roles["start"]
        """ids of the tokens that fill a row, close a document and begin one; None where there is none"""
        self.mask, self.cls, self.sep = roles["mask"], roles["cls"], roles["sep"]
        """ids of the tokens that hide another, stand for a whole row, and stand between two segments"""
        self.unknown = roles["unknown"]
        """id for what the vocabulary lacks"""

    @classmethod
    def train(
        cls,
        texts: Iterable[str | Path] | Path,
        kind: str = "bpe",
        num_tokens: int | None = None,
        specials: Sequence[str] = SPECIALS,
        progress: Callable[[int], None] | None = None,
    ) -> Tokenizer:
        """A tokenizer fitted to a corpus, which is read once and as a stream.

        Args:
            texts: strings; or files, each a Path, UTF-8, `.gz` too.
            kind: bpe, wordpiece, unigram, bytes, characters or words; see `leadline.text.training`.
            num_tokens: V at most, special tokens included; None is 8192, or what bytes need.
            specials: names of special tokens, which get the first ids; `<pad>` is 0 in any case.
            progress: is called with the number of characters read so far.

        >>> Tokenizer.train([], "bytes", specials=("<end>",)).encode("sea")
        [117, 103, 99]
        """
        return cls(trained(texts, kind, num_tokens, specials, progress))  # type: ignore[arg-type]

    def encode(self, text: str, *, p_drop: float = 0.0, seed: int = 0) -> list[int]:
        """The ids of a text. No special token is added, and none is read out of it.

        Args:
            p_drop: of BPE dropout, from 0 to 1; only for kind bpe.
            seed: of BPE dropout, at least 0.
        """
        if real("p_drop", p_drop, 0, most=1, usual=0.1):
            return self._dropped(text, p_drop, whole("seed", seed, 0, usual=0))
        return self.encode_many([text])[0].tolist()

    def encode_many(self, texts: Iterable[str]) -> list[np.ndarray]:
        """The ids of each text, in the smallest type that holds them all; on all cores, in bounded memory.

        >>> Tokenizer.train([], "bytes").encode_many(["a", "", "bc"])[2]
        array([104, 105], dtype=uint16)
        """
        parts: list[list[np.ndarray]] = []
        for group in _together(self._cut(texts, parts)):
            try:
                codes = self._inner.encode_batch_fast([part for _, part in group], add_special_tokens=False)
            except (TypeError, UnicodeEncodeError):
                raise DataError(
                    "a text must be a string of Unicode characters",
                    got="half a surrogate pair, which comes from bytes that are not UTF-8",
                    do="Save it as UTF-8",
                ) from None
            except Exception as error:  # the library raises no class of its own
                raise DataError(
                    "a text must have only what the tokenizer knows", got=str(error), do="Use a tokenizer with <unk>"
                ) from None
            for (i, _), code in zip(group, codes, strict=True):
                parts[i].append(self._as_text(np.array(code.ids, dtype=self.dtype)))
        nothing = np.zeros(0, dtype=self.dtype)
        return [np.concatenate(part) if part else nothing for part in parts]

    def places(self, text: str) -> np.ndarray:
        """Where each token of a text stands in it, (T, 2): its first character, and the one after its last.

        >>> sea = Tokenizer.train(["sea sea"], num_tokens=270)
        >>> sea.places("sea sea").tolist()
        [[0, 3], [3, 7]]
        """
        ids = self.encode_many([text])[0]
        points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        letters = (1 + np.searchsorted([1 << 7, 1 << 11, 1 << 16], points, "right")).cumsum()  # ends, in bytes of UTF-8
        ends = self.token_bytes[ids].cumsum()
        if self.exact and len(ends) and ends[-1] == letters[-1]:
            begins = np.append(0, ends[:-1])
            return np.stack([np.searchsorted(letters, begins, "right"), np.searchsorted(letters, ends) + 1], 1)
        code = self._inner.encode(text, add_special_tokens=False)
        wrong = self._forbidden[np.array(code.ids, dtype=np.int64)]
        times = [len(self._spelled(id)) if bad else 1 for id, bad in zip(code.ids, wrong.tolist())]
        return np.array(code.offsets, dtype=np.int64).reshape(-1, 2).repeat(times, 0)

    def decode(self, ids: Iterable[int], after: Sequence[int] = ()) -> str:
        """The text of ids; special tokens are left out, and bytes that are no UTF-8 become `�`.

        Args:
            after: ids before them. Some vocabularies write the space before a word only where something stands there.

        >>> Tokenizer.train([], "bytes").decode([0, 121, 107, 103, 1])
        'sea'
        """
        codes = self._checked(ids)
        if self.exact:
            return b"".join(map(self._bytes.__getitem__, codes)).decode("utf-8", "replace")
        before = self._inner.decode(list(after), skip_special_tokens=True)
        whole = self._inner.decode([*after, *codes], skip_special_tokens=True)
        return whole[len(before) :] if whole.startswith(before) else self._inner.decode(codes, skip_special_tokens=True)

    def stream(self, after: Sequence[int] = ()) -> Stream:
        """Text as ids arrive one by one, `after` others."""
        return Stream(self, after)

    def token(self, id: int) -> str:
        """How the vocabulary writes a token: `Ġ` is a space in most of them."""
        [id] = self._checked([id])
        return self._inner.id_to_token(id) or ""

    def id(self, token: str) -> int | None:
        """The id of a token as the vocabulary writes it; None where it has none."""
        return self._inner.token_to_id(token)

    def bytes_of(self, id: int) -> bytes:
        """What a token adds to the text, b"" for a special one.

        >>> sea = Tokenizer.train(["sea sea"], num_tokens=270)
        >>> sea.bytes_of(sea.id("Ġsea")), sea.bytes_of(sea.end)
        (b' sea', b'')
        """
        [id] = self._checked([id])
        return self._bytes[id]

    def lacking(self, text: str) -> list[str]:
        """What of a text this vocabulary has no token for and spells byte by byte, each once: characters, or words of
        kind words; of kinds that are made to spell, nothing.

        >>> Tokenizer.train(["a sea"], "characters").lacking("née"), Tokenizer.train(["a sea"], "words").lacking("a sé")
        (['n', 'é'], ['sé'])
        """
        known = self._spelled_whole
        if known is None:
            return []
        if self.kind == "characters":
            return list(dict.fromkeys(letter for letter in text if letter not in known))
        words = dict.fromkeys(WORD.findall(f" {text}") if text else ())
        return [word.strip() for word in words if word not in known and word.strip()]

    @cached_property
    def _spelled_whole(self) -> frozenset[str] | None:
        """Characters, or words with the space before them, that are one token; None of kinds that are made to spell."""
        if self.kind == "characters":
            return frozenset(token for token in self._inner.get_vocab(with_added_tokens=False) if len(token) == 1)
        if self.kind != "words":
            return None
        return frozenset(piece.decode("utf-8", "replace") for piece in self._bytes if len(piece) > 1)

    @cached_property
    def token_bytes(self) -> np.ndarray:
        """How many bytes each token adds to the text, (V,)."""
        return np.array([len(piece) for piece in self._bytes], dtype=np.int64)

    @cached_property
    def special(self) -> np.ndarray:
        """Which tokens are special, (V,)."""
        flags = np.zeros(self.num_tokens, dtype=bool)
        flags[[code for code, added in self._added.items() if added.special]] = True
        return flags

    @property
    def dtype(self) -> np.dtype:
        """The smallest type that holds all ids."""
        last = self.num_tokens - 1
        return np.dtype(np.uint8 if last < 1 << 8 else np.uint16 if last < 1 << 16 else np.int32)

    @property
    def kind(self) -> str:
        """bpe, wordpiece, unigram, bytes, characters or words; of others' tokenizers what their model is called."""
        model = self._json["model"]
        if model["type"] == "BPE" and not model["merges"]:
            if model.get("ignore_merges"):
                return "words"
            return "characters" if model["byte_fallback"] else "bytes"
        return model["type"].lower()

    @cached_property
    def exact(self) -> bool:
        """Whether the text of ids is what their bytes say: so of all that are trained here, and of GPT-2's kind."""
        decoder = self._json["decoder"] or {}
        kinds = [part["type"] for part in decoder.get("decoders", [decoder])] if decoder else []
        return kinds in (["ByteLevel"], ["Replace", "ByteLevel"]) or (
            kinds == ["ByteFallback", "Fuse"] and self._json["pre_tokenizer"] is self._json["normalizer"] is None
        )

    def to_json(self) -> str:
        """All of it, as `from_json` and the tokenizers library read it."""
        return self._inner.to_str()

    @classmethod
    def from_json(cls, text: str) -> Tokenizer:
        """The tokenizer that `to_json` wrote, or that a tokenizer.json of Hugging Face holds.

        >>> Tokenizer.from_json("{}")
        Traceback (most recent call last):
        leadline.errors.DataError: a tokenizer must be JSON of the tokenizers library. Got no model in it. Pass the \
text of a tokenizer.json.
        """
        return cls(_parsed(text))

    def save(self, path: str | Path) -> None:
        """Write the JSON, all of it or nothing."""
        path = Path(path)
        part = path.with_name(f".{path.name}.part")
        try:
            part.write_text(self.to_json(), encoding="utf-8")
            os.replace(part, path)
        except OSError as error:
            raise DataError("a tokenizer's file must be writable", got=str(error), do="Pass another path") from None

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """The tokenizer of a JSON file that `save` wrote, or of a Hugging Face tokenizer.json."""
        path = Path(path)
        try:
            if path.stat().st_size > _LARGEST:
                raise DataError("a tokenizer's file must be below 256 MiB", got=str(path), do="Pass a tokenizer.json")
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = "which is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise DataError(
                "a tokenizer's file must be readable", got=f"{path}: {why}", do="Pass a tokenizer.json"
            ) from None
        try:
            return cls.from_json(text)
        except DataError as error:
            raise DataError(error.must, got=f"{path}: {error.got}", do="Restore it, or name another file") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer.from_json, (self.to_json(),)

    def __len__(self) -> int:
        return self.num_tokens

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {self.num_tokens} tokens)"

    def _roles(self) -> dict[str, int | None]:
        known = {added.content: code for code, added in self._added.items() if added.special}
        roles = {role: next((known[n] for n in names if n in known), None) for role, names in ROLES.items()}
        if roles["end"] is None:  # BERT's have one token for what separates and for what closes
            roles["end"] = roles["sep"]
        if roles["unknown"] is None:  # a model may name it, or number it, and not call it special
            model = self._json["model"]
            name = model.get("unk_token")
            roles["unknown"] = self.id(name) if name is not None else model.get("unk_id")
        return roles

    @cached_property
    def _bytes(self) -> list[bytes]:
        """What each id adds to the text."""
        model, decoder = self._json["model"], json.dumps(self._json["decoder"])
        codes = {fallback(byte): bytes([byte]) for byte in range(256)} if '"ByteFallback"' in decoder else {}
        prefix = model.get("continuing_subword_prefix") if model["type"] == "WordPiece" else None
        space = "▁" if '"Metaspace"' in decoder or "▁" in decoder else None
        found = [b""] * self.num_tokens
        for token, code in self._inner.get_vocab(with_added_tokens=True).items():
            if code in self._added:
                found[code] = b"" if self._added[code].special else self._added[code].content.encode()
            elif token in codes:
                found[code] = codes[token]
            else:
                token = token.removeprefix(prefix) if prefix else token
                word = bytes_of(token) if '"ByteLevel"' in decoder else None
                found[code] = (token.replace(space, " ") if space else token).encode() if word is None else word
        return found

    @cached_property
    def _cuts(self) -> bool:
        """Whether a text may be cut before a space after a word, and its parts be encoded one by one."""
        if self._json["normalizer"] or any(not added.special for added in self._added.values()):
            return False
        if self.kind in ("bytes", "characters") and self.exact:
            return True
        split = self._json["pre_tokenizer"] or {}
        first = split.get("pretokenizers", [split])[0]
        return first.get("type") == "ByteLevel" and first.get("use_regex", True) and not first["add_prefix_space"]

    def _cut(self, texts: Iterable[str], parts: list[list[np.ndarray]]) -> Iterator[tuple[int, str]]:
        """The pieces of texts, each with its text's number; `parts` gets an empty list for every text."""
        if isinstance(texts, str):
            raise UserError("texts must be several texts", got="one text", do="Pass [text], or call encode")
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise DataError("a text must be a string", got=type(text).__name__, do="Decode bytes as UTF-8 first")
            parts.append([])
            for part in cut(text) if self._cuts else [text]:
                yield i, part

    def _as_text(self, ids: np.ndarray) -> np.ndarray:
        """Eq. 2, where a model has special tokens among its pieces: they are spelled letter by letter."""
        wrong = self._forbidden[ids]
        if not wrong.any():
            return ids
        spelled = [self._spelled(code) if bad else [code] for code, bad in zip(ids.tolist(), wrong.tolist())]
        return np.array([code for codes in spelled for code in codes], dtype=ids.dtype)

    @cached_property
    def _forbidden(self) -> np.ndarray:
        flags = self.special.copy()
        if self.unknown is not None:
            flags[self.unknown] = False
        return flags

    def _spelled(self, code: int) -> list[int]:
        letters = [self.id(letter) for letter in self._added[code].content]
        return [found for letter in letters if (found := self.unknown if letter is None else letter) is not None]

    def _dropped(self, text: str, p_drop: float, seed: int) -> list[int]:
        if self.kind != "bpe" or not self._cuts:
            raise UserError("p_drop needs a byte-level tokenizer of kind bpe", got=repr(self), do="Pass p_drop=0")
        random = Random(seed)
        words = (word for part in cut(text) for word, _ in self._inner.pre_tokenizer.pre_tokenize_str(part))
        tokens = [self.id(token) for word in words for token in merged(word, self._ranks, p_drop, random)]
        return self._as_text(np.array(tokens, dtype=self.dtype)).tolist()

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in self._json["model"]["merges"])
        return {(a, b): rank for rank, (a, b) in enumerate(pairs)}

    def _checked(self, ids: Iterable[int]) -> list[int]:
        try:
            codes = [index(code) for code in (ids.tolist() if hasattr(ids, "tolist") else ids)]
        except TypeError:
            raise UserError(
                "token ids must be whole numbers", got=given("ids", ids), do="Pass a list of them, as encode gives"
            ) from None
        if codes and not 0 <= min(codes) <= max(codes) < self.num_tokens:
            worst = min(codes) if min(codes) < 0 else max(codes)
            raise UserError(
                f"token ids must be from 0 to {self.num_tokens - 1}", got=f"{worst}",
                do="Leave other numbers out, and use the tokenizer that made the ids",
            )  # fmt: skip
        return codes


def _together(parts: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Pieces in groups of some millions of characters."""
    group: list[tuple[int, str]] = []
    size = 0
    for part in parts:
        group.append(part)
        size += len(part[1]) + 64
        if size > _TOGETHER:
            yield group
            group, size = [], 0
    if group:
        yield group


def _parsed(text: str) -> Inner:
    from tokenizers import Tokenizer as Inner

    def refused(got: str) -> DataError:
        return DataError(
            "a tokenizer must be JSON of the tokenizers library", got=got, do="Pass the text of a tokenizer.json"
        )

    try:
        parts = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise refused(f"text that is not JSON ({error})") from None
    if not isinstance(parts, dict) or not isinstance(parts.get("model"), dict):
        raise refused("no model in it")
    try:
        return Inner.from_str(text)
    except Exception as error:  # the library raises no class of its own
        raise refused(str(error)) from None
