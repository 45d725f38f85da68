"""The plain loop that people write: torch, eager, index batches of a shuffled order."""

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.task import BATCH, DIM_INPUT, HIDDEN, LR, MOMENTUM, NUM_CLASSES, main


def fit(x, y, epochs):
    torch.manual_seed(0)
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    model = nn.Sequential(
        nn.Linear(DIM_INPUT, HIDDEN[0]),
        nn.ReLU(),
        nn.Linear(HIDDEN[0], HIDDEN[1]),
        nn.ReLU(),
        nn.Linear(HIDDEN[1], NUM_CLASSES),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for start in range(0, len(x), BATCH):
            index = order[start : start + BATCH]
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[index]), y[index])
            loss.backward()
            optimizer.step()
    return lambda: (model(x).argmax(1) == y).float().mean()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main("torch, eager loop", fit)
