"""Random numbers as pure functions of what they are for: the same bits whatever ran before, and on every device.

    mix        splitmix64's finaliser, a bijection of 64 bits                                                   (1)
    below      ⌊u n / 2^32⌋,  u the upper 32 bits of mix(key + place)        uniform on 0 … n - 1 but for n/2^32 (2)
    uniform    in (0, 1], of 24 bits                                                                            (3)

Of the draws of a graph, the key is that of a batch, and the place a node, an edge of it, or the number of a draw.
"""

from __future__ import annotations

from torch import Tensor


def mix(z: Tensor) -> Tensor:
    """Splitmix64's finaliser on int64: a bijection in which every input bit moves about half of the output bits."""
    z = (z ^ shift_right(z, 30)) * -0x40A7B892E31B1A47
    z = (z ^ shift_right(z, 27)) * -0x6B2FB644ECCEEE15
    return z ^ shift_right(z, 31)


def shift_right(z: Tensor, bits: int) -> Tensor:
    """Zeros come in from the left: torch shifts the sign in."""
    return (z >> bits) & (2 ** (64 - bits) - 1)


def keyed(key: Tensor, names: Tensor, site: int) -> Tensor:
    """A key for each name, of a key of all, (1,), and of the place where they are drawn.

    >>> import torch
    >>> one, other = (keyed(torch.tensor([5]), torch.arange(3), site) for site in (0, 1))
    >>> len({*one.tolist(), *other.tolist()})
    6
    """
    return mix(mix(key + site) ^ mix(names))


def below(keys: Tensor, place: int, n: Tensor) -> Tensor:
    """Eq. 2: a whole number under n[b] for each key; n must be under 2^31.

    >>> import torch
    >>> below(torch.arange(1000), 0, torch.full((1000,), 3)).bincount().tolist()
    [358, 305, 337]
    """
    return shift_right(mix(keys + place), 32) * n >> 32


def uniform(keys: Tensor) -> Tensor:
    """Eq. 3: one number for each key, never 0."""
    return (shift_right(mix(keys), 40) + 1).float() * 2.0**-24


def priority(keys: Tensor, importance: Tensor) -> Tensor:
    """Importance over a uniform number: who has the largest few is drawn, without replacement (Duffield, 2007).

    Notation   q_j = p_j / u_j,  τ the largest q of those that are not drawn
               Each that is drawn counts max(1, τ / p_j) times, and any Σ_j x_j is met on average.

    >>> import torch
    >>> priority(torch.tensor([1, 2]), torch.tensor([0.0, 1.0]))[0].item()
    0.0
    """
    return importance / uniform(keys)
