"""Residual networks whose branches are shaken or left out while training."""

import pytest
import torch

from leadline.errors import UnknownName, UserError
from leadline.init.branches import branches
from leadline.layers import noise
from leadline.models import ShakeResNet, StochasticDepth
from leadline.testing import check_model


@pytest.mark.parametrize("norm", ["batch", "none"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **o: ShakeResNet(2, 3, shake="drop", **o),
        lambda **o: ShakeResNet(2, 3, **o),
        lambda **o: StochasticDepth(2, 3, **o),
    ],
)
def test_they_keep_the_contract(make, norm):
    check_model(make(stages=(1, 1), width=4, norm=norm), torch.randn(4, 2, 9, 8))


def test_the_paper_s_shake_shake_has_26_layers():
    with torch.device("meta"):
        net = ShakeResNet(3, 10, stages=(4, 4, 4), width=32)
    deep = 1 + 2 * len(net.units) + 1
    count = sum(p.numel() for p in net.parameters())
    assert deep == 26 and 2.8e6 < count < 3.0e6  # the paper: 2.9 million


def test_the_paper_s_stochastic_depth_has_110_layers_of_which_about_40_blocks_are_there():
    with torch.device("meta"):
        net = StochasticDepth(3, 10, stages=(18, 18, 18))
    assert 1 + 2 * len(net.units) + 1 == 110
    assert sum(unit.branch[-1].p_keep for unit in net.units) == pytest.approx(40.25)
    assert net.units[0].branch[-1].p_keep > 0.99 and net.units[-1].branch[-1].p_keep == 0.5


@pytest.mark.parametrize("make", [ShakeResNet, StochasticDepth])
def test_training_differs_from_epoch_to_epoch_and_evaluation_does_not(make):
    torch.manual_seed(0)
    net, x = make(1, 2, stages=(2,), width=4, norm="none"), torch.randn(6, 1, 8, 8)

    def epoch(number):
        with noise.keyed(noise.example_keys(0, number, torch.arange(6))):
            return net(x)

    assert torch.equal(epoch(0), epoch(0)) and not torch.equal(epoch(0), epoch(1))
    net.eval()
    assert torch.equal(epoch(0), epoch(1))


def test_where_every_branch_is_kept_depth_is_not_stochastic():
    net, x = StochasticDepth(1, 2, stages=(2, 1), width=4, p_last=1.0, norm="none"), torch.randn(3, 1, 8, 8)
    with noise.keyed(noise.example_keys(0, 0, torch.arange(3))):
        assert torch.equal(net(x), net.eval()(x))


def test_every_unit_declares_its_branch():
    assert [len(b.maps) for b in branches(ShakeResNet(1, 2, stages=(1, 1), width=4))] == [4, 4]
    assert [len(b.maps) for b in branches(StochasticDepth(1, 2, stages=(1, 1), width=4))] == [2, 2]


@pytest.mark.parametrize(
    "make", [lambda: ShakeResNet(1, 2, stages=(1, 1), width=8), lambda: StochasticDepth(1, 2, stages=(1, 1), width=8)]
)
def test_they_learn_stripes_from_columns(make):
    torch.manual_seed(0)
    wave = torch.sin(torch.arange(12) * 2.0)
    lying = torch.randint(0, 2, (128,))
    x = torch.where(lying[:, None, None] > 0, wave[:, None], wave[None, :])[:, None] + 0.5 * torch.randn(128, 1, 12, 12)
    net = make()
    rule = torch.optim.Adam(net.parameters(), 1e-2)
    for step in range(15):
        rule.zero_grad()
        with noise.keyed(noise.example_keys(0, step, torch.arange(96))):
            torch.nn.functional.cross_entropy(net(x[:96]), lying[:96]).backward()
        rule.step()
    with torch.no_grad():
        assert float((net.eval()(x[96:]).argmax(1) == lying[96:]).float().mean()) > 0.9


@pytest.mark.parametrize(
    ("make", "change", "error", "message"),
    [
        (ShakeResNet, {"shake": "shakes"}, UnknownName, "Did you mean shake"),
        (ShakeResNet, {"stages": 3}, UserError, "stages must be a list of sizes"),
        (StochasticDepth, {"stages": (2, 0)}, UserError, r"stages\[1\] must be a whole number"),
        (StochasticDepth, {"p_last": 0.0}, UserError, "p_last must be"),
        (StochasticDepth, {"norm": "bath"}, UnknownName, "Did you mean batch"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(make, change, error, message):
    with pytest.raises(error, match=message):
        make(**{"channels": 3, "dim_output": 2, **change})
