"""Figures show what they are given, in the page's colours, whatever style the session has set."""

import re

import matplotlib
import numpy as np
import pytest

from leadline.report import figures
from leadline.report.style import COLOURS, LIGHT


def history(losses):
    return [
        {"epoch": e, "step": e, "lr": 0.01, "train": {"loss": loss}, "val": {"nll": loss, "rmse": loss}}
        for e, loss in enumerate(losses, 1)
    ]


def axes(figure, title):
    return next(ax for ax in figure.axes if ax.get_title(loc="left") == title)


def test_a_loss_that_falls_by_decades_has_a_logarithmic_axis():
    assert axes(figures.learning(history([100.0, 1.0, 0.1]), 2, "nll"), "Loss by epoch").get_yscale() == "log"
    assert axes(figures.learning(history([3.0, 1.0, 0.5]), 2, "nll"), "Loss by epoch").get_yscale() == "linear"
    assert axes(figures.learning(history([100.0, 0.1, -1.0]), 2, "nll"), "Loss by epoch").get_yscale() == "linear"


def test_learning_curves_hold_the_values_and_the_best_epoch():
    ax = axes(figures.learning(history([3.0, 1.0, 2.0]), 2, "rmse"), "Loss by epoch")
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert list(lines) == ["train", "val", "best epoch 2"]
    assert lines["train"].get_ydata().tolist() == [3.0, 1.0, 2.0]
    assert list(lines["best epoch 2"].get_xdata()) == [2, 2]
    assert (lines["train"].get_color(), lines["val"].get_color()) == (LIGHT["train"], LIGHT["val"])


def test_the_headline_metric_has_a_panel_of_its_own():
    assert "Rmse by epoch" in [ax.get_title(loc="left") for ax in figures.learning(history([3.0, 1.0]), 1, "rmse").axes]
    assert len(figures.learning(history([3.0, 1.0]), 1, "nll").axes) == 2


def test_a_metric_without_unit_claims_none():
    lines = [
        {"epoch": e, "step": e, "lr": 0.01, "train": {"loss": 1.0}, "val": {"nll": 1.0, "r2": 0.5}} for e in (1, 2)
    ]
    assert axes(figures.learning(lines, 1, "r2"), "R2 by epoch").get_ylabel() == "r2"
    for line in lines:
        line["val"]["f1"] = 0.5
    assert axes(figures.learning(lines, 1, "f1"), "F1 by epoch").get_ylabel() == "f1"
    assert axes(figures.learning(history([3.0, 1.0]), 1, "rmse"), "Rmse by epoch").get_ylabel() == "rmse (unit of y)"


def test_coverage_names_its_target():
    observed = np.tile(np.array(figures.LEVELS)[:, None], (1, 2))
    one = figures.coverage_curve(observed[:, :1], 50, ["speed"], "test").axes[0]
    assert "of speed" in one.get_xlabel()
    two = figures.coverage_curve(observed, 50, ["speed", "mass"], "test").axes[0]
    assert {"speed", "mass"} <= set(two.get_legend_handles_labels()[1])


@pytest.mark.parametrize(("size", "counted"), [(2, True), (12, True), (13, False), (100, False)])
def test_a_matrix_writes_its_counts_while_they_fit(size, counted):
    counts = np.full((size, size), 7)
    figure = figures.confusion_matrix(counts, [f"c{k}" for k in range(size)], "test")
    assert len(figure.axes[0].texts) == (size**2 if counted else 0)


def test_names_that_are_cut_alike_are_told_apart():
    names = [f"a long name of the class {k} of one family" for k in range(3)]
    labels = [
        label.get_text() for label in figures.confusion_matrix(np.eye(3), names, "test").axes[0].get_yticklabels()
    ]
    assert len(set(labels)) == 3


def test_svg_speaks_in_the_colours_of_the_page():
    text = figures.svg(figures.learning(history([3.0, 1.0, 2.0]), 2, "rmse"), "learning")
    assert "var(--train)" in text and "var(--val)" in text and "var(--ink)" in text and "var(--font)" in text
    assert not set(re.findall(r"#[0-9a-f]{6}\b", text)) & set(LIGHT.values())
    assert "http" not in text and "<!--" not in text
    assert all(name.startswith("learning-") for name in re.findall(r'\sid="([^"]*)', text))


def test_no_curve_of_coverage_is_drawn_as_the_perfect_one():
    figure = figures.coverage_curve(np.linspace(0.1, 0.9, 10).repeat(4).reshape(10, 4), 50, list("abcd"), "test")
    drawn = [(line.get_linestyle(), line.get_marker()) for line in figure.axes[0].lines]
    assert drawn[0] == ("-", "None") and drawn.count(drawn[0]) == 1


def test_svg_leaves_the_words_of_a_user_alone():
    text = figures.svg(figures.confusion_matrix(np.eye(2), [": #0072b2", ' id="b'], "test"), "m")
    assert ">: #0072b2<" in text and '>id="b<' in text


def test_the_users_style_neither_changes_nor_counts():
    plain = figures.svg(figures.losses(np.arange(50.0), "test"), "n")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False, "lines.linewidth": 9}):
        assert figures.svg(figures.losses(np.arange(50.0), "test"), "n") == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_colours_can_be_found_again():
    lights = [light for light, _ in COLOURS.values()]
    assert len(set(lights)) == len(lights)


@pytest.mark.parametrize("scheme", [0, 1])
@pytest.mark.parametrize("name", [name for name in COLOURS if name not in ("ground", "card", "raised", "line")])
def test_text_can_be_read_on_a_card(name, scheme):
    """Contrast of at least 4.5 to 1."""

    def luminance(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted(luminance(COLOURS[key][scheme]) for key in (name, "card"))
    assert (light + 0.05) / (dark + 0.05) >= 4.5
