"""The learning-rate finder: a rate that trains, a reason where there is none, and a model that stays as it was."""

import json

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.errors import UserError

DATA = ll.data.moons(num=300)


def net(**options):
    return ll.models.build("MLP", 2, 1, seed=0, **{"hidden": (16, 16), **options})


@pytest.fixture(scope="module")
def view():
    return ll.lens.rates(net(), DATA, num=60)


def test_rates_rise_evenly_and_the_proposal_lies_in_the_fall(view):
    steps = np.diff(np.log(view.rate))
    assert np.allclose(steps, steps[0]) and view.rate[0] == pytest.approx(1e-6)
    least = view.rate[view.smooth.argmin()]
    assert 1e-3 < view.proposed <= least / 2.9 and view.verdict.startswith(f"Take {view.proposed:g}: the loss falls")
    assert view.ended and "diverges at" in view.verdict and view.smooth[-1] > view.smooth.min()


def test_the_proposal_trains_and_a_hundredth_of_it_does_not(view):
    losses = [
        ll.fit(net(), DATA, lr=view.proposed * factor, epochs=8, progress=False).history[-1]["train"]["loss"]
        for factor in (1, 0.01)
    ]
    assert losses[0] < 0.6 * losses[1]


@pytest.mark.parametrize("options", [{}, {"norm": "batch", "p_drop": 0.3}])
def test_the_model_stays_bit_for_bit(options):
    model = net(**options).eval()
    before, state = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    first, second = (ll.lens.rates(model, DATA, num=20) for _ in range(2))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state) and not model.training
    assert all(p.grad is None for p in model.parameters())
    assert np.array_equal(first.loss, second.loss)


def known():
    """A model that has nothing to learn from rows without a rule."""
    model = ll.models.Linear(2, 1)
    [torch.nn.init.zeros_(p) for p in model.parameters()]
    return model


def noise():
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    return ll.data.arrays(x, torch.randint(0, 2, (300,), generator=torch.Generator().manual_seed(1)), kind="binary")


@pytest.mark.parametrize(
    ("make", "data", "options", "said"),
    [
        (known, noise(), {}, "less than its uncertainty over the rows"),
        (net, DATA, {"high": 1e-3}, "still falls at the highest rate, 0.001; go higher, high="),
        (net, DATA, {"low": 100.0, "high": 1e6, "optimizer": "sgd"}, "diverged within"),
    ],
)
def test_where_there_is_no_proposal_the_reason_is_told(make, data, options, said):
    view = ll.lens.rates(make(), data, num=60, **options)
    assert view.proposed is None and view.verdict.startswith("No proposal: ") and said in view.verdict
    assert view.plot().axes


def test_a_loss_that_is_not_finite_is_told():
    model = net()
    with torch.no_grad():
        next(model.parameters()).fill_(torch.inf)
    view = ll.lens.rates(model, DATA, num=20)
    assert "the first loss is not finite" in view.verdict and view.plot().axes


def test_it_draws_and_is_plain(view):
    [axes] = view.plot().axes
    assert axes.get_xscale() == "log" and "adamw" in axes.get_xlabel()
    assert json.loads(json.dumps(view.to_dict()))["proposed"] == view.proposed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"low": 1.0, "high": 0.1}, "high must be above low"),
        ({"num": 3}, "num must be"),
        ({"optimizer": "adm"}, "Did you"),
    ],
)
def test_slips_are_answered(arguments, said):
    with pytest.raises(UserError, match=said):
        ll.lens.rates(net(), DATA, **arguments)
    with pytest.raises(UserError, match="rates takes a torch module and then Data"):
        ll.lens.rates(net(), DATA.train)


@pytest.mark.parametrize("task, name", [("next", "GPT"), ("masked", "BERT")])
def test_of_text_the_same_words_are_asked_as_in_training(task, name, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog ran to the door. " * 20)
    data = ll.data.text(tmp_path / "text.txt", task=task, length=16, kind="bytes", cache=False)
    model = ll.models.build(name, data, data.target.dim, dim=8, num_layers=1, num_heads=1)
    if name == "BERT":
        torch.nn.init.zeros_(model.bias)  # which knows how frequent words are
    view = ll.lens.rates(model, data, num=20)
    assert view.before == pytest.approx(np.log(data.target.dim), rel=0.25)  # a fresh model finds all words alike
