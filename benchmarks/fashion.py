"""Fashion-MNIST from its IDX files: seconds to 93.5 % of the test pictures, `fit` beside the same recipe in Lightning.

    PYTHONPATH=src python -m benchmarks.fashion --data fashion-mnist [--only leadline lightning]       on a GPU
    PYTHONPATH=src python -m benchmarks.fashion --data fashion-mnist --cpu                             two cores

On a GPU both train the same small ResNet on all 60,000 pictures: the same optimizer, schedule, batches, flips and
shifts, in bf16, and look at the test pictures after each epoch. The clock runs from the call that trains; two plain
steps before it load the GPU's libraries for both. On a CPU a smaller network is trained by `fit` alone. Prints one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from typing import Any

import torch
import torch.nn.functional as F

import leadline as ll
from benchmarks.clock import Epochs, to_goal
from leadline.data.data import Batch, Data
from leadline.layers import noise
from leadline.optim.schedules import schedule
from leadline.regularize import regularizers

GOAL = 0.935
BATCH, EPOCHS, RATE, DECAY, SMOOTHING = 512, 20, 4e-3, 0.02, 0.1
WORDS = ("flip", "crop(2)")


def read(folder: str) -> Data:
    """All training pictures train; the test pictures are looked at after each epoch."""
    data = ll.data.idx(folder, val=0.0)
    return data.with_(val=data.test)


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return ll.models.ResNet(1, 10, stages=(2, 2, 2), width=32)


def load_libraries(data: Data) -> None:
    """Two steps of a plain loop, so that neither side pays for what a process loads once."""
    model = network().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x, y = data.inputs.encode(data.train.x[:BATCH].cuda()), data.train.y[:BATCH].cuda()
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()


def by_leadline(data: Data, model: torch.nn.Module, epochs: int, words: tuple[str, ...], **settings: Any) -> dict:
    clock = Epochs()
    ll.fit(
        model,
        data,
        likelihood=ll.likelihoods.Categorical(10, label_smoothing=SMOOTHING),
        regularize=words,
        epochs=epochs,
        schedule="one_cycle",
        progress=False,
        listeners=[clock],
        findings=[],
        **settings,
    )
    return to_goal(clock.marks(), GOAL)


def by_lightning(data: Data, epochs: int) -> dict:
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    import lightning
    from torch.utils.data import DataLoader, TensorDataset

    inputs, marks = data.inputs, []
    varied = regularizers(WORDS)
    for each in varied:
        each.meet(data.inputs, data.target)
    steps = -(-len(data.train) // BATCH)
    factor = schedule("one_cycle", 0.0, epochs * steps, steps)

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.right = network(), 0.0

        def training_step(self, batch, index):
            x, y = batch
            rows = Batch(inputs.encode(x), y, keys=torch.randint(2**62, (len(y),), device=y.device))
            with noise.keyed(rows.keys):
                for each in varied:
                    rows = each.rows(rows)
            return F.cross_entropy(self.net(rows.x), rows.y, label_smoothing=SMOOTHING)

        def validation_step(self, batch, index):
            x, y = batch
            self.right += (self.net(inputs.encode(x)).argmax(1) == y).sum()

        def on_validation_epoch_end(self):
            marks.append((time.perf_counter() - start, float(self.right) / len(data.val)))
            self.right = 0.0

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
            rates = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rates, "interval": "step"}}

    def loader(split, shuffle):
        rows = TensorDataset(split.x, split.y)
        return DataLoader(
            rows, batch_size=BATCH, shuffle=shuffle, num_workers=8, pin_memory=True, persistent_workers=True
        )

    model = Classifier()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="gpu",
        devices=1,
        precision="bf16-mixed",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    start = time.perf_counter()
    trainer.fit(model, loader(data.train, True), loader(data.val, False))
    return to_goal(marks, GOAL)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fashion-MNIST, beside Lightning.")
    parser.add_argument("--data", required=True, help="folder with the four IDX files")
    parser.add_argument("--cpu", action="store_true", help="a smaller network, on two cores")
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--only", nargs="+", choices=("leadline", "lightning"), default=("leadline", "lightning"))
    options = parser.parse_args()
    data = read(options.data)
    if options.cpu:
        torch.manual_seed(0)
        model = ll.models.ConvNet(1, 10, widths=(16, 32, 64))
        found = {"leadline": by_leadline(data, model, options.epochs or 8, (), batch=128, lr=3e-3, device="cpu")}
    else:
        found = {"device": torch.cuda.get_device_name(), "goal": GOAL}
        epochs = options.epochs or EPOCHS
        load_libraries(data)
        own = {"batch": BATCH, "lr": RATE, "weight_decay": DECAY, "device": "cuda"}
        if "leadline" in options.only:
            found["leadline"] = by_leadline(data, network(), epochs, WORDS, **own)
            print(json.dumps(found), flush=True)
        if "lightning" in options.only:
            found["lightning"] = by_lightning(data, epochs)
        both = [found.get(name, {}).get("seconds_to_goal") for name in ("leadline", "lightning")]
        found["sooner"] = both[1] / both[0] if all(both) else None
    print(json.dumps(found))


if __name__ == "__main__":
    main()
