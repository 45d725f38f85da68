import json
import math

import pytest
import torch

import leadline as ll
from leadline.cli import main
from leadline.data.target import Target
from leadline.engine.evaluation import evaluate
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import LIKELIHOODS, likelihood_for
from leadline.likelihoods.values import NAMED, check_values, unit_of

MINE = ("Laplace", "StudentT", "Huber", "Robust", "Quantile", "Gamma", "LogNormal", "Exponential", "Beta")
QUICK = ("--epochs", "4", "--hidden", "8", "--threads", "1", "--no-report", "--compile", "off")


def test_rows_that_do_not_fit_are_named():
    check_values(torch.tensor([0.0, 1.0]), least=0, most=1)
    with pytest.raises(DataError, match="y must be between 0 and 1. Got 2 outside, the first -0.5 in row 1"):
        check_values(torch.tensor([0.0, -0.5, 1.5]), least=0, most=1)
    with pytest.raises(ShapeError, match=r"y must have shape \(n, 2\)"):
        check_values(torch.zeros(4), 2)


def test_the_unit_of_what_is_never_negative():
    assert unit_of(Target("positive", shift=(20.0,), scale=(5.0,))) == (20.0,)
    assert unit_of(Target("real", shift=(-2.0,), scale=(5.0,))) == (5.0,)


@pytest.mark.parametrize(("kind", "family"), [("positive", "Gamma"), ("proportion", "Beta"), ("real", "Normal")])
def test_the_kind_picks_the_family(kind, family):
    assert type(likelihood_for(Target(kind))).__name__ == family


def height_and_weight(rows=200):
    y = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = y * torch.tensor([0.1, 12.0]) + torch.tensor([1.7, 70.0])
    return y, Target.of(Target.real(y[:, 0], "height"), Target.real(y[:, 1], "weight"))


@pytest.mark.parametrize("family", ["Normal", "Laplace", "StudentT", "Huber", "Robust", "MultivariateNormal"])
def test_each_of_several_outputs_is_measured_in_its_own_unit(family):
    y, target = height_and_weight()
    output = torch.randn(200, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    likelihood = likelihood_for(target, family).double()
    assert (likelihood.headline, likelihood.higher_is_better) == ("r2", True)
    found = evaluate(likelihood, output, y)
    assert "rmse" not in found and "mae" not in found  # metres and kilograms have no mean
    mean = torch.tensor(target.shift) + torch.tensor(target.scale) * output
    for k, name in enumerate(("height", "weight")):
        error = (y - mean)[:, k]
        assert found[f"rmse_{name}"] == pytest.approx(float(error.square().mean().sqrt()), rel=1e-5)
        assert found[f"mae_{name}"] == pytest.approx(float(error.abs().mean()), rel=1e-5)
        assert found[f"r2_{name}"] == pytest.approx(
            1 - float(error.square().mean() / y[:, k].var(correction=0)), rel=1e-5
        )
        low, high = found.interval(f"rmse_{name}")
        assert low < found[f"rmse_{name}"] < high
    assert found["r2"] == pytest.approx((found["r2_height"] + found["r2_weight"]) / 2)
    again = LIKELIHOODS[family](**likelihood.config)
    assert again.names == ("height", "weight")


def test_outputs_without_names_are_numbered_and_names_are_checked():
    likelihood = likelihood_for(Target("real", dim=3))
    assert likelihood.names == ("1", "2", "3")
    assert likelihood_for(Target("real")).names == ()
    for names in (("a", "a"), ("a",)):
        with pytest.raises(UserError, match="names must name every column of y once"):
            LIKELIHOODS["Normal"](dim=2, names=names)


def test_names_that_look_like_measures_do_not_collide():
    names = ("a", "error_a", "squared_a", "y_a")
    y = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    found = evaluate(LIKELIHOODS["Normal"](dim=4, names=names), torch.zeros(50, 4), y)
    for k, name in enumerate(names):
        assert found[f"rmse_{name}"] == pytest.approx(float(y[:, k].square().mean().sqrt()), rel=1e-5)


def test_of_very_many_outputs_there_is_one_r2():
    dim = NAMED + 1
    y = torch.randn(400, dim, generator=torch.Generator().manual_seed(0))
    found = evaluate(LIKELIHOODS["Normal"](dim=dim), y / 2, y)
    assert set(found) == {"nll", "r2"}
    assert found["r2"] == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("y", [0.123456, 3.3, -77.7])
def test_one_row_has_no_r2(y):
    likelihood = LIKELIHOODS["Normal"](shift=(0.1,), scale=(0.7,))
    assert math.isnan(evaluate(likelihood, torch.ones(1, 1), torch.tensor([y]))["r2"])
    assert math.isnan(evaluate(likelihood, torch.ones(7, 1), torch.full((7,), y))["r2"])


def test_an_output_that_does_not_vary_is_left_out_of_the_mean_r2():
    y, target = height_and_weight()
    y[:, 0] = 1.75
    found = evaluate(likelihood_for(target).double(), torch.zeros(200, 2, dtype=torch.float64), y)
    assert math.isnan(found["r2_height"]) and found["r2"] == found["r2_weight"]


def test_the_best_epoch_of_several_outputs_is_that_of_the_highest_r2():
    x = torch.linspace(-1, 1, 90)[:, None]
    data = ll.data.arrays(x, torch.cat([x, 100 * x.square()], 1))
    run = ll.fit(ll.models.MLP(1, (8,), 2), data, epochs=6, progress=False, compile="off", threads=1)
    best = max(run.history, key=lambda line: line["val"]["r2"])
    assert run.best_epoch == best["epoch"]


def table(path, rows=120):
    """A size, and something positive and a proportion that go with it."""
    lines = ["size,price,share"]
    for i in range(rows):
        size = (i * 37 % 101) / 101
        lines.append(
            f"{size:.4f},{2000 * (1 + size) * (1 + 0.1 * (i % 7)):.2f},{(1 + i % 9) / 10 * (0.5 + 0.5 * size):.4f}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("family", MINE)
def test_each_family_trains_on_a_table_from_the_shell(family, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = table(tmp_path / "rows.csv")
    target = "share" if family == "Beta" else "price"
    other = "price" if target == "share" else "share"
    words = ["--target", target, "--drop", other, "--likelihood", family, "--folder", "run", *QUICK]
    assert main(["train", str(rows), *words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer["metrics"]["test"]["nll"] == answer["metrics"]["test"]["nll"]
    again = ll.load("run")
    assert type(again.likelihood) is LIKELIHOODS[family]
    assert again.evaluate("test")["nll"] == pytest.approx(answer["metrics"]["test"]["nll"], rel=1e-4)
    x = again.data.test.x
    low, high = again.predict(x).interval(0.9)
    assert bool((low < high).all())
    assert main(["predict", "run", str(rows), "--output", "out.csv"]) == 0
    assert "predicted" in (tmp_path / "out.csv").read_text().splitlines()[0]


def test_flags_of_a_family_reach_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = table(tmp_path / "rows.csv")
    words = ["train", str(rows), "--target", "price", "--drop", "share", *QUICK]
    assert main([*words, "--likelihood", "Quantile", "--levels", "0.04", "0.96", "--folder", "a"]) == 0
    assert ll.load("a").likelihood.levels == (0.04, 0.96)
    assert (
        main([*words, "--likelihood", "StudentT", "--df", "3", "--no-learn-df", "--variance", "input", "--folder", "b"])
        == 0
    )
    likelihood = ll.load("b").likelihood
    assert (likelihood.df, likelihood.learn_df, likelihood.variance) == (3.0, False, "input")
    capsys.readouterr()


def test_a_positive_table_gets_gamma_in_the_unit_of_its_mean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = ll.data.table(table(tmp_path / "rows.csv"), target="price", kind="positive", drop=("share",))
    run = ll.fit(ll.models.MLP(data.dim_input, (16,), 1), data, epochs=40, progress=False, compile="off", threads=1)
    assert run.likelihood.scale == pytest.approx((float(data.train.y.mean()),), rel=1e-4)
    assert run.evaluate("test")["r2"] > 0.3
