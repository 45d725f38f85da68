"""GPT beside transformers' GPT-2: scores, folders both ways, and the words that greedy and beam search give."""

import pytest
import torch

from leadline.engine.decoder import Cached, Recomputing
from leadline.errors import CheckpointError
from leadline.interop import gpt2, hugging_face
from leadline.models import GPT
from leadline.text.beam import beam_search
from leadline.text.choosing import Choice
from leadline.text.decoding import generate
from leadline.text.stopping import Stop

transformers = pytest.importorskip("transformers")

SIZES = [
    {"n_embd": 16, "n_layer": 2, "n_head": 2},
    {"n_embd": 24, "n_layer": 3, "n_head": 3, "n_inner": 40, "activation_function": "gelu"},
    {"n_embd": 12, "n_layer": 1, "n_head": 1, "activation_function": "relu", "tie_word_embeddings": False},
]


def theirs(number=0, vocab=23, seed=0, **more):
    """A GPT-2 of random weights, large enough that words differ; its documents end with word 1."""
    torch.manual_seed(seed)
    size = {"vocab_size": vocab, "n_positions": 40, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size, **SIZES[number], **more)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.add_(torch.randn_like(p) * (1.0 if "wpe" in name else 0.3 if p.dim() > 1 else 0.05))
    return model


@pytest.fixture(params=range(len(SIZES)))
def pair(request, tmp_path):
    """The same model, theirs and ours."""
    model = theirs(request.param)
    model.save_pretrained(tmp_path)
    return model, hugging_face.load(tmp_path).eval()


@torch.no_grad()
def test_scores_agree(pair):
    model, ours = pair
    x = torch.randint(0, 23, (3, 40))
    torch.testing.assert_close(ours(x), model(x).logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_folder_of_ours_is_read_by_transformers(tmp_path):
    torch.manual_seed(1)
    ours = GPT(23, 12, dim=16, num_layers=2, num_heads=4, end=1, tied=False).eval()
    hugging_face.save(ours, tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    x = torch.randint(2, 23, (2, 12))
    torch.testing.assert_close(model(x).logits, ours(x), atol=1e-5, rtol=1e-5)
    again = hugging_face.load(tmp_path).eval()
    torch.testing.assert_close(again(x), ours(x), atol=0, rtol=0)


def test_what_does_not_fit_is_told():
    with pytest.raises(CheckpointError, match="layer_norm_epsilon of a gpt2 must be 1e-05"):
        gpt2.config_of({"layer_norm_epsilon": 1e-3})
    with pytest.raises(CheckpointError, match="positions='rotary'"):
        gpt2.hf_config_of(GPT(5, 4, dim=8, num_heads=2, positions="rotary"))


PROMPTS = [[5, 7, 2], [3], [9, 9, 4, 11, 8, 6]]


def generated(model, prompt, **options):
    """Their new words behind one prompt, without padding."""
    x = torch.tensor([prompt])
    out = model.generate(x, attention_mask=torch.ones_like(x), do_sample=False, pad_token_id=0, **options)
    rows = [row[len(prompt) :].tolist() for row in out]
    return [row[: row.index(1) + 1] if 1 in row else row for row in rows]


@pytest.mark.parametrize("made", [Cached, Recomputing])
def test_greedy_words_are_those_of_generate(pair, made):
    model, ours = pair
    found = generate(made(ours), PROMPTS, 12, stop=Stop(tokens=(1,)))
    for prompt, row in zip(PROMPTS, found):
        assert row.tokens == generated(model, prompt, max_new_tokens=12)[0]


def test_repetition_is_that_of_generate(pair):
    model, ours = pair
    choice = Choice(temperature=0, repetition=1.7)
    found = generate(Cached(ours), PROMPTS, 12, choice, stop=Stop(tokens=(1,)))
    for prompt, row in zip(PROMPTS, found):
        assert row.tokens == generated(model, prompt, max_new_tokens=12, repetition_penalty=1.7)[0]


@pytest.mark.parametrize(
    "beams, penalty, early", [(2, 1.0, False), (4, 0.0, "never"), (3, 2.0, True), (5, -0.5, False)]
)
def test_beams_are_those_of_generate(beams, penalty, early, tmp_path):
    for seed in range(3):
        model = theirs(seed % 3, vocab=9, seed=seed)
        model.save_pretrained(tmp_path / str(seed))
        ours = hugging_face.load(tmp_path / str(seed)).eval()
        prompts = [[token % 9 for token in prompt] for prompt in PROMPTS]
        found = beam_search(
            Cached(ours), prompts, 8, beams, Stop(tokens=(1,)), count=beams, penalty=penalty, early=early
        )
        for prompt, rows in zip(prompts, found):
            options = {"num_beams": beams, "num_return_sequences": beams, "length_penalty": penalty}
            x = torch.tensor([prompt])
            expected = model.generate(
                x, attention_mask=torch.ones_like(x), do_sample=False, pad_token_id=0, max_new_tokens=8,
                early_stopping=early, return_dict_in_generate=True, output_scores=True, **options,
            )  # fmt: skip
            assert [row.tokens for row in rows] == [
                words[: words.index(1) + 1] if 1 in words else words
                for words in (row[len(prompt) :].tolist() for row in expected.sequences)
            ]
            torch.testing.assert_close(
                torch.tensor([row.score for row in rows]), expected.sequences_scores, atol=1e-4, rtol=1e-4
            )


@torch.no_grad()
def test_what_stays_of_the_words_is_what_their_warpers_leave():
    torch.manual_seed(0)
    scores = torch.randn(50, 30) * 3
    for choice, warpers in [
        (Choice(0.7, top_k=5), [transformers.TemperatureLogitsWarper(0.7), transformers.TopKLogitsWarper(5)]),
        (Choice(top_p=0.8), [transformers.TopPLogitsWarper(0.8)]),
        (Choice(min_p=0.1), [transformers.MinPLogitsWarper(0.1)]),
        (Choice(top_k=9, top_p=0.6), [transformers.TopKLogitsWarper(9), transformers.TopPLogitsWarper(0.6)]),
    ]:  # fmt: skip
        expected = scores
        for warper in warpers:
            expected = warper(None, expected)
        torch.testing.assert_close(choice.narrowed(scores), expected, atol=0, rtol=0)
