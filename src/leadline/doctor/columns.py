"""Are the columns of x finite, varied, on one scale, and free of the answer?

Statistics are of a sample of the rows where there are many; whatever they accuse is then checked on all rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from leadline.data.data import Data, Split
from leadline.data.graph_inputs import GraphInputs
from leadline.data.graph_made import nodes_alone
from leadline.doctor.finding import Finding
from leadline.doctor.words import column, columns, some

# Rows and values in the sample. 4096 rows give a standard deviation within 2 %, far finer than any threshold below.
SAMPLE_ROWS, SAMPLE_VALUES = 4096, 2_000_000
# Values held at a time while every row is read: a few megabytes, which fit a processor's cache.
CHUNK_VALUES = 500_000

# A leak of a real target: at |correlation| 0.999 a straight line in one column explains 99.8 % of y's variance, which
# measured columns of real data do not do.
LEAK_CORRELATION = 0.999
# Fewer rows than this can agree by chance or by design (truth tables).
LEAK_ROWS = 20
# Two columns that agree in this many bits do so by chance once in 2^64 times, whatever the number of columns.
DUPLICATE_BITS = 64
# Scales. First weights assume inputs of about one: at a deviation of 100 the first layer's outputs are a hundred times
# too large, at a mean of 100 deviations all rows look alike to it, and columns a thousandfold apart need learning
# rates a million apart. Raw pixels (0 … 16) or measurements in ordinary units stay below each.
LARGE_DEVIATION, LARGE_OFFSET, SCALE_RATIO, SMALL_SCALE = 100.0, 100.0, 1e3, 1e-3
# Images have one scale: pixels up to 16 have a deviation of 6, up to 255 one of 60 to 100.
LARGE_IMAGE = 30.0


def check_columns(data: Data, *, target_fits: bool) -> list[Finding]:
    """Args:
    target_fits: whether y may be compared with the columns.
    """
    if isinstance(data.inputs, GraphInputs) and data.inputs.level == "node" and data.inputs.graph is not None:
        x, one_hot = data.inputs.graph.x, "one-hot" in data.inputs.roles.features
        alike = bool((x == x[:1]).all())  # edges may tell all: `leadline.doctor.graphs` sees whether they are read
        return [] if one_hot or alike else check_columns(nodes_alone(data), target_fits=target_fits)
    if not data.train.x.is_floating_point():  # tokens and codes: the model looks them up, they have no scale
        return []
    for name, split in data.splits():
        found = _non_finite(data, name, split)
        if found is not None:
            return [found]
    rows = sample_rows(data.train.x)
    raw = data.train.x[rows] if rows is not None else data.train.x
    findings = []
    if raw.dim() == 2 and len(raw) > 1:
        view = _View(raw, data.inputs.names, len(data.train))
        findings += _constant(view, data)
        findings += _duplicates(view, data)
        if target_fits and raw.shape[1] > 1:
            y = data.train.y[rows] if rows is not None else data.train.y
            findings += _leaks_real(view, y) if not data.target.discrete else _leaks_class(view, y)
    return findings + _scale(data, raw)


def sample_rows(x: Tensor) -> Tensor | None:
    """Numbers of evenly spaced rows, or None where all rows are few enough."""
    width = max(x[:1].numel(), 1)
    count = max(64, min(SAMPLE_ROWS, SAMPLE_VALUES // width))
    if len(x) <= count:
        return None
    return torch.linspace(0, len(x) - 1, count, device=x.device, dtype=torch.float64).long()


def chunks(x: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The rows in parts that fit a cache, each with the number of its first row."""
    count = max(1, CHUNK_VALUES // max(x[:1].numel(), 1))
    for start in range(0, len(x), count):
        yield start, x[start : start + count]


class _View:
    """A sample of the raw rows with the figures that several checks share. Missing values (nan) are left out."""

    def __init__(self, raw: Tensor, names: tuple[str, ...], total: int):
        self.raw, self.names, self.width, self.total = raw, names, raw.shape[1], total
        self.low, self.high = raw.amin(0), raw.amax(0)  # aminmax, std_mean: ten times slower down the columns
        self.complete = bool((self.high - self.low).sum().isfinite())
        if not self.complete:
            lost = raw.isnan()
            self.low = raw.masked_fill(lost, torch.inf).amin(0)
            self.high = raw.masked_fill(lost, -torch.inf).amax(0)
        self.constant = self.low >= self.high  # also columns without a single value

    @property
    def of(self) -> str:
        """Says so where only some rows were read."""
        return "" if len(self.raw) == self.total else f" (sample of {len(self.raw)} of {self.total} rows)"


def _non_finite(data: Data, name: str, split: Split) -> Finding | None:
    for start, part in chunks(split.x):
        encoded = data.inputs.encode(part)
        if bool(encoded.sum().isfinite()):  # one pass: a sum is finite unless a value is not (or it overflows)
            continue
        wrong = (~encoded.isfinite()).flatten(1)
        if not bool(wrong.any()):
            continue
        rows = wrong.any(1).nonzero().flatten()
        source = split.row_numbers(rows + start)
        where = f"{name} split, row {source[0]}, {_column_of(data, part[rows[0]], encoded[rows[0]])}"
        bad = encoded.flatten(1)[wrong][0].item()
        read = "" if start + len(part) == len(split) else f" (of the first {start + len(part)}; the rest was not read)"
        found = f"{bad:g}; {int(wrong.sum())} such values, in rows {some(source)}{read}"
        return Finding(
            "non-finite-input",
            "error",
            "every value that the network reads must be a finite number",
            where,
            found,
            "Fill in missing values (a table read by leadline does so by itself) or leave these rows out",
        )
    return None


def _column_of(data: Data, raw: Tensor, encoded: Tensor) -> str:
    """The raw column at fault where it shows there, else the encoded one."""
    at_fault = (~raw.flatten().isfinite()).nonzero().flatten()
    if raw.is_floating_point() and len(at_fault):
        return column(int(at_fault[0]), data.inputs.names, raw.numel())
    j = int((~encoded.flatten().isfinite()).nonzero()[0])
    return column(j, data.inputs.names, encoded.numel())


def _constant(view: _View, data: Data) -> list[Finding]:
    suspects = view.constant.nonzero().flatten()
    if not len(suspects):
        return []
    if len(view.raw) < view.total:  # what is constant in the sample may vary elsewhere
        x = data.train.x[:, suspects]
        same = (x == view.low[suspects]) | x.isnan()
        suspects = suspects[same.all(0)]
    blank = (view.low[suspects] == 0) & (view.high[suspects] == 0)
    findings = []
    # A column of zeros is what an unused pixel, word or category looks like: said, not shown.
    for chosen, severity in ((suspects[~blank], "warning"), (suspects[blank], "note")):
        if len(chosen):
            value = view.low[chosen[0]].item()
            found = f"{value:g} in all {view.total} rows" if value < torch.inf else "no value in any row"
            what = "a column never changes" if len(chosen) == 1 else f"{len(chosen)} columns never change"
            where = columns(chosen.tolist(), view.names, view.width)
            do = "Leave it out: it cannot inform a prediction"
            findings.append(Finding("constant-column", severity, what, where, found, do))
    return findings


def _duplicates(view: _View, data: Data) -> list[Finding]:
    keys = _bits(view.raw[:512])  # enough to clear columns that differ; the rest are compared in full
    generator = torch.Generator().manual_seed(0)
    factor = torch.randint(-(2**62), 2**62, (len(keys),), generator=generator).to(keys.device) | 1
    digest = (keys * factor[:, None]).sum(0)  # equal columns have equal sums, others practically never
    order = digest.argsort()
    twins = (digest[order][1:] == digest[order][:-1]).nonzero().flatten().tolist()
    pairs = [tuple(sorted((int(order[i]), int(order[i + 1])))) for i in twins]
    pairs = [pair for pair in pairs if not bool(view.constant[pair[0]]) and _equal(data.train.x, *pair)]
    findings = []
    plain = [pair for pair in pairs if _information(view.raw[:, pair[0]]) >= DUPLICATE_BITS]
    binary = [pair for pair in plain if _two_valued(view, pair[0])]
    # Indicators coincide in honest data (two words that always come together); measured values do not.
    for chosen, severity in (([p for p in plain if p not in binary], "warning"), (binary, "note")):
        if chosen:
            a, b = chosen[0]
            where = f"{column(a, view.names, view.width)} and {column(b, view.names, view.width)}"
            found = f"equal in all {view.total} rows" + (f"; {len(chosen)} such pairs" if len(chosen) > 1 else "")
            do = "Keep one of them: the copy adds weights but no information"
            findings.append(Finding("duplicate-column", severity, "two columns hold the same values", where, found, do))
    return findings


def _bits(x: Tensor) -> Tensor:
    """Values as whole numbers, equal where the values are equal (-0 and 0 too)."""
    x = x + 0.0
    sizes = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return x.view(sizes[x.element_size()]).long()


def _equal(x: Tensor, a: int, b: int) -> bool:
    return bool(((x[:, a] == x[:, b]) | (x[:, a].isnan() & x[:, b].isnan())).all())


def _information(values: Tensor) -> float:
    """Bits that it takes to say this column when its values' frequencies are known: n times their entropy."""
    counts = values.unique(return_counts=True)[1].double()
    p = counts / counts.sum()
    return float(-(counts * p.log2()).sum())


def _two_valued(view: _View, j: int) -> bool:
    values = view.raw[:, j]
    return bool(((values == view.low[j]) | (values == view.high[j]) | values.isnan()).all())


def _leaks_real(view: _View, y: Tensor) -> list[Finding]:
    if len(y) < LEAK_ROWS:
        return []
    x = view.raw.double()
    y = y.double().reshape(len(y), -1)
    if not view.complete:
        x = x.where(~x.isnan(), x.nanmean(0).nan_to_num())
    x, y = x - x.mean(0), y - y.mean(0)
    scale = x.norm(dim=0)[:, None] * y.norm(dim=0)
    correlation = torch.where(scale > 0, (x.T @ y) / scale, torch.zeros_like(scale)).abs()
    correlation[view.constant] = 0
    best, _ = correlation.max(1)
    guilty = (best > LEAK_CORRELATION).nonzero().flatten().tolist()
    if not guilty:
        return []
    return [_leak(view, guilty, f"its correlation with the target is {float(best[guilty[0]]):.5f}{view.of}")]


def _leaks_class(view: _View, y: Tensor) -> list[Finding]:
    """A column of one value for each class, or one indicator column for each class (all but one will do)."""
    if len(y) < LEAK_ROWS:
        return []
    few = slice(0, 256)  # enough to clear honest columns; the rest are read in full
    guilty = (_fixed_by_class(view.raw[few], y[few]) & ~view.constant).nonzero().flatten()
    if len(guilty):
        guilty = guilty[_fixed_by_class(view.raw[:, guilty], y)]
    if not len(guilty):
        return []
    classes, first = _first_rows(y)
    values = view.raw[first][:, guilty]  # (C, suspects): the one value of each class
    if len(classes) < 2 or len(y) < 5 * len(classes):
        return []
    distinct = (values.sort(0).values.diff(dim=0) != 0).sum(0) + 1
    copies = guilty[distinct == len(classes)].tolist()
    if copies:
        return [_leak(view, copies, f"it takes one value for each of the {len(classes)} classes and no other{view.of}")]
    alone = ((values == values.max(0).values).sum(0) == 1) & (distinct == 2)
    singled = values[:, alone].argmax(0).unique()
    if len(singled) >= len(classes) - 1:
        return [_leak(view, guilty[alone].tolist(), f"together they spell out the {len(classes)} classes{view.of}")]
    return []


def _fixed_by_class(x: Tensor, y: Tensor) -> Tensor:
    """For each column: do all rows of one class hold one value?"""
    order = y.argsort()
    x, y = x[order], y[order]
    return ((x[1:] == x[:-1]) | (y[1:] != y[:-1])[:, None]).all(0)


def _first_rows(y: Tensor) -> tuple[Tensor, Tensor]:
    order = y.argsort(stable=True)
    fresh = torch.ones(len(y), dtype=torch.bool, device=y.device)
    fresh[1:] = y[order][1:] != y[order][:-1]
    return y[order][fresh], order[fresh]


def _leak(view: _View, guilty: list[int], found: str) -> Finding:
    where = columns(guilty, view.names, view.width)
    do = "Leave it out unless it is known before the answer is; the model would learn to copy it"
    return Finding("target-leak", "warning", "a column gives the answer away", where, found, do)


def _scale(data: Data, raw: Tensor) -> list[Finding]:
    x = data.inputs.encode(raw)
    if not x.is_floating_point() or len(x) < 2:
        return []
    do = "Standardise each column to mean 0 and deviation 1 over the training split"
    code, what = "unscaled-input", "the inputs are not on the scale that networks are started for"
    if x.dim() != 2:  # images, series: one scale for all
        std, mean = torch.std_mean(x)
        if float(std) > LARGE_IMAGE:
            found = f"values from {float(x.min()):g} to {float(x.max()):g}, deviation {float(std):.3g}"
            return [Finding(code, "warning", what, "all inputs", found, "Divide by the largest value, or standardise")]
        return []
    names, width = data.inputs.names, x.shape[1]
    mean = x.double().mean(0)
    std = ((x - mean).square().sum(0) / (len(x) - 1)).sqrt().to(x.dtype)
    varies = std > 0
    if not bool(varies.any()):
        return []
    # Of the values that are not 0: a rare indicator has a tiny deviation, and nothing is wrong with it.
    used = (x != 0).sum(0).clamp(min=1)
    size = ((x / std.clamp(min=1e-30)).square().sum(0) / used).sqrt() * std  # divided first: squares may overflow
    large = (std > LARGE_DEVIATION).nonzero().flatten().tolist()
    if large:
        worst = max(large, key=lambda j: float(std[j]))
        found = f"{column(worst, names, width)} has mean {float(mean[worst]):.3g} and deviation {float(std[worst]):.3g}"
        return [Finding(code, "warning", what, columns(large, names, width), found, do)]
    offset = torch.where(varies, mean.abs() / std, torch.zeros_like(std))
    far = (offset > LARGE_OFFSET).nonzero().flatten().tolist()
    far = [j for j in far if not bool(((x[:, j] == x[:, j].min()) | (x[:, j] == x[:, j].max())).all())]
    if far:
        worst = max(far, key=lambda j: float(offset[j]))
        found = f"{column(worst, names, width)} has mean {float(mean[worst]):.4g} but deviation {float(std[worst]):.2g}"
        return [Finding(code, "warning", what, columns(far, names, width), found, do)]
    size = torch.where(varies, size, torch.nan)
    smallest, largest = int(size.nan_to_num(torch.inf).argmin()), int(size.nan_to_num(-torch.inf).argmax())
    low, high = float(size[smallest]), float(size[largest])
    if high > SCALE_RATIO * low:
        where = columns([smallest, largest], names, width)
        one, other = column(smallest, names, width), column(largest, names, width)
        found = f"values of about {low:.2g} in {one}, {high:.2g} in {other}"
        return [Finding(code, "warning", what, where, found, do)]
    if high < SMALL_SCALE:
        found = f"the largest column's values are about {high:.2g}"
        return [Finding(code, "warning", what, "all columns", found, do)]
    return []
