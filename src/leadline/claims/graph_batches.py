"""Batches of a graph that is too large to be read whole: what they keep of it, and what they lose."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.data.layer_sampling import layers
from leadline.data.neighbours import hops, neighbours
from leadline.data.partitions import batches, num_cut, partition
from leadline.data.sampling import Parts, sampling
from leadline.layers.segments import received
from leadline.models.gcn import GCN


@claim(
    "sampled-sums",
    "Drawn neighbours, or drawn nodes of a layer, meet the sum over all neighbours on average",
    "Hamilton et al. 2017; Zou et al. 2019; UDL 13.8.1",
)
def sampled_sums(full: bool) -> Evidence:
    edges, x = _planted(400, 6000), _numbers(400, 1)
    seeds = torch.arange(0, 40, 2)
    whole = received(x, edges)[seeds, 0]
    ways = {
        "3 neighbours": lambda key: neighbours(edges, seeds, [3], key),
        "3 heavy ones": lambda key: neighbours(edges, seeds, [3], key, weighted=True),
        "40 nodes of the layer": lambda key: layers(edges, seeds, 40, 1, key),
    }
    draws = 6000 if full else 600
    worst, found = {}, {}
    for name, draw in ways.items():
        sums = []
        for k in range(draws):
            nodes, [read] = draw(torch.tensor([k]))
            times = None if read.times is None else read.times.to(x.dtype)
            sums.append(received(x[nodes], read, times)[:, 0])
        drawn = torch.stack(sums)
        error = drawn.std(0) / draws**0.5
        worst[name] = float(((drawn.mean(0) - whole) / error.clamp(min=1e-9)).abs().max())
        found[name] = drawn.mean(0)
    view = Curves(
        f"Sums over neighbours, means of {draws} draws", "sum over all neighbours of a node", "mean of drawn sums",
        {name: (tuple(whole.tolist()), tuple(mean.tolist())) for name, mean in found.items()},
        {"the same": ((float(whole.min()), float(whole.max())),) * 2}, joined=False,
    )  # fmt: skip
    # of twenty nodes the largest of twenty deviations: beyond 4 once in 800
    return Evidence(
        tuple(Check(f"largest distance in standard errors, {name}", off, high=4.0) for name, off in worst.items()), view
    )


@claim(
    "hops-are-exact",
    "The loss and the gradient of a batch of nodes on their k-hop neighbourhoods are those on the whole graph",
    "UDL 13.8.1, figures 13.9 and 13.10a",
)
def hops_are_exact(full: bool) -> Evidence:
    graph = Graph(_numbers(600, 5), _planted(600, 1500))
    depths = (1, 2, 3, 4) if full else (1, 2, 3)
    asked, losses, slopes, shares = torch.arange(300, 360, 6)[:, None], [], [], []
    for depth in depths:
        with torch.random.fork_rng():
            torch.manual_seed(depth)
            net = GCN(5, 3, dim=8, num_layers=depth).double()
        found = []
        for way in (None, sampling("hops")):
            net.held.put(Graph(graph.x, graph.edges, batches=way))
            loss = net(asked).square().mean()
            slope = torch.autograd.grad(loss, [*net.parameters()])
            found.append((loss.detach(), torch.cat([g.flatten() for g in slope])))
        losses.append(float((found[0][0] - found[1][0]).abs()))
        slopes.append(float((found[0][1] - found[1][1]).abs().max()))
        shares.append(len(hops(graph.edges, asked[:, 0], depth)[0]) / len(graph))
    view = Curves(
        "What a batch of ten nodes reads", "layers", "share of the graph's nodes",
        {"k-hop neighbourhoods": (tuple(map(float, depths)), tuple(shares))},
    )  # fmt: skip
    return Evidence(
        (
            Check("largest difference of losses", max(losses), high=1e-12),
            Check("largest difference of derivatives", max(slopes), high=1e-12),
            Check(f"share of the nodes that {depths[0]} layer reads", shares[0], high=0.5),
        ),
        view,
    )


@claim(
    "partition-batches",
    "A graph that is cut in four parts gives four batches, or six of pairs with the links between them restored; a "
    "partition that follows the graph cuts far fewer edges than chance",
    "Chiang et al. 2019; UDL 13.8.1, figure 13.11",
)
def partition_batches(full: bool) -> Evidence:
    edges = _planted(2000 if full else 400, 30_000 if full else 4000)
    parts, own = partition(edges, 4), Parts(4)
    chance = torch.randperm(len(parts), generator=torch.Generator().manual_seed(0)) % 4
    kept = {1: 0, 2: 0}
    for together in kept:
        for some in batches(4, together):
            seeds = torch.stack([(parts == part).nonzero()[0, 0] for part in some])
            kept[together] += len(own(edges, seeds, 1, torch.zeros(1, dtype=torch.int64))[1][0])
    counts = (2, 4, 8, 16)
    cut = [num_cut(edges, partition(edges, count)) / len(edges) for count in counts]
    random = [1 - 1 / count for count in counts]
    at = tuple(map(float, counts))
    view = Curves(
        "Edges that a partition cuts", "parts", "share of the edges",
        {"by the walk's slowest modes": (at, tuple(cut))}, {"at random, 1 - 1/parts": (at, tuple(random))}, log="x",
    )  # fmt: skip
    sizes = parts.bincount()
    inside = len(edges) - num_cut(edges, parts)
    return Evidence(
        (
            Check("batches of single parts", len(batches(4, 1)), 4, 4),
            Check("batches of pairs", len(batches(4, 2)), 6, 6),
            Check("edges of the four batches, less those inside the parts", kept[1] - inside, 0, 0),
            # every part is in three pairs, every cut edge in one
            Check("edges of the six, less three times those and the cut ones", kept[2] - 2 * inside - len(edges), 0, 0),
            Check("largest part over the smallest", float(sizes.max() / sizes.min()), 1, 1.01),
            Check(
                "cut edges over those of a random partition", num_cut(edges, parts) / num_cut(edges, chance), high=0.5
            ),
        ),
        view,
    )


@claim(
    "graph-expansion",
    "With every layer a batch reads more of the graph, until it reads all of it; drawn neighbours keep it small",
    "UDL 13.8.1, figures 13.9 and 13.10",
)
def graph_expansion(full: bool) -> Evidence:
    num = 100_000 if full else 10_000
    edges, seeds = _planted(num, 10 * num), torch.arange(5) + num // 2
    depths = (1, 2, 3, 4, 5)
    shares = [len(hops(edges, seeds, depth)[0]) / num for depth in depths]
    drawn = [len(neighbours(edges, seeds, [3] * depth, torch.tensor([1]))[0]) / num for depth in depths]
    reached = int((edges.degree > 0).sum()) / num
    at = tuple(map(float, depths))
    view = Curves(
        f"What five nodes of {num:,} read", "layers", "share of the graph's nodes",
        {"all neighbours": (at, tuple(shares)), "3 of them": (at, tuple(drawn))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("share that one layer reads", shares[0], high=0.05),
            Check("share of the nodes with edges that five layers read", shares[-1] / reached, low=0.99),
            Check("least growth from layer to layer", min(b - a for a, b in pairwise(shares)), low=0.0),
            Check("share that five layers of 3 neighbours read", drawn[-1], high=5 * 4**5 / num),
        ),
        view,
    )


def _planted(num: int, num_edges: int, groups: int = 4, p_in: float = 0.8) -> Edges:
    """Edges without direction that stay in their group mostly; of the nodes, the first have more."""
    g = torch.Generator().manual_seed(0)
    skewed = lambda n: (torch.rand(num_edges, generator=g, dtype=torch.float64) ** 2 * n).long()  # noqa: E731
    a, other = skewed(num), skewed(num // groups)
    inside = torch.rand(num_edges, generator=g) < p_in
    b = torch.where(inside, other * groups + a % groups, skewed(num))
    return Edges.of(torch.stack([a, b]), num, directed=False)


def _numbers(num: int, width: int) -> Tensor:
    return torch.randn(num, width, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 1
