"""What moves with its input and what stays: exact cases, and transforms against plain arrays."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.lens import equivariance, shift_consistency
from leadline.lens.equivariance import _move

X = torch.randn(3, 2, 12, 12, generator=torch.Generator().manual_seed(0))


def test_a_circular_convolution_is_equivariant_to_translations_only():
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular")
    view = equivariance(conv, X, ["translate(2, -3)", "flip", "rotate(90)"])
    assert view.equivariance[0] < 1e-6 < 0.1 < view.equivariance[1:].min()
    assert (view.invariance > 0.1).all()
    assert len(view.pictures) == 5 and view.plot().axes
    json.dumps(view.to_dict(), allow_nan=False)


def test_zeros_at_the_border_break_it_there_alone():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3, padding=1))
    at = lambda margin: equivariance(net, X, "shift(1, 2)", margin=margin).equivariance[0]  # noqa: E731
    assert at(0) > 0.01 and at(4) < 1e-6


def test_pointwise_functions_follow_every_transform_of_positions():
    view = equivariance(nn.Conv2d(2, 3, 1, bias=False), X)
    assert np.abs(view.equivariance).max() < 1e-6 and len(view.transforms) == 5


def test_means_stay():
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    view = equivariance(net, X, ["translate(1, 5)", "flip", "flip_rows", "rotate(90)", "rotate(180)"])
    assert view.invariance.max() < 1e-5 and np.isnan(view.equivariance).all()  # it has no positions
    assert view.plot().axes


def test_a_stride_keeps_its_own_shifts_only():
    torch.manual_seed(0)
    net = nn.Conv2d(2, 3, 3, stride=2, padding=1, padding_mode="circular")
    even, odd = equivariance(net, X, ["translate(2, 4)", "translate(1, 4)"]).equivariance
    assert even < 1e-6 and odd > 0.1


def test_functions_modules_inside_and_any_transform():
    blur = lambda x: (x + x.roll(1, -1)) / 2  # noqa: E731
    view = equivariance(blur, X, {"mirror": lambda x: x.flip(-2), "left": lambda x: x.flip(-1)})
    assert view.equivariance[0] < 1e-7 and view.equivariance[1] > 0.1
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), nn.Flatten(), nn.Linear(432, 2))
    assert equivariance(net, X, "translate(3, 1)", "0").equivariance[0] < 1e-6
    signal = nn.Conv1d(1, 2, 5, padding=2, padding_mode="circular")
    view = equivariance(signal, torch.randn(2, 1, 20))
    assert view.transforms == ("translate(2)", "flip") and view.equivariance[0] < 1e-6 and view.plot().axes


def test_transforms_are_those_of_arrays():
    a = X.numpy()
    one = [1.0, 1.0]
    assert np.array_equal(_move("translate(2, -3)", 2)(X, one), np.roll(a, (2, -3), (2, 3)))
    shifted = _move("shift(2, -3)", 2)(X, one).numpy()
    assert np.array_equal(shifted[:, :, 2:, :-3], a[:, :, :-2, 3:]) and not shifted[:, :, :2].any()
    assert not shifted[..., -3:].any()
    assert np.array_equal(_move("rotate(90)", 2)(X, one), np.rot90(a, 1, (2, 3)))
    near = _move("rotate(90.0001)", 2)(X, one).numpy()  # interpolated, the same way round
    assert np.allclose(near, np.rot90(a, 1, (2, 3)), atol=1e-3)
    twice = _move("scale(2)", 2)(X, one).numpy()
    assert np.allclose(
        twice[0, 0, 5, 5], (9 * a[0, 0, 5, 5] + 3 * a[0, 0, 5, 6] + 3 * a[0, 0, 6, 5] + a[0, 0, 6, 6]) / 16, atol=1e-5
    )
    half = _move("translate(1, 0)", 2)(X, [0.5, 0.5]).numpy()
    assert np.allclose(half, (a + np.roll(a, 1, 2)) / 2)


def test_rotation_is_that_of_scipy():
    ndimage = pytest.importorskip("scipy.ndimage")
    smooth = torch.tensor(ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(31, 21)), 3))[None, None]
    ours = _move("rotate(25)", 2)(smooth, [1.0, 1.0])[0, 0].numpy()
    theirs = ndimage.rotate(smooth[0, 0].numpy(), 25, reshape=False, order=1)
    inner = (slice(9, -9), slice(7, -7))
    assert np.allclose(ours[inner], theirs[inner], atol=0.02 * np.abs(theirs).max())


def test_consistency_by_hand():
    class Left(nn.Module):
        """Which column of a one-row picture is brightest."""

        def forward(self, x):
            return x[:, 0, 0]

    x = torch.eye(6)[:2, None, None]
    view = shift_consistency(Left(), x, 1)
    assert view.agreement.shape == (3, 3) and view.agreement[:, 1].tolist() == [1.0] * 3  # up and down changes nothing
    assert view.agreement[:, 0].tolist() == [0.0] * 3
    assert view.consistency == pytest.approx(3 * 3 * 2 / (9 * 8))  # three answers, each three times
    assert view.plot().axes
    json.dumps(view.to_dict())


def test_pools_lose_consistency_and_a_global_one_keeps_it():
    torch.manual_seed(0)
    x = torch.randn(40, 1, 12, 12)
    even = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    uneven = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 8))
    assert shift_consistency(even, x, 2).consistency > 0.999 > shift_consistency(uneven, x, 2).consistency
    assert shift_consistency(uneven, x, 2, wrap=False).consistency < 1
    binary = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert shift_consistency(binary, x, 1).consistency == pytest.approx(1, abs=0.05)


def test_messages_help():
    with pytest.raises(UnknownName, match="transform"):
        equivariance(nn.Conv2d(2, 2, 1), X, "turn(90)")
    with pytest.raises(UserError, match="must have 2 numbers"):
        equivariance(nn.Conv2d(2, 2, 1), X, "translate(1)")
    with pytest.raises(UserError, match="factor above 0"):
        equivariance(nn.Conv2d(2, 2, 1), X, "scale(0)")
    with pytest.raises(ShapeError, match="margin must leave"):
        equivariance(nn.Conv2d(2, 2, 1), X, "flip", margin=6)
    with pytest.raises(ShapeError, match="one answer a row"):
        shift_consistency(nn.Conv2d(2, 2, 1), X)
