"""Double descent: when wider networks, more rows and more epochs hurt, and then help again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.data.mnist1d import mnist1d
from leadline.likelihoods import Categorical
from leadline.models import MLP
from leadline.selection.curves import noisy
from leadline.selection.descent import by_width
from leadline.selection.sweep import Sweep

#: as in the book: Adam at a constant rate, every step on all rows, and labels that are not smoothed
_FULL_BATCH: dict[str, Any] = {
    "likelihood": Categorical(10),
    "optimizer": "adam", "schedule": "constant", "warmup": 0.0, "weight_decay": 0.0, "batch": 10**6, "progress": False,
}  # fmt: skip


def _two_layers(width: int) -> nn.Module:
    return MLP(40, (width, width), 10, activation="relu", p_drop=0.0)


def _fitted_at(found: Sweep, line: int) -> float:
    """Parameters over rows of the narrowest network whose training error is below 2 %; infinite if none is."""
    for k, error in enumerate(found.mean("train")[line]):
        if error < 0.02:
            return float(found.parameters[k] / found.rows[k])
    return float("inf")


@claim(
    "double-descent",
    "With 15 % random labels the test error of ever wider networks falls, rises where parameters are as many as rows, "
    "and falls again below where it was; with clean labels there is no such rise",
    "Understanding Deep Learning, section 8.4 and figure 8.10; Belkin et al. 2019; Nakkiran et al. 2019",
)
def double_descent(full: bool) -> Evidence:
    # The book has 10,000 rows and 4000 steps: here 3000 and 1000, which moves the point where parameters = rows from
    # a width of 77 to 35. Quick: digits that all begin at one place take 600 rows, and the point is at 10.
    widths: tuple[int, ...]
    settings: dict[str, Any]
    if full:
        data = mnist1d(num=6000, test=0.5, val=0.0)
        widths, settings = (4, 6, 8, 12, 16, 20, 24, 32, 40, 56, 100, 200), {"seeds": 12, "epochs": 1000, "lr": 0.005}
    else:
        data = mnist1d(num=2600, test=2000 / 2600, val=0.0, max_translation=1)
        widths, settings = (3, 5, 10, 96), {"seeds": 5, "epochs": 250, "lr": 0.02, "compile": "off", "threads": 1}
    found = by_width(_two_layers, data, widths, noise=(0.15, 0.0), **settings, **_FULL_BATCH)
    bump, mean = found.bump(0), found.mean()
    place = {float(width): k for k, width in enumerate(widths)}
    valley, peak = place[bump.valley], place[bump.peak]
    there = float(found.parameters[peak] / found.rows[peak])
    # a few seeds see that the end is no higher than the first minimum, more of them that it is lower
    rise, descent = bump.rise / bump.rise_error, bump.descent / bump.descent_error
    fitted = [_fitted_at(found, line) for line in (0, 1)]
    clean = float(mean[1, peak] - mean[1, valley])
    return Evidence(
        (
            Check("parameters over rows at the peak, random labels", there, 0.5, 2),
            Check("rise of the test error to the peak, in standard errors", rise, low=3 if full else 2),
            Check("end less the first minimum, in standard errors", descent, high=-3 if full else 1),
            Check("end less the peak, of the rise", (bump.descent - bump.rise) / bump.rise, high=-0.7),
            Check("parameters over rows where training error is below 2 %", fitted[0], 0.5, 2),
            Check("the same with clean labels, over that with random ones", fitted[1] / fitted[0], high=1),
            Check("clean labels: change of the test error from that width to that of the peak", clean, high=0),
        ),
        found,
    )  # fmt: skip


@claim(
    "random-features-descent",
    "Least squares on random features has its worst test error where features are as many as rows; with many more it "
    "ends below its best with few",
    "Belkin et al. 2019; Understanding Deep Learning, notes on double descent",
)
def random_features_descent(full: bool) -> Evidence:
    rows, draws = (600, 20) if full else (300, 8)
    counts = sorted({round(rows * r) for r in (0.03, 0.06, 0.12, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.5, 2.5, 5, 10)})
    errors = torch.stack([_by_features(rows, counts, draw) for draw in range(draws)], -1)  # (counts, draws)
    found = _swept("random features", counts, errors, counts, [rows] * len(counts))
    bump = found.bump()
    return Evidence(
        (
            Check("features over rows at the peak", bump.peak / rows, 0.9, 1.1),
            Check("rise to the peak, in standard errors", bump.rise / bump.rise_error, low=10),
            Check("end less the first minimum, in standard errors", bump.descent / bump.descent_error, high=-3),
        ),
        found,
    )


@claim(
    "more-data-hurts",
    "Where a model can just fit its rows, more rows make it worse: least squares on 300 random features, with 15 % "
    "random labels",
    "Nakkiran et al. 2019; Understanding Deep Learning, notes on double descent and problem 8.4",
)
def more_data_hurts(full: bool) -> Evidence:
    features, draws = 300, 20 if full else 8
    counts = [50, 100, 150, 200, 250, 300, 350, 450, 700, 1500, 3000]
    errors = torch.stack([_by_rows(features, counts, draw) for draw in range(draws)], -1)
    found = _swept("training rows", counts, errors, [features] * len(counts), counts)
    bump = found.bump()
    return Evidence(
        (
            Check("rows over features at the peak", bump.peak / features, 0.8, 1.2),
            Check("rise of the test error with more rows, in standard errors", bump.rise / bump.rise_error, low=10),
            Check("end less the first minimum, in standard errors", bump.descent / bump.descent_error, high=-3),
        ),
        found,
    )


def _by_features(rows: int, counts: Sequence[int], draw: int) -> Tensor:
    """Test errors of the shortest least-squares fit on so many of one draw of features."""
    x, y, new, truth, map_ = _drawn(rows, max(counts), draw)
    left, right = (x @ map_).relu(), (new @ map_).relu()
    return torch.stack([_missed(left[:, :n], y, right[:, :n], truth) for n in counts])


def _by_rows(features: int, counts: Sequence[int], draw: int) -> Tensor:
    x, y, new, truth, map_ = _drawn(max(counts), features, draw)
    left, right = (x @ map_).relu(), (new @ map_).relu()
    return torch.stack([_missed(left[:n], y[:n], right, truth) for n in counts])


def _drawn(rows: int, features: int, draw: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Rows with 15 % random labels, test rows, and directions of features."""
    data = noisy(mnist1d(num=rows + 1000, test=1000 / (rows + 1000), val=0.0, seed=draw), 0.15, draw)
    g = torch.Generator().manual_seed(draw)
    split = data.train, data.test
    x, new = (torch.cat([part.x, torch.ones(len(part), 1)], 1).double() for part in split)
    return x, split[0].y, new, split[1].y, torch.randn(x.shape[1], features, generator=g, dtype=torch.float64)


def _missed(left: Tensor, y: Tensor, right: Tensor, truth: Tensor) -> Tensor:
    target = torch.nn.functional.one_hot(y, 10).double() - 0.1
    slopes = torch.linalg.lstsq(left, target, driver="gelsd", rcond=1e-12).solution
    return ((right @ slopes).argmax(1) != truth).double().mean()


def _swept(axis: str, at: Sequence[int], errors: Tensor, parameters: Sequence[int], rows: Sequence[int]) -> Sweep:
    scores = errors[None].numpy()
    return Sweep(
        axis,
        np.array(at, float),
        ("",),
        "error",
        np.full_like(scores, np.nan),
        scores,
        np.array(parameters),
        np.array(rows),
        True,
    )
