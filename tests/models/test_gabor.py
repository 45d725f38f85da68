"""The two-parameter wave: its formula, its place in fit, and where it starts."""

import math

import pytest
import torch

import leadline as ll
from leadline.data.inputs import Identity
from leadline.likelihoods import Normal
from leadline.models import Gabor


@pytest.mark.parametrize(("phi0", "phi1"), [(-5.0, 25.0), (0.0, 16.6), (7.0, 3.0)])
def test_it_computes_its_formula(phi0, phi1):
    model = Gabor().double()
    model.set(phi0, phi1)
    for x in (-15.0, -1.0, 0.0, 4.2):
        u = phi0 + 0.06 * phi1 * x
        wanted = math.sin(u) * math.exp(-u * u / 8)
        assert model(torch.tensor([[x]], dtype=torch.float64)).item() == pytest.approx(wanted, abs=1e-12)


def test_a_larger_shift_moves_it_left_and_a_larger_squeeze_narrows_it():
    x = torch.linspace(-15, 15, 3001)[:, None]
    model = Gabor()

    def peak_and_width(phi0, phi1):
        model.set(phi0, phi1)
        y = model(x).detach()[:, 0]
        return float(x[y.argmax(), 0]), float((y.abs() > 0.3).float().mean())

    (left, _), (right, wide), (_, narrow) = (
        peak_and_width(2.0, 10.0),
        peak_and_width(0.0, 10.0),
        peak_and_width(0, 20.0),
    )
    assert left < right and narrow < wide


def test_fit_finds_the_valley_of_the_source():
    data = ll.data.gabor(val=0.0, test=0.0).with_(inputs=Identity())
    model = Gabor()
    model.set(-0.5, 15.0)
    run = ll.fit(
        model, data, likelihood=Normal(variance="fixed", sigma=0.16), optimizer="sgd", momentum=0.0, lr=0.02,
        schedule="constant", warmup=0.0, weight_decay=0.0, batch=28, epochs=60, progress=False, compile="off",
        threads=1,
    )  # fmt: skip
    assert abs(model.phi0.item()) < 0.5 and 14 < model.phi1.item() < 20
    assert run.evaluate("train")["rmse"] < 0.2


def test_starts_differ_by_seed_and_stay_near_what_was_asked():
    torch.manual_seed(0)
    starts = torch.stack([Gabor(squeeze=20.0).phi1.detach().flatten() for _ in range(50)])
    assert float(starts.min()) >= 18 and float(starts.max()) <= 22 and float(starts.std()) > 0.5
