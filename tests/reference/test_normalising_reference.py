"""Normalisation spelt out, against torch and autograd."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.reference import normalising as n


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def same(found, expected):
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["batch", "layer", "instance", "group"])
def test_the_four_kinds_are_torch_s(kind):
    z, gain, shift = drawn(3, 4, 5) * 2 + 1, drawn(4, seed=1), drawn(4, seed=2)
    expected = {
        "batch": lambda: F.batch_norm(z, None, None, gain, shift, True, eps=1e-3),
        "layer": lambda: F.group_norm(z, 1, gain, shift, 1e-3),
        "instance": lambda: F.instance_norm(z, weight=gain, bias=shift, eps=1e-3),
        "group": lambda: F.group_norm(z, 2, gain, shift, 1e-3),
    }[kind]()
    same(n.picture_norm(z.tolist(), kind, gain.tolist(), shift.tolist(), 1e-3, groups=2), expected)


def test_one_group_is_layer_and_a_group_a_channel_is_instance():
    z, one = drawn(2, 4, 3).tolist(), [1.0] * 4
    for groups, kind in ((1, "layer"), (4, "instance")):
        assert n.picture_norm(z, "group", one, one, groups=groups) == n.picture_norm(z, kind, one, one)


def test_epsilon_outside_the_root_is_another_function():
    z = drawn(7)
    for inside in (True, False):
        s = z.var(correction=0)
        by = (s + 0.1).sqrt() if inside else s.sqrt() + 0.1
        same(n.batch_norm(z.tolist(), 2.0, 3.0, 0.1, inside), 2 * (z - z.mean()) / by + 3)


def test_afterwards_the_mean_is_the_shift_and_the_deviation_the_gain():
    mean, variance = n.moments(n.batch_norm(drawn(50).tolist(), 3.0, -2.0, epsilon=0.0))
    assert (mean, variance) == pytest.approx((-2.0, 9.0))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.sampled_from([1e-5, 0.1, 2.0]), st.integers(0, 999))
def test_the_gradient_of_every_node_is_autograd_s(count, epsilon, seed):
    z, g = drawn(count, seed=seed).requires_grad_(), drawn(count, seed=seed + 1)
    gain, shift = (drawn(1, seed=seed + k).requires_grad_() for k in (2, 3))
    f1 = z.mean()
    f2 = z - f1
    f3 = f2**2
    f4 = f3.mean()
    f5 = (f4 + epsilon).sqrt()
    f6 = 1 / f5
    f7 = f2 * f6
    leaves = {"f1": f1, "f2": f2, "f3": f3, "f4": f4, "f5": f5, "f6": f6, "f7": f7, "z": z}
    grads = torch.autograd.grad(gain * f7 + shift, [*leaves.values(), gain, shift], g)
    found = n.backward(n.forward(z.tolist(), gain.item(), shift.item(), epsilon), gain.item(), g.tolist())
    for name, grad in zip([*leaves, "gain", "shift"], grads):
        same(found[name], grad.squeeze() if grad.numel() == 1 else grad)
    same(n.backward_at_once(z.tolist(), gain.item(), g.tolist(), epsilon), grads[7])
