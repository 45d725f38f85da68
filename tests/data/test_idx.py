"""IDX and .npz files."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
import torch

from leadline.data import idx, images, load
from leadline.data.idx import read_idx, write_idx
from leadline.errors import DataError, UserError

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (40, 8, 6), dtype=np.uint8)
Y = (np.arange(40) % 4).astype(np.uint8)


def mnist_like(folder, ending="", test=True):
    folder.mkdir(exist_ok=True)
    for part in ("train", "t10k") if test else ("train",):
        write_idx(folder / f"{part}-images-idx3-ubyte{ending}", X if part == "train" else X[:10] // 2)
        write_idx(folder / f"{part}-labels-idx1-ubyte{ending}", Y if part == "train" else Y[:10])
    return folder


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_four_files_of_a_folder(tmp_path, ending):
    data = idx(mnist_like(tmp_path / "digits", ending))
    assert (len(data.train), len(data.val), len(data.test)) == (34, 6, 10)
    assert torch.equal(data.test.x[:, 0], torch.from_numpy(X[:10] // 2)) and data.target.classes == ("0", "1", "2", "3")
    assert torch.equal(data.train.x[:, 0], torch.from_numpy(X)[data.train.rows]) and data.inputs.channels == 1
    assert torch.equal(data.train.y, torch.from_numpy(Y).long()[data.train.rows])
    assert load(data.recipe).fingerprint == data.fingerprint == load(tmp_path / "digits").fingerprint


def test_without_test_files_test_is_drawn(tmp_path):
    data = idx(mnist_like(tmp_path / "digits", test=False), classes=["a", "b", "c", "d"], test=0.25, val=0.0)
    assert (len(data.train), len(data.val), len(data.test)) == (30, 0, 10) and data.target.classes == tuple("abcd")


def test_two_files_by_name(tmp_path):
    folder = mnist_like(tmp_path, test=False)
    data = idx(folder / "train-images-idx3-ubyte", labels=folder / "train-labels-idx1-ubyte")
    assert len(data.train) == 28 and load(data.recipe).fingerprint == data.fingerprint
    with pytest.raises(DataError, match="labels must name the file"):
        idx(folder / "train-images-idx3-ubyte")
    with pytest.raises(DataError, match="go together"):
        idx(folder / "train-labels-idx1-ubyte", labels=folder / "train-images-idx3-ubyte")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"\x89PNG\r\n", "must begin with 0 0 8"),
        (b"\0\0\x0d\1" + struct.pack(">I", 2) + bytes(8), "must begin with 0 0 8"),
        (b"\0\0\x08\3\0\0", "whole header"),
        (b"\0\0\x08\3" + struct.pack(">III", 2**32 - 1, 2**32 - 1, 2**32 - 1), "whole header"),
        (b"\0\0\x08\1" + struct.pack(">I", 9) + bytes(8), "9 bytes after its header.*Got 8"),
        (b"\0\0\x08\1" + struct.pack(">I", 9) + bytes(10), "Got more"),
    ],
)
def test_damaged_files_say_what_is_wrong(tmp_path, content, words):
    for path, packed in ((tmp_path / "x-ubyte", content), (tmp_path / "x.gz", gzip.compress(content))):
        path.write_bytes(packed)
        with pytest.raises(DataError, match=words):
            read_idx(path)


def test_packed_files_that_are_cut_say_so(tmp_path):
    write_idx(tmp_path / "x.gz", X)
    whole = (tmp_path / "x.gz").read_bytes()
    for content in (whole[:-200], b"\x1f\x8b" + whole[300:], b"no gzip"):
        (tmp_path / "x.gz").write_bytes(content)
        with pytest.raises(DataError, match="whole gzip"):
            read_idx(tmp_path / "x.gz")


def test_folders_and_labels_that_do_not_fit(tmp_path):
    with pytest.raises(DataError, match="no train-images file"):
        idx(tmp_path)
    write_idx(tmp_path / "train-images-idx3-ubyte", X)
    with pytest.raises(DataError, match="no train-labels file"):
        idx(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte", Y)
    with pytest.raises(DataError, match="codes below 3"):
        idx(tmp_path, classes=["a", "b", "c"])
    for wrong in (None, tmp_path / "gone"):
        with pytest.raises(DataError, match="path must name"):
            idx(wrong)


@pytest.mark.parametrize("shape", [(40, 8, 6), (40, 8, 6, 1), (40, 1, 8, 6)])
def test_arrays_in_an_npz(tmp_path, shape):
    np.savez(tmp_path / "digits.npz", images=X.reshape(shape), labels=Y)
    data = images(tmp_path / "digits.npz")
    assert torch.equal(data.train.x[:, 0], torch.from_numpy(X)[data.train.rows]) and data.target.kind == "classes"
    assert load(data.recipe).fingerprint == data.fingerprint == load(str(tmp_path / "digits.npz")).fingerprint


def test_an_npz_may_hold_its_own_test_split_and_words(tmp_path):
    words = np.array(["cat", "dog"])[Y % 2]
    np.savez(tmp_path / "a.npz", x_train=X, y_train=words, x_test=X[:4], y_test=words[:4])
    data = images(tmp_path / "a.npz", size=16, colour="rgb")
    assert data.target.classes == ("cat", "dog") and len(data.test) == 4 and data.train.x.shape[1:] == (3, 16, 16)
    assert data.test.y.tolist() == [0, 1, 0, 1]
    np.savez(tmp_path / "c.npz", x=X, y=Y % 2 * 2 + 1, x_test=X[:2], y_test=np.array([1, 3]))
    data = images(tmp_path / "c.npz")
    assert data.target.classes == ("1", "3") and data.test.y.tolist() == [0, 1]
    np.savez(tmp_path / "b.npz", x=X, y=np.linspace(0, 1, 40))
    assert images(tmp_path / "b.npz").target.kind == "real"


def test_an_npz_that_does_not_fit_is_said(tmp_path):
    path = tmp_path / "a.npz"
    for arrays, words in (
        ({"z": X}, "must hold pictures and labels"),
        ({"x": X, "y": Y[:5]}, "one a picture"),
        ({"x": X / 255, "y": Y}, "Multiply them by 255"),
        ({"x": X[:, 0], "y": Y}, "shape"),
        ({"x": X.astype(int) * 9, "y": Y}, "0 to 255"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(UserError, match=words):
            images(path)
    path.write_bytes(b"PK\3\4 no archive")
    with pytest.raises(DataError, match=r"must be an \.npz"):
        images(path)
    np.savez(path, x=np.array([{"run": "me"}], dtype=object), y=Y[:1])
    with pytest.raises(DataError, match=r"must hold arrays of numbers or words\. Got an array of objects"):
        images(path)
