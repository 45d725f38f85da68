"""ViT gives the scores of transformers' on the same weights, and its folders go both ways."""

import json

import pytest
import torch

from leadline.errors import CheckpointError, ShapeError, UserError
from leadline.interop import hugging_face
from leadline.models import ViT

transformers = pytest.importorskip("transformers")

CONFIGS = [
    {"image_size": 16, "patch_size": 4, "num_labels": 5},
    {"image_size": [8, 12], "patch_size": 2, "num_channels": 1, "hidden_size": 24, "num_attention_heads": 3},
    {"image_size": 32, "patch_size": 16, "num_hidden_layers": 4, "intermediate_size": 40, "layer_norm_eps": 1e-6},
]


def theirs_of(**changes):
    torch.manual_seed(len(changes))
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**{**small, **changes})).eval()
    with torch.no_grad():  # first weights are too small for a wrong place to show
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def pictures(config, size=None):
    size = size or config.image_size
    Y, X = (size, size) if isinstance(size, int) else size
    return torch.randn(3, config.num_channels, Y, X)


@torch.no_grad()
@pytest.mark.parametrize("changes", CONFIGS)
def test_scores_are_those_of_transformers(changes, tmp_path):
    theirs = theirs_of(**changes)
    theirs.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path).eval()
    x = pictures(theirs.config)
    torch.testing.assert_close(ours(x), theirs(x).logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("size", [(16, 16), (8, 12)])
def test_what_is_saved_is_read_by_transformers(size, tmp_path):
    torch.manual_seed(0)
    ours = ViT(3, size, 4, patch=4, dim=16, num_layers=2, num_heads=2, p_drop=0.1).eval()
    hugging_face.save(ours, tmp_path)
    theirs = transformers.ViTForImageClassification.from_pretrained(tmp_path).eval()
    x = torch.randn(2, 3, *size)
    torch.testing.assert_close(theirs(x).logits, ours(x), atol=1e-5, rtol=1e-5)
    again = hugging_face.load(tmp_path)
    assert again.config == {**ours.config, "dim_hidden": 64}
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in ours.state_dict().items())


@torch.no_grad()
@pytest.mark.parametrize("size", [(24, 24), (12, 20), (16, 16)])
def test_a_picture_of_another_size_is_read_as_transformers_does(size, tmp_path):
    theirs = theirs_of(image_size=16, patch_size=4)
    theirs.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path).eval().resized(size)
    x = pictures(theirs.config, size)
    assert not ours.training
    torch.testing.assert_close(ours(x), theirs(x, interpolate_pos_encoding=True).logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_trunk_without_its_head_is_a_beginning(tmp_path):
    theirs = theirs_of(image_size=16, patch_size=4).vit
    theirs.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match="new_head"):
        hugging_face.load(tmp_path)
    ours = hugging_face.load(tmp_path, new_head=True, dim_output=7).eval()
    x = pictures(theirs.config)
    assert ours(x).shape == (3, 7)
    h = torch.cat([ours.class_token.expand(3, -1, -1), ours.enter(x).flatten(1, 2)], 1) + ours.position
    torch.testing.assert_close(ours.norm(ours.blocks(h)), theirs(x).last_hidden_state, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "changes", [{"hidden_act": "relu"}, {"qkv_bias": False}, {"patch_size": [4, 2]}, {"image_size": 18}]
)
def test_what_ours_has_not_is_refused(changes, tmp_path):
    theirs_of(image_size=16, patch_size=4).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(CheckpointError, match="ViT"):
        hugging_face.load(tmp_path)


def test_what_theirs_has_not_is_refused(tmp_path):
    for options in ({"pool": "mean"}, {"size": (9, 9)}):
        with pytest.raises(UserError, match="transformers"):
            hugging_face.save(ViT(**{**ViT.tiny().config, **options}), tmp_path)
    hugging_face.save(ViT.tiny(), tmp_path)
    with pytest.raises(ShapeError, match="position"):
        hugging_face.load(tmp_path, size=(16, 16))
