"""Cached decoding against computing everything anew."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from leadline.engine import decoder
from leadline.engine.decoder import Cached, Recomputing, scorer_of
from leadline.errors import UserError
from leadline.models import GPT, T5
from leadline.models.transformer import Transformer
from leadline.text.beam import beam_search
from leadline.text.choosing import GREEDY, Choice
from leadline.text.decoding import generate
from leadline.text.stopping import Stop

PROMPTS = [[5, 7, 2], [3], [9, 9, 4, 11, 8, 6]]


def made(**options):
    torch.manual_seed(0)
    model = GPT(13, 32, dim=16, num_layers=2, num_heads=2, tied=False, **options).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(8 if p.dim() > 1 else 1)
    return model


@pytest.mark.parametrize("options", [{}, {"positions": "rotary", "end": 4}, {"positions": "alibi", "window": 3}])
@pytest.mark.parametrize(
    "choice", [GREEDY, Choice(), Choice(0.8, top_k=5, top_p=0.9), Choice(temperature=0, repetition=1.5)]
)
def test_cached_words_are_those_of_computing_anew(options, choice):
    model = made(**options)
    stop = Stop(tokens=(1,))
    cached = generate(Cached(model), PROMPTS, 20, choice, stop, seeds=3)
    anew = generate(Recomputing(model, length=32), PROMPTS, 20, choice, stop, seeds=3)
    assert [row.tokens for row in cached] == [row.tokens for row in anew]
    for one, other in zip(cached, anew):
        assert one.score == pytest.approx(other.score, abs=1e-3)


def test_beams_take_their_past_along():
    model = made(end=4)
    found = [
        beam_search(scorer, PROMPTS, 10, 4, Stop(tokens=(1,)), count=3)
        for scorer in (Cached(model), Recomputing(model, length=32))
    ]
    assert [[text.tokens for text in texts] for texts in found[0]] == [
        [text.tokens for text in texts] for texts in found[1]
    ]


def test_beams_slide_with_a_cache_as_without():
    model = made()
    found = [
        beam_search(scorer, PROMPTS, 45, 3, count=2, slide=True)
        for scorer in (Cached(model), Recomputing(model, length=32))
    ]
    for one, other in zip(*found):
        assert [text.tokens for text in one] == [text.tokens for text in other]
        assert {(len(text.tokens), text.why) for text in one} == {(45, "most")}


def test_sliding_reads_the_last_half_anew():
    model = made()
    for choice in (GREEDY, Choice()):
        found = [
            generate(scorer, PROMPTS, 60, choice, slide=True)
            for scorer in (Cached(model), Recomputing(model, length=32))
        ]
        assert [row.tokens for row in found[0]] == [row.tokens for row in found[1]]
        assert all(len(row.tokens) == 60 for row in found[0])


@pytest.mark.parametrize(
    "choice", [GREEDY, Choice(0.8, top_k=5), Choice(allowed=torch.arange(13) > 4), Choice(0, repetition=1.5)]
)
def test_what_is_recorded_leaves_no_trace_of_its_recording(choice, monkeypatch):
    class Replayed:
        """As the recording of a GPU: runs before it records, and puts the state back."""

        def __init__(self, function, state):
            before = [t.clone() for t in state]
            for _ in range(4):
                function()
            decoder._put(state, before)
            self.graph = SimpleNamespace(replay=function)

    monkeypatch.setattr(decoder, "_Replayed", Replayed)
    model = made(end=4)
    recorded, plain = Cached(model, record=True), Cached(model)
    for prompts in (PROMPTS, PROMPTS[::-1]):
        assert generate(recorded, prompts, 20, choice, seeds=2) == generate(plain, prompts, 20, choice, seeds=2)
    assert len(recorded._graphs) == 1


def test_a_recording_that_fails_loses_speed_only(monkeypatch):
    def refused(function, state):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(decoder, "_Replayed", refused)
    assert generate(Cached(made(), record=True), PROMPTS, 9) == generate(Cached(made()), PROMPTS, 9)


def test_one_scorer_serves_many_calls():
    scorer = Cached(made())
    first = generate(scorer, PROMPTS, 9)
    generate(scorer, [[1, 2]], 30)
    generate(scorer, PROMPTS[::-1], 20, Choice())
    assert [row.tokens for row in generate(scorer, PROMPTS, 9)] == [row.tokens for row in first]


def test_a_model_in_training_is_copied_and_left_alone():
    model = made(p_drop=0.5).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert generate(Cached(model), PROMPTS, 9) == generate(Cached(model), PROMPTS, 9)
    assert generate(Recomputing(model, 32), PROMPTS, 9) == generate(Recomputing(model, 32), PROMPTS, 9)
    assert model.training and all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_sources_are_read_once_and_go_along_with_beams():
    torch.manual_seed(0)
    model = Transformer(13, 16, 5, dim=16, num_layers=2, num_heads=2, tied=False).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2 if p.dim() > 1 else 1)
    source = torch.tensor([[3, 4, 5, 0, 0], [6, 7, 8, 9, 10], [11, 0, 0, 0, 0]])

    class Whole(nn.Module):  # without a cache
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return self.inner(x)

    prompts = [[1], [1], [1]]
    cached, anew = scorer_of(model, 16, source), scorer_of(Whole(), 16, source, length=16)
    assert isinstance(cached, Cached) and isinstance(anew, Recomputing)
    for choice in (GREEDY, Choice()):
        rows = [[row.tokens for row in generate(scorer, prompts, 12, choice)] for scorer in (cached, anew)]
        assert rows[0] == rows[1] and len({tuple(row) for row in rows[0]}) == 3
    texts = [beam_search(scorer, prompts, 8, 3, Stop(tokens=(2,)), count=3) for scorer in (cached, anew)]
    assert [[t.tokens for t in row] for row in texts[0]] == [[t.tokens for t in row] for row in texts[1]]
    with pytest.raises(UserError, match="2 rows for 3 sources"):
        generate(cached, prompts[:2], 3)


def test_room_bounds_a_row():
    scorer = Cached(made(), room=8)
    rows = generate(scorer, PROMPTS, 20)
    assert [(len(row.tokens), row.why) for row in rows] == [(5, "context"), (7, "context"), (2, "context")]
    full = generate(Cached(made()), PROMPTS, 20)
    assert all(one.tokens == other.tokens[: len(one.tokens)] for one, other in zip(rows, full))


def test_half_precision_follows():
    model = made()
    scores = [
        Cached(model, dtype=dtype).start(torch.tensor([[5, 7, 2]]), torch.tensor([3]))
        for dtype in (None, torch.bfloat16)
    ]
    assert scores[1].dtype == torch.float32
    torch.testing.assert_close(scores[1], scores[0], atol=0.03, rtol=0)  # of scores up to 0.7
    assert not torch.equal(scores[1], scores[0])
    double = Cached(model.double()).start(torch.tensor([[5, 7, 2]]), torch.tensor([3]))
    assert double.dtype == torch.float64


def test_any_module_of_whole_rows_can_be_decoded():
    net = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))
    assert len(generate(Recomputing(net), [[1], [2, 3]], 4)[1].tokens) == 4
    with pytest.raises(UserError, match="Sequential without them"):
        Cached(net)


@pytest.mark.slow
def test_a_compiled_step_gives_the_same_words():
    model = made()
    rows = [generate(Cached(model, compile=compile), PROMPTS, 12) for compile in (True, False)]
    assert [row.tokens for row in rows[0]] == [row.tokens for row in rows[1]]


@pytest.mark.parametrize("token", [-1, 11])
def test_words_that_the_model_does_not_have_are_refused(token):
    with pytest.raises(UserError, match="0 … 10"):
        Cached(GPT.tiny()).start(torch.tensor([[1, token]]), torch.tensor([2]))


def test_a_source_is_asked_for_where_one_is_read():
    pairs, tokens = T5.tiny(), torch.ones(1, 3, dtype=torch.long)
    for make, message in [
        (lambda: Cached(pairs), "a T5 reads a source. Got none"),
        (lambda: Cached(GPT.tiny(), source=tokens), "a GPT reads no source. Got one"),
        (lambda: Cached(pairs, source=tokens.float()), r"sources must hold whole numbers, \(B, T\)"),
        (lambda: Cached(pairs, source=tokens[0]), r"sources must hold whole numbers, \(B, T\)"),
        (lambda: Cached(pairs, source=tokens * 99), "sources must hold tokens of the model, 0 … 10. Got 99"),
    ]:
        with pytest.raises(UserError, match=message):
            make()
    own = Transformer(num_tokens=5, num_source_tokens=50, length=4, len_source=3, dim=8, num_layers=1, num_heads=2)
    assert generate(Cached(own, source=tokens * 49), [[1]], 2)


def test_what_gives_no_scores_is_refused():
    with pytest.raises(UserError, match="what scores must be a model or a function. Got score=3"):
        Recomputing(3)
    with pytest.raises(UserError, match="length must be"):
        Recomputing(GPT.tiny(), 0)
    for score, got in ((lambda rows: rows.float(), r"Got \(1, 2\)"), (lambda rows: None, "Got NoneType")):
        with pytest.raises(UserError, match=rf"what scores must give \(B, T, V\) for rows of shape \(1, 2\)\. {got}"):
            generate(Recomputing(score), [[1, 2]], 1)
    with pytest.raises(UserError, match="prompts must hold tokens of the model, 0 … 10. Got 11"):
        generate(Recomputing(GPT.tiny()), [[11]], 1)
