"""Decoding, one text at a time, with no tricks: what every fast path must agree with.

    greedy       x_{t+1} = argmax_v log p(v | x_1 … x_t)                                                   (1)
    exhaustive   every text there is, ranked by Σ log p / t^α                                              (2)
    beam         the K best continuations of K texts, those that end among the best K are kept             (3)
    diverse      groups one after the other; a word costs λ for each earlier text that took it now         (4)
    top-k        the k likeliest words, and all that are as likely as the last of them                     (5)
    nucleus      the likeliest words until they hold p of the mass                                         (6)

Notation   log_p -> from the words so far to the log-probability of each next word;  α -> penalty;  λ -> diversity
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

LogP = Callable[[Sequence[int]], Sequence[float]]
Text = tuple[float, tuple[int, ...]]


def greedy(log_p: LogP, prompt: Sequence[int], most: int, stop: Sequence[int] = ()) -> list[int]:
    """Eq. 1.

    >>> greedy(lambda words: [0.0 if v == len(words) else -1.0 for v in range(5)], [0], most=3)
    [1, 2, 3]
    """
    words: list[int] = []
    while len(words) < most and not (words and words[-1] in stop):
        scores = log_p([*prompt, *words])
        words.append(max(range(len(scores)), key=lambda v: (scores[v], -v)))
    return words


def exhaustive(
    log_p: LogP, prompt: Sequence[int], most: int, stop: Sequence[int] = (), penalty: float = 1.0
) -> list[Text]:
    """Eq. 2: (score, words) of all texts, the best first.

    >>> [words for _, words in exhaustive(lambda words: [-1.0, -2.0], [0], most=1)]
    [(0,), (1,)]
    """
    found: list[Text] = []

    def follow(words: tuple[int, ...], score: float) -> None:
        if len(words) == most or (words and words[-1] in stop):
            found.append((score / len(words) ** penalty, words))
            return
        for word, by in enumerate(log_p([*prompt, *words])):
            follow((*words, word), score + by)

    follow((), 0.0)
    return sorted(found, key=lambda text: -text[0])


def beam(
    log_p: LogP,
    prompt: Sequence[int],
    most: int,
    beams: int,
    stop: Sequence[int] = (),
    penalty: float = 1.0,
    groups: int = 1,
    diversity: float = 0.0,
) -> list[Text]:
    """Eqs. 3 and 4, followed to the end: (score, words) of the texts that ended, the best first.

    >>> [words for _, words in beam(lambda words: [-1.0, -2.0], [0], most=2, beams=2)]
    [(0, 0), (0, 1)]
    """
    K = beams // groups
    live: list[list[Text]] = [[(0.0, ())] for _ in range(groups)]
    ended: list[list[Text]] = [[] for _ in range(groups)]
    for t in range(1, most + 1):
        taken: dict[int, int] = {}
        for g in range(groups):
            ways = [
                (score + by, (*words, word))
                for score, words in live[g]
                for word, by in enumerate(log_p([*prompt, *words]))
            ]
            ways.sort(key=lambda way: -(way[0] - diversity * taken.get(way[1][-1], 0)))
            over = lambda words: t == most or words[-1] in stop  # noqa: B023, E731
            ended[g] += [(score / t**penalty, words) for score, words in ways[:K] if over(words)]
            ended[g] = sorted(ended[g], key=lambda text: -text[0])[:K]
            live[g] = [way for way in ways[: max(2, 1 + len(stop)) * K] if not over(way[1])][:K]
            for _, words in live[g]:
                taken[words[-1]] = taken.get(words[-1], 0) + 1
    return sorted({text for group in ended for text in group}, key=lambda text: -text[0])


def top_k(p: Sequence[float], k: int) -> set[int]:
    """Eq. 5.

    >>> sorted(top_k([0.4, 0.1, 0.3, 0.2], 2))
    [0, 2]
    """
    least = sorted(p, reverse=True)[min(k, len(p)) - 1]
    return {v for v, mass in enumerate(p) if mass >= least}


def nucleus(p: Sequence[float], most: float) -> set[int]:
    """Eq. 6.

    >>> sorted(nucleus([0.4, 0.1, 0.3, 0.2], 0.7))
    [0, 2]
    """
    kept: set[int] = set()
    held = 0.0
    for v in sorted(range(len(p)), key=lambda v: -p[v]):
        if kept and held >= most:
            break
        kept.add(v)
        held += p[v]
    return kept
