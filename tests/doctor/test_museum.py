"""Every broken set-up is named by its code and nothing else; healthy ones raise nothing."""

import museum
import pytest

from leadline.doctor import CODES

RIGHT: set[str] = set()
QUIET: set[str] = set()


def loud(findings):
    return [finding for finding in findings if finding.severity != "note"]


@pytest.mark.parametrize("name", museum.BROKEN)
def test_a_broken_set_up_is_named(name):
    code, exhibit = museum.BROKEN[name]
    assert {finding.code for finding in loud(exhibit())} == {code}
    RIGHT.add(name)


@pytest.mark.parametrize("name", museum.HEALTHY)
def test_a_healthy_set_up_raises_nothing(name):
    assert [str(finding) for finding in loud(museum.HEALTHY[name]())] == []
    QUIET.add(name)


def test_the_museum_is_large_and_shows_every_loud_code(capsys):
    only_notes = {"class-imbalance", "small-val", "short-documents", "deeper-than-graph", "unread-edges"}
    assert {code for code, _ in museum.BROKEN.values()} == set(CODES) - only_notes
    assert len(museum.BROKEN) >= 30 and len(museum.HEALTHY) >= 30
    with capsys.disabled():
        alarms = len(museum.HEALTHY) - len(QUIET)
        print(
            f"\nmuseum: {len(RIGHT)} of {len(museum.BROKEN)} broken set-ups named, "
            f"{alarms} false alarms in {len(museum.HEALTHY)} healthy ones"
        )
