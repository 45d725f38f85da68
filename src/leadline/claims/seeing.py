"""Who sees whom: masks that let nothing through, what global tokens give away, patterns counted, and how far a word
gets through layers that see only near."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.attention import SelfAttention
from leadline.layers.masks import Blocks, Causal, Dilated, Global, Mask, Window
from leadline.layers.sublayer import Sublayer
from leadline.lens.interaction import Reach, interaction, reach
from leadline.models import BERT, GPT

_UDL = "Understanding Deep Learning"
Network = TypeVar("Network", bound=nn.Module)
_ROUNDING = 1e-12  # rows of a batch may be summed in different orders


@claim(
    "masks-leak-nothing",
    "What a mask hides has no influence at all: later words, padding and other documents of the row leave every answer "
    "as it was, to the last bit",
    f"{_UDL}, sections 12.7.2 and 12.7.3; notes after Dive into Deep Learning, section 11",
)
def masks_leak_nothing(full: bool) -> Evidence:
    rows, length = (64, 48) if full else (8, 16)
    words, end, g = 20, 1, torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        gpt = _loud(GPT(words, length, 32, 3, 4, p_drop=0.0)).eval()
        apart = _loud(GPT(words, length, 32, 3, 4, p_drop=0.0, positions="none", end=end)).eval()
        bert = _loud(BERT(words, length, words, dim=32, num_layers=3, p_drop=0.0, pad=0)).eval()
        x = torch.randint(2, words, (rows, length), generator=g)
        other, half = torch.randint(2, words, (rows, length), generator=g), length // 2
        before, later = gpt(x), gpt(torch.cat([x[:, :half], other[:, half:]], 1))
        documents = x.clone()
        documents[:, half - 1] = end
        beside = torch.cat([other[:, : half - 1], documents[:, half - 1 :]], 1)
        short = torch.cat([x[:, :half], torch.zeros_like(x[:, half:])], 1)
        seen = {
            "a later word": _changed(before[:, :half], later[:, :half]),
            "another document": _changed(apart(documents)[:, half:], apart(beside)[:, half:]),
        }
        felt = _changed(before[:, half:], later[:, half:])
        # what stands where a row is padded: other embeddings of `pad` itself
        answer = bert(short)[:, :half]
        bert.tokens.weight[0] += 1.0
        seen["padding"] = _changed(answer[..., 1:], bert(short)[:, :half, 1:])
    view = Curves(
        "Answers that change with a part of the row", "what is changed", "share of the answers",
        {"hidden by a mask": ((0.0, 1.0, 2.0), tuple(seen.values())), "in sight": ((3.0,), (felt,))},
        names=(*seen, "a word in sight"),
    )  # fmt: skip
    return Evidence(
        (
            *(Check(f"share of the answers that {name} changes", share, 0, 0) for name, share in seen.items()),
            Check("share of the answers that a word in sight changes", felt, low=0.5),
        ),
        view,
    )


@claim(
    "global-tokens-leak",
    "Tokens that see all and are seen by all belong in encoders: in a decoder they carry the future back, from the "
    "second layer on",
    f"{_UDL}, section 12.9, figure 12.14h and notes on chapter 12",
)
def global_tokens_leak(full: bool) -> Evidence:
    length, most = (32, 6) if full else (12, 3)
    masks = {"earlier words": Causal(), "and a global token": Causal() | Global((0,))}
    found = {
        name: [_early(_stack(mask, length, depth)) for depth in range(1, most + 1)] for name, mask in masks.items()
    }
    xs = tuple(map(float, range(1, most + 1)))
    view = Curves(
        "What the last word does to the others", "layers", "places before it that change",
        {name: (xs, tuple(counts)) for name, counts in found.items()},
    )  # fmt: skip
    plain, leaking = found.values()
    return Evidence(
        (
            Check("places changed by a later word, earlier words alone", max(plain), 0, 0),
            Check("the same, a global token, one layer", leaking[0], 1, 1),  # the token itself
            Check("the same, two layers", leaking[1], length - 1, length - 1),
        ),
        view,
    )


@claim(
    "interaction-counts",
    "An encoder has N² pairs, a decoder N(N + 1)/2, about half; bands, bands with holes and a few global tokens grow "
    "with N alone",
    f"{_UDL}, section 12.9 and figure 12.14",
)
def interaction_counts(full: bool) -> Evidence:
    num = 64 if full else 16
    view = interaction(length=num)
    found = dict(zip(view.names, view.counts.tolist(), strict=True))
    chosen = range(0, num, 5)
    # of a band of reach r: the diagonal, and N - d pairs at each distance d on a side; with holes at distances d, 2d
    side = sum(num - d for d in (1, 2))
    expected = {
        "encoder": num * num,
        "decoder": num * (num + 1) // 2,
        "band, encoder": num + 2 * side,
        "band, decoder": num + side,
        "every 2nd, decoder": num + (num - 2) + (num - 4),
        "every 3rd, decoder": num + (num - 3) + (num - 6),
        # pairs j <= i that have a chosen end, or lie at most 2 apart
        "band and chosen tokens, decoder": sum(
            1 for i in range(num) for j in range(i + 1) if i - j <= 2 or i in chosen or j in chosen
        ),
        # rows and columns of the two, and the band of the others
        "band and two global tokens": num * num - (num - 2) ** 2 + (num - 2) + 2 * sum(num - 2 - d for d in (1, 2)),
    }
    checks = [Check(f"pairs, {name}", found[name], count, count) for name, count in expected.items()]
    return Evidence((*checks, Check("decoder over encoder", found["decoder"] / found["encoder"], 0.5, 0.54)), view)


@claim(
    "local-reach",
    "Layers that see r neighbours reach l r places after l layers, and further with holes between; layers that see "
    "their own block alone pass nothing to another",
    f"{_UDL}, section 12.9 and notes on chapter 12 (Liu et al. 2018)",
)
def local_reach(full: bool) -> Evidence:
    length, most = (64, 6) if full else (24, 4)
    masks: dict[str, Mask] = {
        "2 neighbours": Window(2) & Causal(),
        "2 with holes of 2": Dilated(2, 3) & Causal(),
        "blocks of 4": Blocks(4),
    }
    real = {name: [_stack(mask, length, depth) for depth in range(1, most + 1)] for name, mask in masks.items()}
    said = {name: reach(mask, length, most) for name, mask in masks.items()}
    xs = tuple(map(float, range(1, most + 1)))
    ends = {2: length - 1.0, 6: (length - 1) // 3 * 3.0}  # the furthest place of a row that can be reached
    far = {name: Reach.of(torch.stack(found).numpy()).furthest for name, found in real.items()}
    view = Curves(
        "How far a changed word is felt", "layers", "places",
        {name: (xs, tuple(map(float, found))) for name, found in far.items()},
        {f"{step} a layer": (xs, tuple(min(step * x, last) for x in xs)) for step, last in ends.items()},
    )  # fmt: skip
    wrong = sum(int((real[name][k].numpy() != said[name].matrices[k]).sum()) for name in masks for k in range(most))
    return Evidence(
        (
            Check("pairs where layers and the product of masks differ", wrong, 0, 0),
            Check(f"reach of 2 neighbours, {most} layers", far["2 neighbours"][-1], 2 * most, 2 * most),
            Check("reach of 2 with holes of 2, 3 layers", far["2 with holes of 2"][2], 18, 18),
            Check("furthest that blocks of 4 pass a word on", max(far["blocks of 4"]), 3, 3),
        ),
        view,
    )


def _loud(model: Network) -> Network:
    """Weights so large that whatever leaked would be seen."""
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                p.mul_(5.0)
    return model


def _changed(a: Tensor, b: Tensor) -> float:
    return float((a != b).double().mean())


def _stack(mask: Mask, length: int, depth: int) -> Tensor:
    """Which places (rows) feel a change of which word (columns) after `depth` layers of attention."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [Sublayer(SelfAttention(8, 2), nn.LayerNorm(8)).double() for _ in range(depth)]
        x = torch.randn(1, length, 8, dtype=torch.float64)
        aside = torch.randn(length, 1, 8, dtype=torch.float64)
    rows = x.repeat(length + 1, 1, 1)
    rows[range(length), range(length)] += aside[:, 0]
    with torch.no_grad():
        for layer in layers:
            rows = layer(rows, mask)
    return ((rows[:-1] - rows[-1]).abs().amax(-1) > _ROUNDING).T


def _early(felt: Tensor) -> float:
    """Places before the last that the last word changes."""
    return float(felt[:-1, -1].sum())
