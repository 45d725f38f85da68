"""ViT-B/16 training on a GPU, pictures of 224 × 224 in bf16: `fit` beside transformers' model, eager and compiled.

    PYTHONPATH=src python -m benchmarks.vit [--batch 128] [--only eager compiled synthetic]
    PYTHONPATH=src python -m benchmarks.vit --cpu                                              a look, with a small one

eager       transformers.ViTForImageClassification, its fused attention, a fused AdamW, one batch on the device
compiled    the same under torch.compile
synthetic   `ll.fit` on pictures of bytes that lie on the device: gathered, normalised, trained

Rates are those of steady training: first steps, in which code is compiled, are left out. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import leadline as ll
from benchmarks.clock import Epochs, plain_rate
from leadline.data.data import Data, Split
from leadline.data.pictures import Pictures
from leadline.data.target import Target
from leadline.models import vit

CLASSES = 1000
PARTS = ("eager", "compiled", "synthetic")


def theirs_rate(shape: dict[str, Any], side: int, batch: int, device: str, compiled: bool, steps: int) -> float:
    import transformers

    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=shape["dim"],
        num_hidden_layers=shape["num_layers"],
        num_attention_heads=shape["num_heads"],
        intermediate_size=4 * shape["dim"],
        patch_size=shape["patch"],
        image_size=side,
        num_labels=CLASSES,
    )
    model = transformers.ViTForImageClassification(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05, fused=True)
    net = torch.compile(model) if compiled else model
    x = torch.randn(batch, 3, side, side, device=device)
    y = torch.randint(CLASSES, (batch,), device=device)
    return plain_rate(model, optimizer, lambda: F.cross_entropy(net(x).logits, y), batch, steps)


def fit_rate(shape: dict[str, Any], data: Data, side: int, batch: int, epochs: int, device: str) -> float:
    """Pictures a second, from the end of the second epoch on."""
    torch.manual_seed(0)
    clock = Epochs()
    ll.fit(
        ll.models.ViT(3, (side, side), CLASSES, **shape),
        data,
        likelihood=ll.likelihoods.Categorical(CLASSES),
        epochs=epochs,
        batch=batch,
        optimizer="adamw",
        lr=1e-3,
        weight_decay=0.05,
        precision="bf16" if device == "cuda" else "auto",
        compile="on" if device == "cuda" else "off",
        device=device,
        progress=False,
        listeners=[clock],
        findings=[],
    )
    return clock.rate(len(data.train) // batch * batch)


def data_of(count: int, side: int) -> Data:
    """Bytes that are cheap to make; what they show does not change how long a step takes."""
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, 3, side, side), dtype=np.uint8))
    y = torch.arange(count) % CLASSES
    none = Split(x[:0], y[:0])
    names = tuple(map(str, range(CLASSES)))
    return Data(Split(x, y), none, none, Target("classes", classes=names), Pictures.of(x[:256]), name="pictures")


def main() -> None:
    parser = argparse.ArgumentParser(description="ViT beside transformers'.")
    parser.add_argument("--size", default="B/16", choices=tuple(vit.SIZES))
    parser.add_argument("--side", type=int, default=224, help="rows and columns of a picture")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--pictures", type=int, default=10_240)
    parser.add_argument("--cpu", action="store_true", help="Ti/16 on few small pictures")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    device, size, side, batch, count, steps = "cuda", options.size, options.side, options.batch, options.pictures, 30
    if options.cpu:
        device, size, side, batch, count, steps = "cpu", "Ti/16", 64, 16, 64, 4
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "model": f"ViT-{size}",
        "side": side,
        "batch": batch,
    }
    for part in ("eager", "compiled"):
        if part in options.only:
            rate = theirs_rate(vit.SIZES[size], side, batch, device, part == "compiled", steps)
            found[f"transformers_{part}_pictures_per_second"] = rate
            print(json.dumps(found), flush=True)
    if "synthetic" in options.only:
        rate = fit_rate(vit.SIZES[size], data_of(count, side), side, batch, options.epochs, device)
        found["fit_pictures_per_second"] = rate
        for part in ("eager", "compiled"):
            theirs = found.get(f"transformers_{part}_pictures_per_second")
            found[f"over_{part}"] = rate / theirs if theirs else None
    print(json.dumps(found))


if __name__ == "__main__":
    main()
