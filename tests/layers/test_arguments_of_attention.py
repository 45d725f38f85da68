"""Arguments of attention, positions and the networks between that mean nothing are refused by their name."""

import pytest
import torch

from leadline import layers
from leadline.errors import UserError
from leadline.layers.attend import attend, weights
from leadline.models import GPT, T5, Transformer

MADE = {
    "SelfAttention": ({"dim": 8, "num_heads": 2}, {"scale": "a", "turn": 3, "p_drop": 1.0, "num_groups": 0}),
    "CrossAttention": ({"dim": 8, "num_heads": 2}, {"dim_source": -1, "scale": [1.0]}),
    "HashedAttention": ({"dim": 8, "num_heads": 2}, {"seed": "a", "piece": 0, "num_buckets": 3}),
    "KernelAttention": ({"dim": 8, "num_heads": 2, "features": "random"}, {"seed": None, "num_features": 0}),
    "SpatialGate": ({"dim": 8, "dim_hidden": 6, "length": 4}, {"dim": 0, "dim_hidden": None}),
    "AttentionFree": ({"dim": 8, "length": 4}, {"dim": 1.5, "rank": -1}),
    "BucketBias": ({"num_heads": 2}, {"furthest": None, "both_ways": "no", "num_buckets": 1}),
    "WindowAttention": ({"dim": 8, "num_heads": 2, "window": 2}, {"window": 0, "shifted": "no"}),
    "FeedForward": ({"dim": 8, "dim_hidden": 6}, {"dim": 0, "dim_hidden": "a", "gated": "no"}),
    "Patches": ({"channels": 1, "dim": 4, "patch": 2}, {"channels": 0, "dim": None, "patch": (2, 2)}),
}


@pytest.mark.parametrize(("name", "argument"), [(name, wrong) for name, (_, odd) in MADE.items() for wrong in odd])
def test_what_means_nothing_is_refused_by_its_name(name, argument):
    usual, odd = MADE[name]
    layers.__dict__[name](**usual)
    with pytest.raises(UserError, match=rf"\b{argument} must .*Got {argument}="):
        layers.__dict__[name](**{**usual, argument: odd[argument]})


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: GPT(9, 6, dim=None), "dim"),
        (lambda: GPT(9, 6, dim=12, tied="no"), "tied"),
        (lambda: T5(9, 6, 5, dim_head=None), "dim_head"),
        (lambda: T5(9, 6, 5, gated="no"), "gated"),
        (lambda: T5(9, 6, 5, furthest="far"), "furthest"),
        (lambda: Transformer(9, 6, 5, tied=1), "tied"),
    ],
)
def test_so_are_those_of_models(make, argument):
    with pytest.raises(UserError, match=rf"\b{argument} must .*Got {argument}="):
        make()


def heads(*shape):
    return torch.zeros(shape)


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        (heads(2, 6, 3, 4), heads(2, 4, 5, 4), heads(2, 4, 5, 4)),  # heads that do not share keys evenly
        (heads(2, 2, 3, 4), heads(2, 2, 5, 3), heads(2, 2, 5, 3)),
        (heads(2, 2, 3, 4), heads(2, 2, 5, 4), heads(2, 2, 6, 4)),
        (heads(2, 2, 3, 4), heads(1, 2, 5, 4), heads(1, 2, 5, 4)),
        (heads(2, 3, 4), heads(2, 5, 4), heads(2, 5, 4)),
    ],
)
def test_queries_keys_and_values_that_do_not_fit_are_refused(q, k, v):
    for find in (lambda: attend(q, k, v), lambda: attend(q, k, v, p_drop=0.5)):
        with pytest.raises(UserError, match=r"^queries must be \(B, H, T, K\).*Got q \("):
            find()


@pytest.mark.parametrize("shape", [(4, 5), (3, 3, 5), (2, 1, 3, 4), (1, 2, 2, 3, 5)])
def test_a_bias_that_does_not_fit_is_refused(shape):
    q, k = heads(2, 2, 3, 4), heads(2, 1, 5, 4)
    for find in (lambda b: attend(q, k, k, bias=b), lambda b: weights(q, k, bias=b)):
        with pytest.raises(UserError, match=r"a bias must fit the scores, \(2, 2, 3, 5\)\. Got shape"):
            find(heads(*shape))
        for fits in ((3, 5), (2, 3, 5), (1, 1, 1, 5), (2, 2, 3, 5)):
            find(heads(*fits))


@pytest.mark.parametrize("made", [layers.LearnedPositions(9, 8), layers.SinusoidalPositions(8)])
def test_positions_of_rows_without_a_batch_are_refused(made):
    with pytest.raises(UserError, match=r"reads rows of 8 features, \(B, T, 8\)\. Got .*x\[None\]"):
        made(torch.zeros(8, 8))
