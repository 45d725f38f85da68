"""scikit-learn's MLPClassifier, which is written in NumPy."""

import warnings

from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from benchmarks.task import BATCH, HIDDEN, LR, MOMENTUM, main

warnings.filterwarnings("ignore", category=ConvergenceWarning)  # it would rather decide by itself when to stop


def fit(x, y, epochs):
    model = MLPClassifier(
        HIDDEN,
        solver="sgd",
        alpha=0.0,
        batch_size=BATCH,
        learning_rate_init=LR,
        momentum=MOMENTUM,
        nesterovs_momentum=False,
        max_iter=epochs,
        tol=0.0,
        n_iter_no_change=epochs + 1,
        random_state=0,
    )
    model.fit(x, y)
    return lambda: model.score(x, y)


if __name__ == "__main__":
    main("scikit-learn", fit)
