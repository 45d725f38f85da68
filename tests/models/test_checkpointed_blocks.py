"""Blocks computed again: the same bits and the same noise, in less memory, whatever a block is called with."""

import copy

import pytest
import torch
from torch import nn

import leadline as ll
from leadline.errors import UserError
from leadline.layers import noise
from leadline.layers.sublayer import Sublayer
from leadline.models import MODELS, checkpointed, lora
from leadline.models.checkpointed import _Again, is_checkpointed

TRANSFORMERS = ("GPT", "BERT", "Transformer", "T5", "ViT", "Swin", "DaViT", "ImageGPT")


def tiny(name):
    torch.manual_seed(0)
    model = MODELS[name].tiny().train()
    shape = (3, *model.input_shape)
    return model, torch.randint(1, 8, shape) if hasattr(model, "num_tokens") else torch.randn(shape)


def gradients(model, x):
    """Of a step whose backward pass runs outside of the keys."""
    with noise.keyed(noise.example_keys(0, 0, torch.arange(len(x)))):
        loss = model(x).square().sum()
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def kept(model, x):
    """Bytes of the tensors that the backward pass waits for."""
    own, found = {p.data_ptr() for p in model.parameters()}, {}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            found[tensor.data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(t.numel() * t.element_size() for t in found.values())


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("every", [1, 2])
def test_gradients_are_equal_bit_for_bit_and_names_stay(name, every):
    model, x = tiny(name)
    names, twin = list(model.state_dict()), copy.deepcopy(model)
    wanted, found = gradients(twin, x), gradients(checkpointed(model, every), x)
    assert list(model.state_dict()) == names and wanted.keys() == found.keys()
    assert all(torch.equal(wanted[name], found[name]) for name in wanted)


def test_documents_windows_and_biases_reach_the_second_pass():
    torch.manual_seed(0)
    for positions in ("rotary", "alibi"):
        model = MODELS["GPT"](
            num_tokens=9, length=8, dim=8, num_layers=3, num_heads=2, positions=positions, window=2, end=0
        )
        x, twin = torch.randint(0, 9, (3, 8)), copy.deepcopy(model)
        wanted, found = gradients(twin, x), gradients(checkpointed(model), x)
        assert all(torch.equal(wanted[name], found[name]) for name in wanted)


def test_less_is_kept_for_the_way_back():
    torch.manual_seed(0)
    model = MODELS["GPT"](num_tokens=11, length=32, dim=32, num_layers=6, num_heads=2, p_drop=0.1)
    x = torch.randint(0, 11, (8, 32))
    plain, some, few = kept(model, x), kept(checkpointed(model, 2), x), kept(checkpointed(model), x)
    assert few < 0.2 * plain and few < some < 0.75 * plain


def test_a_step_takes_one_more_pass_through_each_block_and_judging_none():
    model, x = tiny("GPT")
    calls = []
    for module in model.modules():
        if isinstance(module, Sublayer):
            module.register_forward_pre_hook(lambda *_: calls.append(1))
    checkpointed(model)
    out = model(x)
    assert len(calls) == 4
    out.sum().backward()
    assert len(calls) == 8
    with torch.no_grad():
        model(x)
    assert len(calls) == 12


def test_a_copy_has_blocks_of_its_own():
    model, x = tiny("GPT")
    twin = copy.deepcopy(checkpointed(model))
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    assert twin.layers[0].forward.block is twin.layers[0]
    assert gradients(twin, x)["layers.0.look.branch.out.weight"].abs().sum() > 0


def test_fit_does_not_notice_and_updates_of_low_rank_go_with_it():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, 1, 6, 6, generator=g)
    data, ended = ll.data.arrays(x, (x.mean((1, 2, 3)) > 0).long()), []
    for wrap in (lambda model: model, checkpointed):
        torch.manual_seed(0)
        model = lora(MODELS["ViT"](1, (6, 6), 1, patch=3, dim=8, num_layers=2, num_heads=2, p_drop=0.2), rank=2)
        run = ll.fit(wrap(model), data, epochs=2, progress=False, compile="off", threads=1, findings=[])
        ended.append(list(run.model.state_dict().values()))
    assert all(torch.equal(p, q) for p, q in zip(*ended, strict=True))


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat and the dog ran to the door. " * 30)
    return ll.data.text(tmp_path / "text.txt", length=16, kind="bytes", cache=False)


def fitted(data, model=None, **settings):
    torch.manual_seed(0)
    model = model or MODELS["GPT"](data.inputs.tokenizer.num_tokens, 16, dim=16, num_layers=4, num_heads=2, p_drop=0.1)
    own = {"epochs": 2, "batch": 32, "progress": False, "compile": "off", "threads": 1, "findings": []}
    return ll.fit(model, data, **{**own, **settings})


def test_a_setting_of_fit_gives_the_same_losses_and_keeps_less(texts):
    histories, sizes = [], []
    for recompute in (False, True):
        found = []
        pack = lambda tensor, found=found: found.append(tensor.numel()) or tensor  # noqa: E731
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            run = fitted(texts, recompute=recompute)
        histories.append(run.history)
        sizes.append(sum(found))
        assert run.settings.recompute is recompute and not is_checkpointed(run.model)
    assert histories[0] == histories[1]
    assert sizes[1] < 0.5 * sizes[0]


def test_what_the_caller_chose_stays(texts):
    model = checkpointed(MODELS["GPT"](texts.inputs.tokenizer.num_tokens, 16, dim=8, num_layers=2, num_heads=1), 2)
    run = fitted(texts, model, epochs=1, recompute=True)
    assert isinstance(run.model.layers[0].__dict__["forward"], _Again) and "forward" not in run.model.layers[1].__dict__


def test_members_of_a_population_recompute_one_by_one(texts):
    settings = {"epochs": 1, "batch": 64, "progress": False, "compile": "off", "threads": 1, "recompute": True}
    template = MODELS["GPT"](texts.inputs.tokenizer.num_tokens, 16, dim=8, num_layers=1, num_heads=1)
    runs = ll.fit_many(template, texts, ll.members(seed=range(2)), **settings)
    assert len(runs) == 2 and all(run.settings.recompute for run in runs)


def test_a_fit_of_what_has_no_blocks_says_so():
    with pytest.raises(UserError, match="must have blocks of sublayers"):
        ll.fit(MODELS["MLP"](2, (4,), 1), ll.data.moons(num=60), recompute=True, progress=False)
    with pytest.raises(UserError, match="recompute must be True or False"):
        ll.fit(MODELS["MLP"](2, (4,), 1), ll.data.moons(num=60), recompute=1, progress=False)


def test_what_has_no_blocks_is_refused():
    with pytest.raises(UserError, match="must have blocks of sublayers"):
        checkpointed(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(UserError, match="every must be a whole number of at least 1"):
        checkpointed(MODELS["GPT"].tiny(), 0)
