"""The unigram model: sums over lattices against lists of all ways, EM that only rises, and what it leaves."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.reference import unigram as spelled_out
from leadline.reference.bpe import RHYME
from leadline.text.unigram import Lattice, unigram

PIECES = ["a", "b", "c", "ab", "bc", "abc", "aa", "cab"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=5, unique=True), st.randoms())
def test_sums_over_paths_are_sums_over_ways(words, random):
    p = {piece: random.uniform(0.05, 1) for piece in PIECES}
    counts = {word: random.randint(1, 5) for word in words}
    lattice = Lattice.of(words, {piece: i for i, piece in enumerate(PIECES)})
    logp, weight = np.log(list(p.values())), np.array(list(counts.values()), dtype=float)
    assert np.allclose(np.exp(lattice.likelihood(logp)), [spelled_out.probability(word, p) for word in words])
    assert np.allclose(lattice.expected(logp, weight), list(spelled_out.expected(counts, p).values()))
    best = [math.prod(p[x] for x in spelled_out.best(word, p)) for word in words]
    assert np.allclose(np.exp(lattice.best(logp)), best)
    fewer = lattice.without(np.array([len(piece) > 2 for piece in PIECES]))
    short = {piece: p[piece] for piece in PIECES if len(piece) < 3}
    assert np.allclose(np.exp(fewer.likelihood(logp)), [spelled_out.probability(word, short) for word in words])


def test_a_piece_without_itself():
    lattice = Lattice.of(["a", "ab"], {"a": 0, "b": 1, "ab": 2}, proper=True)
    assert lattice.best(np.log([0.5, 0.25, 0.25])).tolist() == [-math.inf, pytest.approx(math.log(0.125))]


def test_em_never_lowers_the_likelihood():
    words = {word: RHYME.split().count(word) for word in RHYME.split()}
    pieces = sorted({word[i:j] for word in words for i in range(len(word)) for j in range(i + 1, len(word) + 1)})
    lattice = Lattice.of(list(words), {piece: i for i, piece in enumerate(pieces)})
    weight = np.array(list(words.values()), dtype=float)
    logp = np.full(len(pieces), -math.log(len(pieces)))
    course = []
    for _ in range(8):
        course.append(float(lattice.likelihood(logp) @ weight))
        n = lattice.expected(logp, weight)
        logp = np.log(np.maximum(n, 1e-300) / n.sum())
    assert all(a <= b + 1e-9 for a, b in pairwise(course)) and course[-1] > course[0] + 10


def test_frequent_words_are_pieces_and_letters_stay():
    counts = {word: RHYME.split().count(word) for word in RHYME.split()}
    letters = sorted(set("".join(counts)) | {"z"})
    found = unigram(counts, letters, len(letters) + 4)
    assert len(found) == len(letters) + 4 and set(letters) <= set(found) and {"see", "sea"} <= set(found)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert math.isclose(sum(map(math.exp, found.values())), 1, abs_tol=0.01)
    assert found["z"] == min(found.values())
    assert unigram(dict(reversed(counts.items())), letters, len(letters) + 4) == found  # whatever the order
    assert set(unigram(counts, letters, len(letters))) == set(letters)
    assert set(unigram({"a": 1}, ["a"], 9)) == {"a"}


def test_it_writes_shorter_than_the_library():
    """Whose seeds are the substrings of different words, however frequent those are."""
    tokenizers = pytest.importorskip("tokenizers")
    from leadline.text import Tokenizer

    text = (RHYME + "\n") * 4 + " ".join(f"{a}{b}" for a in RHYME.split() for b in ("ed", "ing", "s"))
    alphabet = sorted(set(tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    theirs = tokenizers.Tokenizer(tokenizers.models.Unigram())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=320, initial_alphabet=alphabet, special_tokens=["<pad>"], show_progress=False
    )
    theirs.train_from_iterator([text], trainer)
    ours = Tokenizer.train([text], "unigram", theirs.get_vocab_size(), specials=())
    assert ours.num_tokens <= theirs.get_vocab_size()
    assert len(ours.encode(text)) <= len(theirs.encode(text).ids)
