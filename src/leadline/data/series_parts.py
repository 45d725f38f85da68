"""Parts of the time: where validation and test begin, which series have enough of it, and the windows of each part.

A row belongs to the part in which all the values lie that are asked of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from leadline.data.account import Refusal, counted
from leadline.data.cells import Table
from leadline.data.data import Split
from leadline.data.series_rows import Roles, Series
from leadline.data.series_windows import Laid, Windows, answer
from leadline.errors import DataError, UserError
from leadline.settings import real

_MOST_BYTES = 2**30  # of training windows, above which they are taken further apart
_SHOWN = 5


def check_parts(val: float, test: float) -> None:
    """Refuse parts that leave nothing to train on."""
    if not (real("val", val) >= 0 and real("test", test) >= 0 and val + test < 1):
        raise UserError(
            "val and test must be fractions that leave time to train on",
            got=f"val={val}, test={test}",
            do="Usual values are val=0.15 and test=0.2",
        )


def cuts_of(found: Sequence[Series], horizon: int, val: float, test: float, source: str) -> tuple[int, int]:
    """The steps at which validation and test begin, on the clock of all series; each has room for a horizon."""
    if max(map(len, found)) <= horizon:
        raise DataError(
            f"a series must be longer than the horizon of {counted(horizon, 'step')}",
            got=f"{counted(max(map(len, found)), 'value')} in {source}",
            do="Forecast fewer steps, or add earlier values" if horizon > 1 else "Add earlier values",
        )
    begin, end = min(one.begin for one in found), max(one.begin + len(one) for one in found)
    alive = np.zeros(end - begin + 1, dtype=np.int64)
    for one in found:
        alive[one.begin - begin] += 1
        alive[one.begin - begin + len(one)] -= 1
    share = np.cumsum(np.cumsum(alive[:-1])) / sum(map(len, found))  # of all values, up to and with each step
    cut = [begin + int(np.searchsorted(share, part - 1e-9)) + 1 for part in (1 - val - test, 1 - test)]
    tested = min(cut[1], end - horizon) if test > 0 else end
    return min(cut[0], tested - horizon) if val > 0 else tested, tested


def kept_of(
    found: Sequence[Series], roles: Roles, cuts: tuple[int, int], horizon: int, source: str
) -> tuple[list[Series], list[Refusal]]:
    """The series with something to learn from, and why the others are left out."""
    kept: list[Series] = []
    lost: dict[str, list[Series]] = {}
    for one in found:
        values = one.values[: max(0, cuts[0] - one.begin)]
        if len(values) <= horizon:
            lost.setdefault(f"fewer than {horizon + 1} values in the training part", []).append(one)
        elif (values == values[0]).all():
            lost.setdefault("one and the same value in the training part", []).append(one)
        else:
            kept.append(one)
    if not kept:
        why = "; ".join(f"{counted(len(which), 'series', 'series')} with {reason}" for reason, which in lost.items())
        raise DataError(
            f"{roles.target} must vary in the training part, and that must be longer than the horizon of "
            f"{counted(horizon, 'step')}",
            got=f"{why}: the training part of {source} ends after {max(0, cuts[0] - min(o.begin for o in found))} of "
            f"{max(map(len, found))} steps",
            do="Pass a longer series, forecast fewer steps, or test and validate on less",
        )
    refused = []
    for reason, which in lost.items():
        names = ", ".join(one.name for one in which[:_SHOWN]) + (", …" if which[_SHOWN:] else "")
        refused.append(Refusal(f"{roles.group} {names}: {reason}", sum(len(one.rows) for one in which)))
    return kept, refused


def until_of(kept: Sequence[Series], cut: int) -> float | None:
    """The moment of the first step after the training part; None where there is none."""
    later = [float(one.moments[max(0, cut - one.begin)]) for one in kept if cut - one.begin < len(one)]
    return min(later) if later else None


def too_broken(source: str, laid: Sequence[Laid], cut: int, horizon: int) -> DataError:
    """The message that no step of the training part has H values after it of which none was filled in.

    Args:
        cut: the step at which the training part ends.
    """
    runs = [0]
    for own in laid:
        for made in own.one.made[1 : max(0, cut - own.one.begin)]:  # a forecast has a step before it
            runs.append(0 if made else runs[-1] + 1)
    return DataError(
        f"{source} must have {counted(horizon, 'value')} in a row somewhere in its training part",
        got=f"at most {max(runs)} between missing steps",
        do=f"Forecast at most {max(1, max(runs))}, pass gaps='join', or add the rows that are missing",
    )


def _bounds(own: Laid, inputs: Windows, cuts: tuple[int, int], part: int) -> tuple[int, int]:
    """The steps of a series between which the values of a part lie."""
    n, begin = len(own.one), own.one.begin
    edges = [0, *(min(max(cut - begin, 0), n) for cut in cuts), n]
    first, end = edges[part], edges[part + 1]
    if part == 0:  # whole windows, if there are any; else half of what there is
        room = end - inputs.horizon
        first = inputs.window if room >= inputs.window else max(1, (room + 1) // 2)
    return first, end


def every_of(laid: Sequence[Laid], inputs: Windows, cuts: tuple[int, int]) -> int:
    """Steps from one window to the next, so that those of the training part fit in the memory."""
    bounds = [_bounds(own, inputs, cuts, 0) for own in laid]
    count = sum(max(0, end - first - inputs.horizon + 1) for first, end in bounds)
    return max(1, -(-count * inputs.length * len(inputs.channels) * 4 // _MOST_BYTES))


def origins_of(own: Laid, inputs: Windows, cuts: tuple[int, int], part: int, step: int) -> np.ndarray:
    """The origins of a part, every `step`-th of them, the last among them."""
    return inputs.whole(own, *_bounds(own, inputs, cuts, part))[::-1][::step][::-1]


def split_of(laid: Sequence[Laid], inputs: Windows, cuts: tuple[int, int], part: int, step: int, table: Table) -> Split:
    """The windows of a part."""
    origins = [origins_of(own, inputs, cuts, part, step) for own in laid]
    counts = torch.tensor([len(some) for some in origins])
    pairs = list(zip(laid, origins))
    code = torch.arange(len(laid)).repeat_interleave(counts)
    return Split(
        torch.cat([inputs.windows(own, some) for own, some in pairs]),
        answer(np.concatenate([inputs.asked(own, some) for own, some in pairs])),
        rows=torch.from_numpy(np.concatenate([table.numbers[own.one.rows[some]] for own, some in pairs])),
        group=code if inputs.several else None,
        time=torch.from_numpy(np.concatenate([own.one.moments[some] for own, some in pairs])),
    )
