"""Masks: which pairs they allow, how they combine, and that nothing passes where they forbid it."""

import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import ShapeError, UserError
from leadline.layers import masks as m
from leadline.layers.additive_attention import DotAttention
from leadline.layers.attend import attend, weights
from leadline.layers.synthesizer import Synthesizer

N = 12


def count(mask, size=N):
    return int(mask.dense(1, size, size).sum())


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


#: the eight patterns of interaction, and how many pairs each has
BAND, BACK = N * 5 - 6, N * 3 - 3
PATTERNS = {
    "full": (m.Window(N), N * N),
    "triangular": (m.Causal(), N * (N + 1) // 2),
    "band": (m.Window(2), BAND),
    "band, decoder": (m.Window(2) & m.Causal(), BACK),
    "dilated by 2": (m.Dilated(2, 2) & m.Causal(), N + (N - 2) + (N - 4)),
    "dilated by 3": (m.Dilated(2, 3) & m.Causal(), N + (N - 3) + (N - 6)),
    "selected, decoder": ((m.Window(2) | m.Global((5,))) & m.Causal(), BACK + (5 - 2) + (N - 1 - 5 - 2)),
    "global": (m.Window(2) | m.Global((0, 1)), N * N - (N - 2) ** 2 + (N - 2) * 5 - 6),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_the_eight_patterns_have_the_pairs_they_should(name):
    mask, expected = PATTERNS[name]
    assert count(mask) == expected


def test_every_rule_pair_by_pair():
    number = torch.tensor([[0, 0, 1, 1, 1, 2]])
    there = torch.tensor([[True, True, False, True, True, False]])
    at = torch.tensor([[0, 3, 1, 5, 2, 2]])
    rules = {
        m.Causal(): lambda i, j: j <= i,
        m.Window(2): lambda i, j: abs(i - j) <= 2,
        m.Dilated(1, 3): lambda i, j: abs(i - j) in (0, 3),
        m.Strided(2): lambda i, j: (i - j) % 2 == 0,
        m.Blocks(4): lambda i, j: i // 4 == j // 4,
        m.Global((2,)): lambda i, j: 2 in (i, j),
        m.Documents(number): lambda i, j: number[0, i] == number[0, j],
        m.Padding(there): lambda i, j: there[0, j],
        m.UpTo(at): lambda i, j: j <= at[0, i],
        ~m.Causal(): lambda i, j: j > i,
    }
    for mask, rule in rules.items():
        dense = mask.dense(1, 6, 6)
        assert dense.shape == (1, 1, 6, 6)
        assert [[bool(rule(i, j)) for j in range(6)] for i in range(6)] == dense[0, 0].tolist(), mask


def test_graphs_of_one_row_and_of_each():
    one = drawn(4, 5) > 0
    each = drawn(3, 4, 5) > 0
    assert torch.equal(m.Graph(one).dense(3, 4, 5), one[None, None])
    assert torch.equal(m.Graph(each).dense(3, 4, 5), each[:, None])
    assert torch.equal((m.Graph(each) & m.Graph(one)).dense(3, 4, 5), (each & one)[:, None])


def test_a_random_pattern_is_drawn_once_and_has_its_share():
    mask = m.Random(0.3, seed=1)
    dense = mask.dense(2, 200, 200)
    assert torch.equal(dense, m.Random(0.3, seed=1).dense(2, 200, 200))
    assert abs(float(dense.float().mean()) - 0.3) < 0.01
    assert not torch.equal(dense, m.Random(0.3, seed=2).dense(2, 200, 200))
    assert torch.equal(dense[..., :50, :50], mask.dense(2, 50, 50))  # a pair is a pair, whatever the length
    assert count(m.Random(0.0)) == 0 and count(m.Random(1.0)) == N * N


def test_a_random_pattern_has_no_structure():
    dense = m.Random(0.5, seed=1).dense(1, 1000, 1000)[0, 0].double() - 0.5
    largest = torch.linalg.svdvals(dense)[0]  # of independent entries of deviation 1/2: (√n + √n) / 2, give or take 2 %
    assert abs(float(largest) / 1000**0.5 - 1) < 0.05


@pytest.mark.slow
def test_a_compiled_random_pattern_is_the_same():
    drawn_by = lambda length: m.Random(0.3, seed=5).dense(1, length, length)  # noqa: E731
    assert torch.equal(torch.compile(drawn_by)(65), drawn_by(65))


def test_documents_close_with_their_own_end():
    tokens = torch.tensor([[4, 0, 5, 6, 0, 7], [0, 0, 3, 3, 3, 3]])
    assert m.Documents.of(tokens, end=0).number.tolist() == [[0, 0, 1, 1, 1, 2], [0, 1, 2, 2, 2, 2]]


def test_rules_of_equal_numbers_are_equal():
    assert m.Window(2) == m.Window(2) != m.Window(3)
    assert m.Causal() & m.Window(2) == m.Causal() & m.Window(2)


B, T = 3, 10
TOKENS = torch.tensor([[1, 2, 0, 3, 4, 5, 0, 6, 7, 8], [3, 3, 3, 3, 0, 3, 3, 3, 3, 0], [1, 2, 3, 4, 5, 6, 7, 8, 9, 9]])
LENGTHS = torch.tensor([10, 4, 7])
RULES = {
    "future": m.Causal(),
    "padding": m.Padding(torch.arange(T) < LENGTHS[:, None]),
    "documents": m.Documents.of(TOKENS, end=0),
    "documents, causal": m.Documents.of(TOKENS, end=0) & m.Causal(),
    "band": m.Window(2),
    "blocks": m.Blocks(4),
    "empty rows": m.Padding(torch.arange(T) < torch.tensor([10, 0, 3])[:, None]) & m.Causal(),
    "random": m.Random(0.4) & m.Causal(),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("biased", [False, True])
@given(st.integers(0, T - 1), st.integers(0, 50))
@settings(deadline=None, max_examples=8)
def test_forbidden_keys_leak_nothing(name, biased, j, seed):
    mask = RULES[name]
    allowed = mask.dense(B, T, T).expand(B, 1, T, T)[:, 0]
    q, k, v = (drawn(B, 2, T, 8, seed=seed + s) for s in range(3))
    bias = drawn(1, 2, T, T, seed=seed + 3) if biased else None
    before = attend(q, k, v, mask, bias)
    k2, v2 = k.clone(), v.clone()
    k2[:, :, j], v2[:, :, j] = 1e4, -1e4
    after = attend(q, k2, v2, mask, bias)
    blind = ~allowed[:, :, j]  # (B, T): queries that may not look at key j
    assert torch.equal(before.transpose(1, 2)[blind], after.transpose(1, 2)[blind])
    seeing = allowed[:, :, j]
    if seeing.any():
        assert not torch.equal(before.transpose(1, 2)[seeing], after.transpose(1, 2)[seeing])


@pytest.mark.parametrize("p_drop", [0.0, 0.5])
@pytest.mark.parametrize("biased", [False, True])
def test_a_query_that_may_look_at_nothing_gets_0_and_finite_gradients(p_drop, biased):
    q, k, v = (drawn(2, 2, 4, 8, seed=s).requires_grad_() for s in range(3))
    bias = drawn(1, 2, 4, 4).requires_grad_() if biased else None
    mask = m.Padding(torch.tensor([[True] * 4, [False] * 4])) & m.Window(1)
    out = attend(q, k, v, mask, bias, p_drop=p_drop)
    assert torch.equal(out[1], torch.zeros_like(out[1])) and bool((out[0] != 0).any())
    out.square().sum().backward()
    for part in (q, k, v, *([bias] if biased else [])):
        assert bool(part.grad.isfinite().all())
    assert torch.equal(q.grad[1], torch.zeros_like(q.grad[1]))


def test_padding_and_batch_mates_change_nothing():
    q, k, v = (drawn(3, 2, T, 8, seed=s) for s in range(3))
    together = attend(q, k, v, RULES["padding"])
    for b, length in enumerate(LENGTHS.tolist()):
        alone = attend(*(part[b : b + 1, :, :length] for part in (q, k, v)))
        torch.testing.assert_close(together[b, :, :length], alone[0], rtol=1e-5, atol=1e-6)


def test_layers_of_a_band_reach_as_far_as_their_sum():
    x = torch.zeros(1, 1, 41, 1, dtype=torch.float64)
    x[0, 0, 20] = 1
    for layers in (1, 2, 3):
        h = x
        for _ in range(layers):
            h = attend(torch.zeros_like(h), torch.zeros_like(h), h, m.Dilated(2, 3))
        touched = h.flatten().nonzero().flatten()
        assert (int(touched.min()), int(touched.max())) == (20 - 6 * layers, 20 + 6 * layers)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: m.Padding(torch.ones(2, 5)), "there of Padding must hold truth values"),
        (lambda: m.Padding(torch.ones(5, dtype=torch.bool)), "there of Padding must hold truth values, on 2 axes"),
        (lambda: m.Graph(torch.eye(5)), "adjacency of Graph must hold truth values"),
        (lambda: m.Window(-1), "reach must be a whole number of at least 0"),
        (lambda: m.Dilated(2, 0), "dilation must be"),
        (lambda: m.Strided(0), "stride must be"),
        (lambda: m.Blocks(0), "size must be"),
        (lambda: m.Global(3), "tokens must be a list"),
        (lambda: m.Global((-1,)), "position must be a whole number of at least 0"),
        (lambda: m.Random(2.0), "p must be a number"),
        (lambda: m.Padding([[True, False]]), "there of Padding must hold truth values"),
        (lambda: m.UpTo(torch.zeros(3)), "at of UpTo must hold whole numbers, on 2 axes"),
        (lambda: m.UpTo(torch.zeros(3, 1)), "at of UpTo must hold whole numbers"),
        (lambda: m.Documents(torch.zeros(3, dtype=torch.long)), "number of Documents must hold whole numbers"),
        (lambda: m.Documents.of(torch.zeros(2, 3), 0), "tokens of Documents must hold whole numbers"),
        (lambda: m.Documents.of(torch.zeros(2, 3, dtype=torch.long), None), "end must be a whole number"),
        (lambda: m.Global(None), "tokens must be a list"),
        (lambda: m.Global("0"), "tokens must be a list"),
        (lambda: m.Causal() & THERE, r"a mask must be a rule of leadline\.layers\.masks\. Got Tensor"),
        (lambda: m.Window(1) | m.Causal, r"Got the class Causal\. Write Causal"),
        (lambda: m.Not(None), "Got NoneType"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(made, words):
    with pytest.raises(UserError, match=words):
        made()


THERE = torch.ones(2, 5, dtype=torch.bool)
TOO_FEW = {
    "keys": m.Padding(THERE[:, :4]),
    "rows": m.Padding(THERE[:1]),
    "more keys": m.Padding(torch.ones(2, 6, dtype=torch.bool)),
    "joined": m.Causal() & m.Padding(THERE[:, :4]),
    "either": m.Padding(THERE[:, :4]) | m.Window(1),
    "not": ~m.Padding(THERE[:, :4]),
    "documents": m.Documents(torch.zeros(2, 4, dtype=torch.long)),
    "places": m.UpTo(torch.zeros(2, 4, dtype=torch.long)),
    "graph": m.Graph(torch.ones(4, 5, dtype=torch.bool)),
    "graph of other rows": m.Graph(torch.ones(3, 5, 5, dtype=torch.bool)),
}


@pytest.mark.parametrize("name", TOO_FEW)
@pytest.mark.parametrize("path", ["fused", "biased", "dropped", "written", "flexible", "additive", "synthesizer"])
def test_a_rule_of_other_lengths_is_refused_on_every_path(name, path, monkeypatch):
    q, x, mask = drawn(2, 1, 5, 8), drawn(2, 5, 8), TOO_FEW[name]
    if path == "flexible":
        monkeypatch.setattr(sys.modules["leadline.layers.attend"], "worth_it", lambda *_: True)
    calls = {
        "fused": lambda: attend(q, q, q, mask),
        "flexible": lambda: attend(q, q, q, mask),
        "biased": lambda: attend(q, q, q, mask, torch.zeros(5, 5)),
        "dropped": lambda: attend(q, q, q, mask, p_drop=0.5),
        "written": lambda: weights(q, q, mask),
        "additive": lambda: DotAttention()(x, x, x, mask),
        "synthesizer": lambda: Synthesizer(8, 2, 5)(x, mask),
    }
    with pytest.raises(ShapeError, match=r"^(there|number|at|adjacency) of \w+ must have the shape .* here\. Got \("):
        calls[path]()


def test_a_list_of_global_tokens_is_as_good_as_any_other():
    assert m.Global([0, 2]) == m.Global(range(0, 3, 2)) == m.Global((0, 2)) and hash(m.Global([0, 2]))


def test_a_tensor_in_place_of_a_rule_is_refused():
    q = drawn(1, 1, 4, 8)
    with pytest.raises(UserError, match=r"must be a rule of leadline\.layers\.masks\. Got Tensor"):
        attend(q, q, q, torch.ones(4, 4, dtype=torch.bool))
    for layer in (DotAttention(), lambda q, k, v, mask: Synthesizer(8, 2, 4)(q, mask)):
        with pytest.raises(UserError, match=r"must be a rule of leadline\.layers\.masks\. Got Tensor"):
            layer(q[0], q[0], q[0], torch.ones(4, 4, dtype=torch.bool))
