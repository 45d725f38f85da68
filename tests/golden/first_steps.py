"""The runs whose first ten losses are stored. `python tests/golden/first_steps.py` stores them anew, if meant."""

import json
from pathlib import Path

import torch

import leadline as ll
from leadline.engine.events import StepsDone

STORE = Path(__file__).parent / "first_steps.json"

#: what may not move -> settings of the run
RUNS = {
    "mlp-adamw": {},
    "mlp-sgd-accumulate": {"optimizer": "sgd", "lr": 0.1, "accumulate": 3},
    "mlp-nesterov-clip-linear": {"optimizer": "nesterov", "clip": 0.1, "schedule": "linear"},
    "mlp-float64": {"precision": "float64"},
}


def model() -> torch.nn.Module:
    """An MLP whose first weights come from a formula, not from a generator that may change."""
    network = ll.models.MLP(2, (8, 8), 1, activation="gelu", norm="layer", p_drop=0.2, residual=True)
    with torch.no_grad():
        for number, p in enumerate(network.parameters()):
            p.copy_(0.5 * torch.sin(torch.arange(p.numel()) * 1.7 + number).view_as(p))
    return network


def data() -> ll.data.Data:
    """Rows by a formula."""
    t = torch.arange(120) * 0.37
    x = torch.stack([torch.sin(t), torch.cos(1.3 * t)], 1)
    return ll.data.arrays(x, (x[:, 0] * x[:, 1] > 0).long(), kind="binary")


def losses(name: str) -> list[float]:
    """Of the first ten steps of a run."""
    found: list[float] = []
    listen = lambda event: found.extend(event.losses.tolist()) if isinstance(event, StepsDone) else None  # noqa: E731
    options = {"device": "cpu", "compile": "off", "threads": 1, "epochs": 3, "batch": 16, "seed": 1, **RUNS[name]}
    ll.fit(model(), data(), progress=False, listeners=[listen], **options)
    return found[:10]


if __name__ == "__main__":
    STORE.write_text(json.dumps({name: losses(name) for name in RUNS}, indent=1) + "\n")
