"""Attention spelt out, against torch and autograd."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.reference import attention as a


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def same(found, expected):
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, rtol=1e-10, atol=1e-10)


def made(D, K, V, seed=0):
    maps = [(drawn(out, seed=seed + i), drawn(out, D, seed=seed + 10 + i)) for i, out in enumerate((K, K, V))]
    return maps, a.Head(*(a.Map(b.tolist(), W.tolist()) for b, W in maps))


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(0, 99), st.booleans())
@settings(deadline=None, max_examples=15)
def test_attend_is_torch_s(T, S, K, seed, biased):
    q, k, v = drawn(T, K, seed=seed), drawn(S, K, seed=seed + 1), drawn(S, 3, seed=seed + 2)
    allowed = drawn(T, S, seed=seed + 3) > -0.5
    bias = drawn(T, S, seed=seed + 4) * biased
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.where(allowed, bias, -math.inf))
    expected = torch.where(allowed.any(-1, keepdim=True), expected, 0.0)
    same(a.attend(q.tolist(), k.tolist(), v.tolist(), allowed.tolist(), bias.tolist()), expected)


def test_weights_are_a_distribution():
    q, k = drawn(4, 3).tolist(), drawn(6, 3, seed=1).tolist()
    for row in a.attention_weights(q, k):
        assert min(row) >= 0 and sum(row) == pytest.approx(1)


def test_the_drawn_example_routes_as_drawn():
    values = drawn(3, 4)
    weights = torch.tensor([[0.1, 0.3, 0.6], [0.5, 0.2, 0.3]], dtype=torch.float64)  # of three inputs, by two outputs
    unit = torch.eye(3, dtype=torch.float64).tolist()
    same(a.attend(weights.log().tolist(), unit, values.tolist(), scale=1.0), weights @ values)


@pytest.mark.parametrize("scaled", [True, False])
def test_rows_and_columns_are_one_thing(scaled):
    _, head = made(D=4, K=3, V=5)
    X = drawn(6, 4, seed=9)
    rows = a.self_attention(X.tolist(), head, scaled=scaled)
    same(a.self_attention_in_columns(X.T.tolist(), head, scaled=scaled), torch.tensor(rows, dtype=torch.float64).T)


def test_heads_in_rows_in_columns_and_torch_s():
    D, H, N = 6, 3, 5
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(D, H, batch_first=True).double()
    torch.nn.init.normal_(theirs.in_proj_bias)
    maps = list(zip(theirs.in_proj_bias.chunk(3), theirs.in_proj_weight.chunk(3), strict=True))
    heads = [a.Head(*(a.Map(b.chunk(H)[h].tolist(), W.chunk(H)[h].tolist()) for b, W in maps)) for h in range(H)]
    X = drawn(N, D)
    expected = theirs(X[None], X[None], X[None])[0][0].detach()
    mix = theirs.out_proj.weight.tolist()
    same(a.multi_head(X.tolist(), heads, a.Map([0.0] * D, mix)), expected)
    same(a.multi_head_in_columns(X.T.tolist(), heads, mix), expected.T)


def test_the_order_of_tokens_moves_only_the_order_of_outputs():
    _, head = made(4, 4, 4)
    X, order = drawn(5, 4), [3, 1, 4, 0, 2]
    straight = a.self_attention(X.tolist(), head)
    assert a.self_attention(X[order].tolist(), head) == [pytest.approx(straight[n]) for n in order]


def test_without_an_activation_it_is_not_linear():
    _, head = made(3, 3, 3)
    head = a.Head(*(a.Map([0.0] * 3, part.slopes) for part in (head.query, head.key, head.value)))
    X = drawn(4, 3)
    double = torch.tensor(a.self_attention((2 * X).tolist(), head))
    assert (double - 2 * torch.tensor(a.self_attention(X.tolist(), head))).abs().max() > 0.1


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
@settings(deadline=None, max_examples=15)
def test_gradients_by_hand_are_autograd_s(N, D, K, V, seed):
    maps, head = made(D, K, V, seed)
    X, g = drawn(N, D, seed=seed + 30).requires_grad_(), drawn(N, V, seed=seed + 31)
    for b, W in maps:
        b.requires_grad_(), W.requires_grad_()
    q, k, v = (X @ W.T + b for b, W in maps)
    F.scaled_dot_product_attention(q, k, v).backward(g)
    found = a.backward(X.detach().tolist(), head, g.tolist())
    same(found["X"], X.grad)
    for name, (b, W) in zip(("query", "key", "value"), maps, strict=True):
        same(found[f"{name}.slopes"], W.grad)
        same(found[f"{name}.offsets"], b.grad[:, None])


def test_the_jacobian_of_softmax():
    z = drawn(5).requires_grad_()
    same(a.softmax_jacobian(z.tolist()), torch.autograd.functional.jacobian(lambda t: t.softmax(0), z))


def test_a_saturated_softmax_passes_no_gradient():
    found = a.softmax_jacobian([-3.0, 1.0, 1000.0, 5.0, -1.0])
    assert max(abs(value) for row in found for value in row) < 1e-200


def test_with_weights_held_fixed_attention_is_two_linear_maps():
    _, head = made(D=3, K=2, V=4)
    X = drawn(5, 3)
    q, k = ([a.affine(part.offsets, part.slopes, x) for x in X.tolist()] for part in (head.query, head.key))
    found = a.held_fixed(X.T.tolist(), a.attention_weights(q, k), head.value)
    same(found, torch.tensor(a.self_attention_in_columns(X.T.tolist(), head), dtype=torch.float64))


def test_scaling_keeps_softmax_from_saturating():
    largest = {}
    for scale in (None, 1.0):
        q, k = drawn(40, 1024), drawn(32, 1024, seed=1)
        weights = torch.tensor(a.attention_weights(q.tolist(), k.tolist(), scale=scale))
        largest[scale] = float(weights.max(-1).values.mean())
    assert largest[1.0] > 0.9 and largest[None] < 0.2
