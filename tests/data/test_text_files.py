"""Which files hold text, how it is written, and where documents and pieces begin and end."""

from __future__ import annotations

import gzip
import json
import os
import threading

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.data import contents, load, reader_of, shards, text_files
from leadline.data.found_whole import Unusable
from leadline.data.text import text
from leadline.data.text_files import _parted, find_texts, holds_text, pattern_of, word_end
from leadline.errors import DataError
from leadline.text.tokenizer import Tokenizer


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache that keeps everything."""
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shards, "_SMALL", -1)
    monkeypatch.setattr(contents, "_QUICK", -1)
    return tmp_path / "cache" / "tokens"


def _read(corpus):
    """The documents of a corpus, whole."""
    found, parts = [], []
    for _, piece, last in corpus.pieces():
        parts.append(piece)
        if last:
            found.append("".join(parts))
            parts = []
    return found


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("naïve café – ☕".encode(), "utf-8"),
        (b"\xef\xbb\xbf" + "naïve".encode(), "utf-8-sig"),
        ("naïve ☕".encode("utf-16"), "utf-16"),
        (b"\xfe\xff" + "naïve".encode("utf-16-be"), "utf-16"),
        ("naïve".encode("utf-32"), "utf-32"),
        ("naïve".encode("latin-1"), "latin-1"),
        ("a “naïve” word".encode("cp1252"), "cp1252"),
    ],
)
def test_encodings_are_found_out(tmp_path, content, encoding):
    (tmp_path / "a.txt").write_bytes(content)
    corpus = find_texts(tmp_path)
    assert corpus.files[0].encoding == encoding
    assert _read(corpus) == [content.decode(encoding)] and corpus.sizes == (len(content.decode(encoding)),)
    assert (encoding in str(corpus.notes)) == (not encoding.startswith("utf-8"))


def test_bytes_that_are_wrong_late_in_a_file_are_found_too(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"word " * 200_000 + b"caf\xe9")
    assert find_texts(tmp_path).files[0].encoding == "latin-1"


def test_line_ends_become_one(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\rc\n")
    assert _read(find_texts(tmp_path)) == ["a\nb\nc\n"]


def test_what_is_no_text_is_refused_by_name_and_counted(tmp_path):
    (tmp_path / "b.txt").write_text("some text")
    (tmp_path / "a.md").write_text("more")
    (tmp_path / "deep/er").mkdir(parents=True)
    with gzip.open(tmp_path / "deep/er/c.txt.gz", "wt") as file:
        file.write("packed")
    (tmp_path / "half.txt.gz").write_bytes((tmp_path / "deep/er/c.txt.gz").read_bytes()[:-9])
    (tmp_path / "blank.txt").write_text(" \n ")
    (tmp_path / "model.bin").write_bytes(bytes(range(256)))
    (tmp_path / "paper.txt").write_bytes(b"%PDF-1.4 and so on")
    (tmp_path / ".hidden.txt").write_text("hidden")
    PIL.Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "p.png")
    corpus = find_texts(tmp_path)
    assert [file.name for file in corpus.files] == ["a.md", "b.txt", "deep/er/c.txt.gz"]
    assert _read(corpus) == ["more", "some text", "packed"] and corpus.read == 8
    told = str([(refusal.reason, refusal.count) for refusal in corpus.lost.refusals()])
    assert "is empty: blank.txt" in told and "is not text: model.bin, p.png, paper.txt" in told
    assert "half.txt.gz" in told and "1 hidden file left alone" in corpus.notes


@pytest.mark.parametrize("what", ["nothing", "binary", "pictures", "blank", "no", "file"])
def test_a_folder_without_text_is_refused(tmp_path, what):
    place = tmp_path / "books"
    place.mkdir()
    expected = {"nothing": "no files", "binary": "is not text: a.bin", "pictures": "ll.data.images"}
    expected |= {"blank": "is empty", "no": "no .*none", "file": "must hold text"}
    if what == "binary":
        (place / "a.bin").write_bytes(b"\0\1\2")
    if what == "pictures":
        (place / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    if what in ("blank", "file"):
        (place / "a.txt").write_text("")
    with pytest.raises(DataError, match=expected[what]):
        text({"no": tmp_path / "none", "file": place / "a.txt"}.get(what, place))


def test_which_folders_are_text(tmp_path):
    (tmp_path / "a").write_text("words")
    assert holds_text(tmp_path) and holds_text(tmp_path / "a")
    (tmp_path / "b.bin").write_bytes(b"\0")
    assert not holds_text(tmp_path) and not holds_text(tmp_path / "b.bin")
    (tmp_path / "c.txt").write_text("words")
    assert holds_text(tmp_path)
    (tmp_path / "d.png").touch()
    assert not holds_text(tmp_path)


@pytest.mark.parametrize(
    ("separator", "expected"),
    [
        ("\n\n+", ["One.\nTwo.", "Three.\n", "Four."]),
        ("^T", ["One.\n", "Two.\n\n", "Three.\n\n\nFour."]),
        ("(?=Four)", ["One.\nTwo.\n\nThree.\n\n\n", "Four."]),
        ("zebra", ["One.\nTwo.\n\nThree.\n\n\nFour."]),
    ],
)
def test_separators_part_documents(tmp_path, separator, expected):
    (tmp_path / "a.txt").write_text("One.\nTwo.\n\nThree.\n\n\nFour.")
    found = _read(find_texts(tmp_path, separator))
    assert [one.strip() for one in found] == [one.strip() for one in expected]


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="ab# \n", max_size=200), st.integers(1, 50), st.sampled_from(["\n\n", "^#", "#+"]))
def test_documents_do_not_depend_on_how_a_file_is_read(whole, size, separator):
    pattern = pattern_of(separator)
    chunks = [whole[k : k + size] for k in range(0, len(whole), size)]
    held, reach = text_files._HELD, text_files._REACH
    try:
        text_files._HELD, text_files._REACH = 10**9, 8
        found = list(_parted(iter(chunks), pattern))
    finally:
        text_files._HELD, text_files._REACH = held, reach
    assert found == list(_parted(iter([whole]), pattern)) and all(last for _, last in found)


def test_a_long_text_has_the_tokens_of_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "PIECE", 100)
    monkeypatch.setattr(text_files, "_CHUNK", 250)
    draw = np.random.default_rng(0)
    words = ["naïve", "don't", "it's", "(see", "9.5%)", "\n\n", "  ", "—", "tree", "☕", "\t", "a-b", "…"]
    whole = " ".join(draw.choice(words, 3000))
    (tmp_path / "a.txt").write_text(whole)
    pieces = [piece for _, piece, _ in find_texts(tmp_path).pieces()]
    assert "".join(pieces) == whole and max(map(len, pieces)) <= 100 and len(pieces) > 50
    for kind in ("bpe", "wordpiece", "unigram", "bytes", "characters"):
        tokenizer = Tokenizer.train([whole], kind, None if kind == "bytes" else 600)
        assert np.concatenate(tokenizer.encode_many(pieces)).tolist() == list(tokenizer.encode(whole)), kind


@given(st.text(alphabet="ab \n", min_size=1, max_size=50), st.integers(1, 50))
def test_words_are_cut_at_their_ends(whole, most):
    place = word_end(whole, min(most, len(whole)))
    assert 0 < place <= most
    if place < min(most, len(whole)):
        assert not whole[place - 1].isspace() and whole[place].isspace()


# the cache


def _books(tmp_path, count=6):
    place = tmp_path / "books"
    place.mkdir(exist_ok=True)
    for k in range(count):
        (place / f"{k}.txt").write_text(f"story {k} of a cat " * 30)
    return place


def test_the_second_time_no_file_is_opened(tmp_path, cache, monkeypatch):
    place = _books(tmp_path)
    fresh, first = (text(place, length=8, kind="bytes", cache=kept) for kept in (False, True))
    assert first.fingerprint == fresh.fingerprint and len(list(cache.iterdir())) == 1
    for module, name in ((text_files, "_opened"), (contents, "_bytes")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("a file was opened"))
    again = text(place, length=8, kind="bytes")
    assert again.fingerprint == fresh.fingerprint and str(again.account) == str(fresh.account)
    assert again.recipe == first.recipe


def test_writing_to_rows_leaves_the_file_alone(tmp_path, cache):
    place = _books(tmp_path)
    data = text(place, length=8, kind="bytes")
    before = data.train.x.clone()
    data.train.x.zero_()
    assert (text(place, length=8, kind="bytes").train.x == before).all()


def test_a_changed_file_is_another_entry(tmp_path, cache):
    place = _books(tmp_path)
    first = text(place, length=8, kind="bytes")
    (place / "2.txt").write_text("something else")
    assert text(place, length=8, kind="bytes").fingerprint != first.fingerprint and len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("whole", [True, False])
def test_files_that_were_only_touched_are_known(tmp_path, cache, monkeypatch, whole):
    place = _books(tmp_path) if whole else _books(tmp_path) / "3.txt"
    first = text(place, length=8, kind="bytes")
    for path in (tmp_path / "books").iterdir():
        os.utime(path, ns=(0, 0))
    with monkeypatch.context() as patched:
        patched.setattr(shards.Writer, "write", lambda *_: pytest.fail("a text was tokenised again"))
        assert text(place, length=8, kind="bytes").fingerprint == first.fingerprint
        patched.setattr(contents, "_bytes", lambda *_: pytest.fail("a file was opened again"))
        assert text(place, length=8, kind="bytes").fingerprint == first.fingerprint
    other = (tmp_path / "books" / "3.txt").read_text().replace("cat", "dog")  # of the same size
    (tmp_path / "books" / "3.txt").write_text(other)
    os.utime(tmp_path / "books" / "3.txt", ns=(1, 1))
    assert text(place, length=8, kind="bytes").fingerprint != first.fingerprint and len(list(cache.iterdir())) == 2


def test_a_file_that_changes_between_its_hash_and_its_tokens_is_said(tmp_path, cache, monkeypatch):
    place, before = _books(tmp_path), contents._bytes

    def changing(path):
        found = before(path)
        (place / "0.txt").write_text("another story")
        return found

    monkeypatch.setattr(contents, "_bytes", changing)
    with pytest.raises(DataError, match="must not change while they are read"):
        text(place, length=8, kind="bytes")
    assert not cache.exists() or not list(cache.glob("*/entry.json"))


@pytest.mark.parametrize("harm", ["cut", "flip", "json", "gone", "tokenizer", "format"])
def test_a_damaged_entry_is_made_again(tmp_path, cache, harm):
    place = _books(tmp_path)
    expected = text(place, length=8, kind="bytes").fingerprint
    (entry,) = cache.iterdir()
    path = entry / "train.bin"
    content = path.read_bytes()
    if harm == "cut":
        path.write_bytes(content[:-2])
    elif harm == "flip":
        path.write_bytes(content[:40] + bytes([content[40] ^ 255]) + content[41:])
    elif harm == "json":
        (entry / "entry.json").write_text("{")
    elif harm == "gone":
        path.unlink()
    elif harm == "tokenizer":
        (entry / "tokenizer.json").write_text("{}")
    else:
        told = json.loads((entry / "entry.json").read_text())
        (entry / "entry.json").write_text(json.dumps({**told, "format": 0}))
    with pytest.raises(Unusable):
        shards.stored(entry.name)
    assert text(place, length=8, kind="bytes").fingerprint == expected
    assert len(list(cache.iterdir())) == 1 and shards.stored(entry.name)


def test_an_entry_that_another_process_made_meanwhile_stays(tmp_path, cache, monkeypatch):
    place = _books(tmp_path)
    read, met = shards.stored, []

    def late(key):  # looks before the other is done
        met.append(key)
        if len(met) > 1:
            return read(key)
        monkeypatch.setattr(shards, "stored", read)
        expected.append(text(place, length=8, kind="bytes").fingerprint)
        expected.append(next(cache.iterdir()).stat().st_ino)
        monkeypatch.setattr(shards, "stored", late)
        raise Unusable

    expected: list[object] = []
    monkeypatch.setattr(shards, "stored", late)
    data = text(place, length=8, kind="bytes")
    assert [data.fingerprint, next(cache.iterdir()).stat().st_ino] == expected and len(list(cache.iterdir())) == 1


def test_an_entry_that_cannot_be_read_back_is_said(tmp_path, cache, monkeypatch):
    def unusable(key):
        raise Unusable

    monkeypatch.setattr(shards, "stored", unusable)
    with pytest.raises(DataError, match="must be read back"):
        text(_books(tmp_path), length=8, kind="bytes")


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where a folder should be")
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shards, "_SMALL", -1)
    assert len(text(_books(tmp_path), length=8, kind="bytes").train)


def test_a_full_disk_is_said(tmp_path, cache, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards.os, "fsync", full)
    with pytest.raises(DataError, match="the disk must have room for the tokens. Got No space left"):
        text(_books(tmp_path), length=8, kind="bytes")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("how", ["gone", "longer", "shorter"])
def test_a_file_that_changes_while_it_is_read_is_said(tmp_path, how):
    place = _books(tmp_path)
    corpus = find_texts(place)
    path = place / "3.txt"
    path.unlink() if how == "gone" else path.write_text("x" * (10_000 if how == "longer" else 3))
    with pytest.raises(DataError, match="must not change while they are read"):
        list(corpus.pieces())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_a_folder_is_refused_unopened(tmp_path):
    """Reading one waits until something is written to it, which may be never."""
    (tmp_path / "a.txt").write_text("Some text.")
    opened = []

    def write(pipe):  # whoever reads is let go
        while True:
            with open(pipe, "wb"):
                opened.append(pipe)

    for name in ("pipe.txt", "pipe.png"):
        os.mkfifo(tmp_path / name)
        threading.Thread(target=write, args=(tmp_path / name,), daemon=True).start()
    corpus = find_texts(tmp_path)
    assert not opened and _read(corpus) == ["Some text."]
    assert dict(corpus.lost.names) == {"is not a regular file": ["pipe.png", "pipe.txt"]}
    assert reader_of(tmp_path) == "text"


def test_a_few_pictures_and_tables_leave_a_folder_of_text_what_it_is(tmp_path):
    for k in range(6):
        (tmp_path / f"{k}.txt").write_text("Some text. " * 20)
    for name in ("cover.png", "maps/north.png", "plans/house.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        PIL.Image.new("L", (4, 4)).save(tmp_path / name)
    (tmp_path / "words.csv").write_text("a,b\n1,2\n")
    assert reader_of(tmp_path) == "text"
    for name in ("maps/south.png", "plans/garden.png"):  # too many for a book
        PIL.Image.new("L", (4, 4)).save(tmp_path / name)
    assert reader_of(tmp_path) == "images"


def test_texts_that_are_called_as_pictures_go_with_them(tmp_path):
    for k in range(8):
        (tmp_path / f"{k}.txt").write_text("A caption.")
    (tmp_path / "photos").mkdir()
    PIL.Image.new("L", (4, 4)).save(tmp_path / "photos" / "3.png")
    assert reader_of(tmp_path) == "images"


def test_tables_with_a_page_about_them_are_tables(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    (tmp_path / "README.md").write_text("What the columns mean. " * 20)
    assert reader_of(tmp_path) == "table"


def test_a_link_to_nowhere_is_told_as_one(tmp_path):
    (tmp_path / "book.txt").symlink_to("gone.txt")
    with pytest.raises(DataError, match="book.txt, a link to gone.txt, where nothing is. Name the file itself"):
        text(tmp_path / "book.txt")
    (tmp_path / "a.csv").symlink_to("gone.csv")
    with pytest.raises(DataError, match="a.csv, a link to gone.csv, where nothing is. Name the file itself"):
        load(tmp_path / "a.csv", target="y")
