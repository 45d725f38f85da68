"""What depth does to transformers: gradients of queries and of layers, where norms stand, and why training warms up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.attention import SelfAttention
from leadline.layers.feed_forward import FeedForward
from leadline.layers.masks import Causal
from leadline.layers.sublayer import Sublayer
from leadline.lens.attention_gradients import attention_gradients
from leadline.likelihoods import Tokens
from leadline.models import GPT

_UDL = "Understanding Deep Learning"
_WORDS, _LENGTH, _WIDTH = 8, 16, 32
_KINDS = {"none": "no norm", "pre": "norm inside", "post": "norm after"}


@claim(
    "query-gradients",
    "At the first weights the gradients of queries and keys are far below those of values, which is why transformers "
    "are trained with Adam",
    f"{_UDL}, notes on chapter 12, training transformers; Liu et al. 2020",
)
def query_gradients(full: bool) -> Evidence:
    dim, layers, rows = (256, 8, 64) if full else (64, 4, 16)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GPT(50, 32, dim, layers, 4, p_drop=0.0)
        x = torch.randint(50, (rows, 33))
    view = attention_gradients(model, (x[:, :-1], x[:, 1:]), Tokens(50))
    query, key, value, _ = view.norms.T
    ratios = [max(q, k) / v for q, k, v in zip(query, key, value, strict=True)]
    # "far below" as said beforehand: a fifth at most in the mean, a half at most in any layer
    return Evidence(
        (
            Check("gradient of queries or keys over that of values, mean of layers", sum(ratios) / layers, high=0.2),
            Check("the same, largest of layers", max(ratios), high=0.5),
        ),
        view,
    )


@claim(
    "norm-gradients",
    "On the way back a sum with a residual branch makes gradients larger from layer to layer; with a norm after the "
    "sum the first layers have the smaller ones, and a norm inside the branch lets them neither explode nor vanish",
    f"{_UDL}, notes on chapter 12, training transformers; Xiong et al. 2020",
)
def norm_gradients(full: bool) -> Evidence:
    depth, seeds = (48, 60) if full else (24, 20)
    found = {kind: torch.stack([_backward(kind, depth, seed) for seed in range(seeds)]).log() for kind in _KINDS}
    stream = {kind: logs[:, 0, 0] for kind, logs in found.items()}
    first = found["post"][:, 1, 0]
    xs = tuple(map(float, range(1, depth + 1)))
    named = {f"stream, {where}": (xs, _course(found[kind][:, 0])) for kind, where in _KINDS.items()}
    view = Curves(
        f"Gradients of {depth} layers at the first weights", "layer", "norm of the gradient, that of the last 1",
        {**named, f"weights, {_KINDS['post']}": (xs, _course(found["post"][:, 1]))}, log="y",
    )  # fmt: skip
    # Xavier's weights, ReLU between D and 4 D: a network of a branch passes 0.32 of the square, so that L of them make
    # 1.32^(L/2) of the norm without norms. Inside branches the stream grows as √L, and gradients against it
    least = 1.32 ** (depth / 2)
    # as in the source of it, gradients of weights; that of the stream falls less, and no more with depth
    highest = float((first.mean() + 2 * first.std() / math.sqrt(seeds)).exp())
    return Evidence(
        (
            Check("stream, first over last layer, no norm", float(stream["none"].mean().exp()), low=least),
            Check("the same, norm inside the branch", float(stream["pre"].mean().exp()), 1, 2 * math.sqrt(depth)),
            Check("weights, first over last layer, norm after the sum, with two standard errors", highest, high=1.0),
        ),
        view,
    )


@claim(
    "norm-placement",
    "At a rate of 0.003 twelve layers and more train without warm-up where norms stand inside the branches, and do not "
    "where they stand after the sum",
    f"{_UDL}, notes on chapter 12, training transformers; Xiong et al. 2020",
)
def norm_placement(full: bool) -> Evidence:
    depths, steps = ((3, 6, 12, 24), 320) if full else ((12,), 80)
    courses = {kind: [_trained(kind, depth, steps) for depth in depths] for kind in ("pre", "post")}
    explained = {kind: [course.explained for course in found] for kind, found in courses.items()}
    at, xs = tuple(map(float, range(1, steps + 1))), tuple(map(float, depths))
    if full:
        view = Curves(
            f"{steps} steps of Adam without warm-up", "layers", "share of the loss explained",
            {_KINDS[kind]: (xs, tuple(found)) for kind, found in explained.items()},
        )  # fmt: skip
    else:
        view = Curves(
            f"{depths[-1]} layers, Adam without warm-up", "steps", "loss, nats a word",
            {_KINDS[kind]: (at, tuple(found[-1].losses)) for kind, found in courses.items()},
            {f"{_WORDS} words, equally likely": ((1.0, float(steps)), (math.log(_WORDS),) * 2)},
        )  # fmt: skip
    return Evidence(
        (
            # "train" and "do not" as said beforehand: more than half of log V, less than a twentieth
            Check(f"share explained by {depths[-1]} layers, norm inside", explained["pre"][-1], low=0.5),
            Check(f"share explained by {depths[-1]} layers, norm after", explained["post"][-1], high=0.05),
        ),
        view,
    )


@claim(
    "warm-up",
    "With norms after the sums twelve layers need warm-up at a rate of 0.003: without it gradients vanish and nothing "
    "is learned",
    f"{_UDL}, notes on chapter 12, training transformers; Xiong et al. 2020; Huang et al. 2020",
)
def warm_up(full: bool) -> Evidence:
    steps, seeds = (320, 3) if full else (200, 1)
    runs = {
        name: [_trained("post", 12, steps, warm, seed) for seed in range(seeds)]
        for name, warm in (("without warm-up", 0), ("with warm-up", steps // 2))
    }
    mean = {name: sum(run.explained for run in found) / seeds for name, found in runs.items()}
    norms = {name: found[0].gradients for name, found in runs.items()}
    late = {name: sum(found[-20:]) / 20 / found[0] for name, found in norms.items()}
    at = tuple(map(float, range(1, steps + 1, 10)))
    view = Curves(
        "12 layers, norms after the sums", "steps", "norm of the gradient",
        {name: (at, tuple(found[::10])) for name, found in norms.items()}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("share of the loss explained, without warm-up", mean["without warm-up"], high=0.05),
            Check("the same, with warm-up", mean["with warm-up"], low=0.5),
            Check(
                "gradient at the end over that of the first step, without warm-up", late["without warm-up"], high=0.1
            ),
            Check("the same, with over without", late["with warm-up"] / late["without warm-up"], low=2.0),
        ),
        view,
    )


class _Stack(nn.Module):
    """Words that look back, `depth` times. Norms: none, inside the branch (pre), or after the sum (post)."""

    def __init__(self, kind: str, depth: int):
        super().__init__()
        self.word = nn.Embedding(_WORDS, _WIDTH)
        self.place = nn.Parameter(torch.randn(_LENGTH, _WIDTH))
        self.layers = nn.ModuleList(_sublayer(kind, part) for _ in range(depth) for part in ("look", "think"))
        self.leave = nn.LayerNorm(_WIDTH) if kind == "pre" else nn.Identity()
        self.head = nn.Linear(_WIDTH, _WORDS)
        for module in self.layers.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.leave(self.streams(self.word(x) + self.place)[-1]))

    def streams(self, h: Tensor) -> list[Tensor]:
        """The stream before the first layer and after each."""
        found = [h]
        for look, think in zip(self.layers[::2], self.layers[1::2], strict=True):
            found.append(think(look(found[-1], Causal())))
        return found


def _sublayer(kind: str, part: str) -> Sublayer:
    branch = SelfAttention(_WIDTH, 4) if part == "look" else FeedForward(_WIDTH, 4 * _WIDTH, "relu")
    return Sublayer(
        branch, nn.Identity() if kind == "none" else nn.LayerNorm(_WIDTH), "post" if kind == "post" else "pre"
    )


def _backward(kind: str, depth: int, seed: int) -> Tensor:
    """Norms of gradients in float64, (2, depth), that of the last 1: of the stream before each layer, of the weights
    with which its network ends.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = _Stack(kind, depth).double()
        x, y = torch.randint(_WORDS, (2, 16, _LENGTH))
    streams = net.streams(net.word(x) + net.place)
    loss = F.cross_entropy(net.head(net.leave(streams[-1])).flatten(0, 1), y.flatten())
    weights: list[Tensor] = [layer.branch.narrow.weight for layer in net.layers[1::2]]  # type: ignore[misc, union-attr]
    norms = torch.stack([slope.norm() for slope in torch.autograd.grad(loss, [*streams[:-1], *weights])])
    norms = norms.view(2, depth)
    return norms / norms[:, -1:]


def _course(logs: Tensor) -> tuple[float, ...]:
    """Geometric mean over seeds, layer by layer."""
    return tuple(logs.mean(0).exp().tolist())


@dataclass(frozen=True)
class _Course:
    losses: list[float] = field(default_factory=list)
    gradients: list[float] = field(default_factory=list)

    @property
    def explained(self) -> float:
        """Of log V, the loss of knowing nothing, over the last tenth of the steps."""
        last = self.losses[-max(1, len(self.losses) // 10) :]
        return 1 - sum(last) / len(last) / math.log(_WORDS)


def _trained(kind: str, depth: int, steps: int, warm: int = 0, seed: int = 0) -> _Course:
    """Each place has to say the word before it: looking back by one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = _Stack(kind, depth)
    g, course = torch.Generator().manual_seed(seed), _Course()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 3e-3 * (min(1.0, (step + 1) / warm) if warm else 1.0)
        x = torch.randint(_WORDS, (16, _LENGTH), generator=g)
        loss = F.cross_entropy(net(x)[:, 1:].flatten(0, 1), x[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        slopes = [p.grad for p in net.layers.parameters() if p.grad is not None]
        course.gradients.append(float(torch.linalg.vector_norm(torch.stack([s.norm() for s in slopes]))))
        course.losses.append(float(loss.detach()))
        optimizer.step()
    return course
