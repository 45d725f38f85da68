"""Five small real sets that scikit-learn carries: nothing is downloaded.

    digits         1797 images of 8 × 8 pixels, ten classes
    wine            178 wines, 13 measurements, three growers
    breast_cancer   569 tumours, 30 measurements, malignant or benign
    diabetes        442 patients, 10 measurements, progression after a year
    iris            150 flowers, 4 measurements, three species

>>> iris()
Data(iris: train 97, val 23, test 30; x (4,); y species: 3 classes)
"""

from __future__ import annotations

from typing import Any

import torch

from leadline.data.account import Account
from leadline.data.arguments import checked
from leadline.data.data import Data, Split
from leadline.data.inputs import Standardize
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.errors import DataError


@checked
def digits(*, val: float = 0.15, test: float = 0.2, split_seed: int = 0) -> Data:
    """Handwritten digits: 64 grey values from 0 to 16, row by row; all pixels share one shift and scale.

    Args:
        val, test: parts of the rows that validate and test, each from 0 and together below 1.
        split_seed: of the split, any whole number.
    """
    return _load("digits", "digit", val=val, test=test, split_seed=split_seed)


@checked
def wine(*, val: float = 0.15, test: float = 0.2, split_seed: int = 0) -> Data:
    """Wines of three growers, told apart by their chemistry.

    Args:
        val, test: parts of the rows that validate and test, each from 0 and together below 1.
        split_seed: of the split, any whole number.
    """
    return _load("wine", "grower", val=val, test=test, split_seed=split_seed)


@checked
def breast_cancer(*, val: float = 0.15, test: float = 0.2, split_seed: int = 0) -> Data:
    """Tumours, malignant or benign, by the shapes of their cells; benign is code 1.

    Args:
        val, test: parts of the rows that validate and test, each from 0 and together below 1.
        split_seed: of the split, any whole number.
    """
    return _load("breast_cancer", "diagnosis", val=val, test=test, split_seed=split_seed)


@checked
def diabetes(*, val: float = 0.15, test: float = 0.2, split_seed: int = 0) -> Data:
    """Progression of diabetes over a year, from ten measurements.

    Args:
        val, test: parts of the rows that validate and test, each from 0 and together below 1.
        split_seed: of the split, any whole number.
    """
    return _load("diabetes", "progression", val=val, test=test, split_seed=split_seed)


@checked
def iris(*, val: float = 0.15, test: float = 0.2, split_seed: int = 0) -> Data:
    """Irises of three species, by the lengths and widths of sepals and petals.

    Args:
        val, test: parts of the rows that validate and test, each from 0 and together below 1.
        split_seed: of the split, any whole number.
    """
    return _load("iris", "species", val=val, test=test, split_seed=split_seed)


def _load(name: str, target_name: str, *, val: float, test: float, split_seed: int) -> Data:
    bunch = _bunch(name)
    x = torch.as_tensor(bunch.data).float()
    classes = tuple(str(word) for word in bunch.get("target_names", ()))
    y = torch.as_tensor(bunch.target).to(torch.int64 if classes else torch.float32)
    rows = split_indices(len(x), val=val, test=test, seed=split_seed, stratify=y if classes else None)
    train, held, tested = (Split(x[index], y[index], rows=index) for index in rows)
    if classes:
        target = Target("binary" if len(classes) == 2 else "classes", target_name, classes)
    else:
        target = Target.real(train.y, target_name)
    inputs = Standardize.fit(train.x, tuple(str(column) for column in bunch.feature_names))
    if name == "digits":  # a corner pixel that is dark in one image alone would count for as much as the strokes
        pixels = train.x.double()
        shift, scale = (float(pixels.mean()),) * x.shape[1], (float(pixels.std(unbiased=False)),) * x.shape[1]
        inputs = Standardize(shift, scale, inputs.names)
    recipe = {"source": name, "options": {"val": val, "test": test, "split_seed": split_seed}}
    account = Account(f"{name}, as scikit-learn carries it", read=len(x))
    return Data(train, held, tested, target, inputs, name=name, recipe=recipe, account=account)


def _bunch(name: str) -> Any:
    try:
        from sklearn import datasets
    except ImportError:
        raise DataError(
            f"{name} comes with scikit-learn, which must be installed",
            got="no module called sklearn",
            do="Run: pip install scikit-learn",
        ) from None
    return getattr(datasets, f"load_{name}")()
