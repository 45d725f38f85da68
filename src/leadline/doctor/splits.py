"""Are the held-out splits held out, and large enough to judge by?

A row that stands in two splits is a leak when rows are rich enough not to repeat by themselves. What repeats by itself
is read off the training split: if rows come at random, a held-out row meets its twin in train as often as a training
row meets a twin there. Only a share clearly above that one is a leak.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.data import Data, Split
from leadline.doctor.columns import chunks
from leadline.doctor.finding import Finding
from leadline.doctor.words import percent, some

# With 30 rows the standard error of an accuracy is 5 to 9 points: models cannot be told apart by it.
SMALL = 30
# Shared rows that are tolerated: famous clean sets hold a stray twin or two, which moves no result.
STRAY_ROWS, STRAY_SHARE = 2, 0.01
# Standard errors above the share that repetition explains: one false alarm in 30,000 honest splits.
SIGMAS = 4.0
# Rows count as rich when there could be this many times more different rows (in bits: 128-fold) than there are.
RICH_BITS = 7.0


def check_splits(data: Data) -> list[Finding]:
    findings = _small(data)
    if not len(data.val) and not len(data.test):
        return findings
    train = _digest(data.train).sort().values
    twin = torch.zeros(len(train) + 1, dtype=torch.bool, device=train.device)
    twin[1:-1] = train[1:] == train[:-1]
    natural = (int((twin[1:] | twin[:-1]).sum()) + 1) / (len(train) + 2)  # share of training rows with a twin there
    for name in ("val", "test"):
        split = data[name]
        if not len(split) or split.x.shape[1:] != data.train.x.shape[1:]:
            continue
        digest = _digest(split)
        nearest = torch.searchsorted(train, digest).clamp(max=len(train) - 1)
        shared = (train[nearest] == digest).nonzero().flatten()
        k, m = len(shared), len(split)
        noise = math.sqrt(natural * (1 - natural) * (1 / m + 1 / len(train)))
        if k <= min(STRAY_ROWS, m - 1) or k / m <= max(STRAY_SHARE, natural + SIGMAS * noise):
            continue
        if not _rich(data.train):
            continue
        found = (
            f"{k} of {m} rows ({percent(k / m)}) are equal in x and y to a training row; so many repeated rows "
            f"would explain {percent(natural)}; among them rows {some(split.row_numbers(shared))}"
        )
        findings.append(
            Finding(
                "shared-rows",
                "warning",
                f"rows of {name} stand in the training split too",
                f"{name} split",
                found,
                f"Remove copies before splitting: {name} results are better than the truth",
            )
        )
    return findings


def _small(data: Data) -> list[Finding]:
    count = len(data.val)
    if count >= SMALL:
        return []
    what = "the validation split is too small to judge by" if count else "there is no validation split"
    do = "Set more rows aside, or cross-validate; settings chosen on so few rows are chosen by chance"
    return [Finding("small-val", "note", what, "val split", counted(count, "row"), do)]


def _digest(split: Split) -> Tensor:
    """One 64-bit number a row: equal for equal x and y, different otherwise but for a chance of 2^-64 a pair."""
    x = split.x.reshape(len(split), -1)
    return torch.cat([_hash(part) for _, part in chunks(x)]) + _hash(split.y.reshape(len(split), -1)) * 0x9E3779B1


def _hash(x: Tensor) -> Tensor:
    if x.is_floating_point():
        x = (x + 0.0).view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
    elif x.element_size() == 1 and x.shape[1] % 8 == 0 and x.is_contiguous():
        x = x.view(torch.int64)  # of pictures: eight bytes at once
    generator = torch.Generator().manual_seed(x.shape[1])
    factor = torch.randint(-(2**62), 2**62, (x.shape[1],), generator=generator).to(x.device) | 1
    return (x.long() * factor).sum(1)


def _rich(split: Split) -> bool:
    """Whether rows are too varied to repeat by chance: a column of measured values, or very many combinations."""
    n = len(split)
    x = split.x.reshape(n, -1)
    values = [x[:, j] for j in range(min(x.shape[1], 512))]
    if split.y.is_floating_point():
        values += list(split.y.reshape(n, -1).unbind(1))
    bits = 0.0
    for column in values:
        distinct = len(column.unique())
        if n >= 8 and distinct > n / 2:
            return True
        bits += math.log2(distinct)
    return bits > math.log2(n) + RICH_BITS
