"""A translator of a made-up language, from a file of pairs to sentences and scores."""

import json
import random

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.cli import main
from leadline.errors import UserError
from leadline.models import Transformer
from leadline.translation import scores, translate, translates

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("pairs"), random.Random(0)
    pairs = [draw.choices(WORDS, k=draw.randint(2, 4)) for _ in range(1200)]
    lines = [f"{' '.join(pair)}\t{' '.join(reversed(pair))}" for pair in pairs]
    (folder / "backwards.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def run(place):
    data = ll.data.text(place / "backwards.tsv", task="pairs", num_tokens=300, length=16)
    model = ll.models.build("Transformer", data, data.target.dim, dim=48, num_layers=1, num_heads=4, p_drop=0.0)
    return ll.fit(
        model, data, epochs=12, batch=64, lr=5e-3, progress=False, threads=1, folder=place / "run", with_report=False
    )


def test_it_translates_what_it_has_not_seen_better_than_a_memory(run):
    found = scores(run, "test")
    assert found.model.bleu > 90 > found.memory.bleu
    assert found.references == [" ".join(reversed(source.split())) for source in found.sources]
    assert found.rows == len(found.sources) == len(run.data.test)
    assert json.dumps(found.to_dict())


def test_sentences_of_any_length_share_a_batch(run):
    texts = ["two three", "nine one four six", "five one"]
    assert translate(run, texts) == [translate(run, text)[0] for text in texts]
    assert translate(run, texts, beams=1) == [" ".join(reversed(text.split())) for text in texts]
    assert translate(run, []) == [] and translates(run)


@pytest.mark.parametrize("wrong", [[3], None, 7, ["a b", None]])
def test_what_is_no_text_is_refused(run, wrong):
    with pytest.raises(UserError, match="texts must be text"):
        translate(run, wrong)
    with pytest.raises(UserError, match="prompts must be text"):
        run.generate(wrong)


def test_no_prompt_at_all_is_refused(run):
    with pytest.raises(UserError, match="there must be a prompt"):
        run.generate([])


def test_few_of_many_sentences_are_evenly_spaced(run):
    found = scores(run, "test", most=3)
    every = scores(run, "test", beams=1).sources
    assert found.sources == [every[0], every[round((len(every) - 1) / 2)], every[-1]]


def test_a_network_without_a_cache_translates_the_same(run):
    class Plain(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return self.inner(x)

    texts, model = ["two three", "nine one four six"], run.model
    wanted = translate(run, texts)
    assert isinstance(model, Transformer)
    run.model = Plain(model).train()
    try:
        assert translate(run, texts) == wanted
        assert run.model.training
    finally:
        run.model = model


def test_evaluate_prints_both_and_a_few_sentences(run, capsys):
    assert main(["evaluate", str(run.folder)]) == 0
    told = capsys.readouterr().out
    for word in ("BLEU", "chrF", "of the model", "of the nearest sentence known", "source", "reference", "memory"):
        assert word in told
    assert main(["evaluate", str(run.folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])["translation"]
    assert answer["model"]["bleu"] > answer["memory"]["bleu"] and len(answer["examples"]) == 3


def test_another_kind_of_run_does_not_translate():
    run = ll.fit(ll.models.MLP(2, (4,), 1), ll.data.moons(num=60), epochs=1, progress=False)
    assert not translates(run)
    with pytest.raises(UserError, match="pairs of sentences"):
        scores(run)
    assert torch.is_tensor(run.outputs("test"))
