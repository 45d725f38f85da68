"""`leadline syllabus`: what it prints, what --json says, and what it says where nothing is found."""

import json
import re
import subprocess
import sys

import pytest

from leadline.cli import main
from leadline.syllabus import rows


def text(capsys, *words, code=0):
    capsys.readouterr()
    assert main(["syllabus", *words]) == code
    told = capsys.readouterr()
    assert all(len(line) <= 80 for line in told.out.splitlines()), told.out
    return told.err if code else told.out


def answer(capsys, *words, code=0):
    capsys.readouterr()
    assert main(["syllabus", *words, "--json"]) == code
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def test_a_row_shows_title_source_object_and_claim(capsys):
    told = text(capsys, "UA-188")
    (row,) = (row for row in rows() if row.id == "UA-188")
    assert told.startswith("id ") and all(part in told for part in (row.title, row.source, row.where, row.claim))


def test_a_row_that_is_not_built_says_why(capsys):
    told = " ".join(text(capsys, "wishart").split())
    (row,) = (row for row in rows() if row.id == "UA-098")
    assert f"skipped: {row.skipped}" in told


def test_the_best_come_first_and_all_on_request(capsys):
    few, every = (
        re.findall(r"^[A-Z]{2}-\d+", told, re.M) for told in (text(capsys, "loss"), text(capsys, "loss", "--all"))
    )
    assert len(few) == 10 and every[:10] == few
    assert f"and {len(every) - 10} more: --all shows them" in text(capsys, "loss")
    assert "more: --all" not in text(capsys, "loss", "--all")


def test_without_words_the_rows_are_counted(capsys):
    told = text(capsys)
    built = sum(row.built for row in rows())
    assert f"{len(rows())} rows: {built} built, {len(rows()) - built} skipped" in told
    book = sum(row.key == "UDL" for row in rows())
    assert re.search(rf"^UDL +{book} ", told, re.M)


def test_as_json(capsys):
    told = answer(capsys, "ua-188")
    assert told["query"] == "ua-188" and [row["id"] for row in told["rows"]] == ["UA-188"]
    assert set(told["rows"][0]) == {"id", "title", "source", "where", "claim", "skipped", "also"}
    assert len(answer(capsys, "loss")["rows"]) > 10


def test_the_count_as_json(capsys):
    told = answer(capsys)
    assert set(told) == {"sources", "built", "skipped"} and set(told["sources"]) == {"UDL", "notes", "D2L", "slides"}
    for count in told["sources"].values():
        assert count["rows"] == count["built"] + count["skipped"] >= count["with_claim"]
    assert told["built"] == sum(count["built"] for count in told["sources"].values())
    assert len(answer(capsys, "--all")["rows"]) == len(rows()) == told["built"] + told["skipped"]


@pytest.mark.parametrize("words", [["zebra"], ["perceptron", "zebra"]])
def test_where_nothing_is_found_the_nearest_are_told(words, capsys):
    told = text(capsys, *words, code=2)
    assert told.startswith("error: the words must occur in the syllabus. Got ")
    for said in (told, answer(capsys, *words, code=2)["error"]):
        assert re.search(r"The nearest are [A-Z]{2}-\d+ ", said)


def test_signs_alone_are_no_words(capsys):
    assert "Got '!?'. Type an id, a section, or words with letters in them." in text(capsys, "!?", code=2)


def test_it_answers_without_torch():
    code = "import sys; from leadline.cli import main; main(['syllabus', 'hopfield']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "False", done.stderr
