"""Normalisation of units, series, pictures and volumes, against the reference, torch and finite differences."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leadline.errors import ShapeError, UserError
from leadline.layers import BatchNorm, BatchRenorm, GhostBatchNorm, ImageLayerNorm, exact_statistics
from leadline.reference import normalising

SHAPES = [(6, 3), (5, 3, 4), (4, 3, 2, 3), (2, 3, 2, 2, 2)]


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 2 + 1


def changed(layer):
    """The layer with a gain and an offset of its own for each channel."""
    torch.manual_seed(1)
    for p in layer.parameters():
        nn.init.normal_(p)
    return layer.double()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("inside", [True, False])
def test_both_places_of_epsilon(shape, inside):
    layer, x = changed(BatchNorm(3, epsilon=0.5, inside=inside)), drawn(*shape)
    flat = x.flatten(2) if x.dim() > 2 else x[:, :, None]
    expected = normalising.picture_norm(
        flat.tolist(), "batch", layer.weight.tolist(), layer.bias.tolist(), 0.5, inside=inside
    )
    torch.testing.assert_close(layer(x), torch.tensor(expected, dtype=torch.float64).view(shape))


def test_running_statistics_are_torch_s():
    ours, torchs, x = BatchNorm(3).double(), nn.BatchNorm2d(3).double(), drawn(5, 3, 4, 4)
    for k in range(3):
        ours(x + k), torchs(x + k)
    assert ours.state_dict().keys() == torchs.state_dict().keys()
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(value, torchs.state_dict()[name])
    deviation = ours.running_var.sqrt().view(3, 1, 1) + 1e-5
    torch.testing.assert_close(ours.eval()(x), (x - ours.running_mean.view(3, 1, 1)) / deviation)


@pytest.mark.parametrize("shape", [(5, 2), (3, 2, 2, 2)])
@pytest.mark.parametrize("make", [
    lambda: BatchNorm(2, 0.1),
    lambda: BatchNorm(2, 0.1, inside=True),
    lambda: ImageLayerNorm(2),
    lambda: GhostBatchNorm(2),
])  # fmt: skip
def test_gradients_are_those_of_differences(shape, make):
    layer = changed(make())
    names = [name for name, _ in layer.named_parameters()]

    def answer(x, *values):
        return torch.func.functional_call(layer, dict(zip(names, values)), x)

    assert torch.autograd.gradcheck(answer, (drawn(*shape)[:, :2].requires_grad_(), *layer.parameters()))


def test_a_constant_unit_has_a_finite_gradient():
    layer, x = BatchNorm(2), torch.ones(4, 2, requires_grad=True)
    layer(x).square().sum().backward()
    assert x.grad.isfinite().all() and (layer(x) == 0).all()


def test_twice_the_weights_is_the_same_answer():
    layer, x = BatchNorm(3, epsilon=0.0).double(), drawn(6, 3, 4, 4)
    torch.testing.assert_close(layer(2 * x + 5), layer(x))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_layer_norm_of_pictures(shape):
    layer, x = changed(ImageLayerNorm(3)), drawn(*shape)
    flat = x.flatten(2) if x.dim() > 2 else x[:, :, None]
    expected = normalising.picture_norm(flat.tolist(), "layer", layer.weight.tolist(), layer.bias.tolist())
    torch.testing.assert_close(layer(x), torch.tensor(expected, dtype=torch.float64).view(shape))


@pytest.mark.parametrize("shape", [(9, 3), (9, 3, 4), (9, 3, 2, 3), (9, 3, 2, 2, 2)])
def test_ghosts_of_pictures_are_normalised_apart(shape):
    layer, x = GhostBatchNorm(3, rows=4).double(), drawn(*shape)
    out = layer(x)
    for part, seen in zip(out.tensor_split(2), x.tensor_split(2)):
        torch.testing.assert_close(part, F.batch_norm(seen, None, None, training=True))
    torch.testing.assert_close(layer.eval()(x), F.batch_norm(x, layer.norm.running_mean, layer.norm.running_var))


@pytest.mark.parametrize("shape", SHAPES)
def test_renorm_of_pictures(shape):
    layer, x = changed(BatchRenorm(3)), drawn(*shape)
    axes = [0, *range(2, x.dim())]
    view = (3, *[1] * (x.dim() - 2))
    mean, deviation = x.mean(axes), (x.var(axes, correction=0) + 1e-5).sqrt()
    r, d = deviation.clamp(1 / 3, 3), mean.clamp(-5, 5)  # against a mean of 0 and a deviation of 1
    z = (x - mean.view(view)) / deviation.view(view) * r.view(view) + d.view(view)
    expected = layer.gain.view(view) * z + layer.shift.view(view)
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer.mean, 0.1 * mean)
    torch.testing.assert_close(layer.deviation, 0.9 + 0.1 * deviation)
    rest = layer.gain.view(view) * (x - layer.mean.view(view)) / layer.deviation.view(view) + layer.shift.view(view)
    torch.testing.assert_close(layer.eval()(x), rest)


@pytest.mark.parametrize("make", [BatchNorm, BatchRenorm, GhostBatchNorm, ImageLayerNorm])
def test_half_precision_goes_in_and_comes_out(make):
    layer, x = make(3), drawn(8, 3, 4, 4).float()
    exact = copy.deepcopy(layer)(x)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x.bfloat16())
    torch.testing.assert_close(out.float(), exact, atol=0.05, rtol=0.05)
    assert all(value.dtype in (torch.float32, torch.int64) for value in layer.state_dict().values())


@pytest.mark.parametrize("make", [BatchNorm, BatchRenorm, GhostBatchNorm, ImageLayerNorm])
def test_the_order_in_memory_does_not_count(make):
    layer, x = make(3).double(), drawn(40, 3, 4, 5)
    other, last = copy.deepcopy(layer), x.to(memory_format=torch.channels_last)
    torch.testing.assert_close(layer(x), other(last))
    torch.testing.assert_close(layer.eval()(x), other.eval()(last))


# ── exact statistics ─────────────────────────────────────────────────────────────────────────────────────────────────


def conv_net(norm=nn.BatchNorm2d):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), norm(4), nn.ReLU(), nn.Conv2d(4, 5, 3), norm(5), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(5, 3, 1), norm(3), nn.Flatten(), nn.Linear(12, 2),
    ).double()  # fmt: skip


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, BatchNorm])
@pytest.mark.parametrize("sizes", [None, (23,), (1, 22), (7, 7, 7, 2)])
def test_exact_statistics_of_a_conv_net_are_those_of_one_batch(norm, sizes):
    model, x = conv_net(norm), drawn(23, 2, 8, 8)
    whole = copy.deepcopy(model).train()(x)
    exact_statistics(model, x if sizes is None else list(x.split(sizes)))
    assert model.training and not any(module._forward_pre_hooks for module in model.modules())
    torch.testing.assert_close(model.eval()(x), whole, rtol=1e-10, atol=1e-10)


def test_averages_of_batches_are_not_exact():
    """What averaging the statistics of single batches gives instead, in a net whose layers bend."""
    model, x = conv_net(), drawn(24, 2, 8, 8) * torch.linspace(0.2, 3, 24).double().view(24, 1, 1, 1)
    whole = copy.deepcopy(model).train()(x)
    torch.optim.swa_utils.update_bn(x.split(6), model)
    assert float((model.eval()(x) - whole).detach().abs().max()) > 0.01
    exact_statistics(model, x.split(6))
    torch.testing.assert_close(model.eval()(x), whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", [BatchRenorm, lambda dim: GhostBatchNorm(dim, rows=50)])
def test_relatives_have_exact_statistics_too(norm):
    model, x = conv_net(norm), drawn(20, 2, 8, 8)
    exact_statistics(model, list(x.split(6)))
    expected = copy.deepcopy(conv_net())
    expected.load_state_dict({
        name.replace("gain", "weight").replace("shift", "bias").replace(".norm.", "."): value
        for name, value in model.state_dict().items()
        if "mean" not in name and "deviation" not in name
    }, strict=False)  # fmt: skip
    torch.testing.assert_close(model.eval()(x), expected.train()(x), rtol=1e-9, atol=1e-9)


def test_statistics_of_large_numbers_keep_their_digits():
    model = nn.Sequential(nn.BatchNorm1d(1))
    x = torch.tensor([[1e4], [1e4 + 1], [1e4 + 2], [1e4 + 3]])
    exact_statistics(model, list(x.split(1)))
    assert model[0].running_var.item() == pytest.approx(1.25)


def test_what_has_no_exact_statistics_is_refused():
    norm = nn.BatchNorm1d(2)
    with pytest.raises(UserError, match="called once in a pass.* Got two calls of a BatchNorm1d"):
        exact_statistics(nn.Sequential(norm, nn.Linear(2, 2), norm), torch.zeros(3, 2))
    with pytest.raises(UserError, match="gone through once for every normalisation. Got a generator"):
        exact_statistics(nn.Sequential(norm), (torch.zeros(2, 2) for _ in range(3)))
    with pytest.raises(UserError, match="statistics need rows"):
        exact_statistics(nn.Sequential(norm), [])
    assert norm.training and not norm._forward_pre_hooks


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: BatchNorm(3)(torch.zeros(2, 4)), r"rows of 3 channels. Got shape \(2, 4\)"),
        (lambda: BatchNorm(3)(torch.zeros(1, 3)), "at least 2 rows at a time"),
        (lambda: BatchNorm(3, epsilon=-1.0), "epsilon must be a number of at least 0"),
        (lambda: ImageLayerNorm(0), "dim must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_normalised_is_refused(make, said):
    with pytest.raises((UserError, ShapeError), match=said):
        make()
