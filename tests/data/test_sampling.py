"""Words for what is read of a graph, and parts of it."""

import pytest
import torch

from leadline.data.edges import Edges
from leadline.data.partitions import batches, num_cut, partition
from leadline.data.sampling import Parts, sampling
from leadline.data.walks import walks
from leadline.errors import UnknownName, UserError


def communities(num=400, groups=4, num_edges=3000, p_in=0.9, directed=False):
    g = torch.Generator().manual_seed(0)
    a = torch.randint(num, (num_edges,), generator=g)
    inside = torch.rand(num_edges, generator=g) < p_in
    b = torch.where(inside, a % groups + groups * torch.randint(num // groups, (num_edges,), generator=g), a.flip(0))
    return Edges.of(torch.stack([a, b]), num, directed=directed)


@pytest.mark.parametrize(
    "word", ["hops", "neighbours(10, 5)", "heavy(3)", "layers(512)", "walks(4)", "walks(4, 2)", "parts(32)"]
)
def test_a_word_is_what_a_config_holds(word):
    assert str(sampling(word)) == word


@pytest.mark.parametrize(
    "word", ["neighbours", "neighbours(0)", "neighbours(2.5)", "hops(3)", "layers(1, 2)", "parts", "parts(-4)"]
)
def test_wrong_numbers_are_told(word):
    with pytest.raises(UserError, match="must have"):
        sampling(word)


def test_a_wrong_name_and_a_wrong_number_of_layers_are_told():
    with pytest.raises(UnknownName, match="Did you mean neighbours"):
        sampling("neighbors(3)")
    with pytest.raises(UserError, match="3 layers"):
        sampling("neighbours(3, 3)")(communities(), torch.tensor([0]), 3, torch.tensor([0]))


@pytest.mark.parametrize("num_parts", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("directed", [False, True])
def test_parts_are_of_equal_size_and_cut_few_edges(num_parts, directed):
    edges = communities(directed=directed)
    parts = partition(edges, num_parts)
    sizes = parts.bincount(minlength=num_parts)
    assert sizes.max() - sizes.min() <= 1 + (num_parts == 7)
    assert torch.equal(parts, partition(edges, num_parts))
    chance = num_cut(edges, torch.randperm(400, generator=torch.Generator().manual_seed(1)) % num_parts)
    assert num_cut(edges, parts) <= 0.5 * chance
    if num_parts == 4:  # the communities themselves, which are known
        assert num_cut(edges, parts) <= num_cut(edges, torch.arange(400) % 4)


@pytest.mark.parametrize("num", [1, 2, 5])
def test_parts_of_nodes_without_edges_are_of_equal_size_too(num):
    none = Edges.of(torch.zeros(2, 0, dtype=torch.int64), num)
    assert partition(none, num).bincount().tolist() == [1] * num
    with pytest.raises(UserError, match="between 1 and"):
        partition(none, num + 1)


def test_a_graph_in_pieces_is_cut_between_them():
    ring = torch.stack([torch.arange(10), (torch.arange(10) + 1) % 10])
    two = Edges.of(torch.cat([ring, ring + 10], 1), 20, directed=False)
    assert num_cut(two, partition(two, 2)) == 0


def test_four_parts_make_four_batches_or_six_of_pairs_with_the_edges_between_restored():
    edges = communities()
    own = Parts(4)
    parts = own.of(edges)
    assert len(batches(4, 1)) == 4 and len(batches(4, 2)) == 6
    alone = 0
    for pair in batches(4, 1):
        seeds = torch.stack([(parts == p).nonzero()[0, 0] for p in pair])
        nodes, [inside] = own(edges, seeds, 1, torch.tensor([0]))
        assert sorted(nodes.tolist()) == (parts == pair[0]).nonzero().flatten().tolist()
        alone += len(inside)
    assert alone == len(edges) - num_cut(edges, parts)
    restored = 0
    for pair in batches(4, 2):
        seeds = torch.stack([(parts == p).nonzero()[0, 0] for p in pair])
        nodes, [inside] = own(edges, seeds, 1, torch.tensor([0]))
        assert len(nodes) == 200 and nodes[:2].tolist() == seeds.tolist()
        here = torch.zeros(400, dtype=torch.bool)
        here[nodes] = True
        assert len(inside) == int((here[edges.source] & here[edges.target]).sum())
        restored += len(inside)
    # of three pairs that have a part, each has its edges; of one pair, the edges between
    assert restored == 3 * alone + num_cut(edges, parts)


def test_walks_follow_edges_and_choose_evenly():
    star = Edges.of(torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]]), 6, directed=False)
    met = walks(star, torch.tensor([0, 5]), 3, 4000, torch.tensor([2]))
    assert met.shape == (8000, 4)
    assert (met[4000:] == 5).all()  # an isolated node stays
    assert (met[:4000, 0] == 0).all() and (met[:4000, 2] == 0).all()  # out and back
    counts = met[:4000, 1].bincount(minlength=6)[1:5]
    # each of four within five deviations of 1,000
    assert ((counts - 1000).abs() < 5 * (4000 * 3 / 16) ** 0.5).all()
    assert int((met[:4000, 1] == met[:4000, 3]).sum()) < 1200  # steps do not repeat one another


def test_rows_of_a_part_are_asked_together_in_a_random_order_of_parts():
    edges, own = communities(), Parts(8)
    rows = torch.arange(0, 400, 3)
    first, second = (
        own.ordered(edges, rows, torch.randperm(134, generator=torch.Generator().manual_seed(k))) for k in (0, 1)
    )
    assert torch.equal(first.sort().values, torch.arange(134)) and not torch.equal(first, second)
    seen = own.of(edges)[rows[first]]
    assert int((seen.diff() != 0).sum()) == 7  # each part once
