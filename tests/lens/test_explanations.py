"""Maps that explain an answer: against differences, brute force and hand computation."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from leadline.errors import ShapeError, UnknownName, UserError
from leadline.lens import activation_maximum, class_activation, dissection, inversion, occlusion, saliency


def smooth_net(channels=2):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(channels, 3, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(3 * 30, 4))
    return net.double()


def pooled_net():
    torch.manual_seed(1)
    body = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(4, 5, 3, padding=1)]
    return nn.Sequential(*body, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3))


X = torch.randn(3, 2, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def test_the_gradient_is_that_of_differences():
    net = smooth_net()
    view = saliency(net, X, target=[0, 3, 2])
    step = 1e-6
    for row, channel, i, k in ((0, 0, 0, 0), (1, 1, 4, 5), (2, 0, 2, 3)):
        up, down = X.clone(), X.clone()
        up[row, channel, i, k] += step
        down[row, channel, i, k] -= step
        c = [0, 3, 2][row]
        slope = (net(up)[row, c] - net(down)[row, c]).item() / (2 * step)
        assert view.values[row, channel, i, k] == pytest.approx(slope, rel=1e-6)
    assert np.allclose(view.score, net(X).detach()[[0, 1, 2], [0, 3, 2]])
    assert np.allclose(saliency(net, X, [0, 3, 2], kind="times_input").values, view.values * X.numpy())
    assert view.maps.shape == (3, 5, 6) and (np.abs(view.maps) == np.abs(view.values).max(1)).all()


def test_shares_add_up_to_the_answer():
    net = smooth_net()
    view = saliency(net, X, kind="integrated", draws=200)
    best = net(X).argmax(1)
    assert view.target.tolist() == best.tolist()
    want = (net(X) - net(torch.zeros_like(X)))[range(3), best].detach()
    assert np.allclose(view.values.sum((1, 2, 3)), want, atol=1e-4)
    assert np.allclose(view.maps.sum((1, 2)), want, atol=1e-4)


def test_smoothing_by_nothing_changes_nothing_and_noise_averages():
    net = smooth_net()
    plain = saliency(net, X, 1).values
    assert np.allclose(saliency(net, X, 1, kind="smooth", noise=0.0, draws=2).values, plain)
    rough = saliency(net, X, 1, kind="smooth", noise=0.3, draws=400).values
    other = saliency(net, X, 1, kind="smooth", noise=0.3, draws=400, seed=1).values
    assert not np.allclose(rough, plain, atol=1e-3) and np.abs(rough - other).max() < 0.5 * np.abs(rough - plain).max()


def test_occlusion_is_brute_force():
    net = smooth_net()
    view = occlusion(net, X, [0, 3, 2], patch=2, stride=2, fill=0.5, batch=4)
    assert view.drops.shape == (3, 3, 3)  # rows 0, 2 and 3: the last patch ends at the border
    whole = net(X)
    total, covers = np.zeros((3, 5, 6)), np.zeros((5, 6))
    for a, i in enumerate((0, 2, 3)):
        for b, k in enumerate((0, 2, 4)):
            hidden = X.clone()
            hidden[:, :, i : i + 2, k : k + 2] = 0.5
            drop = (whole - net(hidden))[[0, 1, 2], [0, 3, 2]].detach().numpy()
            assert np.allclose(view.drops[:, a, b], drop)
            total[:, i : i + 2, k : k + 2] += drop[:, None, None]
            covers[i : i + 2, k : k + 2] += 1
    assert np.allclose(view.maps, total / covers)
    sure = occlusion(net, X, 1, patch=5, stride=1, probability=True)
    hidden = X.clone()
    hidden[..., :5] = 0
    assert np.allclose(sure.drops[:, 0, 0], (net(X).softmax(1) - net(hidden).softmax(1))[:, 1].detach())


def test_class_activation_by_hand_and_both_kinds_agree():
    net = pooled_net()
    x = torch.randn(4, 1, 12, 10)
    by_weights = class_activation(net, x, [0, 1, 2, 0], kind="weights")
    by_gradient = class_activation(net, x, [0, 1, 2, 0])
    assert by_weights.name == by_gradient.name == "4"  # the last activation, before the mean
    features = net[:5](x).detach()
    by_hand = torch.einsum("bk,bkyx->byx", net[7].weight.detach()[[0, 1, 2, 0]], features)
    assert np.allclose(by_weights.sums, by_hand, atol=1e-6)
    assert np.allclose(by_gradient.sums, by_weights.sums, atol=1e-6)
    score = by_hand.mean((1, 2)) + net[7].bias.detach()[[0, 1, 2, 0]]
    assert np.allclose(by_weights.score, score, atol=1e-6)
    assert by_gradient.maps.shape == (4, 12, 10) and by_gradient.maps.min() >= 0 > by_weights.maps.min()


def test_grad_cam_reads_any_module_and_what_is_changed_in_place():
    net = pooled_net()
    x = torch.randn(2, 1, 8, 8)
    view = class_activation(net, x, 1, "0")  # the relu after it works in place
    before = net[0](x)
    assert before.min().item() < 0
    leaf = before.detach().requires_grad_()
    out = net[2:](leaf.relu())
    (slopes,) = torch.autograd.grad(out[:, 1].sum(), leaf)
    by_hand = (slopes.sum((2, 3), keepdim=True) * leaf).sum(1).detach()
    assert np.allclose(view.sums, by_hand, atol=1e-5)
    with pytest.raises(UserError, match="CAM needs"):
        class_activation(net, x, 1, "0", kind="weights")


def test_an_activation_that_is_used_again():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.act, self.hidden, self.head = (
                nn.Conv2d(1, 3, 3),
                nn.ReLU(),
                nn.Linear(3, 3),
                nn.Linear(3, 2),
            )

        def forward(self, x):
            return self.head(self.act(self.hidden(self.act(self.conv(x)).mean((2, 3)))))

    view = class_activation(Again(), torch.randn(2, 1, 6, 6))
    assert view.name == "act" and view.sums.shape == (2, 4, 4)


def test_a_linear_unit_is_excited_most_by_its_filter():
    torch.manual_seed(0)
    net = nn.Conv2d(3, 4, 5)
    view = activation_maximum(net, (3, 5, 5), channel=[2, 0], unit=(0, 0))
    for picture, channel in zip(view.x, (2, 0), strict=True):
        kernel = net.weight[channel].detach().numpy()
        cosine = (picture * kernel).sum() / np.linalg.norm(picture) / np.linalg.norm(kernel)
        assert cosine > 0.99
    assert np.sqrt((view.x**2).mean((1, 2, 3))) == pytest.approx(1, rel=1e-5)
    assert (view.value > view.noise).all()
    rms = view.value - net.bias.detach()[[2, 0]].numpy()
    assert np.allclose(rms, np.sqrt(75) * net.weight.detach().flatten(1).norm(dim=1)[[2, 0]].numpy(), rtol=0.02)


def test_priors_smooth_what_excites():
    net = pooled_net()
    plain = activation_maximum(net, (1, 12, 12), "3", 1, steps=40)
    calm = activation_maximum(net, (1, 12, 12), "3", 1, steps=40, smooth=0.5, blur=0.7, jitter=2)
    rough = lambda x: np.abs(np.diff(x, axis=-1)).mean()  # noqa: E731
    assert rough(calm.x) < 0.8 * rough(plain.x) and (plain.value > plain.noise).all()
    assert (activation_maximum(net, (1, 12, 12), "3", 1, steps=40).x == plain.x).all()


def test_what_can_be_inverted_is_found_again():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    x = torch.randn(2, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    sure = inversion(net, x, "0")
    assert (sure.error < 1e-2).all() and (sure.mismatch < 1e-2).all()
    lost = inversion(net, x, steps=60)  # 24 numbers for 36
    assert (lost.mismatch < 0.05).all() and (lost.error > 0.1).all()
    calm = inversion(net, x, steps=60, smooth=1.0)
    assert np.abs(np.diff(calm.found)).mean() < np.abs(np.diff(lost.found)).mean()


def test_dissection_by_hand():
    y = torch.zeros(2, 4, 4, dtype=torch.uint8)
    y[:, :, 0], y[0, 0, 3] = 1, 255
    net = nn.Conv2d(2, 2, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.eye(2)[..., None, None])
    x = torch.stack([(y == 1).float(), torch.arange(16.0).reshape(1, 4, 4).expand(2, 4, 4)], 1)
    view = dissection(net, x, y, part=8 / 31, classes=("rest", "left"))
    assert view.overlap[0].tolist() == [0.0, 1.0] and view.best[0] == 1 and 0 in view.detectors
    on = view.thresholds[1] < x[:, 1].numpy()
    known, left = (y != 255).numpy(), (y == 1).numpy()
    assert view.overlap[1, 1] == pytest.approx((on & left & known).sum() / ((on | left) & known).sum())
    assert view.plot().axes


@pytest.mark.parametrize("lens", [saliency, occlusion, class_activation, inversion])
def test_signals_and_drawings(lens):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 3, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 2))
    for model, x in ((net, torch.randn(2, 1, 16)), (pooled_net(), torch.randn(2, 1, 12, 12))):
        view = lens(model, x)
        assert view.plot().axes
        json.dumps(view.to_dict(), allow_nan=False)


def test_messages_help():
    net = pooled_net()
    x = torch.randn(2, 1, 12, 12)
    with pytest.raises(ShapeError, match="numbers from 0 to 2"):
        saliency(net, x, target=3)
    with pytest.raises(UnknownName, match="kind"):
        saliency(net, x, kind="gradients")
    with pytest.raises(ShapeError, match="at least a patch"):
        occlusion(net, x, patch=13)
    with pytest.raises(ShapeError, match="one of the module's"):
        activation_maximum(net, (1, 12, 12), "0", 4)
    with pytest.raises(ShapeError, match="class of each position"):
        dissection(net, x)
    with pytest.raises(UserError, match="first axis is the row"):
        saliency(net, [1, 2])
