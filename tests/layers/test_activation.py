import pytest
import torch

from leadline.errors import UnknownName
from leadline.layers.activation import ACTIVATIONS, activation


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_is_found_in_any_case_and_keeps_the_shape(name):
    h = torch.linspace(-2, 2, 12).view(3, 4)
    out = activation(name.upper())(h)
    assert out.shape == h.shape
    assert (out.diff(dim=1) >= -0.2).all()  # all of them rise, but for the dips of gelu and silu


def test_each_call_makes_a_new_module():
    assert activation("relu") is not activation("relu")


def test_an_unknown_name_answers_with_the_closest():
    with pytest.raises(UnknownName, match="activation 'reluu'. Did you mean relu"):
        activation("reluu")
