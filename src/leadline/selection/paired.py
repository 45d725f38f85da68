"""What a mean over folds or seeds is worth: Student's t with Nadeau and Bengio's correction, and tests of differences.

    mean ± t(J - 1) · s · √(1/J + n_test / n_train)                       corrected interval        (1)
    t = mean / (s · √(1/J + n_test / n_train))                            of J differences          (2)
    p_sign = P(as few or fewer of one sign)                               fair coin, ties left out  (3)
    p_permutation = share of the 2^J changes of sign whose |mean| is as large                       (4)

Models of different folds share most of their training rows, so that their scores are alike, and s/√J is too small;
n_test / n_train stands for what they share. Runs over seeds on one split share nothing but that split: there the term
is 0, and what is said holds for that split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_EXACT, _DRAWS = 14, 20_000  # differences up to which every change of sign is tried; draws beyond


def corrected_error(values: Sequence[float], overlap: float) -> float:
    """Standard error of the mean, s · √(1/J + overlap); nan for one value.

    >>> round(corrected_error([1.0, 2.0, 3.0], 0.0), 4), round(corrected_error([1.0, 2.0, 3.0], 0.5), 4)
    (0.5774, 0.9129)
    """
    if len(values) < 2:
        return math.nan
    return float(np.std(values, ddof=1)) * math.sqrt(1 / len(values) + overlap)


def interval(values: Sequence[float], overlap: float, level: float = 0.95) -> tuple[float, float]:
    """Eq. 1.

    >>> [round(end, 2) for end in interval([1.0, 2.0, 3.0], 0.0)]
    [-0.48, 4.48]
    """
    from scipy.special import stdtrit

    mean, error = float(np.mean(values)), corrected_error(values, overlap)
    half = float(stdtrit(max(1, len(values) - 1), (1 + level) / 2)) * error
    return mean - half, mean + half


def p_of_t(values: Sequence[float], overlap: float) -> tuple[float, float]:
    """Eq. 2, and how likely a |t| as large is where the mean is 0.

    >>> t, p = p_of_t([1.0, 2.0, 3.0], 0.0)
    >>> round(t, 4), round(p, 4)
    (3.4641, 0.0742)
    """
    from scipy.special import stdtr

    mean, error = float(np.mean(values)), corrected_error(values, overlap)
    if not error > 0:
        return (math.nan, math.nan) if math.isnan(error) else (0.0, 1.0) if mean == 0 else (math.inf, 0.0)
    t = mean / error
    return t, float(2 * stdtr(len(values) - 1, -abs(t)))


def p_of_signs(values: Sequence[float]) -> float:
    """Eq. 3, for both sides.

    >>> p_of_signs([0.1, 0.2, 0.3, 0.1, 0.0])
    0.125
    """
    up, down = sum(value > 0 for value in values), sum(value < 0 for value in values)
    n, few = up + down, min(up, down)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(few + 1)) / 2**n)


def p_of_permutations(values: Sequence[float], seed: int = 0) -> float:
    """Eq. 4: all changes of sign, or 20,000 drawn ones (and the one that came) beyond 14 values.

    >>> p_of_permutations([0.1, 0.2, 0.3, 0.1])
    0.125
    """
    found = np.asarray(values, dtype=float)
    if len(found) <= _EXACT:
        bits = np.arange(2 ** len(found))[:, None] >> np.arange(len(found)) & 1
        extra = 0
    else:
        bits, extra = np.random.default_rng(seed).integers(0, 2, (_DRAWS, len(found))), 1
    sums = np.abs((1 - 2 * bits) @ found)
    least = abs(found.sum()) * (1 - 1e-12)
    return float(((sums >= least).sum() + extra) / (len(sums) + extra))
