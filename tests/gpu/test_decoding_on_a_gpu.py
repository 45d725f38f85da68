"""Decoding on a GPU: recorded steps give the words of a CPU."""

import pytest
import torch

from leadline.engine.decoder import Cached
from leadline.errors import UserError
from leadline.layers.attend_one import _plain, attend_one
from leadline.layers.many_rows import ManyRows
from leadline.layers.one_row import OneRow
from leadline.models import GPT, Transformer
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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "rms", "activation": "gelu"},
        {"positions": "none", "activation": "relu"},
        {"dim": 100, "num_heads": 5, "activation": "silu"},
        {"positions": "rotary"},
        {"dim": 768, "num_heads": 12, "dim_hidden": 3000},
    ],
)
@pytest.mark.parametrize("choice", [GREEDY, Choice(0, allowed=torch.arange(50) % 3 > 0), Choice(0.8)])
def test_kernels_of_a_step_score_as_the_model_does(options, choice):
    torch.manual_seed(0)
    model = GPT(50, 96, **{"dim": 64, "num_layers": 3, "num_heads": 4, "tied": False, **options}).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3 if p.dim() > 1 else 1).add_(0.05 * torch.randn_like(p))
    model = model.cuda()
    for prompts in ([PROMPTS[0]], PROMPTS):
        plain, own = Cached(model, dtype=torch.float32), Cached(model, dtype=torch.float32)
        plain._chain = None
        wanted = generate(plain, prompts, 60, choice)
        found = generate(own, prompts, 60, choice)
        assert isinstance(own.own, ManyRows)
        assert own.record and plain.own is None
        assert [row.tokens for row in found] == [row.tokens for row in wanted]
        assert [row.score for row in found] == pytest.approx([row.score for row in wanted], rel=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "rms", "activation": "gelu"},
        {"positions": "none", "activation": "relu", "num_tokens": 500},
        {"dim": 72, "num_heads": 9, "dim_hidden": 200, "activation": "silu"},
        {"dim": 256, "num_heads": 1, "num_layers": 1},
        {"positions": "rotary", "num_heads": 8},
        {"dim": 1600, "num_heads": 25, "num_layers": 1, "num_tokens": 3000},
        {"dim": 4096, "num_heads": 32, "num_layers": 1},
        {"dim": 768, "num_heads": 12, "num_tokens": 5000, "length": 700, "num_layers": 2},
    ],
)
@pytest.mark.parametrize("record", [False, True])
def test_one_row_scores_as_the_model_does_in_single_precision(options, record):
    torch.manual_seed(0)
    sizes = {"num_tokens": 50, "length": 200, "dim": 64, "num_layers": 3, "num_heads": 4, **options}
    model = GPT(**sizes).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2 if p.dim() > 1 else 1).add_(0.03 * torch.randn_like(p))
    model = model.cuda().bfloat16().float()  # weights that half precision has too
    plain, own = Cached(model, dtype=torch.float32, record=False), Cached(model, record=record)
    plain._chain = None
    first, length = torch.tensor([PROMPTS[0]]), torch.tensor([3])
    plain.start(first, length), own.start(first, length)
    assert isinstance(own.own, OneRow) and plain.own is None
    words = torch.randint(0, sizes["num_tokens"], (sizes["length"] - 5, 1))
    for word in words:
        wanted, found = plain.next(word), own.next(word)
        assert float((found - wanted).norm() / wanted.norm()) < 0.02  # queries, keys and values are in half precision


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dim": 768, "num_heads": 12, "num_tokens": 5000, "num_layers": 2},
        {"dim": 384, "num_heads": 6, "dim_hidden": 1536, "activation": "relu", "norm": "rms"},
        {"dim": 256, "num_heads": 4, "positions": "rotary", "activation": "silu"},
    ],
)
@pytest.mark.parametrize("rows", [2, 64, 65])
@pytest.mark.parametrize("record", [False, True])
def test_many_rows_score_as_the_model_does_in_half_precision(options, rows, record):
    torch.manual_seed(0)
    sizes = {"num_tokens": 50, "length": 60, "dim": 128, "num_layers": 3, "num_heads": 4, **options}
    model = GPT(**sizes).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2 if p.dim() > 1 else 1).add_(0.03 * torch.randn_like(p))
    model = model.cuda().bfloat16().float()  # weights that half precision has too
    plain, own = Cached(model, dtype=torch.float32, record=False), Cached(model, record=record)
    plain._chain = None
    lengths = 1 + torch.arange(rows) % 5
    first = torch.randint(0, sizes["num_tokens"], (rows, 5))
    plain.start(first, lengths), own.start(first, lengths)
    assert isinstance(own.own, ManyRows) and plain.own is None
    for word in torch.randint(0, sizes["num_tokens"], (sizes["length"] - 5, rows)):
        wanted, found = plain.next(word), own.next(word)
        off = (found - wanted).norm(dim=1) / wanted.norm(dim=1)
        assert float(off.max()) < 0.03


@pytest.mark.parametrize("allowed", [None, torch.arange(300) % 7 == 3])
def test_one_row_chooses_the_likeliest_of_its_scores(allowed):
    torch.manual_seed(1)
    model = GPT(300, 160, dim=128, num_layers=2, num_heads=4).cuda().eval()
    own, forced = Cached(model), Cached(model)
    choice = GREEDY if allowed is None else Choice(0, allowed=allowed)
    (row,) = generate(own, [PROMPTS[0]], 150, choice)
    assert isinstance(own.own, OneRow)
    scores = forced.start(torch.tensor([PROMPTS[0]]), torch.tensor([3]))
    total = 0.0
    for word in row.tokens:
        may = scores[0] if allowed is None else scores[0].masked_fill(~allowed.cuda(), -torch.inf)
        assert int(may.argmax()) == word
        total += float(scores[0].log_softmax(-1)[word])
        scores = forced.next(torch.tensor([word]))
    assert row.score == pytest.approx(total, rel=1e-4)


def test_weights_that_are_no_numbers_do_not_end_the_process():
    model = GPT(50, 96, dim=64, num_layers=2, num_heads=4).cuda().eval()
    with torch.no_grad():
        model.leave.weight.fill_(float("nan"))
    for prompts in ([PROMPTS[0]], PROMPTS):  # of which the first goes the way of one row
        with pytest.raises(UserError, match="nan"):
            generate(Cached(model), prompts, 5)
        torch.cuda.synchronize()


def test_a_text_comes_out_the_same_each_time():
    model = GPT(500, 200, dim=256, num_layers=4, num_heads=4).cuda().eval()
    once, again = ([row.score for row in generate(Cached(model), [[3, 4, 5]], 150)] for _ in range(2))
    assert once == again


def test_prompts_of_a_size_that_comes_again_are_read_as_at_first():
    model = made().cuda()
    for rows in (1, 3):
        kept = Cached(model, dtype=torch.float32)
        for seed in range(4):
            torch.manual_seed(seed)
            prompts, lengths = torch.randint(0, 50, (rows, 7)), torch.randint(1, 8, (rows,))
            found, wanted = kept.start(prompts, lengths), Cached(model, dtype=torch.float32).start(prompts, lengths)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
            assert (kept._prompts[7] is None) == (seed == 0)
            word = torch.randint(0, 50, (rows,))
            fresh = Cached(model, dtype=torch.float32, record=False)
            fresh.start(prompts, lengths)
            torch.testing.assert_close(kept.next(word), fresh.next(word), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("most", [1, 7, 8, 9, 31])
def test_words_recorded_together_are_those_of_single_steps(most):
    model = made().cuda()
    for prompts in ([PROMPTS[0]], PROMPTS):
        together, single = Cached(model), Cached(model, record=False)
        for choice in (GREEDY, Choice(0.8)):
            found, wanted = (generate(scorer, prompts, most, choice) for scorer in (together, single))
            assert [row.tokens for row in found] == [row.tokens for row in wanted]


@pytest.mark.parametrize("heads", [1, 4, 16, 40])
def test_blocks_that_share_a_head_find_what_one_finds(heads):
    torch.manual_seed(0)
    for at in (0, 1, 63, 64, 500, 1023):
        q, k, v = (torch.randn(1, heads, 1, 64, device="cuda").bfloat16() for _ in range(3))
        keys, values = (torch.randn(1, heads, 1024, 64, device="cuda").bfloat16() for _ in range(2))
        places = torch.tensor([[at]], device="cuda")
        own = keys.clone(), values.clone()
        with torch.no_grad():
            found = attend_one(q, k, v, *own, places, 0.125)
        wanted = _plain(*(t.float() for t in (q, k, v, keys, values)), places, 0.125)
        torch.testing.assert_close(found.float(), wanted, rtol=0.02, atol=0.02)
        assert torch.equal(own[0][:, :, at], k[:, :, 0]) and torch.equal(own[1][:, :, at], v[:, :, 0])
        own[0][:, :, at] = keys[:, :, at]
        assert torch.equal(own[0], keys)


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


@pytest.mark.parametrize("rows", [2, 700])
def test_rows_that_begin_with_one_word_have_their_own_places(rows):
    """Their place is one number for all: a kernel that reads one a row would read, and write, where nothing is."""
    torch.manual_seed(0)
    model = Transformer(40, 20, 12, dim=256, num_layers=2, num_heads=4).cuda().eval()
    source = torch.randint(4, 40, (rows, 12), device="cuda")
    fast, plain = (Cached(model, source=source, dtype=dtype) for dtype in (torch.bfloat16, torch.float32))
    first = torch.full((rows, 1), 2)
    for scorer in (fast, plain):
        scorer.start(first, torch.ones(rows, dtype=torch.long))
    following = torch.randint(4, 40, (rows,), device="cuda")
    torch.testing.assert_close(fast.next(following), plain.next(following), rtol=0.02, atol=0.05)
