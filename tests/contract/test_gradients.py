"""Gradient checking finds what is wrong, by name, and passes what is right."""

import pytest
import torch
from torch import nn

from leadline.likelihoods import Normal
from leadline.models import MLP, MODELS
from leadline.testing import ContractError, check_gradients


class Crooked(torch.autograd.Function):
    """x³ whose derivative is wrong in one place."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = 3 * x**2
        slope.view(-1)[2] *= 1.001
        return grad * slope


class Net(nn.Module):
    def __init__(self, wrong):
        super().__init__()
        self.good, self.bad = nn.Parameter(torch.rand(2, 3) + 1), nn.Parameter(torch.rand(2, 3) + 1)
        self.wrong = wrong

    def forward(self, x):
        cube = Crooked.apply(self.bad) if self.wrong else self.bad**3
        return x @ (self.good.sin() + cube).T


def test_the_wrong_place_is_named():
    x = torch.randn(4, 3)
    check_gradients(Net(False), x)
    with pytest.raises(ContractError, match=r"Net: a derivative is not .* bad\[0, 2\]: autograd"):
        check_gradients(Net(True), x)


def test_functions_and_losses_of_their_own():
    def cubes(a, b):
        return (a**3 * b).sum(1)

    worst = check_gradients(cubes, torch.randn(3, 2), torch.randn(3, 2))
    assert {one.name for one in worst} == {"input 0", "input 1"} and worst[0].error < 1e-7
    with pytest.raises(ContractError, match="input 0"):
        check_gradients(lambda a: Crooked.apply(a), torch.rand(3, 2) + 1)
    y = torch.randn(5).double()
    model = MLP(3, (4,), 1, activation="tanh", p_drop=0.5)
    before = [p.detach().clone() for p in model.parameters()]
    found = check_gradients(model, torch.randn(5, 3), loss=lambda out: Normal().double().loss(out, y).mean())
    assert len(found) == 5 and model.training
    assert all(torch.equal(p, q) for p, q in zip(before, model.parameters()))
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_a_gradient_that_is_lost_is_found():
    with pytest.raises(ContractError, match="finite differences 2"):
        check_gradients(lambda a: a.detach() * 2 + 0 * a, torch.ones(1), loss=lambda out: out.sum())


@pytest.mark.parametrize("name", ["Linear", "MLP", "Shallow", "Residual", "Polynomial", "Gabor", "FixedJoints"])
def test_every_smooth_model_passes(name):
    model = MODELS[name].tiny()
    check_gradients(model, torch.randn(6, model.dim_input, generator=torch.Generator().manual_seed(1)), most=20)
