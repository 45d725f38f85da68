"""High dimensions in closed form: lengths, angles, shells, balls, cells.

    |x|, x ~ N(0, I_D)      density r^{D-1} e^{-r²/2} / (2^{D/2-1} Γ(D/2))                                    (1)   chi
                            mean √2 Γ((D+1)/2) / Γ(D/2),   variance D - mean², which goes to 1/2
    angle of two of them    density ∝ sin^{D-2}, about a right angle; its cosine has variance 1/D                  (2)
    outer shell             a part 1 - (1-s)^D of a ball's volume lies within the part s of its radius             (3)
    ball of diameter 1      volume π^{D/2} / (2^D Γ(D/2 + 1)) of the cube around it                                (4)
    bins                    m bins an axis make m^D cells                                                          (5)

Textbook   40 inputs of 10 bins have 10^40 cells; the set there has 10^4 rows, so one in 10^36 cells holds one (section
           8.4.1 counts 10^5 rows). The angle of problem 8.6 is near 90 degrees, not near 0
"""

from __future__ import annotations

import math


def chi_mean(dim: int) -> float:
    """Mean of (1).

    >>> [round(chi_mean(dim), 3) for dim in (25, 100, 500)]
    [4.95, 9.975, 22.35]
    """
    return math.sqrt(2) * math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))


def chi_deviation(dim: int) -> float:
    """Deviation of (1).

    >>> round(chi_deviation(500), 3)
    0.707
    """
    return math.sqrt(dim - chi_mean(dim) ** 2)


def chi_density(r: float, dim: int) -> float:
    """Eq. 1.

    >>> round(chi_density(1.0, 2), 4)  # r exp(-r²/2)
    0.6065
    """
    if r <= 0:
        return math.sqrt(2 / math.pi) if r == 0 and dim == 1 else 0.0
    return math.exp((dim - 1) * math.log(r) - r * r / 2 - (dim / 2 - 1) * math.log(2) - math.lgamma(dim / 2))


def angle_density(degrees: float, dim: int) -> float:
    """Eq. 2, a density over degrees from 0 to 180; dim at least 2.

    >>> round(angle_density(30.0, 2) * 180, 4)  # in the plane all angles are alike
    1.0
    """
    scale = math.exp(math.lgamma(dim / 2) - math.lgamma((dim - 1) / 2)) / math.sqrt(math.pi)
    return scale * math.sin(math.radians(degrees)) ** (dim - 2) * math.pi / 180


def shell_share(dim: int, part: float = 0.01) -> float:
    """Eq. 3.

    >>> [round(shell_share(dim), 4) for dim in (2, 100, 300, 500)]
    [0.0199, 0.634, 0.951, 0.9934]
    """
    return 1 - (1 - part) ** dim


def ball_volume(dim: int, radius: float = 0.5) -> float:
    """Eq. 4, of any radius.

    >>> round(ball_volume(2), 3), round(ball_volume(10), 5), f"{ball_volume(50):.1e}"
    (0.785, 0.00249, '1.5e-28')
    """
    return math.exp(dim * math.log(radius) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2 + 1))


def cells_per_point(dim: int, points: int, bins: int = 10) -> float:
    """Eq. 5, as the logarithm to base 10 of the cells for each point.

    >>> round(cells_per_point(40, 10_000), 9)
    36.0
    """
    return dim * math.log10(bins) - math.log10(points)
