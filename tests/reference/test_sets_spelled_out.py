"""The networks' parts are what the reference spells out."""

import pytest
import torch

import leadline as ll
from leadline.layers import Equivariant, SetPool
from leadline.models import DeepSets
from leadline.reference import sets


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_pools_of_padded_sets(how):
    stream = torch.Generator().manual_seed(0)
    for size in (1, 2, 5):
        rows = torch.randn(2, 7, 3, generator=stream, dtype=torch.float64)
        there = (torch.arange(7) < size).expand(2, 7)
        found = SetPool(how, typical=2.5)(rows, there)
        for own, row in zip(found, rows):
            torch.testing.assert_close(own, torch.tensor(sets.pooled(row[:size].tolist(), how, 2.5)).double())


def test_the_map_that_moves_with_its_members():
    torch.manual_seed(0)
    layer, x = Equivariant(3, 2, pool="sum").double(), torch.randn(1, 4, 3, dtype=torch.float64)
    said = sets.moved(x[0].tolist(), layer.own.weight.tolist(), layer.others.weight.tolist(), layer.own.bias.tolist())
    torch.testing.assert_close(layer(x)[0].detach(), torch.tensor(said, dtype=torch.float64))


def test_critical_points():
    torch.manual_seed(0)
    model, x = DeepSets(2, 3, dim=6, num_layers=1, pool="max").double(), torch.randn(30, 3, dtype=torch.float64)
    features = model.latent(torch.relu(model.enter(x))).detach()
    assert set(ll.lens.critical_set(model, x).critical.tolist()) == sets.critical(features.tolist())


def test_two_sums_do_not_tell_three_numbers_and_three_do():
    first, other = [0, 4, 5], [1, 2, 6]
    assert sets.power_sums(first, 2) == sets.power_sums(other, 2)
    assert sets.power_sums(first, 3) != sets.power_sums(other, 3)
