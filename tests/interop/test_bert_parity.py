"""BERT beside transformers: the same weights, the same logits, on configurations drawn at random."""

import pytest
import torch

from leadline.interop import families, hugging_face
from leadline.models import BERT

transformers = pytest.importorskip("transformers")

PAD, SEP, TOLERANCE = 0, 3, 1e-4
CLASSES = {
    "MaskedLM": ("tokens", "logits"),
    "PreTraining": ("tokens", "prediction_logits"),
    "SequenceClassification": ("classes", "logits"),
    "NextSentencePrediction": ("classes", "logits"),
    "TokenClassification": ("tags", "logits"),
    "QuestionAnswering": ("span", None),
}
CONFIGS = (
    {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 64},
    {
        "hidden_size": 24,
        "num_attention_heads": 2,
        "num_hidden_layers": 3,
        "intermediate_size": 40,
        "hidden_act": "relu",
    },
    {
        "hidden_size": 16,
        "num_attention_heads": 1,
        "num_hidden_layers": 1,
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-6,
    },
)


def theirs(name, seed, **options):
    """A model of transformers, whose biases and norms are not what they begin as."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": 37, "max_position_embeddings": 20, "intermediate_size": 48, "pad_token_id": PAD}
    config = transformers.BertConfig(
        **{**sizes, **options}, sep_token_id=SEP, num_labels=2 if name == "QuestionAnswering" else 5
    )
    model = getattr(transformers, f"BertFor{name}")(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return model


def rows(seed, B=5, T=14):
    """Pairs of sentences of different lengths, padded at the end."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(4, 37, (B, T), generator=generator)
    for row in range(B):
        size = T if row == 0 else int(torch.randint(5, T, (1,), generator=generator))
        x[row, [0, size // 2, size - 1]] = torch.tensor([2, SEP, SEP])
        x[row, size:] = PAD
    return x


def segments(x):
    """By a plain loop."""
    found = torch.zeros_like(x)
    for row in range(len(x)):
        seen = False
        for t, token in enumerate(x[row].tolist()):
            found[row, t] = int(seen and token != PAD)
            seen = seen or token == SEP
    return found


def answer(model, x, part):
    with torch.no_grad():
        out = model(input_ids=x, attention_mask=(x != PAD).long(), token_type_ids=segments(x))
    return torch.stack([out.start_logits, out.end_logits], -1) if part is None else out[part]


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("options", CONFIGS)
def test_logits_are_those_of_transformers(name, options, tmp_path):
    head, part = CLASSES[name]
    model = theirs(name, seed=len(name), **options)
    model.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path).eval()
    assert isinstance(ours, BERT) and ours.head == head
    x = rows(seed=options["hidden_size"])
    with torch.no_grad():
        got = ours(x)
    wanted = answer(model, x, part)
    there = x != PAD if got.dim() == 3 else slice(None)
    torch.testing.assert_close(got[there], wanted[there], atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("name", ["MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"])
def test_transformers_reads_what_we_write(name, tmp_path):
    head, part = CLASSES[name]
    torch.manual_seed(1)
    outputs = {"tokens": 37, "span": 2}.get(head, 5)
    ours = BERT(37, 20, outputs, head, dim=24, num_layers=2, num_heads=3, pad=PAD, sep=SEP).eval()
    with torch.no_grad():
        for p in ours.parameters():
            p.add_(0.2 * torch.randn_like(p))
    hugging_face.save(ours, tmp_path)
    model, told = getattr(transformers, f"BertFor{name}").from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    x = rows(seed=3)
    with torch.no_grad():
        got = ours(x)
    there = x != PAD if got.dim() == 3 else slice(None)
    torch.testing.assert_close(got[there], answer(model.eval(), x, part)[there], atol=TOLERANCE, rtol=TOLERANCE)
    again = hugging_face.load(tmp_path).eval()
    assert again.config == {**ours.config, "dim_hidden": 96}
    with torch.no_grad():
        assert torch.equal(again(x), got)


def test_a_trunk_alone_gets_a_new_head(tmp_path):
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
    model = transformers.BertModel(config).eval()
    model.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path, new_head=True, head="classes", dim_output=4, sep=SEP).eval()
    x = rows(seed=1)
    with torch.no_grad():
        out = model(input_ids=x, attention_mask=(x != PAD).long(), token_type_ids=segments(x))
        torch.testing.assert_close(ours.features(x)[:, 0], out.last_hidden_state[:, 0], atol=1e-5, rtol=1e-5)
        pooled = torch.tanh(ours.pooler(ours.features(x)[:, 0]))
    torch.testing.assert_close(pooled, out.pooler_output, atol=1e-5, rtol=1e-5)


def test_gradients_are_those_of_transformers(tmp_path):
    model = theirs("MaskedLM", 5, **CONFIGS[0]).double()
    model.save_pretrained(tmp_path)
    ours = hugging_face.load(tmp_path).double().eval()
    x = rows(seed=2)
    there, y = x != PAD, torch.randint(37, x.shape)
    for scores in (
        ours(x),
        model(input_ids=x, attention_mask=there.long(), token_type_ids=segments(x)).logits,
    ):
        torch.nn.functional.cross_entropy(scores[there], y[there]).backward()
    theirs_by_name = dict(model.named_parameters())
    mapped = families.places_of(families.family_of(ours), ours)
    for name, p in ours.named_parameters():
        wanted = mapped[name].read(*(theirs_by_name[part].grad for part in mapped[name].names))
        torch.testing.assert_close(p.grad, wanted, atol=1e-9, rtol=1e-6)
