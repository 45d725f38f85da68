"""T5 by itself: what each part may see, decoding step by step, its first weights and its sizes."""

import pytest
import torch

from leadline.errors import ShapeError, UserError
from leadline.models.t5 import SIZES, T5
from leadline.testing import check_model

V, S, T = 13, 6, 5


def small(**options):
    torch.manual_seed(0)
    sizes = {"dim": 16, "num_layers": 2, "num_heads": 3, "dim_head": 4, "dim_hidden": 24}
    sizes |= {"num_buckets": 8, "furthest": 8, "p_drop": 0.0}
    return T5(V, T, S, **{**sizes, **options})


def rows(num=3):
    """Sources of different lengths; targets that begin with the padding token."""
    x = torch.randint(1, V, (num, S + T), generator=torch.Generator().manual_seed(0))
    for row in range(num):
        x[row, S - row : S] = 0
    x[:, S] = 0
    return x


@pytest.mark.parametrize("options", [{}, {"gated": True, "tied": False, "p_drop": 0.2}, {"num_decoder_layers": 1}])
def test_it_keeps_the_contract(options):
    check_model(small(**options), rows())


def test_the_future_is_not_seen():
    model, x = small().eval(), rows()
    for t in range(1, T):
        later = x.clone()
        later[:, S + t :] = 1 + later[:, S + t :] % (V - 1)
        assert torch.equal(model(later)[:, :t], model(x)[:, :t])
        assert not torch.equal(model(later)[:, t], model(x)[:, t])


def test_padding_and_batch_mates_change_nothing():
    model, x = small().double().eval(), rows()
    wide = torch.cat([x[:, :S], torch.zeros(3, 4, dtype=torch.long), x[:, S:]], 1)
    longer = T5(**{**model.config, "len_source": S + 4}).double().eval()
    longer.load_state_dict(model.state_dict())
    assert torch.allclose(longer(wide), model(x), rtol=0, atol=1e-12)
    short = x.clone()
    short[:, S + 3 :] = 0
    assert torch.allclose(model(short)[:1, :3], model(x[:1, : S + 3]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"gated": True, "tied": False, "num_decoder_layers": 3}])
def test_steps_give_what_the_whole_sentence_gives(options):
    model, x = small(**options).double().eval(), rows()
    with torch.no_grad():
        cache, whole = model.cache(3, T + 2, dtype=torch.float64), model(x)
        model.read(x[:, :S], cache)
        for t in range(T):
            cache.at.fill_(t)
            assert torch.allclose(model.step(x[:, S + t : S + t + 1], cache)[:, 0], whole[:, t], rtol=0, atol=1e-12)
        cache.at = torch.tensor([[3], [1], [2]])  # rows at places of their own
        found = model.step(x.gather(1, S + cache.at), cache)[:, 0]
        assert torch.allclose(found, whole[torch.arange(3), cache.at[:, 0]], rtol=0, atol=1e-12)


def test_only_offsets_count():
    """With every word in its far range, the encoder sees a bag; near ones tell orders apart."""
    x = rows(num=1)
    turned = torch.cat([x[:, :S].flip(1), x[:, S:]], 1)
    model = small().double().eval()
    assert not torch.allclose(model(turned), model(x), atol=1e-4)
    with torch.no_grad():
        model.encoder_bias.table.weight.zero_()
    assert torch.allclose(model(turned), model(x), atol=1e-12)


def test_first_scores_have_variance_one_although_nothing_is_divided():
    torch.manual_seed(0)
    model = T5(1000, 8, 32, dim=128, num_layers=1, num_heads=4, dim_head=32, dim_hidden=256)
    look = model.encoder[0].look.branch
    q, k, _ = look.queries_keys_values(torch.randn(4, 32, 128))
    assert 0.8 < float((q @ k.transpose(-1, -2)).detach().std()) < 1.2


@pytest.mark.parametrize(
    ("name", "millions"), [("small", 60.5), ("base", 222.9), ("large", 737.7), ("small_1_1", 77.0), ("base_1_1", 247.6)]
)
def test_the_sizes_have_the_published_numbers_of_weights(name, millions):
    with torch.device("meta"):
        model = T5(32128, 512, 512, **SIZES[name])
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == millions


def test_what_does_not_fit_is_refused():
    with pytest.raises(UserError, match="T5: num_decoder_layers must be"):
        small(num_decoder_layers=0)
    with pytest.raises(UserError, match="pad must be"):
        small(pad=-1)
    with pytest.raises(UserError, match="p_drop must be"):
        small(p_drop=-0.1)
    with pytest.raises(UserError, match="num_buckets must be"):
        small(num_buckets=7)
    with pytest.raises(ShapeError, match="a source of 6 tokens"):
        small()(torch.ones(2, S, dtype=torch.long))
    with pytest.raises(ShapeError, match="sources must be 2 rows of at least 1 token"):
        small().read(torch.ones(3, S, dtype=torch.long), small().cache(2, T))
