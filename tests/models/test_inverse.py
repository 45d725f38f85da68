"""A line turned around."""

import pytest
import torch

from leadline.errors import UserError
from leadline.models import MLP, Linear, inverse


def test_it_undoes_the_line():
    torch.manual_seed(0)
    line, y = Linear(1, 1).double(), torch.randn(20, 1).double()
    back = inverse(line)
    torch.testing.assert_close(back(line(y)), y)
    torch.testing.assert_close(line(back(y)), y)


def test_it_leaves_the_line_and_the_random_state_alone():
    line = Linear(1, 1)
    before = [p.clone() for p in line.parameters()]
    torch.manual_seed(3)
    inverse(line)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))
    assert all(torch.equal(a, b) for a, b in zip(before, line.parameters(), strict=True))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Linear(2, 1), "one input and one output. Got a Linear with 2 inputs and 1 outputs"),
        (MLP(1, (3,), 1), "Got a MLP"),
    ],
)
def test_what_is_no_line_is_refused(model, message):
    with pytest.raises(UserError, match=message):
        inverse(model)


def test_a_flat_line_is_refused():
    line = Linear(1, 1)
    torch.nn.init.zeros_(line.map.weight)
    with pytest.raises(UserError, match="must rise or fall to be inverted. Got a slope of 0"):
        inverse(line)
