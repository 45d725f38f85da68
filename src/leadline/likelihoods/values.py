"""What measured values must be, and how far a point estimate is from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
            do="Correct or leave out these rows, or choose a likelihood of all real numbers, such as Normal",
        )


def check_one_output(family: str, target: Target) -> None:
    """The target must be one number a row."""
    if target.dim != 1:
        raise UserError(
            f"likelihood {family} needs one number a row",
            got=f"{target}",
            do=f'Use one for each of them, with likelihood="Joint" and families="{family}"; or Normal, or a '
            "MultivariateNormal if the outputs are correlated",
        )


def unit_of(target: Target) -> tuple[float, ...]:
    """The unit of a target that is never negative: its mean, or its scale where the mean is not known.

    >>> unit_of(Target("positive", shift=(20.0,), scale=(5.0,))), unit_of(Target("positive"))
    ((20.0,), (1.0,))
    """
    return target.shift if all(shift > 0 for shift in target.shift) else target.scale


NAMED = 16  # outputs up to which each has metrics of its own: beyond it nobody reads them, and they cost time
_ROUNDING = 1e-6  # of a mean of squares in float32: a spread below it is none


def names_of(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Names of several columns of y, for their metrics: as given, or 1, 2 …

    >>> names_of((), 2), names_of(("height", "weight"), 2)
    (('1', '2'), ('height', 'weight'))
    """
    found = tuple(map(str, names)) or tuple(str(k + 1) for k in range(count))
    if len(found) != count or len(set(found)) != count:
        raise UserError(
            "names must name every column of y once",
            got=", ".join(found),
            do=f"Give {count} different names, or none",
        )
    return found


def errors(point: Tensor, y: Tensor, shift: Tensor, scale: Tensor, names: Sequence[str] = ()) -> dict[str, Tensor]:
    """What `error_summary` needs, one value a row; point and y (B, dim), with `names` where dim > 1.

    y is centred by the training mean: its variance over a split is then free of cancellation.
    """
    error, centred = y - point, (y - shift) / scale
    found = {
        "squared_error": error.square(),
        "mae": error.abs(),
        "scaled_error": (error / scale).square(),
        "centred": centred,
        "square": centred.square(),
    }
    if 1 < len(names) <= NAMED:  # units differ: column by column
        return {
            f"{key}_{name}": v for key, each in found.items() for name, v in zip(names, each.unbind(-1), strict=True)
        }
    if names:  # all in units of their deviation
        found = {key: found[key] for key in ("scaled_error", "centred", "square")}
    return {key: each.mean(-1) for key, each in found.items()}


def error_summary(means: dict[str, float], names: Sequence[str] = ()) -> dict[str, float]:
    """rmse, mae and r2 out of the means of `errors`.

    Of several outputs r2 is the mean over them, which has no unit, and each has all three by its name. Of more than
    `NAMED` there is one r2 of them all, each in the unit of its deviation.
    """
    if not names:
        return {"rmse": math.sqrt(means["squared_error"]), "mae": means["mae"], "r2": _r2(means)}
    if len(names) > NAMED:
        return {"r2": _r2(means)}
    r2 = {name: _r2(means, f"_{name}") for name in names}
    known = [value for value in r2.values() if not math.isnan(value)]
    found = {"r2": sum(known) / len(known) if known else math.nan}
    for name in names:
        rmse = math.sqrt(means[f"squared_error_{name}"])
        found |= {f"rmse_{name}": rmse, f"mae_{name}": means[f"mae_{name}"], f"r2_{name}": r2[name]}
    return found


def _r2(means: dict[str, float], of: str = "") -> float:
    square = means[f"square{of}"]
    spread = square - means[f"centred{of}"] ** 2
    return 1 - means[f"scaled_error{of}"] / spread if spread > max(1e-12, _ROUNDING * square) else math.nan
