import pytest
import torch
from torch import nn

from leadline.doctor.look import look
from leadline.likelihoods import Normal


def probe(n=32, d=3):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(0)), torch.zeros(n)


def test_dead_units_are_counted_whether_module_or_function():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.act = nn.Linear(3, 10), nn.Linear(10, 10), nn.Linear(10, 1), nn.ReLU()
            for layer, dead in ((self.a, 4), (self.b, 7)):
                nn.init.constant_(layer.bias.data, 99.0)
                nn.init.constant_(layer.bias[:dead].data, -99.0)
            nn.init.zeros_(self.b.weight)  # its units follow their biases alone

        def forward(self, x):
            return self.c((self.b(self.act(self.a(x))) + 0).relu())

    seen = look(Both(), Normal(), *probe())
    assert seen.dead == {"act (ReLU)": (pytest.approx(0.4), 10), "the model (Both)": (pytest.approx(0.7), 10)}


@pytest.mark.parametrize("conv", [True, False])
def test_units_lie_on_the_channel_axis_after_a_convolution_and_on_the_last_axis_after_a_map(conv):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Conv1d(4, 6, 1) if conv else nn.Linear(5, 6)
            nn.init.constant_(self.map.bias[:3].data, -99.0)

        def forward(self, x):
            return torch.relu(self.map(x)).sum((1, 2))[:, None]

    x = torch.randn(16, 4, 5)
    assert look(Net(), Normal(), x, torch.zeros(16)).dead == {"the model (Net)": (0.5, 6)}


def test_a_module_called_twice_is_two_layers():
    act = nn.ReLU()
    seen = look(nn.Sequential(nn.Linear(3, 4), act, nn.Linear(4, 4), act, nn.Linear(4, 1)), Normal(), *probe())
    assert list(seen.dead) == ["1 (ReLU)", "1 (ReLU), call 2"]


def test_saturation_is_the_share_of_activations_on_the_flat_ends():
    net = nn.Sequential(nn.Linear(1, 2), nn.Tanh(), nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1000.0], [0.001]]))
        net[0].bias.zero_()
    assert look(net, Normal(), torch.randn(50, 1).sign(), torch.zeros(50)).saturated == {"1 (Tanh)": 0.5}


def test_gradients_come_in_the_order_of_use():
    class Backwards(nn.Module):
        def __init__(self):
            super().__init__()
            self.second, self.first = nn.Linear(4, 1), nn.Linear(3, 4)

        def forward(self, x):
            return self.second(self.first(x))

    seen = look(Backwards(), Normal(), *probe())
    assert list(seen.gradients) == ["first.weight", "second.weight"]


def test_unused_rows_of_an_embedding_do_not_dilute_its_gradient():
    torch.manual_seed(0)
    small, large = nn.Embedding(4, 3), nn.Embedding(4000, 3)
    large.weight.data[:4] = small.weight.data
    head = nn.Linear(3, 1)
    x, y = torch.arange(4).repeat(8), torch.randn(32)
    sizes = [look(nn.Sequential(e, head), Normal(), x, y).gradients["0.weight"] for e in (small, large)]
    assert sizes[0] == pytest.approx(sizes[1])
