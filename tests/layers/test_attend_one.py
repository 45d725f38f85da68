"""Where the kernel for one word a row serves, and that all else goes the plain way."""

import pytest
import torch
from torch._subclasses import FakeTensorMode

from leadline.layers import attend_one


@pytest.mark.parametrize(("capability", "serves"), [((7, 5), False), ((8, 0), True), ((9, 0), True), ((12, 0), True)])
def test_the_kernel_serves_devices_that_turn_numbers_into_bfloat16(monkeypatch, capability, serves):
    monkeypatch.setattr(attend_one, "can_compile", lambda device: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    with FakeTensorMode(), torch.no_grad():  # a GPU that need not be there
        q, keys = (torch.empty(2, 4, T, 64, dtype=torch.bfloat16, device="cuda") for T in (1, 32))
        assert attend_one.can_attend_one(q, keys) == serves
        assert not attend_one.can_attend_one(q.half(), keys.half())
