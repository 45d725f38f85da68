"""Pure noise: x says nothing about y, so whatever a network fits here it has memorised, and no test score can be good.

>>> noise_regression()
Data(noise_regression: train 65, val 15, test 20; x (10,); y y: real (5 values))
"""

from __future__ import annotations

import numpy as np

from leadline.data.generated import Drawn, generator


@generator
def noise_regression(
    *,
    num: int = 100,
    dim_input: int = 10,
    dim_output: int = 5,
    seed: int = 0,
    val: float = 0.15,
    test: float = 0.2,
) -> Drawn:
    """x ~ N(0, I), y ~ N(0, I), independent."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((num, dim_input)), rng.standard_normal((num, dim_output))
    return Drawn(x, y[:, 0] if dim_output == 1 else y, unit=True)


@generator
def noise_binary(*, num: int = 100, dim_input: int = 10, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """x ~ N(0, I), y a fair coin, independent."""
    rng = np.random.default_rng(seed)
    return Drawn(
        rng.standard_normal((num, dim_input)), rng.integers(2, size=num), "binary", ("tails", "heads"), unit=True
    )
