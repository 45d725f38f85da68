"""Derivatives by hand: backpropagation, written-out formulas and sweeps over graphs, against autograd."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from leadline.errors import UserError
from leadline.models import Gabor
from leadline.reference import backprop, gradients
from leadline.reference.graph import Graph
from leadline.reference.jacobians import chain

BOOK = "f1 = exp(x)\nf2 = f1 * f1\nf3 = f1 + f2\nf4 = exp(f3)\nf5 = sin(f3)\ny = f4 + f5"


def tensor(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def same(found, leaf, digits=1e-12):
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), leaf.grad, rtol=digits, atol=digits)


@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize("widths", [(1, 5, 1), (1, 6, 6, 6, 6, 1), (3, 4, 2, 2)])
def test_backpropagation_is_autograd(widths, leak):
    maps = backprop.drawn(widths, seed=len(widths))
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, widths[0], generator=g).double(), torch.randn(20, widths[-1], generator=g).double()
    leaves = [(tensor(offsets), tensor(slopes)) for offsets, slopes in maps]
    h = x
    for k, (offsets, slopes) in enumerate(leaves):
        h = F.linear(h, slopes, offsets)
        h = F.leaky_relu(h, leak) if k < len(leaves) - 1 else h
    loss = (h - y).square().sum()
    loss.backward()
    assert backprop.loss(maps, x.tolist(), y.tolist(), leak) == pytest.approx(loss.item(), rel=1e-12)
    for (offsets, slopes), (beta, omega) in zip(backprop.gradients(maps, x.tolist(), y.tolist(), leak), leaves):
        same(offsets, beta, 1e-10)
        same(slopes, omega, 1e-10)


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_the_factors_of_the_chain_rule_fit_each_other(k):
    sizes = backprop.factor_sizes([5, 7, 4, 3, 2], k)
    assert all(left[1] == right[0] for left, right in pairwise(sizes))
    assert (sizes[0][0], sizes[-1][1]) == ([7, 4, 3, 2][k], 1)


X, Y = [0.3, -1.2, 2.0, 0.7, -0.4], [0.1, 0.9, -0.3, 0.5, 1.1]


def test_formulas_of_two_parameters_are_autograd():
    x, y, phi = (tensor(part) for part in (X, Y, [0.4, -0.8]))
    (phi[0] + phi[1] * x - y).square().sum().backward()
    same(gradients.line([0.4, -0.8], X, Y), phi)
    x, y = x.detach(), y.detach()
    model = Gabor().double()
    model.set(0.4, 9.0)
    (model(x[:, None])[:, 0] - y).square().sum().backward()
    found = gradients.gabor([0.4, 9.0], X, Y)
    assert found == pytest.approx([model.phi0.grad.item(), model.phi1.grad.item()], rel=1e-12)
    labels, phi = [1.0, 0.0, 1.0, 1.0, 0.0], tensor([0.4, -0.8])
    logits = phi[0] + phi[1] * x
    F.binary_cross_entropy_with_logits(logits, torch.tensor(labels).double(), reduction="sum").backward()
    same(gradients.logistic([0.4, -0.8], X, labels), phi)
    hessian = torch.autograd.functional.hessian(lambda p: (p[0] + p[1] * x - y).square().sum(), torch.zeros(2).double())
    torch.testing.assert_close(torch.tensor(gradients.line_hessian(x.tolist())).double(), hessian)


def test_the_shallow_and_the_deep_formula_are_autograd():
    g = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    x, y = draw(30), draw(30)
    theta, phi = draw(3, 2).requires_grad_(), draw(4).requires_grad_()
    h = (theta[:, :1] + theta[:, 1:] * x).relu()
    (phi[0] + phi[1:] @ h - y).square().sum().backward()
    found = gradients.shallow(theta.tolist(), phi.tolist(), x.tolist(), y.tolist())
    same(found[0], theta, 1e-11)
    same(found[1], phi, 1e-11)
    theta, psi, phi = (t.requires_grad_() for t in (draw(2, 2), draw(2, 3), draw(3)))
    assert theta.numel() + psi.numel() + phi.numel() == 13  # problem 7.1 counts 15
    h = (psi[:, :1] + psi[:, 1:] @ (theta[:, :1] + theta[:, 1:] * x).relu()).relu()
    (phi[0] + phi[1:] @ h - y).square().sum().backward()
    found = gradients.deep(theta.tolist(), psi.tolist(), phi.tolist(), x.tolist(), y.tolist())
    for part, leaf in zip(found, (theta, psi, phi), strict=True):
        same(part, leaf, 1e-11)


def test_the_graph_of_the_book_both_ways():
    graph, wanted = Graph(BOOK), 114.14044
    back, forth = graph.reverse("y", x=0.3), graph.forward("y", "x", x=0.3)
    assert back.slope == pytest.approx(wanted, abs=5e-6) and forth.slope == pytest.approx(back.slope, rel=1e-14)
    f1 = math.exp(0.3)
    assert back.slope == pytest.approx((math.exp(f1 + f1**2) + math.cos(f1 + f1**2)) * (1 + 2 * f1) * f1, rel=1e-13)
    assert [line.split(" ")[0] for line in back.lines] == ["dy/df5", "dy/df4", "dy/df3", "dy/df2", "dy/df1", "dy/dx"]


def test_any_expression_is_autograd():
    text = (
        "u = tanh(a * b) / (1 + a ** 2)\nv = sqrt(b + 5) - log(c) * sigmoid(-a)\ny = relu(u) * cos(v) + exp(u - v) + u"
    )
    inputs = {"a": 0.7, "b": 1.3, "c": 2.1}
    a, b, c = (tensor(value) for value in inputs.values())
    u = (a * b).tanh() / (1 + a**2)
    v = (b + 5).sqrt() - c.log() * (-a).sigmoid()
    (u.relu() * v.cos() + (u - v).exp() + u).backward()
    graph = Graph(text)
    back = graph.reverse("y", **inputs)
    for name, leaf in zip("abc", (a, b, c)):
        assert back.slopes[name] == pytest.approx(leaf.grad.item(), rel=1e-12)
        assert graph.forward("y", name, **inputs).slope == pytest.approx(leaf.grad.item(), rel=1e-12)


def test_many_inputs_cost_one_sweep_backwards_and_many_forwards():
    names = [f"x{k}" for k in range(20)]
    graph = Graph("y = " + " + ".join(f"{name} * {name}" for name in names))
    inputs = dict.fromkeys(names, 2.0)
    back = graph.reverse("y", **inputs)
    forth = sum(graph.forward("y", name, **inputs).multiplications for name in names)
    assert all(back.slopes[name] == 4.0 for name in names)
    assert back.multiplications < 60 and forth > 20 * 50


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("y = z\nz = x", "below what it reads"),
        ("y = y + x", "below what it reads"),
        ("y = x\ny = x", "name of its own"),
        ("y = foo(x)", "operation must be a known name"),
        ("y = exp(x, x)", "exp must be given 1 argument"),
        ("y = x if x else 1", "names, numbers and operations"),
        ("y + 1", "name = expression"),
    ],
)
def test_what_is_no_graph_is_told(text, words):
    with pytest.raises(UserError, match=words):
        Graph(text)


def test_nodes_without_a_name_take_none_that_is_used():
    graph = Graph("y = sin(t1 * 2) + t2")
    assert graph.inputs == ("t1", "t2") and len({node.name for node in graph.nodes} | set(graph.inputs)) == 5
    with pytest.raises(UserError, match="given its inputs: t1, t2"):
        graph.values(t1=1.0)
    with pytest.raises(UserError, match="must have a value"):
        Graph("y = log(x)").values(x=-1.0)


@pytest.mark.parametrize("depth", [2, 5])
def test_the_costs_of_a_gradient_are_those_of_the_formulas(depth):
    width = 4
    g = torch.Generator().manual_seed(0)
    jacobians = torch.randn(depth, width, width, generator=g).double()
    last = torch.randn(width, generator=g).double()
    found = {way: chain(jacobians.tolist(), last.tolist(), way) for way in ("naive", "matrices", "vectors")}
    wanted = last
    for k in reversed(range(depth)):
        wanted = jacobians[k].T @ wanted
        for slopes, _ in found.values():
            torch.testing.assert_close(torch.tensor(slopes[k], dtype=torch.float64), wanted)
    cube, square = width**3, depth * width**2
    assert found["naive"][1] == cube * depth * (depth - 1) // 2 + square
    assert found["matrices"][1] == cube * (depth - 1) + square
    assert found["vectors"][1] == square
