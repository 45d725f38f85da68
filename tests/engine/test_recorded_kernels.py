"""Steps of models with torch's recurrent kernels as a recording makes them, several a call, beside the single ones.

There is no recording without a GPU: here the very function that would be recorded is called instead.
"""

import random
import warnings

import pytest
import torch

import leadline as ll
from leadline import session
from leadline.engine import compiled
from leadline.engine.events import StepsDone


@pytest.fixture
def recorded(monkeypatch):
    """Fits that record; how many calls were prepared."""
    prepared = []

    def as_it_is(function, inputs):
        prepared.append(tuple(inputs[-1].shape))
        return function

    monkeypatch.setattr(compiled, "through_inductor", as_it_is)

    def fit(*given, **options):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            patch.setattr(session, "choose", lambda *_: ("record", None))
            warnings.filterwarnings("error", "steps are not compiled")  # but run as they are, which would hide it
            return ll.fit(*given, **options)

    fit.prepared = prepared
    return fit


OWN = {"progress": False, "threads": 1, "findings": [], "with_report": False, "epochs": 3, "batch": 8, "lr": 0.01}


@pytest.fixture
def pairs(tmp_path):
    """Words to be spelled backwards: 70 rows to train on, of eight and a last six."""
    draw = random.Random(0)
    words = {"".join(draw.choices("abcd", k=draw.randint(2, 6))) for _ in range(110)}
    (tmp_path / "pairs.tsv").write_text(
        "ahead\tback\n" + "".join(f"{word}\t{word[::-1]}\n" for word in sorted(words)[:70])
    )
    path = tmp_path / "pairs.tsv"
    return ll.data.text(path, task="pairs", kind="characters", length=8, val=0.0, test=0.0, cache=False)


def alike(one, other):
    assert [line["train"]["loss"] for line in one.history] == pytest.approx(
        [line["train"]["loss"] for line in other.history], rel=1e-5
    )
    for name, p in one.model.state_dict().items():
        torch.testing.assert_close(other.model.state_dict()[name], p, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"attention": "additive", "inside": True}, {"clip": 0.1}),
        ({"p_own": 0.3}, {"optimizer": "sgd", "momentum": 0.9, "lr": 0.05, "schedule": "cosine"}),
        ({"cell": "gru", "inside": True}, {"regularize": "weight_noise"}),
        ({"cell": "elman", "attention": "none"}, {}),
    ],
)
def test_steps_of_a_recording_are_those_of_single_ones(pairs, recorded, options, settings):
    def model():
        return ll.models.build("EncoderDecoder", pairs, pairs.target.dim, dim=12, p_drop=0.2, seed=0, **options)

    assert len(pairs.train) % 8
    settings = {**OWN, **settings}
    alike(ll.fit(model(), pairs, compile="off", **settings), recorded(model(), pairs, **settings))
    assert recorded.prepared == [(4, 6)]  # steps of a call, and the numbers of each


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
def test_states_are_carried_through_them(tmp_path, recorded, cell):
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog ran to the door. " * 40)
    data = ll.data.text(tmp_path / "text.txt", length=16, kind="characters", val=0.0, test=0.0, cache=False)

    def model():
        return ll.models.build("Recurrent", data, data.target.dim, cell=cell, dim=12, seed=0)

    settings = {**OWN, "carry_state": True}
    alike(ll.fit(model(), data, compile="off", **settings), recorded(model(), data, **settings))


def test_weights_that_move_in_memory_are_recorded_anew(pairs, recorded):
    """As torch moves those of its recurrent layers on a GPU, even where a model is told to be where it is."""

    def model():
        return ll.models.build("EncoderDecoder", pairs, pairs.target.dim, dim=12, p_drop=0.0, seed=0)

    def move(event):
        if isinstance(event, StepsDone) and event.step == 4:
            for p in made.parameters():
                p.data = p.data.clone()

    made = model()
    moved = recorded(made, pairs, listeners=[move], **OWN)
    assert recorded.prepared == [(4, 6)] * 2
    alike(ll.fit(model(), pairs, compile="off", **OWN), moved)
