"""What attention knows of order: nothing without positions, and what waves of many lengths tell it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.attention import SelfAttention
from leadline.layers.positions import LearnedPositions, SinusoidalPositions, sinusoids
from leadline.layers.relative_attention import RelativeAttention
from leadline.models import GPT
from leadline.reference import positions as by_hand

_UDL = "Understanding Deep Learning"


@claim(
    "attention-permutes",
    "Without positions attention gives a row in another order the same outputs in that order; positions of any kind "
    "end that",
    f"{_UDL}, section 12.3.1; lecture notes on attention, section 6.3",
)
def attention_permutes(full: bool) -> Evidence:
    rows, length, dim = (50, 40, 32) if full else (10, 12, 16)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        x, order = torch.randn(rows, length, dim, dtype=torch.float64), torch.randperm(length)
        plain = SelfAttention(dim, 4)
        offsets = RelativeAttention(dim, 4, furthest=length)
        offsets.table.normal_()
        layers: dict[str, nn.Module] = {
            "no positions": plain,
            "learned": nn.Sequential(LearnedPositions(length, dim), plain),
            "sinusoidal": nn.Sequential(SinusoidalPositions(dim), plain),
            "relative": offsets,
        }
        apart = {}
        for name, layer in layers.items():
            out = layer.double()(x)
            apart[name] = float((layer(x[:, order]) - out[:, order]).abs().max() / out.abs().max())
        words = nn.Embedding(5, dim).double()(torch.tensor([[3, 1, 3, 3]]))[0]
    places = tuple(map(float, range(len(apart))))
    view = Curves(
        "Another order of the same words", "positions", "largest difference, of the largest output",
        {"self-attention": (places, tuple(max(a, 1e-18) for a in apart.values()))},
        log="y", names=tuple(apart),
    )  # fmt: skip
    same = float((words[[0, 2, 3]] - words[0]).abs().max())
    return Evidence(
        (
            Check("difference without positions, of the largest output", apart["no positions"], high=1e-12),
            # learned vectors begin at 0.02, beside words of deviation 1
            *(Check(f"the same, {name}", apart[name], low=1e-4) for name in list(apart)[1:]),
            Check("difference between embeddings of the same word", same, 0, 0),
        ),
        view,
    )


@claim(
    "sinusoids",
    "Waves of many lengths tell how far apart two places are: one matrix for each offset takes every place to the one "
    "so far after it, and the product of two places falls with their distance, though not at every step",
    f"{_UDL}, notes on chapter 12, position encoding; Vaswani et al. 2017",
)
def sinusoids_tell(full: bool) -> Evidence:
    dim, length = 128, 2048 if full else 300
    at = torch.arange(length)
    waves = sinusoids(at, dim, dtype=torch.float64)
    shifts = [torch.tensor(by_hand.shift(o, dim), dtype=torch.float64) for o in (1, 7, 32)]
    apart = [float((waves[:-o] @ m.T - waves[o:]).abs().max()) for o, m in zip((1, 7, 32), shifts, strict=True)]
    product = waves @ waves.T
    along = product[0]
    # of all pairs as far apart: one number
    stray = max(float((product.diagonal(o) - along[o]).abs().max()) for o in (0, 1, 8, 32, 128))
    printed = {0: 64.0, 1: 62.1, 2: 57.4, 8: 45.7, 32: 35.7, 128: 21.3}
    checks = [Check(f"product {o} apart", float(along[o]), value - 0.05, value + 0.05) for o, value in printed.items()]
    rises = float((along[1:256] > along[:255]).double().mean())
    view = Curves(
        f"How alike places are, D = {dim}", "places apart", "product",
        {"sinusoids": (tuple(map(float, range(256))), tuple(along[:256].tolist()))},
    )  # fmt: skip
    return Evidence(
        (
            Check("largest distance of a shifted place from its place", max(apart), high=1e-9),
            Check("largest difference of products as far apart", stray, high=1e-9),
            *checks,
            Check("share of steps at which it rises", rises, 0.01, 0.5),
        ),
        view,
    )


@claim(
    "cached-words",
    "A decoder's answer for a place does not change when later words come, so that writing may go on from what it has "
    "computed: the same scores as of the whole row",
    f"{_UDL}, section 12.7.3",
)
def cached_words(full: bool) -> Evidence:
    length = 64 if full else 16
    kinds = ("learned", "rotary", "alibi", "sinusoidal")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        apart = [_stepped(GPT(30, length, 32, 3, 4, positions=kind).double().eval(), length) for kind in kinds]
    places = tuple(map(float, range(len(kinds))))
    view = Curves(
        "Scores word by word beside those of the whole row", "positions", "largest difference",
        {"float64": (places, tuple(max(a, 1e-18) for a in apart))}, {"allowed": (places, (1e-12,) * len(kinds))},
        log="y", names=kinds,
    )  # fmt: skip
    return Evidence((Check("largest difference of a score", max(apart), high=1e-12),), view)


def _stepped(model: GPT, length: int) -> float:
    x = torch.randint(30, (2, length))
    whole, cache = model(x), model.cache(2, length, "cpu", torch.float64)
    found: list[Tensor] = []
    for t in range(length):
        cache.at = torch.full((2, 1), t)
        found.append(model.step(x[:, t : t + 1], cache))
    return float((torch.cat(found, 1) - whole).abs().max())
