import pytest
import torch

from leadline.errors import UserError
from leadline.models import Linear


def test_it_is_one_affine_map():
    model, x = Linear(3, 2), torch.randn(4, 3)
    torch.testing.assert_close(model(x), x @ model.map.weight.T + model.map.bias)
    assert sum(parameter.numel() for parameter in model.parameters()) == 8


def test_a_width_of_zero_is_refused():
    with pytest.raises(UserError, match="Linear: dim_output must be a whole number of at least 1. Got dim_output=0"):
        Linear(3, 0)
