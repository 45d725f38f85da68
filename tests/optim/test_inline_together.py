"""Updates of all weights at once are the updates one by one, to the last bit."""

import copy

import pytest
import torch
from torch import nn

from leadline.engine.step import Step
from leadline.likelihoods import Categorical
from leadline.optim.gradient import Gradient
from leadline.optim.inline import Inline
from leadline.settings import Settings

RULES = [
    {"optimizer": "sgd", "momentum": 0.0},
    {"optimizer": "sgd"},
    {"optimizer": "nesterov"},
    {"optimizer": "adam"},
    {"decay_on": "matrices"},
    {},
]


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("options", RULES, ids=str)
def test_together_is_one_by_one(options, decay):
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4))
    batches = [(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(4)]
    ends = []
    for together in (False, True):
        model = copy.deepcopy(first)
        rule = Gradient(Settings(lr=0.05, weight_decay=decay, **options))
        rule.bind(model, Categorical(4), 10)
        inline = Inline(rule.optimizer)
        step = Step(rule, inline, ["x", "y"], together=together)
        losses = []
        for x, y in batches:
            numbers = torch.from_numpy(inline.scalars([0.05]))[0].float()
            losses.append(step(*step.held, x, y, numbers))
            inline.counted(1)
        ends.append([*losses, *model.state_dict().values(), *(t for slot in inline.slots for t in slot)])
    for one, other in zip(*ends, strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(first[0].weight, model[0].weight)


@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("options", RULES, ids=str)
def test_gradients_and_torchs_own_update_are_a_step(options, decay, clip):
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(3, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4))
    batches = [(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(4)]
    ends = []
    for apart in (False, True):
        model = copy.deepcopy(first)
        rule = Gradient(Settings(lr=0.05, weight_decay=decay, clip=clip, **options))
        rule.bind(model, Categorical(4), 10)
        inline = Inline(rule.optimizer)
        step = Step(rule, inline, ["x", "y"])
        losses = []
        if apart:
            step.update = inline.fused()
        for x, y in batches:
            flat = (*step.held, x, y, torch.from_numpy(inline.scalars([0.05]))[0].float())
            loss, *gradients = step.laid_gradients(*flat)
            assert all(g.stride() == p.stride() for p, g in zip(inline.parameters, gradients, strict=True))
            step.move(flat, gradients)
            losses.append(loss)
            inline.counted(1)
        ends.append([*losses, *model.state_dict().values(), *(t for slot in inline.slots for t in slot)])
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert not torch.equal(first[0].weight, model[0].weight)


def test_torchs_own_update_is_for_single_precision():
    assert Inline(torch.optim.AdamW(nn.Linear(2, 1).double().parameters())).fused() is None
