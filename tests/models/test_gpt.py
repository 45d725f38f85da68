"""GPT: its size, its masks, its first weights, and words step by step."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.models.gpt import GPT, SIZES, count

POSITIONS = ("learned", "rotary", "alibi", "sinusoidal", "none")


def made(scale=10.0, **options):
    """Weights large enough that everything matters."""
    torch.manual_seed(0)
    model = GPT(13, 24, dim=16, num_layers=3, num_heads=2, **options).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(scale)
    return model


def tokens(B=3, T=12, seed=0):
    return torch.randint(0, 13, (B, T), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "name, weights",
    [
        ("gpt2", 124_439_808), ("gpt2-medium", 354_823_168), ("gpt2-large", 774_030_080), ("gpt2-xl", 1_557_611_200),
        ("gpt3-small", 125e6), ("gpt3-medium", 350e6), ("gpt3-large", 760e6), ("gpt3-xl", 1.3e9), ("gpt3-2.7b", 2.7e9),
        ("gpt3-6.7b", 6.7e9), ("gpt3-13b", 13e9), ("gpt3", 174.6e9),
    ],
)  # fmt: skip
def test_the_papers_sizes_have_the_papers_numbers_of_weights(name, weights):
    assert count(**SIZES[name]) == pytest.approx(weights, rel=0 if name.startswith("gpt2") else 0.02)


def test_the_count_is_that_of_the_real_thing_and_of_the_formula():
    model = GPT.tiny()
    D, V, T, L, M = 8, 11, 6, 2, 12
    layer = 4 * D + (3 * D * D + 3 * D) + (D * D + D) + (D * M + M) + (M * D + D)
    assert count(**model.config) == sum(p.numel() for p in model.parameters()) == V * D + T * D + L * layer + 2 * D


@torch.no_grad()
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("more", [{}, {"end": 3}, {"window": 2, "norm": "rms", "tied": False}, {"end": 3, "window": 3}])
def test_steps_give_the_scores_of_the_whole_row(positions, more):
    model, x = made(positions=positions, **more), tokens()
    whole, cache = model(x), model.cache(3, 16)
    lengths = torch.tensor([3, 7, 5])  # rows stand at different places
    cache.at = torch.arange(7).expand(3, 7)
    first = model.step(x[:, :7], cache)
    for b, size in enumerate(lengths.tolist()):
        torch.testing.assert_close(first[b, :size], whole[b, :size], atol=1e-5, rtol=1e-5)
    cache.at = lengths[:, None].clone()
    for _ in range(5):
        found = model.step(x.gather(1, cache.at), cache)[:, 0]
        torch.testing.assert_close(found, whole[torch.arange(3), cache.at[:, 0]], atol=1e-5, rtol=1e-5)
        cache.at += 1


@torch.no_grad()
@pytest.mark.parametrize("positions", POSITIONS)
def test_later_words_change_nothing(positions):
    model, x = made(positions=positions, window=4), tokens()
    other = x.clone()
    other[:, 6:] = (x[:, 6:] + 1) % 13
    assert torch.equal(model(x)[:, :6], model(other)[:, :6])
    assert not torch.equal(model(x)[:, 6:], model(other)[:, 6:])


@torch.no_grad()
def test_documents_of_one_row_do_not_see_each_other():
    model, x = made(end=3), torch.tensor([[5, 6, 3, 7, 8, 9]])
    other = torch.tensor([[1, 2, 3, 7, 8, 9]])
    assert torch.equal(model(x)[:, 3:], model(other)[:, 3:])
    apart = made()
    apart.load_state_dict(model.state_dict())
    assert not torch.equal(apart(x)[:, 3:], apart(other)[:, 3:])


@torch.no_grad()
def test_a_window_of_every_second_layer_lets_words_reach_as_far_as_its_layers_carry():
    model = GPT(13, 24, dim=16, num_layers=2, num_heads=2, window=1, positions="none").eval()
    x = tokens(1, 12)
    other = x.clone()
    other[0, 0] = (x[0, 0] + 1) % 13
    assert not torch.equal(model(x)[0, -1], model(other)[0, -1])  # the first layer sees all
    for layer in model.layers[::2]:
        layer.look.branch.out.weight.zero_()
    assert torch.equal(model(x)[0, 2:], model(other)[0, 2:])
    assert not torch.equal(model(x)[0, 1], model(other)[0, 1])


@torch.no_grad()
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 12))
def test_batch_mates_and_what_stands_behind_change_nothing(seed, size):
    model, x = made(positions="rotary"), tokens(4, 12, seed)
    alone = model(x[:1, :size])
    torch.testing.assert_close(model(x)[:1, :size], alone, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_first_weights_are_those_of_the_second_paper():
    torch.manual_seed(0)
    model = GPT(500, 64, dim=128, num_layers=8, num_heads=4)
    layer = model.layers[3]
    ends = 0.02 / math.sqrt(16)
    for weight, deviation in (
        (model.embed.weight, 0.02),
        (model.place.weight, 0.02),
        (layer.look.branch.query_key_value.weight, 0.02),
        (layer.think.branch.widen.weight, 0.02),
        (layer.look.branch.out.weight, ends),
        (layer.think.branch.narrow.weight, ends),
    ):
        assert float(weight.std()) == pytest.approx(deviation, rel=0.05)
        assert abs(float(weight.mean())) < deviation / 10
    assert not layer.look.branch.out.bias.any()
    first = model(torch.randint(0, 500, (2, 64)))
    assert float(first.log_softmax(-1)[..., 0].mean()) == pytest.approx(-math.log(500), abs=0.1)


def test_it_learns_to_copy_what_stood_before():
    torch.manual_seed(0)
    model = GPT(8, 16, dim=32, num_layers=2, num_heads=2, p_drop=0.0, positions="rotary")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(150):
        half = torch.randint(0, 8, (32, 8))
        x = torch.cat([half, half], 1)
        scores = model(x)[:, 8:-1]
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), x[:, 9:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.3  # chance is log 8 = 2.08


def test_noise_is_drawn_while_training_only():
    model, x = made(p_drop=0.5), tokens()
    assert torch.equal(model(x), model(x))
    model.train()
    assert not torch.equal(model(x), model(x))


def test_what_does_not_fit_is_told():
    with pytest.raises(UserError, match="dim must be divisible by num_heads"):
        GPT(5, 4, dim=10, num_heads=3)
    with pytest.raises(UnknownName, match="rotary"):
        GPT(5, 4, dim=8, num_heads=2, positions="rotory")
    with pytest.raises(UserError, match="a row must fit the places"):
        GPT.tiny()(torch.zeros(1, 7, dtype=torch.long))
    with pytest.raises(ShapeError, match="GPT reads rows of tokens"):
        GPT.tiny()(torch.zeros(1, 6))
    with pytest.raises(UserError, match="end must be a whole number from 0 to 4"):
        GPT(5, 4, dim=8, num_heads=2, end=5)
    with pytest.raises(UserError, match="num_heads must be"):
        GPT(5, 4, dim=8, num_heads=0, positions="rotary")
    with pytest.raises(UserError, match="window must be a whole number"):
        GPT(5, 4, dim=8, num_heads=2, window=0)
