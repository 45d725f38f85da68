"""Made-up measurements of everyday things, one for each kind of target: angle, positive, count, proportion, real.

The laws are invented; each is one that its kind of likelihood can recover. ε is standard normal, U uniform.

>>> wind_direction(num=100).target
Target(kind='angle', name='direction', classes=(), dim=1, shift=(0.0,), scale=(1.0,))
"""

from __future__ import annotations

import numpy as np

from leadline.data.generated import Drawn, generator

NEIGHBOURHOODS = ("residential", "shopping", "office")


@generator
def wind_direction(
    *, num: int = 500, concentration: float = 8.0, seed: int = 0, val: float = 0.15, test: float = 0.2
) -> Drawn:
    """direction ~ von Mises(2π (pressure - 1010) / 50, concentration), pressure ~ U[980, 1040] hPa."""
    rng = np.random.default_rng(seed)
    pressure = rng.uniform(980, 1040, num)
    mean = np.angle(np.exp(2j * np.pi * (pressure - 1010) / 50))  # wrapped to [-π, π]
    return Drawn(pressure, rng.vonmises(mean, concentration), "angle", name="direction", columns=("pressure",))


@generator
def wind_speed(
    *, num: int = 500, steadiness: float = 2.0, seed: int = 0, val: float = 0.15, test: float = 0.2
) -> Drawn:
    """speed ~ (2 + 10 / (1 + exp((pressure - 1005) / 8))) · Weibull(steadiness) in m/s, pressure ~ U[980, 1040] hPa."""
    rng = np.random.default_rng(seed)
    pressure = rng.uniform(980, 1040, num)
    scale = 2 + 10 / (1 + np.exp((pressure - 1005) / 8))
    speed = np.maximum(scale * rng.weibull(steadiness, num), 1e-3)  # still air has no logarithm
    return Drawn(pressure, speed, "positive", name="speed", columns=("pressure",))


@generator
def pedestrians(
    *, num: int = 1000, busiest: float = 30.0, seed: int = 0, val: float = 0.15, test: float = 0.2
) -> Drawn:
    """count a minute ~ Poisson(busiest · place · day(hour) · exp(-r²/2)), r the distance from the centre in 0.1°.

    place = 0.3, 1, 0.7 for residential, shopping, office;  day(h) = 0.05 + 0.95 exp(-(h - 14)² / 32).
    """
    rng = np.random.default_rng(seed)
    hour = rng.uniform(0, 24, num)
    longitude, latitude = rng.uniform(-0.2, 0.2, num), rng.uniform(51.3, 51.7, num)
    place = rng.integers(3, size=num)
    day = 0.05 + 0.95 * np.exp(-((hour - 14) ** 2) / 32)
    near = np.exp(-(longitude**2 + (latitude - 51.5) ** 2) / 0.02)
    count = rng.poisson(busiest * np.array([0.3, 1.0, 0.7])[place] * day * near)
    x = np.column_stack([hour, longitude, latitude, np.eye(3)[place]])
    return Drawn(x, count, "count", name="count", columns=("hour", "longitude", "latitude", *NEIGHBOURHOODS))


@generator
def repayment(
    *, num: int = 500, concentration: float = 20.0, seed: int = 0, val: float = 0.15, test: float = 0.2
) -> Drawn:
    """share repaid ~ Beta(c m, c (1 - m)), m = 1 - exp(-income / 30), c = concentration, income ~ U[5, 100]."""
    rng = np.random.default_rng(seed)
    income = rng.uniform(5, 100, num)
    mean = 1 - np.exp(-income / 30)
    share = rng.beta(concentration * mean, concentration * (1 - mean))
    share = share.clip(1e-6, 1 - 1e-6)  # strictly between nothing and all, in float32 too
    return Drawn(income, share, "proportion", name="share", columns=("income",))


@generator
def height_weight(*, num: int = 500, noise: float = 1.0, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """height = 0.78 + 0.056 age + 0.05 noise ε,  weight = (15 + age²/50) height² exp(0.1 noise ε'),  age ~ U[2, 18].

    In metres and kilograms: two targets whose variances differ a thousandfold.
    """
    rng = np.random.default_rng(seed)
    age = rng.uniform(2, 18, num)
    height = 0.78 + 0.056 * age + 0.05 * noise * rng.standard_normal(num)
    weight = (15 + age**2 / 50) * height**2 * np.exp(0.1 * noise * rng.standard_normal(num))
    return Drawn(age, np.stack([height, weight], axis=1), name="height, weight", columns=("age",))


@generator
def car_prices(*, num: int = 500, noise: float = 0.1, seed: int = 0, val: float = 0.15, test: float = 0.2) -> Drawn:
    """price = 30000 exp(-0.1 age - mileage / 200000 + noise · ε), age ~ U[0, 15], mileage ~ 1300 age · Gamma(9).

    In dollars, years and miles.
    """
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 15, num)
    mileage = age * 1300 * rng.gamma(9, size=num)
    price = 30000 * np.exp(-0.1 * age - mileage / 200000 + noise * rng.standard_normal(num))
    return Drawn(np.stack([age, mileage], axis=1), price, name="price", columns=("age", "mileage"))
