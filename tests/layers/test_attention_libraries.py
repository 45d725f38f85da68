"""Positions as transformers has them."""

import pytest
import torch

from leadline.layers.alibi import ALiBi
from leadline.layers.masks import Causal
from leadline.layers.relative_buckets import BucketBias, bucket
from leadline.layers.rotary import Rotary

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("how", [(32, 128, True), (32, 128, False), (8, 20, True), (16, 64, False), (64, 1000, True)])
def test_t5_s_buckets(how):
    from transformers.models.t5.modeling_t5 import T5Attention

    num, furthest, both = how
    offsets = torch.arange(-5000, 5000)
    assert torch.equal(
        bucket(offsets, num, furthest, both), T5Attention._relative_position_bucket(offsets, both, num, furthest)
    )


def test_t5_s_bias():
    from transformers.models.t5.modeling_t5 import T5Attention

    config = transformers.T5Config(d_model=16, d_kv=4, num_heads=4, relative_attention_num_buckets=8)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = BucketBias(4, 8, config.relative_attention_max_distance, both_ways=True)
    ours.table.load_state_dict(theirs.relative_attention_bias.state_dict())
    torch.testing.assert_close(ours(torch.arange(6), torch.arange(6)), theirs.compute_bias(6, 6))


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_llama_s_turn(base):
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = transformers.LlamaConfig(hidden_size=32, num_attention_heads=4, rope_theta=base)
    if hasattr(config, "rope_parameters"):
        config.rope_parameters = {"rope_type": "default", "rope_theta": base}
    q, k = torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
    at = torch.tensor([0, 90])[:, None] + torch.arange(7)
    cos, sin = LlamaRotaryEmbedding(config)(q, at)
    turn = Rotary(8, base)
    for found, expected in zip((turn(q, at), turn(k, at)), apply_rotary_pos_emb(q, k, cos, sin), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_gpt_j_s_turn():
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    x, at = torch.randn(2, 7, 4, 8), torch.tensor([0, 90])[:, None] + torch.arange(7)
    sin, cos = create_sinusoidal_positions(128, 8)[at].chunk(2, -1)
    found = Rotary(8, layout="pairs")(x.transpose(1, 2), at).transpose(1, 2)
    torch.testing.assert_close(found, apply_rotary_pos_emb(x, sin, cos), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("H", [1, 2, 3, 8, 12, 20])
def test_bloom_s_slopes(H):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 6, dtype=torch.long), H, torch.float32).view(H, 1, 6)
    ours = ALiBi(H)(torch.arange(6), torch.arange(6))[0]
    allowed = Causal().dense(1, 6, 6)[0]
    # theirs grows with the key's place, ours falls with its distance: the same after softmax
    softmax = lambda s: s.masked_fill(~allowed, -torch.inf).softmax(-1)  # noqa: E731
    torch.testing.assert_close(softmax(ours), softmax(theirs.expand(H, 6, 6)))
