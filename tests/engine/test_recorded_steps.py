"""What a recording leaves behind where there can be none."""

from contextlib import contextmanager, nullcontext

import pytest
import torch

from leadline.engine import step


class _Stream:
    def wait_stream(self, other):
        pass


@pytest.fixture
def without_a_gpu(monkeypatch):
    """Streams that do nothing, and a recording that fails behind what was launched in it."""

    @contextmanager
    def refused():
        yield None
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "Stream", _Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", _Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(step, "recording", refused)


@pytest.mark.parametrize("calls", [0, 1, 100])  # that succeed
@pytest.mark.usefixtures("without_a_gpu")
def test_weights_are_as_they_were_where_steps_cannot_be_recorded(calls):
    weight, batch, made = torch.ones(3), torch.full((2, 3), 5.0), []

    def several(weight, batch):
        weight += batch.sum(0)
        made.append(1)
        if len(made) > calls:
            raise RuntimeError("a model that asks the host something")
        return weight.sum()

    with pytest.raises(RuntimeError):
        step.Recorded(several, (weight,), (batch,))
    assert torch.equal(weight, torch.ones(3)) and torch.equal(batch, torch.full((2, 3), 5.0))
