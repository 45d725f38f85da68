"""Shaken branches and stochastic depth: what goes forward, what goes back, and that each example draws alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from leadline.errors import UserError
from leadline.layers import noise
from leadline.layers.residual_units import PlainUnit
from leadline.layers.shake import ShakeDrop, ShakeShake, shaken
from leadline.layers.stochastic_depth import DropBranch, drop_branches, linear_decay


def keys(count, epoch=0):
    return noise.example_keys(0, epoch, torch.arange(count))


def called(layer, x, its_keys):
    with noise.keyed(its_keys):
        return layer(x)


class Constant(nn.Module):
    """A branch whose output is a number, so that the weight that it gets can be read off."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(float(value)))

    def forward(self, x):
        return self.value.expand(x.shape[0], 1)


def test_forward_and_backward_weights_are_two_uniform_draws_that_do_not_know_of_each_other():
    first, second = Constant(1), Constant(0)
    layer, count = ShakeShake(first, second, site=3), 4000
    alpha = called(layer, torch.zeros(count, 1), keys(count)).detach()[:, 0]

    x = torch.zeros(count, 1, requires_grad=True)
    layer = ShakeShake(nn.Identity(), Constant(0), site=3)
    (beta,) = torch.autograd.grad(called(layer, x, keys(count)).sum(), x)
    beta = beta[:, 0]
    for drawn in (alpha, beta):
        assert 0 <= drawn.min() < 0.01 and 0.99 < drawn.max() <= 1
        assert drawn.mean() == pytest.approx(0.5, abs=5 * (1 / 12 / count) ** 0.5)
        assert drawn.var() == pytest.approx(1 / 12, rel=0.1)
    assert abs(float(torch.corrcoef(torch.stack([alpha, beta]))[0, 1])) < 5 / count**0.5


def test_both_branches_share_one_forward_and_one_backward_pass():
    x = torch.randn(50, 4, requires_grad=True)
    out = called(ShakeShake(nn.Identity(), nn.Identity(), site=1), x, keys(50))
    assert torch.allclose(out, x)
    (back,) = torch.autograd.grad(out.sum(), x)
    assert torch.allclose(back, torch.ones_like(x))


def test_in_evaluation_both_branches_count_half():
    f, g, x = nn.Linear(3, 2), nn.Linear(3, 2), torch.randn(5, 3)
    assert torch.equal(ShakeShake(f, g).eval()(x), 0.5 * (f(x) + g(x)))


def test_shake_drop_is_an_ordinary_branch_with_probability_p_and_a_shaken_one_otherwise():
    layer, count, p = ShakeDrop(0.6, site=2), 6000, 0.6
    x = torch.ones(count, 1, requires_grad=True)
    out = called(layer, x, keys(count))
    (back,) = torch.autograd.grad(out.sum(), x)
    out = out.detach()
    plain = (out == 1) & (back == 1)
    assert float(plain.float().mean()) == pytest.approx(p, abs=5 * (p * (1 - p) / count) ** 0.5)
    forward, backward = out[~plain], back[~plain]
    assert -1 <= forward.min() < -0.99 and 0.99 < forward.max() <= 1 and abs(float(forward.mean())) < 0.06
    assert 0 <= backward.min() < 0.01 and 0.99 < backward.max() <= 1 and abs(float(backward.mean()) - 0.5) < 0.03
    assert float(out.mean()) == pytest.approx(p, abs=0.03)  # the weight in evaluation is the mean of those in training
    assert layer.eval()(x).unique().tolist() == pytest.approx([p])


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(8)), st.integers(1, 7), st.sampled_from(["shake", "drop", "depth"]))
def test_what_an_example_draws_does_not_depend_on_batch_mates_order_or_splitting(order, cut, which):
    made = {"shake": ShakeShake(nn.Identity(), nn.ReLU(), 4), "drop": ShakeDrop(0.5, 4), "depth": DropBranch(0.5, 4)}
    layer, x, its_keys, order = made[which], torch.randn(8, 2, 3), keys(8), torch.tensor(order)

    def both(rows):
        h = x[rows].clone().requires_grad_()
        out = called(layer, h, its_keys[rows])
        return torch.stack([out.detach(), *torch.autograd.grad(out.sum(), h)], dim=1)

    together = both(torch.arange(8))
    assert torch.equal(both(order), together[order])
    assert torch.equal(torch.cat([both(torch.arange(cut)), both(torch.arange(cut, 8))]), together)


def test_layers_and_epochs_draw_apart():
    x = torch.ones(500, 1)
    drawn = [called(ShakeDrop(0.01, s), x, keys(500, e))[:, 0] for s, e in ((1, 0), (2, 0), (1, 1))]
    assert float((torch.corrcoef(torch.stack(drawn)) - torch.eye(3)).abs().max()) < 5 / 500**0.5


def test_shaken_works_under_vmap_and_functional_gradients():
    h, a, b = torch.randn(5, 3), torch.rand(5), torch.rand(5)
    gradient = torch.func.vmap(torch.func.grad(lambda row, f, g: shaken(row, f, g).sum()))(h, a, b)
    assert torch.allclose(gradient, b[:, None].expand(5, 3))


def test_without_keys_torch_draws():
    torch.manual_seed(0)
    out = DropBranch(0.5)(torch.ones(1000, 2))
    assert torch.equal(out[:, 0], out[:, 1]) and abs(float(out.mean()) - 0.5) < 0.1
    assert ShakeDrop(0.5)(torch.ones(100, 1)).unique().numel() > 10


def test_a_branch_is_there_as_often_as_promised_and_counts_so_much_in_evaluation():
    layer, count = DropBranch(0.3, site=5), 5000
    out = called(layer, torch.ones(count, 2, 2), keys(count))
    assert set(out.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(out.amin((1, 2)), out.amax((1, 2)))
    assert float(out.mean()) == pytest.approx(0.3, abs=5 * (0.21 / count) ** 0.5)
    assert layer.eval()(torch.ones(1)).item() == pytest.approx(0.3)


def test_a_dropped_unit_is_its_skip_and_a_kept_one_itself():
    torch.manual_seed(0)
    unit, x = PlainUnit(3, 5, stride=2, norm="none"), torch.randn(40, 3, 6, 6)
    whole = unit(x)
    drop_branches([unit], p_last=0.5)
    out = called(unit, x, keys(40))
    kept = torch.isclose(out, whole, atol=1e-6).flatten(1).all(1)
    left = torch.isclose(out, unit.skip(x), atol=1e-6).flatten(1).all(1)
    assert bool((kept ^ left).all()) and 5 < int(kept.sum()) < 35


def test_the_probability_falls_on_a_line():
    assert linear_decay(5, 0.5) == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5])
    assert sum(linear_decay(54, 0.5)) == pytest.approx(40.25)  # the paper: about 40 of 54 blocks are left


def test_weights_keep_their_names():
    unit = PlainUnit(3, 3)
    before = list(unit.state_dict())
    drop_branches([unit])
    assert list(unit.state_dict()) == before


def test_misuse_is_refused():
    for bad in (0, 1.5, -1):
        with pytest.raises(UserError, match="p_keep must be"):
            DropBranch(bad)
    with pytest.raises(UserError, match="Linear at place 1"):
        drop_branches([nn.Linear(2, 2)])
