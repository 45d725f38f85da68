"""Folders of Hugging Face: whole ones go in and out, broken and hostile ones are refused with a message."""

import json
import re
import struct
import sys
import types

import pytest
import torch
from safetensors.torch import load_file, save_file

from leadline.errors import CheckpointError, ShapeError, UnknownName, UserError
from leadline.interop import fill, hugging_face
from leadline.interop.hugging_face import load, save
from leadline.interop.place import place_of, reshaped, stacked, transposed
from leadline.models import BERT, GPT, MLP, T5, Swin, ViT, lora

SIZES = {"dim": 8, "num_layers": 2, "num_heads": 2, "sep": 2}


def bert(head="tokens", outputs=13, seed=0):
    torch.manual_seed(seed)
    return BERT(13, 6, outputs, head, **SIZES).eval()


@pytest.fixture
def folder(tmp_path):
    save(bert(), tmp_path / "bert")
    return tmp_path / "bert"


def rewritten(folder, change):
    """The weights of a folder, changed."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def told(folder, kind=CheckpointError, **options):
    with pytest.raises(kind) as error:
        load(folder, **options)
    return str(error.value)


def answers(model, x=None):
    x = torch.tensor([[1, 5, 2, 7, 2, 0], [1, 9, 9, 9, 9, 2]]) if x is None else x
    with torch.no_grad():
        return model(x)


def test_what_is_saved_is_loaded_to_the_bit(folder):
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert torch.equal(answers(load(folder).eval()), answers(bert()))


@pytest.mark.parametrize(("head", "outputs"), [("classes", 4), ("tags", 5), ("span", 2)])
def test_every_head_goes_out_and_in(head, outputs, tmp_path):
    model = bert(head, outputs)
    again = load(save(model, tmp_path)).eval()
    assert again.config == {**model.config, "dim_hidden": 32}
    assert torch.equal(answers(again), answers(model))


def test_updates_of_low_rank_are_folded_in_on_the_way_out(tmp_path):
    model = lora(bert("classes", 4), rank=2).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".up." in name:
                p.normal_()
    wanted, names = answers(model), list(model.state_dict())
    again = load(save(model, tmp_path)).eval()
    torch.testing.assert_close(answers(again), wanted)
    assert not torch.allclose(answers(bert("classes", 4)), wanted)
    assert list(model.state_dict()) == names and model.lora["rank"] == 2  # the model itself keeps them


def test_saving_replaces_what_was_there(folder):
    save(bert(seed=1), folder)
    assert torch.equal(answers(load(folder).eval()), answers(bert(seed=1)))


def test_half_precision_is_read_into_ours(folder):
    rewritten(folder, lambda tensors: tensors.update({name: t.bfloat16() for name, t in tensors.items()}))
    model = load(folder).eval()
    assert next(model.parameters()).dtype == torch.float32
    torch.testing.assert_close(answers(model), answers(bert()), atol=0.02, rtol=0.05)


def shard(folder):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, own in parts.items():
        save_file({name: tensors[name] for name in own}, folder / file)
    index = {"metadata": {}, "weight_map": {name: file for file, own in parts.items() for name in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return index


def test_shards_are_read_as_one(folder):
    shard(folder)
    assert torch.equal(answers(load(folder).eval()), answers(bert()))


def test_saving_over_shards_leaves_none_of_their_index(folder):
    shard(folder)
    save(bert(seed=1), folder)
    assert not (folder / "model.safetensors.index.json").exists()
    assert torch.equal(answers(load(folder).eval()), answers(bert(seed=1)))


def test_older_names_and_tied_copies_are_understood(folder):
    def older(tensors):
        for name in list(tensors):
            if "LayerNorm" in name:
                tensors[name.replace(".weight", ".gamma").replace(".bias", ".beta")] = tensors.pop(name)
        tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
        tensors["bert.embeddings.position_ids"] = torch.arange(6)[None]
        tensors["cls.seq_relationship.bias"] = torch.zeros(2)

    rewritten(folder, older)
    assert torch.equal(answers(load(folder).eval()), answers(bert()))


@pytest.mark.parametrize(
    ("made", "copy", "original"),
    [
        (bert, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        (GPT.tiny, "lm_head.weight", "transformer.wte.weight"),
        (T5.tiny, "lm_head.weight", "shared.weight"),
        (T5.tiny, "encoder.embed_tokens.weight", "shared.weight"),
    ],
)
def test_a_tied_copy_of_other_numbers_is_refused(made, copy, original, tmp_path):
    save(made(), tmp_path)
    rewritten(tmp_path, lambda tensors: tensors.update({copy: tensors[original].clone()}))
    load(tmp_path)
    rewritten(tmp_path, lambda tensors: tensors.update({copy: tensors[copy] + 1}))
    said = told(tmp_path)
    assert f"{copy} must hold the numbers of {original}" in said
    assert ("tie_word_embeddings: false" in said) == (copy == "lm_head.weight")  # no config unties the others


def test_a_head_of_its_own_is_read_where_the_config_says_so(tmp_path):
    model = GPT.tiny()
    save(model, tmp_path)
    rewritten(tmp_path, lambda tensors: tensors.update({"lm_head.weight": tensors["transformer.wte.weight"] + 1}))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    assert torch.equal(load(tmp_path).head.weight, model.embed.weight + 1)


# ── fine-tuning ──


def test_a_new_head_is_drawn_only_when_asked_for(folder):
    said = told(folder, head="classes", dim_output=3)
    assert "classifier.weight" in said and "new_head=True" in said
    model = load(folder, new_head=True, head="classes", dim_output=3).eval()
    assert torch.equal(model.features(torch.tensor([[1, 5, 2]])), bert().features(torch.tensor([[1, 5, 2]])))
    assert answers(model).shape == (2, 3)


def test_a_head_of_another_size_is_replaced_only_when_asked_for(tmp_path):
    save(bert("tags", 5), tmp_path)
    assert "new_head=True" in told(tmp_path, ShapeError, dim_output=7)
    assert answers(load(tmp_path, new_head=True, dim_output=7)).shape == (2, 6, 7)


def test_a_new_head_does_not_excuse_a_broken_trunk(folder):
    rewritten(folder, lambda tensors: tensors.pop("bert.encoder.layer.1.attention.self.key.weight"))
    said = told(folder, new_head=True, head="classes", dim_output=3)
    assert "bert.encoder.layer.1.attention.self.key.weight" in said


# ── what is refused ──


def test_missing_tensors_are_named(folder):
    rewritten(folder, lambda tensors: tensors.pop("bert.encoder.layer.1.output.dense.bias"))
    assert "no bert.encoder.layer.1.output.dense.bias" in told(folder)


def test_what_stands_beside_a_missing_tensor_is_not_called_spare(folder):
    rewritten(folder, lambda tensors: tensors.pop("bert.encoder.layer.1.attention.self.query.weight"))
    said = told(folder)
    assert "Got no bert.encoder.layer.1.attention.self.query.weight, in" in said and "key.weight" not in said


def test_spare_tensors_are_named(folder):
    rewritten(folder, lambda tensors: tensors.update({"bert.encoder.layer.2.output.dense.bias": torch.zeros(8)}))
    assert "bert.encoder.layer.2.output.dense.bias, which it has not" in told(folder)


def test_shapes_that_do_not_fit_are_named(folder):
    rewritten(folder, lambda tensors: tensors.update({"bert.embeddings.position_embeddings.weight": torch.zeros(9, 8)}))
    said = told(folder, ShapeError)
    assert "positions.weight" in said and "(9, 8)" in said and "(6, 8)" in said
    assert "Restore the folder" in said and "option" not in said  # nobody gave any
    assert "Leave out length" in told(folder, ShapeError, length=5)


def test_parts_that_do_not_fit_each_other_are_named(folder):
    name = "bert.encoder.layer.0.attention.self.key.weight"
    rewritten(folder, lambda tensors: tensors.update({name: torch.zeros(8, 5)}))
    assert name in told(folder, ShapeError)


def config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_another_family_is_told_which_are_known(folder):
    config(folder, model_type="llama")
    said = told(folder, UnknownName)
    assert "'llama'" in said and all(name in said for name in ("bert", "gpt2", "vit", "swin", "t5"))
    config(folder, model_type=["bert"])
    assert "['bert']" in told(folder, UnknownName)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"type_vocab_size": 1}, "type_vocab_size"),
        ({"is_decoder": True}, "is_decoder"),
        ({"hidden_act": "mish"}, "hidden_act"),
        ({"hidden_size": "eight"}, "dim"),
        ({"num_attention_heads": 3}, r"num_heads=3, by .*config\.json"),
    ],
)
def test_variants_that_compute_something_else_are_refused(folder, changes, words):
    config(folder, **changes)
    assert re.search(words, told(folder, UserError))


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (GPT.tiny(), {"activation_function": "mish"}, "activation_function of a gpt2 must be a known name. Got"),
        (T5.tiny(), {"feed_forward_proj": "gated-silu"}, "T5: feed_forward_proj must be relu or gated-gelu. Got"),
        (T5.tiny(), {"layer_norm_epsilon": 1e-5}, "T5: layer_norm_epsilon must be 1e-06, as it always is here. Got"),
        (T5.tiny(), {"eos_token_id": [1, 2]}, "T5: eos_token_id must be one number. Got eos_token_id=[1, 2]"),
        (GPT.tiny(), {"n_head": 3}, "config.json. Restore the file"),
    ],
)
def test_a_variant_is_refused_by_the_name_of_its_field(model, changes, words, tmp_path):
    save(model, tmp_path)
    config(tmp_path, **changes)
    assert words in told(tmp_path, UserError)


def test_a_folder_of_another_class_is_told_which_are_read(tmp_path):
    save(GPT.tiny(), tmp_path)
    rewritten(tmp_path, lambda tensors: tensors.update({"score.weight": torch.zeros(2, 8)}))
    config(tmp_path, architectures=["GPT2ForSequenceClassification"])
    assert "score.weight, which it has not" in told(tmp_path) and "to leave that head out" in told(tmp_path)
    assert load(tmp_path, new_head=True).dim == 8
    save(T5.tiny(), tmp_path)
    rewritten(tmp_path, lambda tensors: tensors.update({"qa_outputs.weight": torch.zeros(2, 8)}))
    config(tmp_path, architectures=["T5ForQuestionAnswering"])
    said = told(tmp_path, len_source=4)
    assert "Take a folder of T5ForConditionalGeneration or T5Model: this one is of T5ForQuestionAnswering" in said


def test_a_config_without_its_sizes_is_refused(folder):
    (folder / "config.json").write_text('{"model_type": "bert"}')
    assert "vocab_size" in told(folder)


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_a_tensor_that_an_option_leaves_no_place_for_is_named(positions, tmp_path):
    save(GPT.tiny(), tmp_path)
    said = told(tmp_path, positions=positions)
    assert "transformer.wpe.weight, which it has not" in said and "Leave out positions" in said


@pytest.mark.parametrize("path", [None, "", 3])
def test_what_names_no_folder_is_refused(path):
    for ask in (load, lambda path: save(bert(), path), hugging_face.tokenizer):
        with pytest.raises(UserError, match="folder must be the path of a folder"):
            ask(path)


def test_arguments_of_another_kind_are_refused(folder):
    with pytest.raises(UserError, match="tokenizer must be a Tokenizer"):
        save(bert(seed=1), folder, tokenizer="words.json")
    assert torch.equal(answers(load(folder).eval()), answers(bert()))  # nothing was written
    with pytest.raises(UserError, match="new_head must be True or False"):
        load(folder, new_head="classes")


def test_pickle_is_never_read(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    said = told(folder)
    assert "pickle" in said and "safetensors" in said


@pytest.mark.parametrize("damage", ["cut", "huge header", "no header", "empty"])
def test_a_damaged_file_is_refused(folder, damage):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "huge header": struct.pack("<Q", 2**62) + content[8:],
            "no header": b"weights" * 100,
            "empty": b"",
        }[damage]
    )
    assert "model.safetensors must be whole" in told(folder)


@pytest.mark.parametrize(
    "changes",
    [
        *({name: 2**power} for name in ("hidden_size", "vocab_size") for power in (40, 62, 70)),
        *({name: 10**9} for name in ("num_hidden_layers", "intermediate_size", "max_position_embeddings")),
    ],
)
def test_sizes_that_the_files_do_not_have_take_no_memory(folder, changes):
    config(folder, **changes)
    with pytest.raises(CheckpointError) if "num_hidden_layers" in changes else pytest.raises(UserError):
        load(folder)


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (ViT.tiny(), {"image_size": [8]}, "config.json must hold"),
        (ViT.tiny(), {"image_size": [8, "a"]}, "config.json must hold"),
        (ViT.tiny(), {"patch_size": 0}, "config.json must hold"),
        (ViT.tiny(), {"id2label": None, "num_labels": "x"}, "config.json must hold"),
        (Swin.tiny(), {"depths": 2}, "stages must be a list of sizes"),
        (Swin.tiny(), {"num_heads": None}, "num_heads must be a list of sizes"),
        (Swin.tiny(), {"mlp_ratio": 1e300}, "config.json must hold"),
        (Swin.tiny(), {"window_size": 2**40}, "config.json must hold"),
    ],
)
def test_a_config_of_nonsense_is_refused(model, changes, words, tmp_path):
    save(model, tmp_path)
    config(tmp_path, **changes)
    assert words in told(tmp_path, UserError)


def test_numbers_that_are_no_weights_are_refused(folder):
    name = "bert.embeddings.LayerNorm.weight"
    rewritten(folder, lambda tensors: tensors[name][2:4].fill_(float("nan")))
    assert f"{name} must hold finite numbers. Got 2 of 8" in told(folder)
    rewritten(folder, lambda tensors: tensors.update({name: torch.ones(8, dtype=torch.int8)}))
    assert f"{name} must hold real numbers. Got torch.int8" in told(folder)


def test_a_new_head_is_offered_only_where_it_helps(folder):
    assert "Leave out num_layers" in told(folder, num_layers=1)
    config(folder, num_hidden_layers=1)
    said = told(folder)
    assert "encoder.layer.1" in said and "new_head=True" not in said


def test_an_option_that_the_model_has_not_is_named(folder):
    assert "Did you mean dim_output?" in told(folder, UnknownName, dim_outputs=3)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "nonsense", "[" * 100_000])
def test_a_config_that_is_none_is_refused(folder, text):
    (folder / "config.json").write_text(text)
    assert "config.json must be whole" in told(folder)


def test_a_folder_without_one_is_told_so(tmp_path):
    assert "nothing" in told(tmp_path)
    assert "no folder" in told(tmp_path / "gone")


@pytest.mark.parametrize("file", ["../outside.safetensors", "/etc/passwd", "sub/part.safetensors", "part.bin"])
def test_an_index_cannot_leave_its_folder(folder, file):
    index = shard(folder)
    index["weight_map"]["bert.embeddings.LayerNorm.bias"] = file
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "leaves the folder" in told(folder)


def test_an_index_that_promises_too_much_is_refused(folder):
    index = shard(folder)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {**index["weight_map"], "other": "model-00003-of-00002.safetensors"}}))
    assert "model-00003-of-00002.safetensors, which is not there" in told(folder)
    path.write_text(json.dumps({"weight_map": {**index["weight_map"], "other": "model-00001-of-00002.safetensors"}}))
    assert "no other, which" in told(folder)
    path.write_text(json.dumps({"weight_map": [1]}))
    assert "no weight_map" in told(folder)


def test_a_model_that_they_do_not_have_is_not_saved(tmp_path):
    with pytest.raises(UnknownName, match="MLP"):
        save(MLP.tiny(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="written to"):
        save(bert(), tmp_path / "file")


# ── places, filling, fetching ──


def test_places_go_both_ways():
    whole = torch.arange(12.0).reshape(6, 2)
    for place in (stacked("a", "b", "c"), transposed("a"), reshaped("a", (6, 2), (2, 3, 2)), place_of("a")):
        parts = place.write(whole)
        assert len(parts) == len(place.names)
        assert torch.equal(place.read(*parts), whole)


def test_filling_tells_what_it_did():
    model = torch.nn.Linear(2, 3)
    filled = fill(model, [("weight", torch.ones(3, 2)), ("bias", torch.ones(5)), ("scale", torch.ones(1))])
    assert str(filled) == "1 tensor loaded; new: bias ([5] there, [3] here); left over: scale"
    assert torch.equal(model.weight, torch.ones(3, 2))


def test_fetching_asks_the_hub_for_what_is_read_and_no_more(monkeypatch, tmp_path):
    asked = {}
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = lambda name, **options: asked.update(name=name, **options) or str(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    assert hugging_face.fetch("someone/bert", revision="abc") == tmp_path
    assert asked["name"] == "someone/bert" and asked["revision"] == "abc"
    assert not any("bin" in pattern or pattern == "*" for pattern in asked["allow_patterns"])
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="huggingface_hub must be installed"):
        hugging_face.fetch("someone/bert")


def test_a_tokenizer_lies_beside_the_weights(folder):
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        hugging_face.tokenizer(folder)
    text = pytest.importorskip("leadline.text")
    made = text.Tokenizer.train(["the cat sat on the mat"] * 5, kind="characters", num_tokens=300)
    save(bert(), folder, tokenizer=made)
    assert hugging_face.tokenizer(folder).encode("a cat") == made.encode("a cat")
