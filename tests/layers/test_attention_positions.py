"""Positions in attention: what each adds to a score, places of a cache, and other libraries' tables."""

import math

import pytest
import torch

from leadline.errors import UserError
from leadline.layers.alibi import ALiBi
from leadline.layers.attend import weights
from leadline.layers.attention import SelfAttention, in_heads, joined
from leadline.layers.masks import Causal, Padding
from leadline.layers.placed_attention import PlacedAttention, UntiedAttention
from leadline.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
from leadline.layers.relative_attention import MODES, RelativeAttention
from leadline.layers.relative_buckets import BucketBias
from leadline.layers.rotary import Rotary
from leadline.reference.attention import dot
from leadline.reference.positions import bucket, slope

AT = torch.tensor([[3, 4, 5], [0, 1, 2]])


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layer", [LearnedPositions(9, 4), SinusoidalPositions(4)])
def test_tokens_stand_where_it_is_said(layer):
    layer, x = layer.double(), torch.zeros(2, 7, 4, dtype=torch.float64)
    whole = layer(x)
    for row, at in zip(layer(x[:, :3], AT), AT, strict=True):
        close(row, whole[0, at])
    close(layer(x[:, :3]), whole[:, :3])
    assert len(whole[0].unique(dim=0)) == 7


def test_a_row_beyond_the_learned_places_is_named():
    with pytest.raises(UserError, match="length=10"):
        LearnedPositions(9, 4)(torch.zeros(1, 10, 4))
    with pytest.raises(UserError, match="Nearest: 4 or 6"):
        SinusoidalPositions(5)


def test_half_precision_keeps_places_apart():
    layer = SinusoidalPositions(8).to(torch.bfloat16)
    found = layer(torch.zeros(1, 1, 8, dtype=torch.bfloat16), torch.tensor([[3001]]))
    close(found.float(), sinusoids(torch.tensor([[3001]]), 8), 0.01)  # 3001 itself is no number of bfloat16
    turn, x = Rotary(8), torch.ones(1, 1, 1, 8)
    at = torch.tensor([[3001]])
    close(turn(x.bfloat16(), at).float(), turn(x, at), 0.03)


@pytest.mark.parametrize("layout", ["halves", "pairs"])
@pytest.mark.parametrize("dim_turned", [None, 4])
def test_a_turned_product_depends_on_the_distance_alone(layout, dim_turned):
    turn = Rotary(8, layout=layout, dim_turned=dim_turned)
    q, k = drawn(1, 1, 1, 8), drawn(1, 1, 1, 8, seed=1)
    at = lambda n: torch.tensor([[n]])  # noqa: E731
    score = lambda i, j: float((turn(q, at(i)) * turn(k, at(j))).sum())  # noqa: E731
    assert score(7, 3) == pytest.approx(score(104, 100)) and score(7, 3) != pytest.approx(score(7, 4))
    close(turn(q, at(50)).norm(), q.norm())
    x = drawn(2, 3, 5, 8)
    close(turn(x), turn(x, torch.arange(5).expand(2, 5)))
    close(turn(x), turn(x, torch.arange(5)))
    if dim_turned:
        assert torch.equal(turn(x)[..., 4:], x[..., 4:])


def test_layouts_differ_by_a_permutation_of_the_rows_of_the_maps():
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    x = drawn(2, 3, 5, 8)
    close(Rotary(8, layout="halves")(x[..., order]), Rotary(8, layout="pairs")(x)[..., order])


def test_a_turn_is_differentiable():
    assert torch.autograd.gradcheck(Rotary(4), (drawn(1, 2, 3, 4).requires_grad_(),))


@pytest.mark.parametrize("bias", [ALiBi(3), BucketBias(3, 8, 20), BucketBias(3, 8, 20, both_ways=False)])
def test_biases_of_places_of_their_own(bias):
    j = torch.arange(6)
    whole = bias(j, j)
    assert whole.shape == (1, 3, 6, 6)
    rows = bias(AT, j)
    assert rows.shape == (2, 3, 3, 6)
    for b in range(2):
        close(rows[b], whole[0][:, AT[b]])
    close(whole[0, :, 1:, 1:], whole[0, :, :-1, :-1])  # offsets alone count


def test_the_bucket_table_is_read_by_offset():
    bias = BucketBias(2, 8, 20)
    found = bias(torch.arange(4), torch.arange(5))
    for i in range(4):
        for j in range(5):
            close(found[0, :, i, j], bias.table.weight[bucket(j - i, 8, 20)])
    for wrong in ({"num_buckets": 7}, {"num_buckets": 8, "furthest": 2}):
        with pytest.raises(UserError, match="num_buckets"):
            BucketBias(2, **wrong)


@pytest.mark.parametrize("mode", MODES)
def test_relative_scores_are_what_they_say(mode):
    layer = RelativeAttention(8, 2, furthest=2, mode=mode).double()
    if mode != "waves":
        torch.nn.init.normal_(layer.table)
    x = drawn(2, 6, 8)
    q, k, v = layer.attention.queries_keys_values(x)
    scores = torch.zeros(2, 2, 6, 6, dtype=torch.float64)
    for b in range(2):
        for h in range(2):
            for i in range(6):
                for j in range(6):
                    r = layer.table[max(-2, min(2, j - i)) + 2]
                    plain = dot(q[b, h, i].tolist(), k[b, h, j].tolist()) / math.sqrt(4)
                    more = {"add": lambda r=r, h=h, p=plain: p + r[h], "multiply": lambda r=r, h=h, p=plain: p * r[h]}
                    vectors = lambda r=r, p=plain, q=q[b, h, i]: p + q @ r.double() / math.sqrt(4)  # noqa: E731
                    scores[b, h, i, j] = more.get(mode, vectors)()
    allowed = Causal().dense(1, 6, 6)
    expected = scores.masked_fill(~allowed, -math.inf).softmax(-1) @ v
    close(layer(x, Causal()), layer.attention.out(joined(expected)), 1e-6 if mode == "waves" else 1e-10)


@pytest.mark.parametrize("mode", ["add", "multiply"])
def test_relative_attention_starts_without_positions(mode):
    layer, x = RelativeAttention(8, 2, 3, mode).double(), drawn(2, 5, 8)
    close(layer(x), layer.attention(x))


def test_waves_are_not_learned():
    layer = RelativeAttention(8, 2, 3, "waves")
    assert "table" not in dict(layer.named_parameters()) and "table" in layer.state_dict()


@pytest.mark.parametrize("mode", ["add", "multiply", "vectors"])
def test_gradients_of_relative_attention(mode):
    layer = RelativeAttention(4, 2, 2, mode).double()
    x = drawn(1, 4, 4).requires_grad_()
    f = lambda x, table: torch.func.functional_call(layer, {"table": table}, (x, Causal()))  # noqa: E731
    assert torch.autograd.gradcheck(f, (x, drawn(5, 2).requires_grad_()))


def test_places_in_queries_and_keys_alone():
    layer = PlacedAttention(8, 2, length=6).double()
    x, pi = drawn(2, 5, 8), layer.positions[:5]
    (Wq, Wk, Wv), (bq, bk, bv) = (
        layer.attention.query_key_value.weight.chunk(3),
        layer.attention.query_key_value.bias.chunk(3),
    )
    q, k, v = (in_heads(y @ W.T + b, 4) for y, W, b in ((x + pi, Wq, bq), (x + pi, Wk, bk), (x, Wv, bv)))
    close(layer(x), layer.attention.out(joined(weights(q, k) @ v)))
    # same tokens everywhere: weights differ, but what is mixed does not, so places leave no trace in the output
    flat = x[:, :1].expand(2, 5, 8)
    close(layer(flat), layer(flat)[:, :1].expand(2, 5, 8))


def test_untied_terms_add_up():
    layer = UntiedAttention(8, 2, length=6).double()
    x = drawn(2, 5, 8)
    q, k, v = layer.attention.queries_keys_values(x)
    u, w = (in_heads(part[None], 4) for part in layer.place(layer.positions[:5]).chunk(2, -1))
    scores = (q @ k.mT + u @ w.mT) / math.sqrt(2 * 4)
    close(layer(x), layer.attention.out(joined(scores.softmax(-1) @ v)))
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(),))


@pytest.mark.parametrize("kind", [PlacedAttention, UntiedAttention])
def test_padding_changes_nothing(kind):
    layer, x = kind(8, 2, 6).double(), drawn(1, 6, 8)
    there = torch.arange(6)[None] < 4
    close(layer(x, Padding(there))[:, :4], layer(x[:, :4]))


def test_alone_attention_is_blind_to_order_and_with_places_it_is_not():
    x, order = drawn(1, 6, 8), torch.tensor([4, 0, 3, 5, 2, 1])
    plain = SelfAttention(8, 2).double()
    close(plain(x[:, order]), plain(x)[:, order])
    for layer in (PlacedAttention(8, 2, 6), UntiedAttention(8, 2, 6), SelfAttention(8, 2, turn=Rotary(4))):
        layer.double()
        assert (layer(x[:, order]) - layer(x)[:, order]).abs().max() > 1e-5


@pytest.mark.parametrize("num, furthest, both", [(32, 128, True), (32, 128, False), (8, 20, True), (6, 40, False)])
def test_far_offsets_share_buckets_as_in_the_plain_loop(num, furthest, both):
    bias = BucketBias(1, num, furthest, both)
    with torch.no_grad():
        bias.table.weight.copy_(torch.arange(float(num))[:, None])
    found = bias(torch.tensor([300]), torch.arange(601))[0, 0, 0].tolist()
    assert found == [bucket(offset, num, furthest, both) for offset in range(-300, 301)]


@pytest.mark.parametrize("num_heads", [1, 3, 4, 6, 8])
def test_slopes_are_those_of_the_plain_loop(num_heads):
    found = ALiBi(num_heads)(torch.tensor([3, 4]), torch.arange(5))[0]
    expected = [
        [[-slope(h, num_heads) * abs(i - j) for j in range(5)] for i in (3, 4)] for h in range(1, num_heads + 1)
    ]
    close(found.double(), torch.tensor(expected, dtype=torch.float64), 1e-6)
