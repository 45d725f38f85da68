"""Answers on pictures: every mark is where the answer says, in the colour of its class."""

import numpy as np
import pytest
import torch

from leadline.errors import ShapeError, UserError
from leadline.report.pictures import drawn, hue


def picture(channels=3, rows=40, columns=60):
    return torch.full((channels, rows, columns), 200, dtype=torch.uint8)


def test_a_box_is_outlined_where_it_is():
    answer = torch.tensor([[1, 0.5, 0.5, 0.5, 0.4], [-1, 0.1, 0.1, 0.1, 0.1]])
    pixels = np.array(drawn(picture(), answer, "boxes"))
    marked = (pixels == hue(1)).all(-1)
    rows, columns = marked.nonzero()
    Y, X, _ = pixels.shape
    assert (Y, X) == (280, 420)
    ends = [rows.min() / Y, rows.max() / Y, columns.min() / X, columns.max() / X]
    assert ends == pytest.approx([0.3, 0.7, 0.25, 0.75], abs=0.01)
    assert not marked[Y // 2, X // 2] and (pixels[~marked] == 200).all()


def test_names_and_scores_are_written_also_at_the_rim():
    answer = torch.tensor([[0, 0.95, 0.02, 0.2, 0.1]])
    plain = np.array(drawn(picture(), answer, "boxes"))
    named = np.array(drawn(picture(), answer, "boxes", ("a long name",)))
    scored = np.array(drawn(picture(), answer, "boxes", ("a long name",), scores=torch.tensor([0.87])))
    assert (plain != named).any() and (named != scored).any()
    assert (named > 230).all(-1).any() and not (plain > 230).any()  # white letters


def test_a_mask_is_a_veil_and_the_unlabelled_stay_as_they_are():
    codes = torch.zeros(40, 60, dtype=torch.uint8)
    codes[:, 30:] = 1
    codes[0] = 255
    pixels = np.array(drawn(picture(), codes, "pixels", side=1))
    assert pixels.shape == (40, 60, 3)
    assert (pixels[0] == 200).all()
    for column, code in ((0, 0), (59, 1)):
        wanted = (np.array(hue(code)) + 200) // 2
        assert (pixels[1:, column] == wanted).all()
    middle = np.array(drawn(picture(), codes[10:30, 10:50], "pixels", side=1))
    assert (middle[0] == 200).all() and (middle[:, :10] == 200).all()
    assert (middle[10:30, 10:50] == pixels[10:30, 10:50]).all()


def test_points_are_dots_and_unseen_ones_are_left_out():
    answer = torch.tensor([[0.25, 0.5, 1.0], [0.75, 0.5, 0.0], [0.75, 0.9, 0.8]])
    pixels = np.array(drawn(picture(channels=1), answer, "points"))
    Y, X, _ = pixels.shape
    assert tuple(pixels[Y // 2, X // 4]) == hue(0)
    assert tuple(pixels[Y // 2, 3 * X // 4]) == (200, 200, 200)
    assert tuple(pixels[int(0.9 * Y), 3 * X // 4]) == hue(2)
    assert (np.array(drawn(picture(), answer, "points", ("head", "hand", "foot"))) != pixels).any()


def test_large_pictures_keep_their_size_and_nothing_given_is_changed():
    given = picture(rows=300, columns=400)
    before = given.clone()
    assert drawn(given, torch.zeros(0, 5), "boxes").size == (400, 300)
    assert torch.equal(given, before)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: drawn(picture(), torch.zeros(1, 5), "box"), UserError, "Did you mean boxes"),
        (lambda: drawn(picture()[None], torch.zeros(1, 5), "boxes"), ShapeError, "one picture at a time"),
        (lambda: drawn(picture(), torch.zeros(1, 5), "boxes", side=0), UserError, "side"),
    ],
)
def test_what_does_not_fit_is_explained(call, error, words):
    with pytest.raises(error, match=words):
        call()
