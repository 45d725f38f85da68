"""One small MLP on a GPU through `fit`: steps a second of steady training, and what starting costs. Prints JSON.

    PYTHONPATH=src python benchmarks/gpu.py [--epochs 1000] [--compile auto|on|off]

Needs torch, numpy and safetensors only. The plain eager loop runs beside it, on the same device.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import leadline as ll
from leadline.data.data import Data, Split
from leadline.data.target import Target

ROWS, BATCH = 4000, 100
STEPS_PER_EPOCH = ROWS // BATCH


def rows() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 40, generator=generator)
    return x, (x @ torch.randn(40, 10, generator=generator)).argmax(1)


def leadline_seconds(epochs: int, compile: str) -> float:
    x, y = rows()
    none = Split(x[:0], y[:0])
    data = Data(Split(x, y), none, none, Target("classes", classes=tuple("abcdefghij")), name="bench")
    model = ll.models.MLP(40, (100, 100), 10, activation="relu", p_drop=0.0)
    torch.cuda.synchronize()
    start = time.perf_counter()
    run = ll.fit(
        model,
        data,
        likelihood=ll.likelihoods.Categorical(10),  # plain cross-entropy, as in the loop beside it
        epochs=epochs,
        batch=BATCH,
        optimizer="sgd",
        lr=0.01,
        momentum=0.9,
        weight_decay=0.0,
        schedule="constant",
        warmup=0.0,
        device="cuda",
        compile=compile,
        progress=False,
    )
    torch.cuda.synchronize()
    taken = time.perf_counter() - start
    if run.evaluate("train")["accuracy"] < 0.5:
        raise SystemExit("the network learned nothing: the figure would mean nothing")
    return taken


def eager_seconds(epochs: int) -> float:
    x, y = (column.cuda() for column in rows())
    layers = [nn.Linear(40, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(epochs):
        order = torch.randperm(ROWS, device="cuda")
        for first in range(0, ROWS, BATCH):
            index = order[first : first + BATCH]
            optimizer.zero_grad()
            F.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="One small MLP on a GPU through fit.")
    parser.add_argument("--epochs", type=int, default=1000, help="of the long fit; the short one has 50")
    parser.add_argument("--compile", choices=("auto", "on", "off"), default="auto")
    options = parser.parse_args()
    short_epochs = 50
    cold = leadline_seconds(short_epochs, options.compile)
    warm = leadline_seconds(short_epochs, options.compile)
    long = leadline_seconds(options.epochs, options.compile)
    rate = (options.epochs - short_epochs) * STEPS_PER_EPOCH / (long - warm)
    eager_seconds(2)
    eager = short_epochs * STEPS_PER_EPOCH / eager_seconds(short_epochs)
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "compile": options.compile,
        "epochs": options.epochs,
        "steady_steps_per_second": rate,
        "start_seconds": cold - short_epochs * STEPS_PER_EPOCH / rate,
        "long_seconds": long,
        "eager_loop_steps_per_second": eager,
        "ratio": rate / eager,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
