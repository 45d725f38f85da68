"""What measured values must be, and how far a point estimate is from them."""

from __future__ import annotations

import math

from torch import Tensor

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError


def check_values(
    y: Tensor, dim: int = 1, least: float = -math.inf, most: float = math.inf, *, above: bool = False
) -> None:
    """y must be (n,), or (n, dim), of floating-point numbers from `least` (`above`: more than it) to `most`."""
    wanted = "(n,)" if dim == 1 else f"(n, {dim})"
    if not (y.dim() == 1 if dim == 1 else y.shape[1:] == (dim,)):
        do = f"Pass y of shape {wanted}" + (f", or use dim={y.shape[1]}" if y.dim() == 2 else "")
        do = "Pass y.squeeze(1)" if dim == 1 and y.shape[1:] == (1,) else do
        raise ShapeError(f"y must have shape {wanted}", got=f"y of shape {tuple(y.shape)}", do=do)
    if not y.is_floating_point():
        raise DataError("y must hold floating-point numbers", got=f"y of type {y.dtype}", do="Pass y.float()")
    outside = (y <= least if above else y < least) | (y > most)
    wrong = outside.reshape(len(y), -1).any(1).nonzero().flatten()
    if len(wrong):
        row = int(wrong[0])
        start = f"more than {least:g}" if above else f"at least {least:g}"
        legal = start if most == math.inf else f"between {least:g} and {most:g}"
        raise DataError(
            f"y must be {legal}",
            got=f"{len(wrong)} outside, the first {y[row].reshape(-1)[0].item():g} in row {row}",
            do="Mend or leave out these rows, or choose a likelihood of all real numbers, such as Normal",
        )


def check_one_output(family: str, target: Target) -> None:
    """The target must be one number a row."""
    if target.dim != 1:
        raise UserError(
            f"likelihood {family} must be given one number a row",
            got=f"{target}",
            do="Use Normal, or a MultivariateNormal if the outputs go together",
        )


def unit_of(target: Target) -> tuple[float, ...]:
    """The unit of a target that is never negative: its mean, or its scale where the mean is not known.

    >>> unit_of(Target("positive", shift=(20.0,), scale=(5.0,))), unit_of(Target("positive"))
    ((20.0,), (1.0,))
    """
    return target.shift if all(shift > 0 for shift in target.shift) else target.scale


def errors(point: Tensor, y: Tensor, shift: Tensor, scale: Tensor) -> dict[str, Tensor]:
    """What `error_summary` needs, one value a row; point and y (B, dim).

    y is centred by the training mean: its variance over a split is then free of cancellation.
    """
    error, centred = y - point, (y - shift) / scale
    return {
        "squared_error": error.square().mean(-1),
        "mae": error.abs().mean(-1),
        "scaled_error": (error / scale).square().mean(-1),
        "y": centred.mean(-1),
        "y_squared": centred.square().mean(-1),
    }


def error_summary(means: dict[str, float]) -> dict[str, float]:
    """rmse, mae and r2 out of the means of `errors`."""
    spread = means["y_squared"] - means["y"] ** 2
    r2 = 1 - means["scaled_error"] / spread if spread > 1e-12 else math.nan
    return {"rmse": math.sqrt(means["squared_error"]), "mae": means["mae"], "r2": r2}
