"""Chains by counting, against brute force and numpy."""

import math

import numpy as np
import pytest

from leadline.reference.markov import counts, likeliest, log_likelihood, stationary


def drawn(size=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(size), size)


def test_counts_are_those_of_a_search():
    text = "abracadabra alakazam"
    for order in (1, 2, 3):
        found = counts([text, "abba"], order)
        for a, own in found.items():
            for b, n in own.items():
                joined = "".join(a) + b
                assert n == sum(row[k : k + order + 1] == joined for row in (text, "abba") for k in range(len(row)))
        assert sum(n for own in found.values() for n in own.values()) == len(text) - order + 4 - order


def test_no_other_chain_is_likelier():
    rows, rng = ["aabbabababbbaab", "bbbaa"], np.random.default_rng(0)
    best = likeliest(rows)
    assert all(math.isclose(sum(own.values()), 1) for own in best.values())
    top = log_likelihood(rows, best)
    for _ in range(200):
        p, q = rng.random(2)
        other = {("a",): {"a": p, "b": 1 - p}, ("b",): {"a": q, "b": 1 - q}}
        assert log_likelihood(rows, other) <= top
    assert log_likelihood(["ac"], best) == -math.inf


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_a_chain_settles_where_its_powers_do(size):
    matrix = drawn(size)
    shares = stationary(matrix.tolist())
    assert np.allclose(np.linalg.matrix_power(matrix, 500), shares) and math.isclose(sum(shares), 1)


def test_a_chain_that_goes_round_has_shares_too():
    assert stationary([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]) == pytest.approx([1 / 3] * 3)
