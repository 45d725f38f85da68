import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck
from torch.func import vmap

from leadline.engine.batched import _Linear, _Stacked, linear_by_members


def parts(*members, rows=5, dim_input=4, dim_output=3):
    stream = torch.Generator().manual_seed(0)
    shapes = ((rows, dim_input), (dim_output, dim_input), (dim_output,))
    return [torch.randn(*members, *shape, generator=stream, dtype=torch.double).requires_grad_() for shape in shapes]


def test_the_gradient_by_hand_is_the_derivative():
    assert gradcheck(_Stacked.apply, parts(2))
    assert gradcheck(_Linear.apply, parts())
    assert gradgradcheck(_Linear.apply, parts())
    assert gradgradcheck(_Stacked.apply, parts(2))


def test_members_get_what_a_linear_layer_gives_each():
    x, weight, bias = parts(6)
    with linear_by_members():
        found = vmap(F.linear)(x, weight, bias)
    each = torch.stack([F.linear(*own) for own in zip(x, weight, bias, strict=True)])
    torch.testing.assert_close(found, each)
    chosen = torch.randn_like(found)
    mine = torch.autograd.grad(found, (x, weight, bias), chosen)
    theirs = torch.autograd.grad(each, (x, weight, bias), chosen)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_rows_that_members_share_are_spread():
    x, _, _ = parts()
    _, weight, bias = parts(6)
    with linear_by_members():
        found = vmap(F.linear, in_dims=(None, 0, 0))(x, weight, bias)
    torch.testing.assert_close(found, torch.stack([F.linear(x, w, b) for w, b in zip(weight, bias, strict=True)]))


def test_what_is_no_linear_layer_of_rows_goes_its_own_way():
    stream = torch.Generator().manual_seed(1)
    x, weight = torch.randn(2, 5, 4, generator=stream), torch.randn(3, 4, generator=stream)
    with linear_by_members():
        assert torch.equal(F.linear(x, weight), x @ weight.T)
        assert torch.equal(F.relu(x), x.clamp(min=0))
