"""Vocabularies out of a corpus: from the letters of bytes to pieces of words.

    bpe         merge the pair of neighbours that is most frequent, again and again       (Sennrich et al., 2016)
    wordpiece   the same, but a piece that continues a word is another token than one that begins it; a word is
                written with the longest piece that fits, again and again                 (Schuster & Nakajima, 2012)
    unigram     p(word) = Σ over ways to write it Π p(piece): start with many pieces, fit p, and drop those that the
                likelihood misses least; a word is written in its most probable way       (Kudo, 2018)
    bytes       the 256 bytes
    characters  the most frequent characters; any other is written as its bytes
    words       the most frequent words, which are what stands between single spaces; any other is written as its bytes

The first three work on the bytes of words, so that every text can be written and comes back as it was. A corpus is
cut into words as GPT-2 does it (a space belongs to the word after it), and words of more than 128 bytes are cut again.
Equal corpora give equal vocabularies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadline.errors import DataError, UserError
from leadline.names import lookup
from leadline.settings import whole
from leadline.text.alphabet import fallback, letters
from leadline.text.corpus import BREAK, pieces
from leadline.text.unigram import unigram

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: in front of a piece that continues a word: no letter of the byte alphabet, so that no text can hold it
CONTINUED = "…"
#: bytes of a word; the time to merge a longer one grows with the square of its length
LONGEST = 128
#: different words that are counted; when there are more, the rarer half is forgotten
MOST_WORDS = 1 << 21

#: a word with the space before it, or white space that belongs to no word
WORD = re.compile(r" ?\S+|\s")

_BYTES = "bytes"


def trained(
    texts: Iterable[str | Path] | Path,
    kind: str,
    num_tokens: int | None,
    specials: tuple[str, ...],
    progress: Callable[[int], None] | None = None,
) -> Tokenizer:
    """A tokenizer of the tokenizers library, fitted to a corpus; special tokens have the first ids.

    >>> trained(["sea sea see"], "bpe", 260, ("<pad>",)).encode("sea see").tokens
    ['sea', 'Ġse', 'e']
    """
    train, base, usual = lookup(kind, _KINDS, "kind")
    names = _checked(specials)
    least = len(names) + base
    size = (
        least if num_tokens is None and not usual else whole("num_tokens", usual if num_tokens is None else num_tokens)
    )
    if size < least:
        raise UserError(
            f"num_tokens must hold {len(names)} special tokens and {base} of kind {kind.lower()}",
            got=f"num_tokens={size}", do=f"Pass {least} or more",
        )  # fmt: skip
    parts: Iterator[str] = iter(())
    if kind.lower() != _BYTES:
        parts = pieces(texts, progress)
        first = next(parts, None)
        if first is None:
            raise DataError("a corpus must have text", got="none", do="Pass texts that are not empty")
        parts = chain([first], parts)
    made = train(parts, names, size)
    return _with_specials(made, names)


def _bpe(parts: Iterator[str], names: list[str], size: int) -> Tokenizer:
    from tokenizers import models, trainers

    made = _words(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=names, initial_alphabet=list(letters()), show_progress=False
    )
    made.train_from_iterator(parts, trainer)
    return made


def _wordpiece(parts: Iterator[str], names: list[str], size: int) -> Tokenizer:
    from tokenizers import decoders, models, trainers

    # given beforehand, the letters have their ids before the trainer meets words in an order of its own
    known = [*names, *letters(), *(CONTINUED + letter for letter in letters())]
    fitted = _words(models.WordPiece())
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=known, continuing_subword_prefix=CONTINUED, show_progress=False
    )
    fitted.train_from_iterator(parts, trainer)
    options: dict[str, Any] = {"unk_token": "<unk>", "max_input_chars_per_word": LONGEST}
    vocab = fitted.get_vocab(with_added_tokens=False)
    made = _words(models.WordPiece(vocab, continuing_subword_prefix=CONTINUED, **options))
    made.decoder = decoders.Sequence([decoders.Replace(CONTINUED, ""), decoders.ByteLevel()])
    return made


def _unigram(parts: Iterator[str], names: list[str], size: int) -> Tokenizer:
    from tokenizers import models

    scores = unigram(_counted(parts), letters(), size - len(names))
    return _words(models.Unigram([*((name, 0.0) for name in names), *scores.items()]))


def _counted(parts: Iterator[str]) -> Counter[str]:
    """How often each word comes, in the letters of bytes."""
    from tokenizers import models

    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(BREAK.split(part))
        if len(counts) > MOST_WORDS:
            counts = Counter(dict(counts.most_common(MOST_WORDS // 2)))
    split, words = _words(models.BPE()).pre_tokenizer, Counter[str]()
    for text, count in counts.items():
        for word, _ in split.pre_tokenize_str(text):
            words[word] += count
    return words


def _bytes(parts: Iterator[str], names: list[str], size: int) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.BPE(_numbered([*names, *letters()]), []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return made


def _characters(parts: Iterator[str], names: list[str], size: int) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models

    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part)
    codes = [fallback(byte) for byte in range(256)]
    most = sorted(counts, key=lambda character: (-counts[character], character))[: size - len(names) - len(codes)]
    made = Tokenizer(models.BPE(_numbered([*names, *codes, *most]), [], byte_fallback=True))
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return made


def _whole_words(parts: Iterator[str], names: list[str], size: int) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(WORD.findall(part if part[0] == " " else f" {part}"))
    byte, room = letters(), size - len(names) - 256
    words = ("".join(byte[b] for b in word.encode()) for word in sorted(counts, key=lambda word: (-counts[word], word)))
    most = [word for word in words if len(word) > 1][:room]
    made = Tokenizer(models.BPE(_numbered([*names, *byte, *most]), [], ignore_merges=True))
    made.normalizer = normalizers.Prepend(" ")  # so that the first word is the same token as it is anywhere else
    split = pre_tokenizers.Split(Regex(WORD.pattern), "isolated")
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, bytewise])
    made.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return made


#: how each kind is fitted, the tokens that it begins with, and the usual number of all of them (0: no more than those)
_KINDS: dict[str, tuple[Callable[[Iterator[str], list[str], int], Tokenizer], int, int]] = {
    "bpe": (_bpe, 256, 8192),
    "wordpiece": (_wordpiece, 512, 8192),
    "unigram": (_unigram, 256, 8192),
    _BYTES: (_bytes, 256, 0),
    "characters": (_characters, 256, 8192),
    "words": (_whole_words, 256, 8192),
}
KINDS = tuple(_KINDS)


def _words(model: Any) -> Tokenizer:
    """A tokenizer of the bytes of words."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers

    made = Tokenizer(model)
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.FixedLength(length=LONGEST)])
    made.decoder = decoders.ByteLevel()
    return made


def _numbered(tokens: list[str]) -> dict[str, int]:
    return {token: code for code, token in enumerate(tokens)}


def _with_specials(made: Tokenizer, names: list[str]) -> Tokenizer:
    from tokenizers import AddedToken

    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return made


def _checked(specials: tuple[str, ...]) -> list[str]:
    """The names of special tokens, `<pad>` first."""
    if isinstance(specials, str):
        raise UserError("specials must be several names", got=f"specials={specials!r}", do=f"Pass ({specials!r},)")
    codes = {fallback(byte) for byte in range(256)}
    for name in specials:
        if not isinstance(name, str) or not re.fullmatch(r"[<\[][!-~]+[>\]]", name) or name in codes:
            raise UserError(
                "a special token must be a word in brackets", got=repr(name), do="Write it as <end> or [END]"
            )
    return list(dict.fromkeys(("<pad>", *specials)))
