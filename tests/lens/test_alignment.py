"""Where a decoder looks: the weights of its model, without padding, with the words of both sides."""

import json

import numpy as np
import pytest
import torch

import leadline as ll
from leadline.errors import UserError
from leadline.models import GPT, EncoderDecoder, Transformer

X = torch.tensor(
    [[3, 7, 5, 0, 0, 1, 4, 9, 6], [8, 0, 0, 0, 0, 1, 2, 0, 0]]
)  # sources of 3 words and 1, targets of 3 and 1


def test_padding_is_left_out_and_rows_sum_to_one():
    torch.manual_seed(0)
    model = EncoderDecoder.tiny()
    view = ll.lens.alignment(model, X)
    assert view.sources == (("3", "7", "5"), ("8",)) and view.targets == (("4", "9", "6", "■"), ("2", "■"))
    assert [weights.shape for weights in view.weights] == [(4, 3), (2, 1)]
    for weights in view.weights:
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
    with torch.no_grad():
        wanted = model.eval().alignment(X)[0, :, :3]
    np.testing.assert_allclose(view.weights[0], wanted, atol=1e-7)
    assert view.strongest[0] == tuple(wanted.argmax(1).tolist()) and json.dumps(view.to_dict())


def test_of_a_transformer_it_is_the_mean_of_the_heads_of_a_layer():
    torch.manual_seed(0)
    model = Transformer(11, 4, 5, dim=8, num_layers=2, num_heads=2, p_drop=0.0)
    maps = ll.lens.attention_map(model, X)
    asks = [weights.mean(1) for name, weights in zip(maps.names, maps.weights, strict=True) if ".ask." in name]
    for layer in (0, 1):
        np.testing.assert_allclose(
            ll.lens.alignment(model, X, layer=layer).weights[0], asks[layer][0, :, :3], atol=1e-6
        )
    with pytest.raises(UserError, match="layer=5 of 2"):
        ll.lens.alignment(model, X, layer=5)


def test_the_drawing_names_both_sides():
    ax = ll.lens.alignment(EncoderDecoder.tiny(), X).plot(0).axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["3", "7", "5"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["4", "9", "6", "■"]


def test_a_model_without_a_source_is_refused():
    with pytest.raises(UserError, match="reads a source and writes a target"):
        ll.lens.alignment(GPT.tiny(), torch.ones(1, 4, dtype=torch.long))
    with pytest.raises(UserError, match="attention to see"):
        ll.lens.alignment(EncoderDecoder(11, 4, 5, dim=8, attention="none"), X)


def test_an_empty_source_is_refused():
    with pytest.raises(UserError, match="a source must have tokens to look at. Got an empty one"):
        ll.lens.alignment(EncoderDecoder.tiny(), torch.cat([X, torch.tensor([[0, 0, 0, 0, 0, 1, 4, 9, 6]])]))
