"""How many threads a run takes: by counting where steps are small, else by measuring, and never more than given."""

import pytest
import torch
from torch import nn

from leadline.engine import device
from leadline.engine.device import pick_threads, uses

CPU = torch.device("cpu")


@pytest.fixture
def two(monkeypatch):
    monkeypatch.setattr(device, "cores", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_kernels_are_used_at_every_place():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 5))
    own = 3 * 4 * 9
    count = sum(p.numel() for p in net.parameters())
    assert uses(net, torch.zeros(1, 3, 8, 8)) == count + 63 * own
    assert net.training and not any(module._forward_hooks for module in net.modules())


def test_small_steps_take_one_thread_unmeasured(two):
    def probe():
        raise AssertionError("measured")

    assert pick_threads(None, CPU, nn.Conv2d(1, 2, 3), torch.zeros(4, 1, 8, 8), probe) == 1
    assert pick_threads(7, CPU, nn.Conv2d(1, 2, 3), torch.zeros(4, 1, 8, 8), probe) == 7


def test_the_faster_count_is_taken_and_torch_is_left_as_it_was(two):
    seen = []

    def probe():
        seen.append(torch.get_num_threads())

    def seconds(work):
        work()
        return {1: 0.5, 2: 0.3}[torch.get_num_threads()]

    large = nn.Conv2d(16, 64, 3)
    x = torch.zeros(64, 16, 32, 32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "_seconds", seconds)
        assert pick_threads(None, CPU, large, x, probe) == 2
        assert seen == [1, 1, 2, 2], "steps that take long are timed once"
        torch.set_num_threads(1)
        assert pick_threads(None, CPU, large, x, probe) == 1, "no more than torch has been given"
    assert torch.get_num_threads() == 1
