"""Residual networks without normalisation: what K blocks do to variance, to the identity and to the first step."""

import pytest
import torch

from leadline.errors import UnknownName
from leadline.init.branches import branches
from leadline.models import NormFree
from leadline.testing import check_model

SCALINGS = ("none", "half", "stable", "skipinit", "fixup")


@pytest.mark.parametrize("scaling", SCALINGS)
def test_it_keeps_the_contract_with_any_scaling(scaling):
    check_model(NormFree(2, 3, stages=(1, 2), width=4, scaling=scaling, p_drop=0.1), torch.randn(4, 2, 9, 8))


def growth(scaling, blocks, nets=6):
    """Second moment behind `blocks` blocks over that before them, pooled over units, rows and networks."""
    before, after = 0.0, 0.0
    for seed in range(nets):
        torch.manual_seed(seed)
        net = NormFree(3, 1, stages=(blocks,), width=32, scaling=scaling)
        with torch.no_grad():
            h = net.read(torch.randn(4, 3, 10, 10))
            before += float(h.square().mean())
            for block in net.blocks:
                h = block(h)
            after += float(h.square().mean())
    return after / before


def test_variance_doubles_stays_or_is_bounded():
    assert 2**5 < growth("none", 8) < 2**9  # borders of zeros cost a little of each doubling
    assert 0.3 < growth("half", 8) < 1.5
    assert 1.5 < growth("stable", 8) < 3.0 and 1.5 < growth("stable", 32) < 3.0  # (1 + 1/K)^K < e, for any K


@pytest.mark.parametrize("scaling", ["skipinit", "fixup"])
def test_every_block_begins_as_the_identity(scaling):
    torch.manual_seed(0)
    net, h = NormFree(3, 2, stages=(4,), width=8, scaling=scaling), torch.randn(2, 8, 6, 6)
    for block in net.blocks:
        assert torch.equal(block(h), h)


def test_fixup_s_first_weights():
    torch.manual_seed(0)
    net = NormFree(3, 2, stages=(16,), width=32, scaling="fixup")
    for block in net.blocks:
        first, last = block.branch[3], block.branch[7]
        assert not last.weight.any() and block.scale == 1 and block.offset == 0
        assert float(first.weight.detach().std()) == pytest.approx((2 / (32 * 9)) ** 0.5 * 16**-0.5, rel=0.05)
    assert not net.head.weight.any() and not net(torch.randn(2, 3, 8, 8)).any()
    assert sum(p.numel() == 1 for p in net.blocks[0].parameters()) == 6  # a multiplier and five biases


def first_step(scaling, blocks, seeds=3):
    """How far one step of gradient descent moves what the blocks hand on."""
    moved = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        net, x = NormFree(3, 2, stages=(blocks,), width=16, scaling=scaling), torch.randn(8, 3, 8, 8)
        torch.nn.init.normal_(net.head.weight, std=0.25)

        def features(net=net, x=x):
            h = net.read(x)
            for block in net.blocks:
                h = block(h)
            return h

        before = features().detach()
        torch.nn.functional.cross_entropy(net(x), torch.arange(8) % 2).backward()
        with torch.no_grad():
            for p in net.blocks.parameters():
                if p.dim():  # the paper gives scalars a tenth of the rate: their gradients are sums over all places
                    p -= 0.02 * p.grad
            moved.append(float((features() - before).norm()))
    return sum(moved) / seeds


def test_by_fixup_the_first_step_does_not_grow_with_depth():
    assert first_step("fixup", 32) < 4 * first_step("fixup", 4)
    assert first_step("none", 10) > 20 * first_step("none", 4)


def test_blocks_declare_their_branches():
    found = {scaling: branches(NormFree(1, 1, stages=(2,), width=4, scaling=scaling)) for scaling in SCALINGS}
    assert [len(found[scaling]) for scaling in SCALINGS] == [2, 0, 2, 2, 2]
    assert found["skipinit"][0].scale is not None and found["stable"][0].scale is None


@pytest.mark.parametrize("scaling", ["half", "stable", "skipinit", "fixup"])
def test_sixteen_blocks_learn(scaling):
    torch.manual_seed(0)
    wave = torch.sin(torch.arange(8) * 2.0)
    lying = torch.randint(0, 2, (64,))
    x = torch.where(lying[:, None, None] > 0, wave[:, None], wave[None, :])[:, None] + 0.3 * torch.randn(64, 1, 8, 8)
    net = NormFree(1, 2, stages=(16,), width=8, scaling=scaling)
    rule = torch.optim.Adam(net.parameters(), 5e-3)
    losses = []
    for _ in range(25):
        rule.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), lying)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        rule.step()
        losses.append(loss.item())
    assert min(losses) < 0.1


def test_an_unknown_scaling_is_refused():
    with pytest.raises(UnknownName, match="Did you mean fixup"):
        NormFree(3, 2, scaling="fix-up")
