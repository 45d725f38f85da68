"""Fashion-MNIST by a small vision transformer: what part of the test pictures it tells right, and in how many seconds.

    PYTHONPATH=src python -m benchmarks.vit_fashion --data fashion-mnist                       on a GPU
    PYTHONPATH=src python -m benchmarks.vit_fashion --data fashion-mnist --cpu                 a look, on few pictures

Trained on all 60,000 pictures in bf16, mirrored and shifted; test pictures are looked at after each epoch, and nothing
is chosen by them. Nothing about pictures is built in but the cut into 49 patches, so it takes more epochs than a small
ResNet to come as far. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch

import leadline as ll
from benchmarks.clock import Epochs, to_goal
from leadline.data.data import Data

GOAL = 0.91
SHAPE = {"patch": 4, "dim": 192, "num_layers": 6, "num_heads": 6, "pool": "mean"}
WORDS = ("flip", "crop(2)")
BATCH, EPOCHS, RATE, DECAY, SMOOTHING = 512, 60, 1.5e-3, 0.05, 0.1


def read(folder: str) -> Data:
    """All training pictures train; the test pictures are looked at after each epoch."""
    data = ll.data.idx(folder, val=0.0)
    return data.with_(val=data.test)


def trained(data: Data, shape: dict[str, Any], epochs: int, **settings: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    model = ll.models.ViT(1, (28, 28), 10, **shape)
    clock = Epochs()
    ll.fit(
        model,
        data,
        likelihood=ll.likelihoods.Categorical(10, label_smoothing=SMOOTHING),
        regularize=WORDS,
        epochs=epochs,
        schedule="one_cycle",
        optimizer="adamw",
        weight_decay=DECAY,
        clip=1.0,
        progress=False,
        listeners=[clock],
        findings=[],
        **settings,
    )
    return {"parameters": sum(p.numel() for p in model.parameters()), **to_goal(clock.marks(), GOAL)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Fashion-MNIST by a small vision transformer.")
    parser.add_argument("--data", required=True, help="folder with the four IDX files")
    parser.add_argument("--cpu", action="store_true", help="a narrower network on few pictures")
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--rate", type=float, default=RATE)
    options = parser.parse_args()
    data = read(options.data)
    if options.cpu:
        few = data.with_(train=data.train.take(torch.arange(6000)), val=data.test.take(torch.arange(2000)))
        shape = {**SHAPE, "dim": 96, "num_layers": 4}
        found = {"device": "cpu", **trained(few, shape, options.epochs or 6, batch=64, lr=options.rate, device="cpu")}
    else:
        settings = {"batch": BATCH, "lr": options.rate, "precision": "bf16", "device": "cuda"}
        device = torch.cuda.get_device_name()
        found = {"device": device, "goal": GOAL, **trained(data, SHAPE, options.epochs or EPOCHS, **settings)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
