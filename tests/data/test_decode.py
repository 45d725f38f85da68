"""Files to arrays: colours, turns, sizes, damage."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import PIL.Image
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.data.decode import (
    FITS,
    MOST_PIXELS,
    Header,
    Placement,
    Unreadable,
    array_of,
    coloured,
    decode_all,
    decoded,
    header,
    hushed,
    mapped,
    place,
)
from leadline.errors import DataError

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (6, 8, 3), dtype=np.uint8)


def saved(tmp_path, array, name="a.png", **options):
    path = tmp_path / name
    PIL.Image.fromarray(array).save(path, **options)
    return path


def bomb(path, side=20_000):
    """A small file whose header claims side × side pixels."""
    chunk = lambda kind, body: (  # noqa: E731
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    )
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    )
    return path


def test_a_picture_of_the_right_size_comes_as_it_is(tmp_path):
    path = saved(tmp_path, COLOURS)
    assert header(path) == Header(8, 6, "RGB")
    assert (decoded(path, (6, 8), 3, "crop") == COLOURS.transpose(2, 0, 1)).all()


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_picture_is_turned_upright(tmp_path, turn):
    image = PIL.Image.fromarray(COLOURS)
    exif = PIL.Image.Exif()
    exif[0x0112] = turn
    path = tmp_path / "a.png"
    image.save(path, exif=exif)
    upright = {
        1: COLOURS,
        2: COLOURS[:, ::-1],
        3: COLOURS[::-1, ::-1],
        4: COLOURS[::-1],
        5: COLOURS.transpose(1, 0, 2),
        6: np.rot90(COLOURS, -1),
        7: np.rot90(COLOURS, 2).transpose(1, 0, 2),
        8: np.rot90(COLOURS, 1),
    }[turn]
    size = upright.shape[:2]
    found = header(path)
    assert (found.height, found.width, found.turned) == (*size, turn > 1)
    assert (decoded(path, size, 3, "crop") == upright.transpose(2, 0, 1)).all()


def test_orientation_that_is_nonsense_is_no_orientation(tmp_path):
    exif = PIL.Image.Exif()
    exif[0x0112] = 77
    PIL.Image.fromarray(COLOURS).save(tmp_path / "a.png", exif=exif)
    assert not header(tmp_path / "a.png").turned


def test_colours_are_brought_to_one_mode():
    grey = RNG.integers(0, 256, (4, 5), dtype=np.uint8)
    assert (np.asarray(coloured(PIL.Image.fromarray(grey), 3)) == grey[..., None]).all()
    luma = np.asarray(coloured(PIL.Image.fromarray(COLOURS), 1)).astype(float)
    assert np.abs(luma - COLOURS @ np.array([0.299, 0.587, 0.114])).max() <= 1
    deep = (grey.astype(np.uint16) << 8) | 17
    assert (np.asarray(coloured(PIL.Image.fromarray(deep), 1)) == grey).all()
    palette = PIL.Image.fromarray(COLOURS).quantize(8)
    assert (np.asarray(coloured(palette, 3)) == np.asarray(palette.convert("RGB"))).all()


def test_what_shows_through_is_white():
    clear = np.dstack([COLOURS, np.zeros((6, 8), np.uint8)])
    assert (np.asarray(coloured(PIL.Image.fromarray(clear), 3)) == 255).all()
    clear[..., 3] = 255
    assert (np.asarray(coloured(PIL.Image.fromarray(clear), 3)) == COLOURS).all()


def test_pixels_that_are_no_bytes_are_refused():
    with pytest.raises(Unreadable, match="floating-point"):
        coloured(PIL.Image.fromarray(np.zeros((2, 2), np.float32)), 1)
    with pytest.raises(Unreadable, match="16 bits"):
        coloured(PIL.Image.fromarray(np.full((2, 2), 70_000, np.int32)), 1)


def damaged(tmp_path, how):
    whole = saved(tmp_path, RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8), "whole.jpg", quality=95)
    path = tmp_path / "bad.jpg"
    content = whole.read_bytes()
    path.write_bytes(
        {
            "empty": b"",
            "text": b"this is no picture, however it is called\n" * 20,
            "truncated": content[: len(content) // 2],
            "short": content[:20],
            "zeros": content[:160] + bytes(len(content) - 160),
        }[how]
    )
    return path


@pytest.mark.parametrize("how", ["empty", "text", "truncated", "short", "zeros"])
def test_damage_is_a_reason_and_no_traceback(tmp_path, how):
    path = damaged(tmp_path, how)
    with pytest.raises(Unreadable, match=r"^(is empty|is not a picture|is damaged \()"):
        decoded(path, (32, 32), 3, "crop")


FORMS = {"png": {}, "jpeg": {}, "gif": {}, "tiff": {"compression": "tiff_lzw"}, "webp": {}, "bmp": {}, "ppm": {}}
WHOLE = {}
for _form, _options in FORMS.items():
    _file = io.BytesIO()
    PIL.Image.fromarray(RNG.integers(0, 256, (24, 30, 3), dtype=np.uint8)).save(_file, _form, **_options)
    WHOLE[_form] = _file.getvalue()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(WHOLE)), st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=6))
def test_bytes_that_are_changed_decode_or_are_refused(tmp_path, form, changes):
    content = bytearray(WHOLE[form])
    for where, value in changes:
        content[int(where**2 * len(content))] = value  # mostly in the header
    path = tmp_path / "a"
    path.write_bytes(content)
    with hushed():
        try:
            assert decoded(path, (8, 8), 3, "crop").shape == (3, 8, 8)
        except Unreadable as error:
            assert str(error)


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(Unreadable, match="cannot be opened"):
        header(tmp_path / "gone.png")
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    with pytest.raises(Unreadable, match="cannot be opened"):
        header(tmp_path / "link.png")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_refused_by_its_header(tmp_path, monkeypatch):
    path = bomb(tmp_path / "bomb.png")
    assert path.stat().st_size < 200 and MOST_PIXELS < 20_000**2
    monkeypatch.setattr(PIL.Image.Image, "load", lambda self: pytest.fail("the bomb was decoded"))
    for read in (header, lambda path: decoded(path, (8, 8), 3, "crop")):
        with pytest.raises(Unreadable, match="pixels"):
            read(path)
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", None)  # Pillow's own guard is off
    with pytest.raises(Unreadable, match="20000 × 20000"):
        header(path)


def test_drafts_of_jpegs_look_like_the_whole(tmp_path):
    ramp = np.linspace(0, 255, 512)
    smooth = np.stack([np.tile(ramp, (256, 1)), np.tile(ramp[:256, None], (1, 512)), np.full((256, 512), 90.0)], -1)
    path = saved(tmp_path, smooth.astype(np.uint8), "a.jpg", quality=95)
    for fit in FITS:
        exact = array_of(PIL.Image.fromarray(smooth.astype(np.uint8)), (40, 48), 3, fit).astype(int)
        assert np.abs(decoded(path, (40, 48), 3, fit).astype(int) - exact).mean() < 2.5


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FITS), st.tuples(*[st.integers(1, 400)] * 2), st.tuples(*[st.integers(1, 300)] * 2))
def test_placements_keep_what_they_promise(fit, wide, size):
    at = Placement.of(fit, wide, size)
    ends = at.points(np.array([[0.0, 0.0], wide], dtype=float))
    low, high, (rows, columns) = ends[0], ends[1], size
    if fit == "stretch":
        assert np.allclose(low, 0) and np.allclose(high, (columns, rows))
    elif fit == "crop":
        assert np.isclose(at.a, at.b) and (low <= 1e-9).all() and (high >= np.array([columns, rows]) - 1e-6).all()
        assert np.isclose(low, 0, atol=1e-6).any()
    else:
        assert (low >= 0).all() and (high <= np.array([columns, rows]) + 1e-6).all()
    assert np.allclose(low + high, (columns, rows))  # in the middle


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("size", [(20, 20), (16, 40), (41, 15)])
def test_a_dot_lies_where_its_placement_says(fit, size):
    x = np.zeros((90, 120), np.uint8)
    x[40:50, 55:65] = 255
    out = np.asarray(place(PIL.Image.fromarray(x), size, fit)).astype(float)
    rows, columns = np.indices(out.shape) + 0.5
    found = (np.array([(columns * out).sum(), (rows * out).sum()]) / out.sum()).tolist()
    assert np.allclose(found, Placement.of(fit, (120, 90), size).points(np.array([60.0, 45.0])), atol=0.15)


def test_threads_keep_the_order_and_pass_errors_on():
    assert list(mapped(lambda k: k * k, range(500), 3)) == [k * k for k in range(500)]
    assert list(mapped(abs, [], 2)) == []
    with pytest.raises(ZeroDivisionError):
        list(mapped(lambda k: 1 // (k - 300), range(500), 2))


def test_decoding_many_names_the_file_that_fails(tmp_path):
    good, bad = saved(tmp_path, COLOURS), tmp_path / "bad.png"
    bad.write_bytes(b"no")
    assert decode_all([good, good], (6, 8), 3, "crop").shape == (2, 3, 6, 8)
    with pytest.raises(DataError, match=r"bad\.png, which is not a picture"):
        decode_all([good, bad], (6, 8), 3, "crop")


@pytest.mark.parametrize(("bits", "shift"), [(8, 0), (10, 4), (12, 4), (13, 8), (16, 8)])
def test_deep_pixels_keep_their_upper_bits(tmp_path, bits, shift):
    deep = RNG.integers(0, 2**bits, (6, 8)).astype(np.uint16)
    deep[0, 0] = 2**bits - 1
    PIL.Image.fromarray(deep).save(tmp_path / "a.png")
    assert (decoded(tmp_path / "a.png", (6, 8), 1, "crop")[0] == deep >> shift).all()


def test_the_first_of_several_frames_is_read(tmp_path):
    frames = [PIL.Image.fromarray(RNG.integers(0, 256, (6, 8, 3), dtype=np.uint8)) for _ in range(3)]
    frames[0].save(tmp_path / "a.tif", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "b.tif")
    assert header(tmp_path / "a.tif").several and not header(tmp_path / "b.tif").several
    assert (decoded(tmp_path / "a.tif", (6, 8), 3, "crop") == np.asarray(frames[0]).transpose(2, 0, 1)).all()
