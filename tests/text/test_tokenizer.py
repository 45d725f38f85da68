"""Tokenizers: every text comes back, no text can forge a special token, and equal corpora give equal vocabularies."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.errors import DataError, UserError
from leadline.reference.bpe import RHYME, segment
from leadline.text import Tokenizer, corpus
from leadline.text import tokenizer as module
from leadline.text.alphabet import letters
from leadline.text.training import CONTINUED, KINDS

tokenizers = pytest.importorskip("tokenizers")

CORPUS = [
    f"{RHYME}\n## a sharp # and ### more ###\n",
    "<end> <end> <pad> [CLS] <mask>, the naïve café costs 12 € … 東京 🌊🌊\n\n\tx = y + 1\r\n",
    "it's the sea's deepest, bluest water; I'll see what you'd see. " * 5,
]
SIZES = {"bpe": 400, "wordpiece": 650, "unigram": 330, "bytes": None, "characters": 320, "words": 300}


@pytest.fixture(scope="module")
def made():
    return {kind: Tokenizer.train(CORPUS, kind, SIZES[kind]) for kind in KINDS}


def before(kind, text):
    """Words bring the space before them, the first one too; it is taken away when a whole text is decoded."""
    return b" " if kind == "words" and text else b""


ODD = [
    "",
    " ",
    "\n\n ",
    "###",
    "## a",
    "a ##b",
    "\x00",
    "\u0301",
    "e\u0301",
    "👩‍👩‍👧",
    "…x",
    "<end>",
    "<0x41>",
    "\ufffd\ufeff",
    "\U0010ffff",
]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=60))
def test_every_text_comes_back(made, kind, text):
    tokenizer = made[kind]
    for each in (text, f"sea {text}#", *([] if text else ODD)):
        ids = tokenizer.encode(each)
        assert tokenizer.decode(ids) == each
        assert b"".join(map(tokenizer.bytes_of, ids)) == before(kind, each) + each.encode()
        assert not tokenizer.special[ids].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ODD)
def test_odd_texts_come_back(made, kind, text):
    assert made[kind].decode(made[kind].encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first_and_out_of_no_text(made, kind):
    tokenizer = made[kind]
    assert [tokenizer.pad, tokenizer.end, tokenizer.start, tokenizer.mask, tokenizer.cls, tokenizer.sep] == [*range(6)]
    assert tokenizer.special.nonzero()[0].tolist() == [*range(6)]
    assert tokenizer.unknown is None
    for name in ("<pad>", "<end>", "a<end>b", "<end><end>", " <end>\n", "<start>"):
        ids = tokenizer.encode(name)
        assert min(ids) >= 6 and tokenizer.decode(ids) == name
    assert tokenizer.decode([1, *tokenizer.encode("sea"), 1, 0, 0]) == "sea"
    assert tokenizer.bytes_of(1) == b"" and tokenizer.token(1) == "<end>" and tokenizer.id("<end>") == 1


def test_an_unknown_token_need_not_be_called_special():
    named = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "sea": 1, "what": 2}, unk_token="what"))
    numbered = tokenizers.Tokenizer(tokenizers.models.Unigram([("<pad>", 0.0), ("a", -1.0), ("o", -2.0)], unk_id=2))
    without = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "sea": 1}))
    for inner, unknown in ((named, 2), (numbered, 2), (without, None)):
        inner.add_special_tokens(["<pad>"])
        assert Tokenizer.from_json(inner.to_str()).unknown == unknown


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_corpus_of_special_names_forges_none(kind):
    names = ("<->", "<<end>>", "[|]")  # which the words of GPT-2 do not cut apart
    tokenizer = Tokenizer.train(["<-> <-> <->\n<->\n<<end>> [|] [|]" * 50], kind, 560, names)
    for name in names:
        for text in (name, f" {name}", f"{name}{name}", f"a {name}\n"):
            ids = tokenizer.encode(text)
            assert not tokenizer.special[ids].any() and tokenizer.decode(ids) == text


def test_a_model_that_has_special_tokens_among_its_pieces():
    """T5's layout: `</s>` is a piece that the model could choose."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((c, -3.0) for c in "▁</s>ab")]
    inner = tokenizers.Tokenizer(tokenizers.models.Unigram(pieces, unk_id=2))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    inner.decoder = tokenizers.decoders.Metaspace()
    inner.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer = Tokenizer.from_json(inner.to_str())
    assert (tokenizer.pad, tokenizer.end, tokenizer.unknown) == (0, 1, 2)
    ids = tokenizer.encode("a </s> b")
    assert 1 not in ids and tokenizer.decode(ids) == "a </s> b"
    assert tokenizer.encode("z") == [tokenizer.id("▁"), 2]
    assert tokenizer.bytes_of(tokenizer.id("▁")) == b" " and not tokenizer.exact


@pytest.mark.parametrize("kind", KINDS)
def test_vocabularies_are_numbered_without_gaps(made, kind):
    tokenizer = made[kind]
    assert tokenizer.kind == kind and len(tokenizer) == tokenizer.num_tokens <= (SIZES[kind] or 262)
    assert [tokenizer.id(tokenizer.token(i)) for i in range(len(tokenizer))] == [*range(len(tokenizer))]
    lengths = tokenizer.token_bytes
    assert lengths.shape == (len(tokenizer),) and not lengths[:6].any() and (lengths[6:] > 0).all()
    assert lengths.max() > 1 or kind == "bytes"
    ids = tokenizer.encode(CORPUS[1])
    assert lengths[ids].sum() == len(before(kind, CORPUS[1]) + CORPUS[1].encode())


@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_can_be_written(made, kind):
    tokenizer = made[kind]
    written = {tokenizer.bytes_of(i) for i in range(len(tokenizer))}
    assert {bytes([byte]) for byte in range(256)} <= written


def test_pieces_that_continue_a_word_are_others():
    tokenizer = Tokenizer.train(["##### seas seas sees ####" * 9], "wordpiece", 700)
    ids = tokenizer.encode("seasea")
    assert tokenizer.decode(ids) == "seasea"
    assert [tokenizer.token(i).startswith(CONTINUED) for i in ids] == [False] + [True] * (len(ids) - 1)
    for hashes in range(1, 140):
        assert tokenizer.decode(tokenizer.encode("#" * hashes)) == "#" * hashes


def test_long_words_take_no_long_time():
    dna = "".join("ACGT"[i * i * 7919 % 10007 % 4] for i in range(20_000))
    for kind, length in (("bpe", 20_000), ("wordpiece", 20_000), ("unigram", 1000)):
        tokenizer = Tokenizer.train([dna[:length]], kind, 600)
        ids = tokenizer.encode(dna)
        assert tokenizer.decode(ids) == dna and len(ids) < len(dna) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_equal_corpora_give_equal_vocabularies(made, kind):
    again = Tokenizer.train(iter(CORPUS), kind, SIZES[kind])
    assert again == made[kind] and again.to_json() == made[kind].to_json() and hash(again) == hash(made[kind])
    assert again != Tokenizer.train(CORPUS, kind, SIZES[kind], specials=("<end>",))


def test_another_process_learns_the_same(made, tmp_path):
    (tmp_path / "corpus.json").write_text(json.dumps([CORPUS, SIZES]))
    program = (
        "import json, sys; from leadline.text import Tokenizer; texts, sizes = json.load(open(sys.argv[1]));"
        "print(json.dumps({k: Tokenizer.train(texts, k, n).to_json() for k, n in sizes.items()}))"
    )
    for _ in range(2):
        told = subprocess.run(
            [sys.executable, "-c", program, tmp_path / "corpus.json"], capture_output=True, text=True, check=True
        )
        assert json.loads(told.stdout) == {kind: made[kind].to_json() for kind in KINDS}


def test_files_are_read_as_a_stream(tmp_path, made):
    import gzip

    for i, text in enumerate(CORPUS):
        path = tmp_path / f"{i}.txt"
        path.write_bytes(text.encode())
        (tmp_path / f"{i}.txt.gz").write_bytes(gzip.compress(text.encode()))
    seen = []
    plain = Tokenizer.train([tmp_path / f"{i}.txt" for i in range(3)], "bpe", 400, progress=seen.append)
    assert plain == made["bpe"] == Tokenizer.train([tmp_path / f"{i}.txt.gz" for i in range(3)], "bpe", 400)
    assert seen == sorted(seen) and seen[-1] == sum(map(len, CORPUS))
    assert "".join(corpus.pieces([tmp_path / "1.txt"], least=3)) == CORPUS[1]
    assert "".join(corpus.pieces(tmp_path / "2.txt", least=7)) == CORPUS[2]
    (tmp_path / "long.txt").write_text("x" * 1000)
    assert max(map(len, corpus.pieces(tmp_path / "long.txt", least=8))) <= 17 * 8


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("ab '.1#\n\té\u2028\x1c…"), max_size=80), st.integers(1, 9))
@example("a  b\n\n c 's", 1)
def test_a_text_may_be_cut_before_a_space_behind_a_word(made, text, least):
    assert "".join(corpus.cut(text, least)) == text
    for kind in (kind for kind in KINDS if kind != "words"):  # which brings a space before the first word
        parts = [made[kind].encode(part) for part in corpus.cut(text, least)]
        assert [i for part in parts for i in part] == made[kind].encode(text)


def test_many_texts_are_encoded_as_each_alone(made, monkeypatch):
    texts = ["", "a sea", CORPUS[0] * 3, "", CORPUS[1], "x"]
    monkeypatch.setattr(module, "_TOGETHER", 100)
    for kind, tokenizer in made.items():
        many = tokenizer.encode_many(iter(texts))
        assert [row.tolist() for row in many] == [tokenizer.encode(text) for text in texts], kind
        assert all(row.dtype == np.uint16 and row.ndim == 1 for row in many)
    assert made["bpe"].encode_many([]) == []


def test_ids_have_the_smallest_type():
    assert Tokenizer.train([], "bytes", specials=()).dtype == np.uint16  # 257 of them
    words = {f"w{i}": i for i in range(70_000)}
    wide = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    assert Tokenizer(wide).dtype == np.int32
    few = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    assert Tokenizer(few).dtype == np.uint8 and Tokenizer(few).encode("b") == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_streams_give_whole_characters(made, kind):
    text = "née 東京 👩‍👩‍👧 sea\n"
    ids = [1, *made[kind].encode(text), 1]
    stream = made[kind].stream()
    given_ = [stream.add(i) for i in ids]
    assert "".join(given_) == text and stream.end() == "" and "�" not in "".join(given_)
    broken = [made[kind].id(letters()[0xE6]) or made[kind].id("<0xE6>")] * 2  # the beginning of a character, twice
    stream = made[kind].stream()
    assert "".join(map(stream.add, broken)) + stream.end() == made[kind].decode(broken) == "��"


@pytest.mark.parametrize("kind", KINDS)
def test_files_come_back(made, kind, tmp_path):
    path = tmp_path / "tokenizer.json"
    made[kind].save(path)
    loaded = Tokenizer.load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]
    for again in (loaded, Tokenizer.from_json(made[kind].to_json()), copy.deepcopy(loaded)):
        assert again == made[kind] and again.kind == kind and again.pad == 0
        assert again.encode("<end> naïve ### …") == made[kind].encode("<end> naïve ### …")
    theirs = tokenizers.Tokenizer.from_file(str(path))  # the library alone reads it, and decodes alike
    ids = made[kind].encode("the naïve 🌊 ## sea…")
    assert theirs.encode("the naïve 🌊 ## sea…").ids == ids
    assert theirs.decode(ids) == "the naïve 🌊 ## sea…"


def test_ids_of_any_container_are_decoded(made):
    ids = made["bpe"].encode("sea")
    for form in (tuple(ids), np.array(ids), torch.tensor(ids), iter(ids)):
        assert made["bpe"].decode(form) == "sea"
    for wrong in ([-1], [len(made["bpe"])], torch.tensor([-100, 3])):
        with pytest.raises(UserError, match="from 0 to"):
            made["bpe"].decode(wrong)


@pytest.mark.parametrize("ids", [[1.5], ["a"], None, 3, torch.tensor(3), np.array([1.0]), [[1, 2]]])
def test_ids_must_be_whole_numbers(made, ids):
    for kind in ("bpe", "words"):
        with pytest.raises(UserError, match=r"token ids must be whole numbers. Got .* Pass a list of them"):
            made[kind].decode(ids)


def test_bpe_dropout(made):
    tokenizer = made["bpe"]
    text = RHYME * 2 + " <end> naïve"
    plain = tokenizer.encode(text)
    assert tokenizer._dropped(text, 0.0, 0) == plain  # the merges in Python are those of the library
    assert tokenizer.encode(text, p_drop=0.3, seed=1) == tokenizer.encode(text, p_drop=0.3, seed=1)
    counts = [len(tokenizer.encode(text, p_drop=p)) for p in (0.0, 0.1, 0.5, 1.0)]
    assert counts == sorted(counts) and counts[-1] == len(text.encode()) and counts[0] < counts[1]
    seen = {tuple(tokenizer.encode(" sailor", p_drop=0.3, seed=seed)) for seed in range(30)}
    assert len(seen) > 3 and {tokenizer.decode(ids) for ids in seen} == {" sailor"}
    with pytest.raises(UserError, match="kind bpe"):
        made["unigram"].encode("sea", p_drop=0.1)
    with pytest.raises(UserError, match="p_drop"):
        tokenizer.encode("sea", p_drop=1.5)


def test_words_are_written_by_the_merges_in_turn(made):
    tokenizer = made["bpe"]
    pairs = sorted(tokenizer._ranks, key=tokenizer._ranks.get)
    for word in ("sailor", "bottom", "deepest", "unseen"):
        assert segment(list(word), pairs) == [tokenizer.token(i) for i in tokenizer.encode(word)]


def test_layouts_of_hugging_face(tmp_path):
    path = tmp_path / "tokenizer.json"
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sea", "##s", "##ide", ",", "[", "]", "sep"]
    bert = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]")
    )
    bert.normalizer = tokenizers.normalizers.BertNormalizer()
    bert.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    bert.decoder = tokenizers.decoders.WordPiece()
    bert.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    bert.add_special_tokens(names[:5])
    bert.enable_padding(length=64)
    bert.enable_truncation(2)
    bert.save(str(path))
    loaded = Tokenizer.load(path)
    assert [loaded.pad, loaded.unknown, loaded.cls, loaded.sep, loaded.mask, loaded.end] == [0, 1, 2, 3, 4, 3]
    assert loaded.encode("The seaide, [SEP]") == [5, 6, 8, 9, 10, 12, 11]  # no special token, no padding
    assert loaded.decode([2, 5, 6, 8, 9, 5, 3]) == "the seaide, the" and not loaded.exact
    assert loaded.bytes_of(8) == b"ide" and loaded.encode("zoo") == [1]
    stream = loaded.stream()
    assert "".join(map(stream.add, [2, 5, 6, 8, 9, 5])) + stream.end() == "the seaide, the"
    assert loaded.decode([6, 9, 8], after=[2, 5]) == " sea,ide"  # after a word stands a space
    stream = loaded.stream(after=[2, 5])
    assert "".join(map(stream.add, [8, 6])) + stream.end() == "ide sea"
    ids, asked, decode = torch.randint(5, 13, (300,)).tolist(), [], loaded.decode
    loaded.decode = lambda ids, after=(): asked.append(len(ids) + len(after)) or decode(ids, after)
    stream = loaded.stream()
    assert "".join(map(stream.add, ids)) + stream.end() == decode(ids)
    assert max(asked) < 40, "all that came before is decoded again for each token"

    gpt2 = tokenizers.Tokenizer(tokenizers.models.BPE())
    gpt2.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    gpt2.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=list(letters()), show_progress=False)
    gpt2.train_from_iterator(CORPUS, trainer)
    gpt2.add_special_tokens(["<|endoftext|>"])
    loaded = Tokenizer.from_json(gpt2.to_str())
    assert loaded.end == 300 and loaded.num_tokens == 301 and loaded.pad is None and loaded.kind == "bpe"
    for text in ODD:
        assert loaded.decode(loaded.encode(text)) == text
    assert loaded.encode("sea <|endoftext|>")[-1] != 300


def test_wrong_arguments(made, tmp_path):
    with pytest.raises(DataError, match="must have text"):
        Tokenizer.train([])
    with pytest.raises(DataError, match="must have text"):
        Tokenizer.train(["", ""], "characters")
    with pytest.raises(UserError, match="Did you mean wordpiece"):
        Tokenizer.train(CORPUS, "wordpeice")
    for kind, least in (("bpe", 262), ("wordpiece", 518), ("unigram", 262), ("bytes", 262), ("characters", 262)):
        with pytest.raises(UserError, match=f"Pass {least} or more"):
            Tokenizer.train(CORPUS, kind, least - 1)
        assert Tokenizer.train(CORPUS, kind, least).num_tokens == least
    with pytest.raises(UserError, match="num_tokens"):
        Tokenizer.train(CORPUS, "bpe", "many")
    for name in ("end", "<>", "a", "<0x41>", "< end >", 3):
        with pytest.raises(UserError, match="in brackets"):
            Tokenizer.train(CORPUS, specials=(name,))
    with pytest.raises(UserError, match="several names"):
        Tokenizer.train(CORPUS, specials="<end>")
    with pytest.raises(UserError, match="one text"):
        Tokenizer.train("sea")
    with pytest.raises(UserError, match="one text"):
        made["bpe"].encode_many("sea")
    with pytest.raises(DataError, match="must be a string"):
        Tokenizer.train(["sea", b"sea"])
    for wrong in (b"sea", 3, "\ud800"):
        with pytest.raises(DataError, match="must be a string"):
            made["bpe"].encode(wrong)
    with pytest.raises(DataError, match="string of Unicode"):
        Tokenizer.train(["sea \ud800 "])


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "bad.gz").write_bytes(b"no archive")
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(DataError, match="must be UTF-8"):
        Tokenizer.train(tmp_path / "latin.txt")
    for name in ("bad.gz", "none.txt", "."):
        with pytest.raises(DataError, match="must be readable"):
            Tokenizer.train(tmp_path / name)
    with pytest.raises(DataError, match="must have text"):
        Tokenizer.train(tmp_path / "empty.txt")
    with pytest.raises(DataError, match="must be readable"):
        Tokenizer.load(tmp_path / "none.json")
    with pytest.raises(DataError, match="must be writable"):
        Tokenizer.train([], "bytes").save(tmp_path / "no" / "such.json")


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "3", "null", '{"model": 3}', '{"model": {}}', '{"model": {"type": "BPE"}}', "\x00",
        '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}', "[" * 100_000,
        '{"model": {"type": "Unigram", "unk_id": 9, "vocab": [["a", 0.0]]}}',
        '{"model": {"type": "WordPiece", "vocab": {"a": -1}}}',
    ],
)  # fmt: skip
def test_json_that_is_no_tokenizer(text):
    with pytest.raises(DataError, match="must be JSON of the tokenizers library"):
        Tokenizer.from_json(text)


def test_tokenizers_of_strangers_do_no_harm(made):
    parts = json.loads(made["unigram"].to_json())
    lost = Tokenizer.from_json(json.dumps({**parts, "pre_tokenizer": None}))
    with pytest.raises(DataError, match="only what the tokenizer knows"):
        lost.encode("a sea")
    far = {"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 4_000_000_000}}}
    with pytest.raises(DataError, match="ids must be below"):
        Tokenizer.from_json(json.dumps({**parts, "added_tokens": [], **far}))


def test_words_are_what_stands_between_spaces():
    sounds = Tokenizer.train(["K AE T", "AE T", "T AE K S"], "words")
    told = lambda text: [sounds.token(i) for i in sounds.encode(text)]  # noqa: E731
    assert told("AE K") == ["ĠAE", "ĠK"] and told("K AE") == ["ĠK", "ĠAE"]  # the same token wherever it stands
    assert told("K ZH") == ["ĠK", "Ġ", "Z", "H"] and sounds.decode(sounds.encode("K ZH")) == "K ZH"
    assert told("AEK")[0] == "Ġ" and sounds.kind == Tokenizer.from_json(sounds.to_json()).kind == "words"
    assert sounds.lacking("K ZH AE ZH OY") == ["ZH", "OY"] and sounds.lacking("T S") == []
    stream = sounds.stream()
    assert "".join(stream.add(i) for i in sounds.encode("T AE")) + stream.end() == "T AE"
    few = Tokenizer.train(["b b b a a c"], "words", num_tokens=6 + 256 + 1)
    assert few.lacking("a b c") == ["a", "c"]  # the most frequent have tokens


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "bytes", "characters"])
def test_places_of_tokens_in_their_text(kind):
    own = Tokenizer.train(["the cat sat on the mat, naïvely"] * 9, kind)
    for text in ("the cat", "naïve 🌊 cat\n the", "", "<end> of  it"):
        places, data = own.places(text), text.encode()
        ids, at = own.encode(text), 0
        assert len(places) == len(ids)
        for (first, last), id in zip(places.tolist(), ids):
            piece = own.bytes_of(id)
            begin, at = at, at + len(piece)
            assert len(text[:first].encode()) <= begin and at <= len(text[:last].encode()) <= len(data)
            assert piece in text[first:last].encode() and last - first <= len(piece)


@pytest.mark.parametrize("texts", [5, None])
def test_a_corpus_is_several_texts(texts):
    with pytest.raises(UserError, match="texts must be several texts, or files"):
        Tokenizer.train(texts)
