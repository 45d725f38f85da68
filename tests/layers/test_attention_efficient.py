"""Attention in other forms: each against its definition with the whole matrix written out."""

import math

import pytest
import torch
import torch.nn.functional as F

from leadline.errors import ShapeError, UserError
from leadline.layers.attend import weights
from leadline.layers.attention import SelfAttention, in_heads, joined
from leadline.layers.attention_free import AttentionFree
from leadline.layers.compressed_attention import CompressedAttention
from leadline.layers.cross_covariance import CrossCovariance
from leadline.layers.dynamic_convolution import DynamicConvolution
from leadline.layers.hashed_attention import HashedAttention
from leadline.layers.kernel_attention import (
    KernelAttention,
    kernel_attend,
    log_random_features,
    orthogonal_directions,
    random_features,
)
from leadline.layers.log_kernel import log_kernel_attend
from leadline.layers.low_rank_attention import LowRankAttention
from leadline.layers.masks import Blocks, Causal, Padding, Window
from leadline.layers.placed_attention import PlacedAttention, UntiedAttention
from leadline.layers.spatial_gate import SpatialGate
from leadline.layers.synthesizer import KINDS, Synthesizer

B, T, D, H, K = 2, 7, 8, 2, 4
THERE = torch.arange(T) < torch.tensor([[T], [4]])


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


LAYERS = {
    "low rank": lambda: LowRankAttention(D, H, T, 3),
    "elu": lambda: KernelAttention(D, H),
    "random features": lambda: KernelAttention(D, H, "random", 16),
    "compressed": lambda: CompressedAttention(D, H, 3),
    "hashed": lambda: HashedAttention(D, H, 4, 3, 2),
    "dense synthesizer": lambda: Synthesizer(D, H, T),
    "random synthesizer": lambda: Synthesizer(D, H, T, "random"),
    "dynamic convolution": lambda: DynamicConvolution(D, H, 3),
    "gated": lambda: SpatialGate(D, 6, T),
    "attention free": lambda: AttentionFree(D, T, 2),
    "attention free, simple": lambda: AttentionFree(D, T, 0),
    "cross covariance": lambda: CrossCovariance(D, H),
}
BOTH_WAYS_ONLY = ("low rank", "cross covariance")


def made(name):
    torch.manual_seed(0)
    layer = LAYERS[name]().double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))  # no weight is left where it does not count
    return layer


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name):
    layer, x = made(name), drawn(1, 5, D).requires_grad_()
    assert layer(x).shape == x.shape
    assert torch.autograd.gradcheck(layer, (x,))
    assert torch.autograd.gradcheck(lambda x: layer(x, Padding(torch.arange(5)[None] < 3)), (x,))


@pytest.mark.parametrize("name", LAYERS)
def test_padding_and_batch_mates_change_nothing(name):
    layer, x = made(name), drawn(B, T, D)
    found = layer(x, Padding(THERE))
    close(found[0], layer(x[:1])[0])
    close(found[1, :4], layer(x[1:, :4])[0])


@pytest.mark.parametrize("name", LAYERS)
def test_a_row_of_which_nothing_is_there_is_finite(name):
    layer, x = made(name), drawn(B, T, D).requires_grad_()
    found = layer(x, Padding(THERE & torch.tensor([[True], [False]])))
    found.square().sum().backward()
    assert bool(found.isfinite().all()) and bool(x.grad.isfinite().all())
    if name in ("elu", "random features", "attention free", "attention free, simple"):
        out = layer.out if hasattr(layer, "out") else layer.attention.out
        close(found[1], out.bias.expand(T, D))  # nothing was looked at


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in BOTH_WAYS_ONLY])
def test_the_future_is_not_seen(name):
    layer, x = made(name), drawn(B, T, D)
    before = layer(x, Causal())
    for n in range(1, T):
        after = layer(torch.cat([x[:, :n], drawn(B, T - n, D, seed=n)], 1), Causal())
        close(after[:, :n], before[:, :n])
        assert not torch.allclose(after[:, n:], before[:, n:])
    both = layer(x, Causal() & Padding(THERE))
    close(both[0], before[0])
    close(both[1, :4], before[1, :4])


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_no_batch_of_rows_is_refused_and_empty_rows_are_left_alone(name):
    layer = made(name)
    for x, do in (
        (drawn(T, D), r"x\[None\]"),
        (drawn(B, T, D + 1), "build it with dim=9"),
        (drawn(B, T, 1, D), "flatten"),
        (torch.ones(B, T, D, dtype=torch.long), "Embedding"),
    ):
        with pytest.raises(ShapeError, match=rf"^\w+ reads rows of 8 features, \(B, T, 8\)\. Got .*{do}"):
            layer(x)
    assert layer(drawn(B, 0, D)).shape == (B, 0, D)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_later_key_of_any_size_leaves_no_trace_without_attention(rank):
    layer, x = AttentionFree(8, 40, rank), drawn(1, 40, 8).float()
    with torch.no_grad():
        layer.query_key_value.weight[8:16].copy_(torch.eye(8))  # keys are the features themselves
    before = layer(x, Causal())
    for at in (1, 8, 31, 39):
        later = x.clone()
        later[:, at:] += 300.0
        assert torch.equal(layer(later, Causal())[:, :at], before[:, :at])


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in BOTH_WAYS_ONLY])
def test_gradients_where_it_is_causal(name):
    layer, x = made(name), drawn(1, 5, D).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x, Causal()), (x,))


@pytest.mark.parametrize("name", LAYERS)
def test_a_mask_of_other_lengths_is_refused(name):
    layer, x = made(name), drawn(B, T, D)
    for there in (THERE[:, :-1], THERE[:1], torch.ones(B, T + 1, dtype=torch.bool)):
        with pytest.raises(UserError, match=r"there of Padding must have the shape \(2, 7\) here"):
            layer(x, Padding(there))
    with pytest.raises(UserError, match=r"a mask must be a rule of leadline\.layers\.masks"):
        layer(x, THERE)


@pytest.mark.parametrize("name", LAYERS)
def test_other_masks_are_refused_by_name(name):
    layer, x = made(name), drawn(B, T, D)
    if "synthesizer" in name:
        assert layer(x, Window(1)).shape == x.shape
        return
    with pytest.raises(UserError, match="SelfAttention, which takes any mask"):
        layer(x, Window(1))
    if name in BOTH_WAYS_ONLY:
        with pytest.raises(UserError, match="must be Padding"):
            layer(x, Causal())


def test_low_rank_of_full_rank_and_identity_is_attention():
    layer, x = LowRankAttention(D, H, T, T).double(), drawn(B, T, D)
    with torch.no_grad():
        layer.mix_keys.copy_(torch.eye(T)), layer.mix_values.copy_(torch.eye(T))
    close(layer(x), layer.attention(x))


def test_low_rank_is_its_definition():
    layer, x = made("low rank"), drawn(B, T, D)
    q, k, v = layer.attention.queries_keys_values(x)
    k, v = layer.mix_keys @ k, layer.mix_values @ v
    close(layer(x), layer.attention.out(joined((q @ k.mT / math.sqrt(K)).softmax(-1) @ v)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["elu", "random features"])
def test_kernel_attention_is_its_quadratic_form(kind, causal):
    layer, x = made(kind), drawn(B, T, D)
    q, k, v = layer.attention.queries_keys_values(x)
    if kind == "elu":
        g = lambda t: torch.where(t > 0, t + 1, t.exp())  # noqa: E731
    else:
        w = layer.directions.double()
        g = lambda t: (t / K**0.25 @ w.T - t.square().sum(-1, keepdim=True) / math.sqrt(K) / 2).exp()  # noqa: E731
    pairs = g(q) @ g(k).mT
    pairs = pairs.tril() if causal else pairs
    expected = pairs / pairs.sum(-1, keepdim=True) @ v
    close(layer(x, Causal() if causal else None), layer.attention.out(joined(expected)))


def long(norm, dtype=torch.float32):
    """Queries and keys of a norm, in any direction, and values."""
    q, k = (F.normalize(drawn(2, 3, 90, 16, seed=seed), dim=-1) * norm for seed in (0, 1))
    return [part.to(dtype) for part in (q, k, drawn(2, 3, 90, 5, seed=2))]


@pytest.mark.parametrize("norm", [1.0, 30.0, 60.0, 300.0, 3000.0])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("piece", [1, 16, 64, 128])
def test_features_of_any_norm_keep_their_weights(norm, causal, piece):
    there = torch.arange(90) < torch.tensor([[90], [70]])
    q, k, v = long(norm, torch.float64)
    w = orthogonal_directions(24, 16).double()
    log_q, log_k = log_random_features(q, w), log_random_features(k, w)
    pairs = (log_q[:, :, :, None] + log_k[:, :, None]).logsumexp(-1)
    pairs = pairs.masked_fill(~there[:, None, None], -math.inf)
    pairs = pairs.masked_fill(torch.ones(90, 90).triu(1).bool(), -math.inf) if causal else pairs
    found = log_kernel_attend(log_q, log_k, v, there, causal, piece)
    close(found, pairs.softmax(-1) @ v, 1e-9)
    rounded = log_kernel_attend(log_q.float(), log_k.float(), v.float(), there, causal, piece)
    exact = log_kernel_attend(log_q.float().double(), log_k.float().double(), v, there, causal, piece)
    close(rounded.double(), exact, 1e-4 * max(1, norm * norm / 1e4))  # digits that sums of features lose


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm", [1.0, 60.0, 1000.0])
def test_random_features_of_long_rows_are_means_of_values(norm, causal):
    layer = KernelAttention(16, 2, "random", 64)
    with torch.no_grad():
        layer.attention.out.weight.copy_(torch.eye(16)), layer.attention.out.bias.zero_()
        layer.attention.query_key_value.bias[32:] = 3.0  # values, none near 0
        layer.attention.query_key_value.weight[32:] *= 1e-3
        layer.attention.query_key_value.weight[:32] *= norm
    x = drawn(2, 80, 16).float().requires_grad_()
    found = layer(x, Causal() if causal else None)
    assert bool(((found > 2.8) & (found < 3.2)).all())  # a 0 in place of a mean is neither
    if causal:
        first = layer.attention.queries_keys_values(x)[2][:, :, :1]
        close(found[:, :1], joined(first), 1e-5)  # the first token looks at itself
    found.square().sum().backward()
    assert bool(x.grad.isfinite().all())


def test_a_long_key_that_comes_later_leaves_no_trace():
    layer, x = KernelAttention(16, 2, "random", 64), drawn(1, 80, 16).float()
    before = layer(x, Causal())
    for at in (1, 40, 64, 79):
        later = x.clone()
        later[:, at:] *= 1e4
        assert torch.equal(layer(later, Causal())[:, :at], before[:, :at])


def test_random_features_of_short_rows_approach_softmax_in_long_sums_too():
    q, k, v = (part.double() for part in long(1.5))
    exact = weights(q, k, Causal()) @ v
    off = []
    for R in (32, 2048):
        w = orthogonal_directions(R, 16).double()
        found = log_kernel_attend(log_random_features(q, w), log_random_features(k, w), v, None, True)
        off.append(float((found - exact).square().mean().sqrt()))
    assert off[1] < off[0] / 4 and off[1] < 0.02


def test_features_far_below_0_keep_their_weights():
    layer, x = KernelAttention(D, H), drawn(B, T, D).float()
    with torch.no_grad():
        layer.attention.query_key_value.bias[: 2 * D] = -40.0
    q, k, v = (part.double() for part in layer.attention.queries_keys_values(x))
    pairs = (q[:, :, :, None] + k[:, :, None]).logsumexp(-1)  # elu + 1 is an exponential there
    close(layer(x), layer.attention.out(joined(pairs.softmax(-1) @ v).float()), 1e-4)


@pytest.mark.parametrize("piece", [1, 2, 3, 64])
def test_causal_kernel_attention_is_a_recurrent_network(piece):
    g_q, g_k, v = drawn(B, H, T, 5).exp(), drawn(B, H, T, 5, seed=1).exp(), drawn(B, H, T, 3, seed=2)
    S, z, found = torch.zeros(B, H, 5, 3).double(), torch.zeros(B, H, 5).double(), []
    for t in range(T):
        S, z = S + g_k[:, :, t, :, None] * v[:, :, t, None], z + g_k[:, :, t]
        found.append((g_q[:, :, t, None] @ S).squeeze(2) / (g_q[:, :, t] * z).sum(-1, keepdim=True))
    close(kernel_attend(g_q, g_k, v, causal=True, piece=piece), torch.stack(found, 2))


def test_a_query_without_keys_gets_0_from_a_kernel():
    g, v = torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 4)
    assert torch.equal(kernel_attend(g, torch.zeros_like(g), v), torch.zeros(1, 1, 2, 4))


def test_random_features_approach_softmax_attention():
    q, k, v = drawn(1, 1, 6, 8) / 4, drawn(1, 1, 6, 8, seed=1) / 4, drawn(1, 1, 6, 3, seed=2)
    exact = weights(q, k) @ v
    errors = []
    for R in (8, 128, 4096):
        found = []
        for seed in range(8):
            w = orthogonal_directions(R, 8, seed).double()
            found.append(kernel_attend(random_features(q, w, True), random_features(k, w, False), v))
        errors.append(float((torch.stack(found) - exact).square().mean().sqrt()))
    assert errors[0] > 2 * errors[1] > 4 * errors[2] and errors[2] < 0.06


def test_directions_are_at_right_angles_and_of_normal_length():
    w = orthogonal_directions(12, 4)
    for block in w.split(4):
        close(block @ block.T, torch.diag(block.square().sum(1)), 1e-5)
    many = orthogonal_directions(4000, 16)
    assert abs(float(many.square().sum(1).mean()) - 16) < 0.5
    for first in range(16):
        close(many[first::16].mean(0), torch.zeros(16), 0.3)  # none is preferred, in no place of a block
    close(many.T @ many / 4000, torch.eye(16), 0.1)


@pytest.mark.parametrize("causal", [False, True])
def test_compressed_attention_is_its_definition(causal):
    layer, x = made("compressed"), drawn(B, T, D)
    q, k, v = layer.attention.query_key_value(x).chunk(3, -1)
    short = []
    for part, conv in ((k, layer.compress_keys), (v, layer.compress_values)):
        part = F.pad(part, (0, 0, 0, 2))
        made_ = torch.zeros(B, 3, D).double()
        for c in range(3):
            for h in range(H):  # the channels of a head, of three places, into the channels of that head
                near, own = part[:, 3 * c : 3 * c + 3, h * K : h * K + K], slice(h * K, h * K + K)
                made_[:, c, own] = torch.einsum("btj,ijt->bi", near, conv.weight[own]) + conv.bias[own]
        short.append(in_heads(made_, K))
    q, (k, v) = in_heads(q, K), short
    scores = q @ k.mT / math.sqrt(K)
    if causal:
        allowed = torch.tensor([[3 * c + 2 <= i for c in range(3)] for i in range(T)])
        scores = scores.masked_fill(~allowed, -math.inf)
    expected = layer.attention.out(joined(scores.softmax(-1).nan_to_num(0.0) @ v))
    close(layer(x, Causal() if causal else None), expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 5, 23])
def test_hashed_attention_is_softmax_over_the_union_of_its_rounds(causal, rounds, length):
    torch.manual_seed(1)
    piece = 4
    layer, x = HashedAttention(D, H, num_buckets=4, piece=piece, num_rounds=rounds).double(), 2 * drawn(B, length, D)
    q, v = (in_heads(part, K) for part in layer.query_value(x).chunk(2, -1))
    bucket, scores = layer.buckets(q), q @ F.normalize(q, dim=-1).mT / math.sqrt(K)
    held = torch.zeros(B, H, length, length, dtype=torch.bool)
    for b in range(B):
        for h in range(H):
            for r in range(rounds):
                order = sorted(range(length), key=lambda n: (int(bucket[b, h, r, n]), n))
                where = {n: at if causal else at // piece for at, n in enumerate(order)}
                for i in range(length):
                    for j in range(i + 1 if causal else length):
                        near = 0 <= where[i] - where[j] <= (piece if causal else 1)
                        held[b, h, i, j] |= near and bool(bucket[b, h, r, i] == bucket[b, h, r, j])
    others = held & ~torch.eye(length, dtype=torch.bool)
    alone = ~others.any(-1, keepdim=True)
    expected = scores.masked_fill(~others, -math.inf).softmax(-1).nan_to_num(0.0) @ v
    expected = torch.where(alone, v, expected)
    assert length < 23 or (bool(others.any()) and not bool(others.all()))
    close(layer(x, Causal() if causal else None), layer.out(joined(expected)))


def test_later_tokens_have_no_say_in_whom_earlier_ones_look_at():
    torch.manual_seed(1)
    layer, x = HashedAttention(D, H, num_buckets=4, piece=4).double(), 2 * drawn(B, 40, D)
    whole = layer(x, Causal())
    for length in (7, 13, 26):
        other = torch.cat([x[:, :length], drawn(B, 40 - length, D, seed=length)], 1)
        close(layer(other, Causal())[:, :length], whole[:, :length])
        close(layer(x[:, :length], Causal()), whole[:, :length])


def test_near_vectors_fall_into_one_bucket():
    layer, q = HashedAttention(32, 1, num_buckets=16, num_rounds=1).double(), drawn(1, 1, 400, 32)
    near, far = q + 0.05 * drawn(1, 1, 400, 32, seed=1), drawn(1, 1, 400, 32, seed=2)
    hits = [float((layer.buckets(q) == layer.buckets(other)).double().mean()) for other in (near, far)]
    assert hits[0] > 0.85 and hits[1] < 0.15


@pytest.mark.parametrize("kind", KINDS)
def test_synthesizers_are_their_definition(kind):
    torch.manual_seed(0)
    layer, x = Synthesizer(D, H, 9, kind).double(), drawn(B, T, D)
    for b in range(B):
        for h in range(H):
            if kind == "dense":
                own = slice(h * 9, h * 9 + T)
                scores = layer.widen(x[b]).relu() @ layer.narrow.weight[own].T + layer.narrow.bias[own]
            else:
                scores = layer.table[h, :T, :T]
            close(layer.scores(x).expand(B, -1, -1, -1)[b, h], scores)
    v = in_heads(layer.value(x), K)
    close(layer(x), layer.out(joined(layer.scores(x).softmax(-1) @ v)))
    assert ("table" in dict(layer.named_parameters())) == (kind == "random")


@pytest.mark.parametrize("causal", [False, True])
def test_dynamic_convolution_is_a_banded_matrix_from_the_query_alone(causal):
    layer, x = made("dynamic convolution"), drawn(B, T, D)
    u = F.glu(layer.widen(x), -1)
    taps = layer.taps(u).view(B, T, H, 3).softmax(-1)
    back = 2 if causal else 1
    band = torch.zeros(B, H, T, T).double()
    for i in range(T):
        for t in range(3):
            if 0 <= i + t - back < T:
                band[:, :, i, i + t - back] = taps[:, i, :, t]
    close(layer(x, Causal() if causal else None), layer.out(joined(band @ in_heads(u, K))))
    with pytest.raises(UserError, match="must be odd"):
        DynamicConvolution(D, H, 4)(torch.zeros(B, T, D))


@pytest.mark.parametrize("causal", [False, True])
def test_the_gate_is_its_definition_and_starts_open(causal):
    layer, x = made("gated"), drawn(B, T, D)
    u, v = F.gelu(layer.widen(x)).chunk(2, -1)
    v = F.layer_norm(v, (6,), layer.norm.weight, layer.norm.bias)
    mix = layer.mix.tril() if causal else layer.mix
    close(
        layer(x, Causal() if causal else None),
        layer.narrow(u * (torch.einsum("ij,bjc->bic", mix, v) + layer.shift[:, None])),
    )
    new = SpatialGate(D, 6, T).double()
    close(new(x), new.narrow(F.gelu(new.widen(x)).chunk(2, -1)[0]), 0.02)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_attention_free_is_its_definition(causal, rank):
    layer, x = made("attention free" if rank else "attention free, simple"), drawn(B, T, D)
    q, k, v = layer.query_key_value(x).chunk(3, -1)
    w = layer.rows @ layer.columns.T if rank else torch.zeros(T, T).double()
    scores = k[:, None] + w[None, :, :, None]  # (B, T, T, D): the matrix that the layer never has
    if causal:
        scores = scores.masked_fill(~torch.ones(T, T).tril().bool()[None, :, :, None], -math.inf)
    expected = (scores.softmax(2) * v[:, None]).sum(2)
    close(layer(x, Causal() if causal else None), layer.out(q.sigmoid() * expected))


def test_attention_free_takes_large_keys():
    layer, x = AttentionFree(4, 5), torch.randn(1, 5, 4) * 200
    assert bool(layer(x).isfinite().all())


def test_cross_covariance_is_its_definition_channel_by_channel():
    layer, x = made("cross covariance"), drawn(B, T, D)
    q, k, v = layer.attention.queries_keys_values(x)
    out = torch.zeros_like(v)
    for b in range(B):
        for h in range(H):
            cosine = lambda c, d, b=b, h=h: F.cosine_similarity(q[b, h, :, c], k[b, h, :, d], dim=0)  # noqa: E731
            scores = torch.stack([torch.stack([cosine(c, d) for d in range(K)]) for c in range(K)])
            share = (layer.temperature[h] * scores).softmax(-1)  # (K, K), whatever T
            out[b, h] = v[b, h] @ share.T
    close(layer(x), layer.attention.out(joined(out)))


def test_block_local_attention_passes_nothing_between_blocks():
    layer, x = SelfAttention(D, H).double(), drawn(B, 8, D)
    found = layer(x, Blocks(4))
    close(found, torch.cat([layer(part) for part in x.split(4, 1)], 1))


@pytest.mark.parametrize(
    "layer",
    [
        LowRankAttention(16, 4, length=8, rank=3),
        PlacedAttention(16, 4, length=8),
        UntiedAttention(16, 4, length=8),
        Synthesizer(16, 4, length=8),
        Synthesizer(16, 4, length=8, kind="random"),
        AttentionFree(16, length=8),
        SpatialGate(16, 32, length=8),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_rows_longer_than_what_was_learned_are_refused(layer):
    assert layer(torch.zeros(2, 8, 16)).shape == (2, 8, 16)
    with pytest.raises(UserError, match="Got 9 tokens, 8 places"):
        layer(torch.zeros(2, 9, 16))
