"""The recurrent network: rows of any length, what it writes, and where it comes from data."""

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.engine.compiled import choose
from leadline.engine.decoder import Cached, Recomputing
from leadline.errors import ShapeError, UserError
from leadline.layers.recurrent_layers import RECURRENT
from leadline.models import Recurrent, build, sizes_from
from leadline.optim.gradient import Gradient
from leadline.settings import Settings
from leadline.testing import check_model
from leadline.text.beam import beam_search
from leadline.text.decoding import generate

LENGTHS = torch.tensor([6, 2, 5])


def drawn(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(found, expected, tolerance=1e-9):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def made(dim_output, **options):
    torch.manual_seed(0)
    return Recurrent(dim_output, dim=8, **options).double().eval()


@pytest.mark.parametrize("cell", RECURRENT)
def test_every_cell_keeps_the_contract(cell):
    check_model(Recurrent(3, channels=1, cell=cell, dim=6))


@pytest.mark.parametrize(
    "options",
    [
        {"channels": 2, "bidirectional": True},
        {"channels": 2, "head": "steps", "residual": False},
        {"channels": 2, "pool": "last", "p_drop": 0.3, "channels_first": True},
        {"num_tokens": 7, "pad": 0, "bidirectional": True, "pool": "last"},
        {"num_tokens": 7, "head": "steps"},
    ],
    ids=str,
)
def test_every_way_to_read_and_answer_keeps_the_contract(options):
    check_model(Recurrent(3, dim=6, **options))


@pytest.mark.parametrize("both", [False, True])
def test_a_plain_stack_is_torchs(both):
    model = made(3, channels=2, cell="lstm", residual=False, pool="last", bidirectional=both)
    stack = nn.LSTM(2, 4 if both else 8, num_layers=2, bidirectional=both, batch_first=True).double()
    with torch.no_grad():
        for number, block in enumerate(model.layers):
            parts = {"": block.branch.ahead, "_reverse": block.branch.back} if both else {"": block.branch}
            for end, layer in parts.items():
                for name, p in layer.kernel.named_parameters():
                    getattr(stack, name.replace("l0", f"l{number}{end}")).copy_(p)
    x = drawn(3, 6, 2)
    _, (h, _) = stack(x)
    close(model(x), model.answer(torch.cat(list(h[-2:]), -1) if both else h[-1]))


@pytest.mark.parametrize("pool", ["mean", "last"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_rows_of_their_own_length_are_as_if_alone(pool, both, residual):
    model = made(3, channels=2, pool=pool, bidirectional=both, residual=residual)
    there = torch.arange(6) < LENGTHS[:, None]
    x = torch.cat([drawn(3, 6, 2) * there[..., None], there[..., None].double()], -1)
    together = model(x)
    for b, length in enumerate(LENGTHS.tolist()):
        close(model(x[b : b + 1, :length, :2])[0], together[b])


@pytest.mark.parametrize("both", [False, True])
def test_padded_tokens_change_nothing(both):
    model = made(3, num_tokens=9, pad=0, bidirectional=both)
    x = torch.randint(1, 9, (3, 6), generator=torch.Generator().manual_seed(0)) * (torch.arange(6) < LENGTHS[:, None])
    together = model(x)
    for b, length in enumerate(LENGTHS.tolist()):
        close(model(x[b : b + 1, :length])[0], together[b])
    assert bool(model(torch.zeros(1, 4, dtype=torch.long)).isfinite().all())  # nothing but padding


def test_channels_before_or_behind_the_steps():
    model, other = made(3, channels=2), made(3, channels=2, channels_first=True)
    x = drawn(4, 6, 2)
    close(model(x), other(x.mT))
    single = made(3, channels=1)
    close(single(x[..., 0]), single(x[..., :1]))


@pytest.mark.parametrize("cell", RECURRENT)
def test_what_it_writes_step_by_step_is_the_whole_row(cell):
    model = made(7, num_tokens=7, head="next", cell=cell)
    x = torch.randint(7, (3, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole, cache, found = model(x), model.cache(3, 9, dtype=torch.float64), []
        for t in (0, 4, 5, 6, 7, 8):
            part = x[:, :4] if t == 0 else x[:, t : t + 1]
            cache.at = torch.arange(t, t + part.shape[1]).expand(3, -1)
            found.append(model.step(part, cache))
    close(torch.cat(found, 1), whole)


def test_numbers_stream_too():
    model, x = made(2, channels=2, head="steps"), drawn(3, 6, 2)
    cache = model.cache(3, 1, dtype=torch.float64)
    with torch.no_grad():
        for t in range(6):
            cache.at = torch.full((3, 1), t)
            close(model.step(x[:, t : t + 1], cache), model(x)[:, t : t + 1])


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_prompts_of_different_lengths_go_on_as_if_computed_anew(cell):
    model = made(11, num_tokens=11, head="next", cell=cell, pad=0, num_layers=1)
    model.embed.weight.data.mul_(4)  # so that words differ
    prompts = [[3, 4, 5, 6, 7], [8], [2, 9, 0]]
    cached = Cached(model)
    for _ in range(2):  # a second time the same scorer begins anew
        found = generate(cached, prompts, 12)
        expected = generate(Recomputing(model), prompts, 12)
        assert [row.tokens for row in found] == [row.tokens for row in expected]
        close(torch.tensor([row.score for row in found]), torch.tensor([row.score for row in expected]), 1e-5)
    beams = [beam_search(scorer, prompts, 8, 3) for scorer in (cached, Recomputing(model))]
    tokens = [[[one.tokens for one in texts] for texts in found] for found in beams]
    assert tokens[0] == tokens[1]


def test_it_is_built_from_data():
    signal = build("Recurrent", ll.data.mnist1d(num=100), 10)
    assert signal.config["channels"] == 1 and signal(torch.zeros(2, 40)).shape == (2, 10)
    assert sizes_from(Recurrent, (40,)) == {"channels": 1}
    assert sizes_from(Recurrent, (3, 40)) == {"channels": 3, "channels_first": True}
    assert sizes_from(Recurrent, (40, 4), {"channels": 3}) == {"channels": 3}
    with pytest.raises(UserError, match="tokens, or series"):
        sizes_from(Recurrent, (3, 8, 8))


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog ran to the door. " * 30)
    return ll.data.text(tmp_path / "text.txt", length=16, kind="characters", cache=False)


OWN = {"progress": False, "threads": 1, "findings": [], "with_report": False}


def test_a_run_on_characters_learns_and_writes(texts, tmp_path):
    model = build("Recurrent", texts, texts.inputs.tokenizer.num_tokens, dim=24, num_layers=1, p_drop=0.0)
    assert model.head == "next"
    run = ll.fit(model, texts, epochs=6, batch=8, lr=0.03, folder=tmp_path / "run", **OWN)
    assert run.evaluate("val")["nll"] < 1.5
    [text] = ll.generation.generate(run.model, texts.inputs, "the cat ", most=60, temperature=0.1)
    assert len(text.text) == 60 and "the " in text.text and text.why == "most"  # longer than the rows it learned from


@pytest.mark.parametrize("cell", ["gru", "lecture_gru"])
def test_a_wish_to_compile_never_changes_the_result(cell, tmp_path):
    data, ends = ll.data.mnist1d(num=80), []
    for number, wish in enumerate(("off", "auto", "on") if cell == "gru" else ("off", "auto")):
        model = build("Recurrent", data, 10, cell=cell, dim=8, num_layers=1)
        run = ll.fit(model, data, epochs=1, compile=wish, folder=tmp_path / str(number), **OWN)
        ends.append(list(run.model.state_dict().values()))
        if wish == "on":
            assert "not compiled: torch's kernel" in (tmp_path / str(number) / "run.json").read_text()
    for other in ends[1:]:
        assert all(torch.equal(p, q) for p, q in zip(ends[0], other, strict=True))


@pytest.mark.parametrize(
    ("cell", "wished"), [("gru", "record"), ("lstm", "record"), ("lecture_gru", "on"), ("deep_transition", "on")]
)
def test_on_a_gpu_kernels_and_loops_are_recorded_and_kernels_never_compiled(cell, wished):
    rule = Gradient(Settings())
    rule.bind(Recurrent(10, channels=1, cell=cell, dim=8), ll.likelihoods.Categorical(10), 1000)
    gpu = torch.device("cuda")
    assert choose("auto", rule, gpu, 1000, lambda: None) == ("record", None)
    assert choose("auto", rule, gpu, 100, lambda: None) == ("off", None)  # recording takes longer
    assert choose("auto", rule, torch.device("cpu"), 10**9, lambda: None) == ("off", None)
    assert choose("record", rule, gpu, 10, lambda: None) == ("record", None)
    chosen, note = choose("on", rule, gpu, 1000, lambda: None)
    assert chosen == wished and (note is None) == (wished == "on")


@pytest.mark.parametrize(("p_drop", "chosen"), [(0.0, "record"), (0.1, "off")])
def test_stacks_of_torch_are_recorded_but_for_noise_of_their_own(p_drop, chosen):
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.LSTM(1, 4, num_layers=2, dropout=p_drop, batch_first=True)

    rule = Gradient(Settings())
    rule.bind(Own(), ll.likelihoods.Categorical(4), 1000)
    assert choose("auto", rule, torch.device("cuda"), 1000, lambda: None)[0] == chosen


def test_what_does_not_fit_is_said():
    with pytest.raises(UserError, match="either channels or num_tokens"):
        Recurrent(3)
    with pytest.raises(UserError, match="either channels or num_tokens"):
        Recurrent(3, channels=1, num_tokens=5)
    with pytest.raises(UserError, match="none of which it has seen.*Leave bidirectional out"):
        Recurrent(5, num_tokens=5, head="next", bidirectional=True)
    with pytest.raises(UserError, match="Pass dim_output=5"):
        Recurrent(3, num_tokens=5, head="next")
    with pytest.raises(UserError, match="dim must be even"):
        Recurrent(3, channels=1, dim=7, bidirectional=True)
    with pytest.raises(UserError, match="Did you mean"):
        Recurrent(3, channels=1, cell="grus")
    with pytest.raises(ShapeError, match="reads rows of 2 channels"):
        Recurrent(3, channels=2)(torch.zeros(2, 5, 4))
    with pytest.raises(ShapeError, match="rows of tokens"):
        Recurrent(3, num_tokens=5)(torch.zeros(2, 5))
    with pytest.raises(UserError, match="read ahead"):
        model = Recurrent(3, num_tokens=5, bidirectional=True)
        model.step(torch.zeros(1, 1, dtype=torch.long), model.cache(1, 4))


@pytest.mark.parametrize("name", ["ConvNet1D", "ConvNet"])
def test_a_model_of_equal_lengths_is_refused_for_padded_sequences(name):
    data = ll.data.sequences([torch.randn(n, 2) for n in range(5, 25)], target=["a", "b"] * 10)
    with pytest.raises(UserError, match="Recurrent"):
        ll.models.build(name, data, 2)
    assert ll.models.build("Recurrent", data, 2).channels == 2


@pytest.mark.parametrize("pool", ["last", "mean"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_rows_without_steps_are_answered_as_padding_is(pool, bidirectional):
    model = Recurrent(3, channels=2, dim=4, pool=pool, bidirectional=bidirectional).eval()
    padding = torch.randn(2, 5, 3)
    padding[..., -1] = 0
    none, padding = model(torch.zeros(2, 0, 3)), model(padding)
    torch.testing.assert_close(none, padding)
    assert model(torch.zeros(2, 0, 2)).isfinite().all()
