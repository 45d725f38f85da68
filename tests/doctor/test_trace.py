import pytest
import torch
from torch import nn

from leadline.doctor.trace import Trace, tensors
from leadline.engine.untouched import untouched


def test_calls_come_in_the_order_in_which_they_end():
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 3)), nn.Tanh())
    seen = []
    with Trace(net, seen.append):
        net(torch.zeros(4, 2))
    assert [call.path for call in seen if not call.op] == ["0.0", "0", "1", ""]
    assert [call.op for call in seen if call.op] == ["linear", "tanh"]
    assert tuple(seen[0].inputs[0].shape) == (4, 2) and tuple(seen[0].outputs[0].shape) == (4, 3)


def test_after_an_error_the_innermost_module_stands_on_top_and_no_hook_stays():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(5, 1)))
    trace = Trace(net, lambda call: None)
    with pytest.raises(RuntimeError), trace:
        net(torch.zeros(4, 2))
    assert trace.stack[-1][0] == "1.0"
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_tensors_are_found_in_nested_arguments():
    a, b = torch.zeros(1), torch.ones(1)
    assert list(tensors(({"x": a}, [3, (b,)]))) == [a, b]


def test_untouched_restores_modes_buffers_and_randomness_after_an_error():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5))
    net[1].eval()
    random = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), untouched(net, training=True):
        net(torch.randn(8, 2))
        raise ZeroDivisionError
    assert [m.training for m in net] == [True, False]
    assert net[0].num_batches_tracked == 0 and bool((net[0].running_mean == 0).all())
    assert torch.equal(torch.get_rng_state(), random)
