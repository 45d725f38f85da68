"""Weights of attention under fused kernels, against the softmax written out; heads silenced; nothing left behind."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leadline.errors import UserError
from leadline.layers.attention import CrossAttention, SelfAttention
from leadline.layers.masks import Causal, Graph, Padding, Window
from leadline.layers.relative_attention import RelativeAttention
from leadline.lens import attention_map, attention_rank, head_ablation, head_entropy
from leadline.lens.heads import heard, silenced
from leadline.likelihoods import Tokens
from leadline.models import BERT, GPT, MLP, T5, DaViT, ImageGPT, Swin, Transformer, ViT


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def rows_for(model, count=2):
    shape = model.input_shape
    if len(shape) == 1:
        return torch.randint(1, model.num_tokens, (count, *shape))
    return torch.randn(count, *shape)


def state(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def loud(model):
    """The same with large weights, so that attention is far from even."""
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p))
    return model.eval()


def by_hand(q, k, allowed=None, bias=0.0, scale=None):
    """Softmax with loops over queries, in float64."""
    q, k = q.double(), k.double()
    scores = q @ k.transpose(-1, -2) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1])) + bias
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    out = torch.zeros_like(scores)
    for index in np.ndindex(*scores.shape[:-1]):
        e = [math.exp(s - float(scores[index].max())) for s in scores[index].tolist()]
        out[index] = torch.tensor([v / sum(e) for v in e], dtype=torch.float64)
    return out


@pytest.mark.parametrize("kind", (GPT, BERT, Transformer, T5, ViT, Swin, DaViT, ImageGPT))
def test_every_attention_of_every_model_is_heard_and_is_a_distribution(kind):
    model = loud(kind.tiny()).train()
    before, x = state(model), rows_for(model)
    view = attention_map(model, x)
    assert view.names and all(w.shape[1] >= 1 for w in view.weights)
    for weights in view.weights:
        assert (weights >= 0).all() and np.allclose(weights.sum(-1), 1, atol=1e-5)
    assert model.training and all(torch.equal(before[name], value) for name, value in state(model).items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert view.plot() is not None and view.plot(0, 0) is not None and view.routing() is not None
    assert len(view.to_dict()["weights"]) == len(view.names)


def test_it_is_the_naive_softmax_of_a_decoder_with_a_window_and_documents():
    net = loud(GPT(11, 7, dim=8, num_layers=2, num_heads=2, window=2, end=0))
    x = torch.tensor([[3, 5, 0, 4, 4, 7, 1], [1, 2, 3, 4, 5, 6, 7]])
    view = attention_map(net, x)
    i = torch.arange(7)
    document = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0] * 7])
    same = (document[:, :, None] == document[:, None])[:, None]
    causal = i <= i[:, None]
    h = net.embed(x) + net.place.weight[:7]
    for k, layer in enumerate(net.layers):
        allowed = same & causal & ((i[:, None] - i <= 2) if k % 2 else True)
        attention = layer.look.branch
        q, key, _ = attention.queries_keys_values(layer.look.norm(h))
        assert np.allclose(view.weights[k], by_hand(q.detach(), key.detach(), allowed), atol=1e-5)
        h = layer(h, Graph(allowed.expand(2, 1, 7, 7)[:, 0]), None, None, None)
    assert (view.weights[1][0][:, 6, :4] == 0).all()  # neither the other document nor beyond the window


def test_biases_scales_groups_and_padding_are_in_the_weights():
    grouped = SelfAttention(8, 4, num_groups=2, scale=0.3)
    x, bias = torch.randn(2, 5, 8), torch.randn(1, 4, 5, 5)
    there = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    mask = Padding(there) & Causal()
    with torch.no_grad(), heard(grouped) as calls:
        grouped(x, mask, bias)
    q, k, _ = grouped.queries_keys_values(x)
    want = by_hand(q.detach(), k.detach().repeat_interleave(2, 1), mask.dense(2, 5, 5), bias.double(), 0.3)
    assert torch.allclose(calls[0].weights.double(), want, atol=1e-6)

    relative = RelativeAttention(8, 2, furthest=3, mode="vectors")
    with torch.no_grad(), heard(relative) as calls:
        relative(x, Window(2))
    q, k, _ = relative.attention.queries_keys_values(x)
    want = by_hand(q.detach(), k.detach(), Window(2).dense(2, 5, 5), relative.bias(q, k).detach().double())
    assert torch.allclose(calls[0].weights.double(), want, atol=1e-6)


def test_a_query_that_may_look_at_nothing_has_no_weights():
    cross = CrossAttention(4, 1)
    with torch.no_grad(), heard(cross) as calls:
        cross(torch.randn(1, 2, 4), torch.randn(1, 3, 4), Padding(torch.zeros(1, 3, dtype=torch.bool)))
    assert (calls[0].weights == 0).all()


def test_torch_own_module_is_heard_and_answers_as_before():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(3, 5, 8)
    with torch.no_grad():
        want = net(x)
        with heard(net) as calls:
            assert torch.allclose(net(x), want, atol=1e-6)
    first = net.layers[0].self_attn
    q, k, _ = (x @ first.in_proj_weight.T + first.in_proj_bias).chunk(3, -1)
    q, k = (part.detach().unflatten(-1, (2, 4)).transpose(1, 2) for part in (q, k))
    assert torch.allclose(calls[0].weights.double(), by_hand(q, k), atol=1e-6)
    assert torch.backends.mha.get_fastpath_enabled()
    plain = nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad(), heard(plain) as calls:
        mean = plain(x, x, x)[1]
        assert torch.allclose(mean, calls[0].weights.mean(1)) and plain(x, x, x, need_weights=False)[1] is None


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 100))
def test_batch_mates_and_padding_change_nothing(mates, pads, seed):
    torch.manual_seed(seed)
    net = loud(BERT(11, 9, 3, head="classes", dim=8, num_layers=2, num_heads=2, pad=0))
    row = torch.randint(1, 11, (1, 5))
    alone = attention_map(net, row).weights
    padded = torch.zeros(1 + mates, 5 + pads, dtype=torch.long)
    padded[1:] = torch.randint(1, 11, (mates, 5 + pads))
    padded[0, :5] = row
    with_mates = attention_map(net, padded, num=8).weights
    for a, b in zip(alone, with_mates):
        assert np.allclose(a[0], b[0, :, :5, :5], atol=1e-5) and (b[0, :, :, 5:] == 0).all()


def test_words_of_source_and_target_stand_at_their_axes():
    net = Transformer.tiny()
    x = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8, 9]])
    view = attention_map(net, x)
    named = {name: (q[0], k[0]) for name, q, k in zip(view.names, view.queries, view.keys)}
    assert named["encoder.0.look.branch"] == (tuple("12345"), tuple("12345"))
    assert named["decoder.0.ask.branch"] == (tuple("6789"), tuple("12345"))
    assert named["decoder.0.look.branch"] == (tuple("6789"), tuple("6789"))
    assert view.own == (True, True, False)


def test_a_rollout_is_its_product():
    net = loud(GPT(11, 5, dim=8, num_layers=3, num_heads=2))
    view = attention_map(net, torch.randint(11, (2, 5)))
    want = np.eye(5)
    for weights in view.weights:
        want = (weights.mean(1) + np.eye(5)) / 2 @ want
    assert np.allclose(view.rollout, want, atol=1e-6) and np.allclose(view.rollout.sum(-1), 1)
    assert (np.triu(view.rollout[0], 1) == 0).all()
    with pytest.raises(UserError, match="rollout"):
        attention_map(Swin.tiny(), torch.randn(1, 1, 9, 8)).rollout  # noqa: B018


def test_what_has_no_attention_is_refused():
    with pytest.raises(UserError, match="attention whose weights"):
        attention_map(MLP(4, (3,), 2), torch.randn(2, 4))
    with pytest.raises(UserError, match="rows must be"):
        attention_map(GPT.tiny(), "a text")


def test_entropy_distance_and_share_of_the_first_token():
    net = loud(GPT(11, 6, dim=8, num_layers=2, num_heads=2))
    x = torch.randint(11, (3, 6))
    view, maps = head_entropy(net, x), attention_map(net, x)
    w = maps.weights[1][:, 0, 1:]  # the first query has no choice
    assert view.entropy[2] == pytest.approx(-np.where(w > 0, w * np.log(np.maximum(w, 1e-300)), 0).sum(-1).mean())
    apart = np.abs(np.arange(1, 6)[:, None] - np.arange(6))
    assert view.distance[2] == pytest.approx((w * apart).sum(-1).mean())
    assert view.first[2] == pytest.approx(w[..., 0].mean())
    assert view.names[2] == "layers.1.look.branch" and view.heads.tolist() == [0, 1, 0, 1]
    assert view.most[0] == pytest.approx(np.mean([math.log(n) for n in range(2, 7)]))
    assert view.plot() is not None
    crossed = head_entropy(Transformer.tiny(), torch.randint(1, 11, (2, 9)))
    assert np.isnan(crossed.distance[-1]) and np.isfinite(crossed.distance[0])


def test_even_attention_has_the_most_entropy():
    net = GPT(11, 6, dim=8, num_layers=1, num_heads=2)
    nn.init.zeros_(net.layers[0].look.branch.query_key_value.weight)
    view = head_entropy(net, torch.randint(11, (2, 6)))
    assert np.allclose(view.entropy, view.most)


def test_the_rank_of_attention():
    net = GPT(11, 6, dim=8, num_layers=1, num_heads=2)
    x = torch.randint(11, (2, 6))
    bert = BERT(11, 6, 3, head="classes", dim=8, num_layers=1, num_heads=2)
    nn.init.zeros_(bert.layers[0].attention.branch.query_key_value.weight)
    assert attention_rank(bert, x, level=0.999).rank[0].tolist() == [1, 1]  # all rows alike
    view = attention_rank(loud(net), x)
    w = attention_map(net, x).weights[0][:, 0]
    s = [np.linalg.svd(m)[1] for m in w]
    want = np.mean([1 + ((v**2).cumsum() / (v**2).sum() < 0.9).sum() for v in s])
    assert view.rank[0][0] == pytest.approx(want) and view.most.tolist() == [6] and view.plot() is not None


def test_a_silenced_head_is_one_whose_values_are_zero():
    net = loud(GPT(11, 6, dim=8, num_layers=2, num_heads=2))
    x, before = torch.randint(11, (2, 6)), state(net)
    with torch.no_grad(), silenced(net, {"layers.1.look.branch": (1,)}):
        got = net(x)
    assert all(torch.equal(before[name], value) for name, value in state(net).items())
    branch = net.layers[1].look.branch
    with torch.no_grad():
        branch.query_key_value.weight[20:24] = 0  # values of head 1
        branch.query_key_value.bias[20:24] = 0
        assert torch.allclose(net(x), got, atol=1e-5)


def test_torch_own_heads_can_be_silenced_too():
    net = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, own = torch.randn(1, 4, 8), net.out_proj.weight
    wrapped = nn.ModuleDict({"a": net})
    with torch.no_grad():
        with silenced(wrapped, {"a": (0, 1)}):
            assert torch.allclose(net(x, x, x)[0], net.out_proj.bias.expand(1, 4, 8))
        assert net.out_proj.weight is own


def test_heads_go_in_the_order_of_their_importance_and_come_back():
    net = loud(GPT(11, 6, dim=8, num_layers=2, num_heads=2))
    x = torch.randint(11, (8, 6))
    y = torch.cat([x[:, 1:], x[:, :1]], 1)
    before = state(net)
    view = head_ablation(net, (x, y), Tokens(11))
    assert all(torch.equal(before[name], value) for name, value in state(net).items())
    family = Tokens(11)
    with torch.no_grad(), silenced(net, {"layers.0.look.branch": (1,)}):
        alone = float(family.loss(net(x), y).mean())
    assert view.importance[1] == pytest.approx(alone - view.loss, abs=1e-5)
    assert (np.diff(view.importance[view.order]) >= 0).all() and view.metric == "nll"
    assert view.silenced.tolist() == [0, 1, 2, 3, 4]
    assert view.score[1] == pytest.approx(view.loss + view.importance.min(), abs=1e-5)
    assert view.reversed[1] == pytest.approx(view.loss + view.importance.max(), abs=1e-5)
    assert view.score[-1] == pytest.approx(view.reversed[-1]) and view.plot() is not None


def test_a_head_a_layer_or_a_row_that_is_not_there_is_named():
    view = attention_map(GPT.tiny(), torch.tensor([[3, 1, 4]]))
    for asked, words in (((2,), "layer must be"), ((0, 2), "head must be"), ((0, 0, 1), "row must be")):
        for draw in (view.plot, view.routing):
            with pytest.raises(UserError, match=words):
                draw(*asked)


def test_drawings_leave_out_what_is_not_known_and_say_what_they_leave_out():
    windows = Swin.tiny()
    view = head_entropy(windows, torch.randn(2, *windows.input_shape))
    assert [ax.get_title(loc="left") for ax in view.plot().axes] == [
        "How widely",
        "At the first token",
    ]  # no places of a row
    long = attention_map(GPT(11, 20, dim=8, num_layers=1, num_heads=2), torch.ones(1, 20, dtype=torch.long))
    assert long.routing().get_suptitle().endswith("head 0; the first 12 of 20 values")
