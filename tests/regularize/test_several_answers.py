"""Ensembles, dropout at prediction time, and posteriors over weights: against closed forms."""

import math

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.layers import Dropout
from leadline.likelihoods import Bernoulli, Categorical, Gamma, Normal, Pixels, Poisson
from leadline.regularize import Ensemble, Member, Several, Snapshots, every_mask, laplace, monte_carlo, stack, swag


class Says(nn.Module):
    """A network that gives the same output to every row."""

    def __init__(self, *output):
        super().__init__()
        self.output = nn.Parameter(torch.tensor(output))

    def forward(self, x):
        return self.output.expand(len(x), -1)


def member(likelihood, *output):
    return Member(Says(*output), likelihood)


ROWS = torch.zeros(2, 1)


def test_a_mixture_of_classes_has_the_mean_of_probabilities_and_parts_its_entropy():
    sure, other = member(Categorical(2), 9.0, -9.0), member(Categorical(2), -9.0, 9.0)
    said = Ensemble([sure, other]).several(ROWS)
    torch.testing.assert_close(said.prediction.probabilities[0], torch.tensor([0.5, 0.5]))
    assert float(said.total[0]) == pytest.approx(math.log(2), rel=1e-5)
    assert float(said.aleatoric[0]) < 1e-5 and float(said.epistemic[0]) == pytest.approx(math.log(2), rel=1e-3)
    alike = Ensemble([member(Bernoulli(), 0.0)] * 3).several(ROWS)
    assert float(alike.epistemic[0]) == pytest.approx(0, abs=1e-6)
    assert float(alike.aleatoric[0]) == pytest.approx(math.log(2), rel=1e-5)


def test_pixels_are_answered_together_class_by_class():
    g = torch.Generator().manual_seed(0)
    maps = torch.randn(5, 3, 4, 6, generator=g)  # members, classes, rows, columns

    class Paints(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.map = nn.Parameter(maps[k])

        def forward(self, x):
            return self.map.expand(len(x), -1, -1, -1)

    family = Pixels(3, names=("sky", "road", "car"))
    five = [Member(Paints(k), family) for k in range(5)]
    said = Ensemble(five).predict(ROWS)
    torch.testing.assert_close(said.probabilities[1], maps.softmax(1).mean(0))
    assert said.mode.shape == (2, 4, 6) and said.names == ("sky", "road", "car")
    torch.testing.assert_close(Ensemble(five, "outputs").predict(ROWS).probabilities[0], maps.mean(0).softmax(0))
    codes = maps.argmax(1)
    share = torch.stack([(codes == c).float().mean(0) for c in range(3)])
    torch.testing.assert_close(Ensemble(five, "vote").predict(ROWS).probabilities[0], share)
    several = Ensemble(five[:2]).several(ROWS)
    alike = codes[0] == codes[1]
    assert several.unanimous(255)[0].tolist() == torch.where(alike, codes[0], 255).tolist() and 0 < alike.sum() < 24
    p = maps[:2].softmax(1)
    torch.testing.assert_close(several.aleatoric[0], -(p * p.log()).sum(1).mean(0))
    y = torch.where(torch.arange(6) < 5, codes[0], 255).expand(2, 4, 6)
    one, found = Ensemble(five[:1]).measure(ROWS, y), Ensemble(five).measure(ROWS, y)
    assert one["accuracy"] == one["mean_iou"] == 1.0 and found["nll"] == pytest.approx(-float(said.log_prob(y).mean()))
    with pytest.raises(UserError, match="must answer with classes"):
        Ensemble([member(Normal("fixed"), 1.0)]).several(ROWS).unanimous()


def test_outputs_are_averaged_before_the_softmax_and_weights_count():
    members = [member(Categorical(3), 3.0, 0.0, 0.0), member(Categorical(3), 0.0, 1.0, 0.0)]
    said = Ensemble(members, "outputs", [3, 1]).predict(ROWS)
    torch.testing.assert_close(said.probabilities[0], torch.tensor([2.25, 0.25, 0.0]).softmax(0))


def test_median_and_vote_stand_a_wild_member_and_the_mean_does_not():
    five = [member(Normal("fixed"), value) for value in (0.9, 1.0, 1.1, 1.0, 500.0)]
    assert float(Ensemble(five, "median").predict(ROWS).mean[0]) == pytest.approx(1.0)
    assert float(Ensemble(five, "outputs").predict(ROWS).mean[0]) > 100
    three = [member(Bernoulli(), value) for value in (1.0, 1.0, -500.0)]
    votes = Ensemble(three, "vote").predict(ROWS)
    assert votes.mode.tolist() == [1, 1] and float(votes.mean[0]) == pytest.approx(2 / 3)
    assert Ensemble(three, "outputs").predict(ROWS).mode.tolist() == [0, 0]


@torch.no_grad()
def test_a_blend_of_any_family_has_moments_quantiles_and_density_of_its_draws():
    for parts in (
        [Gamma().prediction(torch.full((1, 1), value)) for value in (0.0, 1.5)],
        [Poisson().prediction(torch.full((1, 1), value)) for value in (0.5, 2.0)],
        [Normal("fixed").prediction(torch.full((1, 1), value)) for value in (0.0, 3.0)],
        [Normal("fixed", dim=2).prediction(torch.full((1, 2), value)) for value in (0.0, 3.0)],
    ):
        said = Several.of(parts, torch.tensor([0.25, 0.75])).prediction
        drawn = said.sample(10_000, seed=0).flatten(1)[:, 0].float()
        error = float(drawn.std()) / 100
        assert float(drawn.mean()) == pytest.approx(float(said.mean.flatten()[0]), abs=4 * error)
        assert float(drawn.std()) == pytest.approx(float(said.std.flatten()[0]), rel=0.05)
        for q in (0.1, 0.5, 0.9):
            end = said.quantile(q)
            assert float(said.cdf(end).flatten()[0]) >= q - 1e-4
            assert float(said.cdf(end - (1 if said.whole else 1e-3)).flatten()[0]) < q
            below = float((drawn <= float(end.flatten()[0])).float().mean())
            assert below == pytest.approx(float(said.cdf(end).flatten()[0]), abs=0.025)
        y = parts[0].mode
        each = torch.stack([part.log_prob(y) for part in parts]).double().exp()
        torch.testing.assert_close(said.log_prob(y).double().exp(), 0.25 * each[0] + 0.75 * each[1], rtol=1e-4, atol=0)


def test_stacking_finds_the_weights_of_a_true_mixture():
    g = torch.Generator().manual_seed(0)
    low = torch.rand(4000, generator=g) < 0.3
    y = torch.where(low, -2.0, 2.0) + torch.randn(4000, generator=g)
    members = [member(Normal("fixed"), -2.0), member(Normal("fixed"), 2.0), member(Normal("fixed"), 30.0)]
    found = Ensemble.stacked(members, torch.zeros(4000, 1), y)
    assert found.weights.tolist() == pytest.approx([0.3, 0.7, 0.0], abs=0.03)


def test_an_ensemble_is_no_worse_than_its_members_on_average_and_can_be_stacked():
    data = ll.data.moons(num=300, noise=0.3)
    runs = []
    for seed in range(4):
        torch.manual_seed(seed)
        runs.append(ll.fit(ll.models.MLP(2, (16,), 1), ll.data.bootstrap(data, seed), epochs=15, progress=False))
    own = [Ensemble([run]).measure(data.test.x, data.test.y)["nll"] for run in runs]
    both = Ensemble(runs)
    assert both.evaluate("test")["nll"] <= sum(own) / 4
    assert own[0] == pytest.approx(runs[0].evaluate("test")["nll"], rel=1e-4)
    stacked = stack(runs, data)
    assert torch.equal(stacked.train.y, data.val.y) and stacked.train.x.shape == (len(data.val), 4)
    ll.fit(ll.models.Linear(4, 1), stacked, epochs=1, progress=False)


def test_an_ensemble_refuses_what_does_not_go_together():
    one, two = member(Bernoulli(), 0.0), member(Normal(), 0.0)
    for call, message in (
        (lambda: Ensemble([one, two]), "one likelihood"),
        (lambda: Ensemble([]), "one likelihood"),
        (lambda: Ensemble([one], weights=[1.0, 2.0]), "for each member"),
        (lambda: Ensemble([one], "median", [1.0]), "takes no weights"),
        (lambda: Ensemble([two], "vote").predict(ROWS), "must be of classes"),
        (lambda: Ensemble([one], "medain"), "median"),
    ):
        with pytest.raises(UserError, match=message):
            call()


# ── dropout at prediction time ───────────────────────────────────────────────────────────────────────────────────────


def dropped(p_drop=0.3):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), Dropout(p_drop, site=1), nn.Linear(4, 3), nn.ReLU(), Dropout(p_drop, site=2), nn.Linear(3, 1))  # noqa: E501  # fmt: skip
    return Member(net.double(), Normal("fixed").double())


def test_drawn_masks_come_to_the_answer_of_every_mask():
    trained, rows = dropped(), torch.randn(3, 2).double()
    exact, drawn = every_mask(trained, rows), monte_carlo(trained, rows, 1500)
    assert len(exact.parts) == 2**7 and float(exact.weights.sum()) == pytest.approx(1)
    means = torch.stack([part.mean for part in drawn.parts])
    assert bool(((means.mean(0) - exact.prediction.mean).abs() < 4 * means.std(0) / 1500**0.5).all())
    torch.testing.assert_close(drawn.epistemic, exact.epistemic, rtol=0.1, atol=0)
    assert trained.model.training and not trained.model[2]._forward_hooks


def test_of_one_linear_unit_the_mean_over_all_masks_is_the_weight_scaling_rule():
    net = nn.Sequential(Dropout(0.2), nn.Linear(5, 1)).double()
    rows = torch.randn(4, 5).double()
    exact = every_mask(Member(net, Normal("fixed").double()), rows)
    torch.testing.assert_close(exact.prediction.mean, net.eval()(rows).squeeze(1))
    by_hand = (0.8 * net[1].weight @ (rows / 0.8).mT + net[1].bias).flatten()  # weights times KEEP, units undivided
    torch.testing.assert_close(exact.prediction.mean, by_hand)


def test_masks_at_prediction_time_are_of_the_seed_and_need_dropout():
    trained, rows = dropped(), torch.randn(3, 2).double()
    one, two, other = (monte_carlo(trained, rows, 5, seed).prediction.mean for seed in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)
    plain = Member(nn.Linear(2, 1), Normal())
    with pytest.raises(UserError, match="draw noise"):
        monte_carlo(plain, torch.zeros(1, 2))
    with pytest.raises(UserError, match="every mask"):
        every_mask(plain, torch.zeros(1, 2))


# ── posteriors ───────────────────────────────────────────────────────────────────────────────────────────────────────


def linear_gaussian():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, 2, generator=g).double()
    y = x @ torch.tensor([1.0, -2.0]).double() + 0.5 + 0.3 * torch.randn(40, generator=g).double()
    A = torch.cat([x, torch.ones(40, 1)], 1).double()
    precision = A.mT @ A / 0.3**2 + torch.eye(3) / 2.0**2
    covariance = torch.linalg.inv(precision)
    mean = covariance @ A.mT @ y / 0.3**2
    net = nn.Linear(2, 1).double()
    with torch.no_grad():
        net.weight.copy_(mean[:2])
        net.bias.copy_(mean[2])
    return Member(net, Normal("fixed", sigma=0.3).double()), x, y, mean, covariance


def test_laplace_is_exact_for_a_linear_model_with_normal_noise_and_prior():
    trained, x, y, mean, covariance = linear_gaussian()
    posterior = laplace(trained, x, y, prior=2.0, which="*")
    torch.testing.assert_close(posterior.covariance, covariance)
    torch.testing.assert_close(posterior.mean, mean)
    torch.testing.assert_close(laplace(trained, x, y, prior=2.0, temperature=0.25).covariance, covariance / 4)
    far = torch.tensor([[5.0, 5.0]]).double()
    said = posterior.predict(far, draws=1500)
    row = torch.tensor([5.0, 5.0, 1.0]).double()
    assert float(said.epistemic) == pytest.approx(float((row @ covariance @ row).sqrt()), rel=0.08)
    assert float(said.aleatoric) == pytest.approx(0.3)


def test_laplace_of_a_classifier_has_the_curvature_of_its_loss():
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 2, generator=g).double(), torch.arange(30) % 3
    net = nn.Linear(2, 3).double()
    found = laplace(Member(net, Categorical(3).double()), x, y)
    flat = lambda v: Categorical(3).loss(x @ v[:6].view(3, 2).mT + v[6:], y).sum()  # noqa: E731
    hessian = torch.autograd.functional.hessian(flat, found.mean)
    torch.testing.assert_close(torch.linalg.inv(found.covariance), hessian + torch.eye(9))


def test_laplace_takes_the_last_map_and_refuses_what_is_too_much():
    trained = Member(ll.models.MLP(3, (80, 80), 1), Normal())
    rows, y = torch.randn(5, 3), torch.randn(5)
    assert laplace(trained, rows, y).names == ("head.weight", "head.bias")
    with pytest.raises(UserError, match="at most 4,000"):
        laplace(trained, rows, y, which="*")
    with pytest.raises(UserError, match="must match"):
        laplace(trained, rows, y, which="heads.*")


def test_swag_of_draws_from_a_normal_law_has_its_mean_and_covariance():
    trained, _, _, mean, covariance = linear_gaussian()
    g = torch.Generator().manual_seed(1)
    drawn = mean + torch.randn(1500, 3, generator=g).double() @ torch.linalg.cholesky(covariance).mT
    snapshots = [{"weight": one[:2][None], "bias": one[2:]} for one in drawn]
    found = swag(trained, snapshots, rank=1500)
    torch.testing.assert_close(found.mean, mean, atol=0.01, rtol=0)
    expected = covariance / 2 + covariance.diagonal().diag() / 2
    torch.testing.assert_close(found.covariance, expected, atol=3e-4, rtol=0.15)
    sampled = found.draw(3000)
    torch.testing.assert_close(sampled.mT.cov(), found.covariance, atol=3e-4, rtol=0.15)
    with pytest.raises(UserError, match="at least 2"):
        swag(trained, snapshots[:1])


def test_snapshots_are_the_weights_at_the_ends_of_epochs():
    data = ll.data.moons(num=60)
    torch.manual_seed(0)
    model = ll.models.Linear(2, 1)
    kept = Snapshots(model, every=2, start=2)
    run = ll.fit(model, data, epochs=5, validate_every=5, listeners=[kept], progress=False)
    assert kept.epochs == [2, 4]
    assert not torch.equal(kept.weights[0]["map.weight"], kept.weights[1]["map.weight"])
    said = swag(run, kept.weights).predict(data.test.x, draws=3)
    assert len(said.parts) == 3 and all(torch.equal(p, q) for p, q in zip(model.parameters(), run.model.parameters()))
