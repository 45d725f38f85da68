"""Between two minima: a barrier on the line, none on a bent path, and averages."""

import numpy as np
import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import ShapeError, UserError
from leadline.models import permute

BERNOULLI = ll.likelihoods.Bernoulli()


@pytest.fixture(scope="module")
def twins():
    """A trained network, and the same function with its units in another order: a minimum elsewhere."""
    torch.manual_seed(0)
    x = 2 * torch.rand(200, 2) - 1
    data = (x, (x.prod(1) > 0).long())
    model = ll.models.MLP(2, (16,), 1, activation="relu", p_drop=0.0)
    rule = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(300):
        loss = BERNOULLI.loss(model(x), data[1].float()).mean()
        rule.zero_grad()
        loss.backward()
        rule.step()
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    return model, permute(model, 0, order), data


def test_a_bent_path_goes_round_the_barrier(twins):
    view = ll.lens.connect(*twins, likelihood=BERNOULLI, steps=400, lr=0.03, num=21)
    assert view.line[0] == pytest.approx(view.line[-1], rel=1e-5)
    assert view.barrier > 0.1 and view.bent_barrier < 0.2 * view.barrier
    assert view.bent[[0, -1]] == pytest.approx(view.line[[0, -1]])
    straight = ll.lens.loss_slice(twins[0], twins[2], likelihood=BERNOULLI, to=twins[1], num=7)  # its own -0.25 … 1.25
    assert view.line[10] == pytest.approx(straight.loss[3], rel=1e-5)
    assert view.plot().axes


def test_untrained_it_is_the_line(twins):
    view = ll.lens.connect(*twins, likelihood=BERNOULLI, steps=0, num=5)
    assert np.allclose(view.line, view.bent) and view.barrier == view.bent_barrier
    again, other = (ll.lens.connect(*twins, likelihood=BERNOULLI, steps=3, seed=s).middle for s in (1, 2))
    assert not np.allclose(again, other)


def test_means_of_weights_fail_where_means_of_predictions_help(twins):
    first, second, data = twins
    view = ll.lens.averaging([first, second], data, likelihood=BERNOULLI)
    assert view.weights > 1.5 * view.members.mean()  # one function, so its mean is itself
    assert view.predictions == pytest.approx(view.members.mean(), rel=1e-5)


def test_the_mixture_s_loss_is_that_of_mean_probabilities():
    torch.manual_seed(0)
    models = [nn.Linear(2, 3).double() for _ in range(3)]
    x, y = torch.randn(9, 2, dtype=torch.float64), torch.arange(9) % 3
    view = ll.lens.averaging(models, (x, y), likelihood=ll.likelihoods.Categorical(3))
    p = torch.stack([m(x).softmax(1) for m in models]).mean(0)
    assert view.predictions == pytest.approx(-p[torch.arange(9), y].log().mean().item())
    mean = nn.Linear(2, 3).double()
    with torch.no_grad():
        mean.weight.copy_(torch.stack([m.weight for m in models]).mean(0))
        mean.bias.copy_(torch.stack([m.bias for m in models]).mean(0))
    assert view.weights == pytest.approx(nn.functional.cross_entropy(mean(x), y).item())


def test_what_cannot_be_averaged_is_said():
    data = ll.data.moons(num=60)
    with pytest.raises(ShapeError, match="same parameters"):
        ll.lens.connect(nn.Linear(2, 1), nn.Linear(2, 1, bias=False), data)
    with pytest.raises(UserError, match="two models"):
        ll.lens.averaging([nn.Linear(2, 1)], data)
