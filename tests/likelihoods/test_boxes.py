"""Boxes: assignment and loss against loops, detections, average precision, learning."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

from leadline.data.target import Target
from leadline.errors import DataError, ShapeError, UserError
from leadline.likelihoods import Boxes, likelihood_for
from leadline.likelihoods.boxes import BoxesPrediction
from leadline.likelihoods.margin import NoDensity
from leadline.reference import boxes as twin
from leadline.testing import check_likelihood


def objects(*shape, classes=2, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(*shape, 5, generator=generator, dtype=dtype)
    y[..., 3:] = 0.1 + 0.4 * y[..., 3:]
    y[..., 0] = torch.randint(-1, classes, shape, generator=generator)
    return y


def sigmoid(t):
    return 1 / (1 + math.exp(-t))


def by_hand(output, y, num_boxes, coordinate, no_object):
    """Eq. 5 of one picture, object by object. Returns the loss and how many objects are left over."""
    _, Y, X = output.shape
    A = num_boxes
    said, confidence = {}, {}
    for row in range(Y):
        for column in range(X):
            for a in range(A):
                t = output[5 * a : 5 * a + 5, row, column].tolist()
                bias = math.log((a + 1) / (A - a))
                x, v = (column + 2 * sigmoid(t[0]) - 0.5) / X, (row + 2 * sigmoid(t[1]) - 0.5) / Y
                said[row, column, a] = (x, v, sigmoid(t[2] + bias) ** 2, sigmoid(t[3] + bias) ** 2)
                confidence[row, column, a] = sigmoid(t[4])
    waiting, taken, loss = [row for row in y.tolist() if row[0] >= 0], set(), 0.0
    while True:
        cells = [(min(int(box[2] * Y), Y - 1), min(int(box[1] * X), X - 1)) for box in waiting]
        pairs = [
            (twin.iou(said[*cell, a], box[1:]), -k, -a)
            for k, (box, cell) in enumerate(zip(waiting, cells, strict=True))
            for a in range(A)
            if (*cell, a) not in taken
        ]
        if not pairs:
            break
        _, k, a = max(pairs)  # the pair of largest overlap is nobody's second choice
        box, place = waiting.pop(-k), (*cells[-k], -a)
        taken.add(place)
        x, v, w, h = said[place]
        off = abs(x - box[1]) + abs(v - box[2]) + abs(w**0.5 - box[3] ** 0.5) + abs(h**0.5 - box[4] ** 0.5)
        classes = output[5 * A :, place[0], place[1]].log_softmax(0)
        loss += coordinate * (1 - twin.giou(said[place], box[1:]) + off)
        loss -= math.log(confidence[place]) + float(classes[int(box[0])])
    loss -= no_object * sum(math.log(1 - p) for place, p in confidence.items() if place not in taken)
    return loss, len(waiting)


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=12, deadline=None)
def test_the_loss_is_that_of_loops(seed, num_boxes):
    torch.manual_seed(seed)
    likelihood = Boxes(2, num_boxes, coordinate=3.0, no_object=0.7)
    output, y = torch.randn(3, likelihood.dim_output, 2, 3, dtype=torch.float64), objects(3, 9, seed=seed).double()
    found = likelihood.measures(output, y)
    for k in range(3):
        loss, left = by_hand(output[k], y[k], num_boxes, 3.0, 0.7)
        assert float(found["loss"][k]) == pytest.approx(loss, rel=1e-9)
        assert float(found["left_over"][k]) == left


@pytest.mark.parametrize("num_boxes", [1, 2])
def test_it_keeps_the_contract(num_boxes):
    torch.manual_seed(0)
    likelihood = Boxes(2, num_boxes)
    check_likelihood(likelihood, torch.randn(3, likelihood.dim_output, 3, 2), objects(3, 4))


def test_what_stands_in_the_padding_does_not_matter():
    torch.manual_seed(0)
    output, y = torch.randn(2, 12, 4, 4), objects(2, 3)
    y[:, 1, 0] = -1
    other = y.clone()
    other[:, 1, 1:] = torch.tensor([0.0, 7.0, 0.0, -3.0])
    longer = torch.cat([y, torch.tensor([-1.0, 0, 0, 0, 0]).expand(2, 5, 5)], 1)
    loss = Boxes(2).loss(output, y)
    assert torch.equal(Boxes(2).loss(output, other), loss)
    torch.testing.assert_close(Boxes(2).loss(output, longer), loss)


def test_a_picture_without_objects_only_asks_for_silence():
    y = torch.full((1, 2, 5), -1.0)
    output = torch.zeros(1, 12, 3, 3)
    assert float(Boxes(2, no_object=0.5).loss(output, y)) == pytest.approx(0.5 * 18 * math.log(2), rel=1e-5)
    assert float(Boxes(2).loss(output, torch.zeros(1, 0, 5))) == pytest.approx(9 * math.log(2), rel=1e-5)


def test_an_object_on_the_last_edge_is_in_the_last_cell():
    y = torch.tensor([[[0.0, 1.0, 1.0, 0.2, 0.2]]])
    output = torch.zeros(1, 6, 3, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(Boxes(1, 1).loss(output, y).sum(), output)
    assert (slope[0, :4] != 0).any(0).nonzero().tolist() == [[2, 2]]
    assert bool((slope[0, 5] == 0).all())  # of one class there is nothing to learn


def test_predictors_start_with_sizes_of_their_own_and_of_these_the_nearest_is_trained():
    likelihood = Boxes(1, num_boxes=3)
    sizes = likelihood.prediction(torch.zeros(1, 16, 1, 1)).boxes[0, :, 2]
    torch.testing.assert_close(sizes, torch.tensor([1 / 16, 4 / 16, 9 / 16]))
    for predictor, size in enumerate((0.07, 0.3, 0.5)):
        output = torch.zeros(1, 16, 1, 1, requires_grad=True)
        loss = likelihood.loss(output, torch.tensor([[[0.0, 0.5, 0.5, size, size]]])).sum()
        (slope,) = torch.autograd.grad(loss, output)
        trained = (slope.view(16)[:15].view(3, 5)[:, 2] != 0).nonzero().flatten().tolist()
        assert trained == [predictor]


def test_half_precision_is_computed_in_full():
    torch.manual_seed(0)
    output, y = torch.randn(2, 12, 4, 4).bfloat16(), objects(2, 3)
    loss = Boxes(2).loss(output, y)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, Boxes(2).loss(output.float(), y))


def test_loss_and_gradient_can_be_recorded_and_batched():
    torch.manual_seed(0)
    likelihood, output, y = Boxes(2), torch.randn(2, 12, 3, 3), objects(2, 4)

    def step(output, y):
        output = output.detach().requires_grad_()
        loss = likelihood.loss(output, y)
        return loss, torch.autograd.grad(loss.sum(), output)[0]

    tape = make_fx(step)(output, y)
    other, others = torch.randn(2, 12, 3, 3), objects(2, 4, seed=5)  # other boxes in other cells
    for got, wanted in zip(tape(other, others), step(other, others), strict=True):
        torch.testing.assert_close(got, wanted)
    together = vmap(likelihood.loss)(torch.stack([output, other]), torch.stack([y, others]))
    torch.testing.assert_close(together, torch.stack([likelihood.loss(output, y), likelihood.loss(other, others)]))


# ── predictions ──


def saying(y, likelihood, grid, sure=9.0):
    """The output of a network that says y: the first predictor of a cell, then the next."""
    Y, X = grid
    A = likelihood.num_boxes
    output = torch.full((len(y), likelihood.dim_output, Y, X), -sure)
    used = {}
    for b, rows in enumerate(y.tolist()):
        for code, x, v, w, h in rows:
            if code < 0:
                continue
            row, column = min(int(v * Y), Y - 1), min(int(x * X), X - 1)
            a = used[b, row, column] = used.get((b, row, column), -1) + 1
            inner = torch.tensor([(x * X - column + 0.5) / 2, (v * Y - row + 0.5) / 2])
            size = torch.logit(torch.tensor([w, h]).sqrt()) - math.log((a + 1) / (A - a))
            output[b, 5 * a : 5 * a + 5, row, column] = torch.cat([torch.logit(inner), size, torch.tensor([sure])])
            output[b, 5 * A + int(code), row, column] = sure
    return output


SCENE = torch.tensor(
    [
        [[0, 0.2, 0.3, 0.2, 0.3], [1, 0.7, 0.6, 0.3, 0.2], [1, 0.75, 0.1, 0.1, 0.1]],
        [[1, 0.5, 0.5, 0.8, 0.6], [-1, 0, 0, 0, 0], [-1, 0, 0, 0, 0]],
    ]
)


def test_what_a_network_says_is_read_as_it_was_meant():
    likelihood = Boxes(2)
    prediction = likelihood.prediction(saying(SCENE, likelihood, (4, 5)))
    first, second = prediction.detections()
    assert (len(first), len(second)) == (3, 1)
    order = first.boxes[:, 0].argsort()
    torch.testing.assert_close(first.boxes[order], SCENE[0, :, 1:], atol=1e-5, rtol=0)
    assert first.codes[order].tolist() == [0, 1, 1]
    assert bool((first.scores > 0.99).all())
    assert prediction.mode.shape == (2, 3, 5)
    assert prediction.mode[1, 1:, 0].tolist() == [-1, -1]


def test_perfect_detections_have_full_precision_and_little_loss():
    likelihood = Boxes(2)
    output = saying(SCENE, likelihood, (6, 6))
    assert likelihood.overall(likelihood.tallies(output, SCENE)) == {"map50": 1.0, "map": 1.0}
    assert float(likelihood.loss(output, SCENE).max()) < 0.05
    wrong = SCENE.clone()
    wrong[..., 0] = torch.where(SCENE[..., 0] >= 0, 1 - SCENE[..., 0], -1)
    assert likelihood.overall(likelihood.tallies(output, wrong))["map50"] == 0.0


def test_detections_keep_what_is_asked():
    torch.manual_seed(0)
    prediction = Boxes(3).prediction(2 * torch.randn(2, 13, 6, 6))
    for confidence, overlap, most in ((0.1, 0.5, 100), (0.3, 0.2, 5), (0.0, 0.9, 30)):
        for picture, found in enumerate(prediction.detections(confidence, overlap, most)):
            scores = prediction.scores[picture].tolist()
            boxes, codes = prediction.boxes[picture].tolist(), prediction.codes[picture].tolist()
            wanted = [k for k in twin.suppressed(boxes, scores, codes, overlap) if scores[k] >= confidence][:most]
            assert found.scores.tolist() == [scores[k] for k in wanted]
            assert found.codes.tolist() == [codes[k] for k in wanted]
            assert len(found) == len(wanted) > 0
    assert [len(found) for found in prediction.detections(confidence=1.0)] == [0, 0]
    assert prediction.mode.dim() == 3


def test_an_object_that_is_seen_often_hides_no_other():
    near = torch.tensor([0.3, 0.3, 0.2, 0.2]) + 0.001 * torch.arange(30)[:, None]
    boxes = torch.cat([near, torch.tensor([[0.8, 0.8, 0.2, 0.2]])])[None]
    scores = torch.linspace(0.9, 0.5, 31)[None]
    (found,) = BoxesPrediction(boxes, scores, torch.zeros(1, 31, dtype=torch.int64)).detections(most=2)
    assert found.scores.tolist() == pytest.approx([0.9, 0.5])


def test_more_detections_may_be_asked_for_than_there_are_predictors():
    boxes, scores, codes = Boxes(1, 1).prediction(torch.zeros(1, 6, 2, 2)).padded(0.1, 0.9, 50)
    assert (boxes.shape, scores.shape, codes.shape) == ((1, 50, 4), (1, 50), (1, 50))
    assert codes[0].tolist() == [0] * 4 + [-1] * 46


def test_it_overfits_a_few_scenes():
    torch.manual_seed(0)
    size, y = 32, objects(6, 2, classes=2, seed=3)
    y[:, 0, 0] = y[:, 0, 0].abs()
    y[..., 1] = torch.tensor([0.25, 0.75])  # side by side
    y[..., 2] = 0.25 + 0.5 * y[..., 2]
    x = torch.zeros(6, 2, size, size)
    for picture, rows in enumerate(y.tolist()):
        for code, u, v, w, h in rows:
            if code >= 0:
                low, high = ([int((at + sign * own / 2) * size) for at, own in ((u, w), (v, h))] for sign in (-1, 1))
                x[picture, int(code), low[1] : high[1], low[0] : high[0]] = 1.0
    likelihood = Boxes(2)
    layers = [nn.Conv2d(2, 24, 4, 4), nn.ReLU(), nn.Conv2d(24, 48, 3, 2, 1), nn.ReLU(), nn.Conv2d(48, 48, 3, 1, 1)]
    model = nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(48, likelihood.dim_output, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(250):
        optimizer.zero_grad()
        likelihood.loss(model(x), y).mean().backward()
        optimizer.step()
    with torch.no_grad():
        assert likelihood.overall(likelihood.tallies(model(x), y))["map50"] > 0.95


def test_it_follows_from_the_target_and_has_no_density():
    target = Target("boxes", "things", classes=("cat", "dog", "eel"))
    assert str(target) == "things: boxes of 3 classes" and target.spatial
    likelihood = likelihood_for(target, num_boxes=3)
    assert likelihood.dim_output == 18 and likelihood.names == ("cat", "dog", "eel")
    prediction = likelihood.prediction(torch.zeros(1, 18, 2, 2))
    assert prediction.names == ("cat", "dog", "eel") and len(prediction) == 1
    with pytest.raises(NoDensity, match="Use detections"):
        prediction.log_prob(torch.zeros(1, 1, 5))
    with pytest.raises(NoDensity, match="only a likelihood has a density"):
        likelihood.distribution(torch.zeros(1, 18, 2, 2))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Boxes(2).check(torch.zeros(3, 5)), ShapeError, "shape \\(n, most"),
        (lambda: Boxes(2).check(torch.zeros(3, 1, 5).long()), DataError, "floating-point"),
        (lambda: Boxes(2).check(torch.tensor([[[2, 0.5, 0.5, 0.1, 0.1]]])), DataError, "0 … 1.*\\(2, 0.5.*picture 0"),
        (lambda: Boxes(2).check(torch.tensor([[[0.5, 0.5, 0.5, 0.1, 0.1]]])), DataError, "class codes"),
        (lambda: Boxes(2).check(torch.tensor([[[0, 30.0, 0.5, 0.1, 0.1]]])), DataError, "relative to the picture"),
        (lambda: Boxes(2).check(torch.tensor([[[0, 0.5, 0.5, 0.0, 0.1]]])), DataError, "relative to the picture"),
        (lambda: Boxes(2).check(torch.tensor([[[0, 0.5, math.nan, 0.1, 0.1]]])), DataError, "relative to the picture"),
        (lambda: Boxes(2).check_output(torch.zeros(3, 12), torch.zeros(3, 1, 5)), ShapeError, "GridDetector"),
        (lambda: Boxes(2).check_output(torch.zeros(3, 9, 2, 2), torch.zeros(3, 1, 5)), ShapeError, "12 outputs"),
        (lambda: Boxes(0), UserError, "num_classes"),
        (lambda: Boxes(2, 0), UserError, "num_boxes"),
        (lambda: Boxes(2, coordinate=-1.0), UserError, "coordinate"),
        (lambda: likelihood_for(Target("real"), "Boxes"), UserError, "must fit the target"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()
