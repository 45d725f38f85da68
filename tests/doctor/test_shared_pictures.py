"""Pictures that stand in two splits are found, whatever their size."""

import pytest
import torch

from leadline.data.data import Data, Split
from leadline.data.pictures import Pictures
from leadline.data.target import Target
from leadline.doctor.splits import check_splits


@pytest.mark.parametrize("side", [8, 7])  # rows of a multiple of eight bytes are compared eight at a time
@pytest.mark.parametrize("shared", [0, 20])
def test_shared_pictures_are_told(side, shared):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (120, 3, side, side), generator=generator, dtype=torch.uint8)
    y = torch.arange(120) % 2
    x[60 : 60 + shared], y[60 : 60 + shared] = x[:shared], y[:shared]
    part = lambda a, b: Split(x[a:b], y[a:b])  # noqa: E731
    target = Target("binary", classes=("a", "b"))
    data = Data(part(0, 60), part(60, 100), part(100, 120), target, Pictures.of(x[:60]))
    assert ("shared-rows" in {finding.code for finding in check_splits(data)}) == bool(shared)
