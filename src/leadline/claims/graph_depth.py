"""What depth does on a graph: norms, nodes that become alike, influence of a random walk, bottlenecks, fixed points."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from leadline.claims.claim import Check, Evidence, claim
from leadline.claims.curves import Curves
from leadline.claims.graphs_made import Stack, made, random_graph
from leadline.data.edges import Edges
from leadline.data.graph import Graph
from leadline.layers.segments import mean
from leadline.lens.node_influence import node_influence
from leadline.lens.on_graphs import dense
from leadline.lens.over_smoothing import energy_of, over_smoothing
from leadline.lens.over_squashing import over_squashing
from leadline.models.gcn import GCN
from leadline.reference.adjacency import kipf


@claim(
    "adjacency-norm",
    "Normalised with loops first, no adjacency makes a signal longer: its eigenvalues lie in (-1, 1] and 1 is reached; "
    "with the identity added last they lie in [0, 2] and 2 is reached",
    "Kipf and Welling 2017; lecture notes 7.4; UDL equation 13.20",
    misprint="UDL prints the form with the identity last without a word on its norm, which is 2; the usual form is the "
    "other",
)
def adjacency_norm(full: bool) -> Evidence:
    shapes = {
        "ring": made([(k, (k + 1) % 12) for k in range(12)], 12),
        "star": made([(0, k) for k in range(1, 12)], 12),
        "all": made([(i, j) for i in range(12) for j in range(i)], 12),
        "path": made([(k, k + 1) for k in range(11)], 12),
        "two sides": made([(i, j) for i in range(6) for j in range(6, 12)], 12),
    }
    shapes |= {
        f"random {k}": random_graph(12 if full else 10, 1 + k, seed=k, joined=False) for k in range(6 if full else 3)
    }
    first, last = (
        [np.linalg.eigvalsh(kipf(dense(g).tolist(), loops)) for g in shapes.values()] for loops in ("first", "last")
    )
    high, low = [float(v.max()) for v in first], [float(v.min()) for v in first]
    ends = [(float(v.min()), float(v.max())) for v in last]
    at = tuple(map(float, range(len(shapes))))
    view = Curves(
        "Eigenvalues of normalised adjacencies", "", "eigenvalue",
        {"loops first, largest": (at, tuple(high)), "loops first, least": (at, tuple(low)),
         "identity last, largest": (at, tuple(e[1] for e in ends)),
         "identity last, least": (at, tuple(e[0] for e in ends))},
        names=tuple(shapes),
    )  # fmt: skip
    return Evidence(
        (
            Check(
                "loops first: largest distance of the largest eigenvalue from 1",
                max(abs(h - 1) for h in high),
                high=1e-12,
            ),
            Check("loops first: least eigenvalue", min(low), low=-1 + 1e-3),
            Check("identity last: largest eigenvalue", max(e[1] for e in ends), 2 - 1e-12, 2 + 1e-12),
            Check("identity last: least eigenvalue, of graphs with two sides", min(e[0] for e in ends), -1e-12, 1e-12),
        ),
        view,
    )


@claim(
    "over-smoothing",
    "Deep stacks make nodes alike, at the rate of the second eigenvalue; residual connections keep them apart",
    "Li et al. 2018; Oono and Suzuki 2020; UDL notes 13; lecture notes 7.4",
)
def oversmoothing(full: bool) -> Evidence:
    graph, y = _communities(60 if full else 40, seed=1)
    A = np.array(kipf(dense(graph).tolist()))  # noqa: N806
    second = float(np.sort(np.abs(np.linalg.eigvalsh(A)))[-2])
    h, energies, steps = graph.x.clone(), [], 64
    for _ in range(steps):
        h = torch.from_numpy(A) @ h
        energies.append(energy_of(h, graph))
    rate = (energies[-1] / energies[steps // 2 - 1]) ** (1 / (steps - steps // 2))
    points = {"without weights": (tuple(map(float, range(1, steps + 1))), tuple(energies))}
    ends, depth = {}, 32
    for word, residual in (("plain", "none"), ("residual", "sum")):
        found = []
        for seed in range(4):
            net = _net(graph, depth, residual, seed).double()
            for name, p in net.named_parameters():
                if name.endswith("bias"):  # what all nodes have alike would hide how they differ
                    nn.init.zeros_(p)
            net.held.put(graph)
            found.append(over_smoothing(net).energy[1:-1])
        middle = np.exp(np.log(np.maximum(found, 1e-30)).mean(0))
        ends[word] = float(middle[-1])
        points[word] = (tuple(map(float, range(1, depth))), tuple(middle.tolist()))
    right = {(layers, residual): _accuracy(graph, y, layers, residual) for layers, residual in _TRAINED}
    view = Curves("Dirichlet energy with depth", "layers", "energy / size", points, log="y")
    return Evidence(
        (
            Check(
                "factor of the energy a layer, over the square of the second eigenvalue", rate / second**2, 0.98, 1.02
            ),
            Check(f"energy after {depth} layers, residual over plain", ends["residual"] / ends["plain"], low=5),
            Check("trained accuracy of 2 layers (chance 0.33)", right[2, "none"], low=0.85),
            Check(f"of {depth} layers", right[depth, "none"], high=0.75),
            Check(f"of {depth} layers with residuals", right[depth, "sum"], low=0.85),
        ),
        view,
    )


_TRAINED = ((2, "none"), (32, "none"), (32, "sum"))


def _communities(size: int, seed: int, groups: int = 3) -> tuple[Graph, Tensor]:
    """Nodes of three groups, joined more often within; their numbers say a little of the group."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(groups).repeat_interleave(size)
    chance = torch.where(y[:, None] == y, 6.0 / size, 0.6 / size).double()
    there = (torch.rand(len(y), len(y), generator=g, dtype=torch.float64) < chance).triu(1)
    pairs = {(int(i), int(j)) for i, j in there.nonzero().tolist()} | {(k, k + 1) for k in range(len(y) - 1)}
    centres = 0.6 * torch.randn(groups, 8, generator=g, dtype=torch.float64)
    x = centres[y] + torch.randn(len(y), 8, generator=g, dtype=torch.float64)
    return made(pairs, len(y), x), y


def _net(graph: Graph, layers: int, residual: str, seed: int = 0) -> GCN:
    torch.manual_seed(seed)
    net = GCN(8, 3, dim=16, num_layers=layers, residual=residual)
    net.held.put(graph.to(dtype=torch.float32))
    return net


def _accuracy(graph: Graph, y: Tensor, layers: int, residual: str, steps: int = 60) -> float:
    """Of nodes without a label, trained on half of them."""
    net, rows = _net(graph, layers, residual), torch.arange(len(y))[:, None]
    train = torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < 0.5
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(rows)[train], y[train]).backward()
        optimizer.step()
    with torch.no_grad():
        return float((net(rows).argmax(1) == y)[~train].double().mean())


@claim(
    "influence-is-a-walk",
    "With means over neighbours the influence on a node is, on average, a random walk of as many steps as layers",
    "Xu et al. 2018; UDL notes 13",
)
def influence_is_a_walk(full: bool) -> Evidence:
    graph = random_graph(60, 3, seed=2)
    one, middle, spot = [], np.zeros(60), 5
    draws = 200 if full else 40
    for seed in range(draws):
        torch.manual_seed(seed)
        view = node_influence(_means(graph, 3, 32), spot)
        one.append(view.overlap)
        middle += view.influence / draws
    overlap = float(np.minimum(middle, view.walk).sum())
    order = np.argsort(-view.walk)
    at = tuple(map(float, range(1, 61)))
    curve = Curves(
        "Influence on a node, three layers", "nodes, by the walk", "share",
        {f"mean of {draws} networks": (at, tuple(middle[order].tolist()))},
        {"random walk of three steps": (at, tuple(view.walk[order].tolist()))},
    )  # fmt: skip
    return Evidence(
        (
            Check("overlap of the mean influence with the walk", overlap, low=0.95),
            Check("the same of single networks, mean", float(np.mean(one)), low=0.8),
            Check("shares of nodes beyond three steps", float(middle[view.walk == 0].sum()), 0, 0),
        ),
        curve,
    )


class _Mean(nn.Module):
    """Mean over a node and its neighbours, a linear map, ReLU."""

    def __init__(self, dim_input: int, dim_output: int):
        super().__init__()
        self.map = nn.Linear(dim_input, dim_output, bias=False)
        nn.init.normal_(self.map.weight, std=(2 / dim_input) ** 0.5)

    def forward(self, h: Tensor, edges: Edges) -> Tensor:
        looped = edges.with_loops()
        return torch.relu(self.map(mean(h[looped.source], looped)))


def _means(graph: Graph, num_layers: int, dim: int) -> Stack:
    """A stack of them."""
    net, widths = Stack(graph, "mean", num_layers, dim), [graph.x.shape[1], *[dim] * num_layers]
    net.layers = nn.ModuleList(_Mean(a, b) for a, b in pairwise(widths)).double()
    return net


@claim(
    "bottlenecks-squash",
    "What a node feels of another falls with the resistance of the way between them, while ever more nodes must fit "
    "into vectors of one length",
    "Alon and Yahav 2021; Black et al. 2023; UDL notes 13; lecture notes 7.4",
)
def bottlenecks_squash(full: bool) -> Evidence:
    size = 12 if full else 8
    bell = [(i, j) for at in (0, size + 3) for i in range(at, at + size) for j in range(at, i)]
    bell += [(size - 1 + k, size + k) for k in range(4)]
    graph = made(bell, 2 * size + 3)
    felt, ranks = [], []
    for seed in range(5):
        torch.manual_seed(seed)
        view = over_squashing(_means(graph, 7, 16), num=len(graph))
        felt.append(view.by_distance / view.by_distance[0])
        ranks.append(view.rank)
    middle = np.exp(np.log(np.stack(felt)[:, :6]).mean(0))
    tree = made([((k - 1) // 3, k) for k in range(1, 364)], 364)
    torch.manual_seed(0)
    crowd = over_squashing(_means(tree, 5, 4), num=1, seed=_root(364)).crowd
    at = tuple(map(float, range(6)))
    curve = Curves(
        "Two cliques and a path between them", "steps", "‖∂h / ∂x‖, by that of the node itself",
        {"felt": (at, tuple(middle.tolist()))}, log="y",
    )  # fmt: skip
    return Evidence(
        (
            Check("rank correlation of what is felt with resistance, the worst", max(ranks), high=-0.7),
            Check("felt at five steps over one", float(middle[5] / middle[1]), high=0.1),
            Check(
                "nodes within five steps of the root of a tree over those within four", crowd[5] / crowd[4], 2.9, 3.1
            ),
        ),
        curve,
    )


def _root(num: int) -> int:
    """A seed that picks node 0."""
    return next(
        s for s in range(10_000) if int(torch.randperm(num, generator=torch.Generator().manual_seed(s))[0]) == 0
    )


@claim(
    "contraction-converges",
    "Where f is a contraction in h, the recursive network has one state that it comes to from anywhere, at least as "
    "fast as the Lipschitz constant says",
    "Gori et al. 2005; Scarselli et al. 2009; UDL equation 13.25",
    misprint="UDL's pointer to a figure on contractions leads nowhere",
)
def contraction_converges(full: bool) -> Evidence:
    graph = random_graph(30, 3, seed=4)
    A = torch.tensor(kipf(dense(graph).tolist()), dtype=torch.float64)  # noqa: N806
    g = torch.Generator().manual_seed(0)
    W = torch.linalg.qr(torch.randn(8, 8, generator=g, dtype=torch.float64))[0]  # noqa: N806 - of norm 1
    U = torch.randn(4, 8, generator=g, dtype=torch.float64) / 2  # noqa: N806
    steps, points, worst, apart = 60, {}, 0.0, {}
    for s in (0.5, 0.9, 4.0):
        here, there = (sign * 3 * torch.randn(30, 8, generator=g, dtype=torch.float64) for sign in (1, -1))
        gaps = []
        for _ in range(steps):
            new, other = (torch.tanh(graph.x @ U * (s < 1) + s * A @ h @ W) for h in (here, there))
            if s < 1 and (here - there).norm() > 1e-6:
                worst = max(worst, float((new - other).norm() / (here - there).norm()) / s)
            here, there = new, other
            gaps.append(float((here - there).norm()))
        points[f"constant {s:g}"] = (tuple(map(float, range(1, steps + 1))), tuple(max(v, 1e-18) for v in gaps))
        apart[s] = gaps[-1]
    view = Curves("Two starts of a recursive network", "steps", "distance between them", points, log="y")
    return Evidence(
        (
            Check("factor of the distance a step over the constant, the worst", worst, high=1 + 1e-9),
            Check("distance at the end, constant 0.5", apart[0.5], high=1e-14),
            Check("constant 0.9", apart[0.9], high=0.1),
            Check("constant 4, no contraction", apart[4.0], low=1.0),
        ),
        view,
    )
