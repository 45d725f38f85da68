"""Which pairs of nodes are joined: links that are held out, and as many pairs that are not, drawn from a seed.

    asked      links and pairs without one, in each split
    seen       the links of the training split alone: a network never reads one that it is asked of while it is tested

A pair that is not joined is drawn evenly from all of them. Of a graph without directions the node with the lower number
comes first, joined or not, so that the order of two ends tells nothing. Those of the training split are drawn anew in
every epoch, as a function of the row's key, and are written -1, -1; those that validate and test are drawn once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leadline.data.account import counted
from leadline.data.splits import split_indices
from leadline.data.target import Target
from leadline.data.tokens import mix
from leadline.errors import DataError, UserError

_VAIN = 24  # a pair without a link is looked for in vain once in 2^24 times
_MOST_ATTEMPTS = 2000
_SITE = 0x11AB  # tells these draws from those of layers


@dataclass(frozen=True, eq=False)
class Links:
    """Args:
    x: (n, 2), pairs of nodes.
    y: (n,), whether they are joined.
    parts: rows of the training, validation and test split.
    kept: (E,), which links a network sees.
    codes: of all links, sorted: what is never drawn as a pair without one.
    """

    x: Tensor
    y: Tensor
    target: Target
    parts: tuple[Tensor, Tensor, Tensor]
    kept: np.ndarray
    notes: tuple[str, ...]
    codes: Tensor


def link_rows(
    pairs: np.ndarray, count: int, directed: bool, val: float, test: float, seed: int, negatives: float = 1.0
) -> Links:
    """Args:
        pairs: (2, E), the links; those of a node to itself are not asked.
        count: nodes in all.
        negatives: pairs that are not joined for each that is.

    >>> ring = np.stack([np.arange(10), (np.arange(10) + 1) % 10])
    >>> rows = link_rows(ring, 10, False, 0.2, 0.2, seed=0)
    >>> rows.kept.sum(), [len(part) for part in rows.parts], rows.y.float().mean().item()
    (np.int64(6), [12, 4, 4], 0.5)
    """
    if not negatives > 0:
        raise UserError("negatives must be above 0", got=f"negatives={negatives}", do="Leave it out for 1")
    other = np.flatnonzero(pairs[0] != pairs[1])
    code = _codes(pairs[:, other], count, directed)
    code, back = np.unique(code, return_inverse=True)  # parallel links are one, and fall in one split
    if len(code) < 3:
        raise DataError(
            "there must be at least 3 links to learn which nodes are joined", got=f"{len(code)}", do="Add more links"
        )
    parts = split_indices(len(code), val=val, test=test, seed=seed)
    most = count * (count - 1) // (1 if directed else 2) - len(code)
    wanted = [round(len(part) * negatives) for part in parts]
    if sum(wanted) > most:
        raise DataError(
            "there must be pairs of nodes that are not joined, to tell links from",
            got=f"{most} for {counted(len(code), 'link')}",
            do=f"Pass negatives={max(most, 1) / len(code):.2g} or less"
            if most
            else "Pass a graph that is not complete",
        )
    none = _drawn(code, sum(wanted[1:]), count, directed, np.random.default_rng(seed))
    none = np.concatenate([np.full((2, wanted[0]), -1), none], 1)
    links, strangers = torch.from_numpy(np.stack(np.divmod(code, count)).T.copy()), torch.from_numpy(none.T.copy())
    cut = np.cumsum([0, *wanted])
    rows, at = [], 0
    for k, part in enumerate(parts):
        rows.append((links[part], strangers[cut[k] : cut[k + 1]]))
    x = torch.cat([torch.cat(both) for both in rows])
    y = torch.cat([torch.cat([torch.ones(len(a)), torch.zeros(len(b))]) for a, b in rows]).long()
    sizes = [len(a) + len(b) for a, b in rows]
    places = []
    for size in sizes:
        places.append(torch.arange(at, at + size))
        at += size
    of_code = np.zeros(len(code), dtype=bool)
    of_code[parts[0].numpy()] = True
    kept = np.ones(pairs.shape[1], dtype=bool)
    kept[other] = of_code[back]
    notes = (
        f"{counted(len(parts[1]) + len(parts[2]), 'link')} held out: the network does not see them",
        f"pairs of nodes that are not joined: {wanted[0]} to train on, drawn anew in every epoch, and "
        f"{sum(wanted[1:])} drawn with seed {seed}",
    )
    target = Target("binary", "joined", classes=("no", "yes"))
    return Links(x, y, target, (places[0], places[1], places[2]), kept, notes, torch.from_numpy(code))


def strangers(keys: Tensor, codes: Tensor, count: int, directed: bool) -> Tensor:
    """A pair of different nodes without a link for each key, (n, 2); the same keys draw the same.

    Args:
        codes: of the links, sorted, as `link_rows` gives them.
        count: nodes in all.

    >>> pairs = strangers(torch.arange(50), torch.tensor([1]), 3, directed=False)  # 0 and 1 are joined
    >>> sorted({tuple(sorted(pair)) for pair in pairs.tolist()})
    [(0, 2), (1, 2)]
    """
    found = torch.zeros(len(keys), 2, dtype=torch.int64, device=keys.device)
    left = torch.ones(len(keys), dtype=torch.bool, device=keys.device)
    joined = min(((1 if directed else 2) * len(codes) + count) / count**2, 0.9999)  # what one attempt is in vain for
    attempts = min(_MOST_ATTEMPTS, math.ceil(_VAIN * math.log(2) / -math.log(max(joined, 0.5))))
    for attempt in range(attempts):  # as many for every row: what one draws does not hang on its mates
        tried = torch.stack([_below(keys, 2 * attempt + end, count) for end in (0, 1)], 1)
        low, high = (tried[:, 0], tried[:, 1]) if directed else tried.aminmax(dim=1)
        code = low * count + high
        place = torch.searchsorted(codes, code).clamp(max=len(codes) - 1)
        fits = left & (tried[:, 0] != tried[:, 1]) & (codes[place] != code)
        found = torch.where(fits[:, None], torch.stack([low, high], 1), found)
        left &= ~fits
    return torch.where(left[:, None], torch.tensor([0, 1], device=keys.device), found)


def _below(keys: Tensor, site: int, count: int) -> Tensor:
    """A whole number below `count` for each key."""
    return (mix(mix(keys ^ _SITE) + site) & (2**62 - 1)) % count


def _codes(pairs: np.ndarray, count: int, directed: bool) -> np.ndarray:
    low, high = (pairs[0], pairs[1]) if directed else (pairs.min(0), pairs.max(0))
    return low * count + high


def _drawn(code: np.ndarray, wanted: int, count: int, directed: bool, rng: np.random.Generator) -> np.ndarray:
    """So many different pairs (2, n) of different nodes that are not among the codes, which are sorted."""
    if count * count <= 4 * (wanted + len(code)) + 10_000:  # few: all of them in random order
        a, b = np.divmod(np.arange(count * count, dtype=np.int64), count)
        every = np.stack([a, b])[:, (a != b) if directed else (a < b)]
        free = every[:, ~np.isin(_codes(every, count, directed), code)]
        return free[:, rng.permutation(free.shape[1])[:wanted]]
    found = np.zeros(0, dtype=np.int64)
    while len(found) < wanted:
        tried = rng.integers(0, count, (2, 2 * (wanted - len(found)) + 16))
        tried = tried[:, tried[0] != tried[1]]
        new = _codes(tried, count, directed)
        new = new[~np.isin(new, code)]
        joined = np.concatenate([found, new])
        _, first = np.unique(joined, return_index=True)
        found = joined[np.sort(first)]
    return np.stack(np.divmod(found[:wanted], count))
