"""Heat maps: bumps, peaks between cells, and shares of points that are found."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import HeatMaps, likelihood_for
from leadline.likelihoods.margin import NoDensity
from leadline.testing import check_likelihood


def points(*shape, seed=0):
    y = torch.rand(*shape, 3, generator=torch.Generator().manual_seed(seed))
    y[..., 2] = (y[..., 2] > 0.3).float()
    return y


def test_it_keeps_the_contract():
    torch.manual_seed(0)
    check_likelihood(HeatMaps(4, bump=1.2), torch.randn(3, 4, 6, 5), points(3, 4))


def test_the_loss_by_hand():
    torch.manual_seed(0)
    output, y, s = torch.randn(2, 3, 4, 6, dtype=torch.float64), points(2, 3).double(), 0.8
    losses = HeatMaps(3, bump=s).loss(output, y)
    for b in range(2):
        wanted = 0.0
        for j, (x, v, seen) in enumerate(y[b].tolist()):
            for row in range(4):
                for column in range(6):
                    d2 = (column + 0.5 - 6 * x) ** 2 + (row + 0.5 - 4 * v) ** 2
                    wanted += seen * (float(output[b, j, row, column]) - math.exp(-d2 / (2 * s * s))) ** 2
        assert float(losses[b]) == pytest.approx(wanted, rel=1e-9)
    assert not bool((y[..., 2] == 1).all())


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.6, 3), st.floats(0.2, 5))
@settings(max_examples=40, deadline=None)
def test_a_true_bump_is_found_between_its_cells(x, v, width, height):
    """Wherever it is, the rim too, and however high."""
    likelihood = HeatMaps(1, bump=width)
    maps = height * likelihood.bumps(torch.tensor([[[x, v, 1.0]]], dtype=torch.float64), (9, 14))
    found = likelihood.prediction(maps).points[0, 0].tolist()
    assert found == pytest.approx([x, v], abs=1e-6)


def test_peaks_of_nothing_and_of_noise_stay_in_their_cell():
    torch.manual_seed(0)
    for maps in (
        torch.zeros(1, 2, 5, 5),
        -torch.rand(1, 2, 5, 5),
        torch.randn(1, 2, 5, 5),
        torch.full((1, 2, 5, 5), -1e9),
    ):
        prediction = HeatMaps(2).prediction(maps)
        peak = maps.flatten(2).argmax(2)
        centre = torch.stack([peak % 5, peak // 5], -1) / 5 + 0.1
        assert bool(((prediction.points - centre).abs() <= 0.1 + 1e-6).all())
        assert bool((prediction.scores >= 0).all() & (prediction.scores <= 1).all())
    assert HeatMaps(1).prediction(torch.ones(1, 1, 1, 1)).points.tolist() == [[[0.5, 0.5]]]


def test_metrics_count_all_seen_points_alike():
    truth = torch.tensor([[[0.3, 0.3, 1.0], [0.7, 0.5, 1.0], [0.5, 0.9, 0.0]], [[0.5, 0.5, 1.0], [0, 0, 0], [0, 0, 0]]])
    said = truth.clone()
    said[0, 0, 0] += 0.04  # of a map twice as broad as high: the longer side is the width
    said[0, 1, 1] += 0.16  # 0.08 of the longer side
    said[0, 2] = 0.1  # not seen
    said[1, 0, 0] += 0.3
    likelihood = HeatMaps(3)
    measures = likelihood.measures(likelihood.bumps(said, (16, 32)), truth)
    summary = likelihood.summary({name: float(value.mean()) for name, value in measures.items()})
    assert summary["pck_0.05"] == pytest.approx(1 / 3)
    assert summary["pck_0.1"] == pytest.approx(2 / 3)
    assert summary["distance"] == pytest.approx((0.04 + 0.08 + 0.3) / 3, abs=1e-4)
    assert set(summary) == {"loss", "distance", "pck_0.05", "pck_0.1"}


def test_a_prediction_has_the_form_of_y():
    likelihood, y = HeatMaps(2, names=("head", "foot")), points(3, 2)
    prediction = likelihood.prediction(0.9 * likelihood.bumps(y, (12, 12)))
    torch.testing.assert_close(prediction.mode[..., :2], y[..., :2], atol=1e-4, rtol=0)
    assert prediction.mode.shape == y.shape and prediction.names == ("head", "foot") and len(prediction) == 3
    assert bool((prediction.scores > 0.7).all() & (prediction.scores <= 0.9).all())
    with pytest.raises(NoDensity, match="Use points"):
        prediction.log_prob(y)


def test_loss_and_measures_can_be_recorded_and_batched():
    torch.manual_seed(0)
    likelihood, output, y = HeatMaps(2), torch.randn(3, 2, 5, 6), points(3, 2)
    other, others = torch.randn(3, 2, 5, 6), points(3, 2, seed=7)
    tape = make_fx(lambda output, y: likelihood.loss(output, y))(output, y)
    torch.testing.assert_close(tape(other, others), likelihood.loss(other, others))
    found = vmap(likelihood.measures)(torch.stack([output, other]), torch.stack([y, others]))
    for name, value in likelihood.measures(other, others).items():
        torch.testing.assert_close(found[name][1], value)


def test_it_follows_from_the_target():
    target = Target("points", "pose", classes=("head", "hand", "foot"))
    assert str(target) == "pose: 3 points" and target.spatial
    likelihood = likelihood_for(target, bump=2.0)
    assert likelihood.config == {"num_points": 3, "bump": 2.0, "names": ["head", "hand", "foot"]}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: HeatMaps(2).check(torch.zeros(3, 2)), ShapeError, "shape \\(n, 2, 3\\)"),
        (lambda: HeatMaps(2).check(torch.ones(3, 2, 3).long()), DataError, "floating-point"),
        (lambda: HeatMaps(1).check(torch.tensor([[[0.5, 0.5, 2.0]]])), DataError, "1 where it is seen"),
        (lambda: HeatMaps(1).check(torch.tensor([[[12.0, 0.5, 1.0]]])), DataError, "relative to the picture.*12"),
        (lambda: HeatMaps(1).check(torch.zeros(1, 1, 3)), DataError, "at least one"),
        (lambda: HeatMaps(2).check_output(torch.zeros(3, 2), points(3, 2)), ShapeError, "2 maps"),
        (lambda: HeatMaps(2, bump=0.0), UserError, "bump"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()
