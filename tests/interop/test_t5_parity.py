"""T5 beside that of transformers: the same scores, the same words, and folders that both read."""

import json

import pytest
import torch

import leadline as ll
from leadline.engine.decoder import Cached
from leadline.errors import UserError
from leadline.interop import hugging_face
from leadline.interop import t5 as family
from leadline.models.t5 import T5
from leadline.text import Tokenizer
from leadline.text.beam import beam_search
from leadline.text.decoding import generate
from leadline.text.stopping import Stop

transformers = pytest.importorskip("transformers")

V, S, T = 40, 9, 7

CONFIGS = {
    "1.0": {},
    "1.0, few buckets": {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 6, "d_kv": 5},
    "1.0, decoder of its own depth": {"num_decoder_layers": 1, "num_heads": 2},
    "1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "1.1, tied all the same": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_heads": 2},
}


@pytest.fixture(autouse=True)
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def twin(name):
    """A model of theirs with weights drawn wide, so that bias and norms count."""
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(**{**sizes, "decoder_start_token_id": 0, **CONFIGS[name]})
    model = transformers.T5ForConditionalGeneration(config).eval()
    if name == "1.1":
        model.lm_head.weight = torch.nn.Parameter(torch.randn(V, 16))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def sources(num=4):
    x = torch.randint(2, V, (num, S), generator=torch.Generator().manual_seed(1))
    for row in range(num):
        x[row, S - 2 * row :] = 0
    return x


@pytest.mark.parametrize("name", CONFIGS)
def test_scores_are_theirs(name, tmp_path):
    theirs, source = twin(name), sources()
    theirs.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path, len_source=S, length=T).eval()
    target = torch.randint(2, V, (4, T), generator=torch.Generator().manual_seed(2))
    target[:, 0] = 0
    with torch.no_grad():
        wanted = theirs(input_ids=source, attention_mask=source != 0, decoder_input_ids=target).logits
        assert torch.allclose(ours(torch.cat([source, target], 1)), wanted, atol=1e-4)


@pytest.mark.parametrize("name", ["1.0", "1.1"])
def test_greedy_words_are_theirs(name, tmp_path):
    theirs, source = twin(name), sources()
    theirs.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path).eval()
    more = {"do_sample": False, "num_beams": 1, "max_length": 12, "min_length": 12, "eos_token_id": None}
    wanted = theirs.generate(source, attention_mask=(source != 0).long(), **more)
    found = generate(Cached(ours, source=source), [[0]] * 4, 11)
    assert [[0, *row.tokens] for row in found] == wanted.tolist()


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("name", ["1.0", "1.1"])
def test_beams_are_theirs(name, penalty, tmp_path):
    theirs, source = twin(name), sources()
    theirs.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path).eval()
    more = {"do_sample": False, "num_beams": 3, "num_return_sequences": 2, "max_length": 10, "length_penalty": penalty}
    wanted = theirs.generate(source, attention_mask=(source != 0).long(), eos_token_id=1, **more)
    scorer, stop = Cached(ours, source=source), Stop(tokens=(1,))
    found = beam_search(scorer, [[0]] * 4, 9, beams=3, stop=stop, count=2, penalty=penalty)
    made = [[0, *text.tokens] + [0] * (wanted.shape[1] - 1 - len(text.tokens)) for texts in found for text in texts]
    assert made == wanted.tolist()


@pytest.mark.parametrize("options", [{}, {"gated": True, "tied": False, "num_decoder_layers": 1}])
def test_folders_of_ours_are_read_by_them(options, tmp_path):
    torch.manual_seed(0)
    sizes = {"dim": 16, "num_layers": 2, "num_heads": 2, "dim_head": 5, "dim_hidden": 24}
    ours, source = T5(V, T, S, **sizes, **options).eval(), sources()
    hugging_face.save(ours, tmp_path)
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    target = torch.zeros(4, T, dtype=torch.long)
    with torch.no_grad():
        found = theirs(input_ids=source, attention_mask=source != 0, decoder_input_ids=target).logits
        assert torch.allclose(found, ours(torch.cat([source, target], 1)), atol=1e-4)
    again = hugging_face.load(tmp_path)
    assert all(torch.equal(mine, other) for mine, other in zip(ours.state_dict().values(), again.state_dict().values()))


def pairs(folder, tokenizer=None):
    (folder / "pairs.tsv").write_text("".join(f"{k} cats\t{k} chats\n" for k in range(40)))
    return ll.data.text(folder / "pairs.tsv", task="pairs", kind="bytes", tokenizer=tokenizer, length=T + 9)


def test_they_write_what_a_model_for_our_data_writes(tmp_path):
    data = pairs(tmp_path)
    ours = ll.models.build("T5", data, data.target.dim, dim=16, num_layers=1, num_heads=2, dim_hidden=24).eval()
    assert (ours.start, ours.end) == (data.inputs.start, data.inputs.tokenizer.end) != (ours.pad, ours.end)
    hugging_face.save(ours, tmp_path / "t5", data.inputs.tokenizer)
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "t5").eval()
    source = data.inputs.encode(data.inputs.read(["7 cats"]))[:, : data.inputs.len_source]
    wanted = theirs.generate(source, attention_mask=(source != 0).long(), do_sample=False, num_beams=1, max_length=9)
    found = generate(Cached(ours, source=source), [[data.inputs.start]], 8, stop=Stop(tokens=(ours.end,)))
    assert [data.inputs.start, *found[0].tokens] == wanted[0].tolist()
    assert hugging_face.load(tmp_path / "t5").config["start"] == ours.start


def test_behind_a_tokenizer_without_a_start_targets_begin_with_what_pads_as_theirs_do(tmp_path):
    words = Tokenizer.train([], "bytes", specials=("<end>",))
    data = pairs(tmp_path, words)
    assert words.start is None and data.inputs.start == words.pad != words.end
    assert set(data.inputs.encode(data.train.x)[:, data.inputs.len_source].tolist()) == {words.pad}


def test_every_tensor_has_a_name():
    for model in (T5.tiny(), T5(**{**T5.tiny().config, "tied": False, "gated": True, "num_decoder_layers": 2})):
        assert set(family.names(model)) == set(model.state_dict())


def test_another_kind_of_t5_is_refused(tmp_path):
    twin("1.0").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "feed_forward_proj": "gated-silu"}))
    with pytest.raises(UserError, match="feed_forward_proj must be relu or gated-gelu"):
        hugging_face.load(tmp_path)
