"""`leadline claims`: list, run, draw, keep the ledger, and exit 1 when a verdict is news."""

import json

import pytest

from leadline.claims import CLAIMS
from leadline.claims.claim import FAILS
from leadline.cli import main


def test_without_a_name_claims_are_listed(capsys):
    assert main(["claims"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in CLAIMS)


def test_a_claim_is_run_drawn_and_logged(tmp_path, capsys):
    words = ["claims", "orthants", "sawtooth", "--folder", str(tmp_path), "--log", str(tmp_path / "LOG.md"), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [claim["verdict"] for claim in found["claims"]] == ["holds", "holds"]
    assert (tmp_path / "orthants.png").read_bytes().startswith(b"\x89PNG")
    assert "| sawtooth |" in (tmp_path / "LOG.md").read_text()


def test_a_verdict_that_differs_from_the_record_is_exit_1(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(
        CLAIMS, "orthants", type(CLAIMS["orthants"])(**{**vars(CLAIMS["orthants"]), "on_record": FAILS})
    )
    assert main(["claims", "orthants", "--folder", str(tmp_path)]) == 1
    assert "orthants: holds; on record: does not hold" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [(["hopfeld-capacity"], "Did you mean hopfield-capacity"), (["sawtooth", "--all"], "names or --all")],
)
def test_mistakes_are_answered(words, message, capsys):
    assert main(["claims", *words]) == 2
    assert message in capsys.readouterr().err
