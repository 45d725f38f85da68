"""Every broken set-up is named by its code and nothing else; healthy ones raise nothing."""

import museum
import pytest


def loud(findings):
    return [finding for finding in findings if finding.severity != "note"]


@pytest.mark.parametrize("name", museum.BROKEN)
def test_a_broken_set_up_is_named(name):
    code, exhibit = museum.BROKEN[name]
    assert {finding.code for finding in loud(exhibit())} == {code}


@pytest.mark.parametrize("name", museum.HEALTHY)
def test_a_healthy_set_up_raises_nothing(name):
    assert [str(finding) for finding in loud(museum.HEALTHY[name]())] == []
