"""BERT's folders: names and config of `transformers.Bert…`, one class of theirs for each head of ours.

    tokens    BertForMaskedLM                    classes   BertForSequenceClassification
    tags      BertForTokenClassification                   BertForNextSentencePrediction, read only
    span      BertForQuestionAnswering

A folder of BertForPreTraining is read with head tokens; one of BertModel, which has none, with a head that is new.
"""

from __future__ import annotations

import re
from typing import Any

from leadline.errors import UserError
from leadline.interop.fixed import labels, num_labels
from leadline.interop.place import Names, affine, query_key_value
from leadline.models.bert import BERT

MODEL = BERT
PREFIX = "bert."
HEAD = ("answer.", "pooler.", "transform.", "transform_norm.", "bias")
#: what is tied to another, is counted anew, or belongs to the second task of pre-training
SPARE = (
    *("cls.predictions.decoder.*", "bert.embeddings.position_ids"),
    *("cls.seq_relationship.*", "bert.pooler.*"),
)

_HEADS = {
    "BertForMaskedLM": "tokens",
    "BertForPreTraining": "tokens",
    "BertForSequenceClassification": "classes",
    "BertForNextSentencePrediction": "classes",
    "BertForTokenClassification": "tags",
    "BertForQuestionAnswering": "span",
}
READ = (*_HEADS, "BertModel")
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
}


def config_of(theirs: dict[str, Any]) -> dict[str, Any]:
    """Our constructor's arguments.

    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    >>> told = {"architectures": ["BertForMaskedLM"], "vocab_size": 20, "max_position_embeddings": 16, **sizes}
    >>> config_of(told)["head"]
    'tokens'
    """
    architecture = (theirs.get("architectures") or ["BertModel"])[0]
    head = _HEADS.get(architecture, "tokens")
    _refuse_others(theirs)
    num = 2 if architecture == "BertForNextSentencePrediction" else num_labels(theirs)
    return {
        "num_tokens": theirs["vocab_size"],
        "length": theirs["max_position_embeddings"],
        "dim_output": {"tokens": theirs["vocab_size"], "span": 2}.get(head, num),
        "head": head,
        "dim": theirs["hidden_size"],
        "num_layers": theirs["num_hidden_layers"],
        "num_heads": theirs["num_attention_heads"],
        "dim_hidden": theirs["intermediate_size"],
        "p_drop": theirs.get("hidden_dropout_prob", 0.1),
        "activation": _ACTIVATIONS[theirs.get("hidden_act", "gelu")],
        "eps": theirs.get("layer_norm_eps", 1e-12),
        "pad": theirs.get("pad_token_id", 0),
        "sep": theirs.get("sep_token_id"),
    }


def hf_config_of(model: BERT) -> dict[str, Any]:
    """Their config.json of a model of ours; `sep_token_id` tells where its second segment begins."""
    architecture = next(name for name, head in _HEADS.items() if head == model.head)
    theirs = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    if model.activation not in theirs:
        raise UserError(
            "the activation must be one that Hugging Face's BERT has",
            got=model.activation,
            do=f"Known are {', '.join(theirs)}",
        )
    return {
        "architectures": [architecture],
        "model_type": "bert",
        "vocab_size": model.num_tokens,
        "max_position_embeddings": model.length,
        "type_vocab_size": 2,
        "hidden_size": model.dim,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "intermediate_size": 4 * model.dim if model.dim_hidden is None else model.dim_hidden,
        "hidden_dropout_prob": model.p_drop,
        "attention_probs_dropout_prob": model.p_drop,
        "hidden_act": theirs[model.activation],
        "layer_norm_eps": model.eps,
        "pad_token_id": model.pad,
        **({} if model.sep is None else {"sep_token_id": model.sep}),
        **(labels(model.dim_output) if model.head in ("classes", "tags") else {}),
    }


def names(model: BERT) -> Names:
    """Our name of each tensor -> theirs.

    >>> names(BERT.tiny())["layers.0.attention.branch.query_key_value.bias"][0]
    'bert.encoder.layer.0.attention.self.query.bias'
    """
    found: Names = {
        "tokens.weight": "bert.embeddings.word_embeddings.weight",
        "positions.weight": "bert.embeddings.position_embeddings.weight",
        "segments.weight": "bert.embeddings.token_type_embeddings.weight",
        **affine("norm", "bert.embeddings.LayerNorm"),
    }
    for k in range(model.num_layers):
        ours, theirs = f"layers.{k}", f"bert.encoder.layer.{k}"
        found |= query_key_value(f"{ours}.attention.branch", f"{theirs}.attention.self")
        found |= affine(f"{ours}.attention.branch.out", f"{theirs}.attention.output.dense")
        found |= affine(f"{ours}.attention.norm", f"{theirs}.attention.output.LayerNorm")
        found |= affine(f"{ours}.feed_forward.branch.widen", f"{theirs}.intermediate.dense")
        found |= affine(f"{ours}.feed_forward.branch.narrow", f"{theirs}.output.dense")
        found |= affine(f"{ours}.feed_forward.norm", f"{theirs}.output.LayerNorm")
    if model.head == "tokens":
        found |= affine("transform", "cls.predictions.transform.dense")
        found |= affine("transform_norm", "cls.predictions.transform.LayerNorm")
        return {**found, "bias": "cls.predictions.bias"}
    if model.head == "classes":
        found |= affine("pooler", "bert.pooler.dense")
    return {**found, **affine("answer", "qa_outputs" if model.head == "span" else "classifier")}


def tied(model: BERT) -> dict[str, str]:
    """Copies that a file may hold -> of which tensor.

    >>> tied(BERT(20, 6, 20, "tokens", dim=8, num_heads=2))["cls.predictions.decoder.bias"]
    'cls.predictions.bias'
    """
    decoder, words = "cls.predictions.decoder", "bert.embeddings.word_embeddings.weight"
    own = {f"{decoder}.weight": words, f"{decoder}.bias": "cls.predictions.bias"}
    return own if model.head == "tokens" else {}


def renamed(name: str, config: dict[str, Any]) -> str:
    """Files of the authors' own have older names of a normalisation; next-sentence's two classes stand elsewhere."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
    if config.get("architectures") == ["BertForNextSentencePrediction"]:
        name = name.replace("cls.seq_relationship.", "classifier.")
    return name


def _refuse_others(theirs: dict[str, Any]) -> None:
    """Variants that share the name and compute something else."""
    asked = {
        "position_embedding_type": (theirs.get("position_embedding_type") or "absolute", ("absolute",)),
        "type_vocab_size": (theirs.get("type_vocab_size", 2), (2,)),
        "is_decoder": (theirs.get("is_decoder", False), (False,)),
        "tie_word_embeddings": (theirs.get("tie_word_embeddings", True), (True,)),
        "hidden_act": (theirs.get("hidden_act", "gelu"), tuple(_ACTIVATIONS)),
    }
    for name, (value, known) in asked.items():
        if value not in known:
            raise UserError(
                f"{name} of a BERT must be {' or '.join(map(str, known))} to be read here",
                got=f"{name}={value!r}",
                do="Take another folder",
            )
