"""Pictures on a GPU: channels last, recorded and compiled steps, streams, the same bits again."""

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.engine import feed as feed_module
from leadline.engine.device import place
from leadline.layers.substitutes import Substituted

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def scenes(task="classes", num=240):
    return ll.data.scenes(num=num, size=32, task=task)


def trained(data, compile, model=None, **options):
    torch.manual_seed(0)
    if model is None:
        model = ll.models.ResNet(3, len(data.target.classes), stages=(1, 1), width=8)
    settings = {"epochs": 4, "batch": 32, "regularize": ("flip", "crop(2)"), "progress": False, **options}
    return ll.fit(model, data, compile=compile, device="cuda", **settings)


def weights(run):
    return [p.detach().cpu() for p in run.model.state_dict().values()]


@pytest.mark.parametrize("compile", ["off", "record", "on"])
def test_the_same_run_has_the_same_bits(compile):
    data = scenes()
    for a, b in zip(weights(trained(data, compile)), weights(trained(data, compile)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("compile", ["record", "on"])
def test_recorded_and_compiled_steps_learn_what_plain_ones_learn(compile):
    data = scenes(num=600)
    options = {"epochs": 12, "precision": "float32"}
    plain, quick = trained(data, "off", **options), trained(data, compile, **options)
    losses = [[line["train"]["loss"] for line in run.history] for run in (plain, quick)]
    fall, quick_fall = (path[0] - path[-1] for path in losses)
    assert fall > 0.1
    assert abs(quick_fall - fall) < 0.1 * fall


class Unrecordable(nn.Module):
    """Waits for the device in the middle of its forward pass, which no recorded graph can do."""

    def __init__(self, num_classes):
        super().__init__()
        self.linear = nn.Linear(3 * 32 * 32, num_classes)

    def forward(self, x):
        rows = x.flatten(1)
        return self.linear(nn.functional.dropout(rows, 0.1 if rows.mean().item() > 0 else 0.2))


def test_what_cannot_be_recorded_is_said_and_trained_all_the_same():
    data = scenes()
    numbers = torch.cuda.get_rng_state()
    with pytest.warns(UserWarning, match="steps are not compiled"):
        run = trained(data, "record", Unrecordable(len(data.target.classes)))
    assert len(run.history) == 4
    torch.cuda.set_rng_state(numbers)
    assert torch.randn(3, device="cuda").isfinite().all()


@pytest.mark.parametrize("task", ["pixels", "boxes", "points"])
def test_places_are_learned_in_recorded_steps(task):
    data = scenes(task)
    likelihood = ll.likelihoods.likelihood_for(data.target)
    name = {"pixels": "UNet", "boxes": "GridDetector", "points": "Hourglass"}[task]
    model = ll.models.build(name, data.shape_input, likelihood.dim_output, width=8)
    run = trained(data, "record", model, regularize=("turn", "affine(10, 0.1, 0.1)"), epochs=8)
    losses = [line["train"]["loss"] for line in run.history]
    assert losses[-1] < 0.9 * losses[0]
    assert run.settings.precision == "bf16"


@pytest.mark.parametrize("compile", ["off", "record"])
def test_streamed_pictures_are_those_on_the_device(compile, monkeypatch):
    data = scenes()
    lying = weights(trained(data, compile))
    monkeypatch.setattr(feed_module, "fits", lambda rows, device: False)
    for a, b in zip(lying, weights(trained(data, compile)), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("channels", [1, 3])
def test_maps_have_their_channels_last(channels):
    net = nn.Sequential(nn.Conv2d(channels, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    place(net, torch.device("cuda"), torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        out = net(torch.randn(4, channels, 28, 28, device="cuda"))
    assert out.stride(1) == 1


def test_substitutes_are_the_operations_on_a_gpu():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)).cuda().double()
    x = torch.randn(2, 3, 64, 64, device="cuda", dtype=torch.float64, requires_grad=True)
    plain = torch.autograd.grad(net(x).square().sum(), [x, *net.parameters()])
    with Substituted():
        own = torch.autograd.grad(net(x).square().sum(), [x, *net.parameters()])
    for a, b in zip(plain, own, strict=True):
        torch.testing.assert_close(a, b)
