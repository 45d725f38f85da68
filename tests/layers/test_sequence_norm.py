"""Layer normalisation over a whole sequence."""

import torch
import torch.nn.functional as F

from leadline.layers.sequence_norm import SequenceNorm
from leadline.reference.normalising import picture_norm


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 + 1


def made(D):
    layer = SequenceNorm(D).double()
    torch.nn.init.normal_(layer.weight), torch.nn.init.normal_(layer.bias)
    return layer


def test_it_is_the_layer_norm_of_its_twin():
    layer, x = made(4), drawn(3, 5, 4)
    expected = picture_norm(x.mT.tolist(), "layer", layer.weight.tolist(), layer.bias.tolist())
    torch.testing.assert_close(layer(x), torch.tensor(expected, dtype=torch.float64).mT)


def test_it_is_torch_s_group_norm_of_one_group():
    layer, x = made(4), drawn(3, 5, 4)
    torch.testing.assert_close(layer(x), F.group_norm(x.mT, 1, layer.weight, layer.bias).mT)


def test_it_is_not_the_norm_of_each_token():
    x = drawn(1, 5, 4)
    assert (SequenceNorm(4).double()(x) - F.layer_norm(x, (4,))).abs().max() > 0.1


def test_padding_and_batch_mates_change_nothing():
    layer, x = made(4), drawn(3, 5, 4)
    lengths = torch.tensor([5, 2, 0])
    found = layer(x, torch.arange(5) < lengths[:, None])
    for b, length in enumerate([5, 2]):
        torch.testing.assert_close(found[b, :length], layer(x[b : b + 1, :length])[0])
    assert bool(found.isfinite().all())


def test_gradients():
    layer, x = made(4), drawn(2, 3, 4).requires_grad_()
    there = torch.tensor([[True, True, False], [True, True, True]])
    assert torch.autograd.gradcheck(lambda x: layer(x, there), (x,))
