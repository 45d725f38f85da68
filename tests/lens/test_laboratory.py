"""Lenses on small losses: known critical points, chords, batches, brackets, momentum, implicit terms, paths."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.data.inputs import Identity
from leadline.errors import UserError
from leadline.models import Gabor
from leadline.optim.flow import batch_term, gradient_term
from leadline.reference import gradients as by_hand


def squares(output, y):
    return (output[:, 0] - y).square()


class Egg(nn.Module):
    """A loss with known critical points: cos a + cos b / 2, whatever the rows."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.tensor(0.4)), nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        return (self.a.cos() + self.b.cos() / 2).expand(len(x), 1)


ROWS = torch.zeros(3, 1), torch.zeros(3)


def value(output, y):
    return output[:, 0]


@pytest.fixture(scope="module")
def wave():
    model = Gabor()
    model.set(-4.0, 12.0)
    return model, ll.data.gabor(val=0.0, test=0.0, seed=2).with_(inputs=Identity())


WINDOW = ((-10, 10), (2.5, 22.5))


def check(view):
    json.dumps(view.to_dict())
    assert view.plot().get_axes()


def test_all_critical_points_of_a_known_surface():
    reach = (-0.5, 6.0)  # 0 and π in each
    view = ll.lens.critical_points(Egg(), ROWS, likelihood=value, window=(reach, reach), starts=48, num=5)
    assert view.kinds == ("minimum", "saddle", "saddle", "maximum")
    np.testing.assert_allclose(view.at, [[np.pi, np.pi], [np.pi, 0], [0, np.pi], [0, 0]], atol=1e-8)
    np.testing.assert_allclose(view.loss, [-1.5, -0.5, 0.5, 1.5], atol=1e-12)
    np.testing.assert_allclose(view.eigenvalues, [[0.5, 1], [-0.5, 1], [-1, 0.5], [-1, -0.5]], atol=1e-8)
    assert view.share[0] > 0.5 and not view.share[1:].any()
    check(view)


def test_the_wave_has_many_minima_and_its_gradient_is_zero_there(wave):
    view = ll.lens.critical_points(*wave, likelihood=squares, window=WINDOW, starts=128, num=21)
    assert view.kinds.count("minimum") >= 4 and "saddle" in view.kinds
    rows = wave[1].train
    for at, loss in zip(view.at, view.loss):
        slope = by_hand.gabor(at.tolist(), rows.x.flatten().tolist(), rows.y.tolist())
        assert abs(slope[0]) < 1e-6 and abs(slope[1]) < 1e-6 and loss > 0
    best = view.at[0]
    assert abs(best[0]) < 1 and 14 < best[1] < 20 and view.loss[0] == min(view.loss)
    check(view)


def test_a_penalty_leaves_fewer_minima_and_moves_the_lowest(wave):
    def pull(phi):
        return 0.02 * (phi - torch.tensor([0.0, 12.5], dtype=torch.float64)).square().sum()

    options = {"likelihood": squares, "window": WINDOW, "starts": 64, "num": 5}
    bare, pulled = (ll.lens.critical_points(*wave, penalty=p, **options) for p in (None, pull))
    assert pulled.kinds.count("minimum") < bare.kinds.count("minimum")
    assert abs(pulled.at[0, 1] - 12.5) < abs(bare.at[0, 1] - 12.5)


def test_more_than_two_weights_are_a_ladder():
    model = ll.models.Shallow(1, 1, 1, activation="tanh")
    view = ll.lens.critical_points(model, ll.data.line(num=20), likelihood=squares, window=[(-2, 2)] * 4, starts=4)
    assert not view.surface.size
    check(view)
    with pytest.raises(UserError, match="at most 50 weights"):
        ll.lens.critical_points(ll.models.MLP(2, (20,), 1), ll.data.moons(num=20))
    with pytest.raises(UserError, match="ascending pair for each of the 2 weights"):
        ll.lens.critical_points(Egg(), ROWS, likelihood=value, window=((0, 1),))


def test_chords_tell_convex_from_not(wave):
    line, logistic = ll.models.Linear(1, 1), ll.models.Linear(1, 1)
    assert ll.lens.chords(line, ll.data.line(num=30), window=[(-5, 5)] * 2, pairs=50).convex
    assert ll.lens.chords(logistic, ll.data.two_gaussians(), window=[(-5, 5)] * 2, pairs=50).convex
    view = ll.lens.chords(*wave, likelihood=squares, window=WINDOW, pairs=50)
    assert not view.convex and view.rise[0] > 0.1 and view.lowest[0] < 0
    assert (view.along - view.chord).max() == pytest.approx(view.rise[0] * max(view.along[0], view.along[-1]), rel=1e-9)
    check(view)


def test_a_cloud_of_updates_is_centred_on_descent(wave):
    view = ll.lens.batch_losses(*wave, likelihood=squares, size=3, rate=5.0, window=WINDOW, num_batches=400, num=9)
    error = view.updates.std(0) / 400**0.5
    assert (np.abs(view.updates.mean(0) - view.full) < 4 * error).all()
    assert 0 < view.uphill < 1
    all_rows = ll.lens.batch_losses(*wave, likelihood=squares, size=28, rate=5.0, window=WINDOW, num_batches=3, num=9)
    np.testing.assert_allclose(all_rows.updates, np.tile(view.full, (3, 1)), atol=1e-12)
    np.testing.assert_allclose(all_rows.parts[0], view.whole, atol=1e-12)
    check(view)


def test_a_bracket_closes_on_the_minimum_of_a_parabola():
    rows = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([1.0, 0.5, 2.0])
    model = nn.Linear(1, 1)
    view = ll.lens.bracketing(model, rows, likelihood=squares, steps=40)
    slope = torch.autograd.grad((model(rows[0])[:, 0] - rows[1]).square().mean(), list(model.parameters()))
    g = torch.cat([part.flatten() for part in slope]).double()
    a = torch.cat([rows[0], torch.ones(3, 1)], dim=1).double()
    exact = float(g @ g / (2 * (a @ g).square().mean()))
    assert view.found == pytest.approx(exact, rel=1e-4)
    check(view)


def test_the_five_points_of_nesterov(wave):
    model, data = wave
    view = ll.lens.momentum_steps(model, data, likelihood=squares, rate=8.0, momentum=0.8, steps=3, num=9)
    rows = data.train
    x, y = rows.x.flatten().tolist(), rows.y.tolist()

    def slope(phi):
        return np.array(by_hand.gabor(phi.tolist(), x, y)) / 28

    phi, m = np.array([-4.0, 12.0]), np.zeros(2)
    for _ in range(3):
        m = 0.8 * m + 0.2 * slope(phi)
        phi = phi - 8 * m
    classic = phi - 8 * (0.8 * m + 0.2 * slope(phi))
    ahead = phi - 8 * (0.8 * m + 0.2 * slope(phi - 8 * m))
    np.testing.assert_allclose(view.points[[0, 2, 4]], [phi, classic, ahead], atol=1e-6)
    check(view)


def test_implicit_maps_are_their_terms(wave):
    view = ll.lens.implicit(*wave, likelihood=squares, rate=4.0, size=7, window=WINDOW, num=7)
    loss = ll.lens.WeightLoss(*wave, squares)
    phi = torch.tensor([view.first[2], view.second[5]])
    order = torch.randperm(28, generator=torch.Generator().manual_seed(0))
    losses = [loss.of_batch(part) for part in order.split(7)]
    assert view.num_batches == 4
    assert view.loss[5, 2] == pytest.approx(float(loss(phi)), rel=1e-9)
    assert view.gradient[5, 2] == pytest.approx(float(gradient_term(loss)(phi)), rel=1e-9)
    assert view.batches[5, 2] == pytest.approx(float(batch_term(losses)(phi)), rel=1e-9)
    np.testing.assert_allclose(view.total, view.loss + view.gradient + view.batches)
    check(view)


def test_paths_of_descent(wave):
    loss = ll.lens.WeightLoss(*wave, squares)
    view = ll.lens.descent_paths(loss, rate=4.0, steps=6, num=9)
    assert len(view.steps) == 7 and view.apart[1] < view.apart[0]
    np.testing.assert_allclose(view.steps[0], [-4.0, 12.0], atol=1e-6)
    check(view)
    with pytest.raises(UserError, match="needs a start"):
        ll.lens.descent_paths(lambda p: p.sum(), rate=0.1)


def test_a_model_is_left_as_it_was(wave):
    model, data = wave
    before = [p.detach().clone() for p in model.parameters()]
    state, mode = torch.get_rng_state(), model.training
    ll.lens.batch_losses(model, data, likelihood=squares, num=3)
    ll.lens.chords(model, data, likelihood=squares, pairs=2)
    assert all(torch.equal(p, q) for p, q in zip(before, model.parameters()))
    assert torch.equal(state, torch.get_rng_state()) and model.training is mode
    assert all(p.requires_grad and p.grad is None and p.dtype == torch.float32 for p in model.parameters())


def test_several_paths_on_one_surface(wave):
    model, data = wave
    first = torch.tensor([[-4.0, 12.0], [-3.0, 12.5], [-2.0, 13.0]])
    second = torch.tensor([[-4.0, 12.0], [0.0, 15.0]])
    view = ll.lens.loss_surface(
        model, data, likelihood=squares, parameters=("phi0[0]", "phi1[0, 0]"), path={"a": first, "b": second}, num=5
    )
    np.testing.assert_allclose(view.paths["a"], first, atol=1e-5)
    np.testing.assert_allclose(view.paths["b"], second, atol=1e-5)
    assert not len(view.path) and view.first[-1] > 0
    names = [text.get_text() for text in view.plot().axes[0].get_legend().get_texts()]
    assert names[:2] == ["a", "b"]


@pytest.mark.parametrize("lens", [ll.lens.batch_losses, ll.lens.implicit, ll.lens.momentum_steps])
def test_surfaces_need_two_weights(lens):
    with pytest.raises(UserError, match="must have a model of two weights"):
        lens(ll.models.Linear(2, 1), ll.data.moons(num=20))
