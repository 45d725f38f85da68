"""Updates of low rank: nothing changes at first, little moves, and folded in they are the plain model again."""

import json

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.cli import main
from leadline.engine import checkpoint
from leadline.errors import UserError
from leadline.interop import beginning, hugging_face
from leadline.layers import LowRankUpdate
from leadline.layers.placed_attention import PlacedAttention
from leadline.models import MODELS, lora, merged
from leadline.verbs import fit, load, resume

TRANSFORMERS = ("GPT", "BERT", "Transformer", "T5", "ViT", "Swin", "DaViT", "ImageGPT")
FIT = {"progress": False, "with_report": False, "threads": 1, "compile": "off", "findings": []}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_CACHE", str(tmp_path / "cache"))


def tiny(name):
    torch.manual_seed(0)
    model = MODELS[name].tiny().eval()
    shape = (3, *model.input_shape)
    return model, torch.randint(1, 8, shape) if hasattr(model, "num_tokens") else torch.randn(shape)


def shaken(model):
    """With updates that are not 0."""
    torch.manual_seed(1)
    for module in model.modules():
        if isinstance(module, LowRankUpdate):
            nn.init.normal_(module.up.weight)
    return model


def test_the_update_is_that_of_the_equation():
    base = nn.Linear(5, 3, dtype=torch.float64)
    layer = shaken(LowRankUpdate(base, rank=2, alpha=6.0))
    x = torch.randn(4, 5, dtype=torch.float64)
    A, B = layer.down.weight, layer.up.weight
    wanted = x @ base.weight.T + base.bias + 3.0 * (x @ A.T @ B.T)
    torch.testing.assert_close(layer(x), wanted)
    torch.testing.assert_close(nn.functional.linear(x, layer.weight, layer.bias), wanted)
    assert torch.autograd.gradcheck(layer, (x.requires_grad_(),))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_transformer_begins_as_it_was_and_folds_back(name):
    model, x = tiny(name)
    before, names = model(x), list(model.state_dict())
    made = lora(model, rank=2)
    assert made is model
    torch.testing.assert_close(made(x), before)  # the update is 0; kernels may differ where nothing asks for gradients
    maps = [path for path, m in made.named_modules() if isinstance(m, LowRankUpdate)]
    assert len(maps) >= 2 and all("query" in path or "key" in path or path.endswith(".out") for path in maps)
    after = shaken(made)(x)
    assert (after - before).abs().max() > 1e-4
    plain = merged(made)
    assert list(plain.state_dict()) == names
    torch.testing.assert_close(plain(x), after, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(merged(made.double())(x if x.dtype == torch.long else x.double()).float(), after)
    assert all(p.requires_grad for p in plain.parameters()) and not hasattr(plain, "lora")
    assert any(isinstance(m, LowRankUpdate) for m in made.modules())  # the first is left as it is


def test_only_the_updates_and_the_head_learn():
    model, _ = tiny("BERT")
    lora(model, rank=2)
    free = {name for name, p in model.named_parameters() if p.requires_grad}
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in free} == {"down", "up", "pooler", "answer"}
    model, _ = tiny("BERT")
    lora(model, where="*.widen", moving=())
    assert len([p for p in model.parameters() if p.requires_grad]) == 2


def test_a_map_that_two_share_gets_one_update():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.query = nn.ModuleList([nn.Linear(3, 3)])
            self.key = nn.ModuleList([self.query[0]])

    model = lora(Twice(), where=("query.0", "key.0"))
    assert model.query[0] is model.key[0]


def test_what_reads_a_weight_reads_the_sum():
    torch.manual_seed(0)
    layer = PlacedAttention(8, 2, 6)
    made = shaken(lora(nn.ModuleDict({"attention": layer}), rank=2, where="*query_key_value"))
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(made["attention"](x), merged(made)["attention"](x), rtol=1e-5, atol=1e-5)


def test_the_first_maps_follow_the_seed():
    first = [lora(tiny("GPT")[0], seed=seed).layers[0].look.branch.out.down.weight for seed in (1, 1, 2)]
    assert torch.equal(first[0], first[1]) and not torch.equal(first[0], first[2])


@pytest.mark.parametrize(
    ("call", "must"),
    [
        (lambda m: lora(m, where="*.wide"), "where must match linear maps"),
        (lambda m: lora(m, rank=0), "rank must be a whole number of at least 1"),
        (lambda m: lora(m, alpha=0), "alpha must be"),
        (lambda m: lora(m, where=(3,)), "patterns of names"),
        (lambda m: lora(lora(m)), "must be plain"),
    ],
)
def test_what_cannot_be_is_refused(call, must):
    with pytest.raises(UserError, match=must):
        call(tiny("GPT")[0])


def adapted():
    torch.manual_seed(0)
    model = MODELS["ViT"](1, (6, 6), 3, patch=3, dim=8, num_layers=2, num_heads=2, p_drop=0.1)
    return lora(model, rank=2, alpha=4.0)


def pictures():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 1, 6, 6, generator=g)
    return ll.data.arrays(x, (x.mean((1, 2, 3)) * 9).round().clamp(-1, 1).long() + 1)


def test_a_run_holds_the_base_still_keeps_no_state_for_it_and_is_read_back(tmp_path):
    data, model = pictures(), adapted()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    run = fit(model, data, epochs=2, folder=tmp_path / "run", **FIT)
    moved = {name for name, p in run.model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {name for name, p in model.named_parameters() if p.requires_grad}
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    tensors, _ = checkpoint.load(newest)
    free = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert sum(t.numel() for t in tensors["state"].values()) < 2.5 * free  # two moments, and steps
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert config["model"]["lora"]["rank"] == 2 and config["model"]["lora"]["alpha"] == 4.0
    again = load(tmp_path / "run", data=data)
    assert torch.equal(again.raw(data.test.x), run.raw(data.test.x))
    assert [p.requires_grad for p in again.model.parameters()] == [p.requires_grad for p in model.parameters()]


class Stop(Exception):
    pass


def test_a_run_that_broke_off_ends_bit_for_bit_as_the_whole_one(tmp_path):
    data = pictures()
    whole = fit(adapted(), data, epochs=3, folder=tmp_path / "whole", **FIT)

    def breaks(event):
        if getattr(event, "epoch", 0) == 2:
            raise Stop

    with pytest.raises(Stop):
        fit(adapted(), data, epochs=3, folder=tmp_path / "cut", listeners=[breaks], **FIT)
    cut = resume(tmp_path / "cut", data=data, progress=False, with_report=False)
    ended = zip(whole.model.state_dict().values(), cut.model.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in ended)


def test_the_shell_adapts_what_a_folder_holds_and_predicts_with_it(tmp_path, capsys):
    words = ll.text.Tokenizer.train(["a good film", "a bad film, never again"] * 9, kind="bytes")
    torch.manual_seed(0)
    bert = ll.models.BERT(words.num_tokens, 64, words.num_tokens, dim=16, num_layers=1, num_heads=2)
    hugging_face.save(bert, "bert", tokenizer=words)
    rows = [f"{'a good film again' if k % 2 else 'a bad film'} {k},{'up' if k % 2 else 'down'}" for k in range(60)]
    (tmp_path / "reviews.csv").write_text("\n".join(["review,stars", *rows]))
    line = "train reviews.csv --text review --target stars --length 40 --epochs 1 --threads 1 --no-report"
    assert main([*line.split(), "--lora", "2"]) == 2
    assert "--lora needs a trained model" in " ".join(capsys.readouterr().err.split())
    assert main([*line.split(), "--from", "bert", "--lora", "2", "--folder", "run"]) == 0
    assert "by default --lr 0.001" in " ".join("".join(capsys.readouterr()).split())
    run = load("run")
    moving = {name.split(".")[0] for name, p in run.model.named_parameters() if p.requires_grad}
    assert moving == {"layers", "pooler", "answer"}
    assert torch.equal(run.model.tokens.weight, bert.tokens.weight)
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "--from bert" in ll.repeat.command(config) and "--lora 2" in ll.repeat.command(config)
    assert "ll.models.lora(model, rank=2" in ll.repeat.python(config)
    assert main(["predict", "run", "reviews.csv", "--output", "said.csv"]) == 0
    assert len((tmp_path / "said.csv").read_text().splitlines()) == 61
    plain = merged(run.model)
    hugging_face.save(plain, "tuned")
    x = torch.randint(5, 60, (2, 9))
    torch.testing.assert_close(hugging_face.load("tuned").eval()(x), run.model.eval()(x), rtol=1e-5, atol=1e-6)
    model, filled = beginning("run").build(run.data, run.model.dim_output)
    assert not filled.new
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), plain.state_dict().values()))
