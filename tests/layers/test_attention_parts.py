"""What stands around attention: the branch beside the stream, the network of each token, scores of words."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leadline.errors import UserError
from leadline.layers.attention import SelfAttention
from leadline.layers.feed_forward import FeedForward
from leadline.layers.masks import Causal
from leadline.layers.sublayer import Sublayer
from leadline.layers.unembedding import Deferred, deferred, unembed


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_before_and_after():
    branch, norm, x = nn.Linear(4, 4).double(), nn.LayerNorm(4).double(), drawn(2, 3, 4)
    torch.testing.assert_close(Sublayer(branch, norm)(x), x + branch(norm(x)))
    torch.testing.assert_close(Sublayer(branch, norm, "post")(x), norm(x + branch(x)))
    with pytest.raises(UserError, match="pre or post"):
        Sublayer(branch, norm, "middle")


def test_a_weight_that_starts_at_0_makes_it_the_identity():
    layer = Sublayer(nn.Linear(4, 4).double(), nn.Identity(), weighted=True).double()
    x = drawn(2, 3, 4)
    assert torch.equal(layer(x), x)
    layer(x).sum().backward()
    assert float(layer.weight.grad) != 0


def test_what_the_branch_is_called_with_is_handed_on():
    layer = Sublayer(SelfAttention(8, 2).double(), nn.LayerNorm(8).double())
    x = drawn(2, 5, 8)
    expected = x + layer.branch(layer.norm(x), Causal())
    assert torch.equal(layer(x, mask=Causal()), expected) and torch.equal(layer(x, Causal()), expected)


def test_a_layer_before_and_after_is_torch_s():
    for order in ("pre", "post"):
        torch.manual_seed(0)
        theirs = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=order == "pre").double()
        own = theirs.self_attn
        attention, network = SelfAttention(8, 2).double(), FeedForward(8, 16, "relu").double()
        with torch.no_grad():
            attention.query_key_value.weight.copy_(own.in_proj_weight)
            attention.query_key_value.bias.copy_(own.in_proj_bias)
        attention.out.load_state_dict(own.out_proj.state_dict())
        network.widen.load_state_dict(theirs.linear1.state_dict())
        network.narrow.load_state_dict(theirs.linear2.state_dict())
        x = drawn(2, 5, 8)
        h = Sublayer(attention, theirs.norm1, order)(x, Causal())
        h = Sublayer(network, theirs.norm2, order)(h)
        mask = nn.Transformer.generate_square_subsequent_mask(5).double()
        torch.testing.assert_close(h, theirs(x, src_mask=mask), rtol=1e-10, atol=1e-10)


def test_plain_and_gated():
    x = drawn(2, 3, 4)
    plain, gated = FeedForward(4, 6, "gelu").double(), FeedForward(4, 6, "silu", gated=True, bias=False).double()
    torch.testing.assert_close(plain(x), plain.narrow(F.gelu(plain.widen(x))))
    gate, value = gated.widen.weight.split(6)
    torch.testing.assert_close(gated(x), F.linear(F.silu(x @ gate.T) * (x @ value.T), gated.narrow.weight))
    # a token passes alone, up to the order in which a product of another shape is added
    torch.testing.assert_close(plain(x)[:, 1:2], plain(x[:, 1:2]), rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(gated, (x.requires_grad_(),))


def test_scores_and_what_they_are_made_of():
    h, weight, bias = drawn(2, 3, 4), drawn(7, 4, seed=1), drawn(7, seed=2)
    torch.testing.assert_close(unembed(h, weight, bias), h @ weight.T + bias)
    with deferred():
        made = unembed(h, weight)
        with deferred():
            pass
        assert isinstance(unembed(h, weight), Deferred)  # the inner one does not end the outer
    assert isinstance(made, Deferred) and torch.equal(made.scores(), unembed(h, weight))
    with pytest.raises(RuntimeError), deferred():
        raise RuntimeError
    assert isinstance(unembed(h, weight), torch.Tensor)
