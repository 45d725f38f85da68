"""Pictures that are shown otherwise each time, against numpy, torch and Pillow; and what y says of places follows."""

import math
import os
import signal
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

import leadline as ll
from leadline.data.data import Batch, Data, Split
from leadline.data.inputs import Rescale, Standardize
from leadline.data.pictures import Pictures
from leadline.data.target import Target
from leadline.engine.events import StepsDone
from leadline.errors import ShapeError, UserError
from leadline.layers import noise
from leadline.likelihoods import Categorical
from leadline.optim.objective import Objective
from leadline.regularize import REGULARIZERS, Augmentation, colour, rand_augment, regularizer, regularizers, words
from leadline.regularize.rand_augment import CHANGES

WORDS = [word for word, kind in REGULARIZERS.items() if issubclass(kind, Augmentation)]
ALONE = [word for word in WORDS if not REGULARIZERS[word].whole_batch]
INPUTS = Pictures((0.4, 0.5, 0.6), (0.2, 0.25, 0.3), (6, 8), 3)
CLASSES = Target("classes", classes=("a", "b", "c", "d"))


def keys(num, epoch=1):
    return noise.example_keys(0, epoch, torch.arange(num))


def values(num=6, channels=3, size=(6, 8), dtype=torch.float64):
    g = torch.Generator().manual_seed(1)
    return torch.rand(num, channels, *size, generator=g, dtype=dtype)


def batch(num=6, size=(6, 8), dtype=torch.float64, kind="classes"):
    mean, std = (torch.tensor(v, dtype=dtype).view(-1, 1, 1) for v in (INPUTS.mean, INPUTS.std))
    g = torch.Generator().manual_seed(2)
    rand = lambda *shape: torch.rand(num, *shape, generator=g, dtype=dtype)  # noqa: E731
    y = {
        "classes": lambda: torch.arange(num) % 4,
        "pixels": lambda: torch.randint(0, 4, (num, *size), generator=g).to(torch.uint8),
        "boxes": lambda: torch.cat([rand(2, 1).round() * 3 - 1, 0.3 + 0.4 * rand(2, 2), 0.1 + 0.3 * rand(2, 2)], -1),
        "points": lambda: torch.cat([rand(3, 2), rand(3, 1).round()], -1),
    }[kind]()
    return Batch((values(num, size=size, dtype=dtype) - mean) / std, y, None, None, keys(num))


def met(word, kind="classes", dtype=torch.float64):
    made = regularizer(word)
    names = ("nose", "left eye", "right eye") if kind == "points" else ("a", "b", "c", "d")
    made.meet(INPUTS, Target(kind, classes=names))
    return made.to(dtype)


def as_values(x):
    return x * torch.tensor(INPUTS.std).view(-1, 1, 1) + torch.tensor(INPUTS.mean).view(-1, 1, 1)


def objective(word, dtype=torch.float64):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 4 * 6, 4)).to(dtype)
    return Objective(model, Categorical(4), [met(word, dtype=dtype)])


def parameters(made):
    return {name: p.detach().clone() for name, p in made.named_parameters()}


# ── what all words keep ──


@pytest.mark.parametrize("word", WORDS)
def test_words_and_configs_build_the_same_again(word):
    made = regularizer(word)
    less = {name: value if value == int(value) else value / 3 for name, value in made.config.items()}
    for each in (made, type(made)(**less)):
        assert type(each)(**each.config).config == each.config
        assert regularizer(each.word).config == each.config and words([each]) == (each.word,)
    assert made.mechanism in ll.regularize.MECHANISMS
    for bad in (-1.0, "a", float("nan")):
        with pytest.raises(UserError, match="must be a number"):
            type(made)(bad)


@pytest.mark.parametrize(
    ("kind", "name", "most"),
    [
        *(("flip", "p", 1), ("turn", "p", 1), ("erase", "most", 1), ("zoom", "least", 1), ("colour", "hue", 0.5)),
        *(("gray", "p", 1), ("rand_augment", "magnitude", 10), ("adversarial", "part", 1)),
    ],
)
def test_the_end_of_a_range_is_inside_and_the_message_says_so(kind, name, most):
    assert getattr(REGULARIZERS[kind](**{name: most}), name) == most
    with pytest.raises(UserError, match=f"{name} must be a number of at least .* and at most {most}. Got {name}="):
        REGULARIZERS[kind](**{name: most + 1e-10})


def test_the_words_of_the_shell_are_read():
    line = ("flip", "flip_vertical(0.3)", "turn", "crop(4)", "zoom(0.35)", "affine(10, 0.1, 0.1)")
    line += ("colour(0.4, 0.4, 0.4)", "gray(0.1)", "erase(0.5)", "cutmix(1)", "rand_augment(2, 9)")
    made = regularizers(line)
    assert [type(each).name for each in made] == [word.partition("(")[0] for word in line]
    assert made[5].config == {"degrees": 10.0, "shift": 0.1, "scale": 0.1, "slant": 0.0}
    for bad in ("crop(1.5)", "rand_augment(1.5, 3)"):
        with pytest.raises(UserError, match="whole"):
            regularizer(bad)


@pytest.mark.parametrize("kind", ["classes", "pixels", "boxes", "points"])
@pytest.mark.parametrize("word", ALONE)
@settings(max_examples=3, deadline=None)
@given(order=st.permutations(range(6)), kept=st.integers(1, 6))
def test_a_row_is_shown_alike_whatever_is_beside_it(word, kind, order, kept):
    made, rows = met(word, kind), batch(kind=kind)
    shown = made.rows(rows)
    index = torch.tensor(order[:kept])
    few = made.rows(rows.map(lambda column: column[index]))
    for one, other in ((shown.x, few.x), (shown.y, few.y)):
        torch.testing.assert_close(other, one[index], atol=0, rtol=0)
    assert shown.y.dtype == rows.y.dtype and shown.y.shape == rows.y.shape and shown.x.shape == rows.x.shape


@pytest.mark.parametrize("word", WORDS)
def test_other_epochs_and_no_keys_show_otherwise(word):
    made, rows = met(word), batch(64)
    first = made.rows(rows).x
    later = made.rows(Batch(rows.x, rows.y, keys=keys(64, epoch=2))).x
    assert torch.equal(made.rows(rows).x, first) and not torch.equal(later, first)
    torch.manual_seed(0)
    free = [made.rows(Batch(rows.x, rows.y)).x for _ in range(2)]
    torch.manual_seed(0)
    assert torch.equal(made.rows(Batch(rows.x, rows.y)).x, free[0]) and not torch.equal(*free)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_types_stay_and_results_hardly_depend_on_them(word, dtype):
    fine, coarse = batch(), batch(dtype=dtype)
    coarse = Batch(fine.x.to(dtype), fine.y, keys=fine.keys)
    one, other = met(word).rows(fine).x, met(word, dtype=torch.float32).rows(coarse).x
    assert other.dtype == dtype
    off = (one - other.double()).abs()
    assert float(off.median()) < (0.02 if dtype == torch.bfloat16 else 1e-5)


@pytest.mark.parametrize("word", WORDS)
def test_gradients_are_those_of_the_loss(word):
    made, rows = objective(word), batch(4)
    start = parameters(made)

    def loss(*flat):
        return functional_call(made, dict(zip(start, flat, strict=True)), (rows,))

    flat = tuple(p.requires_grad_() for p in start.values())
    assert torch.autograd.gradcheck(loss, flat, atol=1e-6, rtol=1e-5, fast_mode=True)
    x = rows.x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(made(Batch(x, rows.y, keys=rows.keys)), x)
    assert bool((slope != 0).any()) and bool(slope.isfinite().all())


@pytest.mark.parametrize("word", WORDS)
def test_a_step_can_be_traced_and_the_trace_serves_other_rows(word):
    made = objective(word, dtype=torch.float32)
    weights, buffers = parameters(made), dict(made.named_buffers())

    def slope(x, y, row_keys, *flat):
        fresh = {name: b.clone() for name, b in buffers.items()}
        values = dict(zip(weights, flat, strict=True))
        rows = Batch(x, y, None, None, row_keys)
        return grad(lambda v: functional_call(made, {**v, **fresh}, (rows,)))(values)["model.3.weight"]

    one = batch(dtype=torch.float32)
    other = Batch(one.x.flip(0) + 0.1, one.y.flip(0), None, None, one.keys + 5)
    columns = lambda b: (b.x, b.y, b.keys, *weights.values())  # noqa: E731
    traced = make_fx(slope, tracing_mode="fake", _allow_non_fake_inputs=True)(*columns(one))
    for rows in (one, other):
        torch.testing.assert_close(traced(*columns(rows)), slope(*columns(rows)))


@pytest.mark.parametrize("word", ALONE)
def test_micro_batches_add_up_to_the_whole(word):
    made, rows = objective(word), batch(7)
    torch.testing.assert_close(sum(made(part, 7.0) for part in rows.parts(3)), made(rows))


@pytest.mark.parametrize("word", WORDS)
def test_members_of_a_stack_have_strengths_of_their_own(word):
    name, usual = list(regularizer(word).config.items())[word == "rand_augment"]
    usual = 0.9 if word == "gray" else usual
    rows, kind = batch(), REGULARIZERS[word]
    each = [objective(kind(**{name: value})) for value in (usual, usual / 2)]
    weights = parameters(each[0])
    buffers = {key: torch.stack([dict(o.named_buffers())[key] for o in each]) for key, _ in each[0].named_buffers()}

    def slope(own):
        return grad(lambda v: functional_call(each[0], {**v, **own}, (rows,)))(weights)

    stacked = vmap(slope)(buffers)
    for k, one in enumerate(each):
        alone = grad(lambda v, one=one: functional_call(one, v, (rows,)))(weights)
        for key, value in alone.items():
            torch.testing.assert_close(stacked[key][k], value)
    assert any(not torch.equal(value[0], value[1]) for value in stacked.values())


# ── mirrors, turns, crops ──


def chances(count, share):
    return pytest.approx(count * share, abs=4.5 * math.sqrt(count * share * (1 - share)) + 1e-9)


@pytest.mark.parametrize(("word", "axis"), [("flip", 3), ("flip_vertical", 2)])
def test_mirrors_are_exact_and_half_of_all(word, axis):
    rows = Batch(torch.rand(2000, 1, 5, 3), torch.zeros(2000), keys=keys(2000))
    shown = regularizer(word).rows(rows).x
    same, mirrored = ((shown == other).flatten(1).all(1) for other in (rows.x, rows.x.flip(axis)))
    assert bool((same ^ mirrored).all()) and int(mirrored.sum()) == chances(2000, 0.5)
    assert torch.equal(regularizer(f"{word}(1)").rows(rows).x, rows.x.flip(axis))
    assert torch.equal(regularizer(f"{word}(0)").rows(rows).x, rows.x)


def test_a_mirror_takes_masks_boxes_and_points_along():
    rows = batch(kind="pixels")
    assert torch.equal(met("flip(1)", "pixels").rows(rows).y, rows.y.flip(2))
    assert torch.equal(met("flip_vertical(1)", "pixels").rows(rows).y, rows.y.flip(1))
    boxes = torch.tensor([[[1.0, 0.25, 0.5, 0.5, 0.25], [-1.0, 0.0, 0.0, 0.0, 0.0]]])
    flipped = met("flip(1)", "boxes").rows(Batch(values(1), boxes, keys=keys(1))).y
    assert flipped[0].tolist() == [[1.0, 0.75, 0.5, 0.5, 0.25], [-1.0, 0.0, 0.0, 0.0, 0.0]]
    points = torch.tensor([[[0.5, 0.5, 1.0], [0.25, 0.25, 1.0], [0.875, 0.25, 0.0]]])
    flipped = met("flip(1)", "points").rows(Batch(values(1), points, keys=keys(1))).y
    assert flipped[0].tolist() == [[0.5, 0.5, 1.0], [0.125, 0.25, 0.0], [0.75, 0.25, 1.0]]  # left eye, right eye
    assert torch.equal(met("flip(0)", "points").rows(Batch(values(1), points, keys=keys(1))).y, points)


def test_turns_are_quarters_and_halves_where_pictures_are_not_square():
    rows = Batch(torch.rand(2000, 2, 4, 4), torch.zeros(2000), keys=keys(2000))
    shown = regularizer("turn").rows(rows).x
    turned = torch.stack([(shown == rows.x.rot90(k, (2, 3))).flatten(1).all(1) for k in range(4)])
    assert bool((turned.sum(0) == 1).all()) and all(int(n) == chances(2000, 0.25) for n in turned.sum(1))
    wide = Batch(torch.rand(200, 2, 4, 6), torch.zeros(200), keys=keys(200))
    shown = regularizer("turn").rows(wide).x
    halves = torch.stack([(shown == wide.x.rot90(k, (2, 3))).flatten(1).all(1) for k in (0, 2)])
    assert bool((halves.sum(0) == 1).all()) and int(halves[1].sum()) == chances(200, 0.5)
    few = regularizer("turn(0.2)").rows(rows).x
    assert int((few == rows.x).flatten(1).all(1).sum()) == chances(2000, 0.8 + 0.2 / 4)


def test_a_turn_takes_masks_and_boxes_along():
    mask = torch.randint(0, 9, (40, 5, 5), dtype=torch.uint8)
    made = met("turn", "pixels")
    shown = made.rows(Batch(mask[:, None].double(), mask, keys=keys(40)))
    assert torch.equal(shown.x[:, 0].to(torch.uint8), shown.y) and not torch.equal(shown.y, mask)
    boxes = torch.tensor([[[1.0, 0.125, 0.25, 0.25, 0.5]]]).expand(40, 1, 5)
    picture = torch.zeros(40, 1, 8, 8)
    picture[:, :, :4, :2] = 1
    moved = met("turn", "boxes").rows(Batch(picture, boxes, keys=keys(40)))
    for x, (_, left, top, width, height) in zip(moved.x[:, 0], moved.y[:, 0].tolist(), strict=True):
        filled = torch.zeros(8, 8)
        filled[
            round(8 * (top - height / 2)) : round(8 * (top + height / 2)),
            round(8 * (left - width / 2)) : round(8 * (left + width / 2)),
        ] = 1
        assert torch.equal(x, filled)


def test_crops_are_windows_of_a_picture_with_a_margin():
    num = 3000
    rows = Batch(torch.rand(num, 2, 5, 7) + 0.5, torch.zeros(num), keys=keys(num))
    shown = regularizer("crop(2)").rows(rows).x.numpy()
    padded = np.pad(rows.x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)))
    windows = {(i, j): padded[:, :, i : i + 5, j : j + 7] for i in range(5) for j in range(5)}
    fits = {at: (shown == window).reshape(num, -1).all(1) for at, window in windows.items()}
    assert (np.sum(list(fits.values()), 0) == 1).all()
    assert all(fit.sum() == chances(num, 1 / 25) for fit in fits.values())


def test_a_crop_leaves_what_came_in_unlabelled():
    mask = torch.randint(0, 9, (30, 5, 7), dtype=torch.uint8)
    shown = met("crop(2)", "pixels").rows(Batch(mask[:, None].double() + 1, mask, keys=keys(30)))
    outside = shown.x[:, 0] == 0
    assert bool(outside.any()) and bool((shown.y[outside] == 255).all())
    assert torch.equal(shown.y[~outside].double(), shown.x[:, 0][~outside] - 1)


@pytest.mark.parametrize("shape", [(9,), (2, 9)])
def test_series_are_mirrored_and_shifted(shape):
    rows = Batch(torch.rand(50, *shape) + 1, torch.zeros(50), keys=keys(50))
    assert torch.equal(regularizer("flip(1)").rows(rows).x, rows.x.flip(-1))
    shown = regularizer("crop(1)").rows(rows).x
    fits = [
        (shown == nn.functional.pad(rows.x, (1, 1))[..., k : k + 9]).flatten(1).all(1).sum().item() for k in range(3)
    ]
    assert sum(fits) == 50 and min(fits) > 5
    for word in ("turn", "zoom", "affine", "erase", "cutmix", "colour"):
        with pytest.raises(ShapeError, match="must have pictures"):
            regularizer(word).rows(rows)


# ── general maps ──


def test_a_zoom_shows_a_window_that_lies_inside():
    made, num = regularizer("zoom(0.35)"), 4000
    rows = Batch(torch.zeros(num, 1, 6, 8), torch.zeros(num), keys=keys(num))
    (a, b, right), (c, d, down) = (row.unbind(-1) for row in made.ahead(rows, (6, 8)).unbind(1))
    assert not bool(b.any() or c.any()) and bool((a >= 1).all() and (d >= 1).all())
    area, shape = 1 / (a * d), d / a
    inside = (a > 1) & (d > 1)  # the others were too long, and cut
    assert float(shape.min()) > 0.7499 and float(shape.max()) < 1.3334
    assert 0.35 * 0.99 < float(area.min()) < 0.37 and 0.97 < float(area.max()) <= 1.0001
    assert float(shape[inside].log().mean()) == pytest.approx(0, abs=0.02)
    centre_x, centre_y = right / (8 * a), down / (6 * d)  # of the window, from the picture's centre
    assert bool((centre_x.abs() <= (1 - 1 / a) / 2 + 1e-6).all() and (centre_y.abs() <= (1 - 1 / d) / 2 + 1e-6).all())
    assert float(centre_x.mean()) == pytest.approx(0, abs=0.01)
    place = (centre_x / (1 - 1 / a))[inside]
    assert float(place.std()) == pytest.approx(1 / math.sqrt(12), rel=0.05)


def test_a_zoom_is_what_resizing_the_window_gives():
    made = regularizer("zoom(0.2)")
    rows = Batch(torch.rand(3, 1, 16, 16), torch.zeros(3), keys=keys(3))
    shown = made.rows(rows).x
    back = 1 / made.ahead(rows, (16, 16))[:, [0, 1], [0, 1]]
    for x, picture, (wide, high), ahead in zip(
        shown[:, 0].numpy(), rows.x[:, 0].numpy(), back.tolist(), made.ahead(rows, (16, 16)).tolist(), strict=True
    ):
        left = 8 - (ahead[0][2] + 8) * wide
        top = 8 - (ahead[1][2] + 8) * high
        window = (left, top, left + 16 * wide, top + 16 * high)
        resized = Image.fromarray(picture).resize((16, 16), Image.Resampling.BILINEAR, box=window)
        # Pillow takes no pixel from outside the window, so the outermost ones differ
        np.testing.assert_allclose(x[2:-2, 2:-2], np.asarray(resized)[2:-2, 2:-2], atol=1e-5)


def test_nothing_comes_into_a_zoom_from_outside():
    rows = Batch(torch.ones(50, 1, 6, 8), torch.zeros(50), keys=keys(50))
    torch.testing.assert_close(regularizer("zoom(0.1)").rows(rows).x, rows.x)
    mask = torch.ones(50, 6, 8, dtype=torch.uint8)
    assert bool((met("zoom(0.1)", "pixels").rows(Batch(rows.x, mask, keys=rows.keys)).y == 1).all())


def test_affine_maps_are_drawn_from_their_ranges():
    made, num = regularizer("affine(10, 0.1, 0.2, 5)"), 4000
    rows = Batch(torch.zeros(num, 1, 6, 8), torch.zeros(num), keys=keys(num))
    ahead = made.ahead(rows, (6, 8))
    (a, b, right), (c, d, down) = (row.unbind(-1) for row in ahead.unbind(1))
    turn, scale = torch.atan2(c, a) * 180 / math.pi, (a * a + c * c).sqrt()
    slant = ((a * b + c * d) / scale**2).atan() * 180 / math.pi
    for drawn, middle, most in (
        (turn, 0, 10), (scale, 1, 0.2), (right / 8, 0, 0.1), (down / 6, 0, 0.1), (slant, 0, 5)
    ):  # fmt: skip
        off = (drawn - middle) / most
        assert float(off.abs().max()) <= 1.001 and float(off.mean()) == pytest.approx(0, abs=0.05)
        assert float(off.std()) == pytest.approx(1 / math.sqrt(3), rel=0.04)
    torch.testing.assert_close(a * d - b * c, scale**2)


@pytest.mark.parametrize("word", ["affine(25, 0.15, 0.2, 10)", "zoom(0.3)", "rand_augment(3, 10)", "crop(6)", "turn"])
def test_masks_and_boxes_agree_with_what_is_shown(word, monkeypatch):
    """Each class of a mask as a channel, and a box as a filled rectangle, moved with the picture."""
    monkeypatch.setattr(rand_augment, "_recoloured", lambda v, *_: v)  # so that channels stay what they mean
    num, side = 24, 64
    scenes = torch.zeros(num, side, side, dtype=torch.uint8)
    scenes[:, 20:40, 26:44] = 1
    channels = nn.functional.one_hot(scenes.long(), 3).permute(0, 3, 1, 2).double()
    channels[:, 2] = 1  # where the picture is
    shown = {}
    for kind, y in (("pixels", scenes), ("boxes", torch.tensor([[[0, 35 / 64, 30 / 64, 18 / 64, 20 / 64]]] * num))):
        made = regularizer(word)
        made.meet(ll.data.inputs.Identity(), Target(kind, classes=("a", "b")))
        shown[kind] = made.rows(Batch(channels, y, keys=keys(num)))
    moved, mask, box = shown["pixels"].x, shown["pixels"].y, shown["boxes"].y[:, 0]
    outside, sure = moved[:, 2] < 0.02, moved[:, 2] > 0.98
    assert bool((mask[outside] == 255).all())
    assert bool((mask[sure & (moved[:, 1] > 0.98)] == 1).all()) and bool((mask[sure & (moved[:, 0] > 0.98)] == 0).all())
    gone = 0
    for x, (code, cx, cy, wide, high) in zip(moved[:, 1], box.tolist(), strict=True):
        seen = (x > 0.5).nonzero()
        if code < 0:
            gone += 1
            assert len(seen) < 0.25 * 18 * 20 * 1.44 / 0.3
            continue
        (top, left), (bottom, right) = seen.amin(0).tolist(), seen.amax(0).tolist()
        told = [(cx - wide / 2) * side, (cy - high / 2) * side, (cx + wide / 2) * side, (cy + high / 2) * side]
        found = [left, top, right + 1, bottom + 1]
        assert told[0] - 1 <= found[0] and told[1] - 1 <= found[1]
        assert found[2] <= told[2] + 1 and found[3] <= told[3] + 1
        inner = min(told) > 1 and max(told) < side - 1
        assert not inner or np.allclose(found, told, atol=2.5)
    assert gone < num / 3


# ── colours ──


def picture_of(v):
    return Image.fromarray((v.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy())


def tensor_of(picture):
    return torch.tensor(np.asarray(picture)).permute(2, 0, 1) / 255


def eight_bits(num, size=(12, 10)):
    """Pictures as bytes have them, and a batch of what a network reads of them."""
    v = (values(num, size=size) * 255).round() / 255
    mean, std = (torch.tensor(value).view(-1, 1, 1) for value in (INPUTS.mean, INPUTS.std))
    return v, Batch((v - mean) / std, torch.zeros(num), keys=keys(num))


@pytest.mark.parametrize(
    ("word", "place", "enhance"),
    [
        ("colour(0.9, 0, 0)", 0, ImageEnhance.Brightness),
        ("colour(0, 0.9, 0)", 1, ImageEnhance.Contrast),
        ("colour(0, 0, 0.9)", 2, ImageEnhance.Color),
    ],
)
def test_colours_change_as_pillow_changes_them(word, place, enhance):
    v, rows = eight_bits(8)
    made = met(word)
    shown = as_values(made.rows(rows).x)
    factors = 1 + 0.9 * (2 * made.drawn(rows, 4, colour._SITE)[place] - 1)
    for before, after, factor in zip(v, shown, factors.tolist(), strict=True):
        expected = tensor_of(enhance(picture_of(before)).enhance(factor))
        torch.testing.assert_close(after.float(), expected, atol=2.5 / 255, rtol=0)
    assert float(factors.min()) < 0.7 and float(factors.max()) > 1.3


def test_colours_of_all_kinds_stay_in_range_and_hue_keeps_greys():
    rows = batch(50)
    shown = as_values(met("colour(1, 1, 1, 0.5)").rows(rows).x)
    assert float(shown.min()) > -1e-6 and float(shown.max()) < 1 + 1e-6
    grey = torch.full((9, 3, 4, 4), 0.3, dtype=torch.float64)
    same = regularizer("colour(0, 0, 0, 0.5)").rows(Batch(grey, torch.zeros(9), keys=keys(9))).x
    torch.testing.assert_close(same, grey)
    one = Batch(torch.rand(9, 1, 4, 4), torch.zeros(9), keys=keys(9))
    torch.testing.assert_close(regularizer("colour(0, 0, 1, 0.5)").rows(one).x, one.x)
    torch.testing.assert_close(regularizer("gray(1)").rows(one).x, one.x)


def test_hue_turns_colours_round():
    red = torch.tensor([0.9, 0.1, 0.1]).view(1, 3, 1, 1).expand(300, 3, 2, 2)
    shown = regularizer("colour(0, 0, 0, 0.5)").rows(Batch(red, torch.zeros(300), keys=keys(300))).x[:, :, 0, 0]
    torch.testing.assert_close(shown.mean(1)[shown.amin(1) > 0], torch.full_like(shown[shown.amin(1) > 0, 0], 1.1 / 3))
    counts = [int((shown.argmax(1) == c).sum()) for c in range(3)]
    assert all(count == chances(300, 1 / 3) for count in counts)
    green = shown[(shown[:, 1] > 0.88)]  # a third of a turn
    assert len(green) and float((green - torch.tensor([0.1, 0.9, 0.1])).abs().max()) < 0.2
    little = regularizer("colour(0, 0, 0, 0.05)").rows(Batch(red, torch.zeros(300), keys=keys(300))).x
    assert bool((little.argmax(1) == 0).all()) and float((little - red).abs().max()) > 0.05


def test_gray_pictures_are_those_of_pillow_and_as_many_as_asked():
    v, rows = eight_bits(400, (4, 4))
    shown = as_values(met("gray(0.25)").rows(rows).x)
    plain = torch.stack([tensor_of(picture_of(each).convert("L").convert("RGB")) for each in v])
    gray = (shown - plain).abs().amax((1, 2, 3)) < 1.01 / 255
    same = (shown - v).abs().amax((1, 2, 3)) < 1e-6
    assert bool((gray | same).all()) and int(gray.sum()) == chances(400, 0.25)


def test_erased_rectangles_have_the_areas_that_were_asked_for():
    num = 1500
    rows = Batch(torch.ones(num, 2, 32, 48), torch.zeros(num), keys=keys(num))
    hidden = regularizer("erase(0.5, 0.33)").rows(rows).x == 0
    assert torch.equal(hidden[:, 0], hidden[:, 1])
    hidden = hidden[:, 0]
    some = hidden.flatten(1).any(1)
    assert int(some.sum()) == chances(num, 0.5)
    area = hidden[some].double().mean((1, 2))
    tall, wide = hidden[some].any(2).sum(1), hidden[some].any(1).sum(1)
    torch.testing.assert_close(area * 32 * 48, (tall * wide).double())  # filled rectangles
    assert 0.01 < float(area.min()) < 0.05 and 0.3 < float(area.max()) < 0.36
    assert float(area.mean()) == pytest.approx((0.02 + 0.33) / 2, abs=0.015)
    shape = (wide / 48 / (tall / 32)).log()
    assert float(shape.mean()) == pytest.approx(0, abs=0.12) and float(shape.abs().max()) < math.log(1 / 0.3) + 0.5


# ── two rows in one ──


def test_cutmix_pastes_a_rectangle_and_counts_its_pixels():
    num, size = 200, (8, 12)
    x = torch.arange(num, dtype=torch.float64).view(-1, 1, 1, 1).expand(num, 3, *size)
    rows = Batch(x, torch.arange(num) % 4, keys=keys(num))
    made = met("cutmix(1)")
    shown = made.rows(rows)
    pasted = shown.x[:, 0] == x.roll(1, 0)[:, 0]
    assert bool((pasted | (shown.x[:, 0] == x[:, 0])).all()) and torch.equal(shown.y, rows.y)
    area = pasted.double().mean((1, 2))
    torch.testing.assert_close(pasted.any(1).sum(1) * pasted.any(2).sum(1) / (8 * 12), area.float(), atol=1e-6, rtol=0)
    assert 0.2 < float(area.mean()) < 0.5 and float(area.max()) > 0.8
    output, loss = torch.randn(num, 4, dtype=torch.float64), Categorical(4).loss
    expected = (1 - area) * loss(output, rows.y) + area * loss(output, rows.y.roll(1, 0))
    torch.testing.assert_close(made.score(loss, shown)(output, shown.y), expected)


def test_cutmix_pastes_masks_and_leaves_their_loss():
    rows = batch(20, kind="pixels")
    made = met("cutmix(1)", "pixels")
    shown = made.rows(rows)
    pasted = (shown.x == rows.x.roll(1, 0)).all(1)
    assert torch.equal(shown.y, torch.where(pasted, rows.y.roll(1, 0), rows.y)) and 0.1 < pasted.double().mean() < 0.7
    inner = Categorical(4).loss
    assert made.score(inner, shown) is inner


def test_rows_mixed_twice_are_scored_by_all_four():
    """The mixed loss is the loss of the mixed label, also of a mixture of mixtures."""
    num = 12
    rows = Batch(torch.eye(num, dtype=torch.float64).view(num, num, 1, 1).expand(num, num, 4, 4), torch.arange(num))
    rows = Batch(rows.x, rows.y, keys=keys(num))
    made = [regularizer("cutmix(1)").double(), regularizer("mixup(1)").double()]
    logits = torch.randn(num, num, dtype=torch.float64)
    shown, score = made[0].rows(rows), Categorical(num).loss
    x = made[1].inputs(shown.x, shown)
    for each in made:
        score = each.score(score, shown)
    label = x.mean((2, 3))  # how much of each row it is made of
    torch.testing.assert_close(score(logits, rows.y), -(label * logits.log_softmax(1)).sum(1))
    assert int((label > 0).sum(1).max()) == 3


@pytest.mark.parametrize("line", [("cutmix(1)", "mixup(1)"), ("mixup(1)", "cutmix(1)"), ("mixup(1)", "mixup(1)")])
def test_labels_are_mixed_as_pictures_are_in_any_order(line):
    """A model of the mean colour of each of 12 channels says how much of each row a picture is made of."""
    num, seen = 12, []

    class Weighing(nn.Module):
        def forward(self, x):
            seen.append(x.mean((2, 3)))
            return 4 * seen[-1]

    x = torch.eye(num, dtype=torch.float64).view(num, num, 1, 1).expand(num, num, 4, 4)
    made = [regularizer(word).double() for word in line]
    found = Objective(Weighing(), Categorical(num), made)(Batch(x, torch.arange(num), keys=keys(num)))
    torch.testing.assert_close(found, -(seen[0] * (4 * seen[0]).log_softmax(1)).sum(1).mean())


def test_a_second_look_and_a_teacher_see_rows_and_labels_that_belong_together():
    """They read the pictures after cutmix and before mixup, so their scores lie between, wherever they are listed."""
    torch.manual_seed(0)
    model, teacher = (nn.Sequential(nn.Flatten(), nn.Linear(3 * 6 * 8, 4)).double() for _ in range(2))
    parts = {"adversarial": "adversarial(0.1)", "cutmix": "cutmix(1)", "mixup": "mixup(1)"}

    def loss(*names):
        made = [ll.regularize.Distillation(teacher) if n == "teacher" else regularizer(parts[n]) for n in names]
        for each in made:
            each.meet(INPUTS, CLASSES)
        return Objective(model, Categorical(4), [each.double() for each in made])(batch(8)).item()

    for other in ("adversarial", "teacher"):
        assert loss("cutmix", other) == loss(other, "cutmix") != loss(other)
        assert loss("mixup", other) == loss(other, "mixup") != loss(other)


def test_mixup_of_masks_is_the_loss_of_mixed_labels():
    rows = batch(8, kind="pixels")
    made = regularizer("mixup(1)").double()
    made.meet(INPUTS, Target("pixels", classes=("a", "b", "c", "d")))
    x = made.inputs(rows.x, rows)
    part = ((x - rows.x.roll(1, 0)) / (rows.x - rows.x.roll(1, 0))).flatten(1).median(1).values
    output = torch.randn(8, 4, 6, 8, dtype=torch.float64)
    inner = lambda z, y: nn.functional.cross_entropy(z, y.long(), reduction="none").mean((1, 2))  # noqa: E731
    soft = nn.functional.one_hot(rows.y.long(), 4).permute(0, 3, 1, 2).double()
    soft = part.view(-1, 1, 1, 1) * soft + (1 - part).view(-1, 1, 1, 1) * soft.roll(1, 0)
    expected = -(soft * output.log_softmax(1)).sum(1).mean((1, 2))
    torch.testing.assert_close(made.score(inner, rows)(output, rows.y), expected)


@pytest.mark.parametrize("kind", ["boxes", "points"])
@pytest.mark.parametrize("word", ["mixup", "cutmix"])
def test_what_cannot_be_mixed_is_refused(word, kind):
    with pytest.raises(UserError, match=f"Got a target of {kind}"):
        regularizer(word).meet(INPUTS, Target(kind, classes=("a", "b")))


# ── rand_augment ──


def test_rand_augment_makes_the_changes_that_pillow_makes():
    num = 260
    v, rows = eight_bits(1)
    rows = Batch(rows.x.expand(num, -1, -1, -1), torch.zeros(num), keys=keys(num))
    made = met("rand_augment(1, 5)")
    which, side = made.drawn(rows, 2, rand_augment._SITE)
    picture = picture_of(v[0])
    shown = as_values(made.rows(rows).x).float()
    smooth = (slice(None), slice(1, -1), slice(1, -1))  # Pillow leaves the outermost pixels sharp
    expected = {
        "identity": lambda s: picture,
        "brightness": lambda s: ImageEnhance.Brightness(picture).enhance(1 + 0.45 * s),
        "contrast": lambda s: ImageEnhance.Contrast(picture).enhance(1 + 0.45 * s),
        "colour": lambda s: ImageEnhance.Color(picture).enhance(1 + 0.45 * s),
        "sharpness": lambda s: ImageEnhance.Sharpness(picture).enhance(1 + 0.45 * s),
        "posterize": lambda s: ImageOps.posterize(picture, 6),
        "solarize": lambda s: ImageOps.solarize(picture, 128),
        "autocontrast": lambda s: ImageOps.autocontrast(picture),
    }
    seen = Counter()
    for x, change, sign in zip(shown, (which * len(CHANGES)).long().tolist(), (side >= 0.5).tolist(), strict=True):
        name = CHANGES[change]
        seen[name] += 1
        if name in expected:
            wanted = tensor_of(expected[name](1 if sign else -1))
            torch.testing.assert_close(x[smooth], wanted[smooth], atol=2.5 / 255, rtol=0)
    assert set(seen) == set(CHANGES) and all(count == chances(num, 1 / len(CHANGES)) for count in seen.values())


def test_rand_augment_moves_pictures_by_one_map_of_all_its_moves():
    num = 800
    rows = Batch(torch.zeros(num, 3, 20, 30), torch.tensor([[[0.5, 0.5, 1.0]]]).expand(num, 1, 3), keys=keys(num))
    made = regularizer("rand_augment(1, 10)")
    made.meet(INPUTS, Target("points", classes=("a",)))
    x, y, _ = (made.rows(rows).y - torch.tensor([0.5, 0.5, 1.0]))[:, 0].unbind(-1)
    moved = [((x - by_x).abs() < 1e-5) & ((y - by_y).abs() < 1e-5) for by_x, by_y in ((0.3, 0), (-0.3, 0), (0, 0.3))]
    assert all(int(each.sum()) == chances(num, 1 / 26) for each in moved)
    twice = regularizer("rand_augment(2, 10)")
    twice.meet(INPUTS, Target("points", classes=("a",)))
    x = (twice.rows(rows).y[:, 0, 0] - 0.5).abs()
    assert int((x > 0.55).sum()) == chances(num, 2 / 26**2) and float(x.max()) == pytest.approx(0.6, abs=1e-5)


def test_no_magnitude_leaves_pictures_but_for_autocontrast():
    rows = batch(60)
    made = met("rand_augment(2, 0)")
    drawn = made.drawn(rows, 4, rand_augment._SITE)
    stretched = sum((u * len(CHANGES)).long() == CHANGES.index("autocontrast") for u in drawn[::2]) > 0
    off = (made.rows(rows).x - rows.x).abs().amax((1, 2, 3))
    eighth = 0.6 / 255 / min(INPUTS.std)  # posterize rounds to the bytes that pictures have
    assert float(off[~stretched].max()) < eighth and float(off[stretched].min()) > eighth


# ── what they are told, and refusals ──


def test_what_y_says_of_places_needs_a_target():
    rows = batch(kind="boxes")
    with pytest.raises(UserError, match="must know what y is"):
        regularizer("flip").rows(rows)


def test_rows_that_are_no_pictures_are_refused_before_training():
    table = Standardize((0.0,), (1.0,))
    for word in WORDS:
        with pytest.raises(UserError, match="needs pictures"):
            regularizer(word).meet(table, CLASSES)
    for word in ("colour", "gray", "rand_augment"):
        with pytest.raises(UserError, match="colours are known"):
            regularizer(word).meet(Rescale(0.0, 1.0), CLASSES)
    regularizer("flip").meet(Rescale(0.0, 1.0), CLASSES)


def test_another_data_set_is_met_anew():
    made = regularizer("flip(1)")
    made.meet(INPUTS, Target("points", classes=("left eye", "right eye")))
    made.meet(Pictures((0.5,), (0.25,), (4, 4), 1), CLASSES)
    rows = Batch(torch.rand(3, 1, 4, 4), torch.arange(3), keys=keys(3))
    assert torch.equal(made.rows(rows).y, rows.y)


# ── training ──


def stripes(num=120, size=8):
    """Two classes that differ by direction: a mirror keeps them, a quarter turn would not."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(num) % 2
    phase = torch.randint(0, 2, (num, 1, 1), generator=g)
    row, column = torch.arange(size).view(1, size, 1), torch.arange(size).view(1, 1, size)
    lines = (torch.where(y.view(-1, 1, 1) == 1, row, column) + phase) % 2
    x = (40 + 150 * lines + torch.randint(0, 60, (num, size, size), generator=g)).to(torch.uint8)[:, None]
    x = x.expand(-1, 3, -1, -1).contiguous()
    parts = [Split(x[k::3], y[k::3]) for k in range(3)]
    return Data(*parts, Target("classes", classes=("across", "down")), Pictures.of(parts[0].x))


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


@pytest.mark.parametrize("word", WORDS)
def test_it_trains_and_leaves_metrics_plain(word):
    data = stripes()
    run = ll.fit(small(), data, epochs=1, batch=16, regularize=word, progress=False)
    assert run.settings.regularize == (regularizer(word).word,)
    plain = run.likelihood.measures(run.outputs("test"), data.test.y)["nll"].mean()
    assert run.evaluate("test")["nll"] == pytest.approx(float(plain), rel=1e-5)


def test_a_run_that_was_stopped_ends_as_the_one_that_never_was(tmp_path):
    shown = ("flip", "crop(1)", "affine", "colour", "erase", "cutmix", "rand_augment")
    same = {"epochs": 4, "batch": 16, "threads": 1, "regularize": shown, "with_report": False, "progress": False}

    def stop(event):
        if isinstance(event, StepsDone) and event.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    through = ll.fit(small(), stripes(), folder=tmp_path / "a", **same)
    ll.fit(small(), stripes(), folder=tmp_path / "b", listeners=[stop], **same)
    taken_up = ll.resume(tmp_path / "b", data=stripes(), model=small(), with_report=False, progress=False)
    assert taken_up.history == through.history
    for one, other in zip(through.model.parameters(), taken_up.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_shifted_and_mirrored_pictures_help_where_rows_are_few():
    """A dense network knows nothing of places: it learns them from being shown things elsewhere."""
    g = torch.Generator().manual_seed(0)
    num, size = 2040, 12
    y = torch.arange(num) % 2
    x = torch.randint(0, 60, (num, 1, size, size), generator=g)
    shape = torch.stack([torch.ones(5, 5), torch.ones(5, 5)])
    shape[0, 1:4, 1:4] = 0  # a ring against a square
    for k in range(num):
        i, j = torch.randint(0, size - 4, (2,), generator=g).tolist()
        x[k, 0, i : i + 5, j : j + 5] += (150 * shape[y[k]]).long()
    x = x.to(torch.uint8)
    cut = (0, 40, 60, num)
    data = Data(*(Split(x[a:b], y[a:b]) for a, b in pairwise(cut)), CLASSES, Pictures.of(x[:40]))
    accuracy = {}
    for words_ in ((), ("flip", "flip_vertical", "crop(3)")):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(size * size, 64), nn.ReLU(), nn.Linear(64, 4))
        run = ll.fit(model, data, epochs=150, batch=20, validate_every=150, regularize=words_, progress=False)
        accuracy[words_ != ()] = run.evaluate("test")["accuracy"]
    assert accuracy[True] > accuracy[False] + 0.05
