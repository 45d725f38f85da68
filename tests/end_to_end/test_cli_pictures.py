"""Folders of pictures through the shell's verbs: train, evaluate, predict, doctor, show; and what goes wrong."""

import csv
import io
import json
import shutil
import struct
import zlib
from functools import partialmethod

import numpy as np
import pytest
import torch
from PIL import Image

import leadline as ll
from leadline.cli import main, recipe, usual
from leadline.cli.pictures import _View
from leadline.data.boxes import placed
from leadline.data.decode import Header
from leadline.data.scene_files import write_scenes
from leadline.engine.events import StepsDone
from leadline.errors import DataError
from leadline.likelihoods.boxes import BoxesPrediction

QUICK = ("--epochs", "1", "--batch", "16", "--threads", "1", "--no-report")
NET = ("--widths", "4", "8", "--depth", "1")
SEGMENTER = ("--width", "2", "--depth", "2")
DETECTOR = ("--width", "2", "--num-blocks", "1", "--num-context", "0", "--stride", "8")
CLASSES = ("disc", "square", "triangle")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))


def claims(path, width, height):
    """A .png that says it is as large as that, with next to nothing behind its header."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [head, b"IDAT" + zlib.compress(bytes(9)), b"IEND"]
    parts = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def spoil(folder):
    """Three files in a folder of pictures that are none."""
    whole = next(folder.glob("*.png")).read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "words.jpg").write_text("no picture")
    claims(folder / "huge.png", 20_000, 20_000)


@pytest.mark.parametrize(("words", "kept"), [((), ["crop(1)"]), (("none",), []), (("flip",), ["flip(0.5)"])])
def test_augmentation_is_the_usual_one_unless_the_line_names_another_or_none(tmp_path, words, kept):
    write_scenes(tmp_path / "photos", ("folders",), num=24, size=16, num_classes=2, num_shapes=1)
    flags = ("--regularize", *words) if words else ()
    assert main(["train", "photos", *QUICK, *NET, *flags, "--folder", "run"]) == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["regularize"] == kept


@pytest.mark.parametrize(
    "flags", [{}, {"task": "pixels"}, {"task": "boxes"}, {"masks": "masks"}, {"labels": "seen.csv"}]
)
def test_flags_are_those_of_the_model_that_is_trained(tmp_path, flags):
    write_scenes(tmp_path / "both", ("masks", "coco"), num=16, size=32, num_classes=2)
    rows = "".join(f"{k:05d}.png,{'ab'[k % 2]}\n" for k in range(16))
    (tmp_path / "both" / "seen.csv").write_text(f"file,what\n{rows}")
    if "labels" in flags:  # a picture and its mask have one name
        with pytest.raises(DataError, match=r"names such as images/00000\.png"):
            recipe.make_data("both", flags)
        (tmp_path / "both" / "seen.csv").write_text(f"file,what\n{rows.replace('000', 'images/000')}")
    data = recipe.make_data("both", flags)
    line = ["both", *(word for name, value in flags.items() for word in (f"--{name}", value))]
    assert usual.default_model("both", flags.get("task"), line) == usual.default_for(data)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders of each kind, and a run on each."""
    place = tmp_path_factory.mktemp("pictures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEADLINE_CACHE", str(place / "cache"))
        write_scenes(place / "shapes", ("folders",), num=60, size=16, num_classes=3, num_shapes=1)
        spoil(place / "shapes" / "disc")
        write_scenes(place / "masks", ("masks",), num=16, size=32, num_classes=2)
        write_scenes(place / "boxes", ("coco",), num=16, size=32, num_classes=2)
        rows = [f"{i},{3 * i % 7}" for i in range(40)]
        (place / "cars.csv").write_text("\n".join(["age,price", *rows]) + "\n")
        for words in (
            ("shapes", *NET, "--folder", "of-shapes", "--epochs", "2", *QUICK[2:-1]),
            ("masks", *SEGMENTER, "--folder", "of-masks", *QUICK),
            ("boxes", *DETECTOR, "--folder", "of-boxes", *QUICK),
            ("cars.csv", "--target", "price", "--hidden", "4", "--folder", "of-cars", *QUICK),
        ):
            patch.chdir(place)
            assert main(["train", *words]) == 0
    return place


def answer(capsys, *words):
    """The object that --json prints."""
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def text(capsys, *words):
    capsys.readouterr()
    assert main([*map(str, words)]) == 0
    return capsys.readouterr().out


def error(capsys, *words):
    """The one message of a command that exits with 2."""
    capsys.readouterr()
    assert main([*map(str, words)]) == 2
    told = capsys.readouterr()
    lines = [line for line in told.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in told.err, told.err
    assert ". Got " in lines[0] and lines[0].endswith((".", "?")), lines[0]
    return lines[0]


def opened(path):
    with Image.open(path) as image:
        return image.copy()


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


# ── classes ──


def test_train_counts_the_files_that_are_no_pictures_and_reports(place, capsys):
    told = text(capsys, "show", "data", place / "shapes")
    assert "63 rows read, 60 used, 3 refused" in told
    assert all(f"disc/{name}" in told for name in ("cut.png", "words.jpg", "huge.png"))
    assert "claims" in told and "is damaged" in told and "is not a picture" in told
    assert (place / "of-shapes" / "report.html").read_text().count("data:image/png") >= 1
    assert all(name in text(capsys, "show", "data", place / "shapes") for name in CLASSES)


def test_evaluate_measures_a_split(place, capsys):
    told = answer(capsys, "evaluate", place / "of-shapes")
    assert set(told["metrics"]) == {"nll", "accuracy"} and told["rows"] == 9
    other = answer(capsys, "evaluate", place / "of-masks", "--data", place / "masks")
    assert other["rows"] == 16 and "mean_iou" in other["metrics"]


def test_predict_a_folder_and_a_single_file(place, capsys, tmp_path):
    capsys.readouterr()
    assert main(["predict", str(place / "of-shapes"), str(place / "shapes")]) == 0
    told = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(told.out)))
    assert list(rows[0]) == ["file", "predicted", *(f"p({name})" for name in CLASSES)]
    assert len(rows) == 60 and {row["predicted"] for row in rows} <= set(CLASSES)
    assert all(abs(sum(float(row[f"p({name})"]) for name in CLASSES) - 1) < 1e-4 for row in rows)
    assert "60 pictures predicted; 3 files refused" in told.err and "huge.png (claims" in told.err
    one = sorted((place / "shapes" / "square").glob("*.png"))[0]
    told = answer(capsys, "predict", place / "of-shapes", one, "--output", tmp_path / "one.csv")
    (row,) = table(tmp_path / "one.csv")
    assert told["rows"] == 1 and row == {**next(r for r in rows if r["file"] == f"square/{one.name}"), "file": one.name}


def test_what_a_run_predicts_is_what_python_predicts(place, capsys, tmp_path):
    answer(capsys, "predict", place / "of-shapes", place / "shapes" / "square", "--output", tmp_path / "out.csv")
    rows = table(tmp_path / "out.csv")
    run = ll.load(place / "of-shapes")
    said = run.predict([place / "shapes" / "square" / row["file"] for row in rows]).probabilities
    told = torch.tensor([[float(row[f"p({name})"]) for name in CLASSES] for row in rows])
    torch.testing.assert_close(told, said, atol=1e-5, rtol=0)


def test_doctor_and_show_look_at_a_folder(place, capsys):
    assert "findings" in answer(capsys, "doctor", place / "shapes", *NET)
    shown = answer(capsys, "show", "data", place / "shapes", "--size", "24", "20", "--colour", "grey")
    assert shown["inputs"]["dim"] == 24 * 20 and shown["rows"] == {"read": 63, "used": 60}
    assert answer(capsys, "show", "data", place / "shapes", "--size", "24")["inputs"]["dim"] == 3 * 24 * 24
    assert answer(capsys, "show", "model", "ResNet", "--data", place / "shapes")["config"]["channels"] == 3
    of = answer(capsys, "show", "data", place / "masks")["splits"]["train"]
    assert abs(sum(share for name, share in of.items() if name != "rows") - 1) < 1e-6
    boxes = json.loads((place / "boxes" / "annotations.json").read_text())["annotations"]
    splits = answer(capsys, "show", "data", place / "boxes")["splits"].values()
    assert sum(n for of in splits for name, n in of.items() if name != "rows") == len(boxes)


def test_grey_and_see_through_pictures_are_converted_and_counted(capsys, tmp_path):
    for name, colour in (("dark", 40), ("light", 200)):
        (tmp_path / "tones" / name).mkdir(parents=True)
        for k in range(12):
            mode = ("L", "RGB", "RGBA")[k % 3]
            fill = {"L": colour + k, "RGB": (colour, k, 0), "RGBA": (colour, k, 0, 255)}[mode]
            Image.new(mode, (8, 8), fill).save(tmp_path / "tones" / name / f"{k}.png")
    told = text(capsys, "train", "tones", *NET, "--folder", "run", *QUICK)
    assert "8 pictures of mode L converted to RGB" in told and "8 pictures of mode RGBA converted to RGB" in told


def test_an_mlp_reads_pictures_too(place, capsys):
    told = answer(capsys, "train", place / "shapes", "--model", "MLP", "--hidden", "4", "--folder", "run", *QUICK)
    assert told["reason"] == "finished"


# ── masks and boxes ──


def other_sizes(place, folder):
    """Two pictures of the run's kind, wider and higher than those it was trained on."""
    folder.mkdir()
    image = opened(sorted((place / "masks" / "images").glob("*.png"))[0])
    image.resize((70, 40)).save(folder / "wide.png")
    image.resize((20, 50)).save(folder / "high.png")
    return {"wide": (70, 40), "high": (20, 50)}


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_masks_come_back_at_the_size_of_each_file(fit, place, capsys, tmp_path):
    run = place / "of-masks"
    if fit != "stretch":
        run = tmp_path / "run"
        main(["train", str(place / "masks"), *SEGMENTER, "--fit", fit, "--size", "24", "--folder", "run", *QUICK])
    sizes = other_sizes(place, tmp_path / "new")
    told = answer(capsys, "predict", run, "new", "--output", "found")
    assert told["rows"] == 2 and [row["file"] for row in table(tmp_path / "found" / "pixels.csv")] == [
        "high.png",
        "wide.png",
    ]
    for name, size in sizes.items():
        mask = opened(tmp_path / "found" / "masks" / f"{name}.png")
        drawn = opened(tmp_path / "found" / f"{name}.png")
        assert mask.size == size and drawn.size[0] >= size[0] and drawn.size[1] >= size[1]
        codes = np.asarray(mask)
        assert set(np.unique(codes)) <= {0, 1, 2, 255}
        assert (255 in codes) == (fit == "crop")  # what the crop left out was never read: as much on either side
        assert ((codes == 255) == (codes == 255)[::-1, ::-1]).all()
        assert codes[size[1] // 2, size[0] // 2] != 255


def test_masks_of_the_run_are_predicted_as_python_does(place, capsys, tmp_path):
    answer(capsys, "predict", place / "of-masks", place / "masks", "--output", "found")
    rows = table(tmp_path / "found" / "pixels.csv")
    assert len(rows) == 16  # the masks beside them are no pictures to predict
    first = place / "masks" / rows[0]["file"]
    codes = np.asarray(opened(tmp_path / "found" / "masks" / rows[0]["file"]))
    assert (codes == ll.load(place / "of-masks").predict(first).mode[0].numpy()).all()
    shares = [float(rows[0][f"share({code})"]) for code in range(3)]
    assert shares == pytest.approx([(codes == code).mean() for code in range(3)], abs=1e-3)


def test_boxes_are_drawn_and_listed_in_pixels_of_the_file(place, capsys, tmp_path, monkeypatch):
    some = partialmethod(BoxesPrediction.detections, confidence=0.0, most=5)  # of a network that knows little yet
    monkeypatch.setattr(BoxesPrediction, "detections", some)
    other_sizes(place, tmp_path / "new")
    told = answer(capsys, "predict", place / "of-boxes", "new", "--output", "found")
    assert told["rows"] == 2 and told["output"] == "found"
    assert (tmp_path / "found" / "wide.png").is_file() and (tmp_path / "found" / "boxes.csv").is_file()
    (found,) = ll.load(place / "of-boxes").predict(tmp_path / "new" / "wide.png").detections()
    rows = [row for row in table(tmp_path / "found" / "boxes.csv") if row["file"] == "wide.png"]
    assert len(rows) == len(found.scores) == 5
    for row, (x, y, width, height) in zip(rows, found.boxes.tolist(), strict=True):
        left, right = (min(max(70 * (x + sign * width / 2), 0), 70) for sign in (-1, 1))  # within the picture
        top, bottom = (min(max(40 * (y + sign * height / 2), 0), 40) for sign in (-1, 1))
        for name, value in {"left": left, "top": top, "width": right - left, "height": bottom - top}.items():
            assert float(row[name]) == pytest.approx(value, abs=0.06)
        assert row["class"] in CLASSES


@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_boxes_go_to_the_network_and_back(fit):
    wide, size = (70, 40), (24, 32)
    rows = np.array([[1, 20, 5, 50, 35], [0, 30, 10, 34, 30.0]])
    placed_rows, cut = placed(rows, Header(*wide, "RGB"), fit, size)
    assert cut == 0
    inputs = ll.data.Pictures((0.5,) * 3, (0.25,) * 3, size, 3, fit)
    x, y, width, height = _View(inputs, wide).back(torch.tensor(placed_rows[:, 1:])).unbind(1)
    found = torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], 1) * torch.tensor(
        [*wide, *wide]
    )
    torch.testing.assert_close(found, torch.tensor(rows[:, 1:]), atol=1e-4, rtol=0)


# ── an interruption ──


class Killed(Exception):
    pass


def test_a_killed_run_on_augmented_pictures_ends_as_if_it_had_not_been(place, tmp_path):
    data = ll.data.images(place / "shapes")
    words = ["flip", "crop(2)", "affine(10, 0.1, 0.1)", "colour(0.4, 0.4, 0.4)", "erase(0.5)", "mixup(0.2)"]
    settings = {"epochs": 3, "batch": 16, "threads": 1, "regularize": words, "progress": False, "with_report": False}

    def kill(event):
        if isinstance(event, StepsDone) and event.step == 5:
            raise Killed

    def net():
        return ll.models.build("ConvNet", data.shape_input, 3, widths=(4, 8), depth=1)

    whole = ll.fit(net(), data, folder=tmp_path / "whole", **settings)
    with pytest.raises(Killed):
        ll.fit(net(), data, folder=tmp_path / "parts", listeners=[kill], **settings)
    torch.manual_seed(7)  # what the process did before must not matter
    ended = ll.resume(tmp_path / "parts", progress=False, with_report=False)
    assert ended.history == whole.history
    weights = [run.model.state_dict() for run in (whole, ended)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


# ── what goes wrong ──


@pytest.fixture
def broken(place, tmp_path):
    """Folders that cannot be trained on, and a few good ones to be trained on wrongly."""
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.bin").write_bytes(bytes(range(256)))
    (tmp_path / "bare").mkdir()
    shutil.copytree(place / "shapes" / "square", tmp_path / "one" / "square")
    (tmp_path / "giants" / "a").mkdir(parents=True)
    (tmp_path / "giants" / "b").mkdir()
    for name in ("a/1.png", "b/1.png"):
        claims(tmp_path / "giants" / name, 20_000, 20_000)
    shutil.copytree(place / "masks", tmp_path / "small-masks")
    for path in (tmp_path / "small-masks" / "masks").iterdir():
        opened(path).resize((9, 9)).save(path)
    shutil.copytree(place / "boxes", tmp_path / "outside")
    path = tmp_path / "outside" / "annotations.json"
    content = json.loads(path.read_text())
    for mark in content["annotations"]:
        mark["bbox"][0] += 1000
    path.write_text(json.dumps(content))
    shutil.copytree(place / "boxes", tmp_path / "unmarked")
    (tmp_path / "unmarked" / "annotations.json").write_text("")
    shutil.copytree(place / "shapes" / "square", tmp_path / "named")
    (tmp_path / "named" / "labels.csv").write_text("file,label\nnowhere.png,cat\nneither.png,dog\n")
    for name in ("shapes", "masks", "boxes", "cars.csv"):
        (tmp_path / name).symlink_to(place / name)
    return tmp_path


WRONG = [
    ("letters", "", "must hold pictures", ".bin"),
    ("bare", "", "must hold pictures", "no files"),
    ("nowhere", "", "must be a known name", "nowhere"),
    ("one", "", "at least two classes", "one folder, square"),
    ("giants", "", "some picture must be usable", "claims"),
    ("small-masks", "", "some picture must be usable", "has a mask of 9 × 9 for 32 × 32 pixels"),
    ("outside", "", "some box must be usable", "lies outside its picture"),
    ("unmarked", "", "at least two classes", "annotations.json"),
    ("unmarked", "--boxes annotations.json", "must hold annotations", "an empty file"),
    ("named", "", "must have a column with the pictures' file names", "file, label"),
    ("shapes", "--size 0", "whole number from 1", "0"),
    ("shapes", "--size 8 8 8", "one number, or rows and columns", "8"),
    ("shapes", "--fit squeeze", "fit", "squeeze"),
    ("shapes", "--val 0.9 --test 0.9", "fractions", "0.9"),
    ("cars.csv", "--target price --model ResNet", "ResNet must be given pictures", "MLP"),
    ("boxes", "--regularize mixup(0.2)", "mixup", "boxes"),
    ("boxes", "--regularize cutmix(1)", "cutmix", "boxes"),
    ("masks", "--model ConvNet", "", "UNet"),
    ("boxes", "--model ConvNet", "", "GridDetector"),
    ("shapes", "--model UNet", "needs 3 outputs", "(32, 3, 16, 16)"),
]


@pytest.mark.parametrize(("source", "flags", "must", "hint"), WRONG, ids=[f"{w[0]} {w[1]}" for w in WRONG])
def test_what_cannot_be_trained_is_one_message_and_no_run(source, flags, must, hint, broken, capsys):
    message = error(capsys, "train", source, *flags.split(), "--epochs", 1, "--threads", 1)
    assert must in message and hint in message, message
    assert not (broken / "runs").exists()


def test_a_file_that_is_no_picture_is_not_predicted(place, capsys, tmp_path):
    claims(tmp_path / "huge.png", 20_000, 20_000)
    (tmp_path / "rows.csv").write_text("age\n3\n")
    for file, why in (("huge.png", "claims"), ("rows.csv", "is not a picture"), ("nothing.png", "nothing.png")):
        message = error(capsys, "predict", place / "of-shapes", file, "--output", "out.csv")
        assert why in message
    assert not (tmp_path / "out.csv").exists()


def test_a_run_on_a_table_takes_no_folder(place, capsys):
    assert "must be a file" in error(capsys, "predict", place / "of-cars", place / "shapes")
