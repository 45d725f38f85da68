"""Span: two softmaxes against torch, the best span against a search of all, overlap against sets."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.data.target import Target
from leadline.engine.evaluation import evaluate
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import PlackettLuce, Signs, Span, likelihood_for
from leadline.likelihoods.span import best_span, overlap
from leadline.testing import check_likelihood


def spans(B, T, seed=0):
    ends = torch.randint(T, (B, 2), generator=torch.Generator().manual_seed(seed))
    return ends.sort(1).values


def test_it_keeps_the_contract():
    torch.manual_seed(0)
    check_likelihood(Span(), 2 * torch.randn(4, 7, 2), spans(4, 7))
    check_likelihood(Span(longest=3), torch.randn(2, 5, 2), spans(2, 5))


def test_a_target_of_spans_finds_it():
    assert isinstance(likelihood_for(Target("span")), Span)
    assert likelihood_for(Target("span"), longest=5).longest == 5


def test_the_loss_is_the_sum_of_two_cross_entropies():
    torch.manual_seed(0)
    output, y = torch.randn(5, 9, 2), spans(5, 9)
    wanted = sum(F.cross_entropy(output[..., k], y[:, k], reduction="none") for k in range(2))
    torch.testing.assert_close(Span().loss(output, y), wanted)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 10))
def test_the_mode_is_the_best_of_all_valid_spans(seed, T, longest):
    output = torch.randn(3, T, 2, generator=torch.Generator().manual_seed(seed))
    for row, (first, last) in enumerate(best_span(output, longest).tolist()):
        every = [(i, j) for i in range(T) for j in range(i, min(T, i + longest))]
        wanted = max(float(output[row, i, 0] + output[row, j, 1]) for i, j in every)
        assert (first, last) in every
        assert float(output[row, first, 0] + output[row, last, 1]) == wanted


@settings(max_examples=60, deadline=None)
@given(*[st.integers(0, 9)] * 4)
def test_the_overlap_is_that_of_sets(a, b, c, d):
    said, true = sorted((a, b)), sorted((c, d))
    one, other = set(range(said[0], said[1] + 1)), set(range(true[0], true[1] + 1))
    wanted = 2 * len(one & other) / (len(one) + len(other))
    assert float(overlap(torch.tensor([said]), torch.tensor([true]))) == pytest.approx(wanted)


def test_metrics_by_hand():
    output = torch.full((3, 6, 2), -5.0)
    for row, (first, last) in enumerate([(1, 2), (2, 4), (0, 0)]):
        output[row, first, 0] = output[row, last, 1] = 5.0
    found = Span().measures(output, torch.tensor([[1, 2], [3, 5], [4, 5]]))
    assert found["exact"].tolist() == [1, 0, 0]
    assert found["f1"].tolist() == pytest.approx([1, 2 / 3, 0])


def test_positions_that_only_pad_a_row_change_nothing():
    torch.manual_seed(0)
    output, y = torch.randn(4, 6, 2), spans(4, 6)
    longer = torch.cat([output, torch.full((4, 3, 2), -1e4)], 1)
    short, long = Span().measures(output, y), Span().measures(longer, y)
    assert all(torch.equal(short[name], long[name]) for name in short)
    assert torch.equal(Span().prediction(output).mode, Span().prediction(longer).mode)
    torch.testing.assert_close(Span().prediction(longer).mean, Span().prediction(output).mean)


def test_what_a_prediction_says():
    p = torch.tensor([[[0.7, 0.1], [0.2, 0.3], [0.1, 0.6]]])
    prediction = Span().prediction(p.log())
    torch.testing.assert_close(prediction.probabilities, p)
    assert prediction.mode.tolist() == [[0, 2]]
    torch.testing.assert_close(prediction.mean, torch.tensor([[0.4, 1.5]]))
    assert prediction.quantile(0.5).tolist() == [[0, 2]]
    torch.testing.assert_close(prediction.log_prob([[0, 2]]), torch.tensor([0.42]).log())
    drawn = prediction.sample(4000, seed=1).float()
    torch.testing.assert_close(drawn.std(0), prediction.std, atol=0.05, rtol=0)


def test_bf16_scores_are_summed_in_float32():
    torch.manual_seed(0)
    output, y = torch.randn(2, 300, 2).bfloat16(), spans(2, 300)
    assert Span().loss(output, y).dtype == torch.float32
    assert torch.equal(Span().loss(output, y), Span().loss(output.float(), y))


@pytest.mark.parametrize(
    ("y", "kind", "words"),
    [
        (torch.zeros(3, dtype=torch.long), ShapeError, r"\(n, 2\)"),
        (torch.zeros(3, 2), DataError, "whole numbers"),
        (torch.tensor([[0, 1], [4, 2]]), DataError, "row 1: \\[4, 2\\]"),
        (torch.tensor([[-1, 1]]), DataError, "begin at 0"),
    ],
)
def test_what_is_no_span_is_refused(y, kind, words):
    with pytest.raises(kind, match=words):
        Span().check(y)


def test_outputs_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match='head="span"'):
        Span().check_output(torch.zeros(2, 5), spans(2, 5))
    with pytest.raises(ShapeError, match="5 positions"):
        Span().check_output(torch.zeros(2, 5, 2), torch.tensor([[0, 1], [2, 5]]))
    with pytest.raises(UserError, match="longest"):
        Span(longest=0)


def test_the_interval_of_f1_stays_between_0_and_1():
    output = torch.full((12, 9, 2), -9.0)
    output[:, 8] = 9.0  # says the last position alone
    for part, (low, high) in (((0, 3), (0.0, None)), ((8, 8), (None, 1.0))):
        y = torch.tensor([part] * 12)
        y[0] = torch.tensor([7, 8])  # one of twelve is half right: 1.96 errors of the mean reach past the end
        found = evaluate(Span(), output, y).interval("f1")
        assert found[0] == low or found[1] == high
        assert 0 <= found[0] <= found[1] <= 1


def test_shares_of_a_row_stay_between_0_and_1():
    y = torch.ones(12, 4)
    output = y.clone()
    output[0, 0] = -1  # 3 of 4 bits in one row of twelve
    assert evaluate(Signs(4), output, y).interval("bits")[1] == 1
    ranks = torch.arange(3).repeat(12, 1)
    scores = torch.tensor([3.0, 2.0, 1.0]).repeat(12, 1)
    scores[0] = torch.tensor([2.0, 3.0, 1.0])
    assert evaluate(PlackettLuce(3), scores, ranks).interval("pairs")[1] == 1
