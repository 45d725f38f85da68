"""ResNet-50 training on a GPU, pictures of 224 × 224 in bf16: `fit` beside torchvision's model under torch.compile.

    PYTHONPATH=src python -m benchmarks.resnet [--batch 256] [--only torchvision synthetic stream decode]

torchvision   channels last, compiled, a fused SGD, one batch of floats that lies on the device: pictures a second
synthetic     `ll.fit` on pictures of bytes that lie on the device: gathered, normalised, trained
stream        the same pictures in a file that is mapped into the host's memory, gathered by a thread
decode        files like photographs (500 × 375, JPEG) read by `ll.data.images`, once; later epochs read its cache

Rates are those of steady training: the first epoch, in which steps are compiled, is left out. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import leadline as ll
from benchmarks.clock import Epochs, plain_rate
from leadline.data.data import Data, Split
from leadline.data.pictures import Pictures
from leadline.data.target import Target
from leadline.engine import prefetch

CLASSES, SIDE = 1000, 224
PARTS = ("torchvision", "synthetic", "stream", "decode")


def torchvision_rate(batch: int) -> float:
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet50().to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    compiled = torch.compile(model)
    x = torch.randn(batch, 3, SIDE, SIDE, device="cuda").contiguous(memory_format=torch.channels_last)
    y = torch.randint(CLASSES, (batch,), device="cuda")
    return plain_rate(model, optimizer, lambda: F.cross_entropy(compiled(x), y), batch, steps=40)


def pictures(count: int) -> np.ndarray:
    """Bytes that are cheap to make; what they show does not change how long a step takes."""
    return np.random.default_rng(0).integers(0, 256, (count, 3, SIDE, SIDE), dtype=np.uint8)


def data_of(x: torch.Tensor) -> Data:
    y = torch.arange(len(x)) % CLASSES
    none = Split(x[:0], y[:0])
    names = tuple(map(str, range(CLASSES)))
    return Data(Split(x, y), none, none, Target("classes", classes=names), Pictures.of(x[:256]), name="pictures")


def fit_rate(data: Data, batch: int, epochs: int) -> float:
    """Pictures a second, from the end of the second epoch on."""
    torch.manual_seed(0)
    model, clock = ll.models.ResNet(3, CLASSES, depth=50), Epochs()
    ll.fit(
        model,
        data,
        likelihood=ll.likelihoods.Categorical(CLASSES),
        epochs=epochs,
        batch=batch,
        optimizer="sgd",
        lr=0.1,
        weight_decay=1e-4,
        precision="bf16",
        compile="on",
        device="cuda",
        progress=False,
        listeners=[clock],
        findings=[],
    )
    return clock.rate(len(data.train) // batch * batch)


def stream_rate(x: np.ndarray, batch: int, epochs: int) -> float:
    share, prefetch._SHARE = prefetch._SHARE, 0.0  # as if the device had no room for them
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pictures.npy")
        np.save(path, x)
        try:
            return fit_rate(data_of(torch.from_numpy(np.load(path, mmap_mode="c"))), batch, epochs)
        finally:
            prefetch._SHARE = share


def decode_rate(count: int) -> float:
    """Photographs a second from JPEG files to an array, by as many threads as there are cores."""
    from PIL import Image

    grain = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for k in range(64):  # smooth pictures with some grain: as large as photographs, about 60 kB
            base = np.kron(grain.integers(0, 256, (15, 20, 3)), np.ones((25, 25, 1)))
            picture = np.clip(base + grain.normal(0, 12, base.shape), 0, 255).astype(np.uint8)
            for own in (Path(folder, f"{k % 2}", f"{k}.jpg"),):
                own.parent.mkdir(exist_ok=True)
                Image.fromarray(picture).save(own, quality=88)
        first = sorted(Path(folder).rglob("*.jpg"))
        files = [first[k % len(first)] for k in range(count)]
        inputs = Pictures((0.5,) * 3, (0.25,) * 3, (SIDE, SIDE))
        inputs.read(files[:64])
        start = time.perf_counter()
        inputs.read(files)
        return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description="ResNet-50 beside torchvision's.")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--pictures", type=int, default=10_240)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "batch": options.batch}
    if "torchvision" in options.only:
        found["torchvision_pictures_per_second"] = torchvision_rate(options.batch)
        print(json.dumps(found), flush=True)
    x = pictures(options.pictures)
    if "synthetic" in options.only:
        rate = fit_rate(data_of(torch.from_numpy(x)), options.batch, options.epochs)
        found["fit_pictures_per_second"] = rate
        found["ratio"] = rate / found.get("torchvision_pictures_per_second", float("nan"))
        print(json.dumps(found), flush=True)
    if "stream" in options.only:
        rate = stream_rate(x, options.batch, options.epochs)
        found["stream_pictures_per_second"] = rate
        found["stream_share"] = rate / found.get("fit_pictures_per_second", float("nan"))
    if "decode" in options.only:
        from leadline.data.decode import default_workers

        found["decode_pictures_per_second"], found["decode_threads"] = decode_rate(4096), default_workers()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
