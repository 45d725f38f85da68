"""Networks for pictures tell stripes from dots within seconds, and skips let a deep one learn."""

import pytest
import torch

import leadline as ll
from leadline.models import MODELS


def stripes_and_dots(num, size, seed=0):
    """Grey pictures of noise with a grid of stripes (0) or of dots (1), in any phase and direction."""
    generator = torch.Generator().manual_seed(seed)
    phase = torch.randint(4, (num, 2), generator=generator)
    y = torch.arange(num) % 2
    at = torch.arange(size)
    rows = ((at + phase[:, :1]) % 4 < 2).float()
    columns = ((at + phase[:, 1:]) % 4 < 2).float()
    across = torch.rand(num, generator=generator) < 0.5
    stripes = torch.where(across[:, None, None], rows[:, :, None], columns[:, None, :]).expand(num, size, size)
    dots = rows[:, :, None] * columns[:, None, :] * 2  # as bright as the stripes
    x = torch.where(y[:, None, None] == 1, dots, stripes) + 0.5 * torch.randn(num, size, size, generator=generator)
    return (x[:, None] - 0.5), y


SMALL = {
    "ConvNet": {"widths": (8, 16), "depth": 1},
    "ResNet": {"stages": (1, 1), "width": 8},
    "WideResNet": {"depth": 10, "widening": 1},
    "ResNeXt": {"depth": 11, "num_groups": 2, "dim_group": 4, "width": 8},
    "DenseNet": {"stages": (2, 2), "growth": 6},
    "NetworkInNetwork": {"width": 12},
    "LeNet": {"size": (16, 16)},
}


@pytest.mark.parametrize("name", SMALL)
def test_it_tells_stripes_from_dots(name):
    x, y = stripes_and_dots(256, 16)
    torch.manual_seed(0)
    model = MODELS[name](channels=1, dim_output=2, **SMALL[name])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(40):
        rows = torch.arange(32) + 32 * (step % 8)
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x, y = stripes_and_dots(128, 16, seed=1)
    with torch.no_grad():
        right = (model.eval()(x).argmax(1) == y).float().mean()
    assert right > 0.95


def test_skips_let_a_deep_network_learn_where_its_plain_twin_does_not():
    """56 layers and a few steps: with skips the loss falls, without it hardly does (He et al., 2016)."""
    x, y = stripes_and_dots(64, 8)
    ends = {}
    for skip in ("zeros", "none"):
        torch.manual_seed(0)
        model = MODELS["ResNet"](1, 2, stages=(9, 9, 9), width=4, skip=skip)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(25):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        ends[skip] = loss.item()
    assert ends["zeros"] < 0.5 * ends["none"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AlexNet", "VGG"])
def test_the_large_ones_tell_them_apart_too(name):
    x, y = stripes_and_dots(128, 64)
    torch.manual_seed(0)
    options = {"AlexNet": {"width": 0.25}, "VGG": {"depth": 11, "width": 8}}[name]
    model = MODELS[name](channels=1, dim_output=2, hidden=64, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(120):
        rows = torch.arange(32) + 32 * (step % 4)
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        right = (model.eval()(x).argmax(1) == y).float().mean()
    assert right > 0.95


@pytest.mark.slow
def test_series_of_digits_are_read_at_ninety_two_percent():
    torch.manual_seed(0)
    run = ll.fit(ll.models.ConvNet1D(40, 10), ll.data.mnist1d(), epochs=40, progress=False)
    assert run.evaluate("test")["accuracy"] > 0.92
