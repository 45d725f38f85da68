"""Every registered likelihood equals its closed form and its twin, and its intervals hold what they promise."""

import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Normal as NormalDistribution

from leadline.data.target import Target
from leadline.likelihoods import LIKELIHOODS, Bernoulli, Categorical, Likelihood, Normal
from leadline.reference import likelihoods as twin
from leadline.testing import ContractError, check_likelihood

ROWS = 12
SCALED = {"shift": (10.0,), "scale": (3.0,)}


def codes(num_classes):
    return torch.arange(ROWS) % num_classes


CASES = {
    "Normal fixed": (Normal("fixed", sigma=0.5), lambda: torch.randn(ROWS)),
    "Normal learned": (Normal("learned", sigma=2.0), lambda: torch.randn(ROWS)),
    "Normal input": (Normal("input"), lambda: torch.randn(ROWS)),
    "Normal scaled": (Normal("input", **SCALED), lambda: 10 + 3 * torch.randn(ROWS)),
    "Normal two": (Normal("input", dim=2, shift=(1.0, -5.0), scale=(0.1, 20.0)), lambda: torch.randn(ROWS, 2)),
    "Normal learned two": (Normal("learned", dim=2), lambda: torch.randn(ROWS, 2)),
    "Bernoulli": (Bernoulli(), lambda: codes(2)),
    "Bernoulli smoothed": (Bernoulli(label_smoothing=0.2), lambda: codes(2)),
    "Bernoulli float codes": (Bernoulli(), lambda: codes(2).float()),
    "Categorical": (Categorical(5), lambda: codes(5)),
    "Categorical of two": (Categorical(2), lambda: codes(2)),
    "Categorical smoothed": (Categorical(5, label_smoothing=0.1), lambda: codes(5)),
}


@pytest.fixture(params=CASES)
def case(request):
    likelihood, make = CASES[request.param]
    torch.manual_seed(0)
    return likelihood, 2 * torch.randn(ROWS, likelihood.dim_output), make()


def test_every_family_is_here_or_checked_in_a_file_of_its_own():
    here = {type(likelihood).__name__ for likelihood, _ in CASES.values()}
    folder = Path(__file__).parents[1] / "likelihoods"
    texts = [path.read_text() for path in folder.glob("*.py")]
    checked = " ".join(text for text in texts if "check_likelihood(" in text or "class Case" in text)
    assert [name for name in LIKELIHOODS if name not in here and not re.search(rf"\b{name}\b", checked)] == []


def test_every_likelihood_keeps_the_contract(case):
    check_likelihood(*case)


def test_the_loss_equals_its_twin(case):
    likelihood, output, y = case
    likelihood, output = likelihood.double(), output.double()
    losses = likelihood.loss(output, y).tolist()
    likelihood.float()
    for row, loss in enumerate(losses):
        assert loss == pytest.approx(twin_loss(likelihood, output[row].tolist(), y[row].tolist()), rel=1e-6, abs=1e-9)


def twin_loss(likelihood, output, y):
    if isinstance(likelihood, Bernoulli):
        return twin.bernoulli_loss(output[0], int(y), likelihood.label_smoothing)
    if isinstance(likelihood, Categorical):
        return twin.categorical_loss(output, y, likelihood.label_smoothing)
    total = 0.0
    ys = [y] if likelihood.dim == 1 else y
    for k in range(likelihood.dim):
        shift = likelihood.shift[k % len(likelihood.shift)]
        scale = likelihood.scale[k % len(likelihood.scale)]
        if likelihood.variance == "input":
            sigma = math.log1p(math.exp(output[likelihood.dim + k])) + 1e-4
        elif likelihood.variance == "learned":
            sigma = math.log1p(math.exp(10 * float(likelihood.rho[k].detach()))) + 1e-4
        else:
            sigma = likelihood.sigma
        total += twin.normal_loss(shift + scale * output[k], scale * sigma, ys[k])
    return total


def test_quantiles_equal_their_twins(case):
    likelihood, output, _ = case
    prediction = likelihood.prediction(output)
    for q in (0.05, 0.3, 0.5, 0.9):
        quantile = prediction.quantile(q)
        for row in range(ROWS):
            if isinstance(likelihood, Normal):
                mu = prediction.distribution.loc[row].flatten().tolist()
                sigma = prediction.distribution.scale[row].detach().flatten().tolist()
                wanted = [twin.normal_quantile(m, s, q) for m, s in zip(mu, sigma, strict=True)]
                assert quantile[row].detach().flatten().tolist() == pytest.approx(wanted, rel=1e-4, abs=1e-4)
            else:
                assert int(quantile[row]) == twin.discrete_quantile(prediction.probabilities[row].tolist(), q)


def test_the_nll_of_the_true_distribution_is_its_entropy(case):
    likelihood, output, _ = case
    prediction = likelihood.prediction(output)
    y = prediction.sample(4000, seed=1)
    nll = torch.stack([likelihood.measures(output, draw)["nll"] for draw in y.to(target_type(likelihood))])
    entropy = prediction.distribution.entropy()
    entropy = entropy.sum(-1) if entropy.dim() > 1 else entropy
    error = nll.std(0) / math.sqrt(len(y))
    assert bool(((nll.mean(0) - entropy).abs() < 5 * error + 1e-6).all())


def target_type(likelihood):
    return torch.float32 if isinstance(likelihood, Normal) else torch.int64


def test_the_mean_of_samples_is_the_mean(case):
    likelihood, output, _ = case
    prediction = likelihood.prediction(output)
    draws = prediction.sample(4000, seed=2)
    if isinstance(likelihood, Categorical):
        draws = F.one_hot(draws, likelihood.num_classes)
    off = (draws.float().mean(0) - prediction.mean).abs()
    assert bool((off < 5 * prediction.std / math.sqrt(4000) + 1e-4).all())


def test_samples_repeat_by_seed_and_leave_torch_alone(case):
    likelihood, output, _ = case
    prediction = likelihood.prediction(output)
    torch.manual_seed(4)
    first = prediction.sample(50, seed=9)
    drawn = torch.rand(1)
    torch.manual_seed(4)
    assert torch.equal(drawn, torch.rand(1))
    assert torch.equal(first, prediction.sample(50, seed=9))
    assert not torch.equal(first, prediction.sample(50, seed=10))
    assert not torch.equal(prediction.sample(50), prediction.sample(50))


@pytest.mark.parametrize("variance", ["fixed", "learned", "input"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_normal_intervals_hold_y_as_often_as_they_say(variance, level):
    torch.manual_seed(0)
    likelihood = Normal(variance, sigma=0.7, **SCALED)
    prediction = likelihood.prediction(torch.randn(20000, likelihood.dim_output))
    # y comes from the definition of the distribution, not from the prediction's own sampler
    mu, sigma = likelihood.parameters_of(torch.zeros(1, likelihood.dim_output))
    fixed = likelihood.prediction(torch.zeros(20000, likelihood.dim_output))
    y = mu.item() + sigma.item() * torch.randn(20000)
    for held in (fixed, prediction):
        values = y if held is fixed else NormalDistribution(held.mean, held.std).sample()
        low, high = held.interval(level)
        covered = ((low <= values) & (values <= high)).float().mean().item()
        assert covered == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / 20000))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_discrete_intervals_and_sets_hold_y_at_least_as_often(level):
    torch.manual_seed(0)
    slack = 4 * math.sqrt(level * (1 - level) / 20000)
    p = torch.rand(20000)
    yes = (torch.rand(20000) < p).long()
    low, high = Bernoulli().prediction(torch.logit(p)[:, None]).interval(level)
    assert ((low <= yes) & (yes <= high)).float().mean() >= level - slack
    logits = 2 * torch.randn(20000, 6)
    y = torch.multinomial(logits.softmax(-1), 1)
    held = Categorical(6).prediction(logits).credible_set(level)
    assert held.gather(1, y).float().mean() >= level - slack


@pytest.mark.parametrize("level", [0.3, 0.8, 0.999])
def test_credible_sets_equal_their_twin(level):
    torch.manual_seed(0)
    prediction = Categorical(6).prediction(3 * torch.randn(50, 6))
    for mask, p in zip(prediction.credible_set(level), prediction.probabilities, strict=True):
        assert set(mask.nonzero().flatten().tolist()) == twin.credible_set(p.tolist(), level)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing_is_that_of_cross_entropy(smoothing):
    torch.manual_seed(0)
    output, y = torch.randn(8, 5), torch.arange(8) % 5
    wanted = F.cross_entropy(output, y, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(Categorical(5, smoothing).loss(output, y), wanted)
    # a yes-or-no question is a question of two classes whose first logit is 0
    logit, answer = torch.randn(8, 1), torch.arange(8) % 2
    both = torch.cat([torch.zeros(8, 1), logit], 1)
    wanted = F.cross_entropy(both, answer, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(Bernoulli(smoothing).loss(logit, answer), wanted)


def test_smoothing_moves_the_loss_and_never_the_nll():
    output, y = torch.randn(6, 3), torch.arange(6) % 3
    sharp, smooth = Categorical(3), Categorical(3, label_smoothing=0.3)
    assert not torch.allclose(sharp.loss(output, y), smooth.loss(output, y))
    assert torch.equal(sharp.measures(output, y)["nll"], smooth.measures(output, y)["nll"])


# ── likelihoods that are broken on purpose ──


class Sound(Likelihood):
    dim_output = 1

    def __init__(self):
        super().__init__()

    def distribution(self, output):
        return NormalDistribution(output.squeeze(-1), torch.ones(len(output), dtype=output.dtype))

    def loss(self, output, y):
        return -self.distribution(output).log_prob(y)

    def measures(self, output, y):
        return {"nll": self.loss(output, y)}

    def prediction(self, output):
        return Normal("fixed").to(output.dtype).prediction(output)

    def check(self, y):
        Normal("fixed").check(y)


class AveragesTheBatch(Sound):
    def loss(self, output, y):
        return super().loss(output, y).mean()


class ForgetsTheConstant(Sound):
    def loss(self, output, y):
        return 0.5 * (output.squeeze(-1) - y) ** 2


class Broadcasts(Sound):
    def loss(self, output, y):
        return -self.distribution(output).log_prob(y.flip(0).mean() + 0 * y)


class CutsTheGradient(Sound):
    def loss(self, output, y):
        return super().loss(output, y) + 0.1 * (output - output.detach()).squeeze(-1)


class OverFlows(Sound):
    def loss(self, output, y):
        a = output.squeeze(-1)
        return super().loss(output, y) + 0 * a.exp()


class NoNll(Sound):
    def measures(self, output, y):
        return {"error": self.loss(output, y)}


class UnknownHeadline(Sound):
    headline = "applause"


class TalliesTheBatch(Sound):
    def tallies(self, output, y):
        return {"rank": output.squeeze(-1).argsort()}


class ConfigBuildsAnother(Sound):
    def __init__(self, tilt=0.0):
        super().__init__()
        self.tilt = 0.0
        self.dim_output = 1 if tilt == 0.0 else 2


class RefusesAll(Sound):
    def check(self, y):
        Categorical(3).check(y)


BROKEN = {
    AveragesTheBatch: "not one value per example",
    ForgetsTheConstant: "not -log p",
    Broadcasts: "not -log p",
    CutsTheGradient: "not that of finite differences",
    OverFlows: "not finite at output",
    NoNll: "no nll",
    UnknownHeadline: "no applause, its headline",
    RefusesAll: "it refuses these rows",
    TalliesTheBatch: "tally rank of a row alone is another than in a batch",
}


def test_the_sound_likelihood_passes():
    torch.manual_seed(0)
    check_likelihood(Sound(), torch.randn(5, 1), torch.randn(5))


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.__name__)
def test_a_broken_likelihood_is_caught_by_the_clause_that_it_breaks(broken):
    torch.manual_seed(0)
    with pytest.raises(ContractError, match=f"^{broken.__name__}: .*{BROKEN[broken]}"):
        check_likelihood(broken(), torch.randn(5, 1), torch.randn(5))


def test_a_config_that_builds_another_likelihood_is_caught():
    torch.manual_seed(0)
    likelihood = ConfigBuildsAnother()
    likelihood.tilt = 1.0
    with pytest.raises(ContractError, match="another dim_output"):
        check_likelihood(likelihood, torch.randn(5, 1), torch.randn(5))


def test_the_default_family_follows_the_target():
    from leadline.likelihoods import likelihood_for

    assert isinstance(likelihood_for(Target("real")), Normal)
    assert isinstance(likelihood_for(Target("binary")), Bernoulli)
    assert likelihood_for(Target("classes", classes=("a", "b", "c"))).num_classes == 3
    assert isinstance(likelihood_for(Target("binary", classes=("n", "y")), "categorical"), Categorical)
