"""Positions spelt out: the layers agree with them, and they have the properties they are made for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.layers import alibi, positions, relative_buckets, rotary
from leadline.reference import positions as p
from leadline.reference.attention import dot

places = st.integers(0, 500)


@given(places, st.integers(1, 8), st.sampled_from([10000.0, 100.0]))
@settings(deadline=None, max_examples=20)
def test_sinusoids(n, half, base):
    found = positions.sinusoids(torch.tensor([n]), 2 * half, base, torch.float64)[0].tolist()
    assert found == pytest.approx(p.sinusoids(n, 2 * half, base), abs=1e-12)


@given(places, st.integers(-200, 200), st.integers(1, 6))
@settings(deadline=None, max_examples=20)
def test_one_matrix_an_offset_shifts_every_place(n, o, half):
    M = p.shift(o, 2 * half)
    shifted = [dot(row, p.sinusoids(n, 2 * half)) for row in M]
    assert shifted == pytest.approx(p.sinusoids(n + o, 2 * half), abs=1e-10)


def test_similarity_falls_with_distance():
    far = [dot(p.sinusoids(300, 128), p.sinusoids(300 + o, 128)) for o in (0, 1, 2, 8, 32, 128)]
    assert far == pytest.approx([64.0, 62.1, 57.4, 45.7, 35.7, 21.3], abs=0.06)


@given(places, st.integers(1, 6), st.booleans(), st.integers(0, 99))
@settings(deadline=None, max_examples=20)
def test_turns(n, half, halves, seed):
    x = torch.randn(2 * half, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    layer = rotary.Rotary(2 * half, layout="halves" if halves else "pairs")
    found = layer(x.view(1, 1, 1, -1), torch.tensor([[n]])).flatten().tolist()
    assert found == pytest.approx(p.turned(x.tolist(), n, halves=halves), abs=1e-12)


@given(st.sampled_from([(32, 128, True), (32, 128, False), (8, 20, True), (16, 64, False), (6, 9, True)]))
@settings(deadline=None, max_examples=5)
def test_buckets(how):
    o = torch.arange(-600, 600)
    found = relative_buckets.bucket(o, *how).tolist()
    # a power of two lies on a border: float and double may round to its two sides
    wrong = [k for k, b in zip(o.tolist(), found, strict=True) if b != p.bucket(k, *how)]
    assert len(wrong) <= 8 and max(found) == how[0] - 1 and min(found) == 0


@pytest.mark.parametrize("H", range(1, 20))
def test_slopes(H):
    assert alibi.slopes(H).tolist() == pytest.approx([p.slope(h, H) for h in range(1, H + 1)])
