"""What a log says of a run whose epochs are long."""

from __future__ import annotations

import io

import torch

from leadline import progress
from leadline.engine.events import EpochDone, RunStarted, StepsDone


def test_a_log_tells_of_steps_where_an_epoch_is_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    said = io.StringIO()
    log = progress.Log("nll", said)
    log(RunStarted(3, 100))
    for step in range(1, 101):
        now[0] += 1.0
        log(StepsDone(0, step, torch.tensor([4.0 / step])))
    log(EpochDone(1, 100, 1e-3, {"train": {"loss": 1.5}, "val": {"nll": 1.25}}, True, torch.zeros(100)))
    assert said.getvalue().splitlines() == [
        "epoch 1/3  step 31/300  loss 0.1290  1 steps/s  4 min 29 s left",
        "epoch 1/3  step 62/300  loss 0.0645  1 steps/s  3 min 58 s left",
        "epoch 1/3  step 93/300  loss 0.0430  1 steps/s  3 min 27 s left",
        "epoch 1/3  loss 1.5000  val nll 1.2500  1 steps/s  3 min 20 s left",
    ]
