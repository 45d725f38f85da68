"""Small runs for the tests of the engine: how to begin one, stop it at a step, and compare two folders."""

import hashlib
import os
import signal
import tempfile
from pathlib import Path

import torch
from torch import nn

import leadline as ll
from leadline.engine import checkpoint
from leadline.engine.events import StepsDone


def moons(num=60):
    return ll.data.moons(num=num)  # 39 rows to train on


def weighted(num=60):
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(num, 2, generator=generator), torch.arange(num) % 2
    return ll.data.arrays(x, y, kind="binary", weight=torch.rand(num, generator=generator) + 0.1)


def line(num=60):
    return ll.data.line(num=num)


def text():
    """23 rows of bytes to train on, 3 to validate with."""
    folder = Path(tempfile.gettempdir()) / "leadline-engine-runs"
    folder.mkdir(exist_ok=True)
    for k in range(8):
        (folder / f"{k}.txt").write_text(f"{k} sailors went to sea {k * k} times")
    return ll.data.text(folder, length=8, kind="bytes", every=8, cache=False)


def written():
    torch.manual_seed(0)
    return ll.models.Recurrent(262, num_tokens=262, dim=5, cell="lstm", head="next", p_drop=0.2, pad=0)


def mlp(dim_input=2, **options):
    torch.manual_seed(0)
    return ll.models.MLP(dim_input, (6, 5), 1, **{"p_drop": 0.3, **options})


def own():
    """A model of a user's own, with torch's dropout and batch norm."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(8, 1))


class StopAt:
    """A listener that presses Ctrl-C when `step` is done."""

    def __init__(self, step):
        self.step = step

    def __call__(self, event):
        if isinstance(event, StepsDone) and event.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


class Breaks(Exception):
    pass


class BreakAt(StopAt):
    """A listener that makes the process forget the run at `step`, as a kill would: nothing more is saved."""

    def __call__(self, event):
        if isinstance(event, StepsDone) and event.step == self.step:
            raise Breaks


def hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of what a run's end is: newest checkpoint and metrics."""
    newest = checkpoint.steps(folder / "checkpoints")[-1]
    files = [newest / name for name in ("weights.safetensors", "best.safetensors", "state.safetensors", "state.json")]
    found = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files if f.exists()}
    return {
        **found,
        "newest": newest.name,
        "metrics.jsonl": hashlib.sha256((folder / "metrics.jsonl").read_bytes()).hexdigest(),
        "findings.json": (folder / "findings.json").read_text(),
    }


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
