"""Pages of runs on text: every task has its examples, every number is the model's own, and no word is obeyed."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.data.tokens import Tokens
from leadline.engine.evaluation import assess
from leadline.engine.feed import Feed
from leadline.likelihoods import likelihood_for
from leadline.models import build
from leadline.report import Facts
from leadline.report.page import page
from leadline.report.results import results
from leadline.report.texts import Seen, _along, _written, surprise, texts
from leadline.report.words import escape
from leadline.text import Tokenizer

EVIL = "<script>alert(1)</script> & <b>bold</b>"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def stories(folder, task, kind="bytes", **options):
    place = folder / "stories"
    place.mkdir()
    for k in range(24):
        (place / f"{k}.txt").write_text(f"{EVIL} The {k}th cat sat on a mat, and the {k % 5}th dog saw it. " * 3)
    return ll.data.text(str(place), task=task, kind=kind, length=32, val=0.2, test=0.2, cache=False, **options)


def facts_of(data, model=None, **options):
    model = build(model, data, data.target.dim, **options) if isinstance(model, str) else model
    likelihood = likelihood_for(data.target)
    evaluations, outputs = {}, {}
    for name, split in data.splits():
        feed = Feed(split, data.inputs, len(split), 0, torch.device("cpu"), torch.float32, keyed=False)
        evaluations[name] = assess(model, likelihood, feed.in_order())
        with torch.no_grad():
            count = min(24, len(split)) if data.target.placed else len(split)
            outputs[name] = model.eval()(feed.first(count).x)
    return Facts("told", {}, [], None, evaluations, data, likelihood, outputs, model=model)


def drawn(kept):
    return lambda name, figure, caption, full=False: kept.append(name) or f"<figure>{name}</figure>"


@pytest.mark.parametrize("kind", ("bytes", "bpe"))  # letter by letter, and with the whole of EVIL in one token
def test_a_page_of_the_next_word(tmp_path, kind):
    data = stories(tmp_path, "next", kind, num_tokens=400 if kind == "bpe" else None)
    facts = facts_of(data, "GPT", dim=16, num_layers=1, num_heads=2)
    before = {name: value.clone() for name, value in facts.model.state_dict().items()}
    html = page(facts).html
    for words in (
        "Written by the model",
        "Least expected tokens",
        "Expected and unexpected tokens",
        "perplexity",
        "bits_per_byte",
    ):
        assert words in html
    assert "<script>alert" not in html and "<b>bold" not in html
    assert '"><</span>' not in html and "&lt;" in html and "surprise" in page(facts).figures
    assert "equally likely tokens" in html  # the verdict
    assert html == page(facts).html  # the same twice
    assert all(torch.equal(before[name], value) for name, value in facts.model.state_dict().items())


def test_the_end_of_a_document_is_seen(tmp_path):
    data = stories(tmp_path, "next")
    facts = facts_of(data, "GPT", dim=16, num_layers=1, num_heads=2)
    own, seen = data.inputs.tokenizer, Seen.of(facts, data.inputs, "test")
    one, two = (own.encode(f"Genesis {k}") for k in (10, 18))
    assert seen.text([own.end, *one, own.end, *two]) == "Genesis 10 ■\nGenesis 18"
    seen.x[0, :16] = torch.tensor([*one, own.end, *two][:16])
    assert "Genesis 10 ■\nGenes" in _written(seen, facts, "test")


def test_what_is_coloured_is_the_surprise_of_each_token(tmp_path):
    data = stories(tmp_path, "next")
    facts = facts_of(data, "GPT", dim=16, num_layers=1, num_heads=2)
    seen = Seen.of(facts, data.inputs, "test")
    p = facts.model(seen.x).softmax(-1).detach()
    for row, t in ((0, 0), (1, 5), (2, 30)):
        if seen.y[row, t] >= 0:
            assert float(seen.surprise[row, t]) == pytest.approx(-float(p[row, t, seen.y[row, t]].log()), abs=1e-4)
    html = texts(facts, "test", drawn([]))
    depths = [int(found) for found in re.findall(r"--a:(\d+)%", html)]
    assert depths and max(depths) <= 62 and min(depths) >= 0


def test_the_curve_is_the_mean_at_each_place(tmp_path):
    data = stories(tmp_path, "next")
    facts = facts_of(data, "GPT", dim=16, num_layers=1, num_heads=2)
    mean, error = _along(facts, data.inputs, "test")
    feed = Feed(data.test, data.inputs, 1, 0, torch.device("cpu"), torch.float32, keyed=False)
    with torch.no_grad():
        batch = feed.first(len(feed))
        each = surprise(facts.model(batch.x), batch.y).numpy()
    assert np.allclose(mean, np.nanmean(each, 0), atol=1e-5)
    assert np.allclose(error, np.nanstd(each, 0, ddof=1) / np.sqrt((~np.isnan(each)).sum(0)), atol=1e-5)


def test_hidden_words_are_guessed_where_they_are_hidden(tmp_path):
    data = stories(tmp_path, "masked")
    facts = facts_of(data, "BERT", dim=16, num_layers=1, num_heads=2)
    html = texts(facts, "test", drawn([]))
    assert "Masked tokens" in html and "▢" in html and "<script>alert" not in html
    seen = Seen.of(facts, data.inputs, "test")
    assert (seen.y >= 0).any() and (seen.x == data.inputs.tokenizer.mask).any()


def test_pairs_are_translated_and_a_model_that_knows_is_quoted(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"cat {k} {EVIL}\tchat {k}\n" for k in range(60)))
    data = ll.data.text(str(path), kind="bytes", length=64, cache=False)
    facts = facts_of(data, "Transformer", dim=16, num_layers=1, num_heads=2)
    kept = []
    html = texts(facts, "test", drawn(kept))
    assert "Translations" in html and "chat" in html and kept == ["surprise"]
    assert "<script>alert" not in html and "&lt;script&gt;" in html


def test_classes_of_text_show_the_text(tmp_path):
    path = tmp_path / "reviews.csv"
    lines = [f'"{EVIL} {"lovely" if k % 2 else "dreadful"} film {k}",{"good" if k % 2 else "bad"}' for k in range(60)]
    path.write_text("review,stars\n" + "\n".join(lines))
    data = ll.data.text(str(path), text="review", target="stars", kind="bytes", length=96, cache=False)
    likelihood = likelihood_for(data.target)
    model = build("BERT", data, likelihood.dim_output, dim=16, num_layers=1, num_heads=2)
    html = results(facts_of(data, model), "test", drawn([]))
    assert "film" in html and ("lovely" in html or "dreadful" in html)
    assert "<script>alert" not in html


def test_tags_are_shown_behind_their_words(tmp_path):
    path = tmp_path / "tags.txt"
    path.write_text("\n".join(f"Anna B-PER\nsees O\n<i>Rome B-LOC\n{k} O\n" for k in range(40)))
    data = ll.data.text(str(path), task="tags", kind="bytes", length=32, cache=False)
    facts = facts_of(data, "BERT", dim=16, num_layers=1, num_heads=2)
    html = texts(facts, "test", drawn([]))
    assert "Tags" in html and "not " in html and "<i>" not in html


def test_answers_in_a_text_are_shown_beside_what_was_found(tmp_path):
    path = tmp_path / "answers.csv"
    lines = [f'"who sat?","on mat {k} sat Tom","Tom"' for k in range(40)]
    path.write_text("question,context,answer\n" + "\n".join(lines))
    data = ll.data.text(
        str(path), task="spans", text=["question", "context"], target="answer", kind="bytes", length=48, cache=False
    )
    model = build("BERT", data, 2, dim=16, num_layers=1, num_heads=2)
    html = texts(facts_of(data, model), "test", drawn([]))
    assert "Answers" in html and "Tom" in html and "who sat?" in html


def test_without_its_model_the_section_is_empty(tmp_path):
    data = stories(tmp_path, "next")
    facts = facts_of(data, "GPT", dim=16, num_layers=1, num_heads=2)
    assert texts(replace(facts, model=None), "test", drawn([])) == ""


def test_words_behind_others_keep_the_space_before_them():
    from tokenizers import Tokenizer as Inner
    from tokenizers import decoders, models, pre_tokenizers

    inner = Inner(
        models.WordPiece({"[UNK]": 0, "[PAD]": 1, "[SEP]": 2, "the": 3, "cat": 4, "##s": 5}, unk_token="[UNK]")
    )
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
    inner.add_special_tokens(["[PAD]", "[SEP]"])
    seen = Seen(torch.nn.Identity(), Tokens("next", 8, Tokenizer(inner)), *[torch.zeros(1, 1)] * 3)
    assert [seen.text([4, 5, 2, 3], behind) for behind in ([], [3])] == ["cats ■\nthe", " cats ■\nthe"]


def test_signs_that_no_page_may_hold_are_pictures_of_them(tmp_path):
    assert escape("a\0b\x1b[2J\x7f\x85\n\tc") == "a␀b␛[2J␡�\n\tc"
    html = str(texts(facts_of(stories(tmp_path, "next"), "GPT", dim=16, num_layers=1, num_heads=2), "test", drawn([])))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", html) and re.search("[␀-␟]", html)
