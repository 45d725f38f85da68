"""A trunk that is handed on, held still or not; and units taken out of a network whose function stays."""

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.models import MLP, freeze, prune, transfer


def test_a_transferred_trunk_is_the_old_one_under_a_new_head():
    torch.manual_seed(0)
    old = MLP(3, (6, 5), 2, norm="batch")
    old.layers[0].norm.running_mean.fill_(0.7)
    for model in (old, nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))):
        made = transfer(model, 4)
        assert made.eval()(torch.zeros(5, 3)).shape == (5, 4) and made is not model
        last = next(reversed([n for n, m in made.named_modules() if isinstance(m, nn.Linear)]))
        for name, tensor in model.state_dict().items():
            if not name.startswith(last):
                assert torch.equal(made.state_dict()[name], tensor), name
    with pytest.raises(UserError, match="trunk"):
        transfer(nn.Linear(2, 2), 3)


def test_what_is_frozen_does_not_move_and_what_is_not_does():
    torch.manual_seed(0)
    model = transfer(MLP(2, (6,), 3, p_drop=0.0), 1, frozen=True)
    before = {name: p.clone() for name, p in model.named_parameters()}
    ll.fit(model, ll.data.moons(num=60), epochs=2, progress=False)
    for name, p in model.named_parameters():
        assert torch.equal(p, before[name]) is name.startswith("layers"), name
    freeze(model, "layers.*", frozen=False)
    assert all(p.requires_grad for p in model.parameters())
    with pytest.raises(UserError, match="must match"):
        freeze(model, "layer.*")


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "prelu"])
def test_units_without_weights_go_and_the_function_stays(activation):
    torch.manual_seed(0)
    model = MLP(3, (7, 6), 2, activation=activation, p_drop=0.0).double()
    with torch.no_grad():
        model.layers[0].map.weight[[1, 4]] = 0  # constant units
        model.layers[1].map.weight[:, 2] = 0  # an unheard unit
        model.head.weight[:, 5] = 0
    small, x = prune(model), torch.randn(20, 3).double()
    assert small.hidden == (4, 5)
    torch.testing.assert_close(small(x), model(x))
    with torch.no_grad():
        model.head.weight.zero_()
    assert prune(model).hidden == (4, 1)
    torch.testing.assert_close(prune(model)(x), model(x))


def test_group_lasso_leaves_units_that_can_go():
    torch.manual_seed(0)
    data = ll.data.line(num=200)
    run = ll.fit(
        MLP(1, (20,), 1, activation="relu", p_drop=0.0), data, epochs=150, lr=0.02, weight_decay=0.0,
        regularize="group_lasso(0.02)", validate_every=150, progress=False,
    )  # fmt: skip
    small = prune(run.model, below=0.02)
    assert small.hidden[0] < 12
    x = torch.linspace(-1, 1, 50)[:, None]
    assert float((small(x) - run.model.eval()(x)).detach().abs().max()) < 0.1


def test_prune_refuses_layers_that_mix_units():
    for model in (MLP(2, (4,), 1, norm="layer"), MLP(4, (4,), 1, residual=True), nn.Linear(2, 1)):
        with pytest.raises(UserError, match="prune takes"):
            prune(model)
