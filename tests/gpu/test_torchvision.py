"""Against torchvision itself: random weights under its names, loaded here, give the same answers."""

import pytest
import torch
from torch import nn

from leadline.models import VGG, AlexNet, DenseNet, ResNet, ResNeXt, WideResNet, load_named

pytestmark = pytest.mark.gpu

CASES = {
    "alexnet": (AlexNet, {}),
    "vgg11": (VGG, {"depth": 11, "norm": False}),
    "vgg16": (VGG, {"depth": 16, "norm": False}),
    "vgg16_bn": (VGG, {"depth": 16}),
    "resnet18": (ResNet, {"depth": 18}),
    "resnet50": (ResNet, {"depth": 50}),
    "resnext50_32x4d": (ResNeXt, {"depth": 50, "num_groups": 32, "dim_group": 4}),
    "wide_resnet50_2": (WideResNet, {"depth": 50, "widening": 2}),
    "densenet121": (DenseNet, {"depth": 121}),
}


def shaken(model):
    """Statistics and gains that are not 0 and 1: a normalisation that is skipped or swapped then shows."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.running_mean, -0.2, 0.2)
            nn.init.uniform_(part.running_var, 0.8, 1.2)
            nn.init.uniform_(part.weight, 0.5, 1.0)
            nn.init.uniform_(part.bias, -0.2, 0.2)
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [224, 160])
def test_the_same_weights_give_the_same_answers(name, size):
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    theirs = shaken(getattr(torchvision.models, name)(weights=None))
    make, options = CASES[name]
    ours = load_named(make(3, 1000, **options), theirs.state_dict()).eval()
    x = torch.randn(2, 3, size, size)
    wanted = theirs(x)
    torch.testing.assert_close(ours(x), wanted, rtol=1e-5, atol=1e-5 * max(1.0, float(wanted.abs().max())))


@torch.no_grad()
def test_half_of_a_batch_norm_left_out_would_show():
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    theirs = shaken(torchvision.models.resnet18(weights=None))
    ours = load_named(ResNet(3, 1000, depth=18), theirs.state_dict()).eval()
    ours.body[0][0].branch.norm2.running_mean.zero_()
    x = torch.randn(1, 3, 224, 224)
    assert not torch.allclose(ours(x), theirs(x), atol=1e-4)
