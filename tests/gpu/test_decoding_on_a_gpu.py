"""Decoding on a GPU: recorded steps give the words of a CPU."""

import pytest
import torch

from leadline.engine.decoder import Cached
from leadline.models import GPT
from leadline.text.beam import beam_search
from leadline.text.choosing import GREEDY, Choice
from leadline.text.decoding import generate
from leadline.text.stopping import Stop

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

PROMPTS = [[5, 7, 2], [3], [9, 9, 4, 11, 8, 6]]


def made(**options):
    torch.manual_seed(0)
    model = GPT(50, 96, dim=64, num_layers=3, num_heads=4, tied=False, **options).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(6 if p.dim() > 1 else 1)
    return model


def words(scorer, choice=GREEDY, most=80, **more):
    return [row.tokens for row in generate(scorer, PROMPTS, most, choice, Stop(tokens=(1,)), **more)]


@pytest.mark.parametrize("options", [{}, {"positions": "rotary", "end": 3}, {"positions": "alibi", "window": 4}])
@pytest.mark.parametrize(
    "choice",
    [GREEDY, Choice(), Choice(0.8, top_k=9), Choice(top_p=0.9, min_p=0.01), Choice(allowed=torch.arange(50) > 4)],
)
def test_recorded_words_are_those_of_a_cpu(options, choice):
    model = made(**options).double()  # rounding must not decide what is drawn
    expected = words(Cached(model), choice)
    recorded = Cached(model.cuda(), dtype=torch.float64)
    assert words(recorded, choice) == expected
    assert recorded.record, "the step was not recorded"
    assert words(recorded, choice) == expected
    assert words(Cached(model, dtype=torch.float64, record=False), choice) == expected


def test_greedy_words_in_single_precision_are_those_of_a_cpu():
    model = made()
    expected = words(Cached(model))
    assert words(Cached(model.cuda(), dtype=torch.float32)) == expected


def test_beams_and_sliding_are_those_of_a_cpu():
    model = made().double()
    expected = [[text.tokens for text in texts] for texts in beam_search(Cached(model), PROMPTS, 20, 4, count=4)]
    long = words(Cached(model), most=200, slide=True)
    model = model.cuda()
    scorer = Cached(model, dtype=torch.float64)
    assert [[text.tokens for text in texts] for texts in beam_search(scorer, PROMPTS, 20, 4, count=4)] == expected
    assert words(Cached(model, dtype=torch.float64), most=200, slide=True) == long


def test_half_precision_and_a_compiled_step_follow():
    model = made().cuda()
    scorer = Cached(model)
    assert scorer.dtype == torch.bfloat16
    prompt, length = torch.tensor([[5, 7, 2]]), torch.tensor([3])
    exact = Cached(model, dtype=torch.float32).start(prompt, length)
    torch.testing.assert_close(scorer.start(prompt, length), exact, atol=0.05, rtol=0.02)
    compiled = Cached(model, dtype=torch.float32, compile=True)
    assert words(compiled) == words(Cached(model, dtype=torch.float32))
