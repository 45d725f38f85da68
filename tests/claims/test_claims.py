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
