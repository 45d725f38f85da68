"""Lightning in its barest mode: no logger, no checkpoints, no progress bar, no sanity checks."""

import logging
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.task import BATCH, DIM_INPUT, HIDDEN, LR, MOMENTUM, NUM_CLASSES, main

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

import lightning  # noqa: E402


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(DIM_INPUT, HIDDEN[0]),
            nn.ReLU(),
            nn.Linear(HIDDEN[0], HIDDEN[1]),
            nn.ReLU(),
            nn.Linear(HIDDEN[1], NUM_CLASSES),
        )

    def training_step(self, batch, index):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=LR, momentum=MOMENTUM)


def fit(x, y, epochs):
    torch.manual_seed(0)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    model = Classifier()
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, barebones=True)
    trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True))
    return lambda: (model.net(x).argmax(1) == y).float().mean()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main("Lightning", fit)
