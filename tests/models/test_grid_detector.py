"""The detector's network: a grid of cells, how far a cell sees, and that a shift by a cell shifts the answers."""

import pytest
import torch

from leadline.errors import UserError
from leadline.models import GridDetector
from leadline.testing import check_model


@pytest.mark.parametrize("options", [{"num_context": 0}, {"norm": "group", "num_context": 2}])
def test_it_keeps_the_contract(options):
    check_model(GridDetector(2, 8, width=4, stride=4, num_blocks=1, **options), torch.randn(3, 2, 8, 16))


@pytest.mark.parametrize("stride", [2, 4, 8, 16])
def test_a_cell_is_stride_pixels_wide(stride):
    net = GridDetector(1, 7, width=2, stride=stride, num_blocks=1)
    assert net(torch.zeros(2, 1, 2 * stride, 3 * stride)).shape == (2, 7, 2, 3)


def seen(num_context):
    """Cells that the middle cell depends on, from the first to the last row."""
    torch.manual_seed(0)
    net = GridDetector(1, 1, width=6, stride=4, num_blocks=1, num_context=num_context, norm="none").double()
    x = torch.randn(1, 1, 160, 8, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(net(x)[0, 0, 20, 1], x)
    rows = (gradient[0, 0] != 0).any(1).nonzero()
    return float(rows.max() - rows.min() + 1) / 4


def test_context_widens_what_a_cell_sees():
    near, far = seen(0), seen(3)
    assert 2 <= near < 8 and far == pytest.approx(near + 2 * 2 * (1 + 2 + 4), abs=2)  # two kernels a unit


def test_a_shift_by_a_cell_shifts_the_answers():
    torch.manual_seed(0)
    net = GridDetector(1, 3, width=4, stride=4, num_blocks=1, num_context=1).eval()
    x = torch.zeros(1, 1, 64, 64)
    x[:, :, 28:36, 28:36] = torch.randn(8, 8)
    with torch.no_grad():
        here, there = net(x), net(x.roll(4, 2))
    assert torch.allclose(here[:, :, 5:10, 3:-3], there[:, :, 6:11, 3:-3], atol=1e-6)
    assert not torch.allclose(here, there, atol=1e-3)


def test_it_learns_which_cell_holds_a_square():
    generator = torch.Generator().manual_seed(0)
    at = torch.randint(0, 4, (64, 2), generator=generator)
    x = 0.2 * torch.randn(64, 1, 16, 16, generator=generator)
    for row, (r, c) in enumerate(at.tolist()):
        x[row, 0, 4 * r + 1 : 4 * r + 3, 4 * c + 1 : 4 * c + 3] += 2
    torch.manual_seed(0)
    net = GridDetector(1, 1, width=4, stride=4, num_blocks=1, num_context=1)
    rule = torch.optim.Adam(net.parameters(), 1e-2)
    code = at[:, 0] * 4 + at[:, 1]
    for _ in range(40):
        rule.zero_grad()
        torch.nn.functional.cross_entropy(net(x[:48]).flatten(1), code[:48]).backward()
        rule.step()
    with torch.no_grad():
        assert float((net.eval()(x[48:]).flatten(1).argmax(1) == code[48:]).float().mean()) > 0.9


def test_a_size_that_is_no_multiple_is_stretched_to_whole_cells():
    torch.manual_seed(0)
    model, x = GridDetector(3, 20).eval(), torch.randn(1, 3, 61, 70)
    whole = torch.nn.functional.interpolate(x, (64, 72), mode="bilinear")
    assert torch.equal(model(x), model(whole)) and model(x).shape == (1, 20, 8, 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": 6}, "stride must be a power of 2. Got stride=6. Use 4 or 8"),
        ({"stride": 1}, "stride must be a whole number of at least 2"),
        ({"num_context": -1}, "num_context must be a whole number of at least 0"),
        ({"width": 0}, "GridDetector: width must be"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(change, message):
    with pytest.raises(UserError, match=message):
        GridDetector(**{"channels": 3, "dim_output": 20, **change})
