"""GPT-2 as transformers keeps it: the matrices of its layers stand there with their axes exchanged."""

from __future__ import annotations

from typing import Any

from torch import nn

from leadline.errors import CheckpointError
from leadline.interop.place import Names, transposed
from leadline.models.gpt import GPT
from leadline.names import lookup

MODEL = GPT
PREFIX = "transformer."
HEAD = ("head.",)
READ = ("GPT2LMHeadModel", "GPT2Model")
#: the head is stored once more where it is tied; masks were stored by older versions
SPARE = ("lm_head.weight", "transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias")

#: their names of activations -> ours
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def config_of(hf_config: dict[str, Any]) -> dict[str, Any]:
    """Our constructor's arguments.

    >>> config_of({"vocab_size": 50, "n_positions": 8, "n_embd": 16, "n_layer": 1, "n_head": 2})["dim"]
    16
    """
    for name, usual in (
        ("layer_norm_epsilon", 1e-5),
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", False),
    ):
        if hf_config.get(name, usual) != usual:
            raise CheckpointError(
                f"{name} of a gpt2 must be {usual}",
                got=f"{name}={hf_config[name]}",
                do="Use a model without that change",
            )
    return {
        "num_tokens": hf_config["vocab_size"],
        "length": hf_config["n_positions"],
        "dim": hf_config["n_embd"],
        "num_layers": hf_config["n_layer"],
        "num_heads": hf_config["n_head"],
        "dim_hidden": hf_config.get("n_inner"),
        "p_drop": hf_config.get("resid_pdrop", 0.1),
        "activation": lookup(
            hf_config.get("activation_function", "gelu_new"), ACTIVATIONS, "activation_function of a gpt2"
        ),
        "tied": hf_config.get("tie_word_embeddings", True),
    }


def hf_config_of(model: nn.Module) -> dict[str, Any]:
    """Their config.json.

    >>> hf_config_of(GPT.tiny())["n_embd"]
    8
    """
    ours: dict[str, Any] = model.config  # type: ignore[assignment]
    theirs = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    for name, usual in (("norm", "layer"), ("positions", "learned"), ("window", None)):
        if ours[name] != usual:
            raise CheckpointError(
                f"a GPT with {name}={usual} can be a gpt2 of transformers",
                got=f"{name}={ours[name]!r}",
                do="Keep it as a run, or build it anew",
            )
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": ours["num_tokens"],
        "n_positions": ours["length"],
        "n_embd": ours["dim"],
        "n_layer": ours["num_layers"],
        "n_head": ours["num_heads"],
        "n_inner": ours["dim_hidden"],
        "activation_function": lookup(ours["activation"], theirs, "activation"),
        **dict.fromkeys(("resid_pdrop", "embd_pdrop"), ours["p_drop"]),
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": ours["tied"],
        **dict.fromkeys(("bos_token_id", "eos_token_id"), ours["end"]),
    }


def names(model: nn.Module) -> Names:
    """Our name of each tensor -> theirs.

    >>> names(GPT.tiny())["layers.1.look.norm.weight"]
    'transformer.h.1.ln_1.weight'
    """
    found: Names = {
        "embed.weight": "transformer.wte.weight",
        "place.weight": "transformer.wpe.weight",
        "leave.weight": "transformer.ln_f.weight",
        "leave.bias": "transformer.ln_f.bias",
    }
    for l in range(model.num_layers):  # type: ignore[arg-type]  # noqa: E741
        for ours, theirs in _LAYER.items():
            weight = f"transformer.h.{l}.{theirs}.weight"
            found[f"layers.{l}.{ours}.weight"] = weight if ours.endswith("norm") else transposed(weight)
            found[f"layers.{l}.{ours}.bias"] = f"transformer.h.{l}.{theirs}.bias"
    if model.head is not None:
        found["head.weight"] = "lm_head.weight"
    return found


def tied(model: nn.Module) -> dict[str, str]:
    """Copies that a file may hold -> of which tensor.

    >>> tied(GPT.tiny())
    {'lm_head.weight': 'transformer.wte.weight'}
    """
    return {"lm_head.weight": "transformer.wte.weight"} if model.head is None else {}


_LAYER = {
    "look.norm": "ln_1",
    "look.branch.query_key_value": "attn.c_attn",
    "look.branch.out": "attn.c_proj",
    "think.norm": "ln_2",
    "think.branch.widen": "mlp.c_fc",
    "think.branch.narrow": "mlp.c_proj",
}
