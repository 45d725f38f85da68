"""Nested state survives the way through tensors and JSON."""

import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.engine.packing import pack, unpack

plain = (
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text("aü§.", max_size=5)
)
leaf = plain | st.sampled_from([torch.arange(n) for n in range(5)])
nested = st.recursive(
    leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc01", min_size=1), inner, max_size=3)
)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text("xyz", min_size=1), nested, max_size=4))
def test_round_trip(state):
    tensors, skeleton = pack(state)
    assert same(state, unpack(json.loads(json.dumps(skeleton)), tensors))


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="'a.b'"):
        pack({"a": {"b": object()}})
