"""Text of one's own: documents, splits, rows, what is asked, what is told, and the same again from a recipe."""

from __future__ import annotations

import dataclasses
import re
import resource
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.data.held_out import Held, _Blocks
from leadline.data.shards import rows_of
from leadline.data.text import text
from leadline.data.tokens import NOTHING, Tokens, _unpacked, fitted, padded
from leadline.errors import DataError, UnknownName, UserError
from leadline.models import build
from leadline.text.tokenizer import Tokenizer

WORDS = ("the", "a", "cat", "dog", "sat", "on", "under", "mat", "tree", "river", "ran", "and", "then", "slept")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def words():
    return Tokenizer.train(
        [_story(k) for k in range(20)],
        kind="bpe",
        num_tokens=400,
        specials=("<pad>", "<end>", "<start>", "<cls>", "<sep>", "<mask>"),
    )


def _story(seed, count=120):
    draw = np.random.default_rng(seed)
    return " ".join(draw.choice(WORDS, count)) + ".\n"


def _folder(place, count=20):
    place.mkdir(exist_ok=True)
    for k in range(count):
        (place / f"{k:02}.txt").write_text(f"Story {k}: {_story(k)}")
    return place


def _stream(split, inputs):
    """The tokens of a split, one after the other, without what pads it."""
    stream = inputs.encode(split.x).flatten()
    return stream[: int((split.y != NOTHING).sum())]


def test_rows_are_views_of_one_stream_shifted_by_one(tmp_path, words):
    data = text(_folder(tmp_path / "books"), tokenizer=words, length=16)
    x, y = data.train.x, data.train.y
    assert x.dtype == torch.int16 and x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert torch.equal(x.flatten()[1:], y.flatten()[:-1])
    asked = _unpacked(y, NOTHING)
    assert (asked[:-1] >= 0).all() and data.target.scale[0] == pytest.approx(float((asked >= 0).sum(1).double().mean()))
    read, wanted = data.asked(torch.arange(len(x)))
    assert read.dtype == wanted.dtype == torch.int64 and int(read.min()) >= 0 and torch.equal(wanted, asked)


def test_the_stream_is_every_document_closed_by_end(tmp_path, words):
    folder = _folder(tmp_path / "books")
    data = text(folder, tokenizer=words, length=16)
    stories = [path.read_text() for path in sorted(folder.iterdir())]
    found = []
    for _, split in data.splits():
        tokens = [*_stream(split, data.inputs).tolist(), words.end]  # the last is asked for, never read
        ends = [k for k, token in enumerate(tokens) if token == words.end]
        parts = [tokens[a + 1 : b] for a, b in zip([-1, *ends], ends)]
        found += [words.decode(part) for part in parts if part]
    assert sorted(found) == sorted(stories)


def test_whole_documents_are_held_out(tmp_path, words):
    data = text(_folder(tmp_path / "books"), tokenizer=words, length=16, val=0.2, test=0.2)
    seen = {}
    for name, split in data.splits():
        whole = " ".join(data.inputs.decode(split.x.reshape(1, -1)))
        seen[name] = {k for k in range(20) if f"Story {k}:" in whole}
    assert set.union(*seen.values()) == set(range(20)) and sum(map(len, seen.values())) == 20
    assert 3 <= len(seen["val"]) <= 5 and 3 <= len(seen["test"]) <= 5


def test_every_kth_document_is_test_and_the_one_before_it_val(tmp_path, words):
    data = text(_folder(tmp_path / "books"), tokenizer=words, length=16, every=5)
    val, test = (" ".join(data.inputs.decode(split.x.reshape(1, -1))) for split in (data.val, data.test))
    assert [k for k in range(20) if f"Story {k}:" in test] == [4, 9, 14, 19]
    assert [k for k in range(20) if f"Story {k}:" in val] == [3, 8, 13, 18]
    assert "by place" in str(data.account)


def test_one_document_is_held_out_in_blocks_that_tile_it(tmp_path, words):
    path = tmp_path / "book.txt"
    path.write_text(_story(1, 5000))
    data = text(path, tokenizer=words, length=32)
    total = sum(len(words.encode(part)) for part in [path.read_text()])
    tokens = sum(len(_stream(split, data.inputs)) + 1 for _, split in data.splits())
    runs = 3 + 1  # blocks of val and test, and what lies before, between and behind them
    assert 0 <= tokens - total <= runs + 2
    assert len(data.val) and len(data.test) and "blocks of one document" in str(data.account)


@pytest.mark.parametrize("count", [20, 300])  # by size, and by number
def test_equal_documents_fall_in_one_split_and_the_account_tells_it(tmp_path, words, count):
    folder = tmp_path / "books"
    folder.mkdir()
    for k in range(count):
        (folder / f"{k:03}.txt").write_text(f"{k % (count // 2):03} is here. " * 9 + "\n" * (k >= count // 2))
    (folder / "link.txt").symlink_to(folder / "000.txt")
    data = text(folder, tokenizer=words, length=16, val=0.2, test=0.2, cache=False)
    named = [set(re.findall(r"\d{3}(?= is here)", "".join(data.inputs.decode(split.x)))) for _, split in data.splits()]
    assert all(named) and len(set.union(*named)) == count // 2
    assert not (named[0] & named[1] or named[0] & named[2] or named[1] & named[2])
    told = f"{count // 2 + 1} documents repeat another, but for white space: equal ones are in the same split"
    assert told in str(data.account)


def test_equal_documents_of_several_splits_are_told(tmp_path, words):
    folder = tmp_path / "books"
    folder.mkdir()
    for k in range(12):
        (folder / f"{k:02}.txt").write_text(_story(k % 2, 40))
    for options in ({}, {"every": 4}):  # too few texts to draw from, and by place
        told = str(text(folder, tokenizer=words, length=16, cache=False, **options).account)
        assert "10 documents repeat another, but for white space: equal ones can be in several splits" in told
    rows = tmp_path / "rows.csv"
    rows.write_text("text\n" + "".join(f"{_story(k % 9, 12)}\n" for k in range(18)))
    assert "9 documents repeat another" in str(text(rows, tokenizer=words, length=8, cache=False).account)


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="ab \n", min_size=1, max_size=300), st.integers(1, 40))
def test_blocks_lose_nothing(whole, size):
    plan = _Blocks(Held(0.1, 0.1).blocks(len(whole)), len(whole))
    pieces = [whole[k : k + size] for k in range(0, len(whole), size)]
    found = [one for k, piece in enumerate(pieces) for one in plan.cut(piece, k == len(pieces) - 1)]
    assert "".join(piece for _, piece, _ in found) == whole and found[-1][2]
    for (here, _, closed), (after, _, _) in pairwise(found):
        assert closed == (here != after)


def test_blocks_are_evenly_spaced():
    parts = Held(0.1, 0.1).blocks(10**6)
    assert len(parts) == 100 and parts.count(1) == parts.count(2) == 10
    assert np.ptp(np.diff([k for k, part in enumerate(parts) if part])) <= 1


def test_lengths_share_a_cache_and_tails_are_padded(tmp_path, words, monkeypatch):
    monkeypatch.setattr("leadline.data.shards._SMALL", 0)
    folder = _folder(tmp_path / "books")
    short, long = (text(folder, tokenizer=words, length=length) for length in (8, 50))
    assert torch.equal(_stream(short.train, short.inputs), _stream(long.train, long.inputs))
    assert len(list((tmp_path / "cache/tokens").iterdir())) == 1 and short.fingerprint != long.fingerprint
    tail = long.test.y[-1]
    asked = int((tail != NOTHING).sum())
    assert (tail[asked:] == NOTHING).all() and (long.inputs.encode(long.test.x[-1:])[0, asked + 1 :] == words.pad).all()


def test_what_slow_tokenising_took_is_told_once(tmp_path, words, monkeypatch, capsys):
    folder = _folder(tmp_path / "books")
    text(folder, tokenizer=words, length=8)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("leadline.data.shards._SLOW", 0.0)
    text(folder, tokenizer=words, length=8)
    told = re.fullmatch(
        r"books: 0 MB of text tokenised in \d+ s, in a process of at most (\S+) GB of memory\n", capsys.readouterr().err
    )
    assert float(told[1]) == pytest.approx(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, abs=0.01)
    text(folder, tokenizer=words, length=8)
    assert capsys.readouterr().err == ""  # of the cache


@given(st.integers(1, 60), st.integers(2, 17), st.booleans())
def test_rows_of_a_stream(count, length, shifted):
    stream = torch.cat([torch.arange(5, 5 + count), torch.full((length + 1,), NOTHING)])
    x, y = rows_of(stream, count, length, shifted)
    asked = y[y != NOTHING]
    assert asked.tolist() == list(range(5 + shifted, 5 + count)) and x.shape == y.shape
    assert len(x) == 0 or (y[-1] != NOTHING).any()


def test_the_recipe_gives_the_same_again(tmp_path, words):
    folder = _folder(tmp_path / "books")
    for tokenizer in (None, words):
        data = text(folder, length=16, tokenizer=tokenizer)
        again = text(**data.recipe["options"])
        assert again.fingerprint == data.fingerprint and again.recipe == data.recipe
    words.save(tmp_path / "words.json")
    assert text(folder, length=16, tokenizer=tmp_path / "words.json").fingerprint == data.fingerprint


def test_equal_text_elsewhere_has_an_equal_fingerprint_and_other_text_another(tmp_path, words):
    first = text(_folder(tmp_path / "a"), tokenizer=words, length=16)
    second = text(_folder(tmp_path / "b"), tokenizer=words, length=16)
    assert first.fingerprint == second.fingerprint
    (tmp_path / "b/03.txt").write_text("something else")
    assert text(tmp_path / "b", tokenizer=words, length=16).fingerprint != first.fingerprint


def test_a_changed_split_has_no_known_hash(tmp_path, words):
    data = text(_folder(tmp_path / "books"), tokenizer=words, length=16)
    changed = dataclasses.replace(data.train, y=torch.full_like(data.train.y, 7))
    assert data.train.digest and changed.digest is None and data.train.take(torch.arange(3)).digest is None
    assert data.with_(train=changed).fingerprint != data.fingerprint


def test_the_tokenizer_is_trained_on_training_documents_alone(tmp_path):
    folder = _folder(tmp_path / "books")
    sizes = [len(path.read_text()) for path in sorted(folder.iterdir())]
    held = [k for k, part in enumerate(Held(0.05, 0.05).documents(sizes, list(map(bytes, range(len(sizes)))))) if part]
    before = text(folder, length=16, num_tokens=300).inputs.tokenizer.to_json()
    for k in held:
        (folder / f"{k:02}.txt").write_text(("zq" * sizes[k])[: sizes[k]])
    assert text(folder, length=16, num_tokens=300).inputs.tokenizer.to_json() == before


def test_big_vocabularies_are_read_without_a_sign():
    x = padded([[40_000, 65_534], [3]], 2, 65_535)
    assert x.dtype == torch.int16 and _unpacked(x, 0).tolist() == [[40_000, 65_534], [3, 0]]
    assert padded([[70_000]], 2, 80_000).tolist() == [[70_000, -1]]


# masked words


def test_masking_is_a_function_of_key_and_place(words):
    inputs = Tokens("masked", 64, words)
    x = torch.randint(10, words.num_tokens, (200, 64))
    x[:, 60:] = words.pad
    x[:, 30] = words.end
    keys = torch.arange(200) * 7919
    read, asked = inputs.drawn(x, x.clone(), keys)
    chosen = asked != NOTHING
    assert torch.equal(asked[chosen], x[chosen]) and torch.equal(read[~chosen], x[~chosen])
    assert not chosen[:, 60:].any() and not chosen[:, 30].any()
    assert chosen.sum(1).tolist() == [9] * 200  # 0.15 · 59, rounded
    assert float(chosen[:, :30].double().mean(0).min()) > 0.05 and float(chosen.double().mean(0).max()) < 0.27
    hidden, kept = (read == words.mask)[chosen].double().mean(), (read == x)[chosen].double().mean()
    assert float(hidden) == pytest.approx(0.8, abs=0.035) and float(kept) == pytest.approx(0.1, abs=0.03)
    others = read[chosen & (read != words.mask) & (read != x)]
    assert (others > 5).all() and len(others.unique()) > 50
    again = inputs.drawn(x[50:60, :60], x[50:60, :60], keys[50:60])  # neither batch mates nor padding count
    assert torch.equal(again[0], read[50:60, :60]) and torch.equal(again[1], asked[50:60, :60])
    assert not torch.equal(inputs.drawn(x, x, keys + 1)[1], asked)


def test_a_prediction_is_not_masked_and_the_name_of_the_mask_is_the_mask(words):
    inputs = Tokens("masked", 64, words)
    x = inputs.encode(inputs.read([f"the cat {words.token(words.mask)} on a mat", "<end> is text"]))
    assert int((x == words.mask).sum()) == 1 and not (x == words.end).any()
    same, _ = inputs.drawn(x, torch.zeros(2), torch.arange(2))
    assert torch.equal(same, x)
    with pytest.raises(UserError, match="keys"):
        inputs.drawn(x, x, None)


def test_masked_data_ask_for_what_was_hidden(tmp_path, words):
    data = text(_folder(tmp_path / "books"), tokenizer=words, length=16, task="masked")
    assert data.inputs.draws and data.train.x.data_ptr() == data.train.y.data_ptr()
    x, y = data.asked(torch.arange(len(data.train)))
    assert 0.05 < float((y != NOTHING).double().mean()) < 0.25 and (x == words.mask).any()
    assert data.target.scale[0] == pytest.approx(float((y != NOTHING).sum(1).double().mean()), rel=0.2)
    assert int((y != NOTHING).sum(1).max()) == data.target.most == 2  # 0.15 · 16, rounded


# reading rows


def test_read_makes_rows_of_texts_and_tokens(words):
    inputs = Tokens("next", 16, words)
    rows = inputs.read(["the cat", "a mat and a dog"])
    assert inputs.decode(rows) == ["the cat", "a mat and a dog"] and torch.equal(inputs.read("the cat"), rows[:1, :2])
    assert torch.equal(inputs.read(torch.tensor([[5, 6]])), torch.tensor([[5, 6]]))
    assert inputs.read([[5, 6], [7, 8]]).shape == (2, 2)
    assert inputs.decode(inputs.read([{"text": "the cat"}])) == ["the cat"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["the cat " * 40], "1 to 16 tokens"),
        ([""], "1 to 16 tokens"),
        ([], "rows to read"),
        ([[5, 10**6]], "must lie in"),
        (torch.rand(2, 3), "whole numbers"),
        ([3.5, "a"], "must be texts"),
        ([{"words": "a"}], "'text'"),
    ],
)
def test_read_refuses(words, rows, message):
    with pytest.raises(UserError, match=message):
        Tokens("next", 16, words).read(rows)


def test_inputs_are_rebuilt_from_their_config_and_what_is_attached(words):
    inputs = Tokens("next", 16, words, names=("a",))
    config = {name: value for name, value in inputs.config.items() if name != "tokenizer"}
    again = Tokens(**config, tokenizer=inputs.attachments()["tokenizer.json"])
    assert again.config == inputs.config and torch.equal(again.read("a cat sat"), inputs.read("a cat sat"))
    assert inputs.sizes((16,)) == {
        "num_tokens": words.num_tokens,
        "length": 16,
        "pad": 0,
        "start": words.start,
        "end": words.end,
        "sep": words.sep,
    }
    assert inputs.room((16,)) == 16 * words.num_tokens * 4


@given(st.lists(st.integers(0, 50), min_size=1, max_size=2), st.integers(4, 60), st.booleans())
def test_what_is_cut_fits_and_nothing_else_is_cut(lengths, room, last):
    kept = fitted(lengths, room, last)
    assert sum(kept) == min(sum(lengths), room) and all(0 <= k <= n for k, n in zip(kept, lengths))
    if last and len(lengths) == 2 and lengths[0] < room:
        assert kept[0] == lengths[0]


# refusals


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"task": "nxt"}, UnknownName, "next"),
        ({"length": 1}, UserError, "length must be a whole number from 2"),
        ({"length": 60_000}, DataError, "shorter than the training text"),
        ({"every": 2}, UserError, "every"),
        ({"val": 0.6, "test": 0.6}, UserError, "fractions"),
        ({"separator": "("}, UserError, "regular expression"),
        ({"target": "y"}, DataError, "columns need a table"),
        ({"task": "pairs"}, DataError, "needs a table"),
        ({"tokenizer": 3}, DataError, "tokenizer must be"),
        ({"tokenizer": "no.json"}, DataError, "file that is there"),
        ({"lenght": 8}, UnknownName, "length"),
    ],
)
def test_options_are_refused_by_name(tmp_path, options, kind, message):
    options = {"kind": "bytes", **options}
    with pytest.raises(kind, match=message):
        text(_folder(tmp_path / "books", 4), **options)


def test_a_tokenizer_must_have_what_the_task_needs(tmp_path):
    plain = Tokenizer.train([_story(1)], kind="bpe", num_tokens=300, specials=("<pad>", "<end>"))
    with pytest.raises(DataError, match="without mask"):
        text(_folder(tmp_path / "books"), task="masked", tokenizer=plain)


def test_documents_are_closed_by_sep_where_there_is_no_end(tmp_path):
    bert = Tokenizer.train([_story(1)], num_tokens=300, specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    data = text(_folder(tmp_path / "books"), task="masked", tokenizer=bert, length=16)
    assert int((data.train.x == bert.sep).sum()) == 18
    bare = Tokenizer.train([_story(1)], num_tokens=300, specials=("[PAD]", "[UNK]", "[MASK]"))
    with pytest.raises(DataError, match="without end"):
        text(tmp_path / "books", task="masked", tokenizer=bare, length=16)


def test_a_tokenizer_whose_numbers_do_not_fit_is_refused(tmp_path, words, monkeypatch):
    monkeypatch.setattr(type(words), "encode_many", lambda self, texts: [np.array([self.num_tokens]) for _ in texts])
    with pytest.raises(DataError, match="numbers below that"):
        text(_folder(tmp_path / "books"), tokenizer=words, length=8)


def test_more_words_may_be_hidden_and_a_model_begins_with_how_frequent_words_are(tmp_path, words):
    folder = _folder(tmp_path / "books")
    data = text(folder, tokenizer=words, length=16, task="masked", p_hidden=0.5)
    _, y = data.asked(torch.arange(len(data.train)))
    assert int((y != NOTHING).sum(1).max()) == data.target.most == 8
    model = build("BERT", data, data.target.dim, dim=16, num_layers=1, num_heads=2)
    seen = data.inputs.encode(data.train.x)
    counts = torch.bincount(seen[:-1].flatten(), minlength=words.num_tokens)  # the last row may be padded
    assert model.bias.exp().sum().item() == pytest.approx(1, abs=1e-4)
    assert int(model.bias.argmax()) == int(counts.argmax())
    with pytest.raises(UserError, match="masked"):
        text(folder, tokenizer=words, p_hidden=0.5)
    with pytest.raises(UserError, match="p_hidden"):
        text(folder, tokenizer=words, task="masked", p_hidden=0)


@pytest.mark.parametrize("n, every", [(10, 4), (12, 3), (7, 5)])
def test_every_kth_row_tests_the_one_before_validates_and_no_other_does(n, every):
    train, val, test = (rows.tolist() for rows in Held(0.1, 0.1, every=every).rows(n))
    assert test == list(range(every - 1, n, every)) and val == list(range(every - 2, n, every))
    assert train == [k for k in range(n) if k not in {*val, *test}]
