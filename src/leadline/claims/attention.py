"""What attention computes: means of values, two linear maps in a row once its weights are held, one product for all
heads; and why its scores are divided by √D."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.layers.attend import attend, weights
from leadline.layers.attention import SelfAttention
from leadline.reference import attention as by_hand

_UDL = "Understanding Deep Learning"


@claim(
    "attention-routes",
    "Attention weights are not negative and sum to one, so each output is a mean of the values: figure 12.1 mixes "
    "three of them as 0.1, 0.3, 0.6 and as 0.5, 0.2, 0.3",
    f"{_UDL}, section 12.2, equation 12.3 and figure 12.1; lecture notes on attention; notes after Dive into Deep "
    "Learning, section 11",
    misprint="equation 12.5 has q_m and k_n above the line where it has k_m' and q_n below: the weight of value m for "
    "output n is a softmax over m of k_m · q_n, here as there",
)
def attention_routes(full: bool) -> Evidence:
    num, dim, rows = (64, 32, 200) if full else (16, 8, 50)
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(rows, 1, num, dim, generator=g, dtype=torch.float64) for _ in range(3))
    w, out = weights(q, k), attend(q, k, v)
    above = (out - v.amax(2, keepdim=True)).clamp(min=0).max() + (v.amin(2, keepdim=True) - out).clamp(min=0).max()
    printed = torch.tensor([[0.1, 0.3, 0.6], [0.5, 0.2, 0.3]], dtype=torch.float64)
    values = torch.randn(3, 4, generator=g, dtype=torch.float64)
    # keys at right angles and queries that hold the logarithms of the weights ask for just these
    found = attend(
        printed.log()[None, None], torch.eye(3, dtype=torch.float64)[None, None], values[None, None], scale=1
    )
    mixes, at = printed @ values, tuple(map(float, range(4)))
    alone = by_hand.attend(q[0, 0].tolist(), k[0, 0].tolist(), v[0, 0].tolist())
    view = Curves(
        "Three values as figure 12.1 mixes them", "entry of the vectors", "value",
        {f"output {n + 1}": (at, tuple(found[0, 0, n].tolist())) for n in range(2)},
        {f"{a} v₁ + {b} v₂ + {c} v₃": (at, tuple(mixed)) for (a, b, c), mixed in zip(printed.tolist(), mixes.tolist())},
        names=("1", "2", "3", "4"),
    )  # fmt: skip
    return Evidence(
        (
            Check("least weight", float(w.min()), low=0.0),
            Check("largest distance of a sum of weights from 1", float((w.sum(-1) - 1).abs().max()), high=1e-12),
            Check("largest way of an output out of the range of its values", float(above), high=1e-12),
            Check("largest difference from the sums of figure 12.1", _far(found[0, 0], mixes), high=1e-12),
            Check("largest difference from loops", _far(out[0, 0], torch.tensor(alone, dtype=out.dtype)), high=1e-12),
        ),
        view,
    )


@claim(
    "dot-products-grow",
    "The dot product of two vectors of D independent unit normals has variance D, and 1 when it is divided by √D",
    f"{_UDL}, section 12.3.2; notes after Dive into Deep Learning, section 11",
)
def dot_products_grow(full: bool) -> Evidence:
    sizes, draws = ((4, 16, 64, 256, 1024), 200_000) if full else ((4, 16, 64, 256), 8000)
    g = torch.Generator().manual_seed(0)
    plain = []
    for size in sizes:
        pairs = [torch.randn(2, min(draws, 2000), size, generator=g) for _ in range(max(1, draws // 2000))]
        plain.append(float(torch.cat([(a * b).sum(-1) for a, b in pairs]).var()))
    xs = tuple(map(float, sizes))
    # var of a sample variance: (kurtosis - 1) / n, and the kurtosis of such a product is 3 + 6 / D
    worst = max(abs(v / d - 1) / math.sqrt((2 + 6 / d) / draws) for v, d in zip(plain, sizes, strict=True))
    view = Curves(
        "Dot products of unit normals", "D", "variance",
        {"q · k": (xs, tuple(plain)), "q · k / √D": (xs, tuple(v / d for v, d in zip(plain, sizes, strict=True)))},
        {"D": (xs, xs), "1": (xs, (1.0,) * len(xs))}, log="xy",
    )  # fmt: skip
    return Evidence((Check("largest distance from D, in standard errors", worst, high=4.0),), view)


@claim(
    "softmax-saturates",
    "Without division by √D the largest of 32 scores takes nearly all of the weight when D is large, and a softmax "
    "that is so far from balance passes no gradient",
    f"{_UDL}, section 12.3.2 and problem 12.4",
    misprint="equation 12.19 has k both for the derivative and as the index of its sum",
)
def softmax_saturates(full: bool) -> Evidence:
    sizes, rows = ((4, 16, 64, 256, 1024, 4096), 4000) if full else ((4, 64, 1024), 400)
    g = torch.Generator().manual_seed(0)
    largest: dict[str, list[float]] = {"as they are": [], "divided by √D": []}
    passed: dict[str, list[float]] = {name: [] for name in largest}
    for size in sizes:
        q, k = torch.randn(rows, 1, size, generator=g), torch.randn(rows, 32, size, generator=g)
        scores = (q * k).sum(-1)
        for name, z in (("as they are", scores), ("divided by √D", scores / math.sqrt(size))):
            a = z.softmax(-1)
            largest[name].append(float(a.max(-1).values.mean()))
            passed[name].append(float((a * (1 - a)).sum(-1).mean()))  # trace of the Jacobian diag(a) - a aᵀ
    xs = tuple(map(float, sizes))
    printed = by_hand.softmax_jacobian([-3.0, 1.0, 1000.0, 5.0, -1.0])
    balanced = by_hand.softmax_jacobian([z / math.sqrt(1000) for z in (-3.0, 1.0, 5.0, 5.0, -1.0)])
    view = Curves(
        "The largest of 32 attention weights", "D", "mean largest weight",
        {name: (xs, tuple(found)) for name, found in largest.items()}, log="x",
    )  # fmt: skip
    at = sizes.index(1024)
    plain, scaled = largest.values()
    return Evidence(
        (
            # normal scores of deviation 32: a computation apart from this one gives 0.95, and 0.16 for deviation 1
            Check("mean largest weight at D = 1024, as they are", plain[at], 0.93, 0.97),
            Check("the same, divided by √D", scaled[at], 0.15, 0.17),
            Check("gradient that passes at D = 1024, as they are", passed["as they are"][at], high=0.1),
            Check("the same, divided by √D", passed["divided by √D"][at], low=0.8),
            Check("largest of the 25 derivatives of problem 12.4", _largest(printed), high=1e-300),
            Check("the same of balanced scores", _largest(balanced), low=0.1),
        ),
        view,
    )


@claim(
    "attention-two-maps",
    "With its weights held fixed, attention is two linear maps in a row: one of each token alone, one across tokens; "
    "as the weights change with the input, it is not linear, though it has no activation function",
    f"{_UDL}, sections 12.2.2 and 12.2.3, figure 12.2",
    misprint="equation 12.6 calls the vector of ones D x 1; it has N entries",
)
def attention_two_maps(full: bool) -> Evidence:
    num, dim = (12, 8) if full else (6, 4)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer = SelfAttention(dim, 1).double()
        torch.nn.init.eye_(layer.out.weight), torch.nn.init.zeros_(layer.out.bias)
        x = 2 * torch.randn(1, num, dim, dtype=torch.float64)
        q, k, v = layer.queries_keys_values(x)
        held = weights(q, k)[0, 0]
        slopes, offsets = layer.query_key_value.weight[2 * dim :], layer.query_key_value.bias[2 * dim :]
        one = torch.eye(num, dtype=torch.float64)
        first = torch.kron(one, slopes)
        alone = first @ x.flatten() + offsets.repeat(num)
        across = torch.kron(held, torch.eye(dim, dtype=torch.float64)) @ alone
        scales = torch.linspace(0.25, 4, 16, dtype=torch.float64)
        layer.query_key_value.bias.zero_()  # a linear map would now obey f(a X) = a f(X)
        bent = [_far(layer(a * x), a * layer(x)) / float((a * layer(x)).abs().max()) for a in scales]
    view = Curves(
        "Attention of a X beside a times attention of X", "a", "largest difference, of the largest output",
        {"no biases": (tuple(scales.tolist()), tuple(bent))}, {"a linear map": ((0.25, 4.0), (0.0, 0.0))},
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference from the two maps", _far(across.view(num, dim), (held @ v[0, 0])), high=1e-12),
            Check("entries of the first that are not 0", float((first != 0).sum()), num * dim**2, num * dim**2),
            Check("f(4 X) beside 4 f(X), of the largest output", bent[-1], low=0.01),
        ),
        view,
    )


@claim(
    "attention-parameters",
    "The values of attention have D² + D parameters however many tokens there are, where a fully connected layer has "
    "D²N² + DN; its weights are N², however wide the tokens are",
    f"{_UDL}, sections 12.2.1 and 12.2.3, problem 12.1",
)
def attention_parameters(full: bool) -> Evidence:
    dim, lengths = 16, (1, 4, 16, 64, 256) if full else (1, 4, 16)
    layer = SelfAttention(dim, 1)
    own = sum(p.numel() for p in layer.query_key_value.parameters()) / 3
    sizes, dense, seen = [], [], []
    for num in lengths:
        with torch.device("meta"):
            dense.append(float(sum(p.numel() for p in torch.nn.Linear(num * dim, num * dim).parameters())))
        q, k, _ = layer.queries_keys_values(torch.randn(1, num, dim))
        seen.append(float(weights(q, k).numel()))
        sizes.append(tuple(layer(torch.zeros(1, num, dim)).shape) == (1, num, dim))
    xs = tuple(map(float, lengths))
    view = Curves(
        f"Parameters and weights, D = {dim}", "tokens N", "numbers",
        {"values of attention": (xs, (own,) * len(xs)), "fully connected": (xs, tuple(dense)),
         "attention weights": (xs, tuple(seen))}, log="xy",
    )  # fmt: skip
    num = lengths[-1]
    return Evidence(
        (
            Check("parameters of the values", own, dim**2 + dim, dim**2 + dim),
            Check(
                f"parameters of a fully connected layer, N = {num}",
                dense[-1],
                (dim * num) ** 2 + dim * num,
                (dim * num) ** 2 + dim * num,
            ),
            Check(f"attention weights, N = {num}", seen[-1], num**2, num**2),
            Check("lengths that one layer takes and gives back", sum(sizes), len(lengths), len(lengths)),
        ),
        view,
    )


@claim(
    "heads-one-product",
    "Queries, keys and values of all heads are one product of matrices, cut into heads afterwards; H heads of width "
    "D / H have as many parameters as one of width D",
    f"{_UDL}, section 12.3.3, equations 12.10 to 12.12 and problem 12.5; lecture notes on attention",
)
def heads_one_product(full: bool) -> Evidence:
    num, dim, counts = (12, 24, (1, 2, 3, 4, 6, 12)) if full else (5, 12, (1, 2, 3))
    apart, numbers = [], []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        for count in counts:
            layer = SelfAttention(dim, count).double()
            x = torch.randn(1, num, dim, dtype=torch.float64)
            heads = [_head(layer, h) for h in range(count)]
            mix = by_hand.Map(layer.out.bias.tolist(), layer.out.weight.tolist())
            loops = torch.tensor(by_hand.multi_head(x[0].tolist(), heads, mix), dtype=x.dtype)
            apart.append(_far(layer(x)[0], loops))
            numbers.append(float(sum(p.numel() for p in layer.parameters())))
    xs = tuple(map(float, counts))
    view = Curves(
        "Heads apart and in one product", "heads", "largest difference",
        {"float64": (xs, tuple(max(a, 1e-18) for a in apart))}, {"allowed": (xs, (1e-12,) * len(xs))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference from heads apart", max(apart), high=1e-12),
            Check("parameters, most heads less one head", numbers[-1] - numbers[0], 0, 0),
        ),
        view,
    )


def _head(layer: SelfAttention, h: int) -> by_hand.Head:
    """Head h of a layer as three maps of its own."""
    width, dim = layer.dim_head, layer.heads * layer.dim_head
    held, b = layer.query_key_value.weight, layer.query_key_value.bias
    rows = [slice(part * dim + h * width, part * dim + (h + 1) * width) for part in range(3)]
    return by_hand.Head(*(by_hand.Map(b[at].tolist(), held[at].tolist()) for at in rows))


def _far(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def _largest(rows: list[list[float]]) -> float:
    return max(abs(value) for row in rows for value in row)
