"""Networks of sets: no order, no padding, no neighbours; their equations; what is turned and what is critical."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leadline as ll
from leadline.errors import ShapeError, UserError
from leadline.layers import Equivariant, InducedAttention, PointTransform, PooledByAttention, SetAttention, SetPool
from leadline.layers.set_pool import POOLS
from leadline.models import DeepSets, PointNet, SetTransformer, build
from leadline.testing import check_gradients, check_model

MAKERS = {
    "sum": lambda head: DeepSets(4, 3, dim=8, head=head, typical=4.0),
    "mean, mixing": lambda head: DeepSets(4, 3, dim=8, pool="mean", equivariant=True, head=head),
    "max, mixing": lambda head: DeepSets(4, 3, dim=8, pool="max", equivariant=True, head=head, norm=False),
    "PointNet": lambda head: PointNet(4, 3, width=0.1, head=head),
    "PointNet, plain": lambda head: PointNet(4, 3, width=0.1, transforms=False, head=head),
    "induced": lambda head: SetTransformer(4, 3, dim=8, num_heads=2, num_seeds=3, head=head),
    "attention": lambda head: SetTransformer(4, 3, dim=8, num_heads=2, num_seeds=0, num_answers=2, head=head),
}


def made(name, head):
    torch.manual_seed(0)
    model = MAKERS[name](head).double().eval()
    for module in model.modules():  # transforms begin as the identity, which hides them
        if isinstance(module, PointTransform):
            torch.nn.init.normal_(module.matrix.weight, std=0.3)
    return model


@pytest.mark.parametrize("head", ["set", "members"])
@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3), more=st.integers(0, 4))
def test_order_padding_and_neighbours_change_nothing(name, head, seed, sizes, more):
    model, stream = made(name, head), torch.Generator().manual_seed(seed)
    sets = [torch.randn(n, 3, generator=stream, dtype=torch.float64) for n in sizes]
    rows = torch.full((len(sets), max(sizes) + more, 4), 1e6, dtype=torch.float64)  # padding that would be seen
    rows[..., -1] = 0
    orders = [torch.randperm(n, generator=stream) for n in sizes]
    for row, own, order in zip(rows, sets, orders):
        row[: len(own), :3], row[: len(own), 3] = own[order], 1
    together = model(rows)
    for found, own, order in zip(together, sets, orders):
        alone = model(own[None])[0]
        if head == "set":
            torch.testing.assert_close(found, alone, rtol=1e-9, atol=1e-9)
        else:
            torch.testing.assert_close(found[: len(own)], alone[order], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("head", ["set", "members"])
@pytest.mark.parametrize("name", MAKERS)
def test_every_form_keeps_the_contract(name, head):
    check_model(MAKERS[name](head))


@pytest.mark.parametrize("how", POOLS)
def test_pools_are_their_equations_and_0_of_nothing(how):
    stream = torch.Generator().manual_seed(0)
    h = torch.randn(3, 5, 2, generator=stream)
    there = torch.tensor([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()
    found = SetPool(how, typical=2.0)(h, there)
    rows = h[0][there[0]]
    expected = {"sum": rows.sum(0) / 2, "mean": rows.mean(0), "max": rows.max(0).values}[how]
    torch.testing.assert_close(found[0], expected)
    assert found[1].tolist() == [0.0, 0.0]
    torch.testing.assert_close(found[2], SetPool(how, typical=2.0)(h)[2])
    h = torch.full((1, 2, 2), -5.0).requires_grad_()
    SetPool(how)(h, torch.tensor([[True, False]])).sum().backward()
    assert bool((h.grad[0, 1] == 0).all())  # nothing is taken from one that is not there


def test_the_equivariant_map_is_a_matrix_of_two_numbers():
    """Of one number a member, eq. 1 is x (λ I + γ 1 1ᵀ)."""
    layer = Equivariant(1, 1, pool="sum").double()
    x = torch.randn(1, 4, 1, dtype=torch.float64)
    matrix = layer.own.weight * torch.eye(4) + layer.others.weight * torch.ones(4, 4)
    torch.testing.assert_close(layer(x)[0, :, 0], matrix @ x[0, :, 0] + layer.own.bias)


def test_attention_between_sets_is_its_equations():
    torch.manual_seed(0)
    block = SetAttention(8, 2).double().eval()
    x, y = torch.randn(1, 3, 8, dtype=torch.float64), torch.randn(1, 5, 8, dtype=torch.float64)
    inner = block.attention.branch
    q, (k, v) = inner.query(x), inner.key_value(y).chunk(2, -1)
    heads = []
    for own in (slice(0, 4), slice(4, 8)):
        weights = (q[..., own] @ k[..., own].mT / 2).softmax(-1)
        heads.append(weights @ v[..., own])
    h = block.attention.norm(x + inner.out(torch.cat(heads, -1)))
    torch.testing.assert_close(block(x, y), block.feed_forward.norm(h + block.feed_forward.branch(h)))
    induced = InducedAttention(8, 2, 3).double().eval()
    torch.testing.assert_close(induced(x), induced.spread(x, induced.gather.ask(induced.gather.seeds[None], x)))
    assert PooledByAttention(8, 2, 3)(torch.zeros(2, 5, 8)).shape == (2, 3, 8)


def test_the_transform_turns_coordinates_alone():
    model = PointNet(2, channels=5, coordinates=3, width=0.1).eval()
    for own in (model.turn, model.mix):
        torch.nn.init.normal_(own.matrix.weight, std=0.5)
    x = torch.randn(2, 6, 5)
    A, mixed = model.matrices(x)
    assert A.shape == (2, 3, 3) and mixed.shape == (2, 6, 6) and not torch.allclose(A, torch.eye(3).expand(2, 3, 3))
    by_hand = model.low(torch.cat([torch.einsum("bij,bmj->bmi", A, x[..., :3]), x[..., 3:]], 2))
    g = model.high.read(torch.einsum("bij,bmj->bmi", mixed, by_hand)).amax(1)
    torch.testing.assert_close(model(x), model.answer(model.high.norm(g).relu()))
    assert PointNet(2, channels=4, coordinates=0, width=0.1).turn is None
    assert PointNet(2, channels=4, transforms=False, width=0.1).matrices(torch.zeros(1, 2, 4)) == []


@pytest.mark.parametrize("name", ["mean, mixing", "induced"])
def test_derivatives_are_those_of_differences(name):
    x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    x[..., -1] = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    model = MAKERS[name]("set")
    check_gradients(
        lambda rows: model.double()(torch.cat([rows, x[..., -1:].double()], 2)), x[..., :-1], tolerance=1e-5
    )


def test_build_is_told_what_sets_are_and_refuses_what_are_none():
    data = ll.data.solids(num=20, points=8)
    assert build("PointNet", data, 10, width=0.1).config["coordinates"] == 3
    assert build("DeepSets", data, 10).config["typical"] == 8.0
    parts = ll.data.solids(num=20, points=8, task="parts")
    assert build("SetTransformer", parts, 6, dim=8).head == "members"
    with pytest.raises(UserError, match="must be given sets"):
        build("PointNet", (3, 32, 32), 10)
    with pytest.raises(UserError, match="DeepSets, PointNet or SetTransformer"):
        build("ConvNet1D", data, 10)
    with pytest.raises(ShapeError, match="PointNet reads sets"):
        PointNet(2, 3, width=0.1)(torch.zeros(2, 5))


def test_the_penalty_is_that_of_the_feature_transform_and_pulls_it_to_a_rotation():
    from leadline.data.data import Batch
    from leadline.regularize import Orthogonal

    torch.manual_seed(0)
    model, x = PointNet(2, 3, width=0.1), torch.randn(4, 6, 3)
    torch.nn.init.normal_(model.mix.matrix.weight, std=0.5)
    penalty = Orthogonal(0.5)
    penalty.score(lambda out, y: out, Batch(x, torch.zeros(4)))
    A = model.matrices(x)[1]
    away = (torch.eye(6) - A @ A.mT).square().sum((1, 2)).mean()
    torch.testing.assert_close(penalty.objective(torch.tensor(1.0), model, 1.0), 1 + 0.5 * away)
    moves = torch.optim.Adam(model.mix.parameters(), 0.01)
    for _ in range(30):
        penalty.score(lambda out, y: out, Batch(x, torch.zeros(4)))
        loss = penalty.objective(torch.tensor(0.0), model, 1.0)
        moves.zero_grad()
        loss.backward()
        moves.step()
    assert float(loss.detach()) < 0.3 * float(away.detach())
    penalty.score(lambda out, y: out, Batch(x, torch.zeros(4)))
    with pytest.raises(UserError, match="transforms to hold"):
        penalty.objective(torch.tensor(0.0), DeepSets.tiny(), 1.0)


def test_the_penalty_of_micro_batches_adds_up_to_that_of_the_whole():
    from leadline.data.data import Batch
    from leadline.regularize import Orthogonal

    torch.manual_seed(0)
    model, x, weight = PointNet(2, 3, width=0.1).double(), torch.randn(5, 6, 3).double(), torch.rand(5).double()
    torch.nn.init.normal_(model.mix.matrix.weight, std=0.5)
    penalty, zero = Orthogonal(0.5), torch.zeros((), dtype=torch.float64)

    def of(rows):
        penalty.score(lambda out, y: out, Batch(x[rows], torch.zeros(len(x[rows])), weight[rows]))
        return penalty.objective(zero, model, weight[rows].sum() / weight.sum())

    torch.testing.assert_close(of(slice(0, 2)) + of(slice(2, 5)), of(slice(0, 5)))


@pytest.mark.parametrize("name", MAKERS)
def test_padding_that_is_no_number_reaches_neither_answers_nor_gradients(name):
    model = made(name, "set")
    rows = torch.full((2, 5, 4), torch.nan, dtype=torch.float64)
    rows[..., -1] = 0
    rows[0, :3], rows[1, :5] = 1.0, 0.5
    rows[1, :, -1] = 1
    out = model(rows)
    out.square().sum().backward()
    assert bool(out.isfinite().all()) and all(bool(p.grad.isfinite().all()) for p in model.parameters())
