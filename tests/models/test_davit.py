"""DaViT: counts of the literature, attention between channels, and what it costs."""

import pytest
import torch

from leadline.errors import UserError
from leadline.layers.channel_attention import ChannelAttention, cost_of_channels, cost_of_places
from leadline.models import DaViT, davit
from leadline.reference.channel_attention import channel_attention, channel_weights
from leadline.testing import check_gradients, check_model


@pytest.mark.parametrize(("name", "parameters"), [("T", 28_360_168), ("S", 49_745_896), ("B", 87_954_408)])
def test_parameters_are_those_of_the_literature(name, parameters):
    with torch.device("meta"):
        model = DaViT(3, 1000, **davit.SIZES[name])
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("options", [{}, {"window": 9}, {"stages": (2, 1)}, {"patch": 3}])
def test_it_keeps_the_contract_with_any_options(options):
    check_model(DaViT(**{**DaViT.tiny().config, **options}))


def test_derivatives_are_those_of_finite_differences():
    torch.manual_seed(0)
    model = DaViT(1, 2, dims=(4, 8), stages=(1, 1), num_heads=(1, 2), window=2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # normalising tiny numbers is too steep for differences
    check_gradients(model, torch.randn(2, 1, 8, 8), most=3)


@torch.no_grad()
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_channel_attention_is_its_definition(groups):
    torch.manual_seed(groups)
    layer = ChannelAttention(6, groups).double()
    h = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    out = layer(h)
    for b in range(2):
        q, k, v = layer.query_key_value(h[b].flatten(0, 1)).chunk(3, -1)
        parts = [channel_attention(*(part.chunk(groups, -1)[g].tolist() for part in (q, k, v))) for g in range(groups)]
        seen = torch.cat([torch.tensor(part, dtype=torch.float64) for part in parts], -1)
        torch.testing.assert_close(out[b], layer.out(seen).view(3, 4, 6))


def test_the_matrix_of_channels_has_one_size_for_all_pictures():
    for places in (1, 4, 50):
        rows = torch.randn(places, 3).tolist()
        assert [len(row) for row in channel_weights(rows, rows)] == [3, 3, 3]
    layer = ChannelAttention(8, 2)
    for places in (4, 100):
        q = torch.randn(1, 2, 4, places)
        assert layer.weights(q, q).shape == (1, 2, 4, 4)


def test_every_place_has_a_part_in_every_other():
    torch.manual_seed(0)
    layer, h = ChannelAttention(4, 1), torch.randn(1, 3, 3, 4, requires_grad=True)
    (slopes,) = torch.autograd.grad(layer(h)[0, 0, 0].square().sum(), h)
    assert bool((slopes.abs().sum(-1) > 0).all())


def test_costs_are_those_of_the_matrix_products():
    assert cost_of_places(16 * 16, 512) == 33_554_432
    assert cost_of_channels(16 * 16, 512) == 67_108_864
    assert cost_of_channels(16 * 16, 512, num_groups=4) == 67_108_864 // 4
    for places, dim, groups in ((6, 4, 1), (5, 8, 2)):
        macs = sum(
            places for _ in range(groups) for _ in range((dim // groups) ** 2)
        )  # a sum over places for each pair
        assert cost_of_channels(places, dim, groups) == macs


@torch.no_grad()
def test_a_picture_of_any_size_is_read():
    model = DaViT(3, 5).eval()
    for size in ((32, 32), (17, 40), (3, 3)):
        assert model(torch.randn(2, 3, *size)).shape == (2, 5)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"num_heads": (1,)}, "each stage"), ({"num_heads": (3, 3)}, "divisible"), ({"patch": 0}, "patch")],
)
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(UserError, match=says):
        DaViT(**{**DaViT.tiny().config, **options})
