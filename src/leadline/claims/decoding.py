"""From scores to text: the likeliest word at each step is not the likeliest text, beams are alike, and which words may
be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.engine.decoder import Recomputing
from leadline.models import GPT
from leadline.reference import decoding as by_hand
from leadline.text.beam import beam_search
from leadline.text.choosing import Choice, nucleus
from leadline.text.decoding import generate

_UDL = "Understanding Deep Learning"


@claim(
    "greedy-not-best",
    "Taking the likeliest word at each step does not find the likeliest text; a beam comes nearer, and one that is "
    "wide enough finds it",
    f"{_UDL}, section 12.7.3 and notes on chapter 12",
)
def greedy_not_best(full: bool) -> Evidence:
    # made for it: 0.6 leads to words of a half each, 0.4 to one word for certain
    table = torch.tensor([[0.0, 0.6, 0.4, 0.0], [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0], [0.25] * 4]).double()
    made = Recomputing(lambda rows: table[rows].clamp(min=1e-30).log())
    [taken], [[best]] = generate(made, [[0]], 2), beam_search(made, [[0]], 2, beams=4, penalty=0.0)
    num, most, words = (60, 5, 4) if full else (12, 4, 4)
    ratios: dict[int, list[float]] = {1: [], 2: [], 4: [], words ** (most - 1): []}
    with torch.random.fork_rng(devices=[]):
        for seed in range(num):
            model = _speaker(seed, words, most)
            top = by_hand.exhaustive(_log_p(model), [0], most, penalty=0.0)[0][0]
            for beams, found in ratios.items():
                scorer = Recomputing(model, most + 1)
                [[text]] = beam_search(scorer, [[0]], most, beams=beams, penalty=0.0)
                found.append(text.score - top)
    missed = [sum(gap < -1e-4 for gap in found) / num for found in ratios.values()]
    xs = tuple(map(float, ratios))
    view = Curves(
        f"The likeliest of {words**most} texts, {num} models", "beams", "share of models in which it is missed",
        {"beam search": (xs, tuple(missed))}, log="x",
    )  # fmt: skip
    return Evidence(
        (
            Check("probability of what greedy takes, made for it", math.exp(taken.score), 0.3 - 1e-6, 0.3 + 1e-6),
            Check("probability of the likeliest text", math.exp(best.score), 0.4 - 1e-6, 0.4 + 1e-6),
            Check("share of random models in which greedy misses it", missed[0], low=1 / num),
            Check("the same with as many beams as texts but for the last word", missed[-1], 0, 0),
            Check("largest lead over the likeliest of all texts", max(max(f) for f in ratios.values()), high=1e-4),
        ),
        view,
    )


@claim(
    "beams-alike",
    "The texts of one beam search are alike, more than texts that are drawn; groups that are kept from the same words "
    "differ more",
    f"{_UDL}, notes on chapter 12; Vijayakumar et al. 2016",
)
def beams_alike(full: bool) -> Evidence:
    num, most, words, beams = (40, 20, 30, 8) if full else (8, 10, 20, 6)
    generator = torch.Generator().manual_seed(0)
    shared: dict[str, list[float]] = {"beams": [], "diverse beams": [], "drawn": []}
    for _ in range(num):
        table = 2 * torch.randn(words, words, generator=generator, dtype=torch.float64)
        scorer = Recomputing(lambda rows, table=table: table[rows])  # type: ignore[misc]
        beam = beam_search(scorer, [[0]], most, beams, count=beams)[0]
        diverse = beam_search(scorer, [[0]], most, beams, count=beams, groups=beams, diversity=4.0)[0]
        drawn = generate(scorer, [[0]] * beams, most, Choice())
        for name, texts in zip(shared, (beam, diverse, drawn), strict=True):
            shared[name].append(_alike([text.tokens for text in texts]))
    xs = tuple(map(float, range(num)))
    view = Curves(
        f"{beams} texts of {most} words", "table of next words", "share of places at which two agree",
        {name: (xs, tuple(found)) for name, found in shared.items()}, joined=False,
    )  # fmt: skip
    beam_mean, diverse_mean, drawn_mean = (sum(found) / num for found in shared.values())
    return Evidence(
        (
            Check("share of places at which two of a beam agree", beam_mean, low=0.5),
            Check("the same, beam less drawn", beam_mean - drawn_mean, low=0.2),
            Check("the same, beam less diverse", beam_mean - diverse_mean, low=0.05),
        ),
        view,
    )


@claim(
    "nucleus-adapts",
    "Of a fixed number k of words some are bad where few are likely; a fixed share of the mass holds few words then, "
    "and many where many are likely",
    f"{_UDL}, section 12.7.3 and notes on chapter 12; Holtzman et al. 2019",
)
def nucleus_adapts(full: bool) -> Evidence:
    words, k, share = 200, 10, 0.9
    heats = torch.linspace(0.1, 6, 200 if full else 30, dtype=torch.float64)
    scores = torch.randn(words, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = (heats[:, None] * scores).softmax(-1)
    entropy = -(p * p.log()).sum(-1)
    held = nucleus(p, share).sum(-1).double()
    few = Choice(top_k=k).narrowed(p.log()).isfinite().sum(-1).double()
    tail = p.sort(-1, descending=True).values[:, k - 1] / p.max(-1).values
    view = Curves(
        f"Words that may be drawn, of {words}", "entropy of the next word, nats", "words",
        {f"nucleus of {share}": (tuple(entropy.tolist()), tuple(held.tolist())),
         f"top {k}": (tuple(entropy.tolist()), tuple(few.tolist()))},
        {"exp(entropy)": (tuple(entropy.tolist()), tuple(entropy.exp().tolist()))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("steps to a sharper distribution at which the nucleus grows", float((held.diff() > 0).sum()), 0, 0),
            Check("words in the nucleus, most even", float(held[0]), low=100),
            Check("words in the nucleus, sharpest", float(held[-1]), high=10),
            Check("words in top 10, fewest", float(few.min()), k, k),
            Check("words in top 10, most", float(few.max()), k, k),
            Check("the tenth word beside the first, sharpest", float(tail[-1]), high=0.01),
        ),
        view,
    )


def _speaker(seed: int, words: int, most: int) -> GPT:
    """A GPT of random weights with an opinion: its first ones would leave all words equally likely."""
    torch.manual_seed(seed)
    model = GPT(words, most + 1, 16, 2, 2, p_drop=0.0).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                p.mul_(20.0)
    return model


def _log_p(model: GPT) -> by_hand.LogP:
    @torch.no_grad()
    def log_p(tokens: Sequence[int]) -> list[float]:
        scores: Tensor = model(torch.tensor([list(tokens)]))[0, -1]
        return scores.log_softmax(-1).tolist()

    return log_p


def _alike(texts: list[list[int]]) -> float:
    """Share of places at which two texts have the same word, over all pairs."""
    pairs = list(combinations(texts, 2))
    return sum(sum(a == b for a, b in zip(*pair, strict=True)) / len(pair[0]) for pair in pairs) / len(pairs)
