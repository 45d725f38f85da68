"""The encoder-decoder: torch's own twin, what each part may see, decoding step by step, and what it learns."""

import pytest
import torch
from torch import nn

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.models.transformer import SIZES, Transformer
from leadline.testing import check_model

V, S, T = 13, 6, 5


def small(**options):
    torch.manual_seed(0)
    sizes = {"num_tokens": V, "length": T, "len_source": S, "dim": 16, "num_layers": 2, "num_heads": 4}
    return Transformer(**{**sizes, "dim_hidden": 24, "p_drop": 0.0, **options})


def rows(num=3, words=S, seed=0):
    """Sources of different lengths, and whole targets."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(1, V, (num, S + T), generator=generator)
    for row in range(num):
        x[row, max(1, words - row) : S] = 0
    return x


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "post", "p_drop": 0.2},
        {"positions": "learned", "tied": False, "p_drop": 0.2},
        {"positions": "none"},
        {"num_source_tokens": V + 4, "p_drop": 0.2},
    ],
)
def test_it_keeps_the_contract(options):
    check_model(small(**options), rows())


# ── torch's transformer, with the same weights ───────────────────────────────────────────────────────────────────────


def theirs(model):
    """torch.nn.Transformer with the weights of ours; its post order without the norms that end its stacks."""
    shape = {"d_model": model.dim, "nhead": model.num_heads, "dim_feedforward": model.dim_hidden, "dropout": 0.0}
    shape |= {"batch_first": True, "norm_first": model.order == "pre"}
    ends = [nn.LayerNorm(model.dim) if model.order == "pre" else None for _ in range(2)]
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**shape), 2, ends[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**shape), 2, ends[1])
    twin = nn.Transformer(**shape, custom_encoder=encoder, custom_decoder=decoder).double()

    def attention(other, mine):
        maps = [mine.query_key_value] if hasattr(mine, "query_key_value") else [mine.query, mine.key_value]
        other.in_proj_weight.copy_(torch.cat([part.weight for part in maps]))
        other.in_proj_bias.copy_(torch.cat([part.bias for part in maps]))
        other.out_proj.load_state_dict(mine.out.state_dict())

    with torch.no_grad():
        for stack, mine in ((encoder, model.encoder), (decoder, model.decoder)):
            for other, layer in zip(stack.layers, mine, strict=True):
                branches = [layer.look, layer.ask, layer.think] if hasattr(layer, "ask") else [layer.look, layer.think]
                for number, branch in enumerate(branches, 1):
                    getattr(other, f"norm{number}").load_state_dict(branch.norm.state_dict())
                attention(other.self_attn, layer.look.branch)
                if hasattr(layer, "ask"):
                    attention(other.multihead_attn, layer.ask.branch)
                other.linear1.load_state_dict(layer.think.branch.widen.state_dict())
                other.linear2.load_state_dict(layer.think.branch.narrow.state_dict())
        if model.order == "pre":
            encoder.norm.load_state_dict(model.encoder_norm.state_dict())
            decoder.norm.load_state_dict(model.decoder_norm.state_dict())
    return twin


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("order", ["pre", "post"])
def test_it_is_the_transformer_of_torch(order):
    model, x = small(order=order).double(), rows()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        twin, source, target = theirs(model), x[:, :S], x[:, S:]

        def embedded(tokens):
            return model.place(4.0 * model.embed(tokens))

        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        asked = {"src_key_padding_mask": source == 0, "memory_key_padding_mask": source == 0, "tgt_mask": future}
        scores = twin(embedded(source), embedded(target), **asked) @ model.embed.weight.T
        assert torch.allclose(model(x), scores, rtol=0, atol=1e-9)


def test_the_sizes_of_the_paper_have_its_numbers_of_weights():
    with torch.device("meta"):
        counts = [
            sum(
                p.numel() for p in Transformer(num_tokens=37000, length=512, len_source=512, **SIZES[name]).parameters()
            )
            for name in ("base", "big")
        ]
    assert [round(number / 1e6) for number in counts] == [63, 214]  # the paper rounds to 65 and 213


# ── what may be seen ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_future_is_not_seen(order):
    model, x = small(order=order).eval(), rows()
    for t in range(1, T):
        later = x.clone()
        later[:, S + t :] = 1 + later[:, S + t :] % (V - 1)
        assert torch.equal(model(later)[:, :t], model(x)[:, :t])
        assert not torch.equal(model(later)[:, t], model(x)[:, t])


def test_a_source_may_have_words_of_its_own():
    model, x = small(num_source_tokens=V + 4).eval(), rows()
    x[:, 0] = V + 3  # which no target has
    before = model(x)
    with torch.no_grad():
        model.source_embed.weight[V + 3] += 1.0
    assert not torch.equal(model(x), before) and before.shape[-1] == V
    cache = model.cache(3, T)
    with torch.no_grad():
        model.read(x[:, :S], cache)
        assert torch.allclose(model.step(x[:, S : S + 1], cache)[:, 0], model(x)[:, 0], atol=1e-5)


def test_the_padding_of_a_source_changes_nothing():
    wide, x = small(len_source=S + 7).double().eval(), rows()
    tight = small().double().eval()
    tight.load_state_dict(wide.state_dict())
    padded = torch.cat([x[:, :S], torch.zeros(3, 7, dtype=torch.long), x[:, S:]], 1)
    assert torch.allclose(wide(padded), tight(x), rtol=0, atol=1e-12)


def test_the_padding_of_a_target_and_batch_mates_change_nothing():
    model, x = small().double().eval(), rows()
    short = model(x[:1, : S + 3])
    padded = x.clone()
    padded[0, S + 3 :] = 0
    assert torch.allclose(model(padded)[:1, :3], short, rtol=0, atol=1e-12)


def test_every_word_of_the_source_is_seen_by_every_word_of_the_target():
    model, x = small().eval(), rows(num=1)
    before = model(x)
    for s in range(S):
        other = x.clone()
        other[0, s] = 1 + other[0, s] % (V - 1)
        assert bool((model(other) != before).any(-1).all())


def test_without_positions_a_source_is_a_bag_of_words():
    x = rows(num=1)
    turned = torch.cat([x[:, :S].flip(1), x[:, S:]], 1)
    bag, seen = small(positions="none").double().eval(), small().double().eval()
    assert torch.allclose(bag(turned), bag(x), rtol=0, atol=1e-12)
    assert not torch.allclose(seen(turned), seen(x), atol=1e-3)


# ── decoding ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{}, {"order": "post", "positions": "learned", "tied": False}])
def test_steps_give_what_the_whole_sentence_gives(options):
    model, x = small(**options).double().eval(), rows()
    with torch.no_grad():
        cache = model.cache(3, T + 2, dtype=torch.float64)
        model.read(x[:, :S], cache)
        found = []
        for t in range(T):
            cache.at.fill_(t)
            found.append(model.step(x[:, S + t : S + t + 1], cache))
        assert torch.allclose(torch.cat(found, 1), model(x), rtol=0, atol=1e-12)


def test_rows_may_stand_at_places_of_their_own():
    model, x = small().double().eval(), rows()
    with torch.no_grad():
        cache, whole = model.cache(3, T, dtype=torch.float64), model(x)
        model.read(x[:, :S], cache)
        cache.at = torch.arange(3).expand(3, 3).clone()
        assert torch.allclose(model.step(x[:, S : S + 3], cache), whole[:, :3], rtol=0, atol=1e-12)
        cache.at = torch.tensor([[3], [1], [2]])  # two rows take words back
        words = x.gather(1, S + cache.at)
        assert torch.allclose(
            model.step(words, cache)[:, 0], whole[torch.arange(3), cache.at[:, 0]], rtol=0, atol=1e-12
        )


def test_rows_that_change_places_take_their_sources_along():
    model, x = small().double().eval(), rows()
    with torch.no_grad():
        cache, whole = model.cache(3, T, dtype=torch.float64), model(x)
        model.read(x[:, :S], cache)
        model.step(x[:, S : S + 1], cache)
        order = torch.tensor([2, 0, 0])
        cache.reorder(order)
        cache.at.fill_(1)
        assert torch.allclose(model.step(x[order, S + 1 : S + 2], cache)[:, 0], whole[order, 1], rtol=0, atol=1e-12)


# ── learning ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def share_turned_round(positions, steps):
    """The share of words that are right, where the target is the source from its end to its beginning."""
    torch.manual_seed(0)
    start, most = 1, 12
    model = Transformer(most, S, S, dim=32, num_layers=1, num_heads=4, p_drop=0.0, positions=positions)
    rule = torch.optim.Adam(model.parameters(), 5e-3)

    def batch(num):
        source = torch.randint(2, most, (num, S))
        y = source.flip(1)
        return torch.cat([source, torch.full((num, 1), start), y[:, :-1]], 1), y

    for _ in range(steps):
        x, y = batch(64)
        rule.zero_grad()
        nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        rule.step()
    x, y = batch(256)
    with torch.no_grad():
        return float((model(x).argmax(-1) == y).float().mean())


def test_it_learns_to_turn_a_sentence_round_and_cannot_without_positions():
    assert share_turned_round("sinusoidal", 200) > 0.97
    assert share_turned_round("none", 200) < 0.7


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"dim": 18}, UserError, "divisible by num_heads"),
        ({"num_layers": 0}, UserError, "Transformer: num_layers must be"),
        ({"positions": "sinusoid"}, UnknownName, "Did you mean sinusoidal"),
        ({"order": "both"}, UserError, "order must be pre or post"),
        ({"pad": 500}, UserError, "pad must be a whole number from 0 to"),
        ({"p_drop": 1.0}, UserError, "p_drop must be a number of at least 0 and below 1"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, error, message):
    with pytest.raises(error, match=message):
        small(**change)


def test_rows_that_do_not_fit_are_refused():
    model = small()
    for width in (S, S + T + 1):
        with pytest.raises(ShapeError, match="a source of 6 tokens and a target of 1 to 5"):
            model(torch.ones(2, width, dtype=torch.long))
    with pytest.raises(ShapeError, match="Pass whole numbers"):
        model(torch.ones(2, S + T))
    with pytest.raises(ShapeError, match="sources must be 2 rows of 1 to 6 tokens"):
        model.read(torch.ones(3, S, dtype=torch.long), model.cache(2, T))
