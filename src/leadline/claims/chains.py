"""Markov models: counts as the likeliest probabilities, and where a chain settles."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.reference import markov

_NOTES = "notes after Dive into Deep Learning, section 9.1"
_STATES = 5


@claim(
    "counts-are-likeliest",
    "Of all chains of an order, the one whose probabilities are the shares that were counted has the largest "
    "likelihood: a table of scores trained by gradients comes to the same, and no other chain passes it",
    f"{_NOTES}; any text on Markov chains",
)
def counts_are_likeliest(full: bool) -> Evidence:
    length, others = (20_000, 500) if full else (600, 20)
    truth = _chain(0)
    row = _walk(truth, length, 1)
    best = markov.likeliest([row])
    top = markov.log_likelihood([row], best) / (length - 1)
    nats, table = _trained(row, 60)
    shares = table.softmax(1)
    counted = torch.tensor([[best[(a,)].get(b, 0.0) for b in range(_STATES)] for a in range(_STATES)])
    generator = torch.Generator().manual_seed(2)
    passed = []
    for _ in range(others):  # chains near and far from the counts
        mixed = counted.double() * torch.exp(0.3 * torch.randn(_STATES, _STATES, generator=generator)).double()
        rows = (mixed / mixed.sum(1, keepdim=True)).tolist()
        other: markov.Chain = {(a,): dict(enumerate(rows[a])) for a in range(_STATES)}
        passed.append(markov.log_likelihood([row], other) / (length - 1))
    orders = (0, 1, 2, 3)
    scored = [markov.log_likelihood([row], markov.likeliest([row], k)) / (length - k) for k in orders]
    unseen = _walk(truth, length, 3)
    smooth = [_smoothed(row, unseen, k) for k in orders]
    total = sum(_of_sequence(truth, word) for word in itertools.product(range(_STATES), repeat=4))
    xs = tuple(map(float, orders))
    view = Curves(
        "Chains of growing order, text of order 1", "order", "nats a step",
        {"on the rows that were counted": (xs, tuple(-s for s in scored)),
         "on others": (xs, tuple(-s for s in smooth))},
        {"the chain that wrote them": ((0.0, 3.0), (_entropy(truth),) * 2)},
    )  # fmt: skip
    return Evidence(
        (
            Check("nats a step, trained table less counts", nats + top, -1e-9, 1e-6),
            Check("largest difference of their probabilities", float((shares - counted).abs().max()), high=1e-2),
            Check("best of other chains less counts, nats a step", max(passed) - top, high=0.0),
            Check("likelihood of the counted rows grows with the order, least step", _least(scored), low=0.0),
            Check("on other rows order 3 less order 1, nats a step", smooth[1] - smooth[3], low=0.0),
            Check("probabilities of all sequences of four, less 1", total - 1, -1e-12, 1e-12),
        ),
        view,
    )


@claim(
    "chains-settle",
    "A chain whose states all lead to each other spends in each the share of time that its step leaves as it is, "
    "wherever it began; it forgets where as fast as the size of the second eigenvalue falls",
    f"{_NOTES}; any text on Markov chains",
)
def chains_settle(full: bool) -> Evidence:
    length = 400_000 if full else 20_000
    both = torch.tensor(_chain(0), dtype=torch.float64)
    both = both + both.T  # such a chain looks the same backwards in time, and its eigenvalues are real
    matrix = both / both.sum(1, keepdim=True)
    shares = torch.tensor(markov.stationary(matrix.tolist()), dtype=torch.float64)
    row = torch.tensor(_walk(matrix.tolist(), length, 1))
    counted = torch.bincount(row, minlength=_STATES).double() / length
    second = float(torch.linalg.eigvals(matrix).abs().sort().values[-2])
    far = [float((torch.linalg.matrix_power(matrix, t) - shares).abs().max()) for t in range(1, 25)]
    at = tuple(map(float, range(1, 25)))
    rate = (far[19] / far[9]) ** 0.1
    # shares of a walk that forgets as second^t: their variance is at most p (1 - p) (1 + second) / (1 - second) / n
    error = math.sqrt(0.25 * (1 + second) / (1 - second) / length)
    view = Curves(
        "How fast a chain forgets its first state", "steps", "largest difference of Pᵗ from the shares",
        {"measured": (at, tuple(far))}, {"|λ₂|ᵗ": (at, tuple(far[0] * second ** (t - 1) for t in at))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest change of the shares by a step", float((shares @ matrix - shares).abs().max()), high=1e-14),
            Check("largest difference of counted shares, in standard errors", _apart(counted, shares) / error, high=4),
            Check("factor a step with which the first state is forgotten, over |λ₂|", rate / second, 0.9, 1.1),
        ),
        view,
    )


def _chain(seed: int) -> list[list[float]]:
    """Probabilities drawn at random, none of them tiny."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(_STATES, _STATES, generator=generator, dtype=torch.float64) ** 2 + 0.02
    return (drawn / drawn.sum(1, keepdim=True)).tolist()


def _walk(chain: list[list[float]], length: int, seed: int) -> list[int]:
    steps = torch.tensor(chain, dtype=torch.float64).cumsum(1).tolist()
    draws = torch.rand(length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tolist()
    at, found = 0, []
    for u in draws:
        at = next((b for b, above in enumerate(steps[at]) if u < above), _STATES - 1)
        found.append(at)
    return found


def _trained(row: list[int], updates: int) -> tuple[float, Tensor]:
    """Nats a step of a table of scores, fitted by its gradient, and the table."""
    table = torch.zeros(_STATES, _STATES, dtype=torch.float64, requires_grad=True)
    before, after = torch.tensor(row[:-1]), torch.tensor(row[1:])
    rule = torch.optim.LBFGS([table], max_iter=updates, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        rule.zero_grad()
        value = nn.functional.cross_entropy(table[before], after)
        value.backward()
        return value

    rule.step(loss)
    with torch.no_grad():
        return float(nn.functional.cross_entropy(table[before], after)), table.detach().float()


def _smoothed(row: list[int], other: list[int], order: int) -> float:
    """Mean log-likelihood of other rows, each count of the first raised by one half: what never came may come."""
    seen = markov.counts([row], order)
    total = 0.0
    for t in range(order, len(other)):
        own = seen.get(tuple(other[t - order : t]), {})
        total += math.log((own.get(other[t], 0) + 0.5) / (sum(own.values()) + 0.5 * _STATES))
    return total / (len(other) - order)


def _entropy(chain: list[list[float]]) -> float:
    shares = markov.stationary(chain)
    return -sum(s * p * math.log(p) for s, own in zip(shares, chain, strict=True) for p in own)


def _of_sequence(chain: list[list[float]], word: tuple[int, ...]) -> float:
    """A first value that is uniform, and eq. 2 of `leadline.reference.markov`."""
    return math.prod((chain[a][b] for a, b in itertools.pairwise(word)), start=1 / _STATES)


def _least(values: list[float]) -> float:
    return min(b - a for a, b in itertools.pairwise(values))


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())
