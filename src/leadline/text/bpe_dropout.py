"""BPE dropout: a word is written in another way each time (Provilkov et al., 2020).

    of the pairs that could be merged now, each is left out with probability p; of the others the first learned is
    merged; the word is done when none is left                                                                  (1)

p = 0 is plain BPE, and p = 1 gives letters. A network that meets one word in several ways learns what its parts mean.

Notation   p -> p_drop;  ranks[a, b] the number of the merge of a and b
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from random import Random


def merged(word: str, ranks: Mapping[tuple[str, str], int], p_drop: float, random: Random) -> list[str]:
    """The tokens of a word by (1).

    >>> merged("sea", {("s", "e"): 0, ("se", "a"): 1}, 0.0, Random(0))
    ['sea']
    >>> merged("sea", {("s", "e"): 0, ("se", "a"): 1}, 1.0, Random(0))
    ['s', 'e', 'a']
    """
    tokens = list(word)
    while True:
        found = [(ranks[pair], i) for i, pair in enumerate(pairwise(tokens)) if pair in ranks]
        kept = [place for place in found if p_drop == 0 or random.random() >= p_drop]
        if not kept:
            return tokens
        _, i = min(kept)
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]  # eq. 1
