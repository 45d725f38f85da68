"""Segmentation and detection end to end on generated scenes: 2,000 pictures of overlapping textured shapes, 10 classes.

    PYTHONPATH=src python -m benchmarks.scenes [--only pixels boxes points] [--size 96] [--epochs 120]

Trains the default network of each task on 1,400 pictures and prints what it scores on 300 that it has not seen: mean
overlap (IoU) of masks, mAP of boxes, share of points within a tenth of the picture. A few minutes on a GPU, hours on a
CPU. Prints one JSON object a task.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch

import leadline as ll
from leadline.engine.events import EpochDone

MODELS = {
    "pixels": ("UNet", {"width": 32}),
    "boxes": ("GridDetector", {"width": 32}),
    "points": ("Hourglass", {}),
}
#: nothing in a scene knows up from down; only a dart's wings know left from right
WORDS = {
    "pixels": ("flip", "turn", "affine(20, 0.1, 0.2)", "colour(0.3, 0.3, 0.3)"),
    "boxes": ("flip", "turn", "affine(10, 0.1, 0.2)", "colour(0.3, 0.3, 0.3)"),
    "points": ("turn", "affine(20, 0.1, 0.2)", "colour(0.3, 0.3, 0.3)"),
}


def trained(task: str, size: int, num: int, epochs: int, **settings: Any) -> dict[str, Any]:
    data = ll.data.scenes(num=num, size=size, task=task)
    name, options = MODELS[task]
    likelihood = ll.likelihoods.likelihood_for(data.target)
    model = ll.models.build(name, data.shape_input, likelihood.dim_output, **options)
    marks: list[tuple[int, float]] = []

    def listen(event: Any) -> None:
        if isinstance(event, EpochDone) and "val" in event.metrics:
            marks.append((event.epoch, round(event.metrics["val"][likelihood.headline], 4)))

    start = time.perf_counter()
    run = ll.fit(
        model,
        data,
        likelihood=likelihood,
        regularize=WORDS[task],
        epochs=epochs,
        batch=32,
        schedule="one_cycle",
        validate_every=max(1, epochs // 10),
        progress=False,
        listeners=[listen],
        findings=[],
        **settings,
    )
    found = run.evaluate("test")
    return {
        "task": task,
        "model": f"{name} {options}",
        "size": size,
        "test": {metric: round(found[metric], 4) for metric in found.main},
        "train": round(run.measure(data.train.x[:300], data.train.y[:300])[likelihood.headline], 4),
        "val_by_epoch": marks,
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Masks, boxes and points of generated scenes.")
    parser.add_argument("--only", nargs="+", choices=tuple(MODELS), default=tuple(MODELS))
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--num", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--lr", type=float, default=2e-3)
    options = parser.parse_args()
    for task in options.only:
        print(json.dumps(trained(task, options.size, options.num, options.epochs, lr=options.lr)), flush=True)
    if torch.cuda.is_available():
        print(json.dumps({"device": torch.cuda.get_device_name()}))


if __name__ == "__main__":
    main()
