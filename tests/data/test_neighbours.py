"""What is read of a graph for some of its nodes: neighbourhoods, few neighbours, nodes of a layer."""

from itertools import pairwise

import pytest
import torch

from leadline.data import blocks
from leadline.data.edges import Edges
from leadline.data.layer_sampling import layers
from leadline.data.neighbours import hops, hops_within, neighbours, subsets


def skewed(num_nodes=200, num_edges=3000, seed=0, **columns):
    g = torch.Generator().manual_seed(seed)
    source = torch.randint(num_nodes, (num_edges,), generator=g)
    target = (torch.rand(num_edges, generator=g) ** 3 * (num_nodes - 5)).long()  # the last five are isolated
    source = source.clamp(max=num_nodes - 6)
    given = {name: make(num_edges, g) for name, make in columns.items()}
    return Edges.of(torch.stack([source, target]), num_nodes, **given)


def key(number):
    return torch.tensor([number])


def whole_sum(edges, x):
    weight = torch.ones(len(edges), dtype=x.dtype) if edges.weight is None else edges.weight
    times = weight if edges.times is None else weight * edges.times
    out = torch.zeros(edges.num_targets, *x.shape[1:], dtype=x.dtype)
    return out.index_add(0, edges.target, times[:, None] * x[edges.source])


class Net(torch.nn.Module):
    """Means, sums and the node itself, on blocks as on a whole graph."""

    def __init__(self, dims):
        super().__init__()
        g = torch.Generator().manual_seed(1)
        self.maps = torch.nn.ParameterList(
            torch.randn(3, a, b, dtype=torch.float64, generator=g) / a**0.5 for a, b in pairwise(dims)
        )

    def forward(self, x, blocks):
        for W, edges in zip(self.maps, blocks):
            arrived, scale = whole_sum(edges, x), edges.degree[: edges.num_targets].clamp(min=1)[:, None]
            kipf = whole_sum(edges, x / edges.degree.clamp(min=1)[:, None].sqrt()) / scale.sqrt()
            x = torch.tanh(x[: edges.num_targets] @ W[0] + arrived / scale @ W[1] + kipf @ W[2])
        return x


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_a_neighbourhood_has_the_loss_and_the_gradient_of_the_whole_graph(num_layers):
    edges = skewed(weight=lambda n, g: torch.rand(n, generator=g, dtype=torch.float64))
    x = torch.randn(200, 6, dtype=torch.float64)
    net, seeds = Net([6, *[5] * num_layers]), torch.tensor([3, 150, 199, 77])
    nodes, read = hops(edges, seeds, num_layers)
    whole, own = net(x, (edges,) * num_layers)[seeds], net(x[nodes], read)
    assert len(own) == len(seeds) and nodes[:4].tolist() == seeds.tolist()
    torch.testing.assert_close(own, whole, atol=1e-13, rtol=0)
    wanted = torch.autograd.grad(whole.square().sum(), list(net.parameters()))
    for got, want in zip(torch.autograd.grad(own.square().sum(), list(net.parameters())), wanted):
        torch.testing.assert_close(got, want, atol=1e-12, rtol=0)


def test_a_neighbourhood_that_is_too_large_is_told_before_it_is_read():
    edges = skewed()
    assert hops_within(edges, torch.arange(3), 3, most=10) is None
    assert hops_within(edges, torch.arange(3), 3, most=10**6) is not None


def test_blocks_follow_one_another_with_the_targets_first():
    edges = skewed()
    for nodes, read in (
        hops(edges, torch.tensor([5, 1]), 3),
        neighbours(edges, torch.tensor([5, 1]), [3, 2, 4], key(0)),
        layers(edges, torch.tensor([5, 1]), 7, 3, key(0)),
    ):
        assert [b.num_sources for b in read[1:]] == [b.num_targets for b in read[:-1]]
        assert read[0].num_sources == len(nodes) == len(nodes.unique()) and read[-1].num_targets == 2
        assert nodes[:2].tolist() == [5, 1]
        known = set(zip(*edges.pairs.tolist()))
        for b in read:  # every edge that is read is an edge of the graph, under new numbers
            own = nodes[b.pairs]
            assert set(zip(*own.tolist())) <= known
            assert torch.equal(b.degree, edges.degree[nodes[: b.num_sources]])


def test_no_edge_is_drawn_twice_and_few_edges_are_all_taken():
    edges = skewed(features=lambda n, g: torch.arange(n)[:, None])
    for number in range(20):
        _, [b] = neighbours(edges, torch.arange(200), [8], key(number))
        assert len(b.features.unique()) == len(b)
        degree = edges.start.diff()
        assert torch.equal(b.start.diff(), degree.clamp(max=8))
        few = degree[b.target] <= 8
        assert (b.times[few] == 1).all()
        assert torch.allclose(b.times[~few], (degree[b.target] / 8)[~few])


def test_a_fan_out_beyond_every_degree_is_the_neighbourhood_itself():
    edges, seeds = skewed(), torch.tensor([0, 9, 198])
    (nodes, read), (all_nodes, full) = neighbours(edges, seeds, [10**6] * 2, key(3)), hops(edges, seeds, 2)
    assert torch.equal(nodes, all_nodes)
    for a, b in zip(read, full):
        assert torch.equal(a.source, b.source) and torch.equal(a.start, b.start) and (a.times == 1).all()


def test_isolated_nodes_read_themselves_alone():
    edges = skewed()
    for nodes, read in (
        hops(edges, torch.tensor([199]), 2),
        neighbours(edges, torch.tensor([199]), [3, 3], key(0)),
        neighbours(edges, torch.tensor([199]), [3, 3], key(0), weighted=True),
        layers(edges, torch.tensor([199]), 3, 2, key(0)),
    ):
        assert nodes.tolist() == [199] and [len(b) for b in read] == [0, 0]


def test_subsets_are_uniform():
    # 60,000 draws of 2 out of 5: each of ten pairs has 6,000 of them within five deviations of √(60,000 · 0.1 · 0.9)
    drawn = subsets(torch.full((60_000,), 5), 2, torch.arange(60_000)).sort(0).values
    counts = (5 * drawn[0] + drawn[1]).unique(return_counts=True)[1]
    assert len(counts) == 10
    assert ((counts - 6000).abs() < 5 * (60_000 * 0.09) ** 0.5).all()


WAYS = {
    "few": lambda edges, seeds, k: neighbours(edges, seeds, [3], k),
    "heavy": lambda edges, seeds, k: neighbours(edges, seeds, [3], k, weighted=True),
    "layer": lambda edges, seeds, k: layers(edges, seeds, 20, 1, k),
}


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_met_on_average(way):
    edges = skewed(weight=lambda n, g: torch.rand(n, generator=g, dtype=torch.float64) + 0.1)
    x = torch.randn(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) + 1
    seeds = torch.tensor([0, 1, 2, 30, 90, 199])
    found = []
    for number in range(1500):
        nodes, [b] = WAYS[way](edges, seeds, key(1000 + number))
        found.append(whole_sum(b, x[nodes]))
    found, wanted = torch.stack(found), whole_sum(edges, x)[seeds]
    # the mean of 1,500 draws lies within 4.5 of its own deviations for each of twelve sums: it fails once in 10,000
    error = found.std(0) / 1500**0.5
    assert ((found.mean(0) - wanted).abs() <= 4.5 * error + 1e-9).all()
    assert (error[:3] > 0).all(), "nothing was left out"


def test_what_is_drawn_follows_from_the_key_alone():
    edges, seeds = skewed(), torch.tensor([0, 4, 8])
    first = neighbours(edges, seeds, [4, 4], key(11))
    torch.rand(100)
    again, other = neighbours(edges, seeds, [4, 4], key(11)), neighbours(edges, seeds, [4, 4], key(12))
    assert torch.equal(first[0], again[0]) and all(torch.equal(a.source, b.source) for a, b in zip(first[1], again[1]))
    assert not torch.equal(first[0], other[0])
    # what a node draws does not depend on who else asks
    nodes, [alone] = neighbours(edges, torch.tensor([4]), [4], key(11))
    together, [all_of] = neighbours(edges, seeds, [4], key(11))
    low, high = all_of.start[1:3].tolist()
    assert together[all_of.source[low:high]].tolist() == nodes[alone.source].tolist()


def test_both_ways_to_renumber_agree():
    g = torch.Generator().manual_seed(2)
    for count in (0, 1, 40):
        targets = torch.randperm(1000, generator=g)[:count]
        source = torch.randint(1000, (300,), generator=g)
        a, b = blocks._by_table(targets, source, 1000), blocks._by_sorting(targets, source)
        assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
        assert torch.equal(a[0][a[1]], source)


def test_layers_read_so_many_nodes_and_no_more():
    edges = skewed(500, 20_000)
    nodes, read = layers(edges, torch.tensor([0, 1]), 30, 3, key(0))
    assert [b.num_sources for b in read] == [92, 62, 32]
    assert torch.equal(nodes.unique(), nodes.sort().values)
