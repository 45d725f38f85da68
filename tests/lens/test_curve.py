"""Curves over one feature: they are what the run predicts at rows, with every family's own band."""

import json
import math
import sys

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.target import Target
from leadline.data.tokens import Tokens
from leadline.errors import UserError
from leadline.text import Tokenizer

G = torch.Generator().manual_seed(0)
X = torch.rand(60, 1, generator=G) * 4 - 2
NOISE = torch.randn(60, generator=G)


def data_of(y, kind, x=X, **fields):
    return Data(Split(x, y), *[Split(x[:0], y[:0])] * 2, Target(kind, **fields))


def network(family, dim_input=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(dim_input, 8), nn.Tanh(), nn.Linear(8, family.dim_output))


NUMBERS = {
    "Normal": (ll.likelihoods.Normal("input"), X[:, 0] + 0.1 * NOISE),
    "StudentT": (ll.likelihoods.StudentT(), X[:, 0] + 0.1 * NOISE),
    "Quantile": (ll.likelihoods.Quantile(), X[:, 0] + 0.1 * NOISE),
    "Mixture": (ll.likelihoods.Mixture(2), X[:, 0].sign() + 0.1 * NOISE),
    "Gamma": (ll.likelihoods.Gamma(), NOISE.abs() + 0.1),
    "Beta": (ll.likelihoods.Beta(), torch.sigmoid(NOISE)),
    "VonMises": (ll.likelihoods.VonMises(), (NOISE + 3).remainder(2 * math.pi) - math.pi),
    "Turning": (ll.likelihoods.Mixture(2, "VonMises"), (NOISE + 3).remainder(2 * math.pi) - math.pi),
    "Poisson": (ll.likelihoods.Poisson(), NOISE.abs().round()),
    "NegativeBinomial": (ll.likelihoods.NegativeBinomial(), NOISE.abs().round()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_curve_is_the_prediction_along_the_feature(name):
    family, y = NUMBERS[name]
    model = network(family)
    view = ll.lens.curve(model, (X, y), likelihood=family, num=21)
    with torch.no_grad():
        at, own = (family.prediction(model(x)) for x in (torch.tensor(view.x[:, None]).float(), X))
        loss = family.loss(model(X), y).mean().item()
    assert np.allclose(view.mean, at.mean, atol=1e-5) and np.allclose(view.said, own.mean, atol=1e-5)
    assert np.allclose(view.modes[:, 0], at.mode, atol=1e-5, equal_nan=True)
    assert view.loss == pytest.approx(loss, rel=1e-5) and view.level == pytest.approx(0.9)
    if isinstance(family, ll.likelihoods.Mixture):
        assert np.allclose(view.band, at.region(0.9), atol=1e-4, equal_nan=True)
    else:
        assert np.allclose(view.band[:, 0].T, np.stack(at.interval(0.9)), atol=1e-4)
    json.dumps(view.to_dict(), allow_nan=False)
    title = view.plot(residuals=True).axes[0].get_title(loc="left")
    assert title == f"Predicted y: loss {view.loss:.4g} a row ({type(family).__name__})".replace("-", "−")


def test_rows_that_lie_in_their_own_band_are_counted_the_short_way_round():
    family = ll.likelihoods.VonMises("fixed", kappa=50.0)
    model = nn.Linear(1, 2)
    with torch.no_grad():
        model.weight.zero_(), model.bias.copy_(torch.tensor([-1.0, 1e-3]))  # just below π
    y = torch.tensor([3.1, -3.1, 0.0, 3.0])
    view = ll.lens.curve(model, (X[:4], y), likelihood=family)
    assert view.inside == 0.75
    normal = ll.lens.curve(nn.Linear(1, 1), (X[:4], torch.zeros(4)), likelihood=ll.likelihoods.Normal("fixed", 1e3))
    assert normal.inside == 1


def test_of_many_rows_some_are_judged(monkeypatch):
    family, y = NUMBERS["Normal"]
    inside = lambda x, y: ll.lens.curve(network(family), (x, y), likelihood=family, level=0.6).inside  # noqa: E731
    every, third = inside(X, y), inside(X[::3], y[::3])
    monkeypatch.setattr(sys.modules["leadline.lens.curve"], "_JUDGED", 20)
    assert inside(X, y) == third != every


def test_the_band_of_deviations():
    family, y = NUMBERS["Normal"]
    view = ll.lens.curve(network(family), (X, y), likelihood=family, deviations=2, num=5)
    std = family.prediction(network(family)(torch.tensor(view.x[:, None]).float())).std.detach().numpy()
    assert np.allclose(view.band[:, 0, 1] - view.mean, 2 * std, atol=1e-5) and view.level is None
    labels = view.plot().axes[0].get_legend_handles_labels()[1]
    assert any(text.startswith("mean ± 2 deviations") for text in labels)


def test_quantiles_that_were_trained_set_the_band():
    for levels, band in (((0.25, 0.5, 0.75), 0.5), ((0.01, 0.5, 0.99), 0.9), ((0.5,), None)):
        family = ll.likelihoods.Quantile(levels)
        view = ll.lens.curve(network(family), (X, NOISE), likelihood=family, num=5)
        assert view.level == (None if band is None else pytest.approx(band)) and list(view.quantiles) == list(levels)
        assert view.band.shape[1] == (band is not None)
    family = ll.likelihoods.Quantile((0.25, 0.5, 0.75))
    with pytest.raises(UserError, match="levels that reach"):
        ll.lens.curve(network(family), (X, NOISE), likelihood=family, level=0.9)


def test_a_distance_has_a_curve_and_no_band():
    family = ll.likelihoods.Distance("squared")
    view = ll.lens.curve(network(family), (X, X[:, 0]), likelihood=family)
    assert view.kind == "point" and view.band.shape[1] == 0 and math.isnan(view.inside)
    assert view.loss == pytest.approx(((view.y - view.said) ** 2).mean(), rel=1e-5)
    view.plot(residuals=True)


# ── classes ──

CODES = torch.bucketize(X[:, 0] + 0.3 * NOISE, torch.tensor([-0.7, 0.7]))
CLASSES = {
    "Bernoulli": (ll.likelihoods.Bernoulli(), (CODES > 0).long()),
    "Categorical": (ll.likelihoods.Categorical(3), CODES),
    "Focal": (ll.likelihoods.Focal(3), CODES),
    "Ordinal": (ll.likelihoods.Ordinal(3), CODES),
    "PlackettLuce": (ll.likelihoods.PlackettLuce(3), torch.stack([torch.randperm(3, generator=G) for _ in range(60)])),
    "Margin": (ll.likelihoods.Margin(), (CODES > 0).long()),
}


@pytest.mark.parametrize("name", CLASSES)
def test_outputs_and_probabilities_of_classes(name):
    family, y = CLASSES[name]
    model = network(family)
    view = ll.lens.curve(model, (X, y), likelihood=family, num=31)
    with torch.no_grad():
        out = model(torch.tensor(view.x[:, None]).float())
        said = family.prediction(out)
    assert np.allclose(view.outputs, out, atol=1e-5)
    assert np.abs(view.probabilities.sum(1) - 1).max() < 1e-12
    if name == "Margin":
        assert not view.sure and (view.probabilities.argmax(1) == said.mode.numpy()).all()
    else:
        own = said.first if name == "PlackettLuce" else said.probabilities
        assert np.allclose(view.probabilities, own, atol=1e-6)
    first = y[:, 0] if name == "PlackettLuce" else y
    assert (view.y == first.numpy()).all() and len(view.cuts) == (2 if name == "Ordinal" else 0)
    assert 0 < view.wrong.mean() < 1
    json.dumps(view.to_dict(), allow_nan=False)
    assert len(view.plot().axes) == 2
    with pytest.raises(UserError, match="needs numbers"):
        ll.lens.curve(model, (X, y), likelihood=family, deviations=2)


def test_bits_of_a_pattern_one_by_one():
    family, y = ll.likelihoods.Signs(3), torch.stack([X[:, 0], -X[:, 0], NOISE], 1).sign()
    view = ll.lens.curve(network(family), (X, y), likelihood=family, output=1, num=5)
    assert view.classes == ("−1", "+1") and (view.y == (y[:, 1] > 0).numpy()).all() and view.outputs.shape == (5, 1)
    view.plot()


# ── several outputs ──


def test_one_of_several_columns():
    y = torch.stack([X[:, 0], X[:, 0] ** 2], 1)
    for family in (ll.likelihoods.Normal("fixed", dim=2), ll.likelihoods.MultivariateNormal(dim=2)):
        model = network(family)
        view = ll.lens.curve(model, (X, y), likelihood=family, output=1, num=7)
        at = family.prediction(model(torch.tensor(view.x[:, None]).float()))
        assert np.allclose(view.mean, at.mean[:, 1].detach(), atol=1e-5) and np.allclose(view.y, y[:, 1])
        assert np.allclose(view.band[:, 0, 1], at.quantile(0.95)[:, 1].detach(), atol=1e-4)
        with pytest.raises(UserError, match="output must be"):
            ll.lens.curve(model, (X, y), likelihood=family, output=2)


def test_columns_of_a_joint_likelihood_keep_their_own_families():
    family = ll.likelihoods.Joint(("VonMises", "Bernoulli"))
    y = torch.stack([NOISE.clamp(-3, 3), (CODES > 0).float()], 1)
    model = network(family)
    angle = ll.lens.curve(model, (X, y), likelihood=family, num=5)
    yes = ll.lens.curve(model, (X, y), likelihood=family, output=1, num=5)
    assert angle.kind == "angles" and angle.family == "VonMises" and yes.family == "Bernoulli"
    out = family.parts(model(torch.tensor(yes.x[:, None]).float()))[1]
    assert np.allclose(yes.probabilities[:, 1], torch.sigmoid(out[:, 0]).detach(), atol=1e-6)
    total = family.loss(model(X), y).mean().item()
    assert angle.loss + yes.loss == pytest.approx(total, rel=1e-5)


def test_a_column_goes_by_its_name():
    family = ll.likelihoods.Normal("fixed", dim=2, names=("m", "kg"))
    y = torch.stack([X[:, 0], X[:, 0] ** 2], 1)
    view = ll.lens.curve(network(family), (X, y), likelihood=family, output="kg", num=5)
    assert view.target == "kg" and np.allclose(view.y, y[:, 1])


@pytest.mark.parametrize(
    ("shift", "scale", "words"), [(0.0, 1e8, "y (× 1e8)"), (1e8, 1e3, "y (+1e8)"), (0.0, 1.0, "y")]
)
def test_large_values_leave_the_legend_alone(shift, scale, words):
    family = ll.likelihoods.Normal("fixed", shift=(shift,), scale=(scale,))
    y = shift + scale * (X[:, 0].double() + 1)
    figure = ll.lens.curve(network(family), (X, y), likelihood=family).plot()
    ax = figure.axes[0]
    figure.canvas.draw()
    assert ax.get_ylabel() == words
    assert (not ax.yaxis.get_offset_text().get_visible()) or not ax.yaxis.get_offset_text().get_text()


# ── tables and runs ──


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("curve") / "cars.csv"
    rows = [
        f"{'' if k % 29 == 0 else k % 17},{('red', 'blue', 'grey')[k % 3]},{'yes' if k % 4 else 'no'},"
        f"20{10 + k % 9}-0{1 + k % 8}-11,{k % 17 + 3 * (k % 3) + 0.1 * (k % 7)}"
        for k in range(160)
    ]
    path.write_text("age,colour,sold,day,price\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def run(table):
    data = ll.data.table(table, target="price")
    model = ll.models.build("MLP", data.dim_input, 1, hidden=(8,))
    return ll.fit(model, data, epochs=3, progress=False)


def test_a_run_brings_its_data_and_likelihood_and_the_curve_is_what_it_predicts(run):
    view = ll.lens.curve(run, feature="age", held={"colour": "grey", "sold": "no"}, num=9, split="val")
    held = view.feature.held
    assert held["colour"] == "grey" and held["sold"] == "no" and list(held) == ["colour", "sold", "day"]
    rows = [{"age": float(age), **held} for age in view.x]
    said = run.predict(rows)
    assert np.allclose(view.mean, said.mean, atol=1e-3)
    assert np.allclose(view.band[:, 0].T, np.stack(said.interval(0.9)), atol=1e-3)
    assert np.allclose(view.said, run.predict(run.data.val.x).mean, atol=1e-5)
    assert view.loss == pytest.approx(run.evaluate("val")["nll"], rel=1e-5) and len(view.y) == len(run.data.val)


def test_a_category_is_drawn_level_by_level(run):
    view = ll.lens.curve(run, feature="colour")
    levels = view.feature.levels
    assert set(levels) == {"red", "blue", "grey"} and view.mean.shape == (3,)
    said = run.predict([{**view.feature.held, "colour": level} for level in levels])
    assert np.allclose(view.mean, said.mean, atol=1e-3)
    ax = view.plot(residuals=True).axes[0]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list(levels)
    assert ll.lens.curve(run, feature="sold").feature.levels == ("no", "yes")


def test_dates_and_missing_values(run):
    assert "20" in ll.lens.curve(run, feature="day").plot().axes[0].get_xticklabels()[1].get_text()
    ages = ll.lens.curve(run, feature="age").points
    assert np.isnan(ages).any()
    ll.lens.curve(run, feature="age").plot(residuals=True)


def test_classes_over_a_category(table):
    data = ll.data.table(table, target="colour")
    model = ll.models.build("MLP", data.dim_input, 3, hidden=(4,))
    view = ll.lens.curve(model, data, "sold")
    assert view.probabilities.shape == (2, 3) and np.allclose(view.probabilities.sum(1), 1)
    assert view.plot().axes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"feature": "agge"}, "Did you mean age"),
        ({"feature": 9}, "from 0 to 3"),
        ({"held": {"colour": "gray"}}, "Did you mean grey"),
        ({"held": {"age": "old"}, "feature": "colour"}, "number for age"),
        ({"held": "mode"}, "held must be"),
        ({"window": (1, 0)}, "window must be"),
        ({"window": 3}, "window must be"),
        ({"level": 90}, "level must be"),
        ({"deviations": -1}, "deviations must be"),
        ({"num": 1}, "num must be"),
        ({"split": "tset"}, "test"),
        ({"output": 1}, "output must be"),
    ],
)
def test_mistakes_are_answered(run, options, words):
    with pytest.raises(UserError, match=words):
        ll.lens.curve(run, **options)


def test_what_a_curve_needs():
    with pytest.raises(UserError, match="must come with data"):
        ll.lens.curve(nn.Linear(1, 1))
    with pytest.raises(UserError, match="run or a torch module"):
        ll.lens.curve("net", (X, NOISE))
    with pytest.raises(UserError, match="with a likelihood"):
        ll.lens.curve(nn.Linear(1, 1), (X, NOISE))
    with pytest.raises(UserError, match="lists of features"):
        ll.lens.curve(nn.Linear(1, 1), (X[:, None], NOISE), likelihood=ll.likelihoods.Normal())
    with pytest.raises(UserError, match="needs 1 output"):
        ll.lens.curve(nn.Linear(1, 2), (X, NOISE), likelihood=ll.likelihoods.Normal())


def test_tokens_are_no_features():
    rows, family = torch.arange(24).view(6, 4), ll.likelihoods.Categorical(2)
    words = Tokens("classes", 4, Tokenizer.train(["a cat sat"], kind="bytes"))
    data = Data(*[Split(rows, torch.arange(6) % 2)] * 3, Target("classes", classes=("a", "b")), inputs=words)
    net = ll.models.BERT(280, 4, 2, "classes", dim=8, num_layers=1, num_heads=2)
    for look in (
        lambda: ll.lens.curve(net, data, likelihood=family),
        lambda: ll.lens.criteria([net], data, likelihood=family),
        lambda: ll.lens.boundary(net, data, likelihood=family),
    ):
        with pytest.raises(UserError, match="Got rows of tokens. .*token_attribution"):
            look()
