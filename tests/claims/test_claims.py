"""Every claim, on its quick setting: the verdict is the one on record. And a ledger that can say no."""

import json
import math

import pytest

from leadline.claims import CLAIMS, Check, Claim, Evidence, ledger
from leadline.claims.claim import FAILS, HOLDS
from leadline.claims.curves import Curves

#: those that train for more than ten seconds; `leadline claims --all` runs them too
LONG = (
    *("double-descent", "adam-less-sensitive", "small-batches", "bn-batch-size", "large-rates"),
    *("plain-20-56", "path-lengths", "skip-surface"),
    *("norm-placement", "warm-up", "vit-needs-data", "heads-pruned"),
    "recall-over-lags",
)
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in CLAIMS]


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_the_one_on_record(name):
    outcome = CLAIMS[name].run()
    missed = [check.to_dict() for check in outcome.evidence.checks if not check.holds]
    assert outcome.verdict == CLAIMS[name].on_record, missed
    json.dumps(outcome.to_dict())
    json.dumps(outcome.evidence.view.to_dict())
    assert outcome.evidence.view.plot().axes


@pytest.mark.parametrize(
    ("measured", "low", "high", "holds"),
    [
        (1, 1, 1, True),
        (1.1, 1, 1, False),
        (math.nan, -math.inf, math.inf, False),
        (3, 2, math.inf, True),
        (1, 2, 3, False),
    ],
)
def test_a_check_holds_inside_its_band(measured, low, high, holds):
    assert Check("a number", measured, low, high).holds is holds


def made(measured, on_record=HOLDS):
    view = Curves("t", "x", "y", {"points": ((0.0, 1.0), (0.0, measured))})
    return Claim(
        "made", "Two is two", "nobody", lambda full: Evidence((Check("two", measured, 2, 2),), view), on_record
    )


def test_a_claim_may_fail_and_that_is_news():
    good, bad, known = made(2.0).run(), made(2.5).run(), made(2.5, on_record=FAILS).run()
    assert [o.verdict for o in (good, bad, known)] == [HOLDS, FAILS, FAILS]
    assert [o.news for o in (good, bad, known)] == [False, True, False]
    assert ledger.count([good, bad, known]) == "3 claims: 1 hold, 2 do not; 1 differ from the record"
    page = ledger.markdown([good, bad])
    assert "| made | two | 2 | 2.5 | does not hold |" in page and "| made | two | 2 | 2 | holds |" in page


def test_a_figure_has_every_name():
    view = Curves(
        "t", "x", "y", {"dots": ((1.0, 2.0), (1.0, 4.0))}, {"law": ((1.0, 2.0), (1.0, 4.0))}, {"here": 1.5}, log="xy"
    )
    [axes] = view.plot().axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["dots", "law", "here"]
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_the_axes_of_a_figure_have_numbers_that_say_something():
    written = lambda axis: [text.get_text() for text in axis.get_ticklabels() if text.get_text()]  # noqa: E731
    [axes] = Curves("t", "heads", "y", {"found": ((1.0, 2.0, 3.0), (0.1, 0.2, 0.3))}).plot().axes
    assert all("." not in text for text in written(axes.xaxis))  # there is no head and a half
    [axes] = Curves("t", "D", "y", {"found": ((4.0, 64.0, 1024.0), (0.1, 0.2, 0.3))}, log="x").plot().axes
    assert written(axes.xaxis) == ["4", "64", "1,024"]
    far = (85e6, 3e8, 1.7e11)  # too long to stand side by side
    [axes] = Curves("t", "D", "y", {"found": (far, far)}, log="xy").plot().axes
    assert all("10^" in text for text in written(axes.xaxis))
    for ends in ((2.0, 8.0), (1.1, 1.3), (4e-2, 0.4)):  # not two powers of ten
        figure = Curves("t", "D", "y", {"found": ((1.0, 2.0), ends)}, log="y").plot()
        figure.draw_without_rendering()
        low, high = figure.axes[0].get_ylim()
        assert sum(low <= float(text) <= high for text in written(figure.axes[0].yaxis)) >= 2


def test_cases_have_names_and_no_line_between_them():
    view = Curves(
        "t", "", "y", {"found": ((0.0, 1.0), (3.0, 4.0))}, {"law": ((0.0, 1.0), (3.0, 4.0))}, names=("a", "b")
    )
    [axes] = view.plot().axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b"]
    assert {line.get_linestyle() for line in axes.get_lines()} == {"None"}
