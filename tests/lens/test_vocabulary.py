"""The vocabulary over merges: its numbers are the reference's, and every one is in the drawing."""

import json

import numpy as np
import pytest

from leadline.errors import DataError, UserError
from leadline.lens import vocabulary
from leadline.reference.bpe import RHYME, byte_pairs


def test_the_view_holds_what_the_reference_counts():
    view, merges = vocabulary(), byte_pairs(RHYME)
    assert view.merges == tuple("".join(merge.pair) for merge in merges)
    assert view.counts.tolist() == [merge.count for merge in merges]
    assert view.sizes.tolist() == [19, *(merge.size for merge in merges)] and view.peak == 29
    assert list(view.tables) == [0, 1, 2, 22, 50] and view.tables[22] == merges[21].tokens
    assert all(sum(np.array(list(table.values())) * [len(t) for t in table]) == 140 for table in view.tables.values())
    json.dumps(view.to_dict(), allow_nan=False)


def test_the_drawing_has_tables_and_the_curve():
    figure = vocabulary().plot()
    *tables, curve = figure.axes
    assert [len(ax.get_yticklabels()) for ax in tables] == [19, 20, 21, 27, 18]
    assert tables[4].get_yticklabels()[0].get_text() == "see_"
    assert curve.lines[0].get_ydata().tolist() == vocabulary().sizes.tolist()
    assert "first 30 of" in vocabulary("".join(map(chr, range(65, 123))), at=[0], most=1).plot().axes[0].get_title(
        "left"
    )


def test_few_merges_and_wrong_arguments():
    view = vocabulary("to see the sea", at=[0, 7, 1000], most=3)
    assert list(view.tables) == [0, 3] and len(view.sizes) == 4 and view.plot().axes
    with pytest.raises(DataError, match="must have words"):
        vocabulary(" \n")
    with pytest.raises(UserError, match="most"):
        vocabulary(most=0)
    with pytest.raises(UserError, match="text must be text. Got text=5"):
        vocabulary(5)
    with pytest.raises(UserError, match="at must be"):
        vocabulary(at=[-1])
