"""Byte pair encoding spelled out: the rhyme's printed counts, and the merges of an independent library."""

from collections import Counter
from itertools import pairwise

import pytest

from leadline.reference.bpe import RHYME, best_pair, byte_pairs, characters, frequencies, joined, segment

tokenizers = pytest.importorskip("tokenizers")


def test_the_rhyme_has_the_printed_counts():
    start = characters(RHYME)
    assert len(start) == 140 and len(RHYME.split()) == 33 and len(RHYME.splitlines()) == 4
    counts = frequencies(start)
    printed = {"_": 33, "e": 28, "s": 15, "a": 12, "t": 11, "o": 8, "h": 6, "l": 6, "u": 4, "b": 3, "d": 3, "w": 3}
    assert counts == {**printed, "c": 2, **dict.fromkeys("fimnpr", 1)}
    assert list(counts.values()) == sorted(counts.values(), reverse=True)


def test_the_rhyme_merges_to_its_words():
    merges = byte_pairs(RHYME)
    assert (merges[0].pair, merges[0].count) == (("s", "e"), 13)
    assert (merges[1].pair, merges[1].count) == (("e", "_"), 12)
    assert merges[1].tokens["_"] == 21 and merges[1].tokens["e"] == 3
    assert merges[1].tokens["w"] == 3 and merges[1].tokens["s"] == 2  # where 2 and 1 are printed
    assert len(merges) == 50 and max(merge.size for merge in merges) == 29 and merges[-1].size == 18
    assert merges[-1].tokens == {f"{word}_": count for word, count in Counter(RHYME.split()).items()}
    assert merges[-1].tokens["see_"] == 7 and merges[-1].tokens["sea_"] == 6


def test_as_printed_the_rhyme_would_merge_otherwise():
    first = byte_pairs(RHYME.replace("sea", "see", 3), 1)[0]
    assert (first.pair, first.count) == (("e", "_"), 15)


def test_no_token_reaches_into_the_next_word():
    for merge in byte_pairs(RHYME):
        assert all("_" not in token[:-1] for token in merge.tokens)
    assert best_pair(characters("a a a")) == (("a", "_"), 3)
    assert byte_pairs("") == [] and byte_pairs(" \n ") == []


def test_a_merge_goes_from_left_to_right():
    assert joined(list("aaa"), ("a", "a")) == ["aa", "a"]
    assert joined([], ("a", "a")) == []


@pytest.mark.parametrize("most", [1, 5, 10])
def test_merges_are_those_of_the_library_where_no_pairs_tie(most):
    words = {"dba": 71, "ba": 67, "ab": 75, "dc": 77, "cb": 31, "ca": 56, "cc": 74}
    text = " ".join(word for word, count in words.items() for _ in range(count))
    ours = byte_pairs(text, most)
    assert _untied(text, most)
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=len(set(characters(text))) + most, show_progress=False, special_tokens=[]
    )
    theirs.train_from_iterator([" ".join(f"{word}_" for word in text.split())], trainer)
    learned = sorted(theirs.get_vocab().items(), key=lambda item: item[1])[-most:]
    assert ["".join(merge.pair) for merge in ours] == [token for token, _ in learned]
    for word in words:
        assert segment(list(f"{word}_"), [merge.pair for merge in ours]) == theirs.encode(f"{word}_").tokens


def _untied(text, most):
    tokens = characters(text)
    for merge in byte_pairs(text, most):
        pairs = Counter((a, b) for a, b in pairwise(tokens) if not a.endswith("_"))
        if list(pairs.values()).count(merge.count) > 1:
            return False
        tokens = joined(tokens, merge.pair)
    return True
