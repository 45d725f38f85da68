"""Swin gives the scores of transformers' on the same weights, and its folders go both ways."""

import pytest
import torch

from leadline.errors import CheckpointError
from leadline.interop import hugging_face
from leadline.interop.swin import config_of
from leadline.models import Swin

transformers = pytest.importorskip("transformers")

CONFIGS = [
    {"image_size": 32, "num_labels": 5},
    {"image_size": [24, 40], "num_channels": 1, "window_size": 3, "mlp_ratio": 2.0},
    {"image_size": 36, "depths": [2, 3, 2], "num_heads": [1, 2, 4], "window_size": 4},
    {"image_size": 45, "patch_size": 4, "window_size": 5},  # neither patch nor window divides
    {"image_size": 16, "window_size": 4},  # the second stage is one window
    {"image_size": [8, 44], "window_size": 4, "depths": [2], "num_heads": [2]},  # the short side is one: nothing shifts
]


def theirs_of(**changes):
    torch.manual_seed(len(changes))
    small = {"patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    model = transformers.SwinForImageClassification(transformers.SwinConfig(**{**small, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@torch.no_grad()
@pytest.mark.parametrize("changes", CONFIGS)
def test_scores_are_those_of_transformers(changes, tmp_path):
    theirs = theirs_of(**changes)
    theirs.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path).eval()
    x = torch.randn(3, *ours.input_shape)
    torch.testing.assert_close(ours(x), theirs(x).logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_picture_of_another_size_is_read_as_transformers_does(tmp_path):
    theirs = theirs_of(image_size=32)
    theirs.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path).eval()
    x = torch.randn(2, 3, 22, 52)
    torch.testing.assert_close(ours(x), theirs(x).logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_what_is_saved_is_read_by_transformers(tmp_path):
    torch.manual_seed(0)
    ours = Swin(3, (32, 32), 4, dim=16, stages=(2, 2), num_heads=(2, 4), p_drop=0.1).eval()
    for name, parameter in ours.named_parameters():
        if name.endswith("offsets"):
            parameter.normal_()
    hugging_face.save(ours, tmp_path)
    theirs = transformers.SwinForImageClassification.from_pretrained(tmp_path).eval()
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(theirs(x).logits, ours(x), atol=1e-5, rtol=1e-5)
    again = hugging_face.load(tmp_path)
    assert again.config == ours.config
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in ours.state_dict().items())


@pytest.mark.parametrize(
    "changes", [{"use_absolute_embeddings": True}, {"layer_norm_eps": 1e-6}, {"hidden_act": "relu"}]
)
def test_what_ours_has_not_is_refused(changes):
    small = {"image_size": 16, "patch_size": 2, "num_channels": 3, "embed_dim": 8, "depths": [1], "num_heads": [1]}
    with pytest.raises(CheckpointError, match="Swin"):
        config_of({**small, "window_size": 4, **changes})
