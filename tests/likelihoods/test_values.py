import json

import pytest
import torch

import leadline as ll
from leadline.cli import main
from leadline.data.target import Target
from leadline.errors import DataError, ShapeError
from leadline.likelihoods import LIKELIHOODS, likelihood_for
from leadline.likelihoods.values import check_values, unit_of

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
