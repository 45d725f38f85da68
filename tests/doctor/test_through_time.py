"""How much gradient reaches early steps: against products of slopes, and what is left alone."""

import pytest
import torch
from torch import nn

from leadline.doctor.look import look
from leadline.doctor.through_time import FADED, GROWN, LONG, Reach, exploding, listened, reaches, vanishing
from leadline.layers import GRU, LRU, Elman
from leadline.likelihoods import Normal
from leadline.models import MLP, Recurrent


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Last(nn.Module):
    """A recurrent layer whose last step answers."""

    def __init__(self, read):
        super().__init__()
        self.read, self.head = read, nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.read(x)[0][:, -1])


def through(model, x):
    with listened(model) as heard:
        loss = model(x).sum()
    return reaches(heard, torch.autograd.grad(loss, [part for *_, part in heard], allow_unused=True))


def turning(size):
    """A linear layer whose λ all have one size: gradients fade by just that a step."""
    layer = LRU(2, 3, radii=(0.5, 0.5)).double()
    with torch.no_grad():
        layer.log_rate.copy_((-torch.full((3,), size).double().log()).log())
        layer.phase.zero_()
        layer.through.weight.zero_()
    return Last(layer).double()


def test_the_ratio_is_the_product_of_the_slopes():
    [found] = through(turning(0.5), torch.randn(4, 30, 2, dtype=torch.float64))
    assert found.ratio == pytest.approx(0.5**15) and found.steps == 30 and found.path == "read"
    assert found.felt == 20  # 2^-19 is above a millionth, 2^-20 is not
    assert not found.faded and not found.plain
    [found] = through(turning(0.5), torch.randn(4, 60, 2, dtype=torch.float64))
    assert found.ratio == pytest.approx(0.5**30) and found.faded


def test_growth_is_seen():
    layer = Elman(2, 3, "relu").double()
    with torch.no_grad():
        layer.kernel.weight_hh_l0.copy_(2.0 * torch.eye(3))
        layer.kernel.weight_ih_l0.fill_(1.0)
    [found] = through(Last(layer).double(), torch.rand(2, 40, 2, dtype=torch.float64))
    assert found.ratio == pytest.approx(2.0**20, rel=1e-6) and found.grown and found.plain


@pytest.mark.parametrize(("infinite", "grown"), [(slice(0, 9), True), (slice(0, 40), None), (slice(30, 31), None)])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_growth_without_end_is_growth_and_an_infinite_loss_says_nothing_of_time(infinite, grown, value):
    gradient = torch.rand(3, 40, 2)
    gradient[:, infinite] = value
    found = reaches([("read", nn.GRU(2, 2, batch_first=True), gradient)], [gradient])
    assert [reach.grown for reach in found] == ([] if grown is None else [grown])


def test_what_fills_a_row_is_not_counted():
    net = Recurrent(1, channels=2, cell="elman", dim=3, num_layers=1, pool="last", p_drop=0.0)
    x = torch.cat([torch.randn(1, 30, 2), torch.ones(1, 30, 1)], -1)
    [alone] = through(net, x)
    filled = torch.cat([x, torch.zeros(1, 40, 3)], 1)
    [found] = through(net, filled)
    assert found.steps == 30 and found.ratio == pytest.approx(alone.ratio) and found.felt == alone.felt
    assert through(net, x[:, : LONG - 1]) == []


def test_where_every_step_answers_nothing_fades():
    for head in ("mean", "steps"):
        options = {"pool": "mean"} if head == "mean" else {"head": "steps"}
        net = Recurrent(1, channels=2, cell="elman", dim=3, num_layers=2, p_drop=0.0, **options)
        assert all(0.1 < found.ratio < 10 for found in through(net, torch.randn(2, 200, 2)))


def test_torchs_layers_are_heard_however_they_lie():
    class Timed(nn.Module):
        def __init__(self):
            super().__init__()
            self.read = nn.GRU(2, 3)

        def forward(self, x):
            return self.read(x.transpose(0, 1))[0][-1]

    x, timed = torch.randn(2, 30, 2), Timed()
    [found] = through(timed, x)
    [own] = through(Last(GRU(2, 3)), x)  # another draw of the same layer
    assert found.path == "read" and found.steps == own.steps == 30 and found.kind == "GRU"


def test_a_look_holds_it_and_leaves_the_model():
    net = Last(Elman(2, 3))
    x, y = torch.randn(8, 60, 2), torch.randn(8)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    seen = look(net, Normal(), x, y)
    [reach] = seen.through_time
    assert reach.faded and set(seen.gradients) == {
        "read.kernel.weight_ih_l0",
        "read.kernel.weight_hh_l0",
        "head.weight",
    }
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters()) and x.requires_grad is False
    assert not any(part._forward_pre_hooks for part in net.modules())
    assert look(MLP(2, (3,), 1), Normal(), x[:, 0], y).through_time == ()


def test_findings_say_where_and_how_much():
    reach = Reach("layers.0.branch", "Elman", True, 100, 1e-9, 24)
    assert reach.ratio < FADED < 1 < GROWN
    said = str(vanishing(reach, "epoch 4"))
    assert "more than 24 steps ago" in said and "layers.0.branch (Elman), epoch 4" in said and "1e-09" in said
    assert "orthogonal" in said and "open keep gates" in str(vanishing(Reach("r", "GRU", False, 9, 0, 2), "x"))
    assert "2e+08 times" in str(exploding(Reach("r", "RNN", True, 50, 2e8, 50), "epoch 2"))
