"""Made-up measurements obey their laws and keep to the range of their kind."""

import math

import torch

from leadline.data import measurements

ALL = {"val": 0.0, "test": 0.0}


def test_wind_turns_with_the_pressure():
    train = measurements.wind_direction(num=5000, concentration=50.0, **ALL).train
    mean = 2 * math.pi * (train.x[:, 0].double() - 1010) / 50
    offset = train.y.double() - mean
    direction = torch.atan2(offset.sin().mean(), offset.cos().mean())
    assert abs(direction) < 0.01
    assert abs(offset.cos().mean() - (1 - 1 / 100)) < 0.003  # E cos = I₁(50) / I₀(50), about 1 - 1/(2·50)
    assert train.y.min() < -3 and train.y.max() > 3  # it goes all the way round


def test_wind_is_stronger_at_low_pressure():
    train = measurements.wind_speed(num=20_000, **ALL).train
    pressure, speed = train.x[:, 0], train.y
    for low, high, expected in ((980, 982, 11.6), (1003, 1007, 7.0), (1038, 1040, 2.15)):
        mean = speed[(pressure > low) & (pressure < high)].mean()
        assert abs(mean - expected * math.gamma(1.5)) < 0.1 * expected


def test_pedestrian_counts_are_poisson_about_their_rate():
    train = measurements.pedestrians(num=20_000, **ALL).train
    hour, longitude, latitude = train.x[:, :3].double().T
    place = train.x[:, 3:].double() @ torch.tensor([0.3, 1.0, 0.7], dtype=torch.float64)
    day = 0.05 + 0.95 * (-((hour - 14) ** 2) / 32).exp()
    rate = 30 * place * day * (-(longitude**2 + (latitude - 51.5) ** 2) / 0.02).exp()
    assert torch.equal(train.x[:, 3:].sum(1), torch.ones(20_000))
    score = (train.y.double() - rate) / rate.sqrt()
    assert abs(score.mean()) < 0.05 and abs(score[rate > 0.5].var() - 1) < 0.06


def test_repayment_rises_and_flattens_with_income():
    train = measurements.repayment(num=20_000, **ALL).train
    income, share = train.x[:, 0].double(), train.y.double()
    mean = 1 - (-income / 30).exp()
    score = (share - mean) / (mean * (1 - mean) / 21).sqrt()  # Beta: variance m (1 - m) / (c + 1)
    assert abs(score.mean()) < 0.03 and abs(score.var() - 1) < 0.05


def test_height_and_weight_grow_and_differ_in_scale():
    data = measurements.height_weight(num=5000, **ALL)
    age, (height, weight) = data.train.x[:, 0], data.train.y.T
    assert data.target.dim == 2 and data.target.scale[1] > 20 * data.target.scale[0]
    assert (height > 0.5).all() and (height < 2.2).all() and (weight > 5).all() and (weight < 130).all()
    residual = height - 0.78 - 0.056 * age
    assert abs(residual.mean()) < 0.005 and abs(residual.std() - 0.05) < 0.003
    ratio = (weight / ((15 + age**2 / 50) * height**2)).log()
    assert abs(ratio.mean()) < 0.01 and abs(ratio.std() - 0.1) < 0.01


def test_cars_lose_value_with_age_and_mileage():
    data = measurements.car_prices(num=5000, **ALL)
    assert data.inputs.names == ("age", "mileage") and data.target.name == "price"
    age, mileage = data.train.x.double().T
    residual = data.train.y.double().log() - math.log(30_000) + 0.1 * age + mileage / 200_000
    assert abs(residual.mean()) < 0.01 and abs(residual.std() - 0.1) < 0.01
    assert abs(mileage[age > 1].div(age[age > 1]).mean() - 11_700) < 200
