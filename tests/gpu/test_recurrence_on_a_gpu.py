"""Recurrent layers on a GPU in mixed precision, and states that are carried there."""

import copy

import pytest
import torch

import leadline as ll
from leadline.layers.linear_recurrent_unit import LRU
from leadline.layers.lstm import LSTM
from leadline.layers.min_gru import MinGRU

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def gradients(layer, x, above, mixed):
    for p in layer.parameters():
        p.grad = None
    x = x.clone().requires_grad_()
    with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
        y, _ = layer(x)
    y.float().backward(above)
    return [x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.parametrize("kind", [LSTM, LRU, MinGRU])
@pytest.mark.parametrize("size", [1.0, 1e-8])
def test_gradients_in_mixed_precision_are_those_of_float32_but_for_rounding(kind, size):
    torch.manual_seed(0)
    layer = kind(128, 128).cuda()
    x, above = torch.randn(16, 100, 128, device="cuda"), size * torch.randn(16, 100, 128, device="cuda")
    for one, other in zip(gradients(layer, x, above, True), gradients(layer, x, above, False), strict=True):
        assert float((one - other).norm() / other.norm()) < 0.05


def text(folder):
    for k in range(40):
        (folder / f"{k:02}.txt").write_text(" ".join(f"{k} sailors went to sea {j * k % 11} times" for j in range(30)))
    return ll.data.text(folder, length=32, kind="characters", every=10, cache=False)


@pytest.mark.parametrize(("cell", "compile"), [("lstm", "auto"), ("lru", "off"), ("lru", "record"), ("min_gru", "on")])
def test_states_are_carried_on_a_gpu_as_on_a_cpu(tmp_path, cell, compile):
    data = text(tmp_path)
    model = ll.models.build("Recurrent", data, data.target.dim, cell=cell, dim=32, p_drop=0.0, seed=0)
    twin = copy.deepcopy(model)
    settings = {"epochs": 3, "batch": 8, "carry_state": True, "precision": "float32", "progress": False, "lr": 1e-3}
    here = ll.fit(model, data, device="cpu", compile="off", **settings)
    there = ll.fit(twin, data, device="cuda", compile=compile, **settings)
    assert there.history[-1]["train"]["loss"] == pytest.approx(here.history[-1]["train"]["loss"], rel=1e-3)
    assert there.evaluate("test")["bits_per_character"] == pytest.approx(
        here.evaluate("test")["bits_per_character"], rel=1e-3
    )


@pytest.mark.parametrize("cell", ["lstm", "lru", "min_gru"])
def test_a_network_learns_in_mixed_precision_as_in_float32(tmp_path, cell):
    data, found = text(tmp_path), {}
    for precision in ("float32", "bf16"):
        model = ll.models.build("Recurrent", data, data.target.dim, cell=cell, dim=128, p_drop=0.0, seed=0)
        settings = {"epochs": 6, "batch": 8, "carry_state": True, "device": "cuda", "progress": False}
        found[precision] = ll.fit(model, data, precision=precision, **settings).evaluate("test")["bits_per_character"]
    assert found["bf16"] == pytest.approx(found["float32"], rel=0.05)
