"""Regularisers that move what a row holds have nothing to move in a row of tokens, and say so."""

import pytest

import leadline as ll
from leadline.errors import UserError


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "rhyme.txt"
    path.write_text("a sailor went to sea sea sea to see what he could see see see " * 30)
    return ll.data.text(path, kind="bytes", length=16, cache=False)


def model(text):
    return ll.models.build("GPT", text, text.target.dim, dim=8, num_layers=1, num_heads=1, p_drop=0.0)


@pytest.mark.parametrize("word", ["mixup(0.2)", "input_noise(0.1)", "mask(0.1)", "adversarial(0.1)"])
def test_what_moves_rows_is_refused(text, word):
    with pytest.raises(UserError, match="token"):
        ll.fit(model(text), text, epochs=1, regularize=[word], progress=False)


def test_a_penalty_on_weights_and_on_the_gradient_is_not(text):
    run = ll.fit(model(text), text, epochs=1, regularize=["l1(1e-5)", "gradient_norm(0.01)"], progress=False)
    assert run.reason == "finished"
