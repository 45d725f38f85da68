"""What stands beside the weights of a Hugging Face folder survives load and save."""

import json
import sys
import types

import pytest
import torch

from leadline.errors import CheckpointError, UserError
from leadline.interop import beside, hugging_face
from leadline.models import BERT, GPT, T5, Swin, ViT, lora, merged
from leadline.text import Tokenizer


def told(folder):
    return json.loads((folder / "config.json").read_text())


def retold(folder, **changes):
    (folder / "config.json").write_text(json.dumps({**told(folder), **changes}))
    return folder


def again(folder, to, **options):
    """The folder after load and save."""
    hugging_face.save(hugging_face.load(folder, **options), to)
    return told(to)


SPECIAL = {"bos_token_id": 3, "eos_token_id": 4, "pad_token_id": 5}


def test_special_tokens_survive(tmp_path):
    folder = retold(hugging_face.save(GPT.tiny(), tmp_path / "gpt"), **SPECIAL)
    assert SPECIAL.items() <= again(folder, tmp_path / "again").items()
    ends = again(folder, tmp_path / "ends", end=7)
    assert ends["eos_token_id"] == 7 and ends["bos_token_id"] == 3  # what was asked for goes before what was there


def test_what_a_model_says_itself_goes_before_what_was_there(tmp_path):
    folder = retold(hugging_face.save(T5.tiny(), tmp_path / "t5"), **SPECIAL, decoder_start_token_id=2)
    assert {**SPECIAL, "decoder_start_token_id": 2}.items() <= again(folder, tmp_path / "again").items()
    assert again(folder, tmp_path / "other", pad=0, end=1)["eos_token_id"] == 1


def classes(num):
    names = [f"kind {k}" for k in range(num)]
    return {
        "id2label": {str(k): name for k, name in enumerate(names)},
        "label2id": {name: k for k, name in enumerate(names)},
        "problem_type": "single_label_classification",
    }


@pytest.mark.parametrize("model", [BERT.tiny(), BERT(11, 6, 3, "tags", dim=8, num_heads=2), ViT.tiny(), Swin.tiny()])
def test_names_of_classes_survive_with_their_head(model, tmp_path):
    named = classes(model.dim_output)
    folder = retold(hugging_face.save(model, tmp_path / "model"), **named)
    assert named.items() <= again(folder, tmp_path / "again").items()
    other = again(folder, tmp_path / "other", new_head=True, dim_output=model.dim_output + 1)
    assert other["id2label"]["0"] == "LABEL_0" and len(other["id2label"]) == model.dim_output + 1
    assert "problem_type" not in other


def test_names_of_classes_that_do_not_fit_are_left_out_and_numbers_follow_names(tmp_path):
    folder = hugging_face.save(BERT(11, 6, 3, "classes", dim=8, num_heads=2), tmp_path / "model")
    config, own = told(folder), {"id2label": {"2": "c", "0": "a", "1": "b"}}
    (folder / "config.json").write_text(json.dumps({**config, **own, "label2id": None}))
    found = again(folder, tmp_path / "again")
    assert (found["id2label"], found["label2id"]) == (own["id2label"], {"a": 0, "b": 1, "c": 2})
    for odd in (["a", "b", "c"], {"x": "a", "y": "b", "z": "c"}):
        found = again(retold(folder, id2label=odd, label2id={"a": 0}), tmp_path / "odd")
        assert found["id2label"]["0"] == "LABEL_0" and found["label2id"]["LABEL_2"] == 2


def test_names_of_classes_stay_behind_with_a_head_of_as_many(tmp_path):
    named = classes(3)
    folder = retold(hugging_face.save(BERT(11, 6, 3, "tags", dim=8, num_heads=2), tmp_path / "tags"), **named)
    other = again(folder, tmp_path / "other", new_head=True, head="classes", dim_output=3)
    assert other["id2label"]["0"] == "LABEL_0" and "problem_type" not in other


@pytest.mark.parametrize("model", [BERT.tiny(), BERT(11, 6, 3, "tags", dim=8, num_heads=2), ViT.tiny(), Swin.tiny()])
def test_classes_are_named_on_the_way_out(model, tmp_path):
    names = tuple(classes(model.dim_output)["label2id"])
    found = told(hugging_face.save(model, tmp_path / "model", classes=names))
    assert found["id2label"] == {str(k): name for k, name in enumerate(names)}
    assert again(tmp_path / "model", tmp_path / "again")["label2id"] == {name: k for k, name in enumerate(names)}
    hugging_face.save(hugging_face.load(tmp_path / "again"), tmp_path / "again", classes=names[::-1])
    assert told(tmp_path / "again")["id2label"]["0"] == names[-1]
    for wrong in (names[1:], names[:-1] + names[:1], (1,) * len(names)):
        with pytest.raises(UserError, match="classes must be"):
            hugging_face.save(model, tmp_path / "wrong", classes=wrong)
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize("model", [GPT.tiny(), T5.tiny(), BERT(11, 6, 11, "tokens", dim=8, num_heads=2)])
def test_a_model_that_tells_no_classes_apart_takes_no_names(model, tmp_path):
    with pytest.raises(UserError, match="classes must be of a model that tells some apart"):
        hugging_face.save(model, tmp_path, classes=("a", "b"))


def words(order="abc"):
    return Tokenizer.train([f"{order} " * 9], "characters", num_tokens=300)


def with_files(folder, own):
    own.save(folder / "tokenizer.json")
    for name in ("tokenizer_config.json", "vocab.json", "preprocessor_config.json", "generation_config.json"):
        (folder / name).write_text(json.dumps({"name": name}))
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    return folder


def test_files_beside_the_weights_survive_as_they_are(tmp_path):
    folder = with_files(hugging_face.save(GPT.tiny(), tmp_path / "gpt"), words())
    again(folder, tmp_path / "again")
    for file in folder.iterdir():
        copy = tmp_path / "again" / file.name
        assert file.name == "config.json" or file.suffix == ".bin" or copy.read_bytes() == file.read_bytes()
    assert not (tmp_path / "again" / "pytorch_model.bin").exists()


def test_another_tokenizer_leaves_the_old_one_behind(tmp_path):
    folder = with_files(retold(hugging_face.save(GPT.tiny(), tmp_path / "gpt"), **SPECIAL), words())
    model, own, other = hugging_face.load(folder), words(), words("xyz")
    same, new = (hugging_face.save(model, tmp_path / name, tok) for name, tok in (("same", own), ("new", other)))
    assert (same / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert told(same)["eos_token_id"] == 4 and (same / "vocab.json").exists()
    assert hugging_face.tokenizer(new) == other
    assert told(new)["eos_token_id"] == other.end and told(new)["bos_token_id"] == other.start
    assert {file.name for file in new.iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json", "preprocessor_config.json")
    }


def test_a_model_of_ours_is_told_the_tokens_of_its_tokenizer(tmp_path):
    own = words()
    found = told(hugging_face.save(GPT.tiny(), tmp_path, own))
    assert (found["eos_token_id"], found["bos_token_id"]) == (own.end, own.start) and own.end != own.start


def test_updates_of_low_rank_take_it_along(tmp_path):
    folder = retold(hugging_face.save(GPT.tiny(), tmp_path / "gpt"), **SPECIAL)
    adapted = lora(hugging_face.load(folder), rank=2)
    for number, model in enumerate((adapted, merged(adapted))):
        assert SPECIAL.items() <= told(hugging_face.save(model, tmp_path / str(number))).items()


def test_a_file_too_large_is_named(tmp_path, monkeypatch):
    folder = with_files(hugging_face.save(GPT.tiny(), tmp_path / "gpt"), words())
    monkeypatch.setattr(beside, "_LARGEST", 10)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json must be readable and below"):
        hugging_face.load(folder)


def test_the_hub_is_asked_for_what_goes_along(monkeypatch, tmp_path):
    asked = {}
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = lambda name, **options: asked.update(options) or str(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    hugging_face.fetch("someone/gpt2")
    assert set(beside.FILES) < set(asked["allow_patterns"])


def test_transformers_reads_what_survived(tmp_path):
    transformers = pytest.importorskip("transformers")
    named = {"id2label": {0: "cat", 1: "dog", 2: "eel"}, "label2id": {"cat": 0, "dog": 1, "eel": 2}}
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=11, max_position_embeddings=6, **sizes, **named)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "bert")
    again(tmp_path / "bert", tmp_path / "bert-again")
    found = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "bert-again").config
    assert found.id2label == named["id2label"] and found.label2id == named["label2id"]
    config = transformers.GPT2Config(vocab_size=11, n_positions=6, n_embd=8, n_layer=1, n_head=2, **SPECIAL)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    again(tmp_path / "gpt2", tmp_path / "gpt2-again")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "gpt2-again")
    assert all(getattr(model.config, name) == value for name, value in SPECIAL.items())
    assert all(getattr(model.generation_config, name) == value for name, value in SPECIAL.items())
    assert model.generate(torch.tensor([[1, 2]]), max_new_tokens=2, do_sample=False).shape[1] <= 4
