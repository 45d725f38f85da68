"""What can be told of the kernel without a GPU: when it is used, and what its text says. tests/gpu has its numbers."""

import ast

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.engine.fused import Moves, obstacle, source
from leadline.layers.chain import Link
from leadline.likelihoods import Bernoulli, Categorical, Normal

CHAIN = [Link("layers.0.map", 40, 100, "gelu", 0.2, 1), Link("head", 100, 10)]
SGD = Moves(None, 0.0, momentum=True, nesterov=False, decays=False, decoupled=False)
ADAMW = Moves((0.9, 0.999), 1e-8, momentum=False, nesterov=False, decays=True, decoupled=True)
STARTS = {
    "model.layers.0.map.weight": 0,
    "model.layers.0.map.bias": 4000,
    "model.head.weight": 4100,
    "model.head.bias": 5100,
}


def why(chain=CHAIN, likelihood=None, dtype=torch.float32, clip=None, plain=True):
    return obstacle(chain, likelihood or Categorical(10), dtype, clip, plain)


@pytest.mark.parametrize(
    "case",
    [
        {"chain": None},
        {"chain": [Link("head", 129, 3)]},
        {"chain": [Link("layers.0.map", 4, 8, "elu"), Link("head", 8, 3)]},
        {"likelihood": Normal()},
        {"dtype": torch.float64},
        {"clip": 1.0},
        {"plain": False},
    ],
    ids=str,
)
def test_what_the_kernel_does_not_do_has_a_reason(case):
    assert why() is None
    assert why(**case)


def test_an_mlp_is_a_chain_unless_it_normalises_or_skips():
    model = ll.models.MLP(40, (100, 50), 10, activation="relu", p_drop=0.3)
    assert model.chain() == [
        Link("layers.0.map", 40, 100, "relu", 0.3, 1),
        Link("layers.1.map", 100, 50, "relu", 0.3, 2),
        Link("head", 50, 10),
    ]
    for link in model.chain():
        assert isinstance(model.get_submodule(link.map), nn.Linear)
    assert ll.models.MLP(4, (8,), 1, norm="layer").chain() is None
    assert ll.models.MLP(4, (8, 8), 1, residual=True).chain() is None


@pytest.mark.parametrize("moves", [SGD, ADAMW])
@pytest.mark.parametrize("likelihood", [Categorical(10, 0.1), Bernoulli()])
def test_the_text_reads_every_layer_and_moves_by_the_rule(moves, likelihood):
    text = source(CHAIN, STARTS, likelihood, moves, batch=100, tile=64)
    ast.parse(text)
    assert "z1 = " in text and "z2 = " in text and "z3" not in text
    assert ("momentum * tl.load(first" in text) == (moves is SGD)
    assert ("tl.sqrt(v)" in text) == (moves is ADAMW)
    assert "begin > 0" in text  # 100 rows are two tiles of 64
    assert "begin > 0" not in source(CHAIN, STARTS, likelihood, moves, batch=64, tile=64)
