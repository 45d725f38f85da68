"""Pictures as inputs: statistics, normalising, and everything that `read` takes."""

from __future__ import annotations

import numpy as np
import PIL.Image
import pytest
import torch

from leadline.data import inputs_from
from leadline.data.pictures import Pictures
from leadline.errors import DataError, ShapeError, UserError

X = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (7, 3, 6, 8), dtype=np.uint8))


def test_statistics_are_those_of_the_channels():
    inputs = Pictures.of(X)
    values = X.double() / 255
    assert torch.allclose(torch.tensor(inputs.mean, dtype=torch.float64), values.mean((0, 2, 3)), atol=1e-12)
    assert torch.allclose(
        torch.tensor(inputs.std, dtype=torch.float64), values.std((0, 2, 3), unbiased=False), atol=1e-12
    )
    z = inputs.encode(X)
    assert z.dtype == torch.float32 and z.mean((0, 2, 3)).abs().max() < 1e-5
    assert torch.allclose(z.std((0, 2, 3), unbiased=False), torch.ones(3), atol=1e-5)


def test_encoding_is_the_equation_and_decoding_its_inverse():
    inputs = Pictures((0.1, 0.5, 0.9), (0.2, 0.3, 0.4), (6, 8), 3)
    mean, std = (torch.tensor(part, dtype=torch.float64).view(3, 1, 1) for part in (inputs.mean, inputs.std))
    exact = (X.double() / 255 - mean) / std
    assert torch.allclose(inputs.encode(X.double()), exact, atol=1e-12)
    assert torch.allclose(inputs.encode(X).double(), exact, atol=1e-5)
    assert torch.equal(inputs.decode(inputs.encode(X)), X)
    x = X[:1].double().requires_grad_()
    assert torch.autograd.gradcheck(inputs.encode, (x,))


def test_a_constant_channel_keeps_its_scale():
    assert Pictures.of(torch.full((2, 1, 3, 3), 51, dtype=torch.uint8)).std == (1.0,)


def test_its_config_builds_it_again():
    inputs = Pictures.of(X, "pad")
    again = inputs_from("Pictures", inputs.config)
    assert again.config == inputs.config and torch.equal(again.encode(X), inputs.encode(X)) and inputs.late
    assert inputs.dim(X) == 3 * 6 * 8


def test_slips_in_the_config_are_said():
    for wrong in ({"channels": 2}, {"mean": (0.5,)}, {"std": (0.0, 1.0, 1.0)}, {"size": (0, 4)}, {"fit": "squash"}):
        good = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "size": (6, 8), "channels": 3, "fit": "crop"}
        with pytest.raises(UserError):
            Pictures(**{**good, **wrong})
    with pytest.raises(ShapeError, match="shape"):
        Pictures.of(X).encode(X[:, :1])


def test_all_that_holds_a_picture_is_read_alike(tmp_path):
    inputs, rows = Pictures.of(X), X[:2]
    arrays = [row.permute(1, 2, 0).numpy() for row in rows]
    pictures = [PIL.Image.fromarray(array) for array in arrays]
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    for picture, file in zip(pictures, files):
        picture.save(file)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / ".hidden.png").write_bytes(b"")
    both = (tmp_path, str(tmp_path), files, [str(file) for file in files], pictures, arrays, np.stack(arrays), rows)
    for what in (*both, np.stack(arrays).transpose(0, 3, 1, 2), rows.int(), rows.double()):
        assert torch.equal(inputs.read(what).to(torch.uint8), rows), type(what)
    for one in (files[0], str(files[0]), pictures[0], arrays[0], rows[0]):
        assert torch.equal(inputs.read(one), rows[:1])
    assert Pictures.paths(tmp_path) == files


def test_other_sizes_and_colours_are_brought_to_the_trained_ones():
    inputs = Pictures.of(X)
    assert inputs.read(torch.zeros(2, 1, 30, 50, dtype=torch.uint8)).shape == (2, 3, 6, 8)
    assert inputs.read(np.zeros((30, 50), np.uint8)).shape == (1, 3, 6, 8)
    assert inputs.read([np.zeros((9, 9)), np.zeros((30, 50, 4))]).shape == (2, 3, 6, 8)
    grey = Pictures((0.5,), (0.5,), (6, 8), 1)
    assert grey.read(X).shape == (7, 1, 6, 8) and grey.read(np.zeros((5, 30, 50), np.uint8)).shape == (5, 1, 6, 8)


def test_fractions_of_pixels_stay_fractions():
    x = X.double() + 0.0
    x[0, 0, 0, 0] = 3.25
    assert Pictures.of(X).read(x)[0, 0, 0, 0] == 3.25


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (None, "rows must be pictures"),
        ([], "rows must be pictures"),
        ([1, 2], "rows must be pictures"),
        (np.full((4, 4), 0.5), "Multiply them by 255"),
        (np.full((4, 4), 300), "0 to 255"),
        (torch.full((1, 3, 6, 8), -1.0), "0 to 255"),
        (torch.zeros(6, 8), "shape"),
        (torch.zeros(1, 2, 6, 8), "1 or 3 channels"),
        (np.zeros((2, 6, 8, 7)), "channels"),
        (np.array(["a", "b"]), "numbers"),
        ("nowhere.png", "which cannot be opened"),
    ],
)
def test_what_is_no_picture_is_refused_in_words(rows, words):
    with pytest.raises(UserError, match=words):
        Pictures.of(X).read(rows)


def test_a_folder_without_pictures_says_what_it_holds(tmp_path):
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match=r"must hold pictures.*1 file \(\.txt\)"):
        Pictures.of(X).read(tmp_path)


def test_channels_may_come_first():
    inputs, row = Pictures.of(X), X[0].numpy()
    assert row.shape == (3, 6, 8) and torch.equal(inputs.read(row), X[:1])
    assert torch.equal(inputs.read([row, row]), X[[0, 0]]) and torch.equal(inputs.read(X[0]), inputs.read(row))
    assert inputs.read(np.zeros((5, 30, 50), np.uint8)).shape[0] == 5  # pictures in grey


@pytest.mark.parametrize("shape", [(3, 3, 3), (3, 20, 3), (3, 2, 9), (3, 9, 4)])
def test_an_array_of_two_meanings_is_refused(shape):
    with pytest.raises(ShapeError, match="one meaning"):
        Pictures.of(X).read(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("turn", [1, 3, 6, 8])
def test_a_picture_of_pillow_is_turned_as_its_file_is(tmp_path, turn):
    exif = PIL.Image.Exif()
    exif[0x0112] = turn
    PIL.Image.fromarray(X[0].permute(1, 2, 0).numpy()).save(tmp_path / "a.png", exif=exif)
    inputs = Pictures.of(X)
    with PIL.Image.open(tmp_path / "a.png") as image:
        assert torch.equal(inputs.read(image), inputs.read(tmp_path / "a.png"))
