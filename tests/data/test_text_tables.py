"""Tables of text: classes, numbers, pairs, spans and tags; what is cut, refused and kept together."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import leadline as ll
from leadline.cli import main
from leadline.data import load, reader_by
from leadline.data.tagged_rows import holds_sentences
from leadline.data.text import text
from leadline.data.text_rows import _two_columns, holds_pairs
from leadline.data.tokens import NOTHING, Tokens
from leadline.errors import DataError, UserError
from leadline.text.tokenizer import Tokenizer

WORDS = ("the", "a", "cat", "dog", "sat", "on", "under", "mat", "tree", "river", "ran", "and", "then", "slept")
SPECIALS = ("<pad>", "<end>", "<start>", "<cls>", "<sep>", "<mask>")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def words():
    return Tokenizer.train([_line(k, 50) for k in range(20)], kind="bpe", num_tokens=400, specials=SPECIALS)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_are_read_and_told(tmp_path, words, encoding):
    lines = [f"café {_line(k)}" for k in range(12)]
    files = {
        "named.csv": "review,mood\n" + "".join(f"{line},{k % 2}\n" for k, line in enumerate(lines)),
        "plain.tsv": "".join(f"{line}\t{line}\n" for line in lines),
        "named.jsonl": "".join(f'{{"review": "{line}", "mood": {k % 2}}}\n' for k, line in enumerate(lines)),
        "tags.txt": "".join(f"café A\n{line.split()[1]} B\n\n" for line in lines),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode(encoding))
        how = {"text": "review", "target": "mood"} if "named" in name else {"task": "tags" if "tags" in name else None}
        data = text(tmp_path / name, tokenizer=words, length=64, **how)
        assert f"read as {encoding}" in str(data.account)
        assert "café" in (data.inputs.decode_sources if "plain" in name else data.inputs.decode)(data.train.x)[0]


def _line(seed, count=6):
    return " ".join(np.random.default_rng(seed).choice(WORDS, count))


def _csv(tmp_path, count=40):
    path = tmp_path / "reviews.csv"
    rows = [f'"{_line(k, 3 + k % 7)}",{("bad", "good")[k % 2]},{k % 5 + 0.5}' for k in range(count)]
    path.write_text("\n".join(["review,mood,stars", *rows]))
    return path


def test_classes(tmp_path, words):
    data = text(_csv(tmp_path), text="review", target="mood", tokenizer=words)
    assert data.target.kind == "binary" and data.target.classes == ("bad", "good") and len(data.train) == 32
    x = data.inputs.encode(data.train.x)
    assert (x[:, 0] == words.cls).all() and (x == words.sep).sum(1).eq(1).all() and data.train.y.shape == (32,)
    lines = (_csv(tmp_path).read_text()).splitlines()
    for k in range(3):
        line = lines[int(data.train.rows[k]) - 1]
        assert words.decode(x[k][x[k] > max(words.cls, words.sep, words.mask)].tolist()) == line.split('"')[1]
    assert data.inputs.sizes(tuple(x.shape[1:]))["length"] == x.shape[1] and "mood" in str(data.account)
    assert text(**data.recipe["options"]).fingerprint == data.fingerprint


def test_numbers(tmp_path, words):
    data = text(_csv(tmp_path), text="review", target="stars", tokenizer=words)
    assert data.target.kind == "real" and data.target.shift[0] == pytest.approx(2.5, abs=0.5)


def test_two_columns_of_text_stand_one_behind_the_other(tmp_path, words):
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps({"a": _line(k), "b": _line(-k % 97), "same": k % 3}) for k in range(30)))
    data = text(path, text=["a", "b"], target="same", tokenizer=words)
    x = data.inputs.encode(data.train.x)
    assert data.target.kind == "classes" and (x == words.sep).sum(1).eq(2).all()
    assert torch.equal(data.inputs.read([(_line(3), _line(94))]), data.inputs.read([{"a": _line(3), "b": _line(94)}]))
    with pytest.raises(UserError, match="same number of texts"):
        data.inputs.read(["one", ("one", "two")])


def test_long_rows_are_cut_and_counted(tmp_path, words):
    data = text(_csv(tmp_path), text="review", target="mood", tokenizer=words, length=6)
    x = data.inputs.encode(torch.cat([split.x for _, split in data.splits()]))
    assert x.shape[1] == 6 and (x == words.sep).any(1).all() and "cut to 6 tokens" in str(data.account)


def test_rows_without_text_or_target_are_refused(tmp_path, words):
    path = _csv(tmp_path)
    path.write_text(path.read_text() + '\n"",good,1\n"a cat",,2')
    account = text(path, text="review", target="mood", tokenizer=words).account
    assert account.read == 42 and account.used == 40 and "review is empty" in str(account)
    assert "mood, the target, is missing (line 43)" in str(account)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "reveiw", "target": "mood"}, "review"),
        ({"text": "review", "target": "mod"}, "Did you mean mood\\? If the first line is a row"),
        ({"text": "review", "target": "zzz"}, "Known: mood, review, stars. If the first line is a row"),
        ({"text": "review", "target": "mood", "task": "next"}, "text alone, .* target='mood'.* task=\"classes\" to"),
        (
            {"source": "review", "target": "mood", "task": "masked"},
            "a run on masked reads text alone.* source='review'.* task=\"pairs\" to",
        ),
        ({}, "told its columns. Got none named, of review, mood, stars. Name them, such as text='review' and target="),
        ({"task": "pairs", "source": "review"}, "target must name"),
        ({"task": "spans"}, "text must name|two columns"),
        ({"text": ["review", "mood", "stars"], "target": "mood"}, "one column or two"),
        ({"text": ["review", "mood"], "target": "mood"}, "must not be one of the texts"),
    ],
)
def test_columns_are_refused_by_name(tmp_path, words, options, message):
    with pytest.raises(UserError, match=message):
        text(_csv(tmp_path), tokenizer=words, **options)


def test_a_column_of_text_alone_is_documents(tmp_path, words):
    data = text(_csv(tmp_path), text="review", tokenizer=words, length=8)
    assert data.target.kind == "tokens" and data.train.x.shape[1] == 8 and "40 documents" in str(data.account)
    path = tmp_path / "docs.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(json.dumps({"text": _line(k)}) for k in range(30)) + "\n\n")
    assert "30 documents" in str(text(path, tokenizer=words, length=8).account)


@pytest.mark.parametrize("options", [{"task": "pairs"}, {"source": "column_1", "target": "column_2"}])
def test_pairs_in_a_file_that_is_called_txt_are_told_what_to_call_it(tmp_path, words, options):
    place = _tsv(tmp_path).rename(tmp_path / "fra.txt")  # as they come from manythings.org
    with pytest.raises(
        DataError, match=r"Got fra\.txt\. If a tab parts the columns of its lines, call it fra\.tsv; else"
    ):
        text(place, tokenizer=words, **options)


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_pairs_that_nothing_parts_are_told(tmp_path, words, ending):
    (tmp_path / f"a.{ending}").write_text("\n".join(f"{_line(k)}    {_line(k + 500)}" for k in range(20)) + "\n")
    with pytest.raises(DataError, match=r"two columns.* Got one, '.*'\. Part the two by a tab in a \.tsv"):
        text(tmp_path / f"a.{ending}", task="pairs", tokenizer=words)


def _tsv(tmp_path, name="eng-fra.tsv", count=40):
    path = tmp_path / name
    content = "\n".join(f'{_line(k)}.\t"{_line(k + 500, 4 + k % 5)}' for k in range(count))
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


@pytest.mark.parametrize("name", ["eng-fra.tsv", "eng-fra.tsv.gz"])
def test_two_columns_without_names_are_pairs(tmp_path, words, name):
    data = text(_tsv(tmp_path, name), tokenizer=words)
    S, T = data.inputs.len_source, data.inputs.length
    x, y = data.asked(torch.arange(len(data.train)))
    assert x.shape[1] == S + T and y.shape[1] == T and (x[:, S] == words.start).all()
    told = data.inputs.sizes((S + T,))
    assert told["len_source"] == S and told["length"] == T and "source and target" in str(data.account)
    for row, answer, line in zip(x, y, data.train.rows.tolist()):
        source, target = row[:S], answer[answer != NOTHING]
        assert int(target[-1]) == words.end and torch.equal(row[S + 1 : S + len(target)], target[:-1])
        assert words.decode(source[source != words.pad].tolist()) == _line(line - 1) + "."
        assert words.decode(target[:-1].tolist()) == f'"{_line(line + 499, 4 + (line - 1) % 5)}'
    assert data.target.scale[0] == pytest.approx(float((y != NOTHING).sum(1).double().mean()))


def test_columns_behind_a_pair_are_told(tmp_path, words):
    for further, told in ((0, ""), (1, "1 further column left out"), (2, "2 further columns left out")):
        lines = [f"{_line(k)}\t{_line(k + 99)}" + "\tx" * (further if k == 3 else 0) for k in range(30)]
        (tmp_path / f"{further}.tsv").write_text("\n".join(lines))
        account = str(text(tmp_path / f"{further}.tsv", tokenizer=words, cache=False).account)
        assert told in account and ("further" in account) == bool(told)


def test_empty_lines_between_pairs_are_told(tmp_path, words):
    pairs = [f"{_line(k)}\t{_line(k + 99)}" for k in range(30)]
    for lines, told in ((pairs, ""), ([*pairs[:9], "", *pairs[9:], "", ""], "1 empty line left out (line 10)")):
        (tmp_path / "pairs.tsv").write_text("\n".join(lines))
        account = str(text(tmp_path / "pairs.tsv", tokenizer=words, cache=False).account)
        assert told in account and ("empty line" in account) == bool(told)


def test_named_pairs_read_and_cut(tmp_path, words):
    path = tmp_path / "pairs.csv"
    path.write_text("id,en,fr\n" + "\n".join(f"{k},{_line(k)},{_line(k + 99)}" for k in range(30)))
    data = text(path, source="en", target="fr", tokenizer=words, length=5)
    assert data.inputs.len_source == 5 and data.train.y.shape[1] == 5 and "cut to 5 tokens" in str(data.account)
    rows = data.inputs.encode(data.inputs.read(["the cat", "a dog sat"]))
    assert rows.shape == (2, 6) and (rows[:, 5] == words.start).all()
    begun = data.inputs.encode(data.inputs.read([("the cat", "a dog")]))
    assert begun.shape == (1, 8) and words.decode(begun[0, 6:].tolist()) == "a dog"


def test_equal_sources_stay_in_one_split(tmp_path, words):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(f"{_line(k // 4)}.\t{_line(k + 500)}" for k in range(80)))
    data = text(path, tokenizer=words, val=0.2, test=0.2)
    sources = [{tuple(row) for row in split.x[:, : data.inputs.len_source].tolist()} for _, split in data.splits()]
    assert len(sources) == 3 and sum(map(len, sources)) == len(set.union(*sources)) == 20


def test_equal_texts_of_classes_stay_in_one_split_which_are_still_stratified(tmp_path, words):
    path = tmp_path / "repeated.csv"
    lines = [f"{_line(k % 40)},{'good' if k % 40 < 8 else 'bad'}" for k in range(200)]
    path.write_text("review,mood\n" + "\n".join(lines))
    data = text(path, text="review", target="mood", tokenizer=words)
    train, val, test = (set(map(tuple, split.x.tolist())) for _, split in data.splits())
    assert not train & val and not train & test and not val & test and len(train | val | test) == 40
    assert sum(len(split) for _, split in data.splits()) == 200
    assert all(0.1 < float((split.y == 1).double().mean()) < 0.4 for _, split in data.splits())
    assert "160 rows repeat a text: equal ones are in the same split" in str(data.account)


@pytest.mark.parametrize("how", [{}, {"every": 5}])
def test_equal_texts_of_several_splits_are_told(tmp_path, words, how):
    path = tmp_path / "repeated.csv"
    kinds = 20 if how else 2
    lines = [f"{_line(k % kinds)},{'good' if k % 2 else 'bad'}" for k in range(40)]
    path.write_text("review,mood\n" + "\n".join(lines))
    data = text(path, text="review", target="mood", tokenizer=words, **how)
    assert f"{40 - kinds} rows repeat a text: equal ones can be in several splits" in str(data.account)


@pytest.mark.parametrize(("name", "sign"), [("sms.tsv", "\t"), ("sms.csv", ",")])
def test_a_file_without_a_line_of_names_is_read_by_places(tmp_path, words, name, sign):
    path = tmp_path / name
    path.write_text("\n".join(f"{'spam' if k % 4 else 'ham'}{sign}{_line(k)} {k}" for k in range(40)))
    data = text(path, text="column_2", target="column_1", tokenizer=words)
    assert data.account.read == 40 and data.target.classes == ("ham", "spam")
    assert "the first line is a row" in str(data.account)
    with pytest.raises(DataError, match="no line of names, write column_1"):
        text(path, text="text", target="label", tokenizer=words)
    assert text(path, text="column_2", tokenizer=words, length=8).account.read == 40
    path.write_text(f"column_2{sign}kind\n" + path.read_text())
    assert text(path, text="column_2", target="kind", tokenizer=words).account.read == 40


def test_lines_without_a_tab_are_refused(tmp_path, words):
    path = _tsv(tmp_path)
    path.write_text(path.read_text() + "\nno tab here\n")
    assert "refused 1: the line has no tab (line 41)" in str(text(path, tokenizer=words).account)


def test_spans(tmp_path, words):
    path = tmp_path / "squad.jsonl"
    rows = []
    for k in range(30):
        context = f"{_line(k)} naïve tree — (seven) {_line(k + 7)}"
        answer = ("naïve tree", context.split()[-1], "seven")[k % 3]
        start = context.rindex(answer)
        rows.append(
            {"question": "which tree?", "context": context, "answers": {"text": [answer], "answer_start": [start]}}
        )
    rows.append({"question": "which?", "context": "a cat", "answers": {"text": ["zebra"], "answer_start": [0]}})
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    data = text(path, task="spans", tokenizer=words)
    assert data.target.kind == "span" and "is not in its context" in str(data.account) and data.account.used == 30
    for name, split in data.splits():
        x, y = data.asked(torch.arange(len(split)), name)
        for row, (first, last), line in zip(x.tolist(), y.tolist(), split.rows.tolist()):
            answer = rows[line - 1]["answers"]["text"][0]
            assert words.decode(row[first : last + 1]).strip() == answer
    most = data.train.x.shape[1] - 5
    short = text(path, task="spans", tokenizer=words, length=most)
    assert f"beyond {most} tokens" in str(short.account) and short.train.x.shape[1] == most


@pytest.fixture(scope="module")
def lossy():
    """A tokenizer as BERT's: capitals and accents are dropped, and so are spaces."""
    from tokenizers import Tokenizer as Inner
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    inner = Inner(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    lines = [f"{_line(k, 50)} naive tre" for k in range(20)]
    inner.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=60, special_tokens=specials))
    return Tokenizer(inner)


def test_spans_of_a_tokenizer_that_loses_spaces_and_capitals(tmp_path, lossy):
    rows = []
    for k in range(30):
        context = f"{_line(k).title()}  Naïve Tree — (SEVEN ☃) the {_line(k + 7)}"
        answer = ("Naïve Tree", "SEVEN ☃", context.split()[-1])[k % 3]
        rows.append({"question": "Which tree?", "context": context, "answer": answer})
    path = tmp_path / "asked.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    data = text(path, task="spans", tokenizer=lossy)
    assert data.account.used == 30 and not lossy.exact
    for name, split in data.splits():
        x, y = data.asked(torch.arange(len(split)), name)
        for row, (first, last), line in zip(x.tolist(), y.tolist(), split.rows.tolist()):
            told = rows[line - 1]
            found = data.inputs.stretch(told["question"], told["context"], first, last)
            assert found == told["answer"]
            assert row[first : last + 1] == lossy.encode(told["answer"])


def test_tags(tmp_path, words):
    path = tmp_path / "ner.txt"
    tag = {"cat": "B-ANIMAL", "dog": "B-ANIMAL"}
    sentences = [_line(k, 5).split() for k in range(20)]
    path.write_text(
        "\n\n".join("\n".join(f"{w} X {tag.get(w, 'O')}" for w in line) for line in sentences) + "\n\nlost\n"
    )
    data = text(path, task="tags", tokenizer=words)
    assert (
        data.target.classes == ("B-ANIMAL", "O")
        and data.target.dim == 2
        and "1 line without a tag left out: line " in str(data.account)
    )
    x, y = data.asked(torch.arange(len(data.train)))
    for row, tags in zip(x, y):
        line = words.decode(row[row != words.pad].tolist()).split()
        assert [data.target.classes[k] for k in tags[tags != NOTHING].tolist()] == [tag.get(w, "O") for w in line]


def test_running_text_is_not_read_as_tagged_words(tmp_path, words):
    path = tmp_path / "story.txt"
    path.write_text("\n\n".join(" ".join(["a", "cat", "sat", "there"] * 3)[: 5 + 3 * k] for k in range(12)))
    with pytest.raises(DataError, match="the same number of columns"):
        text(path, task="tags", tokenizer=words)


def test_files_of_tagged_words_begin_a_sentence_each_and_tabs_part_words_of_two_parts(tmp_path, words):
    for k in range(6):
        (tmp_path / f"{k}.txt").write_text(f"New York\tPLACE\nis\tO\n{k}\tO")
    data = text(tmp_path, task="tags", tokenizer=words)
    assert data.account.read == 6 and data.target.classes == ("O", "PLACE")
    assert words.decode(data.train.x[0][data.train.x[0] != words.pad].tolist()).startswith("New York is ")
    assert int((data.train.y != NOTHING).sum(1).max()) == 3


def _conllu(sentences: list[list[tuple[str, str]]]) -> str:
    """CoNLL-U with what it may hold: comments, two words written as one, a word that is not written."""
    lines = ["# newdoc id = a", "# newpar"]
    for k, sentence in enumerate(sentences):
        lines += [f"# sent_id = {k}", "1-2\tofthe" + "\t_" * 8]
        lines += [
            f"{n}\t{w}\t{w}\t{tag}\tX{tag}\t_\t{n - 1}\tdep\t_\tSpaceAfter=No" for n, (w, tag) in enumerate(sentence, 1)
        ]
        lines += [f"{len(sentence)}.1\tgap" + "\t_" * 8, ""]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("name", "task"), [("a.conllu", None), ("a.txt", "tags")])
def test_conllu_is_read_by_its_words_and_their_classes(tmp_path, words, name, task):
    told = [[("the", "DET"), ("cat", "NOUN"), ("sat", "VERB"), (f"mat{k}", "_")] for k in range(12)]
    (tmp_path / name).write_text(_conllu(told))
    data = text(tmp_path / name, task=task, tokenizer=words)
    assert data.account.read == 12 and data.target.classes == ("DET", "NOUN", "VERB", "X_")
    x, y = data.asked(torch.arange(len(data.train)))
    for row, tags in zip(x, y):
        assert words.decode(row[row != words.pad].tolist()).split()[:3] == ["the", "cat", "sat"]
        assert [data.target.classes[k] for k in tags[tags != NOTHING].tolist()] == ["DET", "NOUN", "VERB", "X_"]


def _listed(path: Path, rows: list[dict]) -> Path:
    if path.name.endswith(".jsonl"):
        path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    elif path.name.endswith(".parquet"):
        pl.DataFrame(rows).write_parquet(path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([rows[0], *([json.dumps(cell) for cell in row.values()] for row in rows)])
    return path


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("names", [("words", "tags"), ("tokens", "ner_tags"), ("what", "which")])
def test_tagged_words_may_be_lists(tmp_path, words, ending, names):
    said = [["banana", "[1]", _line(k, 2), "x" * (k % 3 + 1)] for k in range(20)]  # nothing in a word is a list
    rows = [dict(zip(names, (own, [3, 10, 3, None if k % 2 else 10]))) for k, own in enumerate(said)]
    path = _listed(tmp_path / f"a.{ending}", rows)
    own_names = {} if names[0] != "what" and ending != "csv" else {"text": names[0], "target": names[1]}
    data = text(path, task="tags" if own_names else None, tokenizer=words, **own_names)
    lines = tmp_path / "a.txt"
    lines.write_text("\n\n".join("\n".join(f"{w}\t{t}" for w, t in zip(own, (3, 10, 3, 10))) for own in said))
    plain = text(lines, task="tags", tokenizer=words)
    assert data.target.classes == plain.target.classes == ("10", "3") and data.target.name == names[1]
    asked = [(plain.train.y != data.train.y).sum(1).tolist(), [k % 2 for k in data.train.rows.tolist()]]
    first = 1 if ending == "jsonl" else 2 if ending == "csv" else 0
    assert torch.equal(plain.train.x, data.train.x) and asked[0] == [(k - first) % 2 for k in data.train.rows.tolist()]
    assert ll.data.load(data.recipe).fingerprint == data.fingerprint


def test_tagged_words_in_a_parquet_file_are_read_by_themselves(tmp_path):
    rows = [{"words": ["a", f"b{k}"], "tags": ["D", "N"], "size": k} for k in range(20)]
    path = _listed(tmp_path / "a.parquet", rows)
    assert ll.data.reader_by(path, {}) == ll.data.reader_by(path, {"target": "tags"}) == "text"
    assert ll.data.reader_by(path, {"target": "size"}) == ll.data.reader_by(path, {"target": ["size"]}) == "table"
    assert ll.data.reader_by(path, {"field": "words"}) == "sequences"
    assert ll.data.load(path, kind="bytes").inputs.task == "tags"


def test_rows_with_other_tags_than_words_are_counted(tmp_path, words):
    rows = [{"words": ["a", f"b{k}"], "tags": ["D", "N"]} for k in range(8)]
    rows += [{"words": ["a"], "tags": ["D", "N"]}, {"words": [], "tags": []}, {"words": ["a"], "tags": None}]
    told = str(text(_listed(tmp_path / "a.jsonl", rows), task="tags", tokenizer=words).account)
    assert "11 rows read, 8 used, 3 refused" in told
    assert "2: tags has not one for each of words (lines 9, 11)" in told and "1: words is empty" in told


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("options", [{}, {"task": "tags"}, {"text": "words", "target": "tags"}])
def test_tags_that_never_fit_their_words_are_told_with_their_counts(tmp_path, words, ending, options):
    rows = [{"words": ["a", "b", f"c{k}"], "tags": ["D", "N"]} for k in range(8)]
    message = r"one tag for each of words\. Got 3 words and 2 tags in (line 1|row 0) of .* \(8 such .*s\)\. Write"
    with pytest.raises(DataError, match=message):
        ll.data.load(_listed(tmp_path / f"a.{ending}", rows), tokenizer=words, **options)
    whole = [{"words": ["a", "b"], "tags": ["D", "N"]}] * 20  # a row that does not fit, or has no tags, is left out
    account = ll.data.load(
        _listed(tmp_path / f"b.{ending}", [{"words": ["a", "b"], "tags": None}, rows[0], *whole]), tokenizer=words
    ).account
    assert "22 rows read, 20 used, 2 refused" in str(account)
    classes = [{"text": ["a b c", "d e"], "label": [f"L{k % 2}"]} for k in range(20)]
    path = _listed(tmp_path / f"c.{ending}", classes)
    assert not holds_sentences(path) and not holds_sentences(path, "text", "label")


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"words": ["a", "b"], "tags": ["D", "D"]}, {}, "at least two tags. Got 'D' alone. Name another target"),
        ({"words": ["a", "b"], "tags": "D"}, {"task": "tags"}, r'tags must hold a list of words .* Got .D. in line 1'),
        ({"said": ["a", "b"], "tags": ["D", "N"]}, {"task": "tags"}, "text must name the column of words.*text='said'"),
        ({"words": ["a", "b"], "tags": ["D", "N"]}, {"task": "tags", "target": "tag"}, "target .tag.. Did you mean"),
        ({"words": ["a", "b"], "tags": ["D", "N"]}, {"task": "tags", "source": "words"}, "tags must be of a file of"),
    ],
)  # fmt: skip
def test_lists_that_are_no_tagged_words_are_told(tmp_path, words, row, options, message):
    with pytest.raises(DataError, match=message):
        text(_listed(tmp_path / "a.jsonl", [row] * 5), tokenizer=words, **options)


def test_lists_of_tagged_words_in_a_csv_are_to_be_named(tmp_path, capsys):
    path = _listed(tmp_path / "a.csv", [{"words": ["a", "b"], "tags": ["D", "N"]}] * 20)
    assert main(["train", str(path), "--task", "tags"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "or, if two columns hold lists, name them, as --text words and --target tags." in told
    (tmp_path / "a.tsv").write_text("the\tD\ncat\tN\n\n" * 20)
    assert main(["train", str(tmp_path / "a.tsv")]) == 2
    assert "for a word and its tag in each line, --task tags." in " ".join(capsys.readouterr().err.split())


def test_tags_are_of_a_file_of_tagged_words(tmp_path):
    (tmp_path / "a.txt").write_text("the D\ncat N\n\n" * 5)
    with pytest.raises(DataError, match=r"tags must be of a file of tagged words.*Got a\.txt and names of columns"):
        text(tmp_path / "a.txt", task="tags", target="tag")


def test_equal_sentences_of_tagged_words_fall_in_one_split(tmp_path, words):
    path = tmp_path / "ner.txt"
    path.write_text("\n\n".join(f"a X\ncat{k % 8} Y" for k in range(40)))
    data = text(path, task="tags", tokenizer=words, val=0.2, test=0.2)
    splits = [{tuple(row) for row in split.x.tolist()} for _, split in data.splits()]
    assert sum(map(len, splits)) == len(set.union(*splits)) == 8


def test_lines_that_are_no_json_are_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n[1]\n')
    with pytest.raises(DataError, match="line 2"):
        text(path)


def test_the_tokenizer_of_a_table_is_trained_on_training_rows(tmp_path):
    data = text(_csv(tmp_path, 60), text="review", target="mood", num_tokens=300)
    assert data.inputs.tokenizer.num_tokens <= 300 and data.inputs.tokenizer.pad == 0
    assert "a cat" in data.inputs.decode(data.inputs.read(["a cat"]))[0]


@pytest.mark.parametrize(
    ("first", "names"),
    [
        ("Check\tCocher", False),
        ("Yes\tOui", False),
        ("english\tfrench", True),
        ("text_en\ttext_fr", True),
        ("a\tb", True),
        ("word\tpronunciation", True),
        ("Singular\tPlural", True),
        ("word\tmot", False),
    ],
)
def test_only_a_line_that_names_the_sides_is_a_line_of_names(tmp_path, first, names):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join([first, *(f'say "{k}\tdis « {k} »' for k in range(30))]), encoding="utf-8")
    found = _two_columns(path)
    assert (found is None) == names
    assert names or len(found.table) == 31


@pytest.mark.parametrize(("first", "told"), [("Check\tCocher", True), ("go!\tva !", False), ("he goes\til va", False)])
def test_a_first_line_that_could_be_names_is_told(tmp_path, words, first, told):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join([first, *(f"{_line(k, 1)}{k}\t{_line(k, 1)[::-1]}{k}" for k in range(30))]))
    note = "line 1 too (Check and Cocher); if it names the columns, name them as source and target"
    assert (note in str(text(path, tokenizer=words).account)) == told
    if told:
        read = text(path, source="Check", target="Cocher", tokenizer=words)
        assert read.account.read == 30 and read.inputs.names == ("Check",)


def test_lists_of_numbers_are_no_text(tmp_path):
    path = tmp_path / "strokes.jsonl"
    path.write_text("".join(f'{{"points": [0.{k}, 1.5], "letter": "{"ab"[k % 2]}"}}\n' for k in range(12)))
    with pytest.raises(DataError, match=r"Got no text, and points holds numbers\. If these are sequences"):
        text(path, target="letter")


def test_texts_of_a_tokenizer_without_a_token_of_its_own_for_their_end_close_with_what_separates(tmp_path, lossy):
    for k in range(12):
        (tmp_path / f"{k}.txt").write_text(" ".join(_line(k + n) for n in range(9)))
    data = text(tmp_path, task="masked", tokenizer=lossy, length=16)
    assert lossy.end == lossy.sep == 3 and bool((data.train.x == 3).any())


def _lines(*cells: tuple[str, str]) -> str:
    return "".join("\t".join(row) + "\n" for row in cells)


@pytest.mark.parametrize(
    ("name", "content", "pairs"),
    [
        ("a.tsv", _lines(*((_line(k), _line(k + 1)) for k in range(20))), True),
        ("a.tsv.gz", _lines(*((_line(k), _line(k + 1)) for k in range(20))), True),
        ("words.tsv", _lines(*((f"w{chr(97 + k)}", f"W {chr(65 + k)}") for k in range(20))), True),
        ("classes.tsv", _lines(*((_line(k), "good" if k % 2 else "bad") for k in range(20))), False),
        ("numbers.tsv", _lines(*((_line(k), str(k * 1.5)) for k in range(20))), False),
        ("named.tsv", "english\tfrench\n" + _lines(*((_line(k), _line(k + 1)) for k in range(20))), False),
        ("titled.tsv", "title\tsummary\n" + _lines(*((_line(k), _line(k + 1)) for k in range(20))), False),
        ("sounds.tsv", _lines(("a", "AH"), *((f"w{chr(97 + k)}", f"W {chr(65 + k)}") for k in range(20))), True),
        ("sorted.tsv", _lines(("Go.", "Va !"), *((_line(k), _line(k + 1)) for k in range(20))), True),
        ("ends.tsv", _lines(*((f"{_line(k)}\u2028more\x0b", _line(k + 1)) for k in range(20))), True),
        ("three.tsv", _lines(*((_line(k), f"{_line(k + 1)}\tnote {k}") for k in range(20))), False),
        ("a.csv", _lines(*((_line(k), _line(k + 1)) for k in range(20))), False),
        ("empty.tsv", "", False),
        ("one.tsv", "hello\tbonjour\n", False),
        ("missing.tsv", None, False),
    ],
)
def test_pairs_are_told_from_other_tables(tmp_path, name, content, pairs):
    if content is not None:
        (tmp_path / name).write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    assert holds_pairs(tmp_path / name) == pairs
    assert reader_by(tmp_path / name, {}) == ("text" if pairs else "table")
    assert reader_by(tmp_path / name, {"target": "column_2"}) == "table"


def test_the_rest_of_a_line_that_was_cut_off_is_not_judged(tmp_path):
    """Only the beginning of a file is looked at, and it may end within a line."""
    (tmp_path / "long.tsv").write_text(_lines(*((f"{_line(k)} {k}", f"{_line(k + 1)} {k}") for k in range(5000))))
    assert (tmp_path / "long.tsv").stat().st_size > 2**16 and holds_pairs(tmp_path / "long.tsv")


def test_sources_may_have_a_tokenizer_of_their_own():
    letters = Tokenizer.train(["abcdef"], kind="characters")
    sounds = Tokenizer.train(["uvwxyz"], kind="characters")
    inputs = Tokens("pairs", 5, sounds, len_source=4, source_tokenizer=letters)
    row = inputs.encode(inputs.read([("abc", "uv")]))[0]
    assert letters.decode(row[:4].tolist()) == "abc" and int(row[3]) == sounds.pad
    assert row[4:].tolist() == [inputs.start, *sounds.encode("uv")]
    assert inputs.sizes((9,))["num_source_tokens"] == letters.num_tokens
    assert inputs.room((9,)) == 4 * 5 * sounds.num_tokens  # scores of the target's places alone
    top = max(letters.num_tokens, sounds.num_tokens)
    assert int(inputs.read(torch.tensor([[top - 1] * 9])).max()) == top - 1
    with pytest.raises(DataError, match=f"tokens must lie in 0 … {top - 1}"):
        inputs.read(torch.tensor([[top] * 9]))
    with pytest.raises(DataError, match="a tokenizer of sources needs pairs"):
        Tokens("classes", 5, sounds, source_tokenizer=letters)


@pytest.fixture
def films(tmp_path):
    place = tmp_path / "films"
    for folder, word in (("neg", "dull"), ("pos", "bright")):
        (place / "seen" / folder).mkdir(parents=True)
        for k in range(20):
            (place / "seen" / folder / f"{k}.txt").write_text(f"A {word} film, number {k}.\r\nThe end.")
    (place / "about.md").write_text("what this is")
    (place / "seen" / "pos" / "x.bin").write_bytes(bytes(range(256)))
    return place


def test_folders_are_the_classes_of_the_texts_in_them(films):
    data = text(films, task="classes", kind="characters", length=64)
    assert data.target.classes == ("neg", "pos") and data.target.name == "folder"
    said = [data.inputs.tokenizer.decode(row[row >= 0]) for row in data.test.x]
    assert all(("bright" in row) == bool(y) and "\r" not in row for row, y in zip(said, data.test.y))
    told = str(data.account)
    assert "is not text: seen/pos/x.bin" in told and "lies in no folder of a class: about.md" in told
    assert load(data.recipe).fingerprint == data.fingerprint


def test_one_folder_is_no_classes(films):
    with pytest.raises(DataError, match="classes of texts must be folders, one for each. Got pos in seen"):
        shutil.rmtree(films / "seen" / "neg")
        text(films / "seen", task="classes")
    with pytest.raises(DataError, match="Got none in pos"):
        text(films / "seen" / "pos", task="classes")


def test_a_run_on_folders_of_texts(films, capsys):
    line = ["train", str(films), "--task", "classes", "--dim", "16", "--num-layers", "1", "--epochs", "1"]
    assert main([*line, "--kind", "bytes", "--no-report", "--folder", str(films.parent / "run")]) == 0
    (films.parent / "lines.txt").write_text("A bright film.\n")
    capsys.readouterr()
    assert main(["predict", str(films.parent / "run"), str(films.parent / "lines.txt")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "text,predicted,p(neg),p(pos)"
