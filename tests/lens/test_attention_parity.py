"""Attention of a model of another library, which shows its weights where it is asked to."""

import pytest
import torch

from leadline.lens import attention_map, head_entropy
from leadline.lens.heads import silenced

transformers = pytest.importorskip("transformers")


def both():
    """One network, computed by a fused kernel and written out."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 23, "n_positions": 12, "n_embd": 16, "n_layer": 2, "n_head": 4}
    fused, written = (
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, attn_implementation=way)
        ).eval()
        for way in ("sdpa", "eager")
    )
    with torch.no_grad():
        for p in fused.parameters():
            p.copy_(0.5 * torch.randn_like(p))
    written.load_state_dict(fused.state_dict())
    return fused, written


def test_weights_are_those_that_the_other_library_shows():
    fused, written = both()
    x = torch.randint(23, (3, 9))
    view = attention_map(fused, x)
    with torch.no_grad():
        shown = written(x, output_attentions=True).attentions
    assert view.names == ("transformer.h.0.attn", "transformer.h.1.attn")
    for ours, theirs in zip(view.weights, shown, strict=True):
        assert torch.allclose(torch.tensor(ours), theirs.double(), atol=1e-5)
    assert head_entropy(fused, x).entropy.shape == (8,)


def test_heads_of_the_other_library_can_be_silenced():
    fused, _ = both()
    x = torch.randint(23, (2, 9))
    with torch.no_grad(), silenced(fused, {"transformer.h.1.attn": (2,)}):
        got = fused(x).logits
    with torch.no_grad():
        fused.transformer.h[1].attn.c_proj.weight[8:12] = 0  # rows of head 2: this map has its input first
        assert torch.allclose(fused(x).logits, got, atol=1e-4)
