"""Line search, Newton's and Gauss-Newton steps, and exhaustive search, against what their equations promise."""

import itertools
import math

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.data.data import Batch
from leadline.errors import UserError
from leadline.likelihoods import Bernoulli, Categorical, Normal
from leadline.optim import DampedNewton, Exhaustive, GaussNewton, LineSearch
from leadline.optim.line_search import _C1, _C2


def valley(stretch=30.0):
    """Rows whose squares make a narrow valley over two weights, and their batch."""
    x = torch.tensor([[1.0, 1.0], [math.sqrt(stretch), -math.sqrt(stretch)]], dtype=torch.float64)
    model = nn.Linear(2, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    return model, Batch(x, x @ torch.tensor([1.0, -2.0], dtype=torch.float64))


def bound(rule, model, likelihood=None, steps=100):
    rule.bind(model, likelihood or Normal(variance="fixed"), steps)
    return rule


def gradient(rule, batch):
    return torch.cat([g.flatten() for g in rule.gradient(batch)[1]])


def test_a_bracket_finds_the_exact_minimum_so_that_directions_are_perpendicular():
    model, batch = valley()
    rule = bound(LineSearch(narrow=1e-7), model)
    cosines, exact = [], []
    for k in range(6):
        before, here = gradient(rule, batch), model.weight.detach().clone()
        rule.step(batch, k)
        after = gradient(rule, batch)
        cosines.append(float(before @ after / before.norm() / after.norm()))
        hessian = batch.x.T @ batch.x / len(batch)
        exact.append(float(before @ before / (before @ hessian @ before)))
        moved = float((model.weight.detach() - here).norm() / before.norm())
        assert moved == pytest.approx(exact[-1], rel=1e-3) and rule.rate(k) == pytest.approx(moved, rel=1e-3)
    assert max(map(abs, cosines)) < 0.02


@pytest.mark.parametrize("first", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("method", ["bracketing", "armijo", "wolfe"])
def test_the_first_guess_need_not_be_good(method, first):
    model, batch = valley(3.0)
    rule = bound(LineSearch(method, first=first, stop=1e-5), model)
    losses = [float(rule.step(batch, k)) for k in range(400)]
    assert all(b <= a + 1e-15 for a, b in itertools.pairwise(losses))
    if (method, first) != ("armijo", 1e-6):  # which only doubles from step to step
        assert model.weight.detach()[0].tolist() == pytest.approx([1.0, -2.0], abs=1e-3)
        assert rule.finished and rule.steps_per_epoch == 1


@pytest.mark.parametrize("method", ["armijo", "wolfe"])
def test_conditions_hold_at_what_was_chosen(method):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    x = torch.linspace(-2, 2, 30, dtype=torch.float64)[:, None]
    batch = Batch(x, torch.sin(2 * x[:, 0]))
    rule = bound(LineSearch(method, first=0.01), model)
    for k in range(15):
        g = gradient(rule, batch)
        before = float(rule.step(batch, k))
        after, alpha = float(rule.gradient(batch)[0]), rule.last
        assert after <= before - _C1 * alpha * float(g @ g) + 1e-12
        if method == "wolfe":
            assert float(g @ gradient(rule, batch)) <= _C2 * float(g @ g)


def test_a_small_gradient_ends_the_run():
    data = ll.data.line(num=60)
    family = Normal(variance="fixed")
    rule = LineSearch(stop=1e-2)
    run = ll.fit(ll.models.Linear(1, 1), data, likelihood=family, rule=rule, batch=60, epochs=500, progress=False)
    assert run.reason == "finished" and len(run.history) < 100
    with pytest.raises(UserError, match="method"):
        LineSearch("golden")


# ── second derivatives ──


def wave():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(1, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    x = torch.linspace(-2, 2, 25, dtype=torch.float64)[:, None]
    return model, Batch(x, torch.sin(2 * x[:, 0]), weight=torch.linspace(0.5, 1.5, 25, dtype=torch.float64))


def test_the_hessian_is_that_of_finite_differences():
    model, batch = wave()
    rule = bound(DampedNewton(), model)
    loss, g, hessian = rule.curvature(batch)
    assert torch.allclose(g, gradient(rule, batch)) and float(loss) == pytest.approx(float(rule.gradient(batch)[0]))
    p, h = model[0].weight, 1e-5
    p.data[2, 0] += h
    up = gradient(rule, batch)
    p.data[2, 0] -= 2 * h
    down = gradient(rule, batch)
    torch.testing.assert_close(hessian[2], (up - down) / (2 * h), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_gauss_newton_is_the_hessian_of_an_affine_map_and_never_negative(classes):
    torch.manual_seed(0)
    x, y = torch.randn(20, 2, dtype=torch.float64), torch.arange(20) % classes
    likelihood = Bernoulli() if classes == 2 else Categorical(3)
    width = 1 if classes == 2 else 3
    for model in (nn.Linear(2, width), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, width))):
        model = model.double()
        newton, gauss = (
            bound(rule(), model, likelihood).curvature(Batch(x, y)) for rule in (DampedNewton, GaussNewton)
        )
        assert torch.allclose(newton[0], gauss[0]) and torch.allclose(newton[1], gauss[1])
        assert torch.linalg.eigvalsh(gauss[2]).min() > -1e-12
        assert torch.allclose(newton[2], gauss[2]) == isinstance(model, nn.Linear)


@pytest.mark.parametrize("kind", [DampedNewton, GaussNewton])
def test_damped_steps_never_raise_the_loss_and_end_at_a_minimum(kind):
    model, batch = wave()
    rule = bound(kind(), model)
    losses = [float(rule.step(batch, k)) for k in range(60)]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(losses))
    assert float(gradient(rule, batch).norm()) < 1e-3
    spectrum = torch.linalg.eigvalsh(bound(DampedNewton(), model).curvature(batch)[2])
    assert spectrum.min() > -1e-3  # no saddle


def test_near_a_minimum_the_right_digits_double():
    torch.manual_seed(0)
    model = nn.Linear(2, 1).double()
    x = torch.randn(60, 2, dtype=torch.float64)
    batch = Batch(x, (x[:, 0] + torch.randn(60, dtype=torch.float64) > 0).long())
    rule = bound(DampedNewton(damping=0), model, Bernoulli())
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    norms = []
    for k in range(8):
        norms.append(float(gradient(rule, batch).norm()))
        rule.step(batch, k)
    digits = [-math.log10(norm) for norm in norms if norm > 1e-14]
    assert digits[4] > 1.8 * digits[3] and digits[3] > 1.6 * digits[2]


def test_a_pure_step_may_climb_to_a_maximum_and_a_damped_one_does_not():
    class Hill(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([0.3], dtype=torch.float64))

        def forward(self, x):
            return x * torch.cos(self.w)  # the square of 1 + cos(w) is largest at 0

    batch = Batch(torch.ones(1, 1, dtype=torch.float64), -torch.ones(1, dtype=torch.float64))
    ends = []
    for damping in (0, 1e-3):
        model = Hill()
        rule = bound(DampedNewton(damping=damping), model)
        [rule.step(batch, k) for k in range(60)]
        ends.append(abs(model.w.item()))
    assert ends[0] == pytest.approx(0.0, abs=1e-6) and ends[1] == pytest.approx(math.pi, abs=0.1)


@pytest.mark.parametrize("kind", [DampedNewton, GaussNewton])
def test_what_is_too_large_or_normalised_by_batches_is_refused(kind):
    with pytest.raises(UserError, match=f"{kind.__name__} needs at most 3,000 parameters.*lbfgs"):
        bound(kind(), nn.Linear(100, 100))
    with pytest.raises(UserError, match="without batch normalisation.*BatchNorm1d at 0"):
        bound(kind(), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)))


# ── every candidate ──


def test_no_candidate_is_better_than_the_one_that_was_found():
    torch.manual_seed(0)
    x = torch.randn(30, 2, dtype=torch.float64)
    y = (x @ torch.tensor([1.2, -0.7], dtype=torch.float64) + 0.3 > 0).long()
    model = nn.Linear(2, 1).double()
    rule = Exhaustive(levels=7, span=3.0)
    rule.steps_per_epoch = 2
    bound(rule, model, Bernoulli())
    for k, part in enumerate((slice(0, 13), slice(13, 30))):
        rule.step(Batch(x[part], y[part]), k)
    grid = [-3 + k for k in range(7)]
    losses = {}
    for a, b, c in itertools.product(grid, repeat=3):
        z = a * x[:, 0] + b * x[:, 1] + c
        losses[a, b, c] = float(Bernoulli().loss(z[:, None], y).mean())
    best = min(losses, key=losses.get)
    assert (*model.weight.detach()[0].tolist(), model.bias.item()) == pytest.approx(best)
    assert rule.least == pytest.approx(losses[best]) and rule.tried == 343 and rule.finished


def test_exhaustive_search_through_fit_and_its_limit():
    data = ll.data.separable(num=60)
    run = ll.fit(ll.models.Linear(2, 1), data, rule=Exhaustive(levels=9, span=4.0), epochs=3, progress=False)
    assert run.reason == "finished" and len(run.history) == 1 and run.evaluate("train")["accuracy"] > 0.9
    with pytest.raises(UserError, match="at most 2,097,152 candidates.*3 levels and 20,301 weights"):
        bound(Exhaustive(), nn.Sequential(nn.Linear(100, 100), nn.Linear(100, 101)))
