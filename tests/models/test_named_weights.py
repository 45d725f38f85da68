"""Weights under torchvision's names: the names and shapes spelled out here once more, by another way, and refusals."""

import pytest
import torch

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.models import MLP, VGG, AlexNet, DenseNet, ResNet, ResNeXt, WideResNet, load_named, torchvision_names


def meta(make, *args, **options):
    with torch.device("meta"):
        return make(*args, **options)


def layer(name, *shape):
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def norm(name, width):
    return {
        **layer(name, width),
        **{f"{name}.running_mean": (width,), f"{name}.running_var": (width,), f"{name}.num_batches_tracked": ()},
    }


def conv(name, *shape):
    return {f"{name}.weight": shape}


def residual(blocks, wide, groups=1, inner=64):
    """Names of a ResNet; `wide` is the factor of the bottleneck, 1 for plain blocks."""
    names = {**conv("conv1", 64, 3, 7, 7), **norm("bn1", 64)}
    read = 64
    for s, num in enumerate(blocks, 1):
        c, out = inner * 2 ** (s - 1), 64 * 2 ** (s - 1) * wide
        for b in range(num):
            at = f"layer{s}.{b}"
            if wide == 1:
                names |= {**conv(f"{at}.conv1", c, read, 3, 3), **norm(f"{at}.bn1", c)}
                names |= {**conv(f"{at}.conv2", c, c, 3, 3), **norm(f"{at}.bn2", c)}
            else:
                names |= {**conv(f"{at}.conv1", c, read, 1, 1), **norm(f"{at}.bn1", c)}
                names |= {**conv(f"{at}.conv2", c, c // groups, 3, 3), **norm(f"{at}.bn2", c)}
                names |= {**conv(f"{at}.conv3", out, c, 1, 1), **norm(f"{at}.bn3", out)}
            if b == 0 and (s > 1 or read != out):
                names |= {**conv(f"{at}.downsample.0", out, read, 1, 1), **norm(f"{at}.downsample.1", out)}
            read = out
    return {**names, **layer("fc", 1000, read)}


def vgg(plan, norms):
    names, at, read = {}, 0, 3
    for width in plan:
        if width == "pool":
            at += 1
            continue
        names |= layer(f"features.{at}", width, read, 3, 3)
        if norms:
            names |= norm(f"features.{at + 1}", width)
        at, read = at + 2 + norms, width
    ends = {**layer("classifier.0", 4096, 512 * 49), **layer("classifier.3", 4096, 4096)}
    return {**names, **ends, **layer("classifier.6", 1000, 4096)}


def dense(blocks, growth, first):
    names = {**conv("features.conv0", first, 3, 7, 7), **norm("features.norm0", first)}
    read = first
    for s, num in enumerate(blocks, 1):
        for k in range(1, num + 1):
            at = f"features.denseblock{s}.denselayer{k}"
            names |= {**norm(f"{at}.norm1", read), **conv(f"{at}.conv1", 4 * growth, read, 1, 1)}
            names |= {**norm(f"{at}.norm2", 4 * growth), **conv(f"{at}.conv2", growth, 4 * growth, 3, 3)}
            read += growth
        if s < len(blocks):
            at = f"features.transition{s}"
            names |= {**norm(f"{at}.norm", read), **conv(f"{at}.conv", read // 2, read, 1, 1)}
            read //= 2
    return {**names, **norm("features.norm5", read), **layer("classifier", 1000, read)}


def alexnet():
    convs = [(0, 64, 3, 11), (3, 192, 64, 5), (6, 384, 192, 3), (8, 256, 384, 3), (10, 256, 256, 3)]
    names = {}
    for at, width, read, kernel in convs:
        names |= layer(f"features.{at}", width, read, kernel, kernel)
    ends = {**layer("classifier.1", 4096, 9216), **layer("classifier.4", 4096, 4096)}
    return {**names, **ends, **layer("classifier.6", 1000, 4096)}


VGG16 = [*(64, 64, "pool", 128, 128, "pool"), *(256, 256, 256, "pool"), *(512, 512, 512, "pool") * 2]
VGG11 = [*(64, "pool", 128, "pool", 256, 256, "pool"), *(512, 512, "pool") * 2]

CASES = {
    "alexnet": (AlexNet, {}, alexnet()),
    "vgg11": (VGG, {"depth": 11, "norm": False}, vgg(VGG11, norms=False)),
    "vgg16": (VGG, {"depth": 16, "norm": False}, vgg(VGG16, norms=False)),
    "vgg16_bn": (VGG, {"depth": 16, "norm": True}, vgg(VGG16, norms=True)),
    "resnet18": (ResNet, {"depth": 18}, residual((2, 2, 2, 2), 1)),
    "resnet34": (ResNet, {"depth": 34}, residual((3, 4, 6, 3), 1)),
    "resnet50": (ResNet, {"depth": 50}, residual((3, 4, 6, 3), 4)),
    "resnet152": (ResNet, {"depth": 152}, residual((3, 8, 36, 3), 4)),
    "resnext50_32x4d": (
        ResNeXt,
        {"depth": 50, "num_groups": 32, "dim_group": 4},
        residual((3, 4, 6, 3), 4, groups=32, inner=128),
    ),
    "wide_resnet50_2": (WideResNet, {"depth": 50, "widening": 2}, residual((3, 4, 6, 3), 4, inner=128)),
    "densenet121": (DenseNet, {"depth": 121}, dense((6, 12, 24, 16), 32, 64)),
    "densenet161": (DenseNet, {"depth": 161}, dense((6, 12, 36, 24), 48, 96)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_name_and_shape_is_torchvisions(name):
    make, options, wanted = CASES[name]
    model = meta(make, 3, 1000, **options)
    own = model.state_dict()
    found = {theirs: tuple(own[ours].shape) for ours, theirs in torchvision_names(model).items()}
    assert found == wanted


def test_what_is_loaded_lands_where_it_belongs():
    torch.manual_seed(0)
    model = ResNet(3, 5, depth=18, width=4)
    names = torchvision_names(model)
    twin = ResNet(3, 5, depth=18, width=4)
    state = {names[ours]: tensor for ours, tensor in twin.state_dict().items()}
    for theirs in [name for name in state if name.endswith("num_batches_tracked")]:
        del state[theirs]  # as in old files
    x = torch.randn(2, 3, 64, 64)
    assert not torch.equal(model.eval()(x), twin.eval()(x))
    assert load_named(model, state) is model
    assert torch.equal(model(x), twin(x))
    assert model.body[2][0].skip.conv.weight.data_ptr() != twin.body[2][0].skip.conv.weight.data_ptr()


def test_what_does_not_fit_is_refused_by_name_and_nothing_is_loaded():
    model = AlexNet(3, 10, width=0.1, hidden=8)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    lacking = {name: tensor for name, tensor in state.items() if name != "features.3.bias"}
    with pytest.raises(UnknownName, match=r"no features\.3\.bias"):
        load_named(model, lacking)
    with pytest.raises(UnknownName, match=r"no features\.0\.weight.* and 13 more, and module\.classifier"):
        load_named(model, {f"module.{name}": tensor for name, tensor in state.items()})
    with pytest.raises(ShapeError, match=r"classifier\.6\.weight must .* \(10, 8\). Got \(7, 8\). .*transfer"):
        load_named(model, {**state, "classifier.6.weight": torch.zeros(7, 8)})
    with pytest.raises(ShapeError, match=r"features\.0\.weight .* width and the channels"):
        load_named(model, {**state, "features.0.weight": torch.zeros(6, 1, 11, 11)})
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (ResNet, {"depth": 50, "order": "pre"}),
        (ResNet, {"depth": 20}),
        (ResNet, {"depth": 18, "skip": "zeros"}),
        (AlexNet, {"layout": "2012"}),
        (WideResNet, {"depth": 16}),
        (DenseNet, {"depth": 100}),
    ],
)
def test_models_that_torchvision_has_not_are_refused(make, options):
    with pytest.raises(UserError, match="one that torchvision has too"):
        torchvision_names(meta(make, 3, 1000, **options))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "must hold tensors under their names. Got state=None"),
        ("weights.pth", "Got state='weights.pth' .text.. Pass model.state_dict"),
        ({"state_dict": {}, "epoch": 3}, r"must be a tensor. Got state_dict=.*and 1 more. .*saved\["),
        ({"features.0.weight": [[1.0]]}, "features.0.weight=.*as_tensor"),
    ],
)
def test_what_is_no_state_is_refused_in_words(state, message):
    with pytest.raises(UserError, match=message):
        load_named(AlexNet(3, 10, width=0.1, hidden=8), state)


def test_other_models_have_no_names_there():
    with pytest.raises(UserError, match="Got MLP. Pass one of AlexNet, VGG"):
        torchvision_names(MLP.tiny())
