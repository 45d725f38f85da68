"""Distances by bits against the table written out, and the nearest text against all of them."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import UserError
from leadline.reference import edit_distance as table
from leadline.text.edit_distance import Memory, edit_distance
from leadline.text.translation import TranslationMemory, errors, quality

SHORT = st.text("abcé 😀", max_size=12)
LONG = st.text("ab", min_size=50, max_size=150)  # more than one word of bits, or just one


@settings(max_examples=60, deadline=None)
@given(SHORT | LONG, SHORT | LONG)
def test_bits_give_what_the_table_gives(a, b):
    assert edit_distance(a, b) == table.edit_distance(a, b) == edit_distance(b, a)


@settings(max_examples=20, deadline=None)
@given(*[st.lists(st.sampled_from(["AE", "A", "E", "T"]), max_size=9)] * 2)
def test_words_are_told_apart_as_letters_are(a, b):
    assert edit_distance(a, b) == table.edit_distance(a, b)


@settings(max_examples=30, deadline=None)
@given(st.lists(SHORT | LONG, min_size=1, max_size=12), SHORT | LONG)
def test_the_nearest_is_the_first_of_the_nearest(texts, query):
    assert Memory(texts).nearest(query) == table.nearest(query, texts)


@settings(max_examples=30, deadline=None)
@given(SHORT, SHORT, SHORT)
def test_it_is_a_distance(a, b, c):
    assert (edit_distance(a, b) == 0) is (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 129, 200])
def test_the_seams_between_words_of_bits_hold(length):
    a = "ab" * length
    a = a[:length]
    texts = [a[1:], a + "b" * 40, a[::-1], a[: length // 2], "b" * length, a[:5] + "x" + a[5:]]
    assert Memory(texts).nearest(a) == table.nearest(a, texts)
    assert [int(d) for d in _all(texts, a)] == [table.edit_distance(a, text) for text in texts]


def _all(texts, query):
    import numpy as np

    memory = Memory(texts)
    letters = np.frombuffer(query.encode("utf-32-le"), np.uint32)
    return memory._distances(letters, np.arange(len(texts)))


def test_bounds_are_never_above_the_distance():
    import numpy as np

    texts = ["the cat sat", "a mat", "éàü", "aaaa" * 20, ""]
    for query in ("cats", "mat a", "üàé", "zz"):
        bounds = Memory(texts)._bounds(np.frombuffer(query.encode("utf-32-le"), np.uint32))
        assert all(bound <= table.edit_distance(query, text) for bound, text in zip(bounds, texts, strict=True))


def test_more_texts_than_are_compared_at_once():
    texts = [f"row number {number} of many" for number in range(5000)]
    assert Memory(texts).nearest("row number 4321 of man") == (4321, 1)
    assert Memory(texts).nearest("row number 77777 of many") == (777, 2)


def test_an_empty_memory_is_refused():
    with pytest.raises(UserError, match="a memory must hold texts"):
        Memory([])
    with pytest.raises(UserError, match="a target for each source"):
        TranslationMemory(["a"], [])


# ── quality ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_errors_are_of_all_sentences_together():
    made, right = ["K AE T", "D AA", ""], [["K AE T"], ["D AO G Z", "D AO G"], ["EH", "EH S"]]
    found = errors(made, right)
    assert found.inexact == 2 / 3 and found.symbols == (0 + 2 + 1) / (3 + 3 + 1)


def test_quality_is_that_of_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    made, right = ["le chat dort ici", "il pleut"], ["le chat dort là", "il pleut beaucoup"]
    found = quality(made, right)
    assert found.bleu == sacrebleu.corpus_bleu(made, [right]).score
    assert found.chrf == sacrebleu.corpus_chrf(made, [right]).score
    assert "tok:13a" in found.signature
    with pytest.raises(UserError, match="a reference for each translation"):
        quality(["a"], [])


def test_a_reference_is_no_list_of_letters():
    with pytest.raises(UserError, match=r"several for each translation\. Got a reference='a b'"):
        errors(["a b"], ["a b"])
    for made, right in (([], []), (["a"], []), (["a", "b"], [["a"]]), (["a"], [[]])):
        with pytest.raises(UserError, match="a reference for each translation"):
            errors(made, right)


def test_a_memory_answers_with_the_target_of_the_nearest_source():
    memory = TranslationMemory(["a cat", "a dog", "the dogs"], ["un chat", "un chien", "les chiens"])
    assert memory.translate(["a cat", "the dog", "a cart"]) == ["un chat", "les chiens", "un chat"]


def test_without_sacrebleu_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(UserError, match=r"sacrebleu must be installed.* pip install sacrebleu"):
        quality(["a"], ["a"])
