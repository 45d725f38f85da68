"""Tokens: a token at each place, whole scores and scores in pieces, metrics over all places."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline.likelihoods.tokens as module
from leadline.data.target import Target
from leadline.data.vocabulary import token_characters
from leadline.engine.evaluation import evaluate
from leadline.errors import DataError, ShapeError, UserError
from leadline.layers.unembedding import Deferred, deferred, unembed
from leadline.likelihoods import Tokens, likelihood_for
from leadline.testing import check_likelihood
from leadline.text import Tokenizer

B, T, V = 3, 5, 7


@pytest.fixture
def rows():
    torch.manual_seed(0)
    y = torch.randint(V, (B, T))
    y[0, 3:], y[2, 0] = -1, -1
    return torch.randn(B, T, V), y


def test_it_keeps_the_contract(rows):
    check_likelihood(Tokens(V), *rows)
    check_likelihood(Tokens(V, label_smoothing=0.1, per=4.0), *rows)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_cross_entropy_over_the_places_asked(rows, smoothing):
    output, y = rows
    each = F.cross_entropy(
        output.flatten(0, 1), y.flatten(), reduction="none", ignore_index=-1, label_smoothing=smoothing
    ).view(B, T)
    torch.testing.assert_close(Tokens(V, smoothing, per=2.5).loss(output, y), each.sum(1) / 2.5)
    torch.testing.assert_close(Tokens(V, smoothing).loss(output, y), each.sum(1) / (y >= 0).sum(1))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 3), st.integers(3, 6), st.sampled_from([0.0, 0.1]), st.integers(0, 99))
def test_scores_for_the_places_asked_alone_are_the_whole_scores(asked, most, smoothing, seed):
    generator = torch.Generator().manual_seed(seed)
    h, weight = (
        torch.randn(*s, generator=generator, dtype=torch.float64).requires_grad_() for s in ((B, T, 4), (V, 4))
    )
    hidden = torch.rand(B, T, generator=generator).argsort(1) < asked
    y = torch.where(hidden, torch.randint(V, (B, T), generator=generator), -1)
    found = {}
    for likelihood in (Tokens(V, smoothing), Tokens(V, smoothing, most=most)):
        loss = likelihood.loss(Deferred(h, weight, None), y)
        found[likelihood.most] = [loss, *torch.autograd.grad(loss.sum(), (h, weight))]
    torch.testing.assert_close(found[most], found[None])


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 40), st.sampled_from([0.0, 0.1]), st.booleans(), st.integers(0, 99))
def test_scores_in_pieces_are_the_whole_scores(places, smoothing, with_bias, seed):
    generator = torch.Generator().manual_seed(seed)
    h, weight = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((B, T, 4), (V, 4)))
    bias = torch.randn(V, generator=generator, dtype=torch.float64) if with_bias else None
    y = torch.randint(-1, V, (B, T), generator=generator)
    leaves = [t.requires_grad_() for t in (h, weight, bias) if t is not None]
    upstream = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)  # each row has a weight of its own
    likelihood = Tokens(V, smoothing)
    whole = likelihood.loss(F.linear(h, weight, bias), y)
    before, module._MOST_BYTES["cpu"] = module._MOST_BYTES["cpu"], min(4 * V * 8 * places, 4 * B * T * V - 1)
    try:
        pieces = likelihood.loss(Deferred(h, weight, bias), y)
        got = torch.autograd.grad((pieces * upstream).sum(), leaves)
    finally:
        module._MOST_BYTES["cpu"] = before
    torch.testing.assert_close(pieces, whole, rtol=1e-6, atol=1e-6)
    for own, other in zip(got, torch.autograd.grad((whole * upstream).sum(), leaves), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-6)


def test_scores_in_pieces_pass_gradcheck():
    torch.manual_seed(0)
    h, weight, bias = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((6, 3), (V, 3), (V,)))
    y = torch.randint(V, (6,))
    assert torch.autograd.gradcheck(
        lambda *leaves: module.Pieces.apply(*leaves, y, 4, torch.float64), (h, weight, bias)
    )


def test_unembed_waits_only_inside_deferred():
    h, weight = torch.randn(2, 3, 4), torch.randn(V, 4)
    with deferred():
        later = unembed(h, weight)
    assert isinstance(later, Deferred)
    torch.testing.assert_close(unembed(h, weight), later.scores())


def test_the_fused_loss_is_that_of_whole_scores(rows):
    y = rows[1]
    h, weight = torch.randn(B, T, 4), torch.randn(V, 4)
    for likelihood in (Tokens(V), Tokens(V, per=3.0), Tokens(V, 0.1)):
        torch.testing.assert_close(
            likelihood.loss(Deferred(h, weight, None), y), likelihood.loss(F.linear(h, weight), y)
        )


def test_metrics_weigh_tokens_alike_and_not_rows(rows):
    output, y = rows
    likelihood = Tokens(V, sizes=range(V))
    asked = y >= 0
    nll = F.cross_entropy(output[asked], y[asked])
    found = evaluate(likelihood, output, y)
    assert found["nll"] == pytest.approx(float(nll), rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(float(nll)), rel=1e-6)
    assert found["accuracy"] == pytest.approx(float((output.argmax(-1) == y)[asked].float().mean()))
    total, length = F.cross_entropy(output[asked], y[asked], reduction="sum"), int(y[asked].sum())
    assert found["bits_per_byte"] == pytest.approx(float(total) / math.log(2) / length, rel=1e-6)


def test_bits_a_character_count_characters_and_not_bytes():
    words = Tokenizer.train(["naïve 🌊"], kind="bytes")
    y = torch.tensor([words.encode("naïve 🌊")])
    V, characters = words.num_tokens, token_characters(words)
    assert sum(characters[token] for token in y[0].tolist()) == 7 and y.shape[1] == 11
    likelihood = Tokens(V, sizes=words.token_bytes.tolist(), characters=characters)
    found = evaluate(likelihood, torch.zeros(1, 11, V), y)
    assert found["bits_per_byte"] == pytest.approx(math.log2(V))
    assert found["bits_per_character"] == pytest.approx(math.log2(V) * 11 / 7)
    with pytest.raises(UserError, match="characters must have a number"):
        Tokens(V, characters=[1, 2])


def test_bits_a_byte_of_uniform_bytes_are_eight():
    y = torch.randint(256, (4, 20))
    found = evaluate(Tokens(256, sizes=[1] * 256), torch.zeros(4, 20, 256), y)
    assert found["bits_per_byte"] == pytest.approx(8.0)


def test_a_target_of_tokens_picks_it():
    made = likelihood_for(Target("tokens", dim=9, scale=(31.5,), sizes=tuple(range(9))))
    assert (type(made), made.num_tokens, made.per, made.sizes) == (Tokens, 9, 31.5, tuple(range(9)))


def test_a_prediction_has_the_probabilities_of_each_place(rows):
    output, y = rows
    prediction = Tokens(V).prediction(output)
    assert prediction.mode.shape == y.shape
    torch.testing.assert_close(prediction.probabilities, output.softmax(-1))
    with pytest.raises(UserError, match="no order|have none"):
        prediction.quantile(0.5)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (torch.zeros(4), "shape"),
        (torch.zeros(4, 2), "whole numbers"),
        (torch.full((4, 2), V), "must lie in 0 … 6"),
        (torch.full((4, 2), -2), "must lie in 0 … 6"),
        (torch.full((4, 2), -1), "some row must have a token"),
    ],
)
def test_what_is_no_row_of_tokens_is_refused(y, words):
    with pytest.raises((ShapeError, DataError), match=words):
        Tokens(V).check(y)


def test_outputs_of_another_shape_are_refused(rows):
    output, y = rows
    with pytest.raises(ShapeError, match="7 scores for each place"):
        Tokens(V).check_output(output[:, :, :6], y)
    with pytest.raises(UserError, match="a number for each token"):
        Tokens(V, sizes=(1, 2))


def test_the_intervals_of_nll_and_perplexity_tell_the_same():
    torch.manual_seed(0)
    y = torch.randint(V, (40, 9))
    y[::2, 2:] = -1  # rows of different length
    found = evaluate(Tokens(V), 2 * torch.randn(40, 9, V), y)
    for nll, perplexity in zip(found.interval("nll"), found.interval("perplexity"), strict=True):
        assert math.exp(nll) == pytest.approx(perplexity, rel=0.01)


def test_an_interval_of_rows_of_very_different_lengths_holds_the_mean_of_tokens():
    """The lengths spread more than their mean, so that some of the drawn totals ask for no token at all."""
    y = torch.full((2, 40), -1)
    y[0], y[1, 0] = torch.arange(40) % V, 1
    found = evaluate(Tokens(V), torch.zeros(2, 40, V), y)
    for name, value in (("nll", math.log(V)), ("perplexity", V)):
        assert found.interval(name) == pytest.approx((value, value), rel=1e-3)


def test_a_share_that_is_zero_in_all_rows_has_an_interval_of_zero():
    torch.manual_seed(0)
    y = torch.randint(1, V, (80, 9))
    y[::2, 6:] = -1  # rows of different length
    output = torch.randn(80, 9, V)
    output[..., 0] = 9.0  # nothing is right
    assert evaluate(Tokens(V, sizes=range(1, V + 1)), output, y).interval("accuracy") == (0.0, 0.0)
