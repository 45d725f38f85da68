"""Transfer of networks for pictures: a new head, held trunks, stages set free from the end."""

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.models import DenseNet, Hourglass, ResNet, UNet, stages, thaw, transfer


def small() -> nn.Module:
    return ResNet(3, 4, stages=(1, 1), width=4)


@pytest.mark.parametrize("make", [small, DenseNet.tiny, UNet.tiny, Hourglass.tiny])
def test_a_head_is_new_and_the_trunk_is_kept(make):
    torch.manual_seed(0)
    model = make()
    torch.manual_seed(1)
    made = transfer(model, model.dim_output, frozen=True)  # as many outputs as before: the head is new all the same
    old = dict(model.named_parameters())
    free = {name for name, p in made.named_parameters() if p.requires_grad}
    kept = {name for name, p in made.named_parameters() if torch.equal(p, old[name])}
    matrices = {name for name in free if old[name].dim() > 1}
    assert matrices and not matrices & kept and set(old) - free <= kept
    wider = transfer(model, model.dim_output + 3)
    x = torch.randn(2, *model.input_shape)
    assert wider(x).shape[1] == model.dim_output + 3


def test_a_users_own_convolutional_head_is_replaced():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 1))
    made = transfer(model, 2, frozen=True)
    assert made(torch.zeros(1, 3, 6, 6)).shape == (1, 2, 6, 6)
    assert [name for name, p in made.named_parameters() if p.requires_grad] == ["2.weight", "2.bias"]


def test_stages_are_set_free_from_the_end():
    model = ResNet(3, 4, stages=(1, 1, 1), width=4)
    assert stages(model) == ["enter", "body.0", "body.1", "body.2", "head"]
    seen = []
    for num in range(7):
        thaw(model, num)
        seen.append(sum(p.requires_grad for p in model.parameters()))
    assert seen[0] == 0 and seen == sorted(seen) and len(set(seen[:6])) == 6
    assert seen[5] == seen[6] == len(list(model.parameters()))
    with pytest.raises(UserError, match="num"):
        thaw(model, -1)


def test_a_trunk_that_is_held_still_keeps_its_statistics_while_it_trains():
    data = ll.data.scenes(num=40, size=16, task="classes", num_classes=3)
    model = transfer(ResNet(3, 5, stages=(1, 1), width=4), 3, frozen=True)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    ll.fit(model, data, epochs=2, batch=8, progress=False, threads=1)
    moved = {name for name, t in model.state_dict().items() if not torch.equal(t, before[name])}
    assert moved == {"head.weight", "head.bias"}
    thaw(model, 2)
    ll.fit(model, data, epochs=1, batch=8, progress=False, threads=1)
    moved = {name for name, t in model.state_dict().items() if not torch.equal(t, before[name])}
    assert any(name.startswith("body.1") and name.endswith("running_mean") for name in moved)
    assert not any(name.startswith(("enter", "body.0")) for name in moved)
