"""Networks for pictures: the counts of the literature, the sizes on the way, and what they refuse."""

import pytest
import torch
from torch import nn

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.layers.dropout import Dropout
from leadline.models import (
    MODELS,
    VGG,
    AlexNet,
    ConvNet,
    DenseNet,
    LeNet,
    NetworkInNetwork,
    ResNet,
    ResNeXt,
    WideResNet,
    densenet,
    resnext,
    wide_resnet,
)
from leadline.testing import check_gradients, check_model

NAMES = ("ConvNet", "LeNet", "AlexNet", "VGG", "NetworkInNetwork", "ResNet", "WideResNet", "ResNeXt", "DenseNet")


def meta(make, *args, **options):
    """The model without its numbers: building 100 million of them takes seconds."""
    with torch.device("meta"):
        return make(*args, **options)


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("parameters", "make", "options"),
    [
        (61_706, LeNet, {"channels": 1, "size": (28, 28), "dim_output": 10}),
        (61_706, LeNet, {"channels": 1, "size": (32, 32), "dim_output": 10, "padding": 0}),
        (61_100_840, AlexNet, {}),
        (62_378_344, AlexNet, {"layout": "2012"}),
        (60_965_224, AlexNet, {"layout": "2012", "num_groups": 2}),
        (132_863_336, VGG, {"depth": 11, "norm": False}),
        (133_047_848, VGG, {"depth": 13, "norm": False}),
        (138_357_544, VGG, {"depth": 16, "norm": False}),
        (138_365_992, VGG, {"depth": 16}),
        (143_667_240, VGG, {"depth": 19, "norm": False}),
        (966_986, NetworkInNetwork, {"dim_output": 10, "norm": "none"}),
        (11_689_512, ResNet, {"depth": 18}),
        (21_797_672, ResNet, {"depth": 34}),
        (25_557_032, ResNet, {"depth": 50}),
        (44_549_160, ResNet, {"depth": 101}),
        (60_192_808, ResNet, {"depth": 152}),
        (64_673_832, ResNet, {"depth": 200}),
        (269_722, ResNet, {"depth": 20, "dim_output": 10, "skip": "zeros"}),
        (464_154, ResNet, {"depth": 32, "dim_output": 10, "skip": "zeros"}),
        (853_018, ResNet, {"depth": 56, "dim_output": 10, "skip": "zeros"}),
        (1_727_962, ResNet, {"depth": 110, "dim_output": 10, "skip": "zeros"}),
        (2_748_890, WideResNet, {"dim_output": 10, "depth": 16, "widening": 4}),
        (36_479_194, WideResNet, {"dim_output": 10, "depth": 28, "widening": 10}),
        (68_883_240, WideResNet, {"depth": 50, "widening": 2}),
        (126_886_696, WideResNet, {"depth": 101, "widening": 2}),
        (25_028_904, ResNeXt, {"depth": 50, "num_groups": 32, "dim_group": 4}),
        (88_791_336, ResNeXt, {"depth": 101, "num_groups": 32, "dim_group": 8}),
        (34_426_698, ResNeXt, {"dim_output": 10, "depth": 29, "num_groups": 8, "dim_group": 64}),
        (7_978_856, DenseNet, {"depth": 121}),
        (28_681_000, DenseNet, {"depth": 161}),
        (14_149_480, DenseNet, {"depth": 169}),
        (20_013_928, DenseNet, {"depth": 201}),
        (769_162, DenseNet, {"dim_output": 10, "depth": 100}),
        (25_624_430, DenseNet, {"dim_output": 10, "depth": 190}),
    ],
)
def test_parameters_are_those_of_the_literature(parameters, make, options):
    assert count(meta(make, **{"channels": 3, "dim_output": 1000, **options})) == parameters


@pytest.mark.parametrize("name", NAMES)
def test_each_keeps_the_contract(name):
    model = MODELS[name].tiny()
    check_model(MODELS[name], torch.randn(3, *model.input_shape))


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_channels_last_bfloat16_and_float32_agree(name):
    torch.manual_seed(0)
    model = MODELS[name].tiny().eval()
    x = torch.randn(2, *model.input_shape)
    out = model(x)
    last = torch.channels_last
    torch.testing.assert_close(model.to(memory_format=last)(x.contiguous(memory_format=last)), out)
    with torch.autocast("cpu", torch.bfloat16):
        low = model(x)
    assert float((low.float() - out).abs().max()) < 0.1 * max(1.0, float(out.abs().max()))


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (AlexNet, {}),
        (AlexNet, {"layout": "2012", "num_groups": 2}),
        (VGG, {}),
        (ResNet, {"depth": 50}),
        (ResNet, {"depth": 34, "order": "pre"}),
        (ResNet, {"depth": 34, "skip": "none"}),
        (WideResNet, {"depth": 50, "widening": 2}),
        (ResNeXt, {"depth": 50, "num_groups": 32, "dim_group": 4}),
        (DenseNet, {"depth": 121}),
    ],
)
def test_a_picture_of_224_goes_through(make, options):
    model = meta(make, 3, 1000, **options)
    assert model(torch.zeros(2, 3, 224, 224, device="meta")).shape == (2, 1000)


def test_sizes_on_the_way_are_those_of_the_papers():
    alexnet = meta(AlexNet, 3, 1000, layout="2012")
    seen, h = [], torch.zeros(1, 3, 224, 224, device="meta")
    for part in alexnet.features:
        h = part(h)
        if isinstance(part, (nn.Conv2d, nn.MaxPool2d)):
            seen.append(tuple(h.shape[1:]))
    pooled = [(96, 27, 27), (256, 13, 13), (256, 6, 6)]
    assert seen == [
        *((96, 55, 55), pooled[0], (256, 27, 27), pooled[1]),
        *((384, 13, 13), (384, 13, 13), (256, 13, 13), pooled[2]),
    ]
    resnet = meta(ResNet, 3, 1000, depth=50)
    h = resnet.enter(torch.zeros(1, 3, 224, 224, device="meta"))
    sizes = [tuple(h.shape[1:])] + [tuple((h := stage(h)).shape[1:]) for stage in resnet.body]
    assert sizes == [(64, 56, 56), (256, 56, 56), (512, 28, 28), (1024, 14, 14), (2048, 7, 7)]
    dense = meta(DenseNet, 3, 1000, depth=121)
    assert dense.leave.norm.num_features == 1024
    small = meta(DenseNet, 3, 10, stages=(2,), growth=32)
    assert [layer.norm1.num_features for layer in small.body[0].layers] == [64, 96]


def test_dense_layers_append_to_all_that_came():
    stage = DenseNet(1, 2, stages=(3,), growth=4).body[0].double().eval()
    x = torch.randn(1, 8, 5, 5, dtype=torch.float64)
    first = stage.layers[0](x)
    second = stage.layers[1](torch.cat([x, first], 1))
    third = stage.layers[2](torch.cat([x, first, second], 1))
    torch.testing.assert_close(stage(x), torch.cat([x, first, second, third], 1))


def test_response_normalisation_is_that_of_the_paper():
    """Eq. 5 by loops over channels: k = 2, n = 5, α = 10⁻⁴, β = ¾, sums that end at the first and last channel."""
    norm = next(part for part in AlexNet.tiny().features if isinstance(part, nn.LocalResponseNorm))
    h = 30 * torch.randn(1, 8, 2, 2, dtype=torch.float64)
    wanted = torch.empty_like(h)
    for c in range(8):
        near = h[:, max(0, c - 2) : c + 3].square().sum(1)
        wanted[:, c] = h[:, c] / (2 + 1e-4 * near) ** 0.75
    torch.testing.assert_close(norm(h), wanted)


def test_depth_counts_layers_with_weights_on_the_longest_way():
    for depth in (18, 50, 101, 20, 56):
        model = meta(ResNet, 3, 10, depth=depth, skip="none")
        layers = [part for part in model.modules() if isinstance(part, (nn.Conv2d, nn.Linear))]
        assert len(layers) == depth
    for depth in (121, 40, 100):
        model = meta(DenseNet, 3, 10, depth=depth)
        assert len([part for part in model.modules() if isinstance(part, (nn.Conv2d, nn.Linear))]) == depth
    for depth in (10, 16):
        model = meta(WideResNet, 3, 10, depth=depth)
        convs = [part for part in model.modules() if isinstance(part, nn.Conv2d)]
        assert len(convs) == depth - 4 + 1 + 3  # those of the blocks, the first, three projections
    for depth in (11, 13, 16, 19):
        model = meta(VGG, 3, 10, depth=depth)
        assert len([part for part in model.modules() if isinstance(part, (nn.Conv2d, nn.Linear))]) == depth
    for depth in (20, 50):
        model = meta(ResNeXt, 3, 10, depth=depth)
        layers = [part for part in model.modules() if isinstance(part, (nn.Conv2d, nn.Linear))]
        assert len(layers) - len(model.body) == depth


def test_the_sizes_of_the_literature_can_be_built():
    for depth, widening in wide_resnet.SIZES.values():
        meta(WideResNet, 3, 10, depth=depth, widening=widening)
    for options in resnext.SIZES.values():
        meta(ResNeXt, 3, 10, **options)
    assert set(densenet.SIZES) >= {121, 161, 169, 201, 100}


def test_own_stages_and_widths_go_before_the_size():
    model = meta(ResNet, 1, 3, depth=50, stages=(1, 2), width=8, stem="small", block="plain")
    assert [len(stage) for stage in model.body] == [1, 2] and model.head.in_features == 16
    assert model.config["stages"] == [1, 2] and model.config["depth"] == 50
    wide = meta(DenseNet, 1, 3, depth=121, growth=8, kept=1.0, bottleneck=False)
    assert wide.head.in_features == 16 + 8 * 58


def test_the_plain_twin_has_the_same_weights_but_the_skips():
    deep, plain = meta(ResNet, 3, 10, depth=56, skip="zeros"), meta(ResNet, 3, 10, depth=56, skip="none")
    assert count(deep) == count(plain) and set(deep.state_dict()) == set(plain.state_dict())


@pytest.mark.parametrize("make", [AlexNet, VGG, NetworkInNetwork, WideResNet, DenseNet])
def test_every_dropout_has_a_site_of_its_own(make):
    options = {"p_drop": 0.2} | ({"depth": 16} if make is WideResNet else {})
    sites = [part.site for part in meta(make, 3, 10, **options).modules() if isinstance(part, Dropout)]
    assert len(sites) >= 2 and len(set(sites)) == len(sites)


def test_derivatives_are_right():
    torch.manual_seed(3)
    for model in (
        ResNet(1, 2, stages=(1, 1), width=2),
        DenseNet(1, 2, stages=(1, 1), growth=2),
        ConvNet(1, 2, widths=(2, 3), depth=1),
    ):
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                nn.init.uniform_(part.bias, 0.1, 0.5)  # a bias of 0 puts whole maps on the kink of ReLU
        check_gradients(model, torch.randn(2, 1, 6, 6), most=6)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ResNet(3, 10, depth=19), UserError, "depth must be one of SIZES. Got depth=19"),
        (lambda: ResNet(3, 10, block="plane"), UnknownName, "Did you mean plain"),
        (lambda: ResNet(3, 10, stem="smal"), UnknownName, "Did you mean small"),
        (lambda: ResNet(3, 10, order="past"), UnknownName, "Did you mean post"),
        (lambda: ResNet(0, 10), UserError, "channels=0"),
        (lambda: ResNet(3, 10, stages=(2, 0)), UserError, r"stages\[1\]"),
        (lambda: WideResNet(3, 10, depth=17), UserError, "Nearest: 16"),
        (lambda: ResNeXt(3, 10, depth=30), UserError, "Nearest: 29"),
        (lambda: DenseNet(3, 10, depth=120), UserError, "depth must be one of SIZES"),
        (lambda: DenseNet(3, 10, kept=1.5), UserError, "kept must be a number above 0 and at most 1"),
        (lambda: VGG(3, 10, depth=12), UserError, "Pass one of 11, 13, 16, 19"),
        (lambda: AlexNet(3, 10, layout="2013"), UnknownName, "layout"),
        (lambda: LeNet(1, (28,), 10), UserError, "size must be rows and columns"),
        (lambda: LeNet(1, (8, 28), 10), UserError, "at least 12"),
        (lambda: ConvNet(1, 10, kernel=4), UserError, "kernel must be odd"),
        (lambda: ConvNet(1, 10, widths=()), UserError, "widths must be given"),
        (lambda: VGG.tiny()(torch.zeros(1, 1, 16, 40)), ShapeError, "at least 32 rows and 32 columns. Got 16 x 40"),
        (lambda: ResNet.tiny()(torch.zeros(1, 3, 32, 32)), ShapeError, "Build ResNet with channels=3"),
        (lambda: ConvNet.tiny()(torch.zeros(4, 784)), ShapeError, r"x must be pictures, \(B, 1, Y, X\)"),
        (lambda: LeNet.tiny()(torch.zeros(1, 1, 28, 28)), ShapeError, r"built for 12 x 14. Build LeNet with size=\(28"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("make", [ConvNet, ResNet, WideResNet, NetworkInNetwork, DenseNet])
def test_small_and_oblong_pictures_go_through(make):
    model = make.tiny().eval()
    assert model(torch.zeros(2, model.channels, 9, 5)).shape == (2, 2)


def test_a_stage_of_densenet_always_hands_on_a_channel():
    net = DenseNet(1, 3, stages=(1, 1), growth=1, kept=0.01)
    assert net.body[1].conv.out_channels == 1 and net(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
