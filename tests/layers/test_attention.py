"""Attention on torch's kernels: against its twin, against torch's own layer, and position by position with a cache."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import UserError
from leadline.layers import noise
from leadline.layers.attend import attend, weights
from leadline.layers.attention import CrossAttention, SelfAttention, in_heads, joined
from leadline.layers.cache import Cache, Room
from leadline.layers.masks import Causal, Graph, Padding, Window
from leadline.layers.rotary import Rotary
from leadline.reference import attention as twin


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@given(st.integers(1, 3), st.sampled_from([(4, 4), (4, 2), (4, 1)]), st.integers(1, 6), st.integers(1, 6))
@settings(deadline=None, max_examples=15)
def test_attend_equals_its_twin(B, heads, T, S):
    H, G = heads
    q, k, v = drawn(B, H, T, 3), drawn(B, G, S, 3, seed=1), drawn(B, G, S, 5, seed=2)
    allowed, bias = drawn(B, T, S, seed=3) > -0.3, drawn(1, H, T, S, seed=4)
    for scale in (None, 0.7):
        out = attend(q, k, v, Graph(allowed), bias, scale)
        found = weights(q, k, Graph(allowed), bias, scale)
        for b in range(B):
            for h in range(H):
                g = h * G // H
                part = [t.tolist() for t in (q[b, h], k[b, g], allowed[b], bias[0, h])]
                expected = twin.attention_weights(*part, scale)
                close(found[b, h], torch.tensor(expected, dtype=torch.float64))
                value = twin.attend(part[0], part[1], v[b, g].tolist(), part[2], part[3], scale)
                close(out[b, h], torch.tensor(value, dtype=torch.float64))


@pytest.mark.parametrize("mask", [None, Causal(), Window(1), Window(1) & Causal()])
@pytest.mark.parametrize("G", [4, 2])
def test_gradients_of_attend(mask, G):
    q, k, v = drawn(2, 4, 3, 2), drawn(2, G, 3, 2, seed=1), drawn(2, G, 3, 2, seed=2)
    bias = drawn(1, 4, 3, 3, seed=3)
    assert torch.autograd.gradcheck(
        lambda *a: attend(*a[:3], mask, a[3]), [t.requires_grad_() for t in (q, k, v, bias)]
    )
    assert torch.autograd.gradcheck(lambda *a: attend(*a, mask), (q, k, v))


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_torch_s(causal):
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True).double()
    torch.nn.init.normal_(theirs.in_proj_bias)
    ours = SelfAttention(12, 3).double()
    with torch.no_grad():
        ours.query_key_value.weight.copy_(theirs.in_proj_weight), ours.query_key_value.bias.copy_(theirs.in_proj_bias)
        ours.out.weight.copy_(theirs.out_proj.weight), ours.out.bias.copy_(theirs.out_proj.bias)
    x = drawn(2, 5, 12)
    allowed = torch.ones(5, 5).tril().bool() if causal else torch.ones(5, 5).bool()
    close(ours(x, Causal() if causal else None), theirs(x, x, x, attn_mask=~allowed)[0])


def test_cross_attention_is_torch_s():
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(12, 3, batch_first=True, kdim=8, vdim=8).double()
    ours = CrossAttention(12, 3, dim_source=8).double()
    with torch.no_grad():
        ours.query.weight.copy_(theirs.q_proj_weight)
        ours.key_value.weight.copy_(torch.cat([theirs.k_proj_weight, theirs.v_proj_weight]))
        ours.out.weight.copy_(theirs.out_proj.weight), ours.out.bias.copy_(theirs.out_proj.bias)
        ours.query.bias.zero_(), ours.key_value.bias.zero_()
    x, source, there = drawn(2, 5, 12), drawn(2, 7, 8, seed=1), torch.arange(7) < torch.tensor([[7], [4]])
    close(ours(x, source, Padding(there)), theirs(x, source, source, key_padding_mask=~there)[0])
    k, v = ours.keys_values(source)
    close(ours(x, None, Padding(there), Room(k, v, fixed=True)), ours(x, source, Padding(there)))
    with pytest.raises(UserError, match="must be given a source"):
        ours(x, None)


def test_one_group_a_head_is_plain_attention_with_its_keys_written_out():
    grouped = SelfAttention(16, 4, num_groups=2).double()
    plain = SelfAttention(16, 4).double()
    with torch.no_grad():
        for one, two in zip(plain.query_key_value.parameters(), grouped.query_key_value.parameters(), strict=True):
            q, k, v = two.split([16, 8, 8])
            k, v = (part.unflatten(0, (2, 4)).repeat_interleave(2, 0).flatten(0, 1) for part in (k, v))
            one.copy_(torch.cat([q, k, v]))
        plain.out.load_state_dict(grouped.out.state_dict())
    x = drawn(2, 5, 16)
    close(plain(x, Causal()), grouped(x, Causal()))


@pytest.mark.parametrize("how", ["plain", "groups", "rotary", "pairs"])
@pytest.mark.parametrize("chunks", [(1,) * 7, (4, 1, 2)])
def test_with_a_cache_position_by_position_is_the_whole_row(how, chunks):
    turn = {"rotary": Rotary(4), "pairs": Rotary(4, layout="pairs")}.get(how)
    layer = SelfAttention(16, 4, num_groups=2 if how == "groups" else None, turn=turn).double()
    starts = torch.tensor([0, 2, 1])  # rows stand at places of their own
    x = drawn(3, 7, 16)
    cache = Cache.empty(1, 3, layer.groups, 10, 4, dtype=torch.float64)
    past = drawn(3, 2, 16, seed=5)
    if starts.any():  # what stands before a row's own first token of this test
        layer(past, room=cache.rooms[0], at=torch.arange(2).expand(3, 2))
    done, found = 0, []
    for size in chunks:
        at = starts[:, None] + torch.arange(done, done + size)
        found.append(layer(x[:, done : done + size], room=cache.rooms[0], at=at))
        done += size
    for b, start in enumerate(starts.tolist()):
        row = torch.cat([past[b : b + 1, :start], x[b : b + 1]], 1)
        close(torch.cat(found, 1)[b], layer(row, Causal())[0, start:])


def test_beams_change_places():
    cache = Cache.empty(2, 3, 1, 4, 2)
    for n, room in enumerate(cache.rooms):
        room.keys.copy_(torch.arange(3.0).view(3, 1, 1, 1) + 10 * n)
        room.values.copy_(room.keys + 100)
    cache.at.copy_(torch.tensor([[5], [6], [7]]))
    held = cache.rooms[0].keys
    cache.reorder(torch.tensor([2, 2, 0]))
    assert cache.rooms[0].keys is held  # a recorded graph reads the same memory
    assert cache.rooms[1].values[:, 0, 0, 0].tolist() == [112.0, 112.0, 110.0]
    assert cache.at.flatten().tolist() == [7, 7, 5]


def test_dropped_weights_belong_to_their_example():
    layer = SelfAttention(8, 2, p_drop=0.5, site=3).train()
    x = drawn(4, 6, 8, dtype=torch.float32)
    keys = noise.example_keys(0, 0, torch.arange(4))
    with noise.keyed(keys):
        whole = layer(x, Causal())
        again = layer(x, Causal())
    with noise.keyed(keys[2:]):
        part = layer(x[2:], Causal())
    assert torch.equal(whole, again) and not torch.equal(whole, layer.eval()(x, Causal()))
    torch.testing.assert_close(whole[2:], part)


def test_dropped_weights_keep_their_mean():
    torch.manual_seed(0)
    q, k, v = drawn(1, 1, 2, 4), drawn(1, 1, 5, 4, seed=1), drawn(1, 1, 5, 3, seed=2)
    many = attend(*(t.expand(4000, *t.shape[1:]) for t in (q, k, v)), p_drop=0.3).mean(0, keepdim=True)
    close(many, attend(q, k, v), 0.05)


def test_dropped_weights_of_groups_are_those_of_their_keys_written_out():
    q, k, v = drawn(2, 4, 3, 4), drawn(2, 2, 5, 4, seed=1), drawn(2, 2, 5, 3, seed=2)
    keys = noise.example_keys(0, 0, torch.arange(2))
    with noise.keyed(keys):
        found = attend(q, k, v, Window(2), p_drop=0.5)
        expected = attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), Window(2), p_drop=0.5)
    close(found, expected)


def test_tokens_in_another_order_give_the_outputs_in_that_order():
    layer, x, order = SelfAttention(8, 2).double(), drawn(2, 6, 8), torch.randperm(6)
    close(layer(x[:, order]), layer(x)[:, order])


def test_heads_and_back():
    x = drawn(2, 3, 12)
    assert torch.equal(joined(in_heads(x, 4)), x) and in_heads(x, 4).shape == (2, 3, 3, 4)
    assert torch.equal(in_heads(x, 4)[0, 1, 2], x[0, 2, 4:8])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 100, "num_heads": 12}, "Nearest: 96 or 108"),
        ({"dim": 3, "num_heads": 12}, "Nearest: 12"),
        ({"dim": 12, "num_heads": 6, "num_groups": 4}, "1, 2, 3, 6"),
        ({"dim": 12, "num_heads": 0}, "num_heads"),
    ],
)
def test_sizes_that_do_not_fit_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        SelfAttention(**arguments)


def test_in_evaluation_nothing_is_dropped():
    x = drawn(2, 5, 8)
    for kind, given_ in ((SelfAttention, (x,)), (CrossAttention, (x, drawn(2, 3, 8, seed=1)))):
        plain, dropping = kind(8, 2).double(), kind(8, 2, p_drop=0.9).double().eval()
        dropping.load_state_dict(plain.state_dict())
        close(dropping(*given_), plain(*given_))
