"""Class labels on a line: probabilities that can be drawn above it. σ is the logistic function.

>>> binary_1d(num=100).target.classes
('no', 'yes')
"""

from __future__ import annotations

import numpy as np

from leadline.data.generated import Drawn, balanced, generator


@generator
def binary_1d(*, num: int = 200, sharpness: float = 5.0, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """x ~ U[0, 1];  p(yes | x) = σ(sharpness · sin 2πx)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, num)
    p = 1 / (1 + np.exp(-sharpness * np.sin(2 * np.pi * x)))
    return Drawn(x, rng.uniform(0, 1, num) < p, "binary", ("no", "yes"))


@generator
def three_classes_1d(
    *, num: int = 300, sharpness: float = 4.0, seed: int = 0, val: float = 0.15, test: float = 0.2
) -> Drawn:
    """x ~ U[0, 1];  p(k | x) ∝ exp(sharpness · cos 2π(x - k/3)), k = 0, 1, 2: a third each, class 0 at both ends."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, num)
    score = sharpness * np.cos(2 * np.pi * (x[:, None] - np.arange(3) / 3))
    gumbel = rng.gumbel(size=(num, 3))  # the largest of score + Gumbel noise is a draw from the softmax of the scores
    return Drawn(x, (score + gumbel).argmax(axis=1), "classes", ("0", "1", "2"))


@generator
def two_gaussians(
    *,
    num: int = 20,
    noise: float = 1.0,
    separation: float = 2.0,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """x = ±separation/2 + noise · ε;  y = the sign.  The best p(y | x) is σ(separation · x / noise²)."""
    rng = np.random.default_rng(seed)
    y = balanced(rng, num, 2)
    x = (y - 0.5) * separation + noise * rng.standard_normal(num)
    return Drawn(x, y, "binary", ("left", "right"), unit=True)
