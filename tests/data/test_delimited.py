"""Delimited text: every oddity of real files is read, or refused with its line."""

from __future__ import annotations

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.data import delimited
from leadline.data.delimited import read_delimited
from leadline.errors import DataError


@pytest.fixture
def read(tmp_path):
    def read(content, name="file.csv", **options):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        table = read_delimited(path, **options)
        cells = {name: [cells[i] or "" for i in range(len(cells))] for name, cells in table.columns.items()}
        return table, cells

    return read


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,2\n3,4\n",
        "a,b\r\n1,2\r\n3,4\r\n",
        "a,b\r1,2\r3,4",
        "\ufeffa,b\n1,2\n3,4",
        "a;b\n1;2\n3;4\n",
        "a\tb\n1\t2\n3\t4\n",
        "a|b\n1|2\n3|4\n",
        "a,b,\n1,2,\n3,4,\n",
        "a,b\n1,2,\n3,4,\n",
        '"a","b"\n"1","2"\n"3","4"\n',
        " a , b \n1,2\n3,4\n\n\n",
    ],
)
def test_one_table_however_it_is_written(read, content):
    table, cells = read(content)
    assert cells == {"a": ["1", "3"], "b": ["2", "4"]}
    assert table.numbers.tolist() == [2, 3]


def test_lines_are_those_of_an_editor(read):
    table, cells = read('\n\na,b\n1,"x\ny"\n\n2,"p,q"\n3,"say ""hi"""\n')
    assert table.numbers.tolist() == [4, 7, 8]
    assert cells["b"] == ["x\ny", "p,q", 'say "hi"']
    table, _ = read('a,b\n1,"x\ny"\n2,z\n')
    assert table.numbers.tolist() == [2, 4]


def test_quotes_inside_a_field_are_letters(read):
    assert read('a,b\n1,5" pipe\n2,6" pipe\n')[1]["b"] == ['5" pipe', '6" pipe']


def test_names_in_any_script_and_without_one(read):
    table, cells = read("größe, 数 ,\n1,2,3\n")
    assert list(cells) == ["größe", "数", "column_3"]
    assert any("数" in note for note in table.notes) and any("column_3" in note for note in table.notes)


def test_a_missing_header_is_noticed(read):
    table, cells = read("1.5,2\n3,4\n")
    assert list(cells) == ["column_1", "column_2"] and table.nameless and table.numbers.tolist() == [1, 2]
    assert list(read("0,1,2\n7,8,9\n")[1]) == ["0", "1", "2"]  # what pandas writes for want of names


def test_gzip(read):
    assert read(gzip.compress(b"a,b\n1,2\n"), "file.csv.gz")[1] == {"a": ["1"], "b": ["2"]}
    with pytest.raises(DataError, match="complete gzip file"):
        read(b"nonsense", "file.csv.gz")
    with pytest.raises(DataError, match="complete gzip file"):
        read(gzip.compress(b"a,b\n1,2\n" * 1000)[:40], "file.csv.gz")


def test_blank_lines_cost_neither_rows_nor_speed(read, monkeypatch):
    content = "a,b\n\n1,2\n\n\n3,4\n5,6\n\n"
    slow = []
    monkeypatch.setattr(delimited, "_careful", lambda *_: slow.append(1))
    table, cells = read(content)
    assert cells == {"a": ["1", "3", "5"], "b": ["2", "4", "6"]} and table.numbers.tolist() == [3, 6, 7] and not slow
    assert table.notes == ("3 empty lines left out (lines 2, 4, 5)",)
    assert read('a,b\n1,"x\n\ny"\n')[0].notes == () and read("a,b\n1,2\n\n")[0].notes == ()


def test_decimal_commas_do_not_separate(read):
    assert read("x\n4,5\n3,25\n")[1] == {"x": ["4,5", "3,25"]}
    table, cells = read("4,5;0,25\n1,5;2\n")
    assert table.nameless and cells == {"column_1": ["4,5", "1,5"], "column_2": ["0,25", "2"]}
    with pytest.raises(DataError, match="must have 1 field, like the first"):
        read("x\na,b\n")


def test_ragged_lines_are_named_or_refused(read):
    content = "a,b\n1,2\n3\n4,5,6\n7,8\n"
    with pytest.raises(DataError, match=r"2 fields.*1 on line 3, 3 on line 4.*bad_rows"):
        read(content, bad_rows="error")
    with pytest.raises(DataError, match=r"needs quotes\)\.$"):  # where nobody can choose
        read(content)
    table, cells = read(content, bad_rows="refuse")
    assert cells == {"a": ["1", "7"], "b": ["2", "8"]}
    assert table.refused[0].count == 2 and table.refused[0].rows == (3, 4) and table.numbers.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (b" \n\n", "empty file"),
        ("a,b\nü,é\n".encode() + b"1,\xe9\n", r"byte 0xe9 at offset 12, line 3.*in UTF-8\.$"),  # UTF-8, but for one
        (b"a,b\n\x01\x02,\xe9\n", "byte 0xe9 at offset 7, line 2"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "not utf-16.*truncated"),
        (b"a,b\n1,\0\n", "zero byte at offset 6"),
        (b"a,a\n1,2\n", "name each column once"),
        (b'a,b\n1,"abc\n2,3\n', "from line 2"),
        (b'a,b\n1,2\n1,"abc"d\n', "from line 3"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(read, content, message):
    with pytest.raises(DataError, match=message):
        read(content)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_other_encodings_are_read_and_told(read, monkeypatch, encoding, packed):
    monkeypatch.setattr(delimited, "_CHUNK", 5)  # a letter of several bytes may lie in two pieces
    quote = "’" if encoding == "cp1252" else "'"
    content = f"name,price\r\nMüller{quote}s,3\r\nÉva,4\r\n".encode(encoding)
    table, cells = read(gzip.compress(content) if packed else content, "file.csv.gz" if packed else "file.csv")
    assert cells == {"name": [f"Müller{quote}s", "Éva"], "price": ["3", "4"]} and table.numbers.tolist() == [2, 3]
    assert table.notes == (f"the file is read as {encoding}",)


word = st.text(st.sampled_from("ab1.,;\"\n 'é"), max_size=5)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(word, word, st.just("x")), min_size=1, max_size=6))
def test_the_fast_reader_and_the_careful_one_agree(read, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("a", "b", "c"), *rows])
    quick, cells = read(text.getvalue())
    truth = {name: list(column) for name, column in zip("abc", zip(*rows))}
    assert cells == truth
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_fast", lambda *_: None)
        slow, again = read(text.getvalue())
    assert again == truth and slow.numbers.tolist() == quick.numbers.tolist()
