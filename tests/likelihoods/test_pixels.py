"""Pixels: cross-entropy against torch, counts against loops and scikit-learn."""

import math

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score, jaccard_score
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import Pixels, likelihood_for
from leadline.likelihoods.pixels import cropped
from leadline.testing import check_likelihood


def masks(*shape, classes=3, unlabelled=0.2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, shape, generator=generator)
    y[torch.rand(shape, generator=generator) < unlabelled] = 255
    return y.to(torch.uint8)


@pytest.mark.parametrize(
    "options", [{}, {"dice": 0.7}, {"label_smoothing": 0.1}, {"dice": 1.0, "label_smoothing": 0.2}]
)
def test_it_keeps_the_contract(options):
    torch.manual_seed(0)
    check_likelihood(Pixels(3, **options), 2 * torch.randn(3, 3, 4, 5), masks(3, 4, 5))


def test_it_keeps_the_contract_in_three_dimensions():
    torch.manual_seed(0)
    check_likelihood(Pixels(2), torch.randn(2, 2, 2, 3, 3), masks(2, 2, 3, 3, classes=2))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_cross_entropy_of_labelled_pixels(smoothing):
    torch.manual_seed(0)
    output, y = torch.randn(4, 3, 6, 5), masks(4, 6, 5)
    losses = Pixels(3, label_smoothing=smoothing).loss(output, y)
    for k in range(4):
        wanted = F.cross_entropy(output[k : k + 1], y[k : k + 1].long(), ignore_index=255, label_smoothing=smoothing)
        torch.testing.assert_close(losses[k], wanted)


def test_what_an_unlabelled_pixel_says_does_not_matter():
    torch.manual_seed(0)
    output, y = torch.randn(2, 3, 4, 4), masks(2, 4, 4)
    other = torch.where((y == 255)[:, None], 50 * torch.randn_like(output), output)
    likelihood = Pixels(3, dice=1.0, label_smoothing=0.1)
    assert torch.equal(likelihood.loss(output, y), likelihood.loss(other, y))
    first, second = likelihood.measures(output, y), likelihood.measures(other, y)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_dice_loss_by_hand():
    p = torch.tensor([[[0.9, 0.2, 0.5]], [[0.1, 0.8, 0.5]]])[None]  # (1, 2, 1, 3)
    y = torch.tensor([[[0, 1, 255]]], dtype=torch.uint8)
    wanted = 1 - (2 * 0.9 / (1.1 + 1) + 2 * 0.8 / (0.9 + 1)) / 2
    nll = -(math.log(0.9) + math.log(0.8)) / 2
    assert float(Pixels(2, dice=2.0).loss(p.log(), y)) == pytest.approx(nll + 2 * wanted, rel=1e-5)
    only = torch.tensor([[[0, 0, 255]]], dtype=torch.uint8)  # of the class that y does not show nothing is asked
    wanted = 1 - 2 * 1.1 / (1.1 + 2)
    nll = -(math.log(0.9) + math.log(0.2)) / 2
    assert float(Pixels(2, dice=1.0).loss(p.log(), only)) == pytest.approx(nll + wanted, rel=1e-5)


def test_metrics_are_those_of_all_pixels_together():
    torch.manual_seed(0)
    y = masks(5, 8, 7, classes=4, seed=2)
    output = torch.randn(5, 6, 8, 7) + 2 * F.one_hot(torch.where(y == 255, 0, y).long(), 6).movedim(-1, 1)
    output[:, 4:] -= 50  # two classes that are neither there nor said
    likelihood = Pixels(6, names=("sky", "sea", "sand", "salt", "soot", "silk"))
    measures = likelihood.measures(output, y)
    summary = likelihood.summary({name: float(value.double().mean()) for name, value in measures.items()})
    said, true = output.argmax(1)[y != 255], y[y != 255]
    assert summary["mean_iou"] == pytest.approx(jaccard_score(true, said, average="macro"))
    assert summary["mean_dice"] == pytest.approx(f1_score(true, said, average="macro"))
    assert summary["iou_sand"] == pytest.approx(jaccard_score(true, said, labels=[2], average="macro"))
    assert "iou_soot" not in summary and "iou_silk" not in summary
    each = [float((output[k].argmax(0) == y[k])[y[k] != 255].float().mean()) for k in range(5)]
    assert measures["accuracy"].tolist() == pytest.approx(each)
    assert likelihood.summary(dict.fromkeys(measures, 0.0))["mean_iou"] == 0.0


def test_a_class_that_is_said_and_not_there_counts_as_missed():
    output = torch.zeros(1, 3, 2, 2)
    output[:, 0] = 1.0
    output[:, 2, 0, 0] = 5.0
    likelihood = Pixels(3)
    found = likelihood.measures(output, torch.zeros(1, 2, 2, dtype=torch.uint8))
    summary = likelihood.summary({name: float(value) for name, value in found.items()})
    assert summary["iou_2"] == 0.0 and summary["mean_iou"] == pytest.approx((0.75 + 0.0) / 2)


def test_a_network_without_padding_is_asked_for_the_middle():
    torch.manual_seed(0)
    y, output = masks(2, 9, 8), torch.randn(2, 3, 5, 6)
    likelihood = Pixels(3, dice=0.5)
    likelihood.check_output(output, y)
    assert torch.equal(likelihood.loss(output, y), likelihood.loss(output, y[:, 2:7, 1:7]))
    assert torch.equal(
        likelihood.prediction(output).log_prob(y), likelihood.prediction(output).log_prob(y[:, 2:7, 1:7])
    )
    assert torch.equal(cropped(y, (9, 8)), y)


def test_predictions_answer_for_every_pixel():
    torch.manual_seed(0)
    output = torch.randn(2, 4, 5, 6)
    prediction = Pixels(4).prediction(output)
    torch.testing.assert_close(prediction.probabilities, output.softmax(1))
    assert torch.equal(prediction.mode, output.argmax(1))
    codes, p = prediction.top(2)
    assert codes.shape == p.shape == (2, 2, 5, 6) and torch.equal(codes[:, 0], prediction.mode)
    held = prediction.credible_set(0.8)
    assert held.shape == (2, 4, 5, 6)
    assert bool(((prediction.probabilities * held).sum(1) >= 0.8 - 1e-6).all())
    assert prediction.std.shape == (2, 4, 5, 6)
    assert prediction.sample(3, seed=0).shape == (3, 2, 5, 6)
    assert prediction.regions(evidence=0.0).shape == (2, 5, 6)
    with pytest.raises(UserError, match="classes have none"):
        prediction.quantile(0.5)


def test_loss_and_gradient_can_be_recorded_and_batched():
    torch.manual_seed(0)
    likelihood, output, y = Pixels(3, dice=1.0), torch.randn(2, 3, 4, 4), masks(2, 4, 4)

    def step(output, y):
        output = output.detach().requires_grad_()
        loss = likelihood.loss(output, y)
        return loss, torch.autograd.grad(loss.sum(), output)[0]

    tape = make_fx(step)(output, y)
    other, others = torch.randn(2, 3, 4, 4), masks(2, 4, 4, seed=5, unlabelled=0.6)
    for got, wanted in zip(tape(other, others), step(other, others), strict=True):
        torch.testing.assert_close(got, wanted)
    both = torch.stack([output, other]), torch.stack([y, others])
    torch.testing.assert_close(vmap(likelihood.loss)(*both)[1], likelihood.loss(other, others))
    torch.testing.assert_close(
        vmap(likelihood.measures)(*both)["both_1"][1], likelihood.measures(other, others)["both_1"]
    )


def test_counts_survive_half_precision():
    y, output = torch.zeros(1, 40, 40, dtype=torch.uint8), torch.zeros(1, 2, 40, 40)
    output[:, 1, 0, 0] = 1.0
    found = Pixels(2).measures(output.bfloat16(), y)
    assert float(found["both_0"]) == 1599.0 and found["nll"].dtype == torch.float32


def test_it_follows_from_the_target():
    target = Target("pixels", "mask", classes=("sky", "road"))
    assert str(target) == "mask: 2 classes a pixel" and target.spatial and not target.discrete
    likelihood = likelihood_for(target, dice=1.0)
    assert likelihood.config == {"num_classes": 2, "dice": 1.0, "label_smoothing": 0.0, "names": ["sky", "road"]}
    assert not likelihood.loss_is_nll and Pixels(2).loss_is_nll


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Pixels(3).check(torch.zeros(4, 4)), ShapeError, "shape \\(n, Y, X\\)"),
        (lambda: Pixels(3).check(torch.zeros(2, 4, 4)), DataError, "whole numbers"),
        (lambda: Pixels(3).check(torch.full((2, 4, 4), 3)), DataError, "0 … 2, or be 255.*32 outside, the first 3"),
        (lambda: Pixels(3).check(torch.full((2, 4, 4), 255)), DataError, "a labelled pixel.*2 without"),
        (lambda: Pixels(3).check_output(torch.zeros(2, 3), masks(2, 4, 4)), ShapeError, "UNet"),
        (lambda: Pixels(3).check_output(torch.zeros(2, 2, 4, 4), masks(2, 4, 4)), ShapeError, "3 outputs"),
        (lambda: Pixels(3).check_output(torch.zeros(2, 3, 5, 4), masks(2, 4, 4)), ShapeError, "a middle of more"),
        (lambda: Pixels(3).check_output(torch.zeros(2, 3, 4, 8), masks(2, 8, 8)), ShapeError, "more than half a side"),
        (lambda: Pixels(1), UserError, "num_classes"),
        (lambda: Pixels(300), UserError, "num_classes"),
        (lambda: Pixels(3, dice=-1.0), UserError, "dice"),
        (lambda: Pixels(3, names=("a", "a", "b")), UserError, "names"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()
