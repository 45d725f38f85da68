"""What language models learn from and with: hidden words and how many terms they give, and two layers that together
copy what they have seen before."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves, Points
from leadline.data.tokens import Tokens
from leadline.layers.attention import SelfAttention
from leadline.layers.masks import Causal
from leadline.lens.heads import silenced
from leadline.text.tokenizer import Tokenizer

_UDL = "Understanding Deep Learning"


@claim(
    "masked-words",
    "15 % of the words are asked for; of these 80 % are hidden, 10 % are another word and 10 % stay: few terms of the "
    "loss, where a decoder has one for every word",
    f"{_UDL}, section 12.6.1, figures 12.9 and 12.11; Devlin et al. 2019; lecture notes on attention, section 6.5",
)
def masked_words(full: bool) -> Evidence:
    rows, length = (4000, 128) if full else (600, 64)
    tokenizer = Tokenizer.train(["abcdefghijklmnopqrstuvwxyz"], kind="bytes")
    inputs = Tokens("masked", length, tokenizer)
    generator = torch.Generator().manual_seed(0)
    words = torch.tensor(tokenizer.encode("abcdefghijklmnopqrstuvwxyz"))
    x = words[torch.randint(len(words), (rows, length), generator=generator)]
    keys = torch.randint(2**62, (rows,), generator=generator)
    shown, asked = inputs.drawn(x, x, keys)
    chosen = asked >= 0
    num = int(chosen.sum())
    hidden = (shown == tokenizer.mask) & chosen
    stays = (shown == x) & chosen
    expected = {"asked for": 0.15, "of these hidden": 0.8, "of these another word": 0.1, "of these as they are": 0.1}
    found = [num / x.numel(), *(float(part.sum()) / num for part in (hidden, chosen & ~hidden & ~stays, stays))]
    # 4 standard errors; a word drawn from all is that word itself once in 256
    bands = [4 * math.sqrt(p * (1 - p) / n) for p, n in zip(expected.values(), (x.numel(), num, num, num), strict=True)]
    checks = [
        Check(f"share {name}", value, p - band - 0.0005, p + band + 0.0005)
        for (name, p), value, band in zip(expected.items(), found, bands, strict=True)
    ]
    places = tuple(map(float, range(len(found))))
    view = Curves(
        "Words of a masked row", "", "share", {"drawn": (places, tuple(found))},
        {"as said": (places, tuple(expected.values()))},
        names=tuple(name.replace("of these ", "of these\n") for name in expected),
    )  # fmt: skip
    return Evidence(
        (
            *checks,
            Check("words changed that are not asked for", float(((shown != x) & ~chosen).sum()), 0, 0),
            Check("terms of the loss a word, masked", num / x.numel(), 0.14, 0.16),
        ),
        view,
    )


@claim(
    "induction-heads",
    "Two layers of attention copy what came after a word the last time: the first tells each place which word stood "
    "before it, the second looks for the word of now; one layer cannot",
    "Elhage et al. 2021; Olsson et al. 2022",
)
def induction_heads(full: bool) -> Evidence:
    words, longest = 16, 32
    x, known = _repeated(400, words, longest, torch.Generator().manual_seed(1))
    made = _induction(words + 1, x.shape[1])
    right = _accuracy(made, x, known)
    with silenced(made, {"looks.0": (0,)}):
        without = _accuracy(made, x, known)
    checks = [
        Check("copied by weights made for it, two layers", right, low=1.0),
        Check("the same, the first layer silenced", without, high=0.2),
    ]
    ends, title, share = (0.0, 1.0), f"Words that stood before, of {words}", "share copied rightly"
    chance: dict[str, Points] = {"chance": (ends, (1 / words, 1 / words))}
    view = Curves(
        title, "", share, {"weights made for it": (ends, (right, without))}, chance,
        names=("two layers", "the first silenced"),
    )  # fmt: skip
    if full:
        curves: dict[str, Points] = {
            "made, two layers": (ends, (right, right)),
            "made, first silenced": (ends, (without, without)),
        }
        steps = 3000
        for depth in (1, 2):
            at, course = _learned(depth, words, longest, steps)
            curves[f"learned, {depth} layer{'s' * (depth > 1)}"] = at, course
            bound = {"low": 0.8} if depth == 2 else {"high": 0.4}
            checks.append(Check(f"copied by {depth} learned layer{'s' * (depth > 1)}", course[-1], **bound))
        view = Curves(title, "part of the training", share, curves, chance)
    return Evidence(tuple(checks), view)


class _Looks(nn.Module):
    """Layers of attention and nothing else, on words and places."""

    def __init__(self, words: int, length: int, dim: int, depth: int, heads: int = 1):
        super().__init__()
        self.word, self.place = nn.Embedding(words, dim), nn.Parameter(torch.randn(length, dim) / math.sqrt(dim))
        self.looks = nn.ModuleList(SelfAttention(dim, heads, bias=False) for _ in range(depth))
        self.out = nn.Linear(dim, words, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.word(x) + self.place[: x.shape[1]]
        for look in self.looks:
            h = h + look(h, Causal())
        return self.out(h)


def _repeated(rows: int, words: int, longest: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """All words in an order of their own for each row, then pieces of it from random places; and after which words the
    next one can be known. Before each stands the token `words`. A place says nothing, and neither does what has not
    been there for long: only what came after the same word.
    """
    length = 1 + words + longest
    x = torch.full((rows, length + 8), words)
    known = torch.zeros(rows, length + 8, dtype=torch.bool)
    for row in range(rows):
        order = torch.randperm(words, generator=g)
        x[row, 1 : 1 + words] = order
        at = 2 + words
        while at < length:
            size, start = torch.randint(1 << 20, (2,), generator=g).tolist()
            size = 3 + size % 5
            start %= words - size + 1
            x[row, at : at + size] = order[start : start + size]
            known[row, at : at + size - 1] = True
            at += size + 1
    known[:, length - 1 :] = False
    return x[:, :length], known[:, :length]


@lru_cache
def _induction(words: int, length: int) -> _Looks:
    """Weights made by hand. The stream has three parts: the word, its place, and the word before."""
    dim, sharp = 2 * words + length, 200.0
    net = _Looks(words, length, dim, 2)
    one, two, three = slice(0, words), slice(words, words + length), slice(words + length, dim)
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
        net.word.weight[:, one] = torch.eye(words)
        net.place[:, two] = torch.eye(length)
        for number, look in enumerate(net.looks):
            query, key, value = look.query_key_value.weight.view(3, dim, dim)  # type: ignore[operator,union-attr]
            if number == 0:  # place t asks for place t - 1, and takes its word to the third part
                query[two, two] = sharp * torch.eye(length).roll(-1, 0)
                key[two, two] = torch.eye(length)
                value[three, one] = torch.eye(words)
            else:  # a word asks for places whose word before is the same, and takes their word for an answer
                query[three, one] = sharp * torch.eye(words)
                key[three, three] = torch.eye(words)
                value[one, one] = 100 * torch.eye(words)  # however many places share the weight
                value[one, words - 1] = 0  # what begins a piece answers nothing
            look.out.weight.copy_(torch.eye(dim))  # type: ignore[operator,union-attr]
        net.out.weight[:, one] = torch.eye(words)
    return net.eval()


def _learned(depth: int, words: int, longest: int, steps: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Accuracy of learned layers over the steps."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = _Looks(words + 1, 1 + words + longest, 64, depth, heads=2)
    g = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    x_new, known_new = _repeated(200, words, longest, torch.Generator().manual_seed(1))
    at, course = [], []
    for step in range(steps):
        x, known = _repeated(32, words, longest, g)
        loss = F.cross_entropy(net(x)[:, :-1][known[:, :-1]], x[:, 1:][known[:, :-1]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % (steps // 15) == 0:
            at.append((step + 1) / steps)
            course.append(_accuracy(net, x_new, known_new))
    return tuple(at), tuple(course)


@torch.no_grad()
def _accuracy(net: nn.Module, x: Tensor, known: Tensor) -> float:
    """Of the words that could be known, the share that is."""
    said = net(x)[:, :-1].argmax(-1)
    return float((said == x[:, 1:])[known[:, :-1]].double().mean())
