"""The segmenter: unpooling by the encoder's places, the dense middle, the paper's sizes."""

import pytest
import torch
import torch.nn.functional as F

from leadline.errors import ShapeError, UserError
from leadline.models import Segmenter
from leadline.models.segmenter import PAPER
from leadline.testing import check_model


@pytest.mark.parametrize("options", [{"dense": 6}, {"dense": 0, "norm": "none"}, {"convs": (1, 2)}])
def test_it_keeps_the_contract(options):
    check_model(Segmenter(2, 3, (9, 10), widths=(3, 4), **options), torch.randn(3, 2, 9, 10))


def test_the_paper_s_network():
    with torch.device("meta"):
        net = Segmenter(**PAPER)
        assert net(torch.zeros(1, 3, 224, 224)).shape == (1, 21, 224, 224)
    maps = [layer for stage in net.encoder for layer in stage if isinstance(layer, torch.nn.Conv2d)]
    assert len(maps) == 13  # VGG's
    assert [m.in_features for m in net.middle if isinstance(m, torch.nn.Linear)] == [7 * 7 * 512, 4096, 4096]
    back = [layer for stage in net.decoder for layer in stage if isinstance(layer, torch.nn.ConvTranspose2d)]
    assert len(back) == 13 and all(layer.stride == (1, 1) for layer in back)


def test_a_tiny_one_written_out():
    torch.manual_seed(0)
    net, x = Segmenter(1, 2, (4, 4), widths=(1,), convs=1, norm="none"), torch.randn(1, 1, 4, 4)
    fine = net.encoder[0][0](x).relu()[0, 0]
    wanted = torch.zeros(4, 4)
    for row in (0, 2):
        for column in (0, 2):
            window = fine[row : row + 2, column : column + 2]
            at = int(window.argmax())
            wanted[row + at // 2, column + at % 2] = window.max()
    kernel = net.decoder[0][0]
    spread = F.conv2d(wanted[None, None], kernel.weight.flip(2, 3), kernel.bias, padding=1).relu()
    assert torch.allclose(net(x), net.head(spread), atol=1e-6)


@pytest.mark.parametrize("size", [(8, 8), (9, 13), (31, 8)])
def test_without_dense_layers_any_size_can_be_read(size):
    net = Segmenter(1, 2, widths=(2, 3, 4))
    assert net(torch.zeros(2, 1, *size)).shape == (2, 2, *size)


def test_the_middle_sees_everything_and_without_it_the_view_is_near():
    def seen(dense):
        torch.manual_seed(0)
        net = Segmenter(1, 1, (32, 32), widths=(3, 3), convs=1, dense=dense, norm="none").eval()
        x = torch.randn(1, 1, 32, 32, requires_grad=True)
        (gradient,) = torch.autograd.grad(net(x)[0, 0, 16, 16], x)
        rows = (gradient[0, 0] != 0).any(1).nonzero()
        return int(rows.max() - rows.min())

    assert seen(64) > 28 and seen(0) < 20


def test_it_learns_to_segment():
    torch.manual_seed(0)
    column = torch.arange(16).expand(16, 16)
    middle = 4 + 8 * torch.rand(64, 1, 1)
    y = (column > middle).long()
    x = (torch.where(y > 0, (column % 2) * 2.0 - 1, (torch.arange(16)[:, None] % 2) * 2.0 - 1))[:, None]
    x = x + 0.3 * torch.randn(64, 1, 16, 16)
    net = Segmenter(1, 2, (16, 16), widths=(8, 12), convs=1)
    rule = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(40):
        rule.zero_grad()
        F.cross_entropy(net(x[:48]), y[:48]).backward()
        rule.step()
    with torch.no_grad():
        assert float((net.eval()(x[48:]).argmax(1) == y[48:]).float().mean()) > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": (4, 4)}, "size must hold rows and columns"),
        ({"convs": (1, 2)}, "a number for each of S stages"),
        ({"widths": ()}, "widths must be a list of sizes"),
        ({"dense": -1}, "dense must be a whole number of at least 0"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, message):
    with pytest.raises(UserError, match=message):
        Segmenter(**{"channels": 3, "dim_output": 2, **change})


def test_with_dense_layers_another_size_is_refused():
    with pytest.raises(ShapeError, match="8 x 8 instead of 8 x 12"):
        Segmenter.tiny()(torch.zeros(1, 1, 8, 8))
