"""How alike places are, where what was learned is known."""

import numpy as np
import pytest
import torch

from leadline.errors import UserError
from leadline.lens import position_similarity
from leadline.models import BERT, GPT, MLP, ImageGPT, ViT


def on_a_grid(rows, columns):
    """Vectors that are waves of a place's row and of its column."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    turns = [place.flatten() * (2 * torch.pi / 16) for place in (y, x)]
    return torch.stack([wave(turn) for turn in turns for wave in (torch.sin, torch.cos)], 1)


def test_a_grid_that_was_learned_is_found():
    view = position_similarity(ViT.tiny(), grid=(6, 5), weight=on_a_grid(6, 5))
    assert view.around.shape == (11, 9) and view.around[5, 4] == pytest.approx(1)
    assert view.around[4, 4] > view.around[2, 4] > view.around[0, 4]
    assert np.allclose(view.around, view.around[::-1, ::-1])  # s_ij = s_ji
    assert view.along[5] > view.along[4]  # a row further is nearer than the end of the row
    assert view.near > 0.5


def test_it_is_its_definition():
    e = torch.randn(12, 3, dtype=torch.float64)
    view = position_similarity(ViT.tiny(), grid=(3, 4), weight=e)
    c = e - e.mean(0)
    pairs = torch.nn.functional.cosine_similarity(c[:, None], c[None], dim=-1).numpy()
    assert np.allclose(view.similarity, pairs)
    assert view.along[2] == pytest.approx(np.mean([pairs[i, i + 2] for i in range(10)]))
    down = [pairs[4 * y + x, 4 * (y + 1) + x + 1] for y in range(2) for x in range(3)]
    assert view.around[3, 4] == pytest.approx(np.mean(down))


def test_models_with_learned_places_are_read_and_left_alone():
    for model, grid in ((ViT.tiny(), None), (ImageGPT.tiny(), (2, 2)), (ImageGPT.tiny(), None), (BERT.tiny(), None)):
        before = {name: value.clone() for name, value in model.state_dict().items()}
        view = position_similarity(model, grid)
        assert view.plot() is not None and view.to_dict()["view"] == "PositionSimilarity"
        assert np.isfinite(view.near)
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert position_similarity(GPT(11, 8, dim=8, num_layers=1, num_heads=2)).grid is None


def test_what_has_no_places_is_refused():
    with pytest.raises(UserError, match="learned positions"):
        position_similarity(MLP.tiny())
    with pytest.raises(UserError, match="no more places"):
        position_similarity(ImageGPT.tiny(), grid=(4, 4))
    with pytest.raises(UserError, match="three places"):
        position_similarity(ImageGPT.tiny(), grid=(1, 2))
