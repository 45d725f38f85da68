"""What a transformer cannot read is told in one sentence: other types, other tokens, other axes."""

import pytest
import torch

from leadline.errors import UserError
from leadline.models import BERT, GPT, T5, DaViT, ImageGPT, Swin, Transformer, ViT, lora

TEXT = [GPT, BERT, T5, Transformer, ImageGPT]
PICTURES = [ViT, Swin, DaViT]


def rows(model, fill=1, dtype=torch.long):
    return torch.full((2, *model.input_shape), fill, dtype=dtype)


@pytest.mark.parametrize("kind", TEXT)
def test_tokens_that_it_does_not_know_are_named(kind):
    model = kind.tiny().eval()
    for token in (model.num_tokens, -1):
        x = rows(model)
        x[1, -1] = token
        message = rf"{kind.__name__} reads tokens from 0 to {model.num_tokens - 1}\. Got {token}\."
        with pytest.raises(UserError, match=message):
            model(x)


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize(
    "made", [lambda m: None, lambda m: rows(m).tolist(), lambda m: rows(m, dtype=torch.float32), lambda m: rows(m)[0]]
)
def test_what_is_no_tensor_of_tokens_is_refused(kind, made):
    model = kind.tiny().eval()
    with pytest.raises(UserError, match=rf"^{kind.__name__}"):
        model(made(model))


@pytest.mark.parametrize("kind", TEXT)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int16])
def test_tokens_of_few_bits_are_refused_and_of_32_are_read(kind, dtype):
    model = kind.tiny().eval()
    with pytest.raises(UserError, match=r"whole numbers of 32 or 64 bits\. Got torch\.\w+\. Pass x\.long\(\)"):
        model(rows(model, dtype=dtype))
    torch.testing.assert_close(model(rows(model, dtype=torch.int32)), model(rows(model)))


def test_a_row_of_nothing_is_refused_by_what_reads_its_first_token():
    with pytest.raises(UserError, match="Pass at least one token a row"):
        BERT.tiny()(torch.ones(2, 0, dtype=torch.long))


@pytest.mark.parametrize("kind", PICTURES)
@pytest.mark.parametrize("made", [lambda m: None, lambda m: rows(m), lambda m: rows(m, dtype=torch.uint8)])
def test_pictures_are_real_numbers(kind, made):
    model = kind.tiny().eval()
    with pytest.raises(UserError, match=rf"{kind.__name__}: x must be pictures of real numbers, .*x / 255"):
        model(made(model))


def test_patterns_of_lora_are_texts():
    with pytest.raises(UserError, match="where must be patterns of names"):
        lora(GPT.tiny(), 2, where=3)
