"""decay_on="matrices": biases and scales are left alone, in plain, recorded and compiled updates alike."""

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.optim.inline import Inline
from leadline.optim.optimizers import optimizer
from leadline.settings import Settings


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double()


def made(model, **options):
    given = {"lr": 0.1, "weight_decay": 0.5, "decay_on": "matrices", **options}
    return optimizer(Settings(**given), model.parameters())


@pytest.mark.parametrize("name", ["sgd", "nesterov", "adam", "adamw", "yogi", "radam"])
def test_without_a_gradient_only_matrices_shrink(name):
    model = net()
    before = {path: p.detach().clone() for path, p in model.named_parameters()}
    step = made(model, optimizer=name)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    step.step()
    for path, p in model.named_parameters():
        assert torch.equal(p, before[path]) == (p.dim() < 2 or not before[path].any()), path


@pytest.mark.parametrize("name", ["sgd", "nesterov", "adam", "adamw"])
@pytest.mark.parametrize("together", [False, True])
def test_inline_updates_are_the_optimizers_own(name, together):
    plain, written = net(), net()
    own, other = made(plain, optimizer=name), made(written, optimizer=name)
    inline = Inline(other)
    assert Inline.obstacle(other) is None
    update = inline.together() if together else inline.update()
    generator = torch.Generator().manual_seed(1)
    ordered = {id(p): q for p, q in zip(written.parameters(), plain.parameters(), strict=True)}
    for _ in range(4):
        gradients = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in inline.parameters]
        for p, g in zip(inline.parameters, gradients, strict=True):
            ordered[id(p)].grad = g.clone()
        own.step()
        numbers = torch.from_numpy(inline.scalars([0.1]))[0]
        with torch.no_grad():
            update(inline.parameters, inline.slots, gradients, numbers)
        inline.counted(1)
    for p, q in zip(plain.parameters(), written.parameters(), strict=True):
        torch.testing.assert_close(p, q)


def test_groups_that_differ_otherwise_are_not_inlined():
    model = net()
    groups = [{"params": list(model[0].parameters())}, {"params": list(model[2].parameters()), "lr": 0.5}]
    assert Inline.obstacle(torch.optim.AdamW(groups, lr=0.1)) == "several parameter groups"


def test_a_run_that_is_kept_has_the_same_weights(tmp_path):
    data = ll.data.moons(num=90)
    options = {"epochs": 4, "decay_on": "matrices", "weight_decay": 0.3, "progress": False}
    whole = ll.fit(ll.models.build("MLP", 2, 1, hidden=(8,)), data, **options)
    all_decay = ll.fit(ll.models.build("MLP", 2, 1, hidden=(8,)), data, **{**options, "decay_on": "all"})
    ends = [torch.cat([p.detach().flatten() for p in run.model.parameters()]) for run in (whole, all_decay)]
    assert not torch.equal(*ends)
    kept = ll.fit(ll.models.build("MLP", 2, 1, hidden=(8,)), data, folder=tmp_path / "run", **options)
    for name, value in ll.load(tmp_path / "run").model.state_dict().items():
        assert torch.equal(value, kept.model.state_dict()[name]) and torch.equal(value, whole.model.state_dict()[name])
