"""Residual relatives and dense models in mixed precision, with channels last, and as a graph of operations."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from leadline.layers import noise
from leadline.models import MODELS

NAMES = (
    *("Highway", "StochasticDepth", "ShakeResNet", "NormFree", "NeuralODE"),
    *("UNet", "Segmenter", "Hourglass", "GridDetector"),
)


def made(name):
    torch.manual_seed(0)
    model = MODELS[name].tiny()
    return model, torch.randn(4, *model.input_shape), noise.example_keys(0, 0, torch.arange(4))


@pytest.mark.parametrize("name", NAMES)
def test_mixed_precision_is_near_the_full_one(name):
    model, x, _ = made(name)
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        mixed = model(x)
    with torch.no_grad():
        full = model(x)
    assert mixed.dtype == torch.bfloat16
    assert float((mixed - full).abs().max()) < 0.1 * (0.1 + float(full.abs().max()))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("Highway", "NeuralODE")])
def test_the_order_of_memory_changes_nothing(name):
    model, x, _ = made(name)
    found = []
    for memory in (torch.contiguous_format, torch.channels_last):
        net = model.to(memory_format=memory).double().eval()
        found.append(net(x.contiguous(memory_format=memory).double()))
    assert torch.allclose(*found, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_can_be_traced_and_the_graph_computes_it(name):
    model, x, keys = made(name)
    model, x = model.double(), x.double()
    names = [n for n, _ in model.named_parameters()]
    buffers = {n: b.clone() for n, b in model.named_buffers()}

    def gradient(keys, x, *weights):
        def loss(values):
            with noise.keyed(keys):
                copies = {n: b.clone() for n, b in buffers.items()}
                return torch.func.functional_call(model, {**values, **copies}, (x,)).square().mean()

        return tuple(torch.func.grad(loss)(dict(zip(names, weights, strict=True))).values())

    weights = [p.detach() for p in model.parameters()]
    graph = make_fx(gradient, tracing_mode="fake", _allow_non_fake_inputs=True)(keys, x, *weights)
    for traced, direct in zip(graph(keys, x, *weights), gradient(keys, x, *weights), strict=True):
        assert torch.allclose(traced, direct, atol=1e-9)
