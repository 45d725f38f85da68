"""Decoding against its plain twins: greedy, drawn, constrained, beams; stops, contexts and batches."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from leadline.engine.decoder import Recomputing
from leadline.errors import UserError
from leadline.reference import decoding as plain
from leadline.text.beam import beam_search
from leadline.text.choosing import GREEDY, Choice, drawn, nucleus, uniform
from leadline.text.decoding import NewToken, generate, stream
from leadline.text.stopping import Held, Stop, cut


def table(V=4, seed=0, spread=2.0):
    """Scores of the next word from the two words before it: (B, T) -> (B, T, V)."""
    scores = torch.randn(V + 1, V, V, generator=torch.Generator().manual_seed(seed)) * spread

    def score(rows):
        before = torch.cat([torch.full_like(rows[:, :1], V), rows[:, :-1]], 1)
        return scores[before, rows]

    return score


def log_p(score):
    """The same for the plain twins: words so far -> log-probabilities."""
    return lambda words: score(torch.tensor([list(words)]))[0, -1].log_softmax(-1).tolist()


PROMPTS = [[0], [1, 2, 3], [3, 3]]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), most=st.integers(1, 6))
def test_greedy_is_that_of_the_plain_loop(seed, most):
    score = table(seed=seed)
    for prompt, row in zip(PROMPTS, generate(Recomputing(score), PROMPTS, most, stop=Stop(tokens=(2,)))):
        assert row.tokens == plain.greedy(log_p(score), prompt, most, stop=(2,))
        total = sum(log_p(score)([*prompt, *row.tokens[:t]])[token] for t, token in enumerate(row.tokens))
        assert row.score == pytest.approx(total, abs=1e-4)
        assert row.why == ("token" if row.tokens[-1] == 2 else "most")


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), beams=st.integers(1, 5), penalty=st.sampled_from([0.0, 0.7, 1.0]))
def test_beams_are_those_of_the_plain_loop(seed, beams, penalty):
    score = table(seed=seed)
    found = beam_search(Recomputing(score), PROMPTS, 4, beams, Stop(tokens=(2,)), beams, penalty, early="never")
    for prompt, texts in zip(PROMPTS, found):
        expected = plain.beam(log_p(score), prompt, 4, beams, (2,), penalty)
        assert texts[0].tokens == list(expected[0][1])
        assert texts[0].score == pytest.approx(expected[0][0], abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("groups, diversity", [(2, 0.5), (3, 2.0), (3, 0.0), (6, 1.0)])
def test_diverse_groups_are_those_of_the_plain_loop(seed, groups, diversity):
    score = table(V=6, seed=seed)
    found = beam_search(
        Recomputing(score), PROMPTS, 3, 6, count=6, penalty=0.0, groups=groups, diversity=diversity, early="never"
    )
    for prompt, texts in zip(PROMPTS, found):
        expected = plain.beam(log_p(score), prompt, 3, 6, (), 0.0, groups, diversity)[:6]
        assert {tuple(text.tokens) for text in texts} == {words for _, words in expected}


def test_diversity_makes_texts_differ():
    score = table(V=6, seed=3, spread=3.0)

    def different(diversity):
        texts = beam_search(Recomputing(score), [[0]], 5, 4, count=4, groups=4, diversity=diversity)[0]
        return len({tuple(text.tokens) for text in texts})

    assert different(0.0) == 1  # four groups that search alike find the same
    assert different(5.0) == 4


def test_a_beam_as_wide_as_everything_finds_the_likeliest_text_and_greedy_may_not():
    worse = 0
    for seed in range(20):
        score = table(V=3, seed=seed, spread=1.0)
        best = plain.exhaustive(log_p(score), [0], 4, penalty=0.0)[0]
        (text,) = beam_search(Recomputing(score), [[0]], 4, beams=27, penalty=0.0, early="never")[0]
        assert tuple(text.tokens) == best[1] and text.score == pytest.approx(best[0], abs=1e-4)
        worse += plain.greedy(log_p(score), [0], 4) != list(best[1])
    assert worse > 0


@settings(max_examples=25, deadline=None)
@given(masses=st.lists(st.integers(1, 50), min_size=1, max_size=12), k=st.integers(1, 12), most=st.floats(0.01, 0.99))
def test_the_words_that_stay_are_those_of_the_plain_sets(masses, k, most):
    p = torch.tensor(masses, dtype=torch.float64) / sum(masses)
    kept = Choice(top_k=k).narrowed(p.log()[None])[0].isfinite().nonzero().flatten().tolist()
    assert set(kept) == plain.top_k(p.log().tolist(), k)
    chosen = nucleus(p, most)
    expected = plain.nucleus(p.tolist(), most)
    assert int(chosen.sum()) == len(expected)  # words of one mass may stand for each other
    held = float(p[chosen].sum())
    assert held >= most - 1e-9 and held - float(p[chosen].min()) < most + 1e-9


def test_a_nucleus_that_is_full_takes_no_more():
    assert nucleus(torch.tensor([0.25, 0.5, 0.25]), 0.5).tolist() == [False, True, False]
    assert nucleus(torch.tensor([0.25, 0.5, 0.25]), 0.51).tolist() == [True, True, False]
    assert nucleus(torch.tensor([0.25, 0.5, 0.25]), 1e-9).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "choice", [Choice(), Choice(temperature=0.5), Choice(top_k=3), Choice(top_p=0.7), Choice(min_p=0.3)]
)
def test_words_are_drawn_as_often_as_their_probability_says(choice):
    scores = torch.tensor([1.0, 0.2, -0.5, 0.9, -2.0]).expand(20_000, 5)
    words = choice(scores, torch.arange(20_000), torch.tensor(3))
    p = choice.narrowed(scores[:1])[0].double().softmax(0)
    counts = torch.bincount(words, minlength=5)
    assert not counts[p == 0].any()
    assert chisquare(counts[p > 0], 20_000 * p[p > 0] / p.sum()).pvalue > 1e-3


def test_a_temperature_divides_scores_and_each_row_is_narrowed_alone():
    scores = torch.tensor([[1.0, 0.2, -0.5, 0.9], [0.0, 5.0, 4.9, -3.0], [2.0, 2.0, 2.0, 2.0]])
    torch.testing.assert_close(Choice(temperature=0.5).narrowed(scores), 2 * scores)
    torch.testing.assert_close(Choice(temperature=4.0).narrowed(scores), scores / 4)
    for choice in (Choice(min_p=0.5), Choice(top_p=0.6), Choice(top_k=2), Choice(repetition=1.5)):
        seen = torch.tensor([[0, 1], [1, -1], [3, -1]])
        alone = [choice.narrowed(row[None], before[None])[0] for row, before in zip(scores, seen)]
        assert torch.equal(choice.narrowed(scores, seen), torch.stack(alone))


def test_the_likeliest_word_is_told_from_what_must_be_looked_at():
    listed, rows = torch.tensor([True, False]), torch.tensor([[True, False], [True, True]])
    assert GREEDY.takes_likeliest and Choice(temperature=0, allowed=listed).takes_likeliest
    others = ({"temperature": 1.0}, {"repetition": 1.5}, {"allowed": rows}, {"allowed": lambda seen: listed})
    assert not any(Choice(**{"temperature": 0, **other}).takes_likeliest for other in others)
    assert [Choice(**other).looks_back for other in others] == [False, True, False, True]


def test_uniform_numbers_are_those_of_splitmix64():
    whole, step = 2**64 - 1, 0x9E3779B97F4A7C15

    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & whole
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & whole
        return z ^ (z >> 31)

    for seed in (0, 7, 2**62):
        for number in (0, 1, 999):
            z = mix(mix(seed + step & whole) + (number + 1) * step & whole)
            assert float(uniform(torch.tensor([seed]), torch.tensor(number))) == (z >> 11) * 2.0**-53


def test_uniform_numbers_are_uniform_over_seeds_and_over_numbers():
    for u in (uniform(torch.arange(20_000), torch.tensor(0)), uniform(torch.tensor([7]), torch.arange(20_000))):
        assert float(u.min()) >= 0 and float(u.max()) < 1
        assert chisquare(torch.histc(u.float(), 50, 0, 1)).pvalue > 1e-3
        pairs = torch.histogramdd(torch.stack([u[:-1], u[1:]], 1).float(), [5, 5], range=[0.0, 1.0, 0.0, 1.0]).hist
        assert chisquare(pairs.flatten()).pvalue > 1e-3


def test_the_ends_of_the_line_are_drawn_right():
    scores = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0, -math.inf]]).expand(3, 5)
    assert drawn(scores, torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)).tolist() == [1, 3, 3]


def test_the_same_seed_gives_the_same_text_whatever_the_batch():
    scorer, choice = Recomputing(table(V=8)), Choice(temperature=0.9, top_k=6)
    together = generate(scorer, PROMPTS, 10, choice, seeds=[5, 6, 7])
    assert [row.tokens for row in together] == [row.tokens for row in generate(scorer, PROMPTS, 10, choice, seeds=5)]
    for prompt, seed, row in zip(PROMPTS, (5, 6, 7), together):
        assert generate(scorer, [prompt], 10, choice, seeds=seed)[0].tokens == row.tokens
    others = generate(scorer, PROMPTS, 10, choice, seeds=100)
    assert [row.tokens for row in others] != [row.tokens for row in together]


def test_words_that_may_not_come_do_not():
    allowed = torch.tensor([True, False, True, False])
    for row in generate(Recomputing(table()), PROMPTS, 8, Choice(allowed=allowed)):
        assert set(row.tokens) <= {0, 2}
    (text,) = beam_search(Recomputing(table()), [[1]], 4, 3, allowed=allowed)[0]
    assert set(text.tokens) <= {0, 2}

    def rising(seen):  # no word below the last one
        last = torch.where(seen < 0, -1, seen).amax(1, keepdim=True)
        return torch.arange(4) >= last

    for prompt, row in zip(PROMPTS, generate(Recomputing(table()), PROMPTS, 6, Choice(allowed=rising))):
        assert row.tokens == sorted(row.tokens) and row.tokens[0] >= max(prompt)
    with pytest.raises(UserError, match="at least one token must be allowed"):
        Choice(allowed=torch.zeros(4, dtype=torch.bool))


def test_each_prompt_of_a_beam_may_have_words_of_its_own():
    mine = torch.tensor([[True, True, False, False], [False, False, True, True], [False, True, False, True]])
    found = beam_search(Recomputing(table()), PROMPTS, 4, 3, count=3, allowed=mine)
    for texts, own in zip(found, mine):
        assert len(texts) == 3 and all(own[text.tokens].all() for text in texts)
    alone = [beam_search(Recomputing(table()), [p], 4, 3, count=3, allowed=m)[0] for p, m in zip(PROMPTS, mine)]
    assert [[text.tokens for text in texts] for texts in found] == [[text.tokens for text in texts] for texts in alone]


def test_a_constraint_is_told_each_row_so_far_and_nothing_else():
    told = []

    def every(seen):
        told.append(seen.tolist())
        return torch.ones(len(seen), 4, dtype=torch.bool)

    rows = generate(Recomputing(table()), PROMPTS, 3, Choice(allowed=every))
    for number, seen in enumerate(told):
        so_far = [[*prompt, *row.tokens[:number]] for prompt, row in zip(PROMPTS, rows)]
        assert [[token for token in row if token >= 0] for row in seen] == so_far
    with pytest.raises(UserError, match="at least one token must be allowed"):
        generate(Recomputing(table()), PROMPTS, 3, Choice(allowed=lambda seen: torch.zeros(4, dtype=torch.bool)))


@pytest.mark.parametrize("allowed", [[0, 2], torch.tensor([0, 2]), torch.tensor([True, False]), lambda seen: seen[0]])
def test_what_says_not_of_each_word_whether_it_may_come_is_refused(allowed):
    with pytest.raises(UserError, match=r"^allowed must"):
        generate(Recomputing(table()), PROMPTS, 2, Choice(allowed=allowed))


BYTES = [b"th", b"e e", b"nd", b"\xc3", b"\xa9", b"x"]


def spelled(order):
    """A scorer that says these words whatever it reads."""

    def score(rows):
        at = torch.arange(rows.shape[1]).clamp(max=len(order) - 1)
        return torch.nn.functional.one_hot(torch.tensor(order)[at], 6).float().expand(len(rows), -1, -1)

    return Recomputing(score)


def test_a_stop_text_is_found_across_tokens():
    for texts, size, why in [
        (("the end",), 3, "text"),
        (("e",), 2, "text"),
        (("é",), 5, "text"),
        (("zzz",), 6, "most"),
        (("dé", "x"), 5, "text"),
    ]:
        (row,) = generate(spelled([0, 1, 2, 3, 4, 5]), [[5]], 6, stop=Stop(texts=texts, bytes_of=BYTES.__getitem__))
        assert (len(row.tokens), row.why) == (size, why)
    (text,) = beam_search(
        spelled([0, 1, 2, 3, 4, 5]), [[5]], 6, 1, Stop(texts=("the end",), bytes_of=BYTES.__getitem__)
    )[0]
    assert text.tokens == [0, 1, 2] and text.why == "text"
    with pytest.raises(UserError, match="stop texts are found in the bytes"):
        Stop(texts=("a",))


@settings(max_examples=50, deadline=None)
@given(text=st.text("ab", max_size=20), stops=st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))
def test_what_is_shown_piece_by_piece_is_the_text_up_to_the_stop(text, stops):
    first = next((t for t in range(len(text)) if any(stop in text[: t + 1] for stop in stops)), len(text))
    held = Held(stops)
    shown = "".join(held.add(piece) for piece in text) + held.rest()
    assert shown == cut(text[: first + 1], stops)  # a row ends where the first of them is complete


@settings(max_examples=50, deadline=None)
@given(
    order=st.lists(st.integers(0, 5), min_size=1, max_size=8), text=st.sampled_from(["the", "e en", "d", "éx", "xx"])
)
def test_a_row_stops_at_the_first_token_that_completes_the_text(order, text):
    stop = Stop(texts=(text,), bytes_of=BYTES.__getitem__)
    told = [stop.why(order[: t + 1]) for t in range(len(order))]
    complete = [text.encode() in b"".join(BYTES[token] for token in order[: t + 1]) for t in range(len(order))]
    assert ("text" in told) == any(complete)
    if any(complete):
        assert told.index("text") == complete.index(True)


def test_a_full_context_ends_a_row_or_slides():
    score = table(V=8)
    ended = generate(Recomputing(score, length=6), PROMPTS, 9)
    assert [(len(row.tokens), row.why) for row in ended] == [(5, "context"), (3, "context"), (4, "context")]
    endless = generate(Recomputing(score), PROMPTS, 20)
    # two words decide the next: half of the context is enough to go on as if there were no end
    slid = generate(Recomputing(score, length=6), PROMPTS, 20, slide=True)
    assert [row.tokens for row in slid] == [row.tokens for row in endless]
    drawn_ = [generate(Recomputing(score, n), PROMPTS, 20, Choice(), slide=n is not None) for n in (None, 6)]
    assert [row.tokens for row in drawn_[0]] == [row.tokens for row in drawn_[1]]
    with pytest.raises(UserError, match="a prompt must leave room in the context of 3 tokens. Got prompt 1 with 3"):
        generate(Recomputing(score, length=3), PROMPTS, 1)


@pytest.mark.parametrize("beams, groups", [(1, 1), (2, 1), (6, 3)])
def test_beams_end_at_a_full_context_or_slide_behind_it(beams, groups):
    score, options = table(V=8), {"groups": groups, "diversity": 0.5, "count": min(2, beams)}
    ended = beam_search(Recomputing(score, length=6), PROMPTS, 4, beams, **options)
    told = [[(len(text.tokens), text.why) for text in texts] for texts in ended]
    assert told == [[(size, why)] * len(ended[0]) for size, why in ((4, "most"), (3, "context"), (4, "most"))]
    endless = beam_search(Recomputing(score), PROMPTS, 20, beams, **options)
    slid = beam_search(Recomputing(score, length=6), PROMPTS, 20, beams, slide=True, **options)
    for one, other in zip(slid, endless):  # two words decide the next, as above
        assert [text.tokens for text in one] == [text.tokens for text in other]
        assert [text.score for text in one] == pytest.approx([text.score for text in other], abs=1e-5)
        assert {text.why for text in one} == {"most"}
    if beams == 1:
        assert [texts[0].tokens for texts in slid] == [row.tokens for row in generate(Recomputing(score), PROMPTS, 20)]


def test_what_slides_is_the_last_half_of_rows_that_are_full():
    started = []

    class Told(Recomputing):
        def start(self, prompts, lengths):
            started.append(lengths.tolist())
            return super().start(prompts, lengths)

    generate(Told(table(V=8), length=6), [[0], [1, 2, 3]], 9, slide=True)
    assert started == [[1, 3], [4, 3], [3, 5], [4, 3], [3, 5]]
    started.clear()
    beam_search(Told(table(V=8), length=6), [[0], [1, 2, 3]], 9, 2, slide=True)
    twice = [[n for n in lengths for _ in range(2)] for lengths in ([1, 3], [4, 3], [3, 5], [4, 3], [3, 5])]
    assert started == twice


def test_words_come_one_step_at_a_time():
    seen: list[NewToken] = []
    rows = generate(Recomputing(table()), PROMPTS, 5, stop=Stop(tokens=(2,)), on_token=seen.append)
    for b, row in enumerate(rows):
        assert [word.token for word in seen if word.row == b] == row.tokens
        assert [word.why for word in seen if word.row == b][-1] == row.why
    steps = stream(Recomputing(table()), PROMPTS, 5)
    assert [word.row for word in next(steps)] == [0, 1, 2]
    *_, last = stream(Recomputing(table(), length=4), [[0]], 9)  # does not slide unless it is told to
    assert last[0].why == "context"


def test_scores_that_are_no_numbers_are_not_written_from():
    broken = Recomputing(lambda rows: table()(rows).masked_fill(rows[..., None] == 2, math.nan))
    for find in (lambda: generate(broken, [[1, 2]], 3), lambda: beam_search(broken, [[1, 2]], 3, 2)):
        with pytest.raises(UserError, match="scores of the next token must be numbers"):
            find()


def test_what_does_not_fit_is_told():
    scorer = Recomputing(table())
    for prompts, message in [([], "there must be a prompt"), ([[1], []], "prompt 1 with none")]:
        with pytest.raises(UserError, match=message):
            generate(scorer, prompts, 3)
    with pytest.raises(UserError, match="most must be a whole number"):
        generate(scorer, [[1]], 0)
    with pytest.raises(UserError, match="a seed for each row"):
        generate(scorer, [[1]], 1, seeds=[1, 2])
    with pytest.raises(UserError, match="beams must be a multiple of groups"):
        beam_search(scorer, [[1]], 3, beams=5, groups=2)
    for prompts, message in [
        (None, "prompts must be a list of lists"),
        ("abc", "prompts must be a list of lists"),
        ([1, 2], "a prompt must be a list of tokens.* Got prompt=1"),
        (torch.ones(3, dtype=torch.long), "a prompt must be a list of tokens"),
        (["abc"], "tokenizer.encode"),
        ([[1.5]], r"a prompt must be a list of tokens.* Got prompt=\[1.5\]"),
        ([[False, 1]], r"a prompt must be a list of tokens.* Got prompt=\[False, 1\]"),
        ([[1], [-1]], "prompts must hold tokens of the model. Got -1"),
    ]:
        for find in (lambda p: generate(scorer, p, 2), lambda p: beam_search(scorer, p, 2, 2)):
            with pytest.raises(UserError, match=message):
                find(prompts)
    for seeds in (-1, None, [1.5], [-3], [2**70], "a"):
        with pytest.raises(UserError, match="seeds? must be"):
            generate(scorer, [[1]], 2, seeds=seeds)
    for options, message in [
        ({"stop": (3,)}, r"stop must be a Stop\. Got stop=\(3,\)"),
        ({"early": 1}, "early must be True, False"),
        ({"penalty": 1e6}, "penalty must be a number of at least -20"),
        ({"penalty": -1e6}, "penalty must be a number of at least -20"),
    ]:
        with pytest.raises(UserError, match=message):
            beam_search(scorer, [[1]], 3, 2, **options)
    with pytest.raises(UserError, match="stop must be a Stop"):
        generate(scorer, [[1]], 2, stop=3)
    for choice in (None, "greedy"):
        with pytest.raises(UserError, match="choice must be a Choice"):
            generate(scorer, [[1]], 2, choice)
    for tokens in ("a", [None], 2.5, [-1]):
        with pytest.raises(UserError, match=r"token"):
            Stop(tokens=tokens)
    assert Stop(tokens=3).tokens == (3,) and Stop(tokens=torch.tensor([1, 2])).tokens == (1, 2)
    with pytest.raises(UserError, match="texts must be text"):
        Stop(texts=[3], bytes_of=bytes)
    for options in ({"temperature": -1}, {"top_k": 0}, {"top_p": 0}, {"min_p": 2}, {"repetition": 0}):
        with pytest.raises(UserError):
            Choice(**options)
    assert GREEDY.temperature == 0
