"""skorch, the scikit-learn estimator around torch, without its validation split and its printing."""

import torch
from skorch import NeuralNetClassifier
from torch import nn

from benchmarks.task import BATCH, DIM_INPUT, HIDDEN, LR, MOMENTUM, NUM_CLASSES, main


def fit(x, y, epochs):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(DIM_INPUT, HIDDEN[0]),
        nn.ReLU(),
        nn.Linear(HIDDEN[0], HIDDEN[1]),
        nn.ReLU(),
        nn.Linear(HIDDEN[1], NUM_CLASSES),
    )
    net = NeuralNetClassifier(
        model,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.SGD,
        optimizer__momentum=MOMENTUM,
        lr=LR,
        batch_size=BATCH,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        train_split=None,
        verbose=0,
    )
    net.fit(x, y)
    return lambda: (net.forward(x).argmax(1).numpy() == y).mean()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main("skorch", fit)
