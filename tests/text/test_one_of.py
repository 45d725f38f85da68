"""Texts of several tokens that alone may be written: the tree of them against every text there is."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.engine.decoder import Cached, Recomputing
from leadline.errors import UserError
from leadline.models import GPT
from leadline.text.beam import beam_search
from leadline.text.choosing import Choice
from leadline.text.decoding import generate
from leadline.text.one_of import OneOf
from leadline.text.stopping import Stop

V, END = 5, 0
rows_of_tokens = st.lists(st.lists(st.integers(1, V - 1), min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(rows_of_tokens, st.booleans())
def test_what_may_come_is_what_begins_a_text(rows, again):
    tree = OneOf(rows, V, END, again)
    texts = {tuple(row) for row in rows}
    if again:
        texts = {tuple(itertools.chain(*some)) for num in range(1, 6) for some in itertools.product(texts, repeat=num)}
    for size in range(4):
        for words in itertools.product(range(1, V), repeat=size):
            on_path = [text for text in texts if text[:size] == words]
            expected = {text[size] for text in on_path if len(text) > size} | ({END} if words in texts else set())
            assert tree.after(words) == (expected or {END})


def scores(seed=0):
    return torch.randn(V, V, generator=torch.Generator().manual_seed(seed))


PROMPTS = [[1], [2, 3, 4], [4, 4]]
ROWS = [[1, 2, 3], [1, 2], [4, 1], [3]]


def ranked(prompt, table):
    """The rows and their log-probabilities with the end behind them, the best first."""
    log_p = table.log_softmax(-1)
    steps = {tuple(row): [prompt[-1], *row, END] for row in ROWS}
    total = {row: float(sum(log_p[a, b] for a, b in itertools.pairwise(path))) for row, path in steps.items()}
    return sorted(((score, [*row, END]) for row, score in total.items()), reverse=True)


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_ranks_all_of_the_texts(seed):
    table, stop = scores(seed), Stop(tokens=(END,))
    found = beam_search(
        Recomputing(lambda rows: table[rows]), PROMPTS, 9, 6, stop, 6, penalty=0.0, allowed=OneOf(ROWS, V, END)
    )
    for prompt, texts in zip(PROMPTS, found):
        expected = ranked(prompt, table)
        assert [text.tokens for text in texts] == [row for _, row in expected]
        assert [text.score for text in texts] == pytest.approx([score for score, _ in expected], abs=1e-5)


@pytest.mark.parametrize("choice", [{"temperature": 0}, {}, {"top_k": 2}, {"repetition": 1.3}])
def test_words_that_are_chosen_stay_on_the_tree_in_prompts_of_any_length(choice):
    torch.manual_seed(0)
    scorer = Cached(GPT(V, 12, dim=8, num_layers=1, num_heads=2))
    found = generate(scorer, PROMPTS, 6, Choice(allowed=OneOf(ROWS, V, END), **choice), Stop(tokens=(END,)), seeds=7)
    for seed, (prompt, text) in enumerate(zip(PROMPTS, found)):
        assert text.tokens[:-1] in ROWS and text.tokens[-1] == END and text.why == "token"
        made = Choice(allowed=OneOf(ROWS, V, END), **choice)
        assert generate(scorer, [prompt], 6, made, Stop(tokens=(END,)), seeds=7 + seed)[0].tokens == text.tokens


def test_beams_take_a_function_of_the_words_so_far():
    told = []

    def rising(seen):  # no word below the last one
        told.append(seen)
        return torch.arange(V) >= torch.where(seen < 0, -1, seen).amax(1, keepdim=True)

    table = scores()
    found = beam_search(Recomputing(lambda rows: table[rows]), PROMPTS[:2], 4, 2, count=2, allowed=rising)
    assert [row.tolist() for row in told[0]] == [[1, -1, -1]] * 2 + [[2, 3, 4]] * 2
    for prompt, texts in zip(PROMPTS, found):
        assert texts and all(text.tokens == sorted(text.tokens) and text.tokens[0] >= max(prompt) for text in texts)


def test_beams_take_words_of_each_prompt():
    only = torch.eye(V, dtype=torch.bool)[[2, 3]]
    found = beam_search(Recomputing(lambda rows: scores()[rows]), PROMPTS[:2], 2, 3, allowed=only)
    assert [texts[0].tokens for texts in found] == [[2, 2], [3, 3]]
    with pytest.raises(UserError, match="allowed must have a row for each row of tokens. Got 2 rows for 3"):
        generate(Recomputing(lambda rows: scores()[rows]), PROMPTS, 2, Choice(allowed=only))


def test_a_text_behind_which_nothing_may_come_is_given_up():
    def allowed(seen):  # nothing behind a 1
        may = torch.ones(len(seen), V, dtype=torch.bool)
        may[(seen[:, 1:] == 1).any(1)] = False
        return may

    table = torch.zeros(V, V)
    table[:, 1] = 5.0
    (texts,) = beam_search(Recomputing(lambda rows: table[rows]), [[2]], 3, 3, allowed=allowed)
    assert texts[0].tokens[:2].count(1) == 0
    with pytest.raises(UserError, match="none after any text of prompt 0"):
        beam_search(Recomputing(lambda rows: table[rows]), [[2]], 3, 3, allowed=lambda seen: allowed(seen) & False)


def test_what_is_no_tree_is_told():
    for rows, got in (([], "no texts"), ([[1], []], "one with none")):
        with pytest.raises(UserError, match=f"must have a token. Got {got}"):
            OneOf(rows, V, END)
    with pytest.raises(UserError, match="a token must be a whole number from 0 to 4"):
        OneOf([[5]], V, END)
    with pytest.raises(UserError, match="allowed must say for each token"):
        generate(Recomputing(lambda rows: scores()[rows]), [[1]], 2, Choice(allowed=OneOf([[1]], 9, END)))
